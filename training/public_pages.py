"""The further pages that packaged purposes learned from, built again: `python -m training.public_pages --clones DIR --out DIR`.

Enters: `data/further/pages.jsonl.gz` (where each page lies in a public repository, and the purposes that a language model
gave its regions under the annotators' guidelines; no page content), and clones of these repositories as
`CLONES/<owner>/<name>`. Leaves `captures/` and `labels/` in --out, as `--further` of `training.train_embedded_abstraction`
and `training.train_writer` reads them. A page is rendered from its file at its address with scripts off and no network. A
region is named by its root's place in the preprocessed tree; a page whose tree has another size than the annotated one is
left out and said. Pages that are there already are not rendered again.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import logging
import re
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from region4web.axtree import AXTree
from region4web.browser import launch_async, require_playwright
from region4web.capture import capture_live_async
from region4web.errors import BrowserError, CaptureError, MissingExtraError
from region4web.labels import AnnotatedPage
from region4web.regions import Abstraction, Partition, RegionMap
from region4web.snapshot import Snapshot, save_snapshot
from training.records import save_labels

__all__ = ["PublicPage", "main", "read_pages", "regions_of", "save_pages"]

PAGES = Path(__file__).parent.parent / "data" / "further" / "pages.jsonl.gz"
LOAD_SECONDS, READ_SECONDS = 15.0, 25.0
_log = logging.getLogger("training.public_pages")


@dataclass(frozen=True)
class PublicPage:
    """A page in a repository at a commit, shown at `url`; `nodes` in its tree; `regions`: place of each root, and its purpose ('' for none)."""

    page: str
    repository: str
    commit: str
    path: str
    url: str
    nodes: int
    regions: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, page: AnnotatedPage, repository: str, commit: str, path: str) -> PublicPage:
        """What is kept of an annotated page."""
        regions = zip(page.gold.partition.regions, page.gold.abstractions, strict=True)
        named = tuple((region.root, label.purpose) for region, label in regions)
        return cls(page.name, repository, commit, path, page.tree.url, len(page.tree), named)


def read_pages(path: Path) -> Iterator[PublicPage]:
    """Raises ValueError that names the line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                said = json.loads(line)
                page = PublicPage(**{**said, "regions": tuple((int(order), str(purpose)) for order, purpose in said["regions"])})
                if not all(0 <= order < page.nodes for order, _ in page.regions):
                    raise ValueError("a region lies outside of the page")
                yield page
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(f"{path}: line {number} is no page ({error})") from error


def save_pages(pages: Sequence[PublicPage], path: Path) -> None:
    """One JSON object a line; the same bytes for the same pages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        for page in pages:
            file.write((json.dumps(page.__dict__, ensure_ascii=False) + "\n").encode("utf-8"))


def regions_of(page: PublicPage, snapshot: Snapshot) -> RegionMap:
    """The named regions on this capture. Raises ValueError when it is of another page than was annotated."""
    tree = AXTree.from_snapshot(snapshot)
    if len(tree) != page.nodes:
        raise ValueError(f"has {len(tree)} nodes, the annotated page {page.nodes}")
    partition = Partition(tree, tuple(order for order, _ in page.regions))
    return RegionMap(partition, tuple(Abstraction(purpose, "", "label") for _, purpose in page.regions))


def page_source(page: PublicPage, clones: Path) -> bytes | None:
    """The page's file at its commit, unpacked; None when the clone or the file is not there. Raises ValueError for a damaged one."""
    clone = clones / page.repository
    if not clone.is_dir():
        return None
    got = subprocess.run(["git", "-C", str(clone), "cat-file", "blob", f"{page.commit}:{page.path}"], capture_output=True, check=False)
    if got.returncode:
        return None
    try:
        return gzip.decompress(got.stdout) if page.path.endswith(".gz") else got.stdout
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"cannot be unpacked ({error})") from error


async def render(context: Any, source: bytes, url: str) -> Snapshot:
    """The page as it is read from its file at its address, with nothing from the network. Raises CaptureError, Playwright's errors."""
    page = await context.new_page()
    kind = "text/html" if re.search(rb"charset", source[:4000], re.IGNORECASE) else "text/html; charset=utf-8"

    asked = False

    async def answer(route: Any) -> None:
        nonlocal asked
        request = route.request
        if not asked and request.is_navigation_request() and request.frame == page.main_frame:
            asked = True  # a page that sends its reader elsewhere stays
            await route.fulfill(body=source, content_type=kind)
        else:
            await route.abort()

    try:
        await page.route("**/*", answer)
        await page.goto(url, wait_until="domcontentloaded", timeout=LOAD_SECONDS * 1000)
        return await capture_live_async(page, timeout_s=READ_SECONDS)
    finally:
        await page.close()


async def rebuild(pages: Sequence[PublicPage], clones: Path, out: Path) -> Counter[str]:
    """Captures and labels of all pages; how many were `built`, `there` before, `missing`, `different`, `failed`. Raises BrowserError."""
    api = require_playwright()
    found: Counter[str] = Counter()
    async with api.async_playwright() as playwright:
        browser = await launch_async(playwright)
        context = await browser.new_context(viewport={"width": 1280, "height": 720}, java_script_enabled=False)
        for page in tqdm(pages, unit="page", disable=None):
            capture, labels = out / "captures" / f"{page.page}.json.gz", out / "labels" / f"{page.page}.json"
            if capture.is_file() and labels.is_file():
                found["there"] += 1
                continue
            try:
                source = page_source(page, clones)
                if source is None:
                    outcome, reason = "missing", f"not in the clone at {page.commit}"
                else:
                    snapshot = await render(context, source, page.url)
                    regions = regions_of(page, snapshot)
                    capture.parent.mkdir(parents=True, exist_ok=True)
                    save_snapshot(snapshot, capture)
                    save_labels(page.page, "", regions, labels)
                    outcome, reason = "built", ""
            except ValueError as error:
                outcome, reason = "different", str(error)
            except (CaptureError, api.Error) as error:
                if not browser.is_connected():
                    raise BrowserError(f"the browser stopped at {page.page}; run again to go on") from error
                outcome, reason = "failed", str(error).split("\n")[0]
            found[outcome] += 1
            if reason and (clones / page.repository).is_dir():
                _log.warning("%s (%s/%s): %s", page.page, page.repository, page.path, reason)
        await browser.close()
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training.public_pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clones", type=Path, required=True, help="folder of git clones, <owner>/<name> each")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pages", type=Path, default=PAGES)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        pages = list(read_pages(args.pages))
    except (OSError, EOFError, ValueError) as error:
        parser.error(f"{args.pages}: {error}")
    if not pages:
        parser.error(f"{args.pages} names no page")
    absent = sorted({page.repository for page in pages if not (args.clones / page.repository).is_dir()})
    if absent:
        _log.warning("%d repositories are not in %s; git clone https://github.com/%s and so on", len(absent), args.clones, absent[0])
    try:
        found = asyncio.run(rebuild(pages, args.clones, args.out))
    except (BrowserError, MissingExtraError) as error:
        parser.exit(1, f"{error}\n")
    _log.info("built %(built)d, there before %(there)d, not found %(missing)d, different %(different)d, failed %(failed)d", found)
    return 0 if found["built"] + found["there"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
