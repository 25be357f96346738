"""The accessibility tree that everything else reads.

Enters: a `Snapshot`, a BrowserGym observation, or BrowserGym's flattened text. Leaves: an `AXTree`, nodes in preorder
with flat arrays beside them. Building happens in `preprocessing` and `flattened`; nothing here changes a tree.

Symbols: N nodes, in preorder; an edge is named by its child, so there are N - 1 edges and arrays over edges have
length N with entry 0 unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from region4web.snapshot import Box

if TYPE_CHECKING:
    from region4web.snapshot import Snapshot

__all__ = ["AXNode", "AXTree", "IntArray", "StateValue"]

StateValue = str | bool | int | float
IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class AXNode:
    """One element.

    `id` is what an agent acts with and is unique in its tree: the BrowserGym `bid` if there is one, else the backend
    node id; nodes of other frames carry a frame prefix (`f1:12`). A node that nothing can act on by id (a text of a
    BrowserGym page, generated content) has `addressable=False`; its id only tells nodes apart and is never printed.
    `value` is None where the element has no value. `states` are CDP properties in the browser's order, without `url`.
    `box` is None when the element was not laid out or boxes are not known. `visible` is True unless the capture saw
    that the element cannot be seen.
    """

    id: str
    role: str
    name: str = ""
    value: StateValue | None = None
    states: tuple[tuple[str, StateValue], ...] = ()
    url: str | None = None
    description: str = ""
    backend_id: int | None = None
    frame: str = ""
    box: Box | None = None
    visible: bool = True
    clickable: bool = False
    addressable: bool = True

    def state(self, name: str) -> StateValue | None:
        """The state called `name`, or None."""
        for key, value in self.states:
            if key == name:
                return value
        return None


@dataclass(frozen=True)
class AXTree:
    """Nodes in preorder with `parent[0] == -1` and `parent[i] < i`; the subtree of i is `range(i, end[i])`.

    `aliases` maps ids of elements that preprocessing dropped to the index of the nearest kept descendant, else
    ancestor. `repairs` says what was malformed in the source and how it was mended, one line a kind. `notes` are the
    capture's. Equality compares content, not arrays' identity.
    """

    nodes: tuple[AXNode, ...]
    parent: IntArray = field(repr=False)
    url: str = ""
    title: str = ""
    viewport: tuple[int, int] = (1280, 720)
    aliases: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.nodes)
        parent = np.array(self.parent, dtype=np.int32)
        if n == 0:
            raise ValueError("a tree has at least one node")
        if parent.shape != (n,):
            raise ValueError(f"parent must have shape ({n},), found {parent.shape}")
        if parent[0] != -1 or (n > 1 and not (np.all(parent[1:] >= 0) and np.all(parent[1:] < np.arange(1, n)))):
            raise ValueError("parent[0] must be -1 and 0 <= parent[i] < i: nodes must be in preorder")
        if not _is_preorder(parent):
            raise ValueError("nodes must be in preorder: every subtree a contiguous range")
        parent.setflags(write=False)
        object.__setattr__(self, "parent", parent)
        if len(self.index_of) != n:
            seen: set[str] = set()
            twice = next(node.id for node in self.nodes if node.id in seen or seen.add(node.id))  # type: ignore[func-returns-value]
            raise ValueError(f"node ids must be unique, {twice!r} occurs twice")

    def __len__(self) -> int:
        return len(self.nodes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AXTree):
            return NotImplemented
        return (
            self.nodes == other.nodes and np.array_equal(self.parent, other.parent) and (self.url, self.title) == (other.url, other.title)
        )

    def __hash__(self) -> int:
        return hash((self.url, self.title, self.nodes))

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """Index of each node by id."""
        return {node.id: i for i, node in enumerate(self.nodes)}

    @cached_property
    def end(self) -> IntArray:
        """(N,) one past the last node of each subtree."""
        end = list(range(1, len(self.nodes) + 1))
        parent = self.parent.tolist()
        for i in range(len(end) - 1, 0, -1):
            p = parent[i]
            if end[i] > end[p]:
                end[p] = end[i]
        return np.asarray(end, dtype=np.int32)

    @cached_property
    def depth(self) -> IntArray:
        """(N,) edges from the root."""
        depth = [0] * len(self.nodes)
        for i, p in enumerate(self.parent.tolist()):
            if i:
                depth[i] = depth[p] + 1
        return np.asarray(depth, dtype=np.int32)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each node, in document order."""
        lists: list[list[int]] = [[] for _ in self.nodes]
        for i, p in enumerate(self.parent.tolist()):
            if i:
                lists[p].append(i)
        return tuple(map(tuple, lists))

    def subtree(self, i: int) -> range:
        """Indices of the subtree of node i, i first."""
        return range(i, int(self.end[i]))

    def ancestors(self, i: int) -> Iterator[int]:
        """Indices from the parent of node i up to the root."""
        i = int(self.parent[i])
        while i >= 0:
            yield i
            i = int(self.parent[i])

    def find(self, node_id: str | int) -> int | None:
        """Index of the node with this id; of the nearest kept one if preprocessing dropped it; else None."""
        key = str(node_id)
        found = self.index_of.get(key)
        return self.aliases.get(key) if found is None else found

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> AXTree:
        """Preprocess a snapshot's nodes (see `preprocessing`). Raises SnapshotError."""
        from region4web.preprocessing import preprocess_snapshot

        return preprocess_snapshot(snapshot)

    @classmethod
    def from_browsergym(cls, observation: Mapping[str, Any]) -> AXTree:
        """Read `axtree_object` and `extra_element_properties` of a BrowserGym observation. Raises SnapshotError."""
        from region4web.preprocessing import preprocess_browsergym

        return preprocess_browsergym(observation)

    @classmethod
    def from_text(cls, text: str, *, url: str = "", title: str = "") -> AXTree:
        """Parse BrowserGym's flattened text. `render.render_tree` writes it back. Raises SnapshotError."""
        from region4web.flattened import parse_flattened

        return parse_flattened(text, url=url, title=title)


def _is_preorder(parent: IntArray) -> bool:
    """Whether each node's parent lies on the path from the root to the node before it."""
    parents = parent.tolist()
    path = [0]
    for i in range(1, len(parents)):
        p = parents[i]
        while path and path[-1] != p:
            path.pop()
        if not path:
            return False
        path.append(i)
    return True
