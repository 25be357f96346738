"""Purpose lines: which of a few thousand phrases says best what a region is for.

Enters: the feature counts of a page's regions. Leaves: one phrase a region. The model estimates the sentence embedding
that a label of the region would have on average, and takes the phrase nearest to it: the phrase with the highest
expected similarity, not the likeliest one. No embedding model runs; the phrases' vectors are part of the weights.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from region4web.errors import WeightsError
from region4web.region_features import FeatureCounts

__all__ = ["PurposeModel", "feature_matrix", "load_purpose_model"]

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PurposeModel:
    """F features, D dimensions, K phrases.

    `hashes[b]` (F_b,) sorted feature hashes of block b, features of all blocks in that order; `idf` (F,);
    `projection` (F, D); `offset` (D,); `phrase_vectors` (K, D): score of phrase k is `(x @ projection + offset) . phrase_vectors[k]`.
    """

    hashes: tuple[npt.NDArray[np.uint32], ...]
    idf: FloatArray
    projection: FloatArray
    offset: FloatArray
    phrase_vectors: FloatArray
    phrases: tuple[str, ...]

    def purposes(self, features: Sequence[FeatureCounts]) -> list[str]:
        """The best phrase for each region."""
        if not features:
            return []
        x = feature_matrix(features, self.hashes, self.idf)
        scores = (x @ self.projection + self.offset) @ self.phrase_vectors.T
        return [self.phrases[k] for k in np.argmax(scores, axis=1)]


def feature_matrix(features: Sequence[FeatureCounts], hashes: Sequence[npt.NDArray[np.uint32]], idf: FloatArray) -> csr_matrix:
    """(R, F) weights `(1 + log count) * idf`, each block of a row scaled to length 1. Unknown features are left out."""
    start = np.cumsum([0, *(len(block) for block in hashes)])
    rows: list[npt.NDArray[Any]] = []
    columns: list[npt.NDArray[Any]] = []
    values: list[npt.NDArray[Any]] = []
    for r, blocks in enumerate(features):
        for b, counts in enumerate(blocks):
            if not counts or not len(hashes[b]):
                continue
            keys = np.fromiter(counts.keys(), dtype=np.uint32, count=len(counts))
            times = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
            at = np.minimum(np.searchsorted(hashes[b], keys), len(hashes[b]) - 1)
            known = hashes[b][at] == keys
            if not known.any():
                continue
            column = at[known] + start[b]
            weight = (1 + np.log(times[known])) * idf[column]
            columns.append(column)
            values.append(weight / np.linalg.norm(weight))
            rows.append(np.full(len(column), r))
    shape = (len(features), int(start[-1]))
    if not rows:
        return csr_matrix(shape, dtype=np.float32)
    return csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape, dtype=np.float32)


def load_purpose_model(folder: Path) -> PurposeModel:
    """Read `purposes.npz` and `purposes.json`. Raises WeightsError when they are missing or damaged."""
    try:
        phrases = json.loads((folder / "purposes.json").read_text(encoding="utf-8"))["phrases"]
        with np.load(folder / "purposes.npz", allow_pickle=False) as data:
            sizes = data["block_sizes"]
            hashes = tuple(np.split(data["hashes"], np.cumsum(sizes)[:-1]))
            model = PurposeModel(
                hashes=hashes,
                idf=data["idf"].astype(np.float32),
                projection=data["projection"].astype(np.float32) * data["projection_scale"],
                offset=data["offset"].astype(np.float32),
                phrase_vectors=data["phrase_vectors"].astype(np.float32) * data["phrase_scale"],
                phrases=tuple(phrases),
            )
    except (OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        raise WeightsError(f"{folder}: purpose weights cannot be read ({error}); reinstall region4web") from error
    f = sum(map(len, model.hashes))
    if model.projection.shape[0] != f or model.idf.shape != (f,) or len(model.phrases) != len(model.phrase_vectors):
        raise WeightsError(f"{folder}: purpose weights do not fit together; reinstall region4web")
    return model
