"""What training reads and annotation writes: labelled pages as files, labelled regions as samples.

Enters: folders of captures and labels (`region4web.labels` has the file's form, `LABEL_SCHEMA` states it). Leaves: label
files, and `Sample`s, one a labelled region, with the split that their site belongs to. The split is a function of the
site's name alone, so that every training run and every evaluation agrees on what was never seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from region4web.labels import AnnotatedPage
from region4web.region_text import region_text
from region4web.regions import RegionMap

__all__ = [
    "LABEL_SCHEMA",
    "Sample",
    "data_checksum",
    "load_samples",
    "save_labels",
    "save_samples",
    "split_of",
    "training_samples",
    "write_whole",
]

LABEL_SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Labels of one page",
    "type": "object",
    "required": ["page"],
    "properties": {
        "page": {"type": "string", "description": "name of the capture without .json or .json.gz"},
        "kind": {"type": "string", "description": "what kind of page: product, forum thread, settings, ..."},
        "skip": {"type": "string", "description": "why the page has no labels"},
        "regions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["root", "purpose", "state"],
                "properties": {
                    "root": {
                        "type": ["integer", "string"],
                        "description": "backendDOMNodeId of the region's root, with a frame prefix in other frames",
                    },
                    "purpose": {"type": "string", "description": "what the region is for, at most 8 words"},
                    "state": {"type": "string", "description": "what is there to act on now, at most 25 words"},
                },
            },
        },
    },
    "oneOf": [{"required": ["regions"]}, {"required": ["skip"]}],
}


@dataclass(frozen=True)
class Sample:
    """One labelled region as a model reads it."""

    site: str
    page: str
    root: str
    text: str
    purpose: str
    state: str


def split_of(site: str) -> str:
    """`train`, `validation` or `test` (a tenth of all sites each), by the site's name alone."""
    return {0: "validation", 1: "test"}.get(zlib.crc32(site.encode()) % 10, "train")


def training_samples(pages: Iterable[AnnotatedPage], *, budget: int, count: Callable[[str], int]) -> Iterator[Sample]:
    """One sample a labelled region that has a purpose, in page order; texts of at most `budget` tokens by `count`."""
    for page in pages:
        partition = page.gold.partition
        for region, label in zip(partition.regions, page.gold.abstractions, strict=True):
            if label.purpose:
                text = region_text(partition, region.number, budget=budget, count=count)
                yield Sample(page.site, page.name, page.tree.nodes[region.root].id, text, label.purpose, label.state)


def save_samples(samples: Sequence[Sample], path: str | os.PathLike[str]) -> Path:
    """Write one JSON object a line, whole or not at all."""
    return write_whole(Path(path), "".join(json.dumps(asdict(sample), ensure_ascii=False) + "\n" for sample in samples))


def load_samples(path: str | os.PathLike[str]) -> list[Sample]:
    """Read what `save_samples` wrote. Raises ValueError that names the line."""
    samples = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
        if line:
            try:
                samples.append(Sample(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}: line {number} is no sample ({error})") from error
    return samples


def save_labels(page: str, kind: str, gold: RegionMap, path: str | os.PathLike[str]) -> Path:
    """Write a page's regions as a label file, whole or not at all."""
    tree = gold.partition.tree
    regions = []
    for region, label in zip(gold.partition.regions, gold.abstractions, strict=True):
        node_id = tree.nodes[region.root].id
        regions.append({"root": int(node_id) if node_id.isdecimal() else node_id, "purpose": label.purpose, "state": label.state})
    return write_whole(Path(path), json.dumps({"page": page, "kind": kind, "regions": regions}, ensure_ascii=False, indent=1) + "\n")


def data_checksum(files: Iterable[str | os.PathLike[str]]) -> str:
    """SHA-256 over the names and contents of files, in order of name: what a run says about its data."""
    digest = hashlib.sha256()
    for path in sorted(map(Path, files), key=lambda p: p.name):
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_whole(path: Path, text: str) -> Path:
    """Write a text file so that another process sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def append_json_line(entry: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Add one line to a log. A last line that a kill cut off is closed first, so that it spoils none but itself."""
    with Path(path).open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(entry).encode("utf-8") + b"\n")


def json_lines(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The entries of a log, none when there is no file. Lines that a kill cut off are passed over."""
    path = Path(path)
    for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else []:
        try:
            entry = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry
