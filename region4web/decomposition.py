"""The learned decomposition: a tree in, the partition that a trained network cuts out.

Enters: a tree and a weights folder (`config.json`, `model.safetensors`). Leaves: a `Partition`. The networks are in
`edge_model`; torch is imported when a segmenter is made, not when this module is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXTree
from region4web.boosted_trees import BoostedTrees
from region4web.consensus import best_partition, candidate_regions, consensus_cuts
from region4web.errors import MissingExtraError, WeightsError
from region4web.features import FEATURE_NAMES, PAPER_FEATURE_NAMES, NodeFeatures, node_features, paper_features
from region4web.region_scores import candidate_features, load_region_trees, region_probabilities
from region4web.regions import Partition
from region4web.skeleton import Skeleton, skeleton

if TYPE_CHECKING:
    from region4web.edge_model import Ensemble, PaperModel

__all__ = [
    "SHIPPED_WEIGHTS",
    "LearnedSegmenter",
    "dissolve_remnants",
    "divide_oversized",
    "ensemble_cuts",
    "mended_cuts",
    "scored_cuts",
    "weights_folder",
]

SHIPPED_WEIGHTS = ("best", "paper")
HUB_PREFIX = "hub:"
PAGE_TO_DIVIDE = 300
"""Nodes from which a page is looked over for regions that hold most of it."""
LARGEST_SHARE, LEAST_SHARE = 0.4, 0.02
"""Of the page: what a region may hold, and what a further cut has to take out of it."""
CERTAIN_ENOUGH = 0.1
LEAST_REMNANT = 4
"""Nodes that a region with regions below it must keep for itself."""
_SETTINGS = {
    "best": ("features", "region_cost", "members", "width", "hidden", "blocks", "smallest"),
    "paper": ("features", "threshold", "smallest"),
}


def weights_folder(weights: str | os.PathLike[str]) -> Path:
    """The folder of a shipped variant's weights, the folder given, or `hub:OWNER/NAME` downloaded from the Hugging Face hub into its cache.

    Raises WeightsError when there is none, MissingExtraError when huggingface_hub is not installed.
    """
    if isinstance(weights, str) and weights.startswith(HUB_PREFIX):
        return _downloaded(weights.removeprefix(HUB_PREFIX))
    if isinstance(weights, str) and weights in SHIPPED_WEIGHTS:
        folder = Path(__file__).parent / "weights" / "decomposition" / weights
    else:
        folder = Path(weights)
    if not folder.is_dir():
        raise WeightsError(
            f"{folder}: no such weights folder; name one that holds config.json and model.safetensors, {HUB_PREFIX}OWNER/NAME, "
            f"or one of {', '.join(SHIPPED_WEIGHTS)}"
        )
    return folder


def _downloaded(repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtraError("weights of the hub need huggingface_hub: pip install 'region4web[lm]'") from error
    try:
        return Path(snapshot_download(repository, allow_patterns=["config.json", "*.safetensors", "regions.npz", "metrics.json"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise WeightsError(f"{HUB_PREFIX}{repository}: not in the hub, or the hub cannot be reached ({reason})") from error


class LearnedSegmenter:
    """Cuts where a trained network says so.

    `weights` names a shipped variant (`best`, `paper`), a folder, or a hub id (`hub:OWNER/NAME`). `threads` is the number of torch threads during a
    call; these networks are small, and more than one gains nothing.
    """

    def __init__(self, weights: str | os.PathLike[str] = "best", *, threads: int = 1) -> None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, found {threads}")
        self.folder = weights_folder(weights)
        self.threads = threads
        self.config = _read_config(self.folder / "config.json")
        self._model = _load_model(self.folder, self.config)
        self._trees = load_region_trees(self.folder / "regions.npz") if self.config.get("region_scores") else None

    def cut_probability(self, tree: AXTree) -> npt.NDArray[np.float32]:
        """(N,) probability that the edge above each node is cut, the mean of an ensemble; 0 where no cut is considered."""
        bones, found, _ = self._probabilities(tree)
        probability = np.zeros(len(tree), dtype=np.float32)
        probability[bones.index] = found.mean(axis=0)
        probability[0] = 0
        return probability

    def segment(self, tree: AXTree) -> Partition:
        bones, found, features = self._probabilities(tree)
        if self.config["variant"] == "paper":
            cuts = (np.flatnonzero(found[0, 1:] >= self.config["threshold"]) + 1).tolist()
        elif self._trees is None:
            cuts = ensemble_cuts(bones, found, region_cost=float(self.config["region_cost"]))
        else:
            cuts = scored_cuts(bones, features.numbers, found, self._trees, region_cost=float(self.config["region_cost"]))
        return Partition.from_cuts(tree, bones.index[cuts].tolist())

    def _probabilities(self, tree: AXTree) -> tuple[Skeleton, npt.NDArray[np.float32], NodeFeatures]:
        """(M, K) of each member for each kept node, and what it was computed from."""
        import torch

        from region4web.edge_model import PaperModel, batch_trees

        bones = skeleton(tree, int(self.config["smallest"]))
        with torch.inference_mode(), _torch_threads(self.threads):
            if isinstance(self._model, PaperModel):
                features = paper_features(tree)
                batch = batch_trees([(bones, features)])
                return bones, self._model.cut_probability(batch, float(self.config["threshold"])).numpy()[None], features
            features = node_features(tree, bones.index)
            return bones, self._model.cut_probabilities(batch_trees([(bones, features)])).numpy(), features


def ensemble_cuts(bones: Skeleton, probabilities: npt.NDArray[np.float32], *, region_cost: float) -> list[int]:
    """Skeleton positions at which an ensemble cuts, rising. `probabilities` (M, K)."""
    return mended_cuts(bones, consensus_cuts(bones, probabilities, region_cost=region_cost), probabilities)


def scored_cuts(
    bones: Skeleton,
    numbers: npt.NDArray[np.float32],
    probabilities: npt.NDArray[np.float32],
    trees: BoostedTrees,
    *,
    region_cost: float,
) -> list[int]:
    """Skeleton positions at which an ensemble cuts when `trees` judge the regions that it votes for. `numbers`: features of kept nodes."""
    candidates = candidate_regions(bones, probabilities)
    value = region_probabilities(trees, candidate_features(bones, numbers, probabilities, candidates))
    return mended_cuts(bones, best_partition(candidates, value - region_cost), probabilities)


def mended_cuts(bones: Skeleton, cuts: list[int], probabilities: npt.NDArray[np.float32]) -> list[int]:
    """The cuts, with more of them in oversized regions and without those of remnants. `probabilities` (M, K)."""
    return dissolve_remnants(bones, divide_oversized(bones, cuts, probabilities.mean(axis=0)))


def dissolve_remnants(bones: Skeleton, cuts: list[int]) -> list[int]:
    """The cuts without those whose region, after the cuts below it, keeps fewer than `LEAST_REMNANT` nodes of its own.

    Such a wrapper has nothing left to read or to act on. What it keeps goes to the region around it.
    On unseen pages 34 predicted regions kept one or two nodes, and none was right.
    """
    own = _own_nodes(bones, cuts)
    below = np.cumsum(np.append(0, bones.weight))
    return [root for root in sorted(cuts) if own[root] >= LEAST_REMNANT or own[root] == below[bones.end[root]] - below[root]]


def _own_nodes(bones: Skeleton, cuts: list[int]) -> npt.NDArray[np.int64]:
    """(K,) at each root of a region, the nodes of the whole tree that it owns; 0 elsewhere."""
    own: npt.NDArray[np.int64] = np.bincount(_region_roots(bones, cuts), weights=bones.weight, minlength=len(bones)).astype(np.int64)
    return own


def _region_roots(bones: Skeleton, cuts: list[int]) -> npt.NDArray[np.int64]:
    """(K,) the root of each kept node's region."""
    region = np.zeros(len(bones), dtype=np.int64)
    for root in sorted(cuts):
        region[root : bones.end[root]] = root
    return region


def divide_oversized(
    bones: Skeleton, cuts: list[int], probability: npt.NDArray[np.float32], *, certain: float = CERTAIN_ENOUGH
) -> list[int]:
    """More cuts in regions that hold over 40% of a page of 300 nodes or more, as far as the tree offers them.

    The most probable node is cut next, of those that take between 2% and 40% of the page out of the region. In the page's own
    region, which owns what nobody else owns, any probability will do; elsewhere it takes `certain`, for a long
    result list or table is rightly one region.
    """
    total = int(bones.weight.sum())
    if total < PAGE_TO_DIVIDE:
        return cuts
    chosen = list(cuts)
    settled: set[int] = set()
    while True:
        region = _region_roots(bones, chosen)
        held = _own_nodes(bones, chosen)
        oversized = [root for root in np.flatnonzero(held > LARGEST_SHARE * total).tolist() if root not in settled]
        if not oversized:
            return sorted(chosen)
        root = oversized[0]
        own = np.cumsum(np.append(0, np.where(region == root, bones.weight, 0)))
        taken = own[bones.end] - own[:-1]
        offered = (
            (region == root) & (taken >= LEAST_SHARE * total) & (taken <= LARGEST_SHARE * total) & (probability >= (certain if root else 0))
        )
        offered[root] = False
        if offered.any():
            chosen.append(int(np.argmax(np.where(offered, probability, -1))))
        else:
            settled.add(root)


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: no readable description of the weights ({error})") from error
    if not isinstance(config, dict) or config.get("variant") not in _SETTINGS:
        raise WeightsError(f"{path}: 'variant' must be one of {', '.join(_SETTINGS)}")
    missing = [name for name in _SETTINGS[config["variant"]] if name not in config]
    if missing:
        raise WeightsError(f"{path}: lacks {', '.join(missing)}")
    computed = FEATURE_NAMES if config["variant"] == "best" else PAPER_FEATURE_NAMES
    if tuple(config["features"]) != computed:
        raise WeightsError(f"{path}: these weights read other features than this version computes; train them again")
    return config


def _load_model(folder: Path, config: dict[str, Any]) -> Ensemble | PaperModel:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingExtraError("the learned decomposition needs torch and safetensors: pip install 'region4web[model]'") from error
    from region4web.edge_model import ContextModel, Ensemble, PaperModel

    model: Ensemble | PaperModel
    if config["variant"] == "paper":
        model = PaperModel()
    else:
        shape = {name: int(config[name]) for name in ("width", "hidden", "blocks")}
        model = Ensemble([ContextModel(len(FEATURE_NAMES), **shape) for _ in range(int(config["members"]))])
    path = folder / "model.safetensors"
    try:
        model.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise WeightsError(f"{path}: damaged, or the weights of another model ({str(error).splitlines()[0]})") from error
    return model.eval()
