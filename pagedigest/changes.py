"""The CHANGES block of a digest: its entries, and how they are written.

Enters: a `ChangeList` (`change_list` makes it from a transition). Leaves: the block's text within a token limit, each line with
the id to act on. An id stands in brackets, `[60]`, only where the text does not print it elsewhere, so that no id is
listed twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pagedigest.tokens import TokenCounter
from region4web.axtree import AXNode, AXTree, StateValue
from region4web.render import plain_text

__all__ = [
    "Change",
    "ChangeLine",
    "ChangeList",
    "RenderedChanges",
    "alert_texts",
    "is_plain",
    "render_changes",
    "shortened_value",
    "value_text",
]

ALERT_ROLES = frozenset({"alert", "alertdialog", "status", "log"})
POPUP_ROLES = frozenset({"dialog", "alertdialog", "menu", "listbox", "tooltip", "tree", "grid"})
PLAIN_ROLES = frozenset({"generic", "none"})
NAME_LIMIT = 160
"""Longest name or value on a line, in characters."""

TOLD_IN_PLACE = frozenset({"update", "focus", "moved", "replaced", "removed"})
"""Kinds of changes of elements that were there before: the regions' lines say what they are now."""

Kind = Literal["alert", "popup", "focus", "update", "added", "moved", "replaced", "removed"]


@dataclass(frozen=True)
class ChangeLine:
    """One line: `before`, an id (None: the line names no element to act on), `after`; `depth` in tabs."""

    after: str
    id: str | None = None
    before: str = ""
    depth: int = 0

    def text(self, printed: Collection[str]) -> str:
        """The line; the id in brackets unless it is printed elsewhere."""
        key = "" if self.id is None else self.id if self.id in printed else f"[{self.id}]"
        return "\t" * (self.depth + 1) + " ".join(part for part in (self.before, key, self.after) if part)


@dataclass(frozen=True)
class Change:
    """One entry of the list: a headline and, for a group, the lines under it."""

    kind: Kind
    region: int
    lines: tuple[ChangeLine, ...]


@dataclass(frozen=True)
class ChangeList:
    """All changes since entry, most urgent first.

    `region_of[j]` is the region of current node j; a new node belongs to that of the node it hangs below. `moved_away`
    are entry nodes that are listed under `moved` instead of at their old place. `folded` counts lines of added groups
    that are not listed and elements of reordered lists, `unnamed` removed, re-rendered or reordered elements that no line names.
    """

    changes: tuple[Change, ...]
    region_of: tuple[int, ...] = field(repr=False)
    moved_away: frozenset[int] = frozenset()
    folded: int = 0
    unnamed: int = 0

    def __len__(self) -> int:
        return len(self.changes)


@dataclass(frozen=True)
class RenderedChanges:
    """The block's text and the ids that it lists in brackets, in text order."""

    text: str
    ids: tuple[str, ...]
    left_out: int = 0


def render_changes(title: str, changes: Sequence[Change], *, printed: Collection[str], counter: TokenCounter, limit_tokens: int,
                   notes: Sequence[str] = (), told_tokens: int | None = None) -> RenderedChanges:  # fmt: skip
    """The block, at most `limit_tokens` long; what does not fit is counted in its last line.

    Changes that list nothing new (`TOLD_IN_PLACE`) take at most `told_tokens` of it; those beyond are counted in the last line, not in `left_out`.
    """
    lines = [title, *(f"\t{plain_text(note)}" for note in notes)]
    ids: list[str] = []
    used = sum(counter.count(line + "\n") for line in lines)
    changes, in_place = _first_told(changes, printed, counter, told_tokens)
    total = sum(len(change.lines) for change in changes)
    reserve = counter.count("\t99999 more changed lines: view_all() shows them\n")
    said = 0
    listed = set(printed)
    for change in changes:
        for line in change.lines:
            text = line.text(listed)
            cost = counter.count(text + "\n")
            if used + cost + (reserve if said + 1 < total or in_place else 0) > limit_tokens:
                lines.append(f"\t{total - said + in_place} more changed lines: view_all() shows them")
                return RenderedChanges("\n".join(lines), tuple(ids), total - said)
            lines.append(text)
            used += cost
            said += 1
            if line.id is not None and line.id not in listed:
                ids.append(line.id)
                listed.add(line.id)
    if in_place:
        lines.append(f"\t{in_place} more changed lines: view_all() shows them")
    return RenderedChanges("\n".join(lines), tuple(ids))


def _first_told(
    changes: Sequence[Change], printed: Collection[str], counter: TokenCounter, limit_tokens: int | None
) -> tuple[list[Change], int]:
    """The changes without the lines told in place for which there is no room, and how many these are."""
    if limit_tokens is None:
        return list(changes), 0
    kept: list[Change] = []
    left_out = 0
    for change in changes:
        lines = change.lines
        if change.kind in TOLD_IN_PLACE:
            told = 0
            while told < len(lines) and limit_tokens > 0:
                limit_tokens -= counter.count(lines[told].text(printed) + "\n")
                told += limit_tokens >= 0
            left_out += len(lines) - told
            lines = lines[:told]
        if lines:
            kept.append(replace(change, lines=lines))
    return kept, left_out


def is_plain(node: AXNode) -> bool:
    """Whether a node is a wrapper that says nothing."""
    return node.role in PLAIN_ROLES and not node.name


def shortened_value(value: StateValue, limit: int = NAME_LIMIT) -> StateValue:
    return value if not isinstance(value, str) or len(value) <= limit else value[: limit - 1] + "\u2026"


def value_text(value: StateValue | None) -> str:
    """`false`, `absent`, `'text'`; CDP's tristates are text 'true' and 'false' and are written without quotes."""
    if value is None:
        return "absent"
    if isinstance(value, bool) or value in ("true", "false", "mixed"):
        return str(value).lower()
    return repr(shortened_value(value, 80))


def alert_texts(tree: AXTree, indices: Iterable[int] | None = None) -> dict[str, str]:
    """What alerts and status messages say now, by id: role and text, one line each."""
    texts: dict[str, str] = {}
    for i in range(len(tree)) if indices is None else indices:
        node = tree.nodes[i]
        if node.role in ("alert", "alertdialog", "status"):
            said = " ".join(tree.nodes[k].name for k in tree.subtree(i) if tree.nodes[k].name)
            if said:
                texts[node.id] = f"{node.role} {shortened_value(said)!r}"
    return texts
