"""One partition from several votes: the agreed one where they agree, the best of all combinations where they do not."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web.axtree import AXNode, AXTree
from region4web.consensus import VOTE_THRESHOLDS, consensus_cuts
from region4web.metrics import match_regions
from region4web.regions import Partition
from region4web.skeleton import skeleton


def tree_of(parent: list[int]) -> AXTree:
    return AXTree(tuple(AXNode(str(i), "generic") for i in range(len(parent))), np.asarray(parent, dtype=np.int32))


@st.composite
def votes(draw: st.DrawFn) -> tuple[AXTree, np.ndarray]:
    n = draw(st.integers(1, 14))
    path, parent = [0], [-1]
    for i in range(1, n):
        path = path[: draw(st.integers(1, len(path)))]
        parent.append(path[-1])
        path.append(i)
    members = draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(st.sampled_from([0.0, 0.3, 0.6, 1.0]), min_size=n, max_size=n), min_size=members, max_size=members))
    return tree_of(parent), np.asarray(rows, dtype=np.float32)


@settings(max_examples=60, deadline=None)
@given(votes())
def test_members_that_agree_are_followed(page: tuple[AXTree, np.ndarray]) -> None:
    tree, rows = page
    certain = np.where(rows[:1] >= 0.5, 1.0, 0.0).astype(np.float32)
    found = consensus_cuts(skeleton(tree, 1), np.repeat(certain, 3, axis=0), region_cost=0.4)
    assert found == (np.flatnonzero(certain[0, 1:]) + 1).tolist()


def value(tree: AXTree, cuts: tuple[int, ...], ballots: list[Partition], cost: float) -> float:
    """Support less cost, summed over the regions of a partition; a region counts for every vote that holds one like it."""
    partition = Partition.from_cuts(tree, cuts)
    total = -cost * len(partition)
    for region in partition.regions:
        members = set(region.members.tolist())
        for ballot in ballots:
            alike = any(
                2 * len(members & set(other.members.tolist())) >= len(members | set(other.members.tolist())) for other in ballot.regions
            )
            total += alike / len(ballots)
    return total


@settings(max_examples=40, deadline=None)
@given(votes())
def test_the_result_is_the_best_combination_of_regions_that_were_voted_for(page: tuple[AXTree, np.ndarray]) -> None:
    tree, rows = page
    voters = [*rows, rows.mean(axis=0)] if len(rows) > 1 else rows  # several models vote with their mean as well
    ballots = [Partition.from_cuts(tree, (np.flatnonzero(row[1:] >= t) + 1).tolist()) for row in voters for t in VOTE_THRESHOLDS]
    voted = {tuple(region.members.tolist()) for ballot in ballots for region in ballot.regions}
    candidates = sorted({cut for ballot in ballots for cut in ballot.roots[1:]})
    best = max(
        value(tree, cuts, ballots, 0.4)
        for cuts in chain.from_iterable(combinations(candidates, k) for k in range(len(candidates) + 1))
        if {tuple(region.members.tolist()) for region in Partition.from_cuts(tree, cuts).regions} <= voted
    )
    found = consensus_cuts(skeleton(tree, 1), rows, region_cost=0.4)
    assert abs(value(tree, tuple(found), ballots, 0.4) - best) < 1e-6


def test_a_wrapper_and_its_only_big_child_make_one_region() -> None:
    tree = tree_of([-1, 0, 1, *([2] * 8), 0, 0])  # 1 holds 2, which holds eight
    bones = skeleton(tree)
    wrapper, child = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    found = consensus_cuts(bones, np.asarray([wrapper, child], dtype=np.float32), region_cost=0.42)
    assert len(found) == 1
    chosen = Partition.from_cuts(tree, bones.index[found].tolist())
    for cut in (1, 2):
        assert len(match_regions(chosen, Partition.from_cuts(tree, [cut]))) == 2
