"""Which raw nodes stay in the tree, what is filled in, and that nothing with content goes in silence."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
from growth import growth
from hypothesis import given, settings

from region4web import AXTree, Snapshot
from region4web.errors import SnapshotError
from region4web.preprocessing import short_address
from region4web.render import render_tree
from tests.builders import broken_nodes, cdp_nodes, json_values, lines, node, prop, snapshot


def page(*nodes: dict[str, Any], **fields: Any) -> AXTree:
    return AXTree.from_snapshot(snapshot(*nodes, **fields))


def bodies(tree: AXTree) -> list[str]:
    """Lines below the root's, without one level of indentation."""
    return [line.removeprefix("    ") for line in lines(tree)[1:]]


def test_a_wrapper_stays_only_where_it_groups_two_branches() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 5]),
        node(2, "generic", "", [3]),
        node(3, "generic", "", [4]),
        node(4, "button", "Buy"),
        node(5, "generic", "", [6, 7, 8]),
        node(6, "link", "Terms"),
        node(7, "generic", "", []),
        node(8, "generic", "", [9]),
        node(9, "StaticText", "Help"),
    )
    assert bodies(tree) == ["[4] button 'Buy'", "[5] generic", "    [6] link 'Terms'", "    [9] StaticText 'Help'"]
    assert tree.find("2") == tree.find("3") == tree.index_of["4"]  # a dropped wrapper leads to what it held
    assert tree.find("8") == tree.index_of["9"]
    assert tree.find("7") == tree.index_of["5"]  # an empty one to what it hung below
    assert tree.find("99") is None


def test_named_clickable_editable_and_telling_generics_stay() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 3, 4, 5, 6]),
        node(2, "generic", "Price filter"),
        node(3, "generic", "", [7]),
        node(4, "generic", properties=[prop("editable", "richtext"), prop("focusable", True)]),
        node(5, "generic", properties=[prop("live", "polite")]),
        node(6, "generic", properties=[prop("editable", "plaintext")]),
        node(7, "StaticText", "Blue card"),
        clickable=["3"],
    )
    assert bodies(tree) == [
        "[2] generic 'Price filter'",
        "[3] generic",
        "    [7] StaticText 'Blue card'",
        "[4] generic",
        "[5] generic, live='polite'",
    ]
    assert [n.id for n in tree.nodes if n.clickable] == ["3"]


def test_ignored_nodes_go_unless_they_can_be_clicked_and_hold_something() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 4, 6]),
        node(2, "none", "", [3], ignored=True),
        node(3, "StaticText", "Open"),
        node(4, "none", "", [5], ignored=True),
        node(5, "StaticText", "hidden", ignored=True),
        node(6, "button", "gone", ignored=True),
        clickable=["2", "4"],
    )
    assert bodies(tree) == ["[2] generic", "    [3] StaticText 'Open'"]
    assert tree.find("6") == 0


def test_text_is_printed_once() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 5]),
        node(2, "link", "Orders 12", [3]),
        node(3, "StaticText", "Orders 12", [4]),
        node(4, "InlineTextBox", "Orders 12"),
        node(5, "listitem", "", [6, 7]),
        node(6, "ListMarker", "• "),
        node(7, "StaticText", "First"),
    )
    assert bodies(tree) == ["[2] link 'Orders 12'", "[5] listitem ''", "    [7] StaticText 'First'"]


@pytest.mark.parametrize(
    ("name", "texts", "kept"),
    [
        ("Item 12 of 100", ["1"], ["1"]),  # a badge, not a piece of "12"
        ("Inbox 1 new", ["1"], []),
        ("Foobar", ["Foo", "bar"], []),  # the name is what the texts make
        ("Foobar 2", ["Foo", "2"], ["Foo"]),
        ("Save Save", ["Save", "Save", "Save"], []),
        ("Close", ["×"], ["×"]),
        ("注文する", ["注文"], ["注文"]),
        ("a b c", ["c", "a"], []),
    ],
)
def test_text_counts_as_repeated_only_as_whole_words_of_the_name(name: str, texts: list[str], kept: list[str]) -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2]),
        node(2, "button", name, range(3, 3 + len(texts))),
        *(node(i, "StaticText", text) for i, text in enumerate(texts, 3)),
    )
    assert [n.name for n in tree.nodes if n.role == "StaticText"] == kept


def test_a_text_that_is_part_of_the_page_title_stays() -> None:
    tree = page(
        node(1, "RootWebArea", "Orders | Shop", [2, 3]),
        node(2, "generic", "", [4]),
        node(3, "StaticText", "Shop"),
        node(4, "StaticText", "Orders"),
    )
    assert [n.name for n in tree.nodes[1:]] == ["Orders", "Shop"]


def test_unnamed_images_and_links_are_named_by_their_address() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 3, 4, 5, 6, 7]),
        node(2, "image", "", url="http://shop.test/img/red%20shoe.png?v=2"),
        node(3, "link", "", url="http://shop.test/basket/"),
        node(4, "image", ""),
        node(5, "image", "", url="data:image/png;base64," + "A" * 4096),
        node(6, "image", "", properties=[prop("focusable", True)]),
        node(7, "link", "", url="javascript:void(0)"),
    )
    assert bodies(tree) == [
        "[2] image 'red shoe.png', url='http://shop.test/img/red%20shoe.png?v=2'",
        "[3] link 'basket', url='http://shop.test/basket/'",
        "[5] image 'data:image/png (3 kB)', url='data:image/png (3 kB)'",
        "[6] image ''",
        "[7] link '', url='javascript:void(0)'",
    ]
    assert tree.find("4") == 0


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("http://shop.test/", "shop.test"),
        ("http://shop.test/?q=shoes", "shop.test?q=shoes"),
        ("#reviews", "#reviews"),
        ("http://[bad", "http://[bad"),
        ("data:,x", "data:text/plain (1 kB)"),
        ("http://shop.test/" + "long" * 40, "long" * 15 + "lon…"),
        ("http://shop.test/a%0A%5B1%5D", "a [1]"),
        ("data:\n[1] button/png,x", "data:[1] button/png (1 kB)"),
    ],
)
def test_an_address_becomes_a_short_one_line_name(address: str, name: str) -> None:
    assert short_address(address) == name
    assert len(short_address(address)) <= 64


def test_ids_are_unique_and_the_first_holder_keeps_its_own() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 3, 4]),
        node(2, "textbox", "Day"),
        node(3, "button", "Pick", backendDOMNodeId=2),
        node(4, "button", "Close", backendDOMNodeId=None),
    )
    assert bodies(tree) == ["[2] textbox 'Day'", "button 'Pick'", "button 'Close'"]
    assert len({n.id for n in tree.nodes}) == 4


def test_nodes_of_a_frame_carry_its_prefix() -> None:
    tree = page(
        node(1, "RootWebArea", "Shop", [2, 4]),
        node(2, "Iframe", "Ad", [3]),
        node(3, "RootWebArea", "Ad", [6], backendDOMNodeId=1),
        node(4, "Iframe", "Map", [5]),
        node(5, "RootWebArea", "Map", [], backendDOMNodeId=1, frame="f1"),
        node(6, "button", "Go", backendDOMNodeId=2),
    )
    assert [n.id for n in tree.nodes] == ["1", "2", "f2:1", "f2:2", "4", "f1:1"]


def test_password_masks_do_not_tell_the_length() -> None:
    for secret in ("\u2022" * 4, "\u2022" * 11):
        tree = page(
            node(1, "RootWebArea", "Log in", [2]),
            node(2, "textbox", "Password", [3], value={"value": secret}, properties=[prop("valuetext", secret)]),
            node(3, "generic", "", [4]),
            node(4, "StaticText", secret),
        )
        assert bodies(tree) == ["[2] textbox 'Password' value='•••', valuetext='•••'", "    [4] StaticText '•••'"]


def test_control_characters_direction_overrides_and_lone_surrogates_leave_names() -> None:
    tree = page(node(1, "RootWebArea", "Sh\u202eop", [2]), node(2, "button", "a\u200bb\r\n\tc\ud800\U000e0041"), title="x\ny")
    assert bodies(tree) == ["[2] button 'ab c\ufffd'"]
    assert tree.nodes[0].name == "Shop"
    assert tree.title == "x y"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("role", {"value": "button] x"}), ("role", "button"), ("role", None), ("name", 7), ("name", {"value": ["x"]}), ("name", {"value": 10**5000}),
        ("properties", "x"), ("properties", [{"name": "a b", "value": {"value": 1}}]), ("properties", [prop("checked", {"a": 1})]),
        ("backendDOMNodeId", "x"), ("backendDOMNodeId", 10**400), ("backendDOMNodeId", math.nan), ("ignored", "false"), ("frame", "f1]\n[9] button"),
        ("description", []), ("value", [1]), ("childIds", {"a": 1}),
    ],
)  # fmt: skip
def test_a_field_of_a_wrong_type_is_repaired_and_said(field: str, value: object) -> None:
    button = {**node(2, "button", "Buy"), field: value}
    tree = page(node(1, "RootWebArea", "Shop", [2]), button)
    assert len(tree) == 2
    assert "\n" not in lines(tree)[1]
    if field != "properties" or value != "x":
        assert tree.repairs != (), "a wrong value was accepted without a word"


def test_numbers_that_cannot_be_printed_become_text() -> None:
    tree = page(
        node(1, "RootWebArea", "", [2]), node(2, "slider", "Volume", value={"value": math.inf}, properties=[prop("valuemax", 10**400)])
    )
    assert bodies(tree) == ["[2] slider 'Volume' value='inf', valuemax='a very large integer'"]


@given(cdp_nodes())
@settings(max_examples=150, deadline=None)
def test_every_element_with_content_is_kept_or_leads_somewhere(nodes: list[dict[str, Any]]) -> None:
    tree = AXTree.from_snapshot(snapshot(*nodes))
    said = " ".join(n.name for n in tree.nodes)
    for raw in nodes:
        assert tree.find(raw["backendDOMNodeId"]) is not None
        if not raw["ignored"] and raw["role"]["value"] != "InlineTextBox" and raw["name"]["value"]:
            assert " ".join(raw["name"]["value"].split()) in said


@given(cdp_nodes())
@settings(max_examples=50, deadline=None)
def test_preprocessing_is_deterministic_and_ignores_the_order_of_the_list(nodes: list[dict[str, Any]]) -> None:
    tree = AXTree.from_snapshot(snapshot(*nodes))
    assert AXTree.from_snapshot(snapshot(*nodes)) == tree
    assert AXTree.from_snapshot(snapshot(*nodes[::-1])) == tree


@given(broken_nodes())
@settings(max_examples=80, deadline=None)
def test_malformed_nodes_never_crash_and_always_print_one_line_a_node(nodes: list[dict[str, Any]]) -> None:
    tree = AXTree.from_snapshot(snapshot(*nodes))
    text = render_tree(tree)
    assert text.count("\n") == len(tree) - 1
    text.encode("utf-8")
    assert render_tree(AXTree.from_text(text)) == text
    assert AXTree.from_browsergym({"axtree_object": {"nodes": nodes}, "extra_element_properties": {"12": {"bbox": [1, 2, 3, 4]}}})


@given(json_values())
@settings(max_examples=100, deadline=None)
def test_any_json_value_gives_a_tree_or_a_snapshot_error(value: Any) -> None:
    sound = {"nodes": [{"nodeId": "1"}]}
    for data in (value, {"nodes": value}, {"nodes": [value]}, *({**sound, key: value} for key in ("url", "title", "boxes", "viewport", "clickable", "invisible", "notes"))):  # fmt: skip
        with contextlib.suppress(SnapshotError):
            AXTree.from_snapshot(Snapshot.from_json(data))
    keys = ("url", "open_pages_titles", "active_page_index", "extra_element_properties")
    for observation in (value, {"axtree_object": value}, *({"axtree_object": sound, key: value} for key in keys)):
        with contextlib.suppress(SnapshotError):
            AXTree.from_browsergym(observation)


def test_browsergym_ids_boxes_and_clicks_are_read() -> None:
    nodes = [
        {**node(1, "RootWebArea", "Shop", [2, 3, 4, 5]), "browsergym_id": "0"},
        {**node(2, "textbox", "Date"), "browsergym_id": "a5"},
        {**node(3, "spinbutton", "Month"), "browsergym_id": "a5"},  # parts of a date input share its bid
        node(4, "button", "In a closed shadow root"),  # no bid
        {**node(5, "generic", "", []), "browsergym_id": "a6"},
    ]
    extra = {
        "a5": {"visibility": 1.0, "bbox": [1, 2, 30, 40], "clickable": False},
        "a6": {"visibility": 0.0, "bbox": [-900, 2, 30, 40], "clickable": True},
        "0": {"visibility": 0.2, "bbox": [0, 900, 30, 40], "clickable": False},  # scrolled out of the viewport is not invisible
    }
    observation = {
        "axtree_object": {"nodes": nodes},
        "extra_element_properties": extra,
        "url": "http://shop.test/",
        "open_pages_titles": ("A", "B"),
        "active_page_index": [1],
    }
    tree = AXTree.from_browsergym(observation)
    assert lines(tree) == [
        "[0] RootWebArea 'Shop'",
        "    [a5] textbox 'Date'",
        "    spinbutton 'Month'",
        "    button 'In a closed shadow root'",
        "    [a6] generic",
    ]
    assert tree.title == "B"
    assert [n.box for n in tree.nodes][1] == (1.0, 2.0, 30.0, 40.0)
    assert [n.visible for n in tree.nodes] == [True, True, True, True, False]
    assert [n.clickable for n in tree.nodes] == [False, False, False, False, True]
    assert tree.nodes[1].frame == "a"


def test_a_spare_id_never_takes_a_bid() -> None:
    nodes = [{**node(1, "RootWebArea", "", [2, 3, 4]), "browsergym_id": "0"}, node(2, "button", "x"), {**node(3, "button", "y"), "browsergym_id": "_2"},
             {**node(4, "button", "z"), "browsergym_id": "n2"}]  # fmt: skip
    tree = AXTree.from_browsergym({"axtree_object": {"nodes": nodes}})
    assert [n.addressable for n in tree.nodes] == [True, False, True, True]


def test_nodes_without_an_id_keep_their_internal_one_from_step_to_step() -> None:
    def observed(*first: int) -> list[str]:
        nodes = [
            {**node(1, "RootWebArea", "", [*first, 7]), "browsergym_id": "0"},
            *(node(i, "StaticText", f"t{i}") for i in first),
            node(7, "StaticText", "last"),
        ]
        return [n.id for n in AXTree.from_browsergym({"axtree_object": {"nodes": nodes}}).nodes]

    assert observed() == ["0", "_7"]
    assert observed(2, 3) == ["0", "_2", "_3", "_7"]


@pytest.mark.parametrize("missing", [{}, {"axtree_object": None}, {"axtree_object": {"nodes": "x"}}, [1]])
def test_an_observation_without_a_tree_says_what_to_keep(missing: Any) -> None:
    with pytest.raises(SnapshotError, match="'axtree_object' must be"):
        AXTree.from_browsergym(missing)


@pytest.mark.parametrize("kind", ["deep", "wide", "shared ids", "long names", "many texts"])
def test_enormous_pages_take_linear_time(kind: str) -> None:
    def nodes(n: int) -> list[dict[str, Any]]:
        if kind == "deep":
            return [node(1, "RootWebArea", "r", [2])] + [node(i, "group", f"g{i}", [i + 1] if i < n else []) for i in range(2, n + 1)]
        if kind == "wide":
            return [node(1, "RootWebArea", "r", range(2, n + 1))] + [node(i, "button", f"b{i}") for i in range(2, n + 1)]
        if kind == "shared ids":
            return [node(1, "RootWebArea", "r", range(2, n + 1))] + [node(i, "button", "b", backendDOMNodeId=7) for i in range(2, n + 1)]
        if kind == "long names":
            return [node(1, "RootWebArea", "r", [2]), node(2, "link", "ab" * 125 * n, range(3, n + 1))] + [
                node(i, "StaticText", "ba" * 1_500 + "c") for i in range(3, n + 1)
            ]
        words = [f"w{i}" for i in range(n)]
        return [node(1, "RootWebArea", "r", [2]), node(2, "link", " ".join(words) + " end", range(3, n + 3))] + [
            node(i, "StaticText", word) for i, word in enumerate(words, 3)
        ]

    def reading(n: int) -> Callable[[], object]:
        page = snapshot(*nodes(n))
        return lambda: render_tree(AXTree.from_snapshot(page))

    size = {"deep": 10_000, "wide": 50_000, "shared ids": 20_000, "long names": 2_000, "many texts": 50_000}[kind]
    assert len(AXTree.from_snapshot(snapshot(*nodes(size)))) == (2 if kind == "many texts" else size)
    assert growth(reading, size // 10, size, runs=2) < 4
