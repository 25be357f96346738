"""The learned node ranker: boosted regression trees, as plain arrays.

Enters: node features (N, F) of `relevance`. Leaves: for each node the probability that the next step needs it. Training
(`training.train_selection`) writes `selection.npz` and `selection.json` beside it; nothing is unpickled.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from pagedigest.relevance import FEATURES
from pagedigest.words import FloatArray
from region4web.errors import WeightsError

__all__ = ["TreeRanker", "load_ranker"]

IntArray = npt.NDArray[np.int32]
SCREEN_TREES = 40
"""Trees that score every node; the others see only the best `SCREEN_NODES` by these."""
SCREEN_NODES = 600


@dataclass(frozen=True)
class TreeRanker:
    """T trees of at most K nodes. A leaf's children are itself; a sample goes left where its feature <= threshold.

    `feature`, `left`, `right` (T, K) int32, `threshold`, `value` (T, K) float64, `depth` steps from root to deepest leaf.
    """

    feature: IntArray
    threshold: npt.NDArray[np.float64]
    left: IntArray
    right: IntArray
    value: npt.NDArray[np.float64]
    depth: int

    def raw_scores(self, features: FloatArray) -> npt.NDArray[np.float64]:
        """(N,) sums of leaf values; nodes outside the best `SCREEN_NODES` after `SCREEN_TREES` trees keep that sum."""
        n = len(features)
        screened = min(SCREEN_TREES, len(self.feature))
        scores = self._sum(features, 0, screened)
        if screened < len(self.feature):
            best = np.argsort(-scores, kind="stable")[:SCREEN_NODES] if n > SCREEN_NODES else np.arange(n)
            rest = self._sum(features[best], screened, len(self.feature))
            others = np.ones(n, dtype=bool)
            others[best] = False
            scores[best] += rest
            if others.any():  # the trees left out lower what they do not see at least as much as the worst seen node
                scores[others] += rest.min()
        return scores

    def probabilities(self, features: FloatArray, *, bonus: npt.NDArray[np.float64] | float = 0.0) -> FloatArray:
        """(N,) in (0, 1); `bonus` is added to the log odds."""
        return np.asarray(1 / (1 + np.exp(-np.clip(self.raw_scores(features) + bonus, -40, 40))), dtype=np.float32)

    def _sum(self, features: FloatArray, first: int, last: int) -> npt.NDArray[np.float64]:
        n, k = len(features), self.feature.shape[1]
        flat = np.ascontiguousarray(features).ravel()
        base = np.arange(n, dtype=np.int32)[:, None] * features.shape[1]
        offset = np.arange(first, last, dtype=np.int32)[None, :] * k
        feature, threshold = self.feature.ravel(), self.threshold.ravel()
        left, right = self.left.ravel(), self.right.ravel()
        at = np.broadcast_to(offset, (n, last - first)).copy()
        for _ in range(self.depth):
            goes_left = flat[base + feature[at]] <= threshold[at]
            at = np.where(goes_left, left[at], right[at]) + offset
        return np.asarray(self.value.ravel()[at].sum(axis=1), dtype=np.float64)

    def save(self, folder: Path, description: dict[str, object]) -> None:
        """Write `selection.npz` and `selection.json` (the description and the feature names)."""
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / "selection.npz", feature=self.feature.astype(np.int16), threshold=self.threshold, left=self.left.astype(np.int16),
                            right=self.right.astype(np.int16), value=self.value, depth=np.int32(self.depth))  # fmt: skip
        (folder / "selection.json").write_text(json.dumps({**description, "features": list(FEATURES)}, indent=1) + "\n", encoding="utf-8")


@lru_cache(maxsize=4)
def load_ranker(folder: Path | None = None) -> TreeRanker:
    """The packaged ranker, or that of `folder`. Raises WeightsError when it is missing, damaged or of other features."""
    place: Path | Traversable = files("pagedigest") / "weights" if folder is None else folder
    try:
        described = json.loads((place / "selection.json").read_text(encoding="utf-8"))
        with (place / "selection.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            arrays = {name: data[name] for name in ("feature", "threshold", "left", "right", "value", "depth")}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise WeightsError(f"{place}: ranker missing or damaged ({error}); train it with python -m training.train_selection") from error
    if described.get("features") != list(FEATURES):
        raise WeightsError(f"{place}: the ranker was trained on other features; train it again with python -m training.train_selection")
    shape = arrays["feature"].shape
    if len(shape) != 2 or any(arrays[name].shape != shape for name in ("threshold", "left", "right", "value")):
        raise WeightsError(f"{place}: arrays of the ranker differ in shape; train it again with python -m training.train_selection")
    feature, left, right = (arrays[name].astype(np.int32) for name in ("feature", "left", "right"))
    if feature.size and not (
        feature.min() >= 0
        and feature.max() < len(FEATURES)
        and min(left.min(), right.min()) >= 0
        and max(left.max(), right.max()) < shape[1]
    ):
        raise WeightsError(f"{place}: the ranker points outside its arrays; train it again with python -m training.train_selection")
    return TreeRanker(feature, arrays["threshold"], left, right, arrays["value"], int(arrays["depth"]))
