"""Rule segmenters, and segmenters by name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from region4web import AXTree
from region4web.segmenters import SEGMENTER_NAMES, FixedDepth, Headings, Landmarks, WholePage, segmenter_by_name
from tests.builders import tree, trees

PAGE = tree("""
[0] RootWebArea 'Shop'
    [1] banner ''
        [2] navigation ''
            [3] link 'Home'
            [4] link 'Orders'
    [5] main ''
        [6] generic
            [7] generic
                [8] heading 'Details'
                StaticText 'Red shoe'
            [9] generic
                [10] heading 'Reviews'
                [11] list ''
                    [12] listitem ''
        [13] heading 'More'
        StaticText 'text under More'
""")


def roots(segmenter: object) -> list[str]:
    return [PAGE.nodes[root].id for root in segmenter.segment(PAGE).roots]  # type: ignore[attr-defined]


def test_each_rule_cuts_where_it_says() -> None:
    assert roots(WholePage()) == ["0"]
    assert roots(Landmarks()) == ["0", "1", "2", "5"]
    assert roots(Landmarks(frozenset({"list"}))) == ["0", "11"]
    assert roots(FixedDepth(depth=2, smallest=1)) == ["0", "2", "6", "13", "_15"]
    assert roots(FixedDepth(depth=2)) == ["0", "2", "6"]
    assert roots(FixedDepth(depth=99)) == ["0"]
    assert roots(Headings()) == ["0", "7", "9"]


@pytest.mark.parametrize(("depth", "smallest"), [(0, 3), (-1, 3), (2, 0)])
def test_a_depth_that_cuts_nothing_is_refused(depth: int, smallest: int) -> None:
    with pytest.raises(ValueError, match="depth and smallest must be at least 1"):
        FixedDepth(depth=depth, smallest=smallest)


@pytest.mark.parametrize(
    ("name", "kind"), [("whole-page", WholePage), ("landmarks", Landmarks), ("fixed-depth", FixedDepth), ("headings", Headings)]
)
def test_rules_are_found_by_name(name: str, kind: type) -> None:
    assert segmenter_by_name(name) == kind()


@pytest.mark.parametrize("name", ["", "Landmarks", "no/such/weights", "landmark"])
def test_an_unknown_name_is_refused_with_the_names_that_exist(name: str) -> None:
    with pytest.raises(ValueError, match="whole-page, landmarks, fixed-depth, headings, best, paper") as refused:
        segmenter_by_name(name)
    assert repr(name) in str(refused.value)


def test_a_folder_without_weights_is_refused(tmp_path: object) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra 'model')")
    from region4web.errors import WeightsError

    with pytest.raises(WeightsError):
        segmenter_by_name(str(tmp_path)).segment(PAGE)


@given(trees())
@settings(max_examples=60, deadline=None)
def test_every_rule_partitions_every_tree_the_same_way_twice(page: AXTree) -> None:
    for name in SEGMENTER_NAMES[:4]:
        partition = segmenter_by_name(name).segment(page)
        assert sum(len(region) for region in partition.regions) == len(page)
        assert segmenter_by_name(name).segment(page) == partition
