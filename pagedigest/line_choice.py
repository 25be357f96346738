"""Which lines a token budget buys: relevance per token, greedily.

Enters: node scores, the cost of lines and of region headers. Leaves: nodes in the order of their choice. A region's header
is paid with its first line; a look-alike or nameless element is bought together with the line that tells it apart.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXTree

__all__ = ["LineChoice", "varied"]

LEAST_COST = 3
"""Room, in tokens, below which no line is looked for."""


ALIKE_UNDISCOUNTED = 4
"""Elements of one kind in one list whose scores count in full."""
LONE_CONTROL_SHARE = 0.01
LONE_ROLES = frozenset({"button", "textbox", "searchbox", "combobox", "checkbox", "radio", "switch", "slider", "spinbutton", "tab"})
ROW_ROLES = frozenset({"row", "listitem", "article", "LayoutTableRow"})


def varied(tree: AXTree, scores: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """(N,) scores with like elements of one list discounted: the k-th best of a kind by (`ALIKE_UNDISCOUNTED` / k) ** 1.5.

    So that a list of hundreds of like rows does not crowd out the one other button of the page, which counts at least
    `LONE_CONTROL_SHARE` of the best node. Elements are alike when they have one role and hang below one list, in whichever row.
    """
    parent = tree.parent.tolist()
    nodes = tree.nodes
    row = [0] * len(nodes)
    group: dict[tuple[int, str], list[int]] = {}
    for i in range(1, len(nodes)):
        p = parent[i]
        row[i] = p if nodes[p].role in ROW_ROLES else row[p]
        group.setdefault((parent[row[i]] if row[i] else p, nodes[i].role), []).append(i)
    out = np.asarray(scores, dtype=np.float64).copy()
    floor = LONE_CONTROL_SHARE * float(out.max(initial=0.0))
    for (_, role), members in group.items():
        if role in LONE_ROLES and len(members) < ALIKE_UNDISCOUNTED:
            at = np.asarray(members)
            out[at] = np.where(out[at] > 0, np.maximum(out[at], floor), 0.0)
        if len(members) > ALIKE_UNDISCOUNTED:
            at = np.asarray(members)
            best = at[np.argsort(-out[at], kind="stable")]
            out[best[ALIKE_UNDISCOUNTED:]] *= (ALIKE_UNDISCOUNTED / np.arange(ALIKE_UNDISCOUNTED + 1, len(best) + 1)) ** 1.5
    return out


class LineChoice:
    """Buys lines for as much room as it is given, and can be given more.

    `candidates` are nodes in falling order of `scores`; `label[i]` is the node whose line tells i apart (-1: none);
    `line_cost(i)` and `header_cost(r)` are in tokens.
    """

    def __init__(
        self,
        candidates: Sequence[int],
        scores: Sequence[float],
        label: Sequence[int],
        region_of: Sequence[int],
        *,
        line_cost: Callable[[int], int],
        header_cost: Callable[[int], int],
    ) -> None:
        self.chosen: list[int] = []
        self._scores, self._label, self._region_of = scores, label, region_of
        self._line_cost, self._header_cost = line_cost, header_cost
        self._taken: set[int] = set()
        self._opened: set[int] = set()
        self._members: dict[int, list[int]] = {}
        self._heap: list[tuple[float, int]] = []
        for i in candidates:
            self._members.setdefault(region_of[i], []).append(i)
            self._heap.append((-scores[i] / self._price(i), i))
        heapq.heapify(self._heap)

    def buy(self, room: int) -> int:
        """Choose lines for `room` tokens; returns how many lines that gave."""
        before = len(self.chosen)
        dear: list[tuple[float, int]] = []
        while self._heap and room >= LEAST_COST:
            density, i = heapq.heappop(self._heap)
            if i in self._taken:
                continue
            cost = self._price(i)
            if cost > room:
                dear.append((density, i))
                continue
            room -= cost
            for k in self._needed(i):
                self._take(k)
        for entry in dear:
            heapq.heappush(self._heap, entry)
        return len(self.chosen) - before

    def give_back(self, tokens: int) -> None:
        """Undo the last choices until their lines make up `tokens`; they are not chosen again."""
        while self.chosen and tokens > 0:
            tokens -= self._line_cost(self.chosen.pop())

    def _needed(self, i: int) -> tuple[int, ...]:
        label = self._label[i]
        return (label, i) if label >= 0 and label not in self._taken else (i,)

    def _price(self, i: int) -> int:
        needed = self._needed(i)
        cost = sum(self._line_cost(k) for k in needed)
        return cost + sum(self._header_cost(number) for number in {self._region_of[k] for k in needed} - self._opened)

    def _take(self, i: int) -> None:
        self._taken.add(i)
        self.chosen.append(i)
        number = self._region_of[i]
        if number not in self._opened:
            self._opened.add(number)
            for other in self._members.get(number, ()):  # cheaper now that the header is paid
                if other not in self._taken:
                    heapq.heappush(self._heap, (-self._scores[other] / self._price(other), other))
