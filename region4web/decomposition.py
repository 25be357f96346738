"""The learned decomposition: a tree in, the partition that a trained network cuts out.

Enters: a tree and a weights folder (`config.json`, `model.safetensors`). Leaves: a `Partition`. The networks are in
`edge_model`; torch is imported when a segmenter is made, not when this module is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXTree
from region4web.errors import MissingExtraError, WeightsError
from region4web.features import FEATURE_NAMES, node_features
from region4web.regions import Partition
from region4web.skeleton import skeleton

__all__ = ["SHIPPED_WEIGHTS", "LearnedSegmenter", "weights_folder"]

SHIPPED_WEIGHTS = ("best", "paper")


def weights_folder(weights: str | os.PathLike[str]) -> Path:
    """The folder of a shipped variant's weights, or the folder itself. Raises WeightsError when there is none."""
    if isinstance(weights, str) and weights in SHIPPED_WEIGHTS:
        return Path(__file__).parent / "weights" / "decomposition" / weights
    folder = Path(weights)
    if not folder.is_dir():
        raise WeightsError(
            f"{folder}: no such weights folder; give one with config.json and model.safetensors, or {' or '.join(SHIPPED_WEIGHTS)}"
        )
    return folder


class LearnedSegmenter:
    """Cuts where a trained network says so. `weights` names a shipped variant or a folder."""

    def __init__(self, weights: str | os.PathLike[str] = "best") -> None:
        self.folder = weights_folder(weights)
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise MissingExtraError("the learned decomposition needs torch and safetensors: pip install 'region4web[model]'") from error
        config = _read_config(self.folder / "config.json")
        from region4web.edge_model import BestModel

        if tuple(config["features"]) != FEATURE_NAMES:
            raise WeightsError(f"{self.folder}: trained on other features than this version computes; train again")
        self.threshold = float(config["threshold"])
        self._model = BestModel(len(FEATURE_NAMES), width=int(config["width"]), blocks=int(config["blocks"]))
        try:
            self._model.load_state_dict(load_file(self.folder / "model.safetensors"))
        except (OSError, RuntimeError, ValueError) as error:
            raise WeightsError(
                f"{self.folder / 'model.safetensors'}: damaged or of another model ({str(error).splitlines()[0]})"
            ) from error
        self._model.eval()

    def cut_probability(self, tree: AXTree) -> npt.NDArray[np.float32]:
        """(N,) probability that the edge above each node is cut; 0 for the page's root."""
        import torch

        from region4web.edge_model import batch_trees

        bones = skeleton(tree)
        probability = np.zeros(len(tree), dtype=np.float32)
        with torch.inference_mode():
            probability[bones.index] = torch.sigmoid(self._model(batch_trees([(bones, node_features(tree))]))).numpy()
        probability[0] = 0
        return probability

    def segment(self, tree: AXTree) -> Partition:
        return Partition.from_cuts(tree, np.flatnonzero(self.cut_probability(tree) >= self.threshold))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        missing = {"features", "threshold", "width", "blocks"} - set(config)
    except (OSError, ValueError, TypeError) as error:
        raise WeightsError(f"{path}: not a readable weights description ({error})") from error
    if missing:
        raise WeightsError(f"{path}: lacks {', '.join(sorted(missing))}")
    return dict(config)
