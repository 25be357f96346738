"""From a transition to the list of what to tell, region by region.

Enters: a transition, the current tree, the region of each entry node. Leaves: a `ChangeList`, most urgent first: alerts,
dialogs and menus; then states; then additions, moves, removals. What a reader would not call a change (a wrapper that came or
went, geometry) is left out. `changes` writes the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from pagedigest.changes import (
    ALERT_ROLES,
    NAME_LIMIT,
    POPUP_ROLES,
    Change,
    ChangeLine,
    ChangeList,
    Kind,
    is_plain,
    shortened_value,
    value_text,
)
from pagedigest.lines import DigestLines
from pagedigest.matching import same_document
from pagedigest.transition import FieldChange, Transition, Update, field_changes
from region4web.axtree import AXNode, AXTree

__all__ = ["IDS_LIMIT", "collect_changes"]

OPEN_UPDATES_LIMIT = 12
CLOSED_UPDATES_LIMIT = 5
"""Changed elements told one by one in an open region, where the digest shows them too, and in a closed one."""
ADDED_LINES_LIMIT = 40
"""Lines of one added group; the rest is counted."""
FIELD_DEPTH = 3
"""How far above its text a field is looked for."""
NAMED_LIMIT = 6
"""Removed, replaced or reordered elements that are named one by one."""
INERT_ROLES = frozenset(
    "generic none image img StaticText list listitem row cell gridcell rowgroup table paragraph heading section group region banner "
    "navigation main contentinfo complementary form article figure separator LineBreak LabelText".split()
)
"""Roles that nobody acts on: their new ids after a re-render are of no use."""
DEEPEST = 12
"""Tabs of a line at most."""
_ABOVE = AXNode("", "generic", addressable=False)
"""Stands above the nodes of a group."""
IDS_LIMIT = 40
"""Further ones of which at least the ids are given."""

_URGENCY: Mapping[Kind, int] = {"alert": 0, "popup": 1, "update": 2, "added": 3, "moved": 4, "replaced": 5, "removed": 6, "focus": 7}


def collect_changes(
    transition: Transition, current: AXTree, region_of: Sequence[int], *, open_regions: Collection[int], replaced_limit: int = NAMED_LIMIT
) -> ChangeList:
    """The changes of a transition to `current`; `region_of[i]` is the region of node i of the transition's entry tree.

    `replaced_limit`: how many re-rendered elements of one region are listed one by one.
    """
    return _Collector(transition, current, region_of, frozenset(open_regions), replaced_limit).collect()


class _Collector:
    """Reads one transition; the tables are filled once, in order of use."""

    def __init__(
        self, transition: Transition, current: AXTree, region_of: Sequence[int], open_regions: frozenset[int], replaced_limit: int
    ) -> None:
        self.transition, self.current, self.entry = transition, current, transition.entry
        self.open, self.replaced_limit = open_regions, replaced_limit
        self.current_of, self.entry_of = transition.matching.current_of, transition.matching.entry_of
        self.region_at_entry = region_of
        self.parent_now: list[int] = current.parent.tolist()
        self.parent_before: list[int] = self.entry.parent.tolist()
        self.region_now = self._regions_now()
        self.folded = self.unnamed = 0
        self.live = self._live_roots() if transition.updated or transition.placed else []

    def collect(self) -> ChangeList:
        changes: list[Change] = []
        moved_away: set[int] = set()
        if not self.transition.is_empty:
            changes.extend(self._updates())
            changes.extend(self._added())
            for change, away in self._moved():
                changes.append(change)
                moved_away.update(away)
            changes.extend(self._replaced())
            changes.extend(self._removed())
            changes.extend(self._focus())
        changes.sort(key=lambda change: _URGENCY[change.kind])
        return ChangeList(tuple(changes), tuple(self.region_now), frozenset(moved_away), self.folded, self.unnamed)

    def _regions_now(self) -> list[int]:
        """Region of each current node: its own at entry, else that of the nearest ancestor that was there."""
        regions = [0] * len(self.current)
        for j, i in enumerate(self.entry_of):
            regions[j] = self.region_at_entry[i] if i >= 0 else regions[self.parent_now[j]] if j else 0
        return regions

    def _updates(self) -> Iterator[Change]:
        told: dict[int, list[tuple[Update, tuple[FieldChange, ...]]]] = {}
        for update in self.transition.updated:
            fields = field_changes(update)
            if not fields:
                continue
            j = self.current.index_of[update.after.id]
            if j == 0:
                continue  # the page's title stands in the digest's first line
            if self.live[j] >= 0:
                yield Change("alert", self.region_now[j], (self._update_line(update, fields, self.region_now[j]),))
            else:
                told.setdefault(self.region_now[j], []).append((update, fields))
        for region, updates in told.items():
            limit = OPEN_UPDATES_LIMIT if region in self.open else CLOSED_UPDATES_LIMIT
            if len(updates) > limit + 1:
                yield Change("update", region, tuple(self._update_line(u, f, region) for u, f in updates[:limit]))
                more = updates[limit:]
                where = "shown in place" if region in self.open else f"see view_region('R{region}')"
                ids = (
                    f", ids {more[0][0].after.id}..{more[-1][0].after.id}"
                    if more[0][0].after.addressable and more[-1][0].after.addressable
                    else ""
                )
                yield Change("update", region, (ChangeLine(f"{len(more)} more changed elements{ids}, {where}", before=f"R{region}"),))
            else:
                yield Change("update", region, tuple(self._update_line(u, f, region) for u, f in updates))

    def _update_line(self, update: Update, fields: Sequence[FieldChange], region: int) -> ChangeLine:
        node = update.after
        name = update.before.name if any(f.name == "name" for f in fields) else node.name
        label = node.role if any(f.name == "name" for f in fields) or not name else f"{node.role} {shortened_value(name)!r}"
        told = ", ".join(f"{f.name}: {value_text(f.before)} -> {value_text(f.after)}" for f in fields)
        was = f" (was {update.before.id})" if update.replaced and node.role != "StaticText" else ""
        return ChangeLine(f"{label}{was} {told}", node.id if node.addressable else None, f"R{region}")

    def _live_roots(self) -> list[int]:
        """Nearest enclosing live region (alert, status, aria-live) of each current node, -1 where none."""
        live = [-1] * len(self.current)
        for j, node in enumerate(self.current.nodes):
            if node.role in ALERT_ROLES or (node.states and node.state("live") in ("assertive", "polite")):
                live[j] = j
            elif j:
                live[j] = live[self.parent_now[j]]
        return live

    def _added(self) -> Iterator[Change]:
        groups: dict[int, list[int]] = {}
        for j in range(1, len(self.current)):
            if self.entry_of[j] < 0 and self.entry_of[self.parent_now[j]] >= 0 and not self._repeats_value(j):
                groups.setdefault(self.region_now[j], []).append(j)
        for region, tops in groups.items():
            calm: list[int] = []
            for j in tops:
                kind, word = self._urgent(j)
                if kind is None:
                    calm.append(j)
                    continue
                yield Change(kind, region, self._group(f"new {word}", region, [j]))
            if calm and len(lines := self._group("new", region, calm)) > 1:
                yield Change("added", region, lines)

    def _repeats_value(self, j: int) -> bool:
        """Whether a new text says what the field around it has as its value, which the field's own change tells."""
        node = self.current.nodes[j]
        if node.role != "StaticText" or not node.name:
            return False
        for _ in range(FIELD_DEPTH):
            j = self.parent_now[j]
            if j < 0:
                return False
            if self.current.nodes[j].value == node.name:
                return True
        return False

    def _urgent(self, j: int) -> tuple[Literal["alert", "popup"] | None, str]:
        if self.live[j] >= 0:
            return "alert", "message"
        for k in self.current.subtree(j):
            node = self.current.nodes[k]
            if self.entry_of[k] < 0:
                if node.role in ALERT_ROLES and node.role != "alertdialog":
                    return "alert", "message"
                if node.role in POPUP_ROLES:
                    trigger = self._trigger(k)
                    modal = ", modal: the rest is blocked until it is closed" if node.state("modal") is True else ""
                    return "popup", f"{node.role}{f', popup of {trigger}' if trigger else ''}{modal}"
        return None, ""

    def _trigger(self, popup: int) -> str:
        """Id of the element that controls the popup; else of the one element that was expanded; else ''."""
        key = self.current.nodes[popup].id
        for node in self.current.nodes:
            if node.states and key in str(node.state("controls") or "").split():
                return node.id
        expanded = [
            update.after.id
            for update in self.transition.updated
            if update.after.addressable and update.after.state("expanded") is True and update.before.state("expanded") is not True
        ]
        return expanded[0] if len(expanded) == 1 else ""

    def _group(self, headline: str, region: int, tops: Sequence[int]) -> tuple[ChangeLine, ...]:
        """`new under R3` and the lines of the new nodes below `tops`."""
        lines = [line for j in tops for line in self._subtree_lines(j)]
        if len(lines) > ADDED_LINES_LIMIT + 1:
            rest = lines[ADDED_LINES_LIMIT:]
            self.folded += len(rest)
            ids = [line.id for line in rest if line.id is not None]
            span = f", ids {ids[0]}..{ids[-1]}" if ids else ""
            lines = [*lines[:ADDED_LINES_LIMIT], ChangeLine(f"{len(rest)} more new lines{span}", depth=1)]
        word, _, tail = headline.partition(" ")
        return (ChangeLine(f"{word} under R{region}{f' ({tail})' if tail else ''}"), *lines)

    def _subtree_lines(self, top: int) -> Iterator[ChangeLine]:
        """New nodes of one subtree; kept nodes that moved in are left to `moved`."""
        nodes: list[int] = []
        end = int(self.current.end[top])
        j = top
        while j < end:
            if self.entry_of[j] >= 0:
                j = int(self.current.end[j])
                continue
            nodes.append(j)
            j += 1
        return self._listed(nodes)

    def _listed(self, nodes: Sequence[int]) -> Iterator[ChangeLine]:
        """Lines of some of a subtree's nodes as a digest writes them, bare wrappers left out; `nodes` in preorder. A node hangs
        below its nearest ancestor among them."""
        parents = [-1]
        around = [(0, len(self.current))]  # place and end of what is open; `_ABOVE` is around all
        for k, j in enumerate(nodes, 1):
            while j >= around[-1][1]:
                around.pop()
            parents.append(around[-1][0])
            around.append((k, int(self.current.end[j])))
        part = AXTree((_ABOVE, *(self.current.nodes[j] for j in nodes)), np.asarray(parents, dtype=np.int32))
        lines = DigestLines(part)
        depth = [0] * len(part)
        for k in range(1, len(part)):
            node = part.nodes[k]
            above = depth[parents[k]]
            if not lines.printable[k] and node.role not in ALERT_ROLES and node.role not in POPUP_ROLES:
                depth[k] = above
                continue
            depth[k] = above + 1
            text = lines.line(k, NAME_LIMIT)
            key = node.id if node.addressable else None
            yield ChangeLine(text if key is None else text[len(key) + 3 :], key, depth=min(above + 1, DEEPEST))

    def _moved(self) -> Iterator[tuple[Change, list[int]]]:
        reordered: dict[int, list[int]] = {}
        for placement in self.transition.moved:
            j = self.current.index_of[placement.node.id]
            i = self.entry_of[j]
            p = self.parent_now[j]
            if not self._says_something(j):
                continue
            if self.current_of[self.parent_before[i]] == p:
                reordered.setdefault(p, []).append(j)
                continue
            if self._solid_now(j) == self._solid_before(i):
                continue  # only a wrapper came or went
            old, new = self.region_at_entry[i], self._region_above(j)
            kept = [k for k in self.current.subtree(j) if self.entry_of[k] >= 0]
            away = [self.entry_of[k] for k in kept]
            lines = [ChangeLine(f"moved from R{old} to R{new}" if old != new else f"moved within R{new}"), *self._listed(kept)]
            yield Change("moved", new, tuple(lines)), away
        for p, movers in reordered.items():
            region = self.region_now[p]
            if len(movers) > NAMED_LIMIT:
                order = [self.current.nodes[c].id for c in self.current.children[p] if self.current.nodes[c].addressable]
                self.unnamed += max(0, len(order) - IDS_LIMIT)
                self.folded += len(movers)
                first = ", ".join(order[:IDS_LIMIT]) + (", ..." if len(order) > IDS_LIMIT else "")
                yield Change("moved", region, (ChangeLine(f"order changed, now ids {first}", before=f"R{region}"),)), []
            else:
                yield Change("moved", region, tuple(self._move_line(j, region) for j in movers)), []

    def _move_line(self, j: int, region: int) -> ChangeLine:
        node = self.current.nodes[j]
        siblings = self.current.children[self.parent_now[j]]
        at = siblings.index(j)
        where = "to the first place" if at == 0 else f"after {self.current.nodes[siblings[at - 1]].id}"
        return ChangeLine(f"{node.role} {shortened_value(node.name)!r} moved {where}", node.id if node.addressable else None, f"R{region}")

    def _region_above(self, j: int) -> int:
        return self.region_now[self.parent_now[j]]

    def _says_something(self, j: int) -> bool:
        return any(not is_plain(node) for node in (self.current.nodes[k] for k in self.current.subtree(j)))

    def _solid_now(self, j: int) -> int:
        """Nearest ancestor that is more than a wrapper, in both trees if it is in both; 0 at the top."""
        j = self.parent_now[j]
        while j > 0:
            i = self.entry_of[j]
            if not is_plain(self.current.nodes[j]) and (i < 0 or not is_plain(self.entry.nodes[i])):
                return j
            j = self.parent_now[j]
        return 0

    def _solid_before(self, i: int) -> int:
        """The same for an entry node, as an index of the current tree; -1 when that ancestor is gone."""
        i = self.parent_before[i]
        while i > 0:
            j = self.current_of[i]
            if not is_plain(self.entry.nodes[i]) and (j < 0 or not is_plain(self.current.nodes[j])):
                return j
            i = self.parent_before[i]
        return 0

    def _replaced(self) -> Iterator[Change]:
        by_region: dict[int, list[Update]] = {}
        if same_document(self.entry, self.current) is False:
            self.unnamed += sum(update.replaced for update in self.transition.updated)
            return  # a reload: every id is new, and the digest lists them
        for update in self.transition.updated:
            node = update.after
            if (
                update.replaced
                and update.before is not self.entry.nodes[0]
                and (node.clickable or node.role not in INERT_ROLES)
                and not field_changes(update)
            ):
                by_region.setdefault(self.region_now[self.current.index_of[node.id]], []).append(update)
        for region, updates in by_region.items():
            if len(updates) > self.replaced_limit:
                self.unnamed += len(updates)
                a, b = updates[0], updates[-1]
                text = f"replaced: {a.before.id}..{b.before.id} -> {a.after.id}..{b.after.id}, {len(updates)} elements were re-rendered"
                yield Change("replaced", region, (ChangeLine(text, before=f"R{region}"),))
            else:
                yield Change("replaced", region, tuple(
                    ChangeLine(f"{u.after.role} {shortened_value(u.after.name)!r}", u.after.id, f"R{region} replaced: {u.before.id} ->") for u in updates
                ))  # fmt: skip

    def _removed(self) -> Iterator[Change]:
        removed = set(self.transition.removed)
        tops: dict[int, list[int]] = {}
        for i in self.transition.removed:
            node = self.entry.nodes[i]
            above = self.parent_before[i]
            while above in removed and is_plain(self.entry.nodes[above]):
                above = self.parent_before[above]
            if above not in removed and not (is_plain(node) and not node.clickable):
                tops.setdefault(self.region_at_entry[i], []).append(i)
        for region, roots in tops.items():
            named = [self._removed_text(i) for i in roots[:NAMED_LIMIT]]
            if more := roots[NAMED_LIMIT:]:
                ids = [self.entry.nodes[i].id for i in more if self.entry.nodes[i].addressable]
                self.unnamed += max(0, len(ids) - IDS_LIMIT)
                named.append(
                    f"{len(more)} more" + (f" ({', '.join(ids[:IDS_LIMIT])}{', ...' if len(ids) > IDS_LIMIT else ''})" if ids else "")
                )
            yield Change("removed", region, (ChangeLine("removed: " + ", ".join(named), before=f"R{region}"),))

    def _removed_text(self, i: int) -> str:
        node = self.entry.nodes[i]
        below = len(self.entry.subtree(i)) - 1
        key = f"{node.id} " if node.addressable else ""
        return f"{key}{node.role} {shortened_value(node.name, 60)!r}" + (f" with {below} below" if below else "")

    def _focus(self) -> Iterator[Change]:
        before, now = _focused(self.entry), _focused(self.current)
        if now is not None and (before is None or self.current_of[before] != now):
            node = self.current.nodes[now]
            if now and node.addressable:
                yield Change(
                    "focus",
                    self.region_now[now],
                    (ChangeLine(f"focus is on {node.id} {node.role} {shortened_value(node.name, 60)!r}"),),
                )


def _focused(tree: AXTree) -> int | None:
    """The deepest node that says it has the focus."""
    found = None
    for i, node in enumerate(tree.nodes):
        if node.states and node.state("focused") is True:
            found = i
    return found
