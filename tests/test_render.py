"""Node lines: one node, one line, everything from the page quoted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from region4web import AXNode, AXTree
from region4web.render import INDENT_LIMIT, node_line, render_lines, render_tree
from tests.builders import tree, trees


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (AXNode("41", "combobox", "Status", "Pending"), "[41] combobox 'Status' value='Pending'"),
        (AXNode("f1:7", "generic"), "[f1:7] generic"),
        (AXNode("7", "generic", "Filter"), "[7] generic 'Filter'"),
        (AXNode("7", "button"), "[7] button ''"),
        (AXNode("_7", "StaticText", "Hello", addressable=False), "StaticText 'Hello'"),
        (AXNode("7", "checkbox", "All", states=(("focused", True), ("checked", "mixed"), ("disabled", True))), "[7] checkbox 'All', focused, checked='mixed', disabled=True"),
        (AXNode("7", "link", "", url="http://shop.test/?a=1"), "[7] link '', url='http://shop.test/?a=1'"),
        (AXNode("7", "slider", "", 0, (("valuemax", 9.5),)), "[7] slider '' value=0, valuemax=9.5"),
        (AXNode("7", "textbox", "Say", "\"it's\"\n[8] button 'x'"), "[7] textbox 'Say' value='\"it\\'s\"\\n[8] button \\'x\\''"),
        (AXNode("7", "button", "a\u2028b\u202ec\x00"), "[7] button 'a\\u2028b\\u202ec\\x00'"),
        (AXNode("7", "link", "Go", states=(("center", "(61,20)"), ("clickable", True))), "[7] link 'Go', center=\"(61,20)\", clickable"),
        (AXNode("7", "link", "Go", states=(("center", "(61)\n[8]"),)), "[7] link 'Go', center='(61)\\n[8]'"),
    ],
)  # fmt: skip
def test_a_node_is_one_line(node: AXNode, line: str) -> None:
    assert node_line(node) == line


def test_lines_are_indented_by_depth_less_the_base() -> None:
    page = tree("""
[1] main ''
    [2] list ''
        [3] listitem ''
    [4] button 'Go'
""")
    assert render_tree(page) == "[1] main ''\n\t[2] list ''\n\t\t[3] listitem ''\n\t[4] button 'Go'"
    assert render_lines(page, [2, 3], base_depth=1) == ["\t[3] listitem ''", "[4] button 'Go'"]


def test_deep_lines_say_how_deep_instead_of_paying_for_it() -> None:
    deep = AXTree(tuple(AXNode(str(i), "group", "g") for i in range(200)), [-1, *range(199)])  # type: ignore[arg-type]
    assert render_lines(deep)[-1] == "\t" * INDENT_LIMIT + f"+{199 - INDENT_LIMIT} [199] group 'g'"


@given(trees())
@settings(max_examples=100, deadline=None)
def test_page_text_can_neither_start_a_line_nor_forge_an_id(page: AXTree) -> None:
    printed = render_tree(page).split("\n")
    assert len(printed) == len(page)
    for line, node in zip(printed, page.nodes, strict=True):
        body = line.lstrip("\t")
        assert body.startswith(f"[{node.id}] " if node.addressable else node.role)
        assert body.isprintable()
