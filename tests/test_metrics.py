"""Agreement of two partitions: counts, one-to-one matching, symmetry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web import AXTree, Partition
from region4web.metrics import PartitionScore, match_regions, score_partition
from tests.builders import cuts, tree, trees

PAGE = tree("[0] main ''\n" + "\n".join(f"    [{i}] button ''" for i in range(1, 8)))
NESTED = tree("""
[0] main ''
    [1] list ''
        [2] listitem ''
            [3] link 'x'
        [4] listitem ''
    [5] button 'y'
""")


def test_counts_of_a_page() -> None:
    predicted, labelled = Partition(NESTED, (0, 2, 5)), Partition(NESTED, (0, 1, 5))
    # {0,1,4} {2,3} {5} against {0} {1,2,3,4} {5}: IoU 1/3 and 1/4 with the root's, 1/6 and 2/4, 1
    assert sorted(match_regions(predicted, labelled)) == [(1, 1), (2, 2)]
    score = score_partition(predicted, labelled)
    assert (score.predicted, score.labelled, score.matched) == (3, 3, 2)
    assert (score.edges_predicted, score.edges_labelled, score.edges_matched) == (2, 2, 1)
    assert score.region_precision == score.region_recall == score.region_f1 == pytest.approx(2 / 3)
    assert score.edge_f1 == 0.5


def test_pages_add_up_before_ratios_are_taken() -> None:
    good, bad = score_partition(Partition(PAGE, (0,)), Partition(PAGE, (0,))), PartitionScore(predicted=3, labelled=1)
    total = good + bad
    assert (total.region_precision, total.region_recall, total.region_f1) == (0.25, 0.5, pytest.approx(1 / 3))


def test_nothing_counted_gives_zero_and_no_cut_on_either_side_agrees() -> None:
    assert PartitionScore().region_f1 == PartitionScore().region_precision == PartitionScore().region_recall == 0.0
    assert score_partition(Partition(PAGE, (0,)), Partition(PAGE, (0,))).edge_f1 == 1.0


def test_a_region_of_exactly_half_overlap_matches_and_less_does_not() -> None:
    four = tree("[0] main ''\n    [1] list ''\n        [2] a ''\n        [3] b ''\n        [4] c ''")
    assert match_regions(Partition(four, (0, 1, 3, 4)), Partition(four, (0, 1))) == [(0, 0), (1, 1)]  # {1,2} in {1,2,3,4}
    assert match_regions(Partition(four, (0, 1, 2, 3, 4)), Partition(four, (0, 1))) == [(0, 0)]  # {1} in {1,2,3,4}


def test_partitions_of_different_trees_are_refused() -> None:
    with pytest.raises(ValueError, match="one tree"):
        match_regions(Partition(PAGE, (0,)), Partition(NESTED, (0,)))


@given(st.data(), trees())
@settings(max_examples=150, deadline=None)
def test_agreement_is_symmetric_bounded_and_perfect_with_itself(data: st.DataObject, page: AXTree) -> None:
    a, b = Partition.from_cuts(page, data.draw(cuts(page))), Partition.from_cuts(page, data.draw(cuts(page)))
    ab, ba = score_partition(a, b), score_partition(b, a)
    assert ab.matched == ba.matched
    assert (ab.region_precision, ab.region_recall) == (ba.region_recall, ba.region_precision)
    assert ab.region_f1 == ba.region_f1
    assert ab.edge_f1 == ba.edge_f1
    assert 0 <= ab.region_f1 <= 1
    assert score_partition(a, a).region_f1 == score_partition(a, a).edge_f1 == 1.0
    pairs = match_regions(a, b)
    assert len({p for p, _ in pairs}) == len({g for _, g in pairs}) == len(pairs)
    for p, g in pairs:
        mine, theirs = set(a.regions[p].members.tolist()), set(b.regions[g].members.tolist())
        assert len(mine & theirs) >= 0.5 * len(mine | theirs)
