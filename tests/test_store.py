"""The page store: addresses, search, limits, export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedigest.store import PageStore, StoredRegion, StoredState


def orders(step: int, *, page: int = 1, row: str = "Order 1001 pending") -> StoredState:
    regions = (StoredRegion(0, "Site header", "[1] link 'Home'"), StoredRegion(1, "Table of orders", f"[2] row ''\n\t[3] cell {row!r}"))
    return StoredState(page, step, f"http://shop.test/p{page}", "Orders", f"what was read at step {step}", regions)


def test_a_state_is_read_back_under_its_address() -> None:
    with PageStore() as store:
        assert store.add(orders(5, page=2)) == "p2.s5"
        assert store.state("p2.s5") == orders(5, page=2)
        assert store.read("p2.s5.R1") == "R1 | Table of orders\n[2] row ''\n\t[3] cell 'Order 1001 pending'"
        assert store.read("p2.s5").splitlines()[0] == "p2.s5 'Orders' http://shop.test/p2"


def test_a_page_alone_is_its_latest_state() -> None:
    with PageStore() as store:
        store.add(orders(1))
        store.add(orders(4, row="Order 1001 shipped"))
        assert "shipped" in store.read("p1")
        assert "pending" in store.read("p1.s1")


def test_a_long_text_is_read_by_range() -> None:
    with PageStore() as store:
        store.add(orders(1))
        whole = store.read("p1.s1")
        assert store.read("p1.s1", start=10, limit=20) == whole[10:30]


def test_search_names_the_newest_place_of_each_line() -> None:
    with PageStore() as store:
        store.add(orders(1))
        store.add(orders(2))
        store.add(orders(3, page=2, row="ORDER 77"))
        assert [(f.address, f.line) for f in store.search("order ")] == [
            ("p2.s3.R1", "[3] cell 'ORDER 77'"),
            ("p1.s2.R1", "[3] cell 'Order 1001 pending'"),
        ]
        assert store.search("nowhere") == ()


def test_search_finds_text_without_spaces_between_words() -> None:
    with PageStore() as store:
        store.add(orders(1, row="価格を確認する"))
        assert [f.address for f in store.search("価格")] == ["p1.s1.R1"]


def test_equal_regions_are_kept_once() -> None:
    with PageStore() as store:
        store.add(orders(1))
        size = store.bytes
        store.add(orders(2))
        assert store.bytes - size == len("what was read at step 2")


def test_the_oldest_states_go_first_and_reading_them_says_what_is_kept() -> None:
    with PageStore(max_states=3) as store:
        for step in range(1, 8):
            store.add(orders(step))
        assert store.addresses() == ("p1.s5", "p1.s6", "p1.s7")
        with pytest.raises(ValueError, match=r"no state p1\.s2: kept are p1\.s5 to p1\.s7"):
            store.read("p1.s2")


@given(st.lists(st.tuples(st.integers(1, 3), st.text(max_size=200)), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_the_byte_limit_holds_or_one_state_is_left(states: list[tuple[int, str]]) -> None:
    with PageStore(max_bytes=400) as store:
        for step, (page, row) in enumerate(states):
            store.add(orders(step, page=page, row=row))
            assert store.bytes <= 400 or len(store) == 1


def test_a_step_stored_again_replaces_the_first() -> None:
    with PageStore() as store:
        store.add(orders(1))
        store.add(orders(1, row="Order 1001 shipped"))
        assert store.addresses() == ("p1.s1",)
        assert "shipped" in store.read("p1.s1.R1")
        assert store.search("pending") == ()


def test_the_export_holds_every_state(tmp_path: Path) -> None:
    with PageStore(tmp_path / "pages.sqlite") as store:
        store.add(orders(1))
        store.add(orders(2))
        assert store.export(tmp_path / "pages.jsonl") == 2
    records = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [r["address"] for r in records] == ["p1.s1", "p1.s2"]
    assert records[0]["regions"][0] == {"id": "R0", "purpose": "Site header", "text": "[1] link 'Home'"}


def test_a_file_is_read_by_the_next_process(tmp_path: Path) -> None:
    with PageStore(tmp_path / "pages.sqlite") as store:
        store.add(orders(1))
    with PageStore(tmp_path / "pages.sqlite") as store:
        assert store.state("p1.s1") == orders(1)


def test_text_with_lone_surrogates_is_kept() -> None:
    with PageStore() as store:
        store.add(orders(1, row="bad \ud800 text"))
        assert "bad" in store.read("p1.s1.R1")


@pytest.mark.parametrize("address", ["", "2.5", "p2.R3", "p2.s5.R3.x", "p1; DROP TABLE states"])
def test_what_is_no_address_is_told(address: str) -> None:
    with PageStore() as store, pytest.raises(ValueError, match="is no address"):
        store.read(address)


def test_an_unknown_region_names_those_there_are() -> None:
    with PageStore() as store:
        store.add(orders(1))
        with pytest.raises(ValueError, match=r"no region R9 in p1\.s1: it has R0 to R1"):
            store.read("p1.s1.R9")
