"""A page as the browser gave it: raw accessibility nodes, boxes, visibility.

Enters: a file, or what `capture` read from a browser. Leaves: a `Snapshot`, the only thing `axtree` reads pages from.
Nothing here interprets the nodes; `preprocessing` checks and repairs them.

File: `*.json` or `*.json.gz`, one object
    {"url", "title", "viewport": [w, h], "nodes": [CDP AXNode, ...], "boxes": {key: [x, y, w, h]},
     "invisible": [key, ...], "clickable": [key, ...], "notes": [str, ...]}
with the last three optional. A key names an element: `"<backendDOMNodeId>"` in the page's own document,
`"f1:<backendDOMNodeId>"` in frame f1. Nodes of a child frame hang below the node of their frame element; a node may
carry `"frame": "f1"`, else frames are numbered in document order.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from region4web.errors import SnapshotError

__all__ = ["Box", "Snapshot", "load_snapshot", "parse_snapshot", "save_snapshot"]

LARGEST_FILE = 1 << 30
"""Bytes of JSON beyond which a file is refused: what a small gzip file unpacks to has no other bound."""

Box = tuple[float, float, float, float]
"""x, y, width, height in CSS pixels from the page's origin."""


@dataclass(frozen=True)
class Snapshot:
    """One page at one moment.

    `nodes` are CDP `AXNode` objects, of all frames, in any order. `boxes` maps element keys to page coordinates; an
    element without a box was not laid out, and an empty mapping means that boxes are not known. `invisible` are
    elements that are laid out but cannot be seen (transparent, off-screen, zero-size); `clickable` are elements with a
    click listener or a pointer cursor. `notes` are what the capture has to say (frames left out, a deadline passed).
    `screenshot` is a PNG of the whole page; it is never written to the JSON file.
    """

    url: str
    title: str
    viewport: tuple[int, int]
    nodes: tuple[Mapping[str, Any], ...]
    boxes: Mapping[str, Box] = field(default_factory=dict)
    invisible: frozenset[str] = frozenset()
    clickable: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    screenshot: bytes | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: object, *, source: str = "snapshot") -> Snapshot:
        """Check the form of a decoded snapshot file. Raises SnapshotError that names the entry."""
        if not isinstance(data, dict):
            raise SnapshotError(f"{source}: expected a JSON object with url, title, viewport, nodes, boxes; found {_kind(data)}")
        nodes = data.get("nodes")
        if not isinstance(nodes, list):
            raise SnapshotError(f"{source}: 'nodes' must be a list of CDP AXNode objects, found {_kind(nodes)}")
        if not nodes:
            raise SnapshotError(f"{source}: 'nodes' is empty; capture the page again")
        for i, node in enumerate(nodes):
            if not isinstance(node, dict):
                raise SnapshotError(f"{source}: nodes[{i}] must be an object, found {_kind(node)}")
        notes = [_one_line(note) for note in _sequence(data, "notes", source)]
        viewport = data.get("viewport", (1280, 720))
        if not (isinstance(viewport, (list, tuple)) and len(viewport) == 2 and all(_is_number(v) and v >= 0 for v in viewport)):
            raise SnapshotError(f"{source}: 'viewport' must be [width, height], two finite numbers from 0 up")
        raw_boxes = data.get("boxes") or {}
        if not isinstance(raw_boxes, dict):
            raise SnapshotError(f"{source}: 'boxes' must map node ids to [x, y, w, h], found {_kind(raw_boxes)}")
        boxes: dict[str, Box] = {}
        bad: list[str] = []
        for key, value in raw_boxes.items():
            if isinstance(value, (list, tuple)) and len(value) == 4 and all(_is_number(v) for v in value):
                boxes[str(key)] = (float(value[0]), float(value[1]), float(value[2]), float(value[3]))
            elif value is not None:
                bad.append(str(key))
        if bad:
            notes.append(f"{len(bad)} boxes are not [x, y, w, h] and were left out, the first is boxes[{bad[0][:40]!r}]")
        return cls(
            url=_text(data, "url", source),
            title=_text(data, "title", source),
            viewport=(int(viewport[0]), int(viewport[1])),
            nodes=tuple(nodes),
            boxes=boxes,
            invisible=frozenset(_keys(data, "invisible", source)),
            clickable=frozenset(_keys(data, "clickable", source)),
            notes=tuple(notes),
        )

    def to_json(self) -> dict[str, Any]:
        """The object that `from_json` reads back, without the screenshot."""
        data: dict[str, Any] = {
            "url": self.url,
            "title": self.title,
            "viewport": list(self.viewport),
            "nodes": list(self.nodes),
            "boxes": {key: list(box) for key, box in self.boxes.items()},
        }
        for name in ("invisible", "clickable"):
            if keys := getattr(self, name):
                data[name] = sorted(keys)
        if self.notes:
            data["notes"] = list(self.notes)
        return data


def load_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Read a `*.json` or `*.json.gz` snapshot. Raises SnapshotError (content) or FileNotFoundError."""
    path = Path(path)
    return parse_snapshot(path.read_bytes(), source=str(path))


def parse_snapshot(raw: bytes, *, source: str = "snapshot") -> Snapshot:
    """The snapshot that a file's bytes hold, gzipped or not. Raises SnapshotError that names `source`."""
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(LARGEST_FILE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise SnapshotError(f"{source}: damaged gzip file ({error}); capture the page again") from error
    if len(raw) > LARGEST_FILE:
        raise SnapshotError(f"{source}: holds more than {LARGEST_FILE >> 20} MiB of JSON; no page is that large")
    try:
        data = json.loads(raw.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{source}: not UTF-8 text (byte {error.start}); a snapshot is JSON, optionally gzipped") from error
    except RecursionError as error:
        raise SnapshotError(f"{source}: JSON nested too deep; a snapshot holds a flat list of nodes") from error
    except ValueError as error:
        raise SnapshotError(f"{source}: not valid JSON ({error}); capture the page again") from error
    return Snapshot.from_json(data, source=source)


def save_snapshot(snapshot: Snapshot, path: str | os.PathLike[str]) -> Path:
    """Write the snapshot whole or not at all; gzipped when the name ends in `.gz`. Returns the path."""
    path = Path(path)
    raw = json.dumps(snapshot.to_json(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if path.suffix == ".gz":
        raw = gzip.compress(raw, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(raw)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _is_number(value: object) -> bool:
    """A finite number that a float holds."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _keys(data: dict[str, Any], name: str, source: str) -> list[str]:
    keys = _sequence(data, name, source)
    for i, key in enumerate(keys):
        if not isinstance(key, (str, int)) or not -(1 << 53) < (0 if isinstance(key, str) else key) < 1 << 53:
            raise SnapshotError(f"{source}: {name}[{i}] must be an element key such as '41' or 'f1:41', found {_kind(key)}")
    return [str(key) for key in keys]


def _one_line(value: object) -> str:
    """A note; page text in it cannot add lines."""
    return " ".join(str(value).split()) if isinstance(value, (str, float, bool)) else _kind(value)


def _text(data: dict[str, Any], key: str, source: str) -> str:
    value = data.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SnapshotError(f"{source}: {key!r} must be text, found {_kind(value)}")
    return value


def _sequence(data: dict[str, Any], key: str, source: str) -> Sequence[Any]:
    value = data.get(key) or ()
    if not isinstance(value, (list, tuple)):
        raise SnapshotError(f"{source}: {key!r} must be a list, found {_kind(value)}")
    return value
