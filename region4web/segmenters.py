"""Segmenters that need no model: the whole page, landmarks, a fixed depth, headings. And any segmenter by its name.

Enters: a tree. Leaves: a `Partition`. Each rule is a baseline that a learned segmenter has to beat; none reads boxes,
and all take time linear in the number of nodes. Symbols: N nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from region4web.axtree import AXTree
from region4web.regions import Partition, Segmenter

__all__ = ["LANDMARK_ROLES", "SEGMENTER_NAMES", "FixedDepth", "Headings", "Landmarks", "WholePage", "segmenter_by_name"]

LANDMARK_ROLES = frozenset(
    {"banner", "navigation", "main", "complementary", "contentinfo", "search", "form", "region", "dialog", "alertdialog"}
)
"""WAI-ARIA landmark roles and dialogs."""

SEGMENTER_NAMES = ("whole-page", "landmarks", "fixed-depth", "headings", "best", "paper")
"""What `segmenter_by_name` knows, besides the path of a weights folder."""


@dataclass(frozen=True)
class WholePage:
    """One region: the page."""

    def segment(self, tree: AXTree) -> Partition:
        return Partition(tree, (0,))


@dataclass(frozen=True)
class Landmarks:
    """A region at every landmark."""

    roles: frozenset[str] = LANDMARK_ROLES

    def segment(self, tree: AXTree) -> Partition:
        return Partition.from_cuts(tree, (i for i, node in enumerate(tree.nodes) if node.role in self.roles))


@dataclass(frozen=True)
class FixedDepth:
    """A region at every node that is `depth` edges below the root and has at least `smallest` nodes in its subtree.

    The defaults are the best of depth 2 to 8 and smallest 1, 3, 6, 10 on 671 annotated pages (region F1 0.51; 0.37 when
    single nodes count as well).
    """

    depth: int = 4
    smallest: int = 3

    def __post_init__(self) -> None:
        if self.depth < 1 or self.smallest < 1:
            raise ValueError(f"depth and smallest must be at least 1, found {self.depth} and {self.smallest}")

    def segment(self, tree: AXTree) -> Partition:
        size = tree.end - np.arange(len(tree))
        return Partition.from_cuts(tree, np.flatnonzero((tree.depth == self.depth) & (size >= self.smallest)).tolist())


@dataclass(frozen=True)
class Headings:
    """A region at the highest node around each heading that holds no second one."""

    roles: frozenset[str] = frozenset({"heading"})

    def segment(self, tree: AXTree) -> Partition:
        parent = tree.parent.tolist()
        held = [int(node.role in self.roles) for node in tree.nodes]
        for i in range(len(held) - 1, 0, -1):
            held[parent[i]] += held[i]
        # A lone heading under a parent that holds others is no region: its text is not below it.
        cuts = [i for i in range(1, len(held)) if held[i] == 1 and held[parent[i]] > 1 and tree.nodes[i].role not in self.roles]
        return Partition.from_cuts(tree, cuts)


def segmenter_by_name(name: str) -> Segmenter:
    """`whole-page`, `landmarks`, `fixed-depth`, `headings`; `best` or `paper` (weights that ship with the package); a
    weights folder; or `hub:OWNER/NAME`. Raises ValueError for any other name, WeightsError for a folder that holds no usable weights.
    """
    rules: dict[str, type[WholePage | Landmarks | FixedDepth | Headings]] = {
        "whole-page": WholePage,
        "landmarks": Landmarks,
        "fixed-depth": FixedDepth,
        "headings": Headings,
    }
    if name in rules:
        return rules[name]()
    from region4web.decomposition import HUB_PREFIX, LearnedSegmenter

    if name in SEGMENTER_NAMES or name.startswith(HUB_PREFIX) or (name and Path(name).is_dir()):
        segmenter: Segmenter = LearnedSegmenter(weights=name)
        return segmenter
    raise ValueError(f"no segmenter {name!r}; use one of {', '.join(SEGMENTER_NAMES)}, the path of a weights folder, or hub:OWNER/NAME")
