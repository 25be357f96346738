"""How well predicted regions agree with labelled ones (Region4Web, Evaluation).

Enters: two partitions of one tree. Leaves: counts that add up over pages (micro average). A predicted and a labelled
region match when the IoU of their node sets is at least 0.5; matching is one to one and as large as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from region4web.regions import Partition

__all__ = ["IOU_THRESHOLD", "PartitionScore", "match_regions", "score_partition"]

IOU_THRESHOLD = 0.5


@dataclass(frozen=True)
class PartitionScore:
    """Counts of one or more pages; `a + b` adds pages up. Ratios are 0 where nothing was counted."""

    predicted: int = 0
    labelled: int = 0
    matched: int = 0
    edges_predicted: int = 0
    edges_labelled: int = 0
    edges_matched: int = 0

    def __add__(self, other: PartitionScore) -> PartitionScore:
        return PartitionScore(
            self.predicted + other.predicted,
            self.labelled + other.labelled,
            self.matched + other.matched,
            self.edges_predicted + other.edges_predicted,
            self.edges_labelled + other.edges_labelled,
            self.edges_matched + other.edges_matched,
        )

    @property
    def region_precision(self) -> float:
        return self.matched / self.predicted if self.predicted else 0.0

    @property
    def region_recall(self) -> float:
        return self.matched / self.labelled if self.labelled else 0.0

    @property
    def region_f1(self) -> float:
        total = self.predicted + self.labelled
        return 2 * self.matched / total if total else 0.0

    @property
    def edge_f1(self) -> float:
        """F1 over cut edges; 1 when neither side cuts."""
        total = self.edges_predicted + self.edges_labelled
        return 2 * self.edges_matched / total if total else 1.0


def match_regions(predicted: Partition, labelled: Partition) -> list[tuple[int, int]]:
    """Pairs (predicted region, labelled region) with IoU >= 0.5, one to one, as many as possible."""
    a: npt.NDArray[np.int64] = predicted.region_of.astype(np.int64)
    b: npt.NDArray[np.int64] = labelled.region_of.astype(np.int64)
    if a.shape != b.shape:
        raise ValueError(f"partitions of one tree needed, found {len(a)} and {len(b)} nodes")
    width = len(labelled)
    pairs, common = np.unique(a * width + b, return_counts=True)
    p, g = pairs // width, pairs % width
    union = np.bincount(a, minlength=len(predicted))[p] + np.bincount(b, minlength=width)[g] - common
    good = common >= IOU_THRESHOLD * union
    graph = coo_matrix((np.ones(int(good.sum()), dtype=np.int8), (p[good], g[good])), shape=(len(predicted), width)).tocsr()
    partner = maximum_bipartite_matching(graph, perm_type="column")
    return [(i, int(j)) for i, j in enumerate(partner) if j >= 0]


def score_partition(predicted: Partition, labelled: Partition) -> PartitionScore:
    """Counts for one page. Edges are named by the node below; the page's root has none."""
    cuts, gold = set(predicted.roots[1:]), set(labelled.roots[1:])
    return PartitionScore(
        predicted=len(predicted),
        labelled=len(labelled),
        matched=len(match_regions(predicted, labelled)),
        edges_predicted=len(cuts),
        edges_labelled=len(gold),
        edges_matched=len(cuts & gold),
    )
