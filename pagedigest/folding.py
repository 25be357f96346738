"""Long lists: which rows are left out where there is no budget, and how any left-out rows are told.

Enters: a tree, scores, the nodes that are printed. Leaves: nodes to leave out; for each list a line such as
`397 more rows, ids 38..1230` and its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXTree
from region4web.regions import Partition

__all__ = ["Fold", "beyond_long_lists", "folds"]

FOLD_MINIMUM = 3
"""Rows left out of one list before that is told in a line of its own."""
LONG_LIST = 200
"""Rows of one kind up to which a list is printed whole where there is no budget."""
FIRST_ROWS, BEST_ROWS = 3, 20
"""Rows of a longer one that are printed: the first, and those that the task needs most."""
UNLISTED_ROLES = frozenset({"StaticText", "generic", "none"})


@dataclass(frozen=True)
class Fold:
    """`count` rows of region `region` are not printed; `line` says so and belongs before node `place`."""

    count: int
    region: int
    place: int
    line: str


def beyond_long_lists(partition: Partition, scores: npt.NDArray[np.floating]) -> frozenset[int]:
    """Nodes of rows that are left out of lists of more than `LONG_LIST` like rows."""
    tree = partition.tree
    best = np.asarray(scores, dtype=np.float64).tolist()
    parent = tree.parent.tolist()
    for i in range(len(best) - 1, 0, -1):
        if best[i] > best[parent[i]]:
            best[parent[i]] = best[i]
    left_out: set[int] = set()
    for _, rows in _lists(partition, LONG_LIST + 1):
        ranked = sorted(rows[FIRST_ROWS:], key=lambda i: (-best[i], i))
        for i in ranked[BEST_ROWS:]:
            left_out.update(k for k in tree.subtree(i) if partition.region_of[k] == partition.region_of[i])
    return frozenset(left_out)


def folds(partition: Partition, printed: Collection[int], open_regions: Collection[int]) -> list[Fold]:
    """Lists of open regions with at least `FOLD_MINIMUM` rows of which nothing is printed, the longest first."""
    tree = partition.tree
    marks = np.zeros(len(tree) + 1, dtype=np.int64)
    marks[np.asarray(list(printed), dtype=np.int64) + 1] = 1
    before = np.cumsum(marks)
    out: list[Fold] = []
    for region, rows in _lists(partition, FOLD_MINIMUM + 1):
        left = [i for i in rows if before[tree.end[i]] == before[i]]
        if region in open_regions and len(left) >= FOLD_MINIMUM:
            out.append(Fold(len(left), region, int(tree.end[left[-1]]), _fold_line(tree, left)))
    return sorted(out, key=lambda fold: (-fold.count, fold.place))


def _lists(partition: Partition, least: int) -> Iterator[tuple[int, list[int]]]:
    """(region, rows) of every run of at least `least` children of one parent with one role, in the parent's region."""
    tree = partition.tree
    region_of = partition.region_of.tolist()
    for p, children in enumerate(tree.children):
        if len(children) < least:
            continue
        kinds: dict[str, list[int]] = {}
        for c in children:
            if region_of[c] == region_of[p]:
                kinds.setdefault(tree.nodes[c].role, []).append(c)
        for role, rows in kinds.items():
            if len(rows) >= least and role not in UNLISTED_ROLES:
                yield region_of[p], rows


def _fold_line(tree: AXTree, left: list[int]) -> str:
    role = tree.nodes[left[0]].role
    ids = [tree.nodes[i].id for i in left if tree.nodes[i].addressable]
    noun = "rows" if role in ("row", "LayoutTableRow") else f"{role}s"
    return f"\t{len(left)} more {noun}" + (f", ids {ids[0]}..{ids[-1]}" if len(ids) > 1 else "")
