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
from region4web.errors import MissingExtraError, WeightsError
from region4web.features import FEATURE_NAMES, PAPER_FEATURE_NAMES, node_features, paper_features
from region4web.regions import Partition
from region4web.skeleton import skeleton

if TYPE_CHECKING:
    from region4web.edge_model import Ensemble, PaperModel

__all__ = ["SHIPPED_WEIGHTS", "LearnedSegmenter", "weights_folder"]

SHIPPED_WEIGHTS = ("best", "paper")
_SETTINGS = {
    "best": ("features", "threshold", "members", "width", "hidden", "blocks", "smallest"),
    "paper": ("features", "threshold", "smallest"),
}


def weights_folder(weights: str | os.PathLike[str]) -> Path:
    """The folder of a shipped variant's weights, or the folder given. Raises WeightsError when there is none."""
    if isinstance(weights, str) and weights in SHIPPED_WEIGHTS:
        folder = Path(__file__).parent / "weights" / "decomposition" / weights
    else:
        folder = Path(weights)
    if not folder.is_dir():
        raise WeightsError(
            f"{folder}: no such weights folder; name one that holds config.json and model.safetensors, or one of {', '.join(SHIPPED_WEIGHTS)}"
        )
    return folder


class LearnedSegmenter:
    """Cuts where a trained network says so.

    `weights` names a shipped variant (`best`, `paper`) or a folder. `threads` is the number of torch threads during a
    call; these networks are small, and more than one gains nothing.
    """

    def __init__(self, weights: str | os.PathLike[str] = "best", *, threads: int = 1) -> None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, found {threads}")
        self.folder = weights_folder(weights)
        self.threads = threads
        self.config = _read_config(self.folder / "config.json")
        self.threshold = float(self.config["threshold"])
        self._model = _load_model(self.folder, self.config)

    def cut_probability(self, tree: AXTree) -> npt.NDArray[np.float32]:
        """(N,) probability that the edge above each node is cut; 0 where no cut is considered."""
        import torch

        from region4web.edge_model import PaperModel, batch_trees

        bones = skeleton(tree, int(self.config["smallest"]))
        features = paper_features(tree) if isinstance(self._model, PaperModel) else node_features(tree)
        probability = np.zeros(len(tree), dtype=np.float32)
        with torch.inference_mode(), _torch_threads(self.threads):
            batch = batch_trees([(bones, features)])
            if isinstance(self._model, PaperModel):
                found = self._model.cut_probability(batch, self.threshold)
            else:
                found = self._model.cut_probability(batch)
            probability[bones.index] = found.numpy()
        probability[0] = 0
        return probability

    def segment(self, tree: AXTree) -> Partition:
        return Partition.from_cuts(tree, np.flatnonzero(self.cut_probability(tree) >= self.threshold))


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
