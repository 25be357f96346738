"""Regions against blocks that people marked by hand, on pages that no model was trained on.

Enters: a folder with `captures/` and `blocks/`; a block file is `{"page", "blocks": [{"level": 1 | 2, "type",
"members": [<backendDOMNodeId>, ...]}]}`, level 1 coarse, level 2 fine. Leaves: how well a segmenter's regions agree.
Blocks need not cover the page and may overlap; a page is scored against the level that its regions fit better.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from tqdm import tqdm

from region4web.axtree import AXTree
from region4web.errors import LabelError
from region4web.metrics import IOU_THRESHOLD
from region4web.regions import Partition, Segmenter
from region4web.snapshot import load_snapshot

__all__ = ["Block", "BlockedPage", "bcubed_f1", "block_matches", "blocked_pages", "evaluate_blocks"]


@dataclass(frozen=True)
class Block:
    """Nodes (indices, rising) that a person saw as one block."""

    level: int
    kind: str
    members: npt.NDArray[np.int64]


@dataclass(frozen=True)
class BlockedPage:
    """A page and its blocks. A member that preprocessing dropped stands for the node that took its place."""

    name: str
    tree: AXTree
    blocks: tuple[Block, ...]

    def levels(self) -> tuple[tuple[Block, ...], ...]:
        """The blocks of each level that has any."""
        numbers = sorted({block.level for block in self.blocks})
        return tuple(tuple(block for block in self.blocks if block.level == number) for number in numbers)


def blocked_pages(folder: str | os.PathLike[str]) -> list[tuple[Path, Path]]:
    """Pairs of capture and block file. Raises LabelError when the folder holds none."""
    folder = Path(folder)
    for part in ("captures", "blocks"):
        if not (folder / part).is_dir():
            raise LabelError(f"{folder}: needs the folders captures/ and blocks/, {part}/ is missing")
    pairs = []
    for capture in sorted((folder / "captures").glob("*.json*")):
        blocks = folder / "blocks" / f"{capture.name.removesuffix('.gz').removesuffix('.json')}.json"
        if blocks.is_file():
            pairs.append((capture, blocks))
    if not pairs:
        raise LabelError(f"{folder}: no capture has a block file of the same name")
    return pairs


def read_blocked_page(capture: Path, path: Path) -> BlockedPage:
    """One page. Raises LabelError that names the file and the entry."""
    tree = AXTree.from_snapshot(load_snapshot(capture))
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["blocks"]
        blocks = []
        for entry in entries:
            found = {tree.find(member) for member in entry["members"]} - {None}
            if found:
                blocks.append(Block(int(entry["level"]), str(entry.get("type", "")), np.asarray(sorted(i for i in found if i is not None))))
    except (ValueError, KeyError, TypeError) as error:
        raise LabelError(f"{path}: 'blocks' must be a list of objects with level, type, members ({error!r})") from error
    return BlockedPage(path.stem, tree, tuple(blocks))


def block_matches(partition: Partition, blocks: Iterable[Block]) -> int:
    """How many blocks and regions can be paired, one to one, with IoU of their node sets >= 0.5."""
    region = partition.region_of
    sizes = np.bincount(region, minlength=len(partition))
    rows, columns = [], []
    count = 0
    for number, block in enumerate(blocks):
        count = number + 1
        inside = np.bincount(region[block.members], minlength=len(partition))
        fits = np.flatnonzero((inside > 0) & (inside >= IOU_THRESHOLD * (sizes + len(block.members) - inside)))
        rows += [number] * len(fits)
        columns += fits.tolist()
    if not rows:
        return 0
    graph = coo_matrix((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(count, len(partition))).tocsr()
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


def bcubed_f1(partition: Partition, blocks: Iterable[Block]) -> float:
    """B-cubed F1 over the nodes that lie in a block; of blocks that overlap, the smaller one counts."""
    gold = np.full(len(partition.tree), -1, dtype=np.int64)
    for number, block in sorted(enumerate(blocks), key=lambda item: -len(item[1].members)):
        gold[block.members] = number
    covered = gold >= 0
    if not covered.any():
        return 0.0
    _, a = np.unique(partition.region_of[covered], return_inverse=True)
    _, b = np.unique(gold[covered], return_inverse=True)
    _, pair, common = np.unique(a * (b.max() + 1) + b, return_inverse=True, return_counts=True)
    precision = float(np.mean(common[pair] / np.bincount(a)[a]))
    recall = float(np.mean(common[pair] / np.bincount(b)[b]))
    return 2 * precision * recall / (precision + recall)


def evaluate_blocks(folder: str | os.PathLike[str], segmenter: Segmenter) -> dict[str, float | int]:
    """`pages`, `blocks` (of the levels compared with), `block_f1` over all pages, `bcubed_f1` as the mean of pages.

    Both figures take, for each page, the level that the regions fit better. Raises LabelError.
    """
    pages = predicted = labelled = matched = 0
    bcubed: list[float] = []
    for capture, path in tqdm(blocked_pages(folder), desc="pages", disable=None):
        page = read_blocked_page(capture, path)
        levels = page.levels()
        if not levels:
            continue
        partition = segmenter.segment(page.tree)
        pages += 1
        counts = [(block_matches(partition, level), len(level)) for level in levels]
        hits, size = max(counts, key=lambda pair: (2 * pair[0] / (len(partition) + pair[1]), -pair[1]))
        predicted, labelled, matched = predicted + len(partition), labelled + size, matched + hits
        bcubed.append(max(bcubed_f1(partition, level) for level in levels))
    return {
        "pages": pages,
        "blocks": labelled,
        "block_f1": round(2 * matched / (predicted + labelled), 4) if labelled else 0.0,
        "bcubed_f1": round(float(np.mean(bcubed)), 4) if bcubed else 0.0,
    }
