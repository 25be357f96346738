"""The selector whose ranker never saw the page's site: what a comparison on the training steps must use.

Enters: a page. Leaves: the hybrid's selection, by the ranker of that fold of `training.train_selection` in which the page's
site was held out; a site that no fold was trained on gets the first fold's. `sites.json` beside the fold's rankers says
which site lies in which fold.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from pagedigest.ranker import TreeRanker, load_ranker
from pagedigest.selection import HybridSelector, Page, Selection
from region4web.errors import WeightsError

__all__ = ["HeldOutSelector", "fold_folder", "site_key"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def site_key(url: str) -> str:
    """The host of a page; local applications share one, so that theirs goes with the port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.netloc if host in LOOPBACK else host


def fold_folder(folder: Path, fold: int) -> Path:
    """Where the ranker lies that was trained without fold `fold`."""
    return folder / f"without_fold_{fold}"


class HeldOutSelector:
    """`HybridSelector` with a ranker for each fold of sites. `folder` None: the packaged ones."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = Path(str(files("pagedigest"))) / "weights" / "held_out" if folder is None else folder

    def select(self, page: Page) -> Selection:
        return HybridSelector(self.ranker(page.region_map.partition.tree.url)).select(page)

    def follow(self, selection: Selection, page: Page) -> Selection:
        return HybridSelector(self.ranker(page.region_map.partition.tree.url)).follow(selection, page)

    @property
    def available(self) -> bool:
        """Whether the folds' rankers are there at all."""
        return (self._folder / "sites.json").is_file()

    def ranker(self, url: str) -> TreeRanker:
        """The ranker for a page. Raises WeightsError when it is missing or damaged."""
        return load_ranker(fold_folder(self._folder, _folds(self._folder).get(site_key(url), 0)))


@lru_cache(maxsize=4)
def _folds(folder: Path) -> dict[str, int]:
    path = folder / "sites.json"
    try:
        folds: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: folds of sites missing or damaged ({error}); run python -m training.train_selection") from error
    return folds
