"""Raw nodes become one tree in preorder: nothing is lost, every mend is said, nothing recurses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from growth import growth
from hypothesis import given, settings

from region4web.errors import SnapshotError
from region4web.rawtree import RawTree, build_raw_tree
from tests.builders import broken_nodes, cdp_nodes, node


def order(raw: RawTree) -> list[str]:
    return [str(entry.get("nodeId")) for entry in raw.entries]


def test_nodes_come_out_in_preorder_whatever_their_order_in_the_list() -> None:
    page = [node(1, "RootWebArea", children=[2, 4]), node(2, "list", children=[3]), node(3, "listitem"), node(4, "button")]
    for nodes in (page, page[::-1]):
        raw = build_raw_tree(nodes)
        assert order(raw) == ["1", "2", "3", "4"]
        assert raw.parent == [-1, 0, 1, 0]
        assert raw.repairs.lines() == ()


def test_integer_and_text_ids_name_the_same_node() -> None:
    raw = build_raw_tree([{"nodeId": 1, "childIds": ["2"]}, {"nodeId": "2", "parentId": 1}])
    assert raw.parent == [-1, 0]
    assert raw.repairs.lines() == ()


@pytest.mark.parametrize(
    ("nodes", "ids", "parent", "repair"),
    [
        ([node(1, "a", children=[2, 9]), node(2, "b")], "12", [-1, 0], "1 x childId that names no node ignored, first nodeId 9"),
        ([node(1, "a", children=[1, 2]), node(2, "b")], "12", [-1, 0], "1 x node that is its own child unlinked, first nodeId 1"),
        (
            [node(1, "a", children=[2, 3]), node(2, "b", children=[3]), node(3, "c")],
            "123",
            [-1, 0, 0],
            "1 x node claimed by two parents left with the first, first nodeId 3",
        ),
        (
            [node(1, "a"), node(2, "b", parentId="1")],
            "12",
            [-1, 0],
            "1 x node missing from its parent's childIds appended there, first nodeId 2",
        ),
        ([node(1, "a"), node(2, "b")], "12", [-1, 0], "1 x second root hung below the root, first nodeId 2"),
        ([node(1, "a"), node(2, "b", parentId="7")], "12", [-1, 0], "1 x node without a parent hung below the root, first nodeId 2"),
        (
            [node(1, "a"), node(2, "b", children=[3]), node(3, "c", children=[2])],
            "123",
            [-1, 0, 1],
            "1 x cycle without a root hung below the root, first nodeId 2",
        ),
        (
            [node(1, "a", children=[2]), node(2, "b"), node(2, "b")],
            "12",
            [-1, 0],
            "1 x exact copy of a node left out, first nodes[2] (nodeId 2)",
        ),
        (
            [node(1, "a", children=[2]), node(2, "b"), node(2, "c", parentId="1")],
            "122",
            [-1, 0, 0],
            "1 x second node under one nodeId kept where its parentId says, first nodes[2] (nodeId 2)",
        ),
        (
            [node(1, "a"), {"parentId": "1"}],
            ["1", "None"],
            [-1, 0],
            "1 x node without a nodeId kept where its parentId says, first nodes[1]",
        ),
        (
            [{**node(1, "a"), "childIds": "2"}, node(2, "b", parentId="1")],
            "12",
            [-1, 0],
            "1 x childIds that is no list ignored, first nodeId 1",
        ),
    ],
)
def test_a_broken_link_is_mended_and_said(nodes: list[dict[str, Any]], ids: str, parent: list[int], repair: str) -> None:
    raw = build_raw_tree(nodes)
    assert order(raw) == list(ids)
    assert raw.parent == parent
    assert repair in raw.repairs.lines()


def test_the_root_is_the_web_area_that_nobody_holds() -> None:
    stray, frame, page = node(5, "button"), node(9, "RootWebArea", parentId="3"), node(1, "RootWebArea", children=[3])
    assert order(build_raw_tree([stray, frame, node(3, "Iframe", children=[9]), page]))[:3] == ["1", "3", "9"]


def test_a_page_of_cycles_only_starts_at_its_web_area() -> None:
    raw = build_raw_tree([node(2, "group", children=[1]), node(1, "RootWebArea", children=[2])])
    assert order(raw) == ["1", "2"]
    assert any("cycle" in line for line in raw.repairs.lines())


def test_an_entry_that_is_no_object_is_named() -> None:
    with pytest.raises(SnapshotError, match=r"page: nodes\[1\] must be an object, found a str"):
        build_raw_tree([node(1, "RootWebArea"), "button"], source="page")
    with pytest.raises(SnapshotError, match="no accessibility nodes"):
        build_raw_tree([])


def test_a_repair_shows_foreign_ids_on_one_short_line() -> None:
    raw = build_raw_tree([node(1, "a", children=[]), {"nodeId": "x\n[1] button" * 100, "role": {}}])
    (line,) = raw.repairs.lines()
    assert "\n" not in line
    assert len(line) < 160


@given(broken_nodes())
@settings(max_examples=100, deadline=None)
def test_no_node_is_lost_and_the_order_is_preorder(nodes: list[dict[str, Any]]) -> None:
    raw = build_raw_tree(nodes)
    copies = sum(int(line.split(" x ")[0]) for line in raw.repairs.lines() if "exact copy" in line)
    assert len(raw.entries) == len(nodes) - copies
    assert {id(entry) for entry in raw.entries} <= {id(entry) for entry in nodes}
    assert raw.parent[0] == -1
    path = [0]
    for k, p in enumerate(raw.parent[1:], 1):
        assert p in path  # the parent is on the path to the node before
        del path[path.index(p) + 1 :]
        path.append(k)


@given(cdp_nodes())
@settings(max_examples=50, deadline=None)
def test_sound_nodes_need_no_repair(nodes: list[dict[str, Any]]) -> None:
    raw = build_raw_tree(nodes)
    assert raw.entries == nodes
    assert raw.repairs.lines() == ()


@pytest.mark.parametrize("kind", ["deep", "wide", "one id", "cycles", "orphans"])
def test_fifty_thousand_nodes_of_any_shape_take_linear_time(kind: str) -> None:
    def nodes(n: int) -> list[dict[str, Any]]:
        if kind == "deep":
            return [{"nodeId": str(i), "childIds": [str(i + 1)]} for i in range(n - 1)] + [{"nodeId": str(n - 1)}]
        if kind == "wide":
            return [{"nodeId": "0", "childIds": [str(i) for i in range(1, n)]}] + [{"nodeId": str(i)} for i in range(1, n)]
        if kind == "one id":
            return [{"nodeId": "0", "name": i} for i in range(n)]
        if kind == "cycles":
            return [{"nodeId": str(i), "childIds": [str(i ^ 1)]} for i in range(n)]
        return [{"nodeId": str(i), "parentId": f"gone {i}"} for i in range(n)]

    def building(n: int) -> Callable[[], object]:
        given = nodes(n)
        return lambda: build_raw_tree(given)

    assert len(build_raw_tree(nodes(50_000)).entries) == 50_000
    assert growth(building, 5_000, 50_000) < 4
