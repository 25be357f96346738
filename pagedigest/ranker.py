"""The learned node ranker: boosted regression trees, as plain arrays.

Enters: node features (N, F) of `relevance`. Leaves: for each node the probability that the next step needs it. Training
(`training.train_selection`) writes `selection.npz` and `selection.json` beside it; nothing is unpickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagedigest.relevance import FEATURES
from pagedigest.words import FloatArray
from region4web.boosted_trees import BoostedTrees
from region4web.errors import WeightsError

__all__ = ["TreeRanker", "load_ranker"]

SCREEN_TREES = 40
"""Trees that score every node; the others see only the best `SCREEN_NODES` by these."""
SCREEN_NODES = 600


@dataclass(frozen=True)
class TreeRanker:
    """Boosted trees over the features of `relevance`."""

    trees: BoostedTrees

    def raw_scores(self, features: FloatArray) -> npt.NDArray[np.float64]:
        """(N,) sums of leaf values; nodes outside the best `SCREEN_NODES` after `SCREEN_TREES` trees keep that sum."""
        n = len(features)
        screened = min(SCREEN_TREES, len(self.trees))
        scores = self.trees.sums(features, 0, screened)
        if screened < len(self.trees):
            best = np.argsort(-scores, kind="stable")[:SCREEN_NODES] if n > SCREEN_NODES else np.arange(n)
            rest = self.trees.sums(features[best], screened)
            others = np.ones(n, dtype=bool)
            others[best] = False
            scores[best] += rest
            if others.any():  # the trees left out lower what they do not see at least as much as the worst seen node
                scores[others] += rest.min()
        return scores

    def probabilities(self, features: FloatArray, *, bonus: npt.NDArray[np.float64] | float = 0.0) -> FloatArray:
        """(N,) in (0, 1); `bonus` is added to the log odds."""
        return np.asarray(1 / (1 + np.exp(-np.clip(self.raw_scores(features) + bonus, -40, 40))), dtype=np.float32)

    def save(self, folder: Path, description: dict[str, object]) -> None:
        """Write `selection.npz` and `selection.json` (the description and the feature names)."""
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / "selection.npz", allow_pickle=False, **self.trees.to_arrays())
        (folder / "selection.json").write_text(json.dumps({**description, "features": list(FEATURES)}, indent=1) + "\n", encoding="utf-8")


@lru_cache(maxsize=4)
def load_ranker(folder: Path | None = None) -> TreeRanker:
    """The packaged ranker, or that of `folder`. Raises WeightsError when it is missing, damaged or of other features."""
    place: Path | Traversable = files("pagedigest") / "weights" if folder is None else folder
    try:
        described = json.loads((place / "selection.json").read_text(encoding="utf-8"))
        arrays = BoostedTrees.read_arrays(place / "selection.npz")
    except (OSError, ValueError) as error:
        raise WeightsError(f"{place}: ranker missing or damaged ({error}); train it with python -m training.train_selection") from error
    if described.get("features") != list(FEATURES):
        raise WeightsError(f"{place}: the ranker was trained on other features; train it again with python -m training.train_selection")
    try:
        return TreeRanker(BoostedTrees.from_arrays(arrays, len(FEATURES)))
    except ValueError as error:
        raise WeightsError(f"{place}: {error}; train the ranker again with python -m training.train_selection") from error
