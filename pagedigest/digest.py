"""The digest: the text of a page that an agent reads (DESIGN "Digest text").

Enters: a `RegionMap` and a `Selection`. Leaves: a `Digest` whose token count never exceeds the budget. Without a budget
the open regions are printed in full. Under a budget lines are chosen by relevance per token, over all regions, and
printed in page order under their region's header; what was left out is said. Same input, same text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pagedigest.folding import beyond_long_lists, folds
from pagedigest.line_choice import LineChoice, varied
from pagedigest.lines import DigestLines, shortened
from pagedigest.selection import Selection
from pagedigest.tokens import TokenCounter
from pagedigest.words import task_text
from region4web.regions import RegionMap
from region4web.render import plain_text, render_tree

__all__ = ["BodyLine", "Digest", "DigestFrame", "compose_digest", "open_header", "region_purpose"]

NAME_LIMITS = ((300, 40), (700, 48), (1500, 60), (3000, 100))
"""Longest name on a line, in characters, up to a budget in tokens; above the last budget 200."""
FOCUS_FACTOR = 2
"""How much longer the names of the `FOCUS_NODES` most needed nodes may be."""
FOCUS_NODES = 3
HEADING_SHARE = 0.12
"""Part of a budget that the PAGE line may take before it is shortened."""
PURPOSE_SHARE = 0.12
"""Part of a budget that goes to the purposes of regions with no line shown."""
FOLD_SHARE = 0.06
"""Part of a budget that such lines may take."""
EXTRA_SHARES = ((150, (0.0, 0.0)), (700, (0.04, 0.02)), (1500, (0.08, 0.04)))
"""The two shares up to a budget in tokens."""
FOLD_BUDGET, FOLD_ROOM = 200, 16
"""From this budget on the longest fold is always told: there is room for one such line."""
CAPTION_BUDGET = 1500
"""Up to this budget, in tokens, numbers and dates are printed without the text that captions them."""
VALUE_ROLES = frozenset({"StaticText", "cell", "gridcell", "LayoutTableCell", "columnheader", "rowheader", "heading"})
CANDIDATES = 300
"""Nodes that are candidates for a line at least; half the budget where that is more."""
GROWTH_ROUNDS = 2
WORTHWHILE_ROOM = 12
"""Tokens left over that are worth another round."""
WHOLE_NAME_LIMIT = 4000
"""Longest name on a line where there is no budget."""
ADDRESS_WORDS = ("url", "href", "http", "link address", "hyperlink")
NOTE_LIMIT = 200


@dataclass(frozen=True)
class BodyLine:
    """A line between the PAGE line and the changes. `node` is the index of the node on it, -1 for other lines.

    `name_limit` is how long its name may be. The header of an open region has its number in `region` (else -1) and the
    number of lines that the region could show in `size`.
    """

    text: str
    node: int = -1
    name_limit: int = 0
    region: int = -1
    size: int = 0


@dataclass(frozen=True)
class Digest:
    """`text`; `shown` the ids on its lines, in text order; `open` the regions of which lines are shown; `tokens` of the
    text by the counter given; `folded` how many lines of the open regions were left out; `body` the lines of the regions."""

    text: str
    shown: tuple[str, ...]
    open: tuple[int, ...]
    tokens: int
    folded: int
    body: tuple[BodyLine, ...] = field(default=(), repr=False)


def compose_digest(
    region_map: RegionMap,
    selection: Selection,
    *,
    counter: TokenCounter,
    budget_tokens: int | None,
    task: str = "",
    hidden: Collection[int] = (),
    notes: Sequence[str] = (),
    changes: str = "",
    full_tokens: int | None = None,
) -> Digest:
    """The digest of a page.

    `hidden` are node indices not to print; `notes` lines under the PAGE line; `changes` a block put last, counted in the
    budget and never cut; `full_tokens` what the whole tree would take (counted here when None). Raises ValueError when
    the budget is not positive, or too small for `changes` alone.
    """
    tree = region_map.partition.tree
    if budget_tokens is not None and budget_tokens < 1:
        raise ValueError(f"budget_tokens must be positive or None, found {budget_tokens}")
    if full_tokens is None:
        full_tokens = counter.count(render_tree(tree))
    wanted = task_text(task).lower()
    lines = DigestLines(tree, hidden=hidden, with_addresses=any(word in wanted for word in ADDRESS_WORDS))
    frame = DigestFrame(region_map, counter, notes, changes, full_tokens, budget_tokens)
    if budget_tokens is None:
        return _whole(region_map, selection, lines, frame)
    return _Composition(region_map, selection, lines, frame, budget_tokens).digest()


class DigestFrame:
    """What stands around the regions: the PAGE line, notes, the changes."""

    def __init__(
        self, region_map: RegionMap, counter: TokenCounter, notes: Sequence[str], changes: str, full_tokens: int, budget: int | None
    ) -> None:
        tree = region_map.partition.tree
        self.counter = counter
        self._changes = changes.strip("\n")
        self._regions = len(region_map.partition)
        self._full = full_tokens
        title, url = plain_text(tree.title), plain_text(tree.url)
        self._starts = [
            f"PAGE {shortened(title, 80)} | {shortened(url, 120)}",
            f"PAGE {shortened(title, 50)} | {shortened(url, 60)}",
            f"PAGE {shortened(title, 30)}",
            "PAGE",
        ]
        self._notes = [shortened(plain_text(note), NOTE_LIMIT) for note in notes]
        self._level = 0
        if budget is not None:
            while self._level < 3 and counter.count(self._heading(self._regions, budget)) > HEADING_SHARE * budget:
                self._level += 1
            while self._notes and counter.count(self.text([], 0, 0)) > budget // 2:
                self._notes.pop()
            if self._changes and counter.count(self.text([], 0, 0)) > budget and counter.count(self._changes) > budget:
                raise ValueError(
                    f"budget_tokens={budget} is too small for the {counter.count(self._changes)} tokens of `changes`; shorten them"
                )

    def _heading(self, opened: int, used: int) -> str:
        return f"{self._starts[self._level]} | {opened} of {self._regions} regions open | {used} of {self._full} tokens"

    def text(self, body: Sequence[str], opened: int, used: int) -> str:
        parts = [self._heading(opened, used), *self._notes, *body]
        if self._changes:
            parts.append(self._changes)
        return "\n".join(parts)

    def finished(self, body: Sequence[str], opened: int) -> tuple[str, int]:
        """The text that states its own length, and that length."""
        used = self.counter.count(self.text(body, opened, 0))
        for _ in range(6):
            text = self.text(body, opened, used)
            count = self.counter.count(text)
            if count == used:
                return text, used
            used = max(used, count)
        return text, self.counter.count(text)

    def shortest(self, budget: int) -> tuple[str, int]:
        """What still fits when nothing else does: the changes, else the word PAGE, else nothing."""
        for text in (self._changes, "PAGE"):
            if text and (count := self.counter.count(text)) <= budget:
                return text, count
        return "", 0


def open_header(number: int, purpose: str, shown: int, size: int) -> str:
    """`R3 | Table of orders | open 5 of 12`."""
    return f"R{number} | {purpose} | open" + ("" if shown >= size else f" {shown} of {size}")


def region_purpose(region_map: RegionMap, number: int) -> str:
    """Purpose on one line; what a region holds where none was written."""
    purpose = plain_text(region_map.abstractions[number].purpose)
    if purpose:
        return shortened(purpose, 100)
    node = region_map.partition.tree.nodes[region_map.partition.roots[number]]
    return "Page" if number == 0 else shortened(f"{node.role} {plain_text(node.name)}".strip(), 60)


def _tree_depths(region_map: RegionMap, printed: Collection[int]) -> dict[int, int]:
    """Tabs of each printed node: one, and one more for each printed ancestor in its region."""
    partition = region_map.partition
    parent, region_of = partition.tree.parent.tolist(), partition.region_of.tolist()
    wanted = set(printed)
    depth: dict[int, int] = {}
    for i in sorted(wanted):
        p = parent[i]
        while p >= 0 and region_of[p] == region_of[i] and p not in wanted:
            p = parent[p]
        depth[i] = min(12, depth[p] + 1) if p >= 0 and region_of[p] == region_of[i] and p in depth else 1
    return depth


def _whole(region_map: RegionMap, selection: Selection, lines: DigestLines, frame: DigestFrame) -> Digest:
    """Open regions in full but for long lists, purposes of the others."""
    partition = region_map.partition
    opened = frozenset(selection.open)
    left_out = beyond_long_lists(partition, selection.node_scores)
    printable = {number: [i for i in partition.regions[number].members.tolist() if lines.printable[i]] for number in sorted(opened)}
    printed = {number: [i for i in members if i not in left_out] for number, members in printable.items()}
    told = folds(partition, [i for members in printed.values() for i in members], opened) if left_out else []
    body: list[BodyLine] = []
    shown: list[str] = []
    for number in range(len(partition)):
        purpose = region_purpose(region_map, number)
        if number not in opened:
            body.append(BodyLine(f"R{number} | {purpose}"))
            continue
        members, size = printed[number], len(printable[number])
        body.append(BodyLine(open_header(number, purpose, len(members), size), region=number, size=size))
        depth = _tree_depths(region_map, members)
        waiting = sorted((fold.place, fold.line) for fold in told if fold.region == number)
        for i in members:
            while waiting and waiting[0][0] <= i:
                body.append(BodyLine(waiting.pop(0)[1]))
            body.append(BodyLine("\t" * depth[i] + lines.line(i, WHOLE_NAME_LIMIT), i, WHOLE_NAME_LIMIT))
        body += [BodyLine(line) for _, line in waiting]
        shown += [lines.tree.nodes[i].id for i in members if lines.tree.nodes[i].addressable]
    text, tokens = frame.finished([line.text for line in body], len(opened))
    folded = sum(len(members) for members in printable.values()) - sum(len(members) for members in printed.values())
    return Digest(text, tuple(shown), tuple(sorted(opened)), tokens, folded, tuple(body))


class _Composition:
    """Chooses lines for one budget."""

    def __init__(self, region_map: RegionMap, selection: Selection, lines: DigestLines, frame: DigestFrame, budget: int) -> None:
        self._map, self._lines, self._frame, self._budget = region_map, lines, frame, budget
        self._partition = region_map.partition
        self._region_of = self._partition.region_of.tolist()
        self._scores = varied(self._partition.tree, selection.node_scores).tolist()
        self._region_order = np.argsort(-selection.region_scores, kind="stable").tolist()
        self._limit = next((limit for tokens, limit in NAME_LIMITS if budget <= tokens), 200)
        ranked = sorted((i for i in range(len(self._scores)) if lines.printable[i]), key=lambda i: (-self._scores[i], i))
        self._focus = frozenset(ranked[:FOCUS_NODES])
        self._sizes = np.bincount(
            self._partition.region_of[np.asarray(lines.printable, dtype=bool)], minlength=len(self._partition)
        ).tolist()
        self._shares = next((shares for tokens, shares in EXTRA_SHARES if budget <= tokens), (PURPOSE_SHARE, FOLD_SHARE))
        self._cost_of: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        candidates = [i for i in ranked if self._scores[i] > 0][: max(CANDIDATES, budget // 2)]
        self._choice = LineChoice(
            candidates, self._scores, self._labels(), self._region_of, line_cost=self._line_cost, header_cost=self._header_cost
        )

    def digest(self) -> Digest:
        frame = self._frame
        room = self._budget - frame.counter.count(frame.text([], len(self._partition), self._budget))
        self._choice.buy(room - int(self._budget * (self._shares[0] + self._shares[1])))
        extras, grown = 1.0, 0
        while True:
            body, shown, opened = self._body(self._choice.chosen, extras)
            text, tokens = frame.finished([line.text for line in body], len(opened))
            left = self._budget - tokens
            if left >= 0:
                if grown < GROWTH_ROUNDS and left >= WORTHWHILE_ROOM and self._choice.buy(left):
                    grown += 1
                    continue
                break
            grown = GROWTH_ROUNDS
            if not self._choice.chosen and extras <= 0:
                text, tokens = frame.shortest(self._budget)
                return Digest(text, (), (), tokens, 0)
            extras = max(0.0, extras - 0.5) if not self._choice.chosen else extras
            self._choice.give_back(-left)
        folded = sum(self._sizes[number] for number in opened) - len(set(self._choice.chosen))
        return Digest(text, tuple(shown), tuple(sorted(opened)), tokens, folded, tuple(body))

    def _labels(self) -> list[int]:
        """Labels that have a line; those of bare values only where the budget is not a small one."""
        nodes = self._partition.tree.nodes
        dear = self._budget <= CAPTION_BUDGET
        return [
            label if label >= 0 and self._lines.printable[label] and not (dear and nodes[i].role in VALUE_ROLES) else -1
            for i, label in enumerate(self._lines.label)
        ]

    def _name_limit(self, i: int) -> int:
        return self._limit * FOCUS_FACTOR if i in self._focus else self._limit

    def _text_of(self, i: int) -> str:
        if i not in self._texts:
            self._texts[i] = self._lines.line(i, self._name_limit(i))
        return self._texts[i]

    def _cost(self, text: str) -> int:
        cost = self._cost_of.get(text)
        if cost is None:
            cost = self._cost_of[text] = self._frame.counter.count(text)
        return cost

    def _line_cost(self, i: int) -> int:
        return self._cost("\n\t" + self._text_of(i))

    def _header(self, number: int, shown: int) -> str:
        return open_header(number, region_purpose(self._map, number), shown, self._sizes[number])

    def _header_cost(self, number: int) -> int:
        return self._cost("\n" + self._header(number, 0))

    def _body(self, chosen: Iterable[int], extras_share: float) -> tuple[list[BodyLine], list[str], set[int]]:
        nodes = self._partition.tree.nodes
        by_region: dict[int, list[int]] = {}
        printed = sorted(set(chosen))
        for i in printed:
            by_region.setdefault(self._region_of[i], []).append(i)
        depth = _tree_depths(self._map, printed)
        folds = self._fold_lines(
            by_region, int(max(self._budget * self._shares[1], FOLD_ROOM if self._budget >= FOLD_BUDGET else 0) * extras_share)
        )
        closed = [number for number in self._region_order if number not in by_region]
        room = int(self._budget * self._shares[0] * extras_share)
        told: dict[int, str] = {}
        for number in closed:
            header = f"R{number} | {region_purpose(self._map, number)}"
            cost = self._cost("\n" + header)
            if cost <= room:
                told[number] = header
                room -= cost
        body: list[BodyLine] = []
        shown: list[str] = []
        for number in range(len(self._partition)):
            if number in told:
                body.append(BodyLine(told[number]))
            if number not in by_region:
                continue
            body.append(BodyLine(self._header(number, len(by_region[number])), region=number, size=self._sizes[number]))
            waiting = folds.get(number, [])
            for i in by_region[number]:
                while waiting and waiting[0][0] <= i:
                    body.append(BodyLine(waiting.pop(0)[1]))
                body.append(BodyLine("\t" * depth[i] + self._text_of(i), i, self._name_limit(i)))
                if nodes[i].addressable:
                    shown.append(nodes[i].id)
            body += [BodyLine(line) for _, line in waiting]
        untold = [number for number in sorted(closed) if number not in told]
        if untold and extras_share > 0.5 and (self._shares[0] > 0 or not by_region):
            body.append(BodyLine(f"{len(untold)} more regions: {_ranges(untold)}"))
        return body, shown, set(by_region)

    def _fold_lines(self, by_region: dict[int, list[int]], room: int) -> dict[int, list[tuple[int, str]]]:
        """For each open region, (place, line) of lists of which rows are left out, longest first while there is room."""
        out: dict[int, list[tuple[int, str]]] = {}
        for fold in folds(self._partition, [i for members in by_region.values() for i in members], by_region):
            if (cost := self._cost("\n" + fold.line)) <= room:
                room -= cost
                out.setdefault(fold.region, []).append((fold.place, fold.line))
        return {number: sorted(entries) for number, entries in out.items()}


def _ranges(numbers: Sequence[int]) -> str:
    """`R3, R5..R9` of rising numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"R{a}" if a == b else f"R{a}, R{b}" if b == a + 1 else f"R{a}..R{b}" for a, b in runs)
