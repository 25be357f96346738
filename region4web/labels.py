"""Annotated pages: where a page is cut, and what each region is for.

File: `{"page", "kind", "regions": [{"root": <backendDOMNodeId>, "purpose", "state"}, ...]}`, the page's root always
listed; a page left out by its annotator is `{"page", "skip": reason}`. Enters: such a file and its page's tree.
Leaves: a `RegionMap`, and how many roots had to be moved to a node that preprocessing kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from region4web.axtree import AXTree
from region4web.errors import LabelError
from region4web.regions import Abstraction, Partition, RegionMap
from region4web.snapshot import load_snapshot

__all__ = ["AnnotatedPage", "LabelledRegion", "PageLabels", "annotated_pages", "load_labels", "page_files", "read_page"]


@dataclass(frozen=True)
class LabelledRegion:
    """One labelled region. `root` is the id of its root element (`"41"`, `"f1:41"`)."""

    root: str
    purpose: str
    state: str


@dataclass(frozen=True)
class PageLabels:
    """The labels of one page. `skip` is why a page was left out, '' for a labelled one."""

    page: str
    kind: str
    regions: tuple[LabelledRegion, ...]
    skip: str = ""

    def region_map(self, tree: AXTree) -> tuple[RegionMap, int]:
        """The labelled regions on `tree`, and how many roots were mapped to a nearest kept node.

        Two roots that fall on one node make one region, that of the first. Raises LabelError when a root is no
        element of the page.
        """
        found: dict[int, Abstraction] = {}
        mapped = 0
        for region in self.regions:
            index = tree.find(region.root)
            if index is None:
                raise LabelError(f"{self.page}: region root {region.root} is not an element of the page; label and capture do not fit")
            mapped += region.root not in tree.index_of
            found.setdefault(index, Abstraction(region.purpose, region.state, "label"))
        found.setdefault(0, Abstraction("", "", "label"))
        roots = tuple(sorted(found))
        return RegionMap(Partition(tree, roots), tuple(found[root] for root in roots)), mapped


@dataclass(frozen=True)
class AnnotatedPage:
    """A page with its labels."""

    name: str
    kind: str
    tree: AXTree
    gold: RegionMap
    roots_mapped: int

    @property
    def site(self) -> str:
        """The host of the page, or its name up to `__` where pages come from one application: what data is split by."""
        from urllib.parse import urlsplit

        host = urlsplit(self.tree.url).hostname or ""
        return self.name.split("__")[0] if host in ("", "127.0.0.1", "localhost") else host


def load_labels(path: str | os.PathLike[str]) -> PageLabels:
    """Read a label file. Raises LabelError that names the file and the entry."""
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise LabelError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(data, dict):
        raise LabelError(f"{path}: expected an object with page, kind, regions; found a {type(data).__name__}")
    page = str(data.get("page") or path.stem)
    if "skip" in data:
        return PageLabels(page, str(data.get("kind") or ""), (), skip=str(data["skip"]) or "skipped")
    entries = data.get("regions")
    if not isinstance(entries, list) or not entries:
        raise LabelError(f"{path}: 'regions' must be a non-empty list")
    regions: list[LabelledRegion] = []
    for i, entry in enumerate(entries):
        root = entry.get("root") if isinstance(entry, dict) else None
        if not isinstance(root, (int, str)) or isinstance(root, bool):
            raise LabelError(f"{path}: regions[{i}] needs a 'root' that is a backend node id, found {root!r:.40}")
        purpose, state = entry.get("purpose") or "", entry.get("state") or ""
        if not (isinstance(purpose, str) and isinstance(state, str)):
            raise LabelError(f"{path}: regions[{i}] needs 'purpose' and 'state' that are text")
        regions.append(LabelledRegion(str(root), " ".join(purpose.split()), " ".join(state.split())))
    return PageLabels(page, str(data.get("kind") or ""), tuple(regions))


def page_files(captures: str | os.PathLike[str], labels: str | os.PathLike[str]) -> list[tuple[Path, Path]]:
    """Pairs of capture and label file of one name, sorted by name. Raises LabelError when there is none."""
    captures, labels = Path(captures), Path(labels)
    for folder in (captures, labels):
        if not folder.is_dir():
            raise LabelError(f"{folder}: no such folder")
    pairs = []
    for capture in sorted(captures.glob("*.json*")):
        label = labels / f"{capture.name.removesuffix('.gz').removesuffix('.json')}.json"
        if label.is_file():
            pairs.append((capture, label))
    if not pairs:
        raise LabelError(f"no capture in {captures} has a label file of the same name in {labels}")
    return pairs


def annotated_pages(captures: str | os.PathLike[str], labels: str | os.PathLike[str]) -> Iterator[AnnotatedPage]:
    """Every labelled page of two folders, skipped ones left out, in order of name."""
    for capture, label in page_files(captures, labels):
        if (page := read_page(capture, label)) is not None:
            yield page


def read_page(capture: str | os.PathLike[str], label: str | os.PathLike[str]) -> AnnotatedPage | None:
    """One labelled page, or None when its annotator skipped it."""
    labels = load_labels(label)
    if labels.skip:
        return None
    tree = AXTree.from_snapshot(load_snapshot(capture))
    gold, mapped = labels.region_map(tree)
    return AnnotatedPage(labels.page, labels.kind, tree, gold, mapped)
