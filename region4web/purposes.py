"""Purpose lines: which of some ten thousand phrases says best what a region is for.

Enters: the features of a page's regions. Leaves: one phrase a region. The model estimates the sentence embedding that a
label of the region would have on average, and takes the phrase nearest to it: the phrase with the highest expected
similarity, not the likeliest one. Estimates lean towards what all labels share, so part of that is taken off, and a phrase
whose words the region says is preferred. Where the model expects little of the best phrase, the topic of the region's
heading is added, in words that annotators use of any page and nothing else of the page's. No embedding model runs; the
vectors of phrases and words are part of the weights.

Symbols: R regions, F features, W words, V voices, D dimensions of the words, L of the (reduced) estimate, K phrases.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from region4web.contents import Unit
from region4web.errors import WeightsError
from region4web.region_features import VOICES, RegionFeatures
from region4web.states import gives_orders

__all__ = ["Candidates", "HashWeights", "PurposeModel", "ReadEstimate", "load_purpose_model", "save_purpose_model", "stems"]

FloatArray = npt.NDArray[np.float32]
HashArray = npt.NDArray[np.uint32]

TOPIC_WORDS = 4
HEADING_WORDS = 10
"""How much of a heading is looked at for its topic."""
PURPOSE_WORDS = 12
_WORD = re.compile(r"[a-z]+")
STEM_LETTERS = 8
READ_WORDS, UNIT_WORDS = 60, 12
"""Words of a region that are compared with those of phrases, and how many of one unit."""


@dataclass(frozen=True)
class HashWeights:
    """Known hashes, rising, and the weight of each: `(1 + log count) * idf`."""

    hashes: HashArray
    idf: FloatArray

    def __len__(self) -> int:
        return len(self.hashes)

    def matrix(self, counts: Sequence[Counter[int]], *, unit_rows: bool) -> csr_matrix:
        """(R, len(self)) weights of what is known of each counter; rows of length 1 with `unit_rows`."""
        lengths = [len(counter) for counter in counts]
        total = sum(lengths)
        shape = (len(counts), len(self))
        if not total or not len(self):
            return csr_matrix(shape, dtype=np.float32)
        keys = np.fromiter((key for counter in counts for key in counter), dtype=np.uint32, count=total)
        times = np.fromiter((time for counter in counts for time in counter.values()), dtype=np.float32, count=total)
        rows = np.repeat(np.arange(len(counts)), lengths)
        at = np.minimum(np.searchsorted(self.hashes, keys), len(self) - 1)
        known = self.hashes[at] == keys
        rows, at = rows[known], at[known]
        weights = (1 + np.log(times[known])) * self.idf[at]
        if unit_rows:
            length = np.sqrt(np.bincount(rows, weights * weights, minlength=len(counts)))
            weights = weights / np.maximum(length, 1e-9)[rows]
        return csr_matrix((weights.astype(np.float32), (rows, at)), shape=shape)


@dataclass(frozen=True)
class Candidates:
    """(R, C) phrases as indices, their scores, and the similarity to a label that is expected of each; (R, L) the estimates
    that scores are by, less the shared part."""

    at: npt.NDArray[np.int64]
    scores: FloatArray
    expected: FloatArray
    leanings: FloatArray


@dataclass(frozen=True)
class ReadEstimate:
    """What a region reader estimates: (R, D) sentence embeddings, and its share beside the embedded model's estimate."""

    vectors: FloatArray
    share: float


@dataclass(frozen=True)
class PurposeModel:
    """The estimate of a region is `sum_b X_b P_b + sum_v unit(S_v M) Q_v + offset`, (L,); the phrase is the nearest.

    `blocks[b]` with `projections[b]` (F_b, L): feature blocks; `words` with `meanings` (W, D) and `voice_projections[v]`
    (D, L): what each voice's words mean; `phrase_vectors` (K, L), `phrases` K.
    """

    blocks: tuple[HashWeights, ...]
    projections: tuple[FloatArray, ...]
    words: HashWeights
    meanings: FloatArray
    voice_projections: tuple[FloatArray, ...]
    offset: FloatArray
    phrase_vectors: FloatArray
    phrases: tuple[str, ...]
    topics: frozenset[str]
    """Words that may be taken from a heading."""
    topic_below: float
    """A topic is added where the best phrase's expected similarity is below this."""
    shared_part: float
    """Share of the mean label (`offset`) that is taken off an estimate before phrases are compared with it."""
    word_scores: Mapping[str, float]
    """What it adds to a phrase's score that the region says its word, by the word's stem."""
    basis: FloatArray | None = None
    """(D, L) orthonormal: how a sentence embedding is reduced, so that other estimates can be joined to these."""

    @cached_property
    def phrase_stems(self) -> tuple[dict[str, int], csr_matrix]:
        """Column of each scored stem, and (K, stems) what each phrase has of them."""
        columns = {stem: column for column, stem in enumerate(self.word_scores)}
        pairs = [(k, columns[stem]) for k, phrase in enumerate(self.phrases) for stem in stems(phrase) if stem in columns]
        rows, at = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        scores = np.array(list(self.word_scores.values()), dtype=np.float32)
        return columns, csr_matrix((scores[at], (rows, at)), shape=(len(self.phrases), len(columns)))

    def estimates(self, features: Sequence[RegionFeatures]) -> FloatArray:
        """(R, L) what the label's embedding is expected to be, reduced."""
        found = np.tile(self.offset, (len(features), 1))
        for b, (block, projection) in enumerate(zip(self.blocks, self.projections, strict=True)):
            found += block.matrix([region.blocks[b] for region in features], unit_rows=True) @ projection
        for v, projection in enumerate(self.voice_projections):
            found += voice_meanings(self.words, self.meanings, [region.voices[v] for region in features]) @ projection
        return found

    def said_words(self, units: Sequence[Sequence[Unit]]) -> FloatArray:
        """(R, K) what each phrase's score gains by words that each region says."""
        columns, phrase_stems = self.phrase_stems
        said = [[columns[stem] for stem in stems_said(own) if stem in columns] for own in units]
        at = np.array([column for row in said for column in row], dtype=np.int64)
        starts = np.cumsum([0, *map(len, said)])
        regions = csr_matrix((np.ones(len(at), dtype=np.float32), at, starts), shape=(len(units), len(columns)))
        return np.asarray((regions @ phrase_stems.T).toarray(), dtype=np.float32)

    def scored(
        self, features: Sequence[RegionFeatures], units: Sequence[Sequence[Unit]], read: ReadEstimate | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(R, L) estimates, (R, K) the similarity to a label that is expected of each phrase, and the score by which phrases are chosen.

        `read`: what another model estimates, and its share. Raises ValueError when this model does not say how to join it.
        """
        estimates = self.estimates(features)
        if read is not None:
            estimates = (1 - read.share) * estimates + read.share * self.reduced(read.vectors)
        expected = estimates @ self.phrase_vectors.T
        return estimates, expected, expected - self.shared_part * (self.phrase_vectors @ self.offset) + self.said_words(units)

    def reduced(self, vectors: FloatArray) -> FloatArray:
        """(n, L) of sentence embeddings (n, D). Raises ValueError when this model does not say how."""
        if self.basis is None:
            raise ValueError("these purpose weights hold no basis, so that nothing can be joined to them; train them anew")
        return vectors @ self.basis

    def candidates(
        self, features: Sequence[RegionFeatures], units: Sequence[Sequence[Unit]], count: int, read: ReadEstimate | None = None
    ) -> Candidates:
        """The `count` phrases of each region that score highest, highest first."""
        estimates, expected, scores = self.scored(features, units, read)
        at = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        leanings = estimates - self.shared_part * self.offset
        return Candidates(at, np.take_along_axis(scores, at, axis=1), np.take_along_axis(expected, at, axis=1), leanings)

    def purposes(self, features: Sequence[RegionFeatures], units: Sequence[Sequence[Unit]], read: ReadEstimate | None = None) -> list[str]:
        """The best phrase for each region, with its topic where the phrase alone says too little."""
        if not features:
            return []
        _, expected, scores = self.scored(features, units, read)
        found = []
        for k, row, own in zip(np.argmax(scores, axis=1), expected, units, strict=True):
            phrase = self.phrases[k]
            found.append(with_topic(phrase, topic_of(own, self.topics)) if row[k] < self.topic_below else phrase)
        return found


def stems(text: str) -> set[str]:
    """The words of a text, cut so that most plurals equal their singulars."""
    return {
        (word[:-1] if word.endswith("s") and len(word) > 3 else word)[:STEM_LETTERS]
        for word in _WORD.findall(text.lower())
        if len(word) > 1
    }


def stems_said(units: Sequence[Unit]) -> set[str]:
    """Stems of a region's first words, heading and label."""
    read, count = [], 0
    for unit in units:
        if words := unit.text.split()[:UNIT_WORDS]:
            if count <= READ_WORDS or unit.kind in ("heading", "label"):
                read += words
            count += len(words)
    return stems(" ".join(read))


def topic_of(units: Sequence[Unit], topics: Set[str]) -> list[str]:
    """Topic words of a region's first heading, else of its first label; none where that gives its reader orders."""
    title = next((unit.text for unit in units if unit.kind == "heading"), None) or next((u.text for u in units if u.kind == "label"), "")
    if not title or gives_orders(title):
        return []
    words = _WORD.findall(" ".join(title.split()[:HEADING_WORDS]).lower())
    return list(dict.fromkeys(word for word in words if word in topics))


def with_topic(phrase: str, topic: Sequence[str]) -> str:
    """`Reviews: table of customers`: what a phrase leaves open of its topic, and the phrase, within the length of a purpose."""
    said = set(_WORD.findall(phrase.lower()))
    room = min(TOPIC_WORDS, PURPOSE_WORDS - len(phrase.split()))
    added = [word for word in topic if word not in said][: max(0, room)]
    return f"{' '.join(added).capitalize()}: {phrase[0].lower()}{phrase[1:]}" if added else phrase


def voice_meanings(words: HashWeights, meanings: FloatArray, counts: Sequence[Counter[int]]) -> FloatArray:
    """(R, D) weighted sums of word vectors, scaled to length 1; 0 where no word is known."""
    summed = words.matrix(counts, unit_rows=False) @ meanings
    length = np.linalg.norm(summed, axis=1, keepdims=True)
    return np.asarray(summed / np.maximum(length, 1e-9), dtype=np.float32)


def save_purpose_model(model: PurposeModel, folder: Path) -> None:
    """Write `purposes.npz` (large arrays as int8 with a scale per column), `purposes.json` and `basis.npz`."""
    folder.mkdir(parents=True, exist_ok=True)
    if model.basis is not None:
        np.savez_compressed(folder / "basis.npz", basis=model.basis.astype(np.float16))
    arrays: dict[str, npt.NDArray[Any]] = {
        "block_sizes": np.array([len(block) for block in model.blocks]),
        "hashes": np.concatenate([block.hashes for block in model.blocks]),
        "idf": np.concatenate([block.idf for block in model.blocks]).astype(np.float16),
        "word_hashes": model.words.hashes,
        "word_idf": model.words.idf.astype(np.float16),
        "offset": model.offset.astype(np.float32),
        "voice_projections": np.stack(model.voice_projections).astype(np.float16),
    }
    for name, array in (
        ("projection", np.concatenate(model.projections)),
        ("meanings", model.meanings),
        ("phrase_vectors", model.phrase_vectors),
    ):
        scale = np.maximum(np.abs(array).max(axis=0), 1e-9) / 127
        arrays[name], arrays[f"{name}_scale"] = np.round(array / scale).astype(np.int8), scale.astype(np.float32)
    np.savez_compressed(folder / "purposes.npz", **arrays)  # type: ignore[arg-type]
    text = json.dumps(
        {
            "topic_below": model.topic_below,
            "shared_part": model.shared_part,
            "topics": sorted(model.topics),
            "word_scores": {stem: round(score, 4) for stem, score in sorted(model.word_scores.items())},
            "phrases": model.phrases,
        },
        ensure_ascii=False,
        indent=0,
    )
    (folder / "purposes.json").write_text(text + "\n", encoding="utf-8")


def load_purpose_model(folder: Path) -> PurposeModel:
    """Read what `save_purpose_model` wrote. Raises WeightsError when it is missing or damaged."""
    try:
        said = json.loads((folder / "purposes.json").read_text(encoding="utf-8"))
        with np.load(folder / "purposes.npz", allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        cuts = np.cumsum(arrays["block_sizes"])[:-1]
        basis = None
        if (folder / "basis.npz").is_file():
            with np.load(folder / "basis.npz", allow_pickle=False) as data:
                basis = data["basis"].astype(np.float32)
        large = {name: arrays[name].astype(np.float32) * arrays[f"{name}_scale"] for name in ("projection", "meanings", "phrase_vectors")}
        idf = arrays["idf"].astype(np.float32)
        model = PurposeModel(
            blocks=tuple(map(HashWeights, np.split(arrays["hashes"], cuts), np.split(idf, cuts))),
            projections=tuple(np.split(large["projection"], cuts)),
            words=HashWeights(arrays["word_hashes"], arrays["word_idf"].astype(np.float32)),
            meanings=large["meanings"],
            voice_projections=tuple(arrays["voice_projections"].astype(np.float32)),
            offset=arrays["offset"],
            phrase_vectors=large["phrase_vectors"],
            phrases=tuple(map(str, said["phrases"])),
            topics=frozenset(map(str, said["topics"])),
            topic_below=float(said["topic_below"]),
            shared_part=float(said["shared_part"]),
            word_scores={str(stem): float(score) for stem, score in said["word_scores"].items()},
            basis=basis,
        )
        _check(model)
    except (OSError, KeyError, ValueError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error) as error:
        raise WeightsError(f"{folder}: purpose weights cannot be read ({error}); reinstall region4web") from error
    return model


def _check(model: PurposeModel) -> None:
    size = len(model.offset)
    fit = (
        all(
            p.shape == (len(block), size) and len(block.idf) == len(block) for block, p in zip(model.blocks, model.projections, strict=True)
        )
        and model.meanings.shape[0] == len(model.words) == len(model.words.idf)
        and len(model.voice_projections) == len(VOICES)
        and all(p.shape == (model.meanings.shape[1], size) for p in model.voice_projections)
        and model.phrase_vectors.shape == (len(model.phrases), size)
        and (model.basis is None or model.basis.shape[1:] == (size,))
    )
    if not fit:
        raise ValueError("arrays and phrases do not fit together")
