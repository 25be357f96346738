"""Candidate regions in, the boosted trees that judge them out: trained on probabilities of members that never saw the page.

Enters: examples with (M, K) out-of-fold probabilities. Leaves: `BoostedTrees`, and figures of trees that never saw the site either.
Symbols: M members, K kept nodes, R candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from region4web.boosted_trees import BoostedTrees
from region4web.consensus import Candidates, best_partition, candidate_regions
from region4web.decomposition import mended_cuts
from region4web.metrics import IOU_THRESHOLD, PartitionScore, score_partition
from region4web.region_scores import candidate_features, region_probabilities
from region4web.regions import Partition
from training.boosting import exported
from training.decomposition_data import Example

__all__ = ["SCORED_REGION_COSTS", "CandidateSample", "candidate_sample", "cross_validated", "fit_region_trees"]

SCORED_REGION_COSTS = (0.36, 0.38, 0.4, 0.42, 0.44, 0.46, 0.48, 0.5)
SETTINGS = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 16,
    "max_depth": 6,
    "min_data_in_leaf": 40,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "feature_fraction": 0.3,
    "lambda_l2": 10.0,
    "num_threads": 1,
    "deterministic": True,
    "verbosity": -1,
}
TREES = 150
MODELS = 3


@dataclass(frozen=True)
class CandidateSample:
    """The candidates of one page: their features (R, F) and whether each matches a labelled region (R,)."""

    example: Example
    probabilities: npt.NDArray[np.float32]
    candidates: Candidates
    features: npt.NDArray[np.float32]
    right: npt.NDArray[np.bool_]

    def partition(self, probability: npt.NDArray[np.float64], region_cost: float) -> Partition:
        """The partition that is best by these probabilities (R,)."""
        bones = self.example.bones
        cuts = mended_cuts(bones, best_partition(self.candidates, probability - region_cost), self.probabilities)
        return Partition.from_cuts(self.example.page.tree, bones.index[cuts].tolist())


def candidate_sample(example: Example, probabilities: npt.NDArray[np.float32]) -> CandidateSample:
    """The candidates that (M, K) probabilities give, judged by the labels."""
    bones = example.bones
    candidates = candidate_regions(bones, probabilities)
    features = candidate_features(bones, example.data[0].numbers.numpy(), probabilities, candidates)
    region_of = example.gold.region_of[bones.index]  # labelled cuts are kept nodes, so a kept node's lost children are in its region
    size_of = np.bincount(example.gold.region_of)
    right = []
    for members in candidates.members:
        common = np.bincount(region_of[members], weights=bones.weight[members])
        right.append(bool((common / (size_of[: len(common)] + common.sum() - common)).max() >= IOU_THRESHOLD))
    return CandidateSample(example, probabilities, candidates, features, np.asarray(right))


def fit_region_trees(samples: Sequence[CandidateSample], *, seed: int) -> BoostedTrees:
    """Gradient boosting (LightGBM) of whether a candidate is right; the mean of a few models, for one varies with its seed."""
    import lightgbm

    rows = np.concatenate([sample.features for sample in samples])
    right = np.concatenate([sample.right for sample in samples])
    data = lightgbm.Dataset(rows, right.astype(np.int32), free_raw_data=False)
    boosters = [lightgbm.train(SETTINGS | {"seed": MODELS * seed + k}, data, TREES) for k in range(MODELS)]
    return BoostedTrees.averaged([exported(booster) for booster in boosters])


def cross_validated(samples: Sequence[CandidateSample], folds: Sequence[int], *, seed: int) -> tuple[list[PartitionScore], float]:
    """A score of each page by trees, and with a region cost, that saw no page of its fold; and the cost that is best on all folds."""
    scores: dict[float, list[PartitionScore]] = {cost: [PartitionScore()] * len(samples) for cost in SCORED_REGION_COSTS}
    for fold in sorted(set(folds)):
        trees = fit_region_trees([sample for sample, k in zip(samples, folds, strict=True) if k != fold], seed=seed)
        for i, sample in enumerate(samples):
            if folds[i] == fold:
                probability = region_probabilities(trees, sample.features)
                for cost in SCORED_REGION_COSTS:
                    scores[cost][i] = score_partition(sample.partition(probability, cost), sample.example.gold)

    def best_cost(skipped: int | None) -> float:
        def f1(cost: float) -> float:
            rows = [score for score, fold in zip(scores[cost], folds, strict=True) if fold != skipped]
            return sum(rows, PartitionScore()).region_f1

        return max(SCORED_REGION_COSTS, key=f1)

    cost_of = {fold: best_cost(fold) for fold in set(folds)}
    return [scores[cost_of[fold]][i] for i, fold in enumerate(folds)], best_cost(None)
