"""Web$hell: pages compiled to addressable objects, from trees and from HTML, and the operations over them."""

import re
from pathlib import Path

import pytest

from pagedigest.modules.webshell import WebShell, compile_axtree, compile_html
from pagedigest.observation import Action
from pagedigest.store import PageStore
from region4web.axtree import AXTree
from region4web.snapshot import load_snapshot

PAGE = """RootWebArea 'Orders', url='http://shop.example/orders'
\t[1] navigation 'Main'
\t\t[2] link 'Home'
\t[3] main ''
\t\t[4] heading 'Orders'
\t\t[5] form 'Filter'
\t\t\t[6] textbox 'Number' value='10', required
\t\t\t[7] combobox 'Status' value='Paid'
\t\t\t\t[8] option 'Paid', selected=True
\t\t\t\t[9] option 'Sent', selected=False
\t\t\t[10] button 'Apply'
\t\t[11] table 'All orders'
\t\t\t[12] row ''
\t\t\t\t[13] columnheader 'Number'
\t\t\t\t\t[14] link 'Number'
\t\t\t\t[15] columnheader 'Total'
\t\t\t[16] row ''
\t\t\t\t[17] cell '1001'
\t\t\t\t\t[18] link '1001'
\t\t\t\t[19] cell '12.50'
\t\t\t[20] row ''
\t\t\t\t[21] cell '1002'
\t\t\t\t\t[22] link '1002'
\t\t\t\t[23] cell '99.00'
\t\t[24] heading 'Notes'
\t\tStaticText 'Orders are kept for ten years. Ask the back office for older ones.'"""


@pytest.fixture
def tree() -> AXTree:
    return AXTree.from_text(PAGE)


def test_the_tree_compiles_to_sections_tables_and_actions_with_addresses(tree):
    page = compile_axtree(tree, "p1.s1")
    form = next(a for a in page.actions if a.purpose == "Filter")
    assert [(f.id, f.role, f.label, f.value) for f in form.fields] == [
        ("6", "textbox", "Number", "10"),
        ("7", "combobox", "Status", "Paid"),
        ("10", "button", "Apply", ""),
    ]
    assert form.fields[0].constraints == ("required",)
    assert form.fields[1].options == ("Paid (selected)", "Sent")
    (table,) = page.tables
    assert (table.columns, table.rows) == (("Number", "Total"), ("1001", "1002"))
    assert table.cells == (("1001", "12.50"), ("1002", "99.00"))
    assert table.lookup("1002", "total") == [("1002", "Total", "99.00")]
    assert [f.id for f in table.actions[1]] == ["22"]
    headings = [t.heading for t in page.texts]
    assert headings[-2:] == ["Orders", "Notes"]
    assert table.address in page.texts[-2].associations


def test_the_contents_list_controls_and_print_no_id_twice(tree):
    text = WebShell().start("t").observe(tree).text
    ids = re.findall(r"\[(\d+)\]", text)
    assert len(ids) == len(set(ids))
    assert {"2", "6", "7", "10", "14"} == set(ids)
    assert "p1.s1.tab1 table 'All orders' 2 rows; columns 'Number', 'Total'" in text


def test_operations_answer_from_the_cache(tree):
    session = WebShell().start("t")
    session.observe(tree)
    read = session.observe(tree, last_action=Action("read('p1.s1.tab1')"))
    assert "row 1 '1002': '1002' | '99.00' [22] link '1002'" in read.text
    assert read.shown == ("18", "22")
    assert "'99.00'" in session.observe(tree, last_action=Action("lookup('p1.s1.tab1', '1002', 'Total')")).text
    assert "ten years" in session.observe(tree, last_action=Action("grep('kept FOR')")).text
    assert "nothing found" in session.observe(tree, last_action=Action("grep('zebra(')")).text
    assert "no object 'p9.s1'" in session.observe(tree, last_action=Action("read('p9.s1')")).text
    assert "[6] textbox 'Number'" in session.observe(tree, last_action=Action("execute('p1.s1.a2')")).text


def test_a_change_on_the_page_is_reported_and_the_earlier_state_stays_readable(tree):
    session = WebShell().start("t")
    session.observe(tree)
    changed = AXTree.from_text(PAGE.replace("value='Paid'", "value='Sent'"))
    text = session.observe(changed, last_action=Action("select_option('7', 'Sent')", "7")).text
    assert text.startswith("STATE p1.s2 changed from p1.s1")
    assert "= 'Sent'" in text
    assert session.observe(changed).text == "STATE p1.s2 no change"
    assert "'Status' = 'Paid'" in session.observe(changed, last_action=Action("retrieve('p1.s1')")).text
    assert "earlier state" in session.observe(changed, last_action=Action("execute('p1.s1.a2')")).text


def test_another_address_is_another_page_and_the_oldest_states_go_first(tree):
    session = WebShell(PageStore(max_states=2)).start("t")
    for k in range(3):
        other = AXTree(tree.nodes, tree.parent, url=f"http://shop.example/{k}")
        assert session.observe(other).text.startswith(f"PAGE p{k + 1}.s{k + 1}")
    assert "no object 'p1.s1'; the latest pages are p2.s2, p3.s3" in session.observe(other, last_action=Action("retrieve('p1.s1')")).text


def test_pages_live_in_the_store_of_pagedigest_under_its_addresses(tree):
    store = PageStore()
    session = WebShell(store).start("t")
    session.observe(tree)
    session.observe(AXTree(tree.nodes, tree.parent, url="http://shop.example/2"))
    assert store.addresses() == ("p1.s1", "p2.s2")
    assert "[22] link '1002'" in store.read("p1.s1.R0")
    assert store.search("ten years")[0].address == "p2.s2.R0"
    assert store.state("p1").observation == compile_axtree(tree, "p1.s1").contents()


def test_an_earlier_state_is_compiled_from_its_stored_text_to_the_same_objects():
    captures = sorted((Path(__file__).parent.parent / "data/gold/captures").glob("*.json.gz"))
    assert len(captures) > 6
    for capture in captures[:: max(1, len(captures) // 6)]:
        tree = AXTree.from_snapshot(load_snapshot(capture))
        session = WebShell().start("t")
        now = session.observe(tree).text
        session.observe(AXTree.from_text("RootWebArea 'Elsewhere'", url="http://elsewhere.example/"))
        assert session.observe(tree, last_action=Action("retrieve('p1.s1')")).text.startswith(now + "\n(")


def test_a_long_text_is_stored_apart_and_read_by_range():
    words = " ".join(f"word{i}" for i in range(1000))
    page = AXTree.from_text(f"RootWebArea 'Long'\n\tStaticText {words!r}")
    session = WebShell().start("t")
    assert "word999" not in session.observe(page).text
    first = session.observe(page, last_action=Action("read('p1.s1.t1')")).text
    (start,) = re.findall(r"read\('p1.s1.t1', (\d+)\)", first)
    assert "word999" not in first
    rest = session.observe(page, last_action=Action(f"read('p1.s1.t1', {start}, 100000)")).text
    assert "word999" in rest


HTML = """<html><head><title>Shop</title><script type="application/ld+json">{"@type":"Product","offers":{"price":"12.50"}}</script>
<style>.x{}</style></head><body><nav><a href="/" bid="1">Home</a></nav><h1>Kettle</h1><p>Boils <b>fast</b>.</p><script>var hidden=1</script>
<table><caption>Sizes</caption><tr><th>Region</th><th colspan="2">Price</th></tr><tr><th rowspan="2">EU</th><td>S</td><td>10</td></tr><tr><td>M</td><td>12</td></tr></table>
<form><label for="q">Quantity</label><input id="q" name="qty" type="number" min="1" max="5" value="1" bid="7">
<select bid="8" aria-label="Colour"><option value="r">Red</option><option value="b" selected>Blue</option></select>
<input type="password" aria-label="Code" value="hunter2"><input type="hidden" name="csrf" value="s3cret"><button bid="9">Add to basket</button></form></body></html>"""


def test_html_compiles_with_spans_labels_options_and_embedded_data():
    page = compile_html(HTML, "http://shop.example/kettle")
    (table,) = page.tables
    assert table.caption == "Sizes"
    assert table.columns == ("Region", "Price", "Price")
    assert table.rows == ("EU", "EU")
    assert table.cells == (("EU", "S", "10"), ("EU", "M", "12"))
    form = page.actions[-1]
    assert [(f.id, f.role, f.label) for f in form.fields] == [
        ("7", "spinbutton", "Quantity"),
        ("8", "combobox", "Colour"),
        (None, "textbox", "Code"),
        ("9", "button", "Add to basket"),
    ]
    assert form.fields[0].constraints == ("min=1", "max=5")
    assert form.fields[1].value == "Blue"
    assert form.fields[1].options == ("Red (r)", "Blue (b)")
    assert ("offers.price", "12.50") in [(f.path, f.value) for f in page.facts]
    whole = page.contents() + "".join(t.text for t in page.texts) + repr(page.actions)
    assert "hunter2" not in whole
    assert "s3cret" not in whole
    assert "hidden=1" not in whole


@pytest.mark.parametrize(
    "html", ["<table><tr><td colspan=999999999>x</td><td>y</td></tr></table>", "<table><tr></tr></table>", "<p>a", "<div>" * 3000 + "x"]
)
def test_odd_html_compiles_without_a_crash(html):
    assert compile_html(html).address == "p1"


def test_html_without_an_element_is_refused():
    with pytest.raises(ValueError, match="no HTML element"):
        compile_html("")
