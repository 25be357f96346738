"""Words of pages and tasks: cutting text into words, and how close a task's words are to a page's.

Enters: text. Leaves: lower-case words (character pairs where a script has no spaces), and for T words of a task
against V words of a page a matrix (T, V) of exact and one of loose agreement, both in [0, 1]. Loose agreement uses
packaged single-word vectors; no language model runs here.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from region4web.errors import WeightsError

__all__ = ["FloatArray", "WordVectors", "agreement", "load_word_vectors", "split_words", "stem", "task_text"]

FloatArray = npt.NDArray[np.float32]

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ings?|edly|ed|es|s|ly|er|ers|est|ment|ments|ation|ations|ion|ions)$")
PREFIX_AGREEMENT = 0.8
"""Agreement of two words that share a long beginning (inflection in languages without a stemmer here)."""
LOOSE_FLOOR = 0.45
"""Cosine at and below which two word vectors say nothing: the 99th percentile of random pairs."""
TASK_RULE = re.compile(r"\n\s*-{3,}\s*(?:\n|$)")


def task_text(task: str) -> str:
    """The task without an answer-format block after a line of dashes (as webarena-verified appends one)."""
    head = TASK_RULE.split(task, maxsplit=1)[0].strip()
    return head or task.strip()


def split_words(text: str) -> list[str]:
    """Lower-case words in order; a run of a script without spaces gives its overlapping character pairs."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    words: list[str] = []
    for run in _RUN.findall(_JOINT.sub(" ", text)):
        if run[0] > "\u0dff" and re.match(rf"[{_UNSPACED}]", run):
            words.extend(run[i : i + 2] for i in range(max(1, len(run) - 1)))
        else:
            words.append(run.lower())
    return words


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """An English suffix less, if at least three letters stay."""
    return _SUFFIX.sub("", word) if len(word) > 3 and word.isascii() else word


@dataclass(frozen=True)
class WordVectors:
    """Unit vectors (W, D) of W words in order of falling frequency."""

    index: dict[str, int]
    vectors: FloatArray

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """(len(words),) row of each word, by itself or by its stem; -1 when unknown."""
        index = self.index
        return np.asarray([index.get(word, index.get(stem(word), -1)) for word in words], dtype=np.int64)

    def weights(self, words: Sequence[str]) -> FloatArray:
        """(len(words),) how telling each word is, in (0, 1]: the log of its rank; 1 for an unknown one."""
        rows = self.rows(words)
        ranks = np.where(rows < 0, len(self.index), rows + 1)
        weights = np.log1p(ranks) / np.log1p(len(self.index))
        return np.asarray(np.clip(weights, 0.15, 1.0) ** 2, dtype=np.float32)

    def embed(self, words: Sequence[str]) -> FloatArray:
        """(len(words), D) vectors, zero for an unknown word."""
        rows = self.rows(words)
        out = self.vectors[np.maximum(rows, 0)]
        out[rows < 0] = 0.0
        return out


@lru_cache(maxsize=1)
def load_word_vectors() -> WordVectors:
    """The packaged vectors. Raises WeightsError when the file is missing or damaged."""
    path = files("pagedigest") / "weights" / "words.npz"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            words = data["words"].tobytes().decode("utf-8").split("\n")
            vectors = data["vectors"].astype(np.float32) * np.float32(data["scale"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise WeightsError(f"{path}: word vectors missing or damaged ({error}); install pagedigest again") from error
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise WeightsError(f"{path}: {len(words)} words and vectors of shape {vectors.shape}; install pagedigest again")
    return WordVectors({word: i for i, word in enumerate(words)}, vectors)


def agreement(task_words: Sequence[str], page_words: Sequence[str], vectors: WordVectors) -> tuple[FloatArray, FloatArray]:
    """Exact and loose agreement, both (T, V): equal words or stems 1, long common beginnings `PREFIX_AGREEMENT`.

    Loose agreement is the exact one, raised to the scaled cosine of the words' vectors where both are known.
    """
    exact = np.zeros((len(task_words), len(page_words)), dtype=np.float32)
    by_start: dict[str, list[int]] = {}
    for v, word in enumerate(page_words):
        by_start.setdefault(word[:4], []).append(v)
    for t, word in enumerate(task_words):
        for v in by_start.get(word[:4], ()):
            other = page_words[v]
            if word == other or stem(word) == stem(other):
                exact[t, v] = 1.0
            elif len(word) >= 5 and len(other) >= 5:
                longest, shared = max(len(word), len(other)), _common_beginning(word, other)
                if shared >= 4 and shared >= 0.65 * longest:
                    exact[t, v] = PREFIX_AGREEMENT
    cosines = vectors.embed(task_words) @ vectors.embed(page_words).T
    loose = np.maximum(exact, np.clip((cosines - LOOSE_FLOOR) / (1 - LOOSE_FLOOR), 0, 1))
    return exact, loose.astype(np.float32)


def _common_beginning(a: str, b: str) -> int:
    shared = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        shared += 1
    return shared
