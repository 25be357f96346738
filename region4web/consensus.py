"""From several models' cut probabilities to one partition: the one they agree with most, found by dynamic programming.

A mean of probabilities cuts twice, or not at all, where one model cuts a wrapper and another its only big child. Here
each model, cut at each of several thresholds, is a vote for whole regions: a region's support is the share of votes
that hold a region with IoU >= 0.5. With a cost for each region, the value of a partition is additive, so the best
partition made of regions that occur in some vote follows from the leaves up. Choosing cost = F1 / 2 maximises expected
region F1. Enters: a skeleton and (M, K) probabilities. Leaves: the kept nodes at which to cut.
Symbols: M models, K kept nodes, V distinct votes, R distinct regions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from region4web.metrics import IOU_THRESHOLD
from region4web.skeleton import Skeleton

__all__ = ["VOTE_THRESHOLDS", "Candidates", "best_partition", "candidate_regions", "consensus_cuts"]

VOTE_THRESHOLDS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)

Region = tuple[int, tuple[int, ...]]
"""Its root, and the roots of the regions that it touches from above."""


@dataclass(frozen=True)
class Candidates:
    """R regions that occur in some vote. `root` (R,); `nested`: roots of the regions right below; `members`: kept nodes, root first.

    `support` (R,): share of the votes that hold a region with IoU >= 0.5.
    """

    root: npt.NDArray[np.int64]
    nested: tuple[tuple[int, ...], ...]
    members: tuple[npt.NDArray[np.int64], ...]
    support: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.root)


def candidate_regions(bones: Skeleton, probabilities: npt.NDArray[np.float32], thresholds: Sequence[float] = VOTE_THRESHOLDS) -> Candidates:
    """The regions of all votes: each model, and the mean of several, cut at each threshold. `probabilities` (M, K)."""
    rows = [*probabilities, probabilities.mean(axis=0)] if len(probabilities) > 1 else list(probabilities)
    votes = Counter(tuple((np.flatnonzero(row[1:] >= threshold) + 1).tolist()) for row in rows for threshold in thresholds)
    regions: dict[Region, int] = {}
    members: list[npt.NDArray[np.int64]] = []
    held: list[list[int]] = []  # regions of each vote
    for cuts in votes:
        roots = (0, *cuts)
        nested, inside = _nested(roots, bones.end), None
        held.append([])
        for number, root in enumerate(roots):
            region = (root, tuple(nested[number]))
            index = regions.setdefault(region, len(regions))
            held[-1].append(index)
            if index == len(members):
                inside = _members(roots, bones.end) if inside is None else inside
                members.append(inside[number])
    support = _support(members, held, np.asarray(list(votes.values()), dtype=np.float64), bones.weight)
    root_of = np.asarray([root for root, _ in regions], dtype=np.int64)
    return Candidates(root_of, tuple(nested for _, nested in regions), tuple(members), support)


def best_partition(candidates: Candidates, value: npt.NDArray[np.float64]) -> list[int]:
    """Roots of the partition of the highest total value, rising, without the page's root. `value` (R,)."""
    best: dict[int, float] = {}
    choice: dict[int, tuple[int, ...]] = {}
    for index in np.argsort(-candidates.root, kind="stable").tolist():
        root, nested = int(candidates.root[index]), candidates.nested[index]
        total = float(value[index]) + sum(best[below] for below in nested)
        if root not in best or total > best[root]:
            best[root], choice[root] = total, nested
    cuts: list[int] = []
    todo = list(choice[0])
    while todo:
        root = todo.pop()
        cuts.append(root)
        todo += choice[root]
    return sorted(cuts)


def consensus_cuts(
    bones: Skeleton, probabilities: npt.NDArray[np.float32], *, region_cost: float, thresholds: Sequence[float] = VOTE_THRESHOLDS
) -> list[int]:
    """Skeleton positions of the roots of the partition that the votes support most, rising, without the page's root."""
    candidates = candidate_regions(bones, probabilities, thresholds)
    return best_partition(candidates, candidates.support - region_cost)


def _nested(roots: Sequence[int], end: npt.NDArray[np.int64]) -> list[list[int]]:
    """For each root the roots right below it. `roots` rise."""
    nested: list[list[int]] = [[] for _ in roots]
    ends = end[list(roots)].tolist()
    above: list[int] = []
    for number, root in enumerate(roots):
        while above and ends[above[-1]] <= root:
            above.pop()
        if above:
            nested[above[-1]].append(root)
        above.append(number)
    return nested


def _members(roots: Sequence[int], end: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """For each root the nodes of its region."""
    region = np.zeros(len(end), dtype=np.int64)
    for number, root in enumerate(roots):
        region[root : end[root]] = number
    order = np.argsort(region, kind="stable")
    return np.split(order, np.cumsum(np.bincount(region, minlength=len(roots)))[:-1])


def _support(
    members: list[npt.NDArray[np.int64]], held: list[list[int]], votes: npt.NDArray[np.float64], weight: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """(R,) share of the votes that hold a region with IoU >= 0.5."""
    from scipy import sparse

    r, v = len(members), len(held)
    sizes = np.asarray([len(nodes) for nodes in members])
    rows = np.repeat(np.arange(r), sizes)
    columns = np.concatenate(members)
    holds = sparse.csr_matrix((weight[columns].astype(np.float64), (rows, columns)), shape=(r, len(weight)))
    within = sparse.csr_matrix((np.ones(len(rows)), (columns, rows)), shape=(len(weight), r))
    common = (holds @ within).tocoo()
    nodes = np.bincount(rows, weights=weight[columns], minlength=r)
    good = common.data >= IOU_THRESHOLD * (nodes[common.row] + nodes[common.col] - common.data)
    alike = sparse.csr_matrix((np.ones(int(good.sum())), (common.row[good], common.col[good])), shape=(r, r))
    counts = [len(regions) for regions in held]
    cast = sparse.csr_matrix((np.ones(sum(counts)), (np.concatenate(held), np.repeat(np.arange(v), counts))), shape=(r, v))
    matched = (alike @ cast).tocsr()
    matched.data[:] = 1
    support: npt.NDArray[np.float64] = matched @ (votes / votes.sum())
    return support
