"""Regions partition the tree: disjoint, connected, covering."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web import Abstraction, AXTree, Partition, RegionMap
from tests.builders import cuts, tree, trees

PAGE = tree("""
[1] RootWebArea 'Shop'
    [2] navigation ''
        [3] link 'Home'
        [4] search ''
            [5] textbox 'Search'
    [6] main ''
        [7] button 'Save'
""")


def test_a_cut_takes_the_subtree_away_from_the_region_around_it() -> None:
    partition = Partition.from_cuts(PAGE, [3, 1])
    assert partition.roots == (0, 1, 3)
    assert partition.region_of.tolist() == [0, 1, 1, 2, 2, 0, 0]
    assert [(r.key, r.root, r.members.tolist(), r.enclosing) for r in partition.regions] == [
        ("R0", 0, [0, 5, 6], -1),
        ("R1", 1, [1, 2], 0),
        ("R2", 3, [3, 4], 1),
    ]
    assert [len(r) for r in partition.regions] == [3, 2, 2]


@pytest.mark.parametrize("roots", [(), (1,), (0, 0), (0, 3, 2), (0, 7), (0, -1)])
def test_roots_that_make_no_partition_are_refused(roots: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="roots must"):
        Partition(PAGE, roots)


def test_a_region_map_has_one_abstraction_a_region() -> None:
    partition = Partition(PAGE, (0, 1))
    with pytest.raises(ValueError, match="2 regions need as many abstractions, found 1"):
        RegionMap(partition, (Abstraction("Shop page", ""),))


@given(st.data(), trees())
@settings(max_examples=150, deadline=None)
def test_regions_are_disjoint_connected_and_cover(data: st.DataObject, page: AXTree) -> None:
    chosen = data.draw(cuts(page))
    partition = Partition.from_cuts(page, chosen)
    members = [i for region in partition.regions for i in region.members.tolist()]
    assert sorted(members) == list(range(len(page)))
    assert set(partition.roots) == {0, *chosen}
    for region in partition.regions:
        own = region.members.tolist()
        assert own[0] == region.root
        assert own == sorted(own)
        assert all(int(page.parent[i]) in own for i in own[1:])
        assert region.enclosing == (-1 if region.root == 0 else partition.region_of[page.parent[region.root]])
    assert Partition.from_cuts(page, reversed(chosen)) == partition
