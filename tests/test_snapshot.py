"""Snapshot files: what is read, what is refused in one line, and that a file is written whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from region4web import Snapshot, load_snapshot, save_snapshot
from region4web.errors import SnapshotError
from region4web.snapshot import parse_snapshot
from tests.builders import GOLD, json_values, node, snapshot

SHOP = snapshot(
    node(1, "RootWebArea", "Shöp \ud800", [2]),
    node(2, "button", "買う"),
    boxes={"1": [0, 0, 1280, 900], "f1:2": [1.5, 2, 3, 4]},
    invisible=["2"],
    clickable=["2", "f1:2"],
    notes=["one frame was left out"],
)


@pytest.mark.parametrize("name", ["shop.json", "shop.json.gz", "new/folder/shop.json.gz"])
def test_a_saved_snapshot_reads_back(tmp_path: Path, name: str) -> None:
    path = save_snapshot(SHOP, tmp_path / name)
    assert load_snapshot(path) == SHOP
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_same_snapshot_is_the_same_file(tmp_path: Path) -> None:
    assert save_snapshot(SHOP, tmp_path / "a.json.gz").read_bytes() == save_snapshot(SHOP, tmp_path / "b.json.gz").read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = save_snapshot(SHOP, tmp_path / "shop.json")
    before = path.read_bytes()
    unwritable = Snapshot("", "", (1, 1), ({"nodeId": {1, 2}},))
    with pytest.raises(TypeError):
        save_snapshot(unwritable, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["shop.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\x1f\x8b\x08broken", "damaged gzip file"),
        (gzip.compress(b'{"nodes": []}', mtime=0)[:-6], "damaged gzip file"),
        (b"\xff\xfe{", "not UTF-8 text"),
        (b"[" * 200_000, "nested too deep"),
        (b"[]", "expected a JSON object with url, title, viewport, nodes, boxes; found a list"),
        (b"{}", "'nodes' must be a list of CDP AXNode objects, found nothing"),
        (b'{"nodes": {}}', "'nodes' must be a list of CDP AXNode objects, found a dict"),
        (b'{"nodes": []}', "'nodes' is empty"),
        (b'{"nodes": [{}, "x"]}', r"nodes\[1\] must be an object, found a str"),
        (b'{"nodes": [{}], "url": 7}', "'url' must be text, found a int"),
        (b'{"nodes": [{}], "viewport": [1]}', r"'viewport' must be \[width, height\]"),
        (b'{"nodes": [{}], "viewport": [1, -2]}', r"'viewport' must be \[width, height\]"),
        (b'{"nodes": [{}], "viewport": [1, NaN]}', r"'viewport' must be \[width, height\]"),
        (b'{"nodes": [{}], "viewport": [1, 1' + b"0" * 400 + b"]}", r"'viewport' must be \[width, height\]"),
        (b'{"nodes": [{}], "boxes": [1]}', "'boxes' must map node ids"),
        (b'{"nodes": [{}], "clickable": "12"}', "'clickable' must be a list, found a str"),
        (b'{"nodes": [{}], "invisible": [[1]]}', r"invisible\[0\] must be an element key"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line_that_names_it(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "shop.json"
    path.write_bytes(content)
    with pytest.raises(SnapshotError, match=message) as refused:
        load_snapshot(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_small_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("region4web.snapshot.LARGEST_FILE", 1 << 20)
    bomb = gzip.compress(b" " * (3 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(SnapshotError, match="bomb: holds more than 1 MiB of JSON"):
        parse_snapshot(bomb, source="bomb")


def test_a_missing_file_is_a_file_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        load_snapshot("no/such/shop.json")


def test_boxes_that_are_no_boxes_are_left_out_and_said() -> None:
    data = {
        "nodes": [{}],
        "boxes": {"1": [0, 0, 1, 1], "2": [0, 0, 1], "3": [0, 0, float("inf"), 1], "4": "x", "5": None, "6": [0, 0, 10**400, 1]},
    }
    page = Snapshot.from_json(data)
    assert page.boxes == {"1": (0.0, 0.0, 1.0, 1.0)}
    assert page.notes == ("4 boxes are not [x, y, w, h] and were left out, the first is boxes['2']",)


@given(json_values())
@settings(max_examples=200, deadline=None)
def test_any_json_value_is_read_or_refused_as_a_snapshot(value: Any) -> None:
    for data in (
        value,
        *({"nodes": [{}], key: value} for key in ("nodes", "url", "title", "viewport", "boxes", "invisible", "clickable", "notes")),
    ):
        with contextlib.suppress(SnapshotError):
            Snapshot.from_json(data)


@pytest.mark.parametrize("kind", ["snapshot", "labels"])
def test_files_of_the_gold_set_fit_their_schema(kind: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (extra 'dev')")
    schema = json.loads((GOLD.parent / "schemas" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    folder = GOLD / ("captures" if kind == "snapshot" else kind)
    check = jsonschema.validators.validator_for(schema)(schema)
    for path in sorted(folder.iterdir())[::6]:
        raw = path.read_bytes()
        data = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        assert [error.message for error in check.iter_errors(data)] == [], path.name
    assert [error.message for error in check.iter_errors({"page": 7, "nodes": 7})] != []
