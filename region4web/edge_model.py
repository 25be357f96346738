"""Networks that say where to cut: `ContextEncoder` for `best`; torch modules only, no files, no decisions.

Enters: a `TreeBatch`, the skeletons of one or more pages laid end to end. Leaves: one logit a node, for the edge
above it. Symbols: K nodes of the batch, F numbers a node, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from region4web.features import NodeFeatures
from region4web.roles import ROLES
from region4web.skeleton import Skeleton

__all__ = ["BestModel", "ContextBlock", "TreeBatch"]

ROLE_WIDTH = 16


@dataclass(frozen=True)
class TreeBatch:
    """Skeletons laid end to end; indices are into the batch. All tensors have length K.

    `parent` of a root is itself; `before` and `after` are K where there is no sibling; `children` and `size` count kept
    nodes.
    """

    roles: Tensor
    numbers: Tensor  # (K, F)
    parent: Tensor
    end: Tensor
    before: Tensor
    after: Tensor
    root: Tensor  # bool
    children: Tensor
    size: Tensor


def batch_trees(pages: Sequence[tuple[Skeleton, NodeFeatures]]) -> TreeBatch:
    """One batch of pages; of the features, the rows of kept nodes are taken."""
    starts = np.cumsum([0] + [len(bones) for bones, _ in pages])
    total = int(starts[-1])
    parent = np.concatenate([bones.parent + start for (bones, _), start in zip(pages, starts)])
    end = np.concatenate([bones.end + start for (bones, _), start in zip(pages, starts)])
    before = np.concatenate([np.where(bones.before < len(bones), bones.before + start, total) for (bones, _), start in zip(pages, starts)])
    after = np.concatenate([np.where(bones.after < len(bones), bones.after + start, total) for (bones, _), start in zip(pages, starts)])
    root = np.zeros(total, dtype=bool)
    root[starts[:-1]] = True
    return TreeBatch(
        roles=torch.from_numpy(np.concatenate([features.roles[bones.index] for bones, features in pages])),
        numbers=torch.from_numpy(np.concatenate([features.numbers[bones.index] for bones, features in pages])),
        parent=torch.from_numpy(parent),
        end=torch.from_numpy(end),
        before=torch.from_numpy(before),
        after=torch.from_numpy(after),
        root=torch.from_numpy(root),
        children=torch.from_numpy(np.bincount(parent[~root], minlength=total).astype(np.float32)),
        size=torch.from_numpy((end - np.arange(total)).astype(np.float32)),
    )


class ContextBlock(nn.Module):
    """One round of looking around: parent, children, both neighbours, all siblings, and the subtree."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gather = nn.Linear(7 * width, 2 * width)
        self.mix = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, batch: TreeBatch) -> Tensor:
        """Shapes: h (K, D) -> (K, D)."""
        z = self.norm(h)
        k, width = z.shape
        below = ~batch.root
        children = z.new_zeros(k, width).index_add_(0, batch.parent[below], z[below])
        others = (children[batch.parent] - z) / (batch.children[batch.parent] - 1).clamp(min=1)[:, None] * below[:, None]
        children = children / batch.children.clamp(min=1)[:, None]
        padded = torch.cat([z, z.new_zeros(1, width)])
        sums = torch.cat([z.new_zeros(1, width), z.cumsum(0)])
        subtree = (sums[batch.end] - sums[:-1]) / batch.size[:, None]
        around = torch.cat([z, z[batch.parent], children, others, padded[batch.before], padded[batch.after], subtree], dim=1)
        return h + self.dropout(self.mix(torch.relu(self.gather(around))))


class BestModel(nn.Module):
    """Node features, rounds of context, and an edge classifier on a node and its parent."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, numbers: int, *, width: int = 64, blocks: int = 3, dropout: float = 0.3, input_dropout: float = 0.15) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(numbers))
        self.register_buffer("deviation", torch.ones(numbers))
        self.role = nn.Embedding(len(ROLES), ROLE_WIDTH)
        self.input_dropout = nn.Dropout(input_dropout)
        self.input = nn.Linear(numbers + ROLE_WIDTH, width)
        self.blocks = nn.ModuleList(ContextBlock(width, dropout) for _ in range(blocks))
        self.classifier = nn.Sequential(
            nn.LayerNorm(2 * width), nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1)
        )

    def forward(self, batch: TreeBatch) -> Tensor:
        """(K,) logit that the edge above each node is cut; that of a root means nothing."""
        numbers = ((batch.numbers - self.mean) / self.deviation).clamp(-6, 6)
        h = self.input(torch.cat([self.role(batch.roles), self.input_dropout(numbers)], dim=1))
        for block in self.blocks:
            h = block(h, batch)
        logits: Tensor = self.classifier(torch.cat([h, h[batch.parent]], dim=1))
        return logits[:, 0]
