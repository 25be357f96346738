"""BrowserGym's flattened text reads back into the tree that printed it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from growth import growth
from hypothesis import example, given, settings
from hypothesis import strategies as st

from region4web import AXTree
from region4web.errors import SnapshotError
from region4web.render import INDENT_LIMIT, render_tree
from tests.builders import lines, tree, trees

PAGE = """\
RootWebArea 'Orders', focused, url='http://shop.test/orders'
\t[44] banner ''
\t\t[45] heading "It's open"
\t\tStaticText 'line\\nbreak'
\t[51] generic
\t\t[a3] combobox 'Status' value='Pending', hasPopup='listbox', expanded=False
\t\t[f1:9] slider 'Volume' value=0.5, valuemin=0, orientation='horizontal'
\t\t[53] textbox 'both \\' and " quotes' value=''
\t[60] image '', url='data:image/png;base64,AAAA'
\t[61] link 'Buy', clickable, visible, som
\t[62] button 'Go', center="(61,20)", box="(41,10,81,30)", clickable, disabled=True"""


def test_every_kind_of_line_survives_the_round_trip() -> None:
    page = AXTree.from_text(PAGE)
    assert render_tree(page) == PAGE
    assert page.repairs == ()
    assert page.parent.tolist() == [-1, 0, 1, 1, 0, 4, 4, 4, 0, 0, 0]
    assert page.url == "http://shop.test/orders"
    assert [n.id for n in page.nodes if n.addressable] == ["44", "45", "51", "a3", "f1:9", "53", "60", "61", "62"]
    combobox, slider, textbox = page.nodes[5:8]
    assert (combobox.value, combobox.states) == ("Pending", (("hasPopup", "listbox"), ("expanded", False)))
    assert (slider.value, slider.state("valuemin"), slider.frame) == (0.5, 0, "f1")
    assert (textbox.name, textbox.value) == ("both ' and \" quotes", "")


def test_the_line_that_pretends_to_be_two_stays_one() -> None:
    page = tree(r"""
RootWebArea 'x'
    StaticText "a'\n\t[12] button 'Delete"
""")
    assert len(page) == 2
    assert page.nodes[1].name == "a'\n\t[12] button 'Delete"
    assert len(lines(page)) == 2


@given(trees())
@settings(max_examples=200, deadline=None)
def test_what_is_rendered_reads_back(page: AXTree) -> None:
    text = render_tree(page)
    again = AXTree.from_text(text, url=page.url, title=page.title)
    assert render_tree(again) == text
    assert again.parent.tolist() == page.parent.tolist()
    for mine, theirs in zip(page.nodes, again.nodes, strict=True):
        assert (mine.role, mine.name, mine.value, mine.url) == (theirs.role, theirs.name, theirs.value, theirs.url)
        assert mine.states == theirs.states
        assert mine.addressable == theirs.addressable
        assert not mine.addressable or mine.id == theirs.id
    assert again.repairs == ()


@given(
    st.text(st.characters(codec=None), max_size=300)
    | st.lists(st.sampled_from([*PAGE.split("\n"), "\t\t\t[1] x", "prose", "[", "'", "[1] a 'b", "+9 [2] b ''"])).map("\n".join)
)
@example("[1] a 'x\\")
@example("[_2] a ''\n\tb ''\n\t[_1] c ''\n[x#3] d\n\t[x] e\n\t[x] f")
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_tree_whose_rendering_is_stable_or_a_snapshot_error(text: str) -> None:
    try:
        page = AXTree.from_text(text)
    except SnapshotError:
        return
    printed = render_tree(page)
    assert render_tree(AXTree.from_text(printed)) == printed


@pytest.mark.parametrize(
    ("text", "rendered", "repair"),
    [
        ("[1] main ''\nsecond page", ["[1] main ''", "    StaticText 'second page'"], "1 x line that is no node kept as text, first line 2"),
        ("[1] main ''\n[2] main ''", ["[1] main ''", "    [2] main ''"], "1 x second root hung below the first, first line 2"),
        ("[1] main ''\n\t\t\t[2] p ''", ["[1] main ''", "    [2] p ''"], "1 x line indented deeper than its parent allows hung below the line before, first line 2"),
        ("[1] main ''\n\t[1] p ''", ["[1] main ''", "    p ''"], "1 x id seen before kept without its id, first [1]"),
        ("[1] main '' !!", ["[1] main ''"], "1 x end of a line that is no attribute ignored, first line 1: !!"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_mended_and_said(text: str, rendered: list[str], repair: str) -> None:
    page = AXTree.from_text(text)
    assert lines(page) == rendered
    assert repair in page.repairs


def test_an_id_that_comes_later_is_not_taken_by_a_node_without_one() -> None:
    page = AXTree.from_text("main ''\n\tp ''\n\t[_1] button 'Save'\n\t[_0] button 'Open'")
    assert [n.id for n in page.nodes if n.addressable] == ["_1", "_0"]


@pytest.mark.parametrize("text", ["", "\n\n", "'x'", "[12]", "<html>"])
def test_text_without_a_node_line_is_refused(text: str) -> None:
    with pytest.raises(SnapshotError, match="no line of the text is a node line"):
        AXTree.from_text(text)


def test_something_else_than_text_is_refused() -> None:
    with pytest.raises(SnapshotError, match="must be text, found a bytes"):
        AXTree.from_text(b"[1] main ''")  # type: ignore[arg-type]


def test_depth_costs_linear_space_and_reads_back() -> None:
    deep = "\n".join(
        "\t" * min(i, INDENT_LIMIT) + (f"+{i - INDENT_LIMIT} " if i > INDENT_LIMIT else "") + f"[{i}] group 'g'" for i in range(10_000)
    )
    page = AXTree.from_text(deep)
    assert int(page.depth[-1]) == 9_999
    assert render_tree(page) == deep
    assert len(deep) < 10_000 * 100
    plain = "\n".join("\t" * i + f"[{i}] group ''" for i in range(300))  # as BrowserGym prints it
    assert AXTree.from_text(plain).parent.tolist() == [-1, *range(299)]


@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [("[1] link '", "\\", ""), ("[1] link '", "a'", ""), ("[1] a 'b'", ", c", ""), ("", "\t", "x y"), ("", "[1", "")],
)
def test_hostile_lines_take_linear_time(before: str, repeated: str, after: str) -> None:
    def reading(count: int) -> Callable[[], object]:
        text = "[9] main ''\n" + before + repeated * count + after
        return lambda: AXTree.from_text(text)

    assert growth(reading, 20_000, 400_000) < 4


def test_a_number_with_many_decimals_reads_back_as_that_number() -> None:
    text = "RootWebArea 'x'\n\tgeneric value=0.0035337217685844076"
    page = AXTree.from_text(text)
    assert page.nodes[1].value == 0.0035337217685844076
    assert render_tree(page) == text
