"""Boosted decision trees as plain arrays: what gradient boosting learned, evaluated with numpy alone.

Enters: rows of features (N, F). Leaves: the sum of leaf values of each row. Training writes the arrays into an npz; nothing is
unpickled. Symbols: N rows, F features, T trees of at most K nodes.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BoostedTrees"]

IntArray = npt.NDArray[np.int32]
ARRAYS = ("feature", "threshold", "left", "right", "value", "depth")


@dataclass(frozen=True)
class BoostedTrees:
    """T trees of at most K nodes. A leaf's children are itself; a row goes left where its feature <= threshold.

    `feature`, `left`, `right` (T, K) int32, `threshold`, `value` (T, K) float64, `depth` steps from root to deepest leaf.
    """

    feature: IntArray
    threshold: npt.NDArray[np.float64]
    left: IntArray
    right: IntArray
    value: npt.NDArray[np.float64]
    depth: int

    def __len__(self) -> int:
        return len(self.feature)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], features: int) -> BoostedTrees:
        """Trees of arrays as `to_arrays` gives them. Raises ValueError and KeyError when they are no trees over so many features."""
        shape = arrays["feature"].shape
        if len(shape) != 2 or any(arrays[name].shape != shape for name in ("threshold", "left", "right", "value")):
            raise ValueError("arrays of the trees differ in shape")
        feature, left, right = (arrays[name].astype(np.int32) for name in ("feature", "left", "right"))
        if feature.size and not (
            feature.min() >= 0
            and feature.max() < features
            and min(left.min(), right.min()) >= 0
            and max(left.max(), right.max()) < shape[1]
        ):
            raise ValueError("the trees point outside their arrays")
        threshold, value = arrays["threshold"].astype(np.float64), arrays["value"].astype(np.float64)
        return cls(feature, threshold, left, right, value, int(arrays["depth"]))

    @classmethod
    def averaged(cls, models: Sequence[BoostedTrees]) -> BoostedTrees:
        """One model whose sums are the mean of the sums of several."""
        widest = max(model.feature.shape[1] for model in models)

        def joined(name: str) -> npt.NDArray[Any]:
            padded = [np.pad(getattr(model, name), ((0, 0), (0, widest - model.feature.shape[1]))) for model in models]
            return np.concatenate(padded)

        return cls(
            joined("feature"),
            joined("threshold"),
            joined("left"),
            joined("right"),
            joined("value") / len(models),
            max(model.depth for model in models),
        )

    @staticmethod
    def read_arrays(path: Path | Traversable) -> dict[str, npt.NDArray[Any]]:
        """The arrays of an npz that holds trees. Raises ValueError when it is missing or damaged in any way."""
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
                return {name: data[name] for name in ARRAYS}
        except (OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(str(error)) from error

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for an npz."""
        small = {name: getattr(self, name).astype(np.int16) for name in ("feature", "left", "right")}
        return {**small, "threshold": self.threshold, "value": self.value, "depth": np.asarray(self.depth, dtype=np.int32)}

    def sums(self, rows: npt.NDArray[np.float32], first: int = 0, last: int | None = None) -> npt.NDArray[np.float64]:
        """(N,) sums of leaf values over trees `first` to `last`."""
        n, k = len(rows), self.feature.shape[1]
        trees = range(len(self))[first:last]
        flat = np.ascontiguousarray(rows).ravel()
        base = np.arange(n, dtype=np.int32)[:, None] * rows.shape[1]
        offset = np.asarray(trees, dtype=np.int32)[None, :] * k
        feature, threshold = self.feature.ravel(), self.threshold.ravel()
        left, right = self.left.ravel(), self.right.ravel()
        at = np.broadcast_to(offset, (n, len(trees))).copy()
        for _ in range(self.depth):
            goes_left = flat[base + feature[at]] <= threshold[at]
            at = np.where(goes_left, left[at], right[at]) + offset
        return np.asarray(self.value.ravel()[at].sum(axis=1), dtype=np.float64)
