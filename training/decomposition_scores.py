"""How well trained models cut: a decoder's setting chosen on validation pages, figures on test pages.

Enters: models and `Example`s. Leaves: region F1, precision, recall and edge F1, over all pages and a page kind.
Symbols: M members, K kept nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from region4web.decomposition import ensemble_cuts
from region4web.edge_model import Ensemble, PaperModel, batch_trees
from region4web.features import paper_features
from region4web.metrics import PartitionScore, score_partition
from region4web.regions import Partition
from region4web.skeleton import Skeleton
from training.decomposition_data import Example, tree_batch

__all__ = [
    "REGION_COSTS",
    "THRESHOLDS",
    "Probabilities",
    "by_kind",
    "choose_and_score",
    "cut_probabilities",
    "cuts_above",
    "cuts_by_consensus",
    "figures",
    "page_scores",
    "score_cuts",
]

Probabilities = npt.NDArray[np.float32]
REGION_COSTS = (0.34, 0.38, 0.42, 0.46, 0.5, 0.54)
THRESHOLDS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)


@torch.no_grad()
def cut_probabilities(model: nn.Module, example: Example, threshold: float = 0.5) -> Probabilities:
    """(M, K) of every member for a page. `threshold` matters to the paper's model alone: there, cuts decide what is merged."""
    was_training = model.training
    model.eval()
    if isinstance(model, PaperModel):
        found = model.cut_probability(batch_trees([(example.bones, paper_features(example.page.tree))]), threshold)[None]
    elif isinstance(model, Ensemble):
        found = model.cut_probabilities(tree_batch(example.data[0]))
    else:
        found = torch.sigmoid(model(tree_batch(example.data[0])))[None]
    model.train(was_training)
    return found.numpy()


def page_scores(
    examples: Sequence[Example], probabilities: Sequence[Probabilities], cuts: Callable[[Skeleton, Probabilities], list[int]]
) -> list[PartitionScore]:
    """Counts of each page, cut where `cuts` says."""
    return [
        score_partition(Partition.from_cuts(example.page.tree, example.bones.index[cuts(example.bones, found)].tolist()), example.gold)
        for example, found in zip(examples, probabilities, strict=True)
    ]


def score_cuts(
    examples: Sequence[Example], probabilities: Sequence[Probabilities], cuts: Callable[[Skeleton, Probabilities], list[int]]
) -> PartitionScore:
    """Counts over pages, cut where `cuts` says."""
    return sum(page_scores(examples, probabilities, cuts), PartitionScore())


def cuts_above(threshold: float) -> Callable[[Skeleton, Probabilities], list[int]]:
    """Cut where the mean probability is at least `threshold`."""
    return lambda bones, found: (np.flatnonzero(found.mean(axis=0)[1:] >= threshold) + 1).tolist()


def cuts_by_consensus(region_cost: float) -> Callable[[Skeleton, Probabilities], list[int]]:
    """Cut as the shipped ensemble does."""
    return lambda bones, found: ensemble_cuts(bones, found, region_cost=region_cost)


def choose_and_score(model: nn.Module, validation: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """The decoder's setting of the best region F1 on validation, and the figures with it on both sides.

    For the paper's model each threshold is tried with a pass of its own, for it decides what is merged.
    """
    if isinstance(model, PaperModel):
        name, settings, decoder = "threshold", THRESHOLDS, cuts_above
    else:
        name, settings, decoder = "region_cost", REGION_COSTS, cuts_by_consensus
    scores = {s: score_cuts(validation, [cut_probabilities(model, example, s) for example in validation], decoder(s)) for s in settings}
    setting = max(settings, key=lambda s: scores[s].region_f1)
    found = [cut_probabilities(model, example, setting) for example in test]
    return {
        name: setting,
        "validation": figures(scores[setting]),
        "test": figures(score_cuts(test, found, decoder(setting))),
        "test_cut_at_mean_of_0.45": figures(score_cuts(test, found, cuts_above(0.45))),
        "test_by_kind": by_kind(test, page_scores(test, found, decoder(setting))),
    }


def figures(score: PartitionScore) -> dict[str, float]:
    """A score as it is written."""
    names = ("region_f1", "region_precision", "region_recall", "edge_f1")
    return {name: round(float(getattr(score, name)), 4) for name in names}


def by_kind(examples: Sequence[Example], scores: Sequence[PartitionScore]) -> dict[str, Any]:
    """Figures a page kind, and of the locally run applications against all other pages."""
    kinds: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        kinds.setdefault(example.page.kind, []).append(i)
        kinds.setdefault("(applications)" if example.group.startswith("app-") else "(other pages)", []).append(i)
    return {kind: {"pages": len(rows)} | figures(sum((scores[i] for i in rows), PartitionScore())) for kind, rows in sorted(kinds.items())}
