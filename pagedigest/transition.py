"""What changed between two trees of one page, as an edit script.

Enters: the tree at entry and the current one. Leaves: a `Transition`: elements removed, elements updated (content, or
re-created under a new id), elements placed (added, or moved to another parent or another place among their siblings).
Law: `transition.apply(entry) == current`. Linear in the number of nodes, save for lists whose order changed (n log n).
Nothing here knows regions or text; `changes` renders it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np

from pagedigest.matching import Matching, match_trees
from region4web.axtree import AXNode, AXTree, StateValue

__all__ = ["FieldChange", "Placement", "Transition", "Update", "diff", "field_changes"]

FALSE_WHEN_ABSENT = frozenset(
    {"disabled", "focused", "required", "busy", "modal", "atomic", "multiselectable", "hidden", "readonly", "blocked"}
)
"""States that a browser leaves out when they are false: their absence is `false`, not `absent`."""

_UNTOLD_STATES = frozenset({"focused", "blocked"})


@dataclass(frozen=True)
class FieldChange:
    """One field or state of an element: `checked: false -> true`. None means absent."""

    name: str
    before: StateValue | None
    after: StateValue | None


@dataclass(frozen=True)
class Update:
    """One element whose content differs; its id differs too where a re-render created it anew."""

    before: AXNode
    after: AXNode

    @property
    def replaced(self) -> bool:
        """Whether the element has a new id to act with."""
        return self.before.id != self.after.id and self.before.addressable and self.after.addressable


@dataclass(frozen=True)
class Placement:
    """A node put below `parent`, right after its sibling `after` (None: as first child); ids of the current tree.

    `origin` is the id it had in the entry tree when it moved, None when it is new.
    """

    node: AXNode
    parent: str
    after: str | None
    origin: str | None = None


@dataclass(frozen=True)
class Transition:
    """Edit script from `entry` to the current tree. `placed` is in the preorder of the current tree."""

    entry: AXTree = field(repr=False)
    matching: Matching = field(repr=False)
    removed: tuple[int, ...]
    updated: tuple[Update, ...]
    placed: tuple[Placement, ...]
    url: str = ""
    title: str = ""
    viewport: tuple[int, int] = (1280, 720)
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> tuple[Placement, ...]:
        """Elements that the entry tree does not hold."""
        return tuple(p for p in self.placed if p.origin is None)

    @property
    def moved(self) -> tuple[Placement, ...]:
        """Elements at another place than in the entry tree."""
        return tuple(p for p in self.placed if p.origin is not None)

    @property
    def is_empty(self) -> bool:
        """Whether the trees hold the same nodes in the same places."""
        return not (self.removed or self.updated or self.placed)

    @property
    def gone_share(self) -> float:
        """Share of the entry tree's nodes that are no longer there.

        A node made anew with another text is another node; one made anew without a name tells neither way.
        """
        gone = len(self.removed)
        undecided = 0
        for update in self.updated:
            before, after = update.before, update.after
            if not (before.addressable and after.addressable) or before.id == after.id or _same_backend(before, after):
                continue
            if before.name != after.name:
                gone += 1
            elif not before.name:
                undecided += 1
        return gone / max(1, len(self.entry) - undecided)

    def apply(self, tree: AXTree) -> AXTree:
        """The current tree, made from the entry tree and this script alone. Raises ValueError on another tree."""
        if tree != self.entry:
            raise ValueError("a transition applies to the tree it was made from")
        return _apply(self, tree)


def diff(entry: AXTree, current: AXTree) -> Transition:
    """The edit script that turns `entry` into `current`."""
    matching = match_trees(entry, current)
    current_of, entry_of = matching.current_of, matching.entry_of
    updated = []
    for i, j in enumerate(current_of):
        if j >= 0:
            before, after = entry.nodes[i], current.nodes[j]
            if before is not after and before != after:
                updated.append(Update(before, after))
    return Transition(
        entry=entry,
        matching=matching,
        removed=tuple(i for i, j in enumerate(current_of) if j < 0),
        updated=tuple(updated),
        placed=tuple(_placements(entry, current, current_of, entry_of)),
        url=current.url,
        title=current.title,
        viewport=current.viewport,
        notes=current.notes,
    )


def field_changes(update: Update) -> tuple[FieldChange, ...]:
    """What a reader would call changed, in a fixed order: role, name, value, states, visibility, address, description.

    Left out: geometry, the id (that is `Update.replaced`), and what a page has once and the digest tells by itself:
    focus, and the controls that an overlay blocks.
    """
    before, after = update.before, update.after
    changes = [
        FieldChange(name, a, b)
        for name, a, b in (("role", before.role, after.role), ("name", before.name, after.name), ("value", before.value, after.value))
        if a != b
    ]
    if before.states != after.states:
        changes.extend(_state_changes(dict(before.states), dict(after.states)))
    if before.visible != after.visible:
        changes.append(FieldChange("visible", before.visible, after.visible))
    if before.url != after.url and (target := _address_change(before.url, after.url)) is not None:
        changes.append(target)
    if before.description != after.description:
        changes.append(FieldChange("description", before.description or None, after.description or None))
    return tuple(changes)


def _same_backend(a: AXNode, b: AXNode) -> bool:
    return a.backend_id is not None and (a.frame, a.backend_id) == (b.frame, b.backend_id)


def _state_changes(before: dict[str, StateValue], after: dict[str, StateValue]) -> Iterator[FieldChange]:
    for name in (*before, *(name for name in after if name not in before)):
        absent = False if name in FALSE_WHEN_ABSENT else None
        a, b = before.get(name, absent), after.get(name, absent)
        if name not in _UNTOLD_STATES and a != b:
            yield FieldChange(name, a, b)


def _address_change(before: str | None, after: str | None) -> FieldChange | None:
    """A link that leads elsewhere; a query alone is mostly a token or a timestamp, and is left out."""
    a, b = _path(before), _path(after)
    return None if a == b else FieldChange("url", a or None, b or None)


def _path(address: str | None) -> str:
    if address is None:
        return ""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return f"{parts.netloc}{parts.path}" + (f"#{parts.fragment}" if parts.fragment else "")


def _placements(entry: AXTree, current: AXTree, current_of: tuple[int, ...], entry_of: tuple[int, ...]) -> Iterator[Placement]:
    """Every current node that is new, has another parent, or leaves the order of its siblings."""
    parent_before, parent_now = entry.parent.tolist(), current.parent.tolist()
    m = len(current)
    stays = [False] * m
    stays[0] = True
    last_kept = [-1] * m  # entry index of the last staying child seen, by current parent
    disordered: set[int] = set()
    for j in range(1, m):
        i, p = entry_of[j], parent_now[j]
        if i > 0 and current_of[parent_before[i]] == p:
            stays[j] = True
            if i < last_kept[p]:
                disordered.add(p)
            last_kept[p] = i
    for p in disordered:
        kept = [j for j in current.children[p] if stays[j]]
        rising = set(_longest_rising([entry_of[j] for j in kept]))
        for j in kept:
            stays[j] = entry_of[j] in rising
    last_child = [-1] * m
    for j in range(1, m):
        p = parent_now[j]
        previous, last_child[p] = last_child[p], j
        if not stays[j]:
            i = entry_of[j]
            yield Placement(
                current.nodes[j],
                current.nodes[p].id,
                None if previous < 0 else current.nodes[previous].id,
                None if i < 0 else entry.nodes[i].id,
            )


def _longest_rising(values: list[int]) -> list[int]:
    """A longest rising subsequence of distinct numbers: what stays when the rest moves."""
    tails: list[int] = []
    at: list[int] = []  # position in `values` of each tail
    before = [-1] * len(values)
    for k, value in enumerate(values):
        length = bisect_left(tails, value)
        before[k] = at[length - 1] if length else -1
        if length == len(tails):
            tails.append(value)
            at.append(k)
        else:
            tails[length], at[length] = value, k
    rising = []
    k = at[-1] if at else -1
    while k >= 0:
        rising.append(values[k])
        k = before[k]
    return rising[::-1]


def _apply(transition: Transition, tree: AXTree) -> AXTree:
    after = {update.before.id: update.after for update in transition.updated}
    leaves = {tree.nodes[i].id for i in transition.removed}
    leaves.update(p.origin for p in transition.placed if p.origin is not None)
    gone = {tree.nodes[i].id for i in transition.removed}
    node_of: dict[str, AXNode] = {}
    first: dict[str, str | None] = {}  # first child, by id in the current tree
    following: dict[str, str | None] = {}  # next sibling
    last: dict[str, str] = {}
    for i, node in enumerate(tree.nodes):
        now = after.get(node.id, node)
        if node.id in gone:
            continue
        node_of[now.id] = now
        first.setdefault(now.id, None)
        following[now.id] = None
        if i and node.id not in leaves:
            before = tree.nodes[int(tree.parent[i])]
            parent = after.get(before.id, before).id
            if parent in last:
                following[last[parent]] = now.id
            else:
                first[parent] = now.id
            last[parent] = now.id
    for placement in transition.placed:
        node = placement.node
        node_of[node.id] = node
        first.setdefault(node.id, None)
        if placement.after is None:
            following[node.id] = first.get(placement.parent)
            first[placement.parent] = node.id
        else:
            following[node.id] = following[placement.after]
            following[placement.after] = node.id
    root = tree.nodes[0]
    nodes: list[AXNode] = []
    parents: list[int] = []
    stack: list[tuple[str, int]] = [(after.get(root.id, root).id, -1)]
    while stack:
        key, parent_index = stack.pop()
        index = len(nodes)
        nodes.append(node_of[key])
        parents.append(parent_index)
        sibling = following.get(key) if parent_index >= 0 else None
        if sibling is not None:
            stack.append((sibling, parent_index))
        child = first.get(key)
        if child is not None:
            stack.append((child, index))
    return AXTree(
        nodes=tuple(nodes),
        parent=np.asarray(parents, dtype=np.int32),
        url=transition.url,
        title=transition.title,
        viewport=transition.viewport,
        notes=transition.notes,
    )
