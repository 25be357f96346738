"""Label files: what is read, what is refused by name, and how labelled regions fall on a preprocessed tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from region4web import AXTree, save_snapshot
from region4web.errors import LabelError
from region4web.labels import LabelledRegion, PageLabels, annotated_pages, load_labels, page_files
from tests.builders import node, snapshot

SHOP = snapshot(
    node(1, "RootWebArea", "Shop", [2, 4]),
    node(2, "generic", "", [3]),
    node(3, "navigation", "Menu", [5]),
    node(4, "main", ""),
    node(5, "link", "Home"),
)


def labels(*roots: str) -> PageLabels:
    return PageLabels("shop", "listing", tuple(LabelledRegion(root, f"purpose of {root}", "") for root in roots))


def test_labelled_regions_become_a_partition_with_purposes() -> None:
    gold, mapped = labels("1", "4", "3").region_map(AXTree.from_snapshot(SHOP))
    assert gold.partition.roots == (0, 1, 3)
    assert [a.purpose for a in gold.abstractions] == ["purpose of 1", "purpose of 3", "purpose of 4"]
    assert [a.source for a in gold.abstractions] == ["label"] * 3
    assert mapped == 0


def test_a_root_that_preprocessing_dropped_is_mapped_and_counted() -> None:
    gold, mapped = labels("1", "2").region_map(AXTree.from_snapshot(SHOP))
    assert gold.partition.roots == (0, 1)  # the wrapper's navigation
    assert mapped == 1


def test_two_roots_on_one_node_make_one_region_and_the_page_root_is_always_there() -> None:
    gold, mapped = labels("3", "2").region_map(AXTree.from_snapshot(SHOP))
    assert [a.purpose for a in gold.abstractions] == ["", "purpose of 3"]
    assert mapped == 1


def test_a_root_of_another_page_is_refused_by_name() -> None:
    with pytest.raises(LabelError, match="shop: region root 77 is not an element of the page"):
        labels("1", "77").region_map(AXTree.from_snapshot(SHOP))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "expected an object"),
        ("{}", "'regions' must be a non-empty list"),
        ('{"regions": []}', "'regions' must be a non-empty list"),
        ('{"regions": [{"root": 1}, {"purpose": "x"}]}', r"regions\[1\] needs a 'root'"),
        ('{"regions": [{"root": true}]}', r"regions\[0\] needs a 'root'"),
        ('{"regions": [{"root": 1, "purpose": ["x"]}]}', r"regions\[0\] needs 'purpose' and 'state' that are text"),
        ('{"regions": [7]}', r"regions\[0\] needs a 'root'"),
        (b"\xff\xfe", "not valid JSON"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name_and_entry(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "shop.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LabelError, match=message) as refused:
        load_labels(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def write(folder: Path, name: str, data: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(data), encoding="utf-8")


def test_pages_with_both_files_are_read_in_order_and_skipped_ones_left_out(tmp_path: Path) -> None:
    for name in ("b.json.gz", "a.json", "c.json", "unlabelled.json"):
        save_snapshot(SHOP, tmp_path / "captures" / name)
    regions = [{"root": 1, "purpose": "Shop", "state": "one link"}, {"root": "3", "purpose": "Menu", "state": ""}]
    for name in ("a.json", "b.json"):
        write(tmp_path / "labels", name, {"page": name[0], "kind": "listing", "regions": regions})
    write(tmp_path / "labels", "c.json", {"page": "c", "skip": "broken"})
    assert [capture.name for capture, _ in page_files(tmp_path / "captures", tmp_path / "labels")] == ["a.json", "b.json.gz", "c.json"]
    pages = list(annotated_pages(tmp_path / "captures", tmp_path / "labels"))
    assert [(p.name, p.kind, p.site, len(p.gold.partition), p.roots_mapped) for p in pages] == [
        ("a", "listing", "shop.test", 2, 0),
        ("b", "listing", "shop.test", 2, 0),
    ]
    assert load_labels(tmp_path / "labels" / "c.json").skip == "broken"


def test_folders_that_hold_no_pair_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="no such folder"):
        page_files(tmp_path / "captures", tmp_path)
    with pytest.raises(LabelError, match=r"no capture in .* has a label file of the same name"):
        page_files(tmp_path, tmp_path)
