"""The networks that say where to cut. Torch modules only: no files, no thresholds' choice, no training.

Enters: a `TreeBatch`, the trees (or skeletons) of one or more pages laid end to end. Leaves: one logit a node, for the
edge above it. `PaperModel` is Region4Web's pair of networks, section "Hierarchical decomposition"; `ContextModel` is
ours. Symbols: K nodes of the batch, F numbers a node, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from region4web.features import NodeFeatures
from region4web.roles import ROLES
from region4web.skeleton import Skeleton

__all__ = ["ContextBlock", "ContextModel", "EdgeClassifier", "Ensemble", "PaperModel", "RegionEncoder", "TreeBatch", "batch_trees"]

NORMALISED_LIMIT = 6.0
"""Standard deviations at which a normalised number is clipped: a page unlike all others must not shout."""


@dataclass(frozen=True)
class TreeBatch:
    """Trees laid end to end; indices are into the batch. All tensors have length K.

    `parent` of a root is the root; `before` and `after` of a node without that sibling are the node itself.
    """

    roles: Tensor
    numbers: Tensor  # (K, F)
    parent: Tensor
    end: Tensor
    before: Tensor
    after: Tensor

    def __len__(self) -> int:
        return len(self.parent)


def batch_trees(pages: Sequence[tuple[Skeleton, NodeFeatures]]) -> TreeBatch:
    """One batch of pages, each with the features of its kept nodes."""
    starts = np.cumsum([0, *(len(bones) for bones, _ in pages)])

    def shifted(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(bones, name) + start for (bones, _), start in zip(pages, starts)]))

    return TreeBatch(
        roles=torch.from_numpy(np.concatenate([features.roles for _, features in pages])),
        numbers=torch.from_numpy(np.concatenate([features.numbers for _, features in pages])),
        parent=shifted("parent"),
        end=shifted("end"),
        before=shifted("before"),
        after=shifted("after"),
    )


class ContextBlock(nn.Module):
    """One round of looking around: parent, children, both neighbours, all siblings, and the subtree."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gather = nn.Linear(7 * width, hidden)
        self.mix = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, batch: TreeBatch, surroundings: Surroundings) -> Tensor:
        """Shapes: h (K, D) -> (K, D)."""
        z = self.norm(h)
        below = z * surroundings.below
        children = torch.zeros_like(z).index_add_(0, batch.parent, below)
        others = (children.index_select(0, batch.parent) - z) * surroundings.share_of_others
        children = children * surroundings.share_of_children
        before = z.index_select(0, batch.before) * surroundings.has_before
        after = z.index_select(0, batch.after) * surroundings.has_after
        sums = torch.cat([z.new_zeros(1, z.shape[1]), z.cumsum(0)])
        subtree = (sums.index_select(0, batch.end) - sums[:-1]) * surroundings.share_of_subtree
        around = torch.cat([z, z.index_select(0, batch.parent), children, others, before, after, subtree], dim=1)
        change: Tensor = self.dropout(self.mix(self.dropout(torch.relu_(self.gather(around)))))
        return h + change


@dataclass(frozen=True)
class Surroundings:
    """What every block needs of a batch, (K, 1) each: 1 or 0 where a neighbour is there or not, and 1 / counts."""

    below: Tensor
    has_before: Tensor
    has_after: Tensor
    share_of_children: Tensor
    share_of_others: Tensor
    share_of_subtree: Tensor

    @classmethod
    def of(cls, batch: TreeBatch) -> Surroundings:
        here = torch.arange(len(batch))
        below = (batch.parent != here).float()
        children = torch.zeros(len(batch)).index_add_(0, batch.parent, below)
        return cls(
            below=below[:, None],
            has_before=(batch.before != here).float()[:, None],
            has_after=(batch.after != here).float()[:, None],
            share_of_children=(1 / children.clamp(min=1))[:, None],
            share_of_others=(below / (children[batch.parent] - 1).clamp(min=1))[:, None],
            share_of_subtree=(1 / (batch.end - here).float())[:, None],
        )


class ContextModel(nn.Module):
    """Node features, rounds of context, and an edge classifier on a node and its parent."""

    mean: Tensor
    deviation: Tensor

    def __init__(
        self, numbers: int, *, width: int, hidden: int, blocks: int, role_width: int = 16, dropout: float = 0.0, input_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(numbers))
        self.register_buffer("deviation", torch.ones(numbers))
        self.role = nn.Embedding(len(ROLES), role_width)
        self.input_dropout = nn.Dropout(input_dropout)
        self.input = nn.Linear(numbers + role_width, width)
        self.blocks = nn.ModuleList(ContextBlock(width, hidden, dropout) for _ in range(blocks))
        self.classifier = nn.Sequential(
            nn.LayerNorm(2 * width), nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1)
        )

    def forward(self, batch: TreeBatch, surroundings: Surroundings | None = None) -> Tensor:
        """(K,) logit that the edge above each node is cut; that of a root means nothing. `surroundings`: those of the batch, where known."""
        numbers = ((batch.numbers - self.mean) / self.deviation).clamp_(-NORMALISED_LIMIT, NORMALISED_LIMIT)
        h = self.input(torch.cat([self.role(batch.roles), self.input_dropout(numbers)], dim=1))
        surroundings = Surroundings.of(batch) if surroundings is None else surroundings
        for block in self.blocks:
            h = block(h, batch, surroundings)
        logits: Tensor = self.classifier(torch.cat([h, h.index_select(0, batch.parent)], dim=1))
        return logits[:, 0]


class Ensemble(nn.Module):
    """Several models that vote."""

    def __init__(self, members: Sequence[ContextModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def cut_probabilities(self, batch: TreeBatch) -> Tensor:
        """(M, K) each member's probability that the edge above each node is cut."""
        surroundings = Surroundings.of(batch)
        return torch.stack([torch.sigmoid(member(batch, surroundings)) for member in self.members])


def _layers(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


NODE_WIDTH = 16  # 11 of the role, 5 numbers
REGION_WIDTH = 256


class EdgeClassifier(nn.Module):
    """x of the parent [16], r of the child [256], mean r of the child's siblings [256] -> logit of a cut."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = _layers(NODE_WIDTH + 2 * REGION_WIDTH, REGION_WIDTH, REGION_WIDTH, REGION_WIDTH, 1)

    def forward(self, x: Tensor, child: Tensor, siblings: Tensor) -> Tensor:
        """Shapes: (E, 16), (E, 256), (E, 256) -> (E,)."""
        logits: Tensor = self.layers(torch.cat([x, child, siblings], dim=1))
        return logits[:, 0]


class RegionEncoder(nn.Module):
    """x of a node [16], mean r of the children merged into it [256] -> r of the node [256]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = _layers(NODE_WIDTH + REGION_WIDTH, REGION_WIDTH, REGION_WIDTH, REGION_WIDTH, REGION_WIDTH)

    def forward(self, x: Tensor, merged: Tensor) -> Tensor:
        """Shapes: (K, 16), (K, 256) -> (K, 256)."""
        r: Tensor = self.layers(torch.cat([x, merged], dim=1))
        return r


class PaperModel(nn.Module):
    """Region4Web's decomposition: 536,773 parameters with three hidden layers in either network."""

    def __init__(self) -> None:
        super().__init__()
        self.role = nn.Embedding(len(ROLES), 11)
        self.classifier = EdgeClassifier()
        self.encoder = RegionEncoder()

    def node_vectors(self, batch: TreeBatch) -> Tensor:
        """(K, 16) x of every node."""
        return torch.cat([self.role(batch.roles), batch.numbers], dim=1)

    @torch.no_grad()
    def cut_probability(self, batch: TreeBatch, threshold: float) -> Tensor:
        """(K,) probability of a cut above each node, in one pass from the leaves up, all nodes of one height at once.

        A child that is cut (probability >= threshold) does not count in its parent's r.
        """
        k = len(batch)
        x = self.node_vectors(batch)
        parent = batch.parent.numpy()
        height = _heights(parent)
        nodes = np.argsort(height, kind="stable")
        edges = np.flatnonzero(parent != np.arange(k))
        edges = edges[np.argsort(height[parent[edges]], kind="stable")]
        levels = int(height.max(initial=0)) + 1
        node_bounds = np.searchsorted(height[nodes], np.arange(levels + 1))
        edge_bounds = np.searchsorted(height[parent[edges]], np.arange(levels + 1))
        place = np.empty(k, dtype=np.int64)  # of a node within its level
        place[nodes] = np.arange(k) - node_bounds[height[nodes]]
        at, up, child = (torch.from_numpy(values) for values in (nodes, place[parent[edges]], edges))
        r = x.new_zeros(k, REGION_WIDTH)
        probability = x.new_zeros(k)
        for level in range(levels):
            v = at[node_bounds[level] : node_bounds[level + 1]]
            merged = x.new_zeros(len(v), REGION_WIDTH)
            if level:
                c = child[edge_bounds[level] : edge_bounds[level + 1]]
                p = up[edge_bounds[level] : edge_bounds[level + 1]]
                below = r[c]
                total = merged.index_add(0, p, below)
                count = x.new_zeros(len(v)).index_add_(0, p, x.new_ones(len(c)))
                siblings = (total[p] - below) / (count[p] - 1).clamp(min=1)[:, None]
                cut = torch.sigmoid(self.classifier(x[v][p], below, siblings))
                probability[c] = cut
                keep = (cut < threshold).float()
                count = x.new_zeros(len(v)).index_add_(0, p, keep)
                merged = merged.index_add(0, p, below * keep[:, None]) / count.clamp(min=1)[:, None]
            r[v] = self.encoder(x[v], merged)
        return probability


def _heights(parent: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(K,) edges to the deepest node below."""
    height = [0] * len(parent)
    above = parent.tolist()
    for i in range(len(height) - 1, -1, -1):
        if above[i] != i and height[i] >= height[above[i]]:
            height[above[i]] = height[i] + 1
    return np.asarray(height, dtype=np.int64)
