"""What words mean, in a few numbers each: vectors distilled from a sentence encoder, frozen before any page was cut.

Enters: lower-case words. Leaves: rows of W word vectors of D dimensions, common words of pages scaled down. The table ships as
`weights/decomposition/words.npz`; `training.word_table` makes it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from region4web.errors import WeightsError

__all__ = ["SHIPPED_WORDS", "WORD_DIMENSIONS", "WordTable", "load_words", "shipped_words"]

SHIPPED_WORDS = Path(__file__).parent / "weights" / "decomposition" / "words.npz"
WORD_DIMENSIONS = 24


@dataclass(frozen=True)
class WordTable:
    """`row_of` gives a word's row in `vectors` (W, D) float32; `facts` remembers kinds of names and the rows of their words."""

    row_of: dict[str, int]
    vectors: npt.NDArray[np.float32]
    facts: dict[str, tuple[int, list[int]]] = field(default_factory=dict, compare=False, repr=False)


def load_words(path: str | os.PathLike[str]) -> WordTable:
    """Read a table. Raises WeightsError."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words = arrays["words"].tobytes().decode("utf-8").split("\n")
            vectors = arrays["vectors"].astype(np.float32) * np.float32(arrays["scale"])
    except (OSError, ValueError, KeyError) as error:
        raise WeightsError(f"{path}: no readable word table ({error})") from error
    if vectors.shape != (len(words), WORD_DIMENSIONS):
        raise WeightsError(f"{path}: {len(words)} words need vectors of {WORD_DIMENSIONS} dimensions, found an array of {vectors.shape}")
    return WordTable({word: row for row, word in enumerate(words)}, vectors)


@lru_cache(maxsize=1)
def shipped_words() -> WordTable:
    """The table that ships with the package, read once."""
    return load_words(SHIPPED_WORDS)
