"""How likely a candidate region is one that an annotator would draw: boosted trees that see its whole extent.

The edge networks judge one edge at a time; whether a region is right also depends on what the cuts below leave it. Enters: a skeleton,
node features, (M, K) cut probabilities and the candidate regions of all votes. Leaves: for each candidate the probability that its IoU with a
labelled region is at least 0.5, which `consensus.best_partition` turns into cuts. Symbols: M models, K kept nodes, R candidates.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from region4web.boosted_trees import BoostedTrees
from region4web.consensus import Candidates
from region4web.errors import WeightsError
from region4web.features import FEATURE_NAMES
from region4web.skeleton import Skeleton

__all__ = ["REGION_FEATURE_NAMES", "candidate_features", "load_region_trees", "region_probabilities", "save_region_trees"]

FloatArray = npt.NDArray[np.float32]
_COUNTS = tuple(
    name for name in FEATURE_NAMES if name.endswith("_count") and not name.startswith(("alike_", "position"))
)  # log(1 + how many of a kind a subtree holds)
_COUNT_COLUMNS = [FEATURE_NAMES.index(name) for name in _COUNTS]
_OF_PARENT = (
    "size",
    "share_of_parent",
    "alike_role",
    "alike_shape",
    "siblings",
    "height",
    "children",
    "landmark_share",
    "starts_with_heading",
)
_PARENT_COLUMNS = [FEATURE_NAMES.index(name) for name in _OF_PARENT]
_AGREEMENT = (
    "support", "support_of_root", "root_logit", "root_lowest", "root_highest", "root_spread",
    "inside_highest", "inside_sum", "inside_log", "inside_support", "below_lowest", "below_mean", "below_log", "below_support",
    "nodes", "share_of_page", "share_of_subtree", "regions_below", "regions_below_each", "kept_nodes", "is_page",
    "parent", "parent_support", "rest_of_parent", "cuts_above", "siblings_mean", "siblings_support",
    "before", "after", "before_support", "after_support", "cuts_of_page", "cuts_to_size", "page_nodes",
)  # fmt: skip
REGION_FEATURE_NAMES: tuple[str, ...] = (
    *_AGREEMENT,
    *(f"own_{name}_share" for name in _COUNTS),
    *(f"own_{name}" for name in _COUNTS),
    *(f"root_{name}" for name in FEATURE_NAMES),
    *(f"parent_{name}" for name in _OF_PARENT),
)
_LEAST = 1e-4
_ABSENT = -1.0
"""Stands for the probability of a sibling that is not there."""


def candidate_features(bones: Skeleton, numbers: FloatArray, probabilities: FloatArray, candidates: Candidates) -> FloatArray:
    """(R, F) named by REGION_FEATURE_NAMES. `numbers` (K, ...) are the node features of the kept nodes."""
    k, r = len(bones), len(candidates)
    weight = bones.weight.astype(np.float64)
    page = weight.sum()
    below = np.concatenate([[0.0], np.cumsum(weight)])
    size = below[bones.end] - below[:-1]
    p = np.clip(probabilities.mean(axis=0), _LEAST, 1 - _LEAST).astype(np.float64)
    p[0] = 1 - _LEAST
    root, support = candidates.root, candidates.support
    supported = np.zeros(k)
    np.maximum.at(supported, root, support)

    kept = np.asarray([len(members) for members in candidates.members])
    member, of_member = np.concatenate(candidates.members), np.repeat(np.arange(r), kept)
    inside = member != root[of_member]
    inner, of_inner = member[inside], of_member[inside]
    regions_below = np.asarray([len(nested) for nested in candidates.nested])
    nested = np.asarray([node for nodes in candidates.nested for node in nodes], dtype=np.int64)
    of_nested = np.repeat(np.arange(r), regions_below)

    def total(of: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.bincount(of, weights=values, minlength=r).astype(np.float64)

    def highest(of: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        found = np.zeros(r)
        np.maximum.at(found, of, values)
        return found

    def mean_below(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.where(regions_below > 0, total(of_nested, values[nested]) / np.maximum(regions_below, 1), 1)

    def beside(values: npt.NDArray[np.float64], neighbour: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.where(neighbour[root] != root, values[neighbour[root]], _ABSENT)

    def other_siblings(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        sums = np.bincount(bones.parent[1:], weights=values[1:], minlength=k)
        return np.where(root == 0, 0, (sums[parent] - values[root]) / others)

    parent = bones.parent[root]
    others = np.maximum(np.bincount(bones.parent[1:], minlength=k)[parent] - 1, 1)
    own = total(of_member, weight[member])
    around = np.zeros(k + 1)
    around[:-1] += p
    np.subtract.at(around, bones.end, p)
    lowest_below = 1 - highest(of_nested, 1 - p[nested])
    agreement = (
        support, supported[root], np.log(p / (1 - p))[root],
        probabilities[:, root].min(axis=0), probabilities[:, root].max(axis=0), probabilities.std(axis=0)[root],
        highest(of_inner, p[inner]), total(of_inner, p[inner]), total(of_inner, np.log1p(-p)[inner]), highest(of_inner, supported[inner]),
        lowest_below, mean_below(p), total(of_nested, np.log(p)[nested]), mean_below(supported),
        np.log1p(own), own / page, own / size[root], regions_below, regions_below / kept, kept, root == 0,
        p[parent], supported[parent], np.log1p(size[parent] - size[root]), (np.cumsum(around[:-1]) - p)[root],
        other_siblings(p), other_siblings(supported),
        beside(p, bones.before), beside(p, bones.after), beside(supported, bones.before), beside(supported, bones.after),
        np.full(r, p.sum()), np.full(r, p.sum() / np.log1p(page)), np.full(r, np.log1p(page)),
    )  # fmt: skip
    counts = np.expm1(numbers[:, _COUNT_COLUMNS].astype(np.float64))
    held = counts[root]
    np.subtract.at(held, of_nested, counts[nested])
    held = np.maximum(held, 0)
    columns = [
        np.stack([np.asarray(values, dtype=np.float64) for values in agreement], axis=1),
        held / np.maximum(own, 1)[:, None],
        np.log1p(held),
        numbers[root],
        numbers[parent][:, _PARENT_COLUMNS],
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def region_probabilities(trees: BoostedTrees, features: FloatArray) -> npt.NDArray[np.float64]:
    """(R,) that a candidate matches a labelled region."""
    return np.asarray(1 / (1 + np.exp(-np.clip(trees.sums(features), -40, 40))), dtype=np.float64)


def save_region_trees(path: Path, trees: BoostedTrees) -> None:
    """Write `regions.npz`."""
    np.savez_compressed(path, allow_pickle=False, **trees.to_arrays())


def load_region_trees(path: str | os.PathLike[str]) -> BoostedTrees:
    """Read `regions.npz`. Raises WeightsError."""
    try:
        return BoostedTrees.from_arrays(BoostedTrees.read_arrays(Path(path)), len(REGION_FEATURE_NAMES))
    except ValueError as error:
        raise WeightsError(
            f"{path}: region trees missing or damaged ({error}); train them with python -m training.train_decomposition"
        ) from error
