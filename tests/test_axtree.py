"""The tree type: preorder, subtrees as ranges, ids that lead to nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from region4web import AXNode, AXTree
from tests.builders import tree, trees

PAGE = tree("""
[1] RootWebArea 'Shop'
    [2] navigation ''
        [3] link 'Home'
        [4] link 'Orders', focused
    [5] main ''
        [6] button 'Save'
""")


def test_a_subtree_is_a_range_and_children_are_in_document_order() -> None:
    assert PAGE.parent.tolist() == [-1, 0, 1, 1, 0, 4]
    assert PAGE.end.tolist() == [6, 4, 3, 4, 6, 6]
    assert PAGE.depth.tolist() == [0, 1, 2, 2, 1, 2]
    assert PAGE.children == ((1, 4), (2, 3), (), (), (5,), ())
    assert list(PAGE.subtree(1)) == [1, 2, 3]
    assert list(PAGE.ancestors(3)) == [1, 0]


def test_a_node_is_found_by_its_id() -> None:
    assert PAGE.find("4") == PAGE.find(4) == 3
    assert PAGE.find("44") is None
    assert AXTree(PAGE.nodes, PAGE.parent, aliases={"44": 3}).find("44") == 3
    assert PAGE.nodes[3].state("focused") is True
    assert PAGE.nodes[2].state("focused") is None


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ([-1, 0, 0, 1], "subtree a contiguous range"),
        ([-1, 0, 2, 0], "parent\\[0\\] must be -1"),
        ([0, 0, 1, 1], "parent\\[0\\] must be -1"),
        ([-1, 0, -1, 0], "parent\\[0\\] must be -1"),
        ([-1, 0], "must have shape \\(4,\\)"),
    ],
)
def test_nodes_out_of_preorder_are_refused(parent: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AXTree(tuple(AXNode(str(i), "group") for i in range(4)), np.array(parent, dtype=np.int32))


def test_an_empty_tree_and_an_id_used_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        AXTree((), np.array([], dtype=np.int32))
    with pytest.raises(ValueError, match="'7' occurs twice"):
        AXTree((AXNode("7", "main"), AXNode("7", "button")), np.array([-1, 0], dtype=np.int32))


def test_a_tree_does_not_freeze_the_array_it_was_given() -> None:
    parent = np.array([-1, 0], dtype=np.int32)
    page = AXTree((AXNode("1", "main"), AXNode("2", "button")), parent)
    parent[1] = 7
    assert page.parent.tolist() == [-1, 0]
    with pytest.raises(ValueError, match="read-only"):
        page.parent[1] = 7


@given(trees())
@settings(max_examples=100, deadline=None)
def test_ranges_depths_and_children_agree_with_the_parents(page: AXTree) -> None:
    for i in range(len(page)):
        ancestors = list(page.ancestors(i))
        assert page.depth[i] == len(ancestors)
        assert all(i in page.subtree(a) for a in ancestors)
        assert all(i in page.ancestors(j) for j in page.subtree(i) if j != i)
        assert all(page.parent[c] == i for c in page.children[i])
    assert sorted(c for below in page.children for c in below) == list(range(1, len(page)))
    assert page == AXTree(page.nodes, page.parent, url=page.url, title=page.title)
    assert hash(page) == hash(AXTree(page.nodes, page.parent, url=page.url, title=page.title))
