"""Training the embedded abstractor's purposes: annotated pages count for more than further ones, and further pages are never measured on."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from region4web.labels import AnnotatedPage, annotated_pages
from training.records import split_of
from training.train_embedded_abstraction import (
    Embeddings,
    Recipe,
    Region,
    further_pages,
    labelled_regions,
    train_purpose_model,
    word_strings,
)

GOLD = Path(__file__).parent.parent / "data" / "gold"
RECIPE = Recipe(smallest_sites=1, word_size=8, estimate_size=24, topic_below=-1.0, word_score=0.0)


class WordBags(Embeddings):
    """Sums of one random direction a word: alike where words are shared."""

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = [sum((self.direction(word) for word in text.lower().split()), np.zeros(48)) for text in texts]
        return np.array([row / max(1e-9, float(np.linalg.norm(row))) for row in rows], dtype=np.float32)

    @staticmethod
    def direction(word: str) -> npt.NDArray[np.float64]:
        return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(48)


@cache
def pages() -> tuple[AnnotatedPage, ...]:
    return tuple(annotated_pages(GOLD / "captures", GOLD / "labels"))[::2]


@cache
def data() -> tuple[list[Region], dict[int, str]]:
    return labelled_regions(pages()), word_strings(pages())


def agreement(own: Sequence[Region], further: Sequence[Region], recipe: Recipe) -> float:
    """Mean cosine of what the model says of `own` regions to their labels."""
    embeddings = WordBags()
    model = train_purpose_model(own, data()[1], recipe, embeddings, further)
    said = model.purposes([region.features for region in own], [region.units for region in own])
    return float((embeddings.of(said) * embeddings.of([region.purpose for region in own])).sum(1).mean())


def test_annotated_regions_count_for_more_where_further_ones_say_otherwise() -> None:
    own = data()[0]
    others = [
        replace(region, site=f"other-{region.site}", purpose=own[(k + len(own) // 2) % len(own)].purpose) for k, region in enumerate(own)
    ]
    pooled = agreement(own, others, replace(RECIPE, own_part=0.0, further_penalty=RECIPE.penalty))
    weighed = agreement(own, others, RECIPE)
    assert pooled + 0.05 < weighed


def test_purposes_of_further_regions_may_be_said_and_without_any_nothing_changes() -> None:
    regions = data()[0]
    own = [region for region in regions if region.site != "app-redmine"]
    further = [region for region in regions if region.site == "app-redmine"]
    embeddings, strings = WordBags(), data()[1]
    alone = train_purpose_model(own, strings, RECIPE, embeddings)
    same = train_purpose_model(own, strings, replace(RECIPE, own_part=3.0, further_penalty=1.0), embeddings)
    assert np.array_equal(alone.phrase_vectors, same.phrase_vectors)
    assert all(np.array_equal(a, b) for a, b in zip(alone.projections, same.projections, strict=True))
    both = train_purpose_model(own, strings, RECIPE, embeddings, further)
    new = set(both.phrases) - set(alone.phrases)
    assert new & {region.purpose for region in further}
    said = both.purposes([region.features for region in further], [region.units for region in further])
    assert new & set(said)


def test_further_pages_of_sites_that_are_measured_on_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    kept_apart = {page.site for page in pages() if split_of(page.site) != "train"}
    assert kept_apart
    with caplog.at_level("INFO"):
        used = further_pages([(GOLD / "captures", GOLD / "labels")], pages())
    assert used
    assert not kept_apart & {page.site for page in used}
    assert "their sites are of validation or test pages" in caplog.text
