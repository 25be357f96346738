"""Transitions: the edit script between two trees, and which element is which."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedigest.matching import match_trees
from pagedigest.transition import diff, field_changes
from region4web.axtree import AXNode, AXTree

ROLES = ("generic", "list", "listitem", "link", "button", "StaticText", "checkbox")
NAMES = ("", "Save", "Open", "Delete")


def tree_of(text: str) -> AXTree:
    return AXTree.from_text(text.strip().replace("    ", "\t"), url="http://shop.test/orders")


@st.composite
def trees(draw: st.DrawFn, *, ids: tuple[int, int] = (1, 30), backends: bool = False) -> AXTree:
    """Small trees whose ids overlap from draw to draw, so that any two make an interesting pair."""
    n = draw(st.integers(1, 14))
    numbers = draw(st.lists(st.integers(*ids), min_size=n, max_size=n, unique=True))
    parents, path = [-1], [0]
    for i in range(1, n):
        level = draw(st.integers(0, len(path) - 1))
        del path[level + 1 :]
        parents.append(path[-1])
        path.append(i)
    nodes = tuple(
        AXNode(
            id=str(number) if (addressable := draw(st.integers(0, 4)) > 0) else f"n{number}",
            role=draw(st.sampled_from(ROLES)) if i else "RootWebArea",
            name=draw(st.sampled_from(NAMES)),
            states=draw(st.sampled_from(((), (("checked", "true"),), (("expanded", True),), (("disabled", True),)))),
            box=draw(st.sampled_from((None, (0.0, 0.0, 10.0, 10.0)))),
            backend_id=number if backends else None,
            addressable=addressable,
        )
        for i, number in enumerate(numbers)
    )
    return AXTree(nodes, np.asarray(parents, dtype=np.int32), url="http://shop.test/", title="T")


@given(trees(), trees())
@settings(max_examples=400, deadline=None)
def test_applying_the_changes_to_the_entry_tree_gives_the_current_tree(entry: AXTree, current: AXTree) -> None:
    assert diff(entry, current).apply(entry) == current


@given(trees(backends=True), trees(backends=True))
@settings(max_examples=400, deadline=None)
def test_the_law_holds_with_backend_ids(entry: AXTree, current: AXTree) -> None:
    assert diff(entry, current).apply(entry) == current


@given(trees())
@settings(max_examples=100, deadline=None)
def test_a_diff_with_itself_is_empty(tree: AXTree) -> None:
    assert diff(tree, tree).is_empty


@given(trees(), trees(backends=True))
@settings(max_examples=200, deadline=None)
def test_a_matching_is_one_to_one(entry: AXTree, current: AXTree) -> None:
    matching = match_trees(entry, current)
    for i, j in enumerate(matching.current_of):
        assert j < 0 or matching.entry_of[j] == i
    assert matching.kept == sum(i >= 0 for i in matching.entry_of)


def test_a_toggled_checkbox_is_one_update() -> None:
    entry = tree_of("[1] main ''\n\t[2] checkbox 'Order 1001', checked='false'\n\t[3] button 'Apply'")
    current = tree_of("[1] main ''\n\t[2] checkbox 'Order 1001', checked='true'\n\t[3] button 'Apply'")
    transition = diff(entry, current)
    assert [(c.name, c.before, c.after) for u in transition.updated for c in field_changes(u)] == [("checked", "false", "true")]
    assert not transition.placed
    assert not transition.removed


def test_a_state_that_disappears_is_told() -> None:
    entry = tree_of("[1] main ''\n\t[2] button 'Menu', expanded=True\n\t[3] button 'Apply', disabled=True")
    current = tree_of("[1] main ''\n\t[2] button 'Menu'\n\t[3] button 'Apply'")
    told = [(u.after.id, c.name, c.before, c.after) for u in diff(entry, current).updated for c in field_changes(u)]
    assert told == [("2", "expanded", True, None), ("3", "disabled", True, False)]


def test_an_insertion_before_others_keeps_their_ids_and_is_one_placement() -> None:
    entry = tree_of("[1] list ''\n\t[2] listitem 'A'\n\t[3] listitem 'B'")
    current = tree_of("[1] list ''\n\t[13] listitem 'NEW'\n\t[2] listitem 'A'\n\t[3] listitem 'B'")
    transition = diff(entry, current)
    assert [(p.node.id, p.parent, p.after) for p in transition.added] == [("13", "1", None)]
    assert not transition.moved


def test_a_re_rendered_element_is_replaced_not_removed_and_added() -> None:
    entry = tree_of("[1] list ''\n\t[5] listitem ''\n\t\t[6] button 'Save'")
    current = tree_of("[1] list ''\n\t[20] listitem ''\n\t\t[21] button 'Save'")
    transition = diff(entry, current)
    assert [(u.before.id, u.after.id) for u in transition.updated if u.replaced] == [("5", "20"), ("6", "21")]
    assert not transition.removed
    assert not transition.placed


def test_a_re_rendered_list_less_one_row_pairs_rows_by_what_they_say() -> None:
    rows = "\n\t[{0}] listitem ''\n\t\t[{1}] StaticText '{2}'\n\t\t[{3}] button 'Delete'"
    entry = tree_of("[1] list ''" + rows.format(2, 3, "first", 4) + rows.format(5, 6, "second", 7) + rows.format(8, 9, "third", 10))
    current = tree_of("[1] list ''" + rows.format(22, 23, "first", 24) + rows.format(28, 29, "third", 30))
    transition = diff(entry, current)
    assert [entry.nodes[i].id for i in transition.removed] == ["5", "6", "7"]
    assert {u.before.id: u.after.id for u in transition.updated} == {"2": "22", "3": "23", "4": "24", "8": "28", "9": "29", "10": "30"}


def test_an_element_dragged_to_another_list_is_moved() -> None:
    entry = tree_of("[1] main ''\n\t[2] list 'To do'\n\t\t[3] listitem 'Card'\n\t[4] list 'Done'")
    current = tree_of("[1] main ''\n\t[2] list 'To do'\n\t[4] list 'Done'\n\t\t[3] listitem 'Card'")
    transition = diff(entry, current)
    assert [(p.node.id, p.parent, p.origin) for p in transition.moved] == [("3", "4", "3")]


def test_one_row_sorted_to_the_top_is_one_move() -> None:
    entry = tree_of("[1] list ''" + "".join(f"\n\t[{i}] listitem 'row {i}'" for i in range(2, 40)))
    current = tree_of("[1] list ''\n\t[39] listitem 'row 39'" + "".join(f"\n\t[{i}] listitem 'row {i}'" for i in range(2, 39)))
    assert [p.node.id for p in diff(entry, current).moved] == ["39"]


def test_a_text_set_anew_is_a_changed_text() -> None:
    entry = AXTree.from_text("[1] main ''\n\t[2] status ''\n\t\tStaticText 'Ready'")
    current = AXTree.from_text("[1] main ''\n\t[2] status ''\n\t\tStaticText 'Saved 3 rows'")
    told = [(c.name, c.before, c.after) for u in diff(entry, current).updated for c in field_changes(u)]
    assert told == [("name", "Ready", "Saved 3 rows")]


def test_a_bid_kept_over_new_backend_ids_is_the_same_element() -> None:
    def page(offset: int) -> AXTree:
        nodes = (AXNode("1", "RootWebArea", "T", backend_id=1), AXNode("6", "button", "Go", backend_id=6 + offset))
        return AXTree(nodes, np.asarray([-1, 0], dtype=np.int32))

    transition = diff(page(0), page(100))
    assert [u.replaced for u in transition.updated] == [False]
    assert not transition.removed


def test_ids_of_two_frames_do_not_meet() -> None:
    entry = tree_of("[1] main ''\n\t[a1] button 'Buy'\n\t[b1] button 'Close'")
    current = tree_of("[1] main ''\n\t[b1] button 'Close'")
    assert [entry.nodes[i].id for i in diff(entry, current).removed] == ["a1"]


def test_a_chain_ten_thousand_deep_is_compared() -> None:
    n = 10_000
    nodes = tuple(AXNode(str(i), "group", "g") for i in range(n))
    entry = AXTree(nodes, np.arange(-1, n - 1, dtype=np.int32))
    current = AXTree((*nodes[:-1], AXNode("x", "group", "g")), entry.parent)
    transition = diff(entry, current)
    assert transition.apply(entry) == current
    assert [(u.before.id, u.after.id) for u in transition.updated] == [(str(n - 1), "x")]
