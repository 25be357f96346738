"""Which ids an agent may act on, and what to say about the others.

Enters: each observation with its tree. Leaves: the node of an id, or an `ActionRefused` that tells what the id was, when
it went and what resembles it now. Ids stay good as long as their element is there and the page is the one that showed
them: acting on what was never read is how agents hit the wrong control.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pagedigest.observation import Observation
from region4web.axtree import AXNode, AXTree
from region4web.errors import Region4WebError

__all__ = ["ActionFailed", "ActionRefused", "ShownElements"]

CANDIDATES = 3
NAME_LIMIT = 60


class ActionRefused(ValueError):
    """The id is stale, was never shown, or does not take this action. `element_id` is the id; nothing was done."""

    def __init__(self, message: str, *, element_id: str = "") -> None:
        super().__init__(message)
        self.element_id = element_id


class ActionFailed(Region4WebError):
    """The browser could not do it: the element is covered, disabled, not editable. `element_id` is the id."""

    def __init__(self, message: str, *, element_id: str = "") -> None:
        super().__init__(message)
        self.element_id = element_id


@dataclass(frozen=True)
class _Seen:
    """An element as it was last shown."""

    node: AXNode
    step: int


class ShownElements:
    """What was shown of the current page, and its current tree."""

    def __init__(self) -> None:
        self._page: object = None
        self._shown: dict[str, _Seen] = {}
        self._earlier: dict[str, _Seen] = {}
        self._tree: AXTree | None = None
        self._region_of: Sequence[int] = ()
        self._step = 0

    def show(self, observation: Observation, tree: AXTree, region_of: Sequence[int]) -> None:
        """Take note of an observation of `tree`; `region_of` is the region number of each node."""
        page = observation.trace.get("page")
        if page != self._page:
            self._earlier.update(self._shown)
            self._shown, self._page = {}, page
        self._step = int(observation.trace.get("step", self._step + 1))
        self._tree, self._region_of = tree, region_of
        for key in {*self._shown, *observation.shown}:
            if (index := tree.index_of.get(key)) is not None:
                self._shown[key] = _Seen(tree.nodes[index], self._step)

    def node(self, element_id: str | int) -> AXNode:
        """The node to act on. Raises ActionRefused."""
        key = str(element_id).strip().strip("[]")
        tree = self._tree
        if tree is None:
            raise ActionRefused("nothing was observed yet: observe the page first", element_id=key)
        index = tree.index_of.get(key)
        if index is not None and key in self._shown:
            return self._acceptable(tree, index)
        if index is not None and tree.nodes[index].addressable:
            region = self._region_of[index] if index < len(self._region_of) else 0
            raise ActionRefused(
                f"[{key}] {_told(tree.nodes[index])} was not shown yet: read it first with view_region('R{region}')", element_id=key
            )
        seen = self._shown.get(key) or self._earlier.get(key)
        if seen is None:
            raise ActionRefused(f"no element [{key}] was shown on this page{self._resembling(None)}", element_id=key)
        went = f"was last there at step {seen.step}" if key in self._shown else "was on an earlier page"
        raise ActionRefused(f"[{key}] {_told(seen.node)} {went}{self._resembling(seen.node)}", element_id=key)

    def _acceptable(self, tree: AXTree, index: int) -> AXNode:
        node = tree.nodes[index]
        if node.role == "option" and (holder := _drop_down(tree, index)) is not None:
            raise ActionRefused(f"[{node.id}] is an option of [{holder.id}]: use select({holder.id!r}, {node.name!r})", element_id=node.id)
        if node.state("disabled") is True:
            raise ActionRefused(f"[{node.id}] {_told(node)} is disabled", element_id=node.id)
        return node

    def _resembling(self, gone: AXNode | None) -> str:
        """What there is now in its place: same role and the most similar names."""
        assert self._tree is not None
        now = [self._tree.nodes[i] for key in self._shown if (i := self._tree.index_of.get(key)) is not None]
        if gone is None:
            return f"; shown now are {len(now)} ids" + (f", such as [{now[0].id}] {_told(now[0])}" if now else "")
        likeness = {
            node.id: SequenceMatcher(None, gone.name.casefold(), node.name.casefold()).ratio() + 0.3 * (node.role == gone.role)
            for node in now
        }
        best = sorted(now, key=lambda node: -likeness[node.id])[:CANDIDATES]
        told = [f"[{node.id}] {_told(node)}" for node in best if likeness[node.id] > 0.7]
        return "; now there is " + ", ".join(told) if told else "; nothing like it is shown now, observe the page"


def _drop_down(tree: AXTree, option: int) -> AXNode | None:
    """The browser's own drop-down that holds an option; None for an option of the page's making, which is clicked."""
    popup = False
    for above in tree.ancestors(option):
        holder = tree.nodes[above]
        if holder.role == "combobox":
            return holder if popup else None
        popup = popup or holder.role == "MenuListPopup"
        if holder.role not in ("listbox", "MenuListPopup", "group", "generic"):
            return None
    return None


def _told(node: AXNode) -> str:
    name = node.name if len(node.name) <= NAME_LIMIT else node.name[: NAME_LIMIT - 1] + "\u2026"
    return f"{node.role} {name!r}"
