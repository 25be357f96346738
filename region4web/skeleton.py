"""The part of a tree that may be cut: its subtrees of three nodes and more.

Enters: an `AXTree`. Leaves: a smaller tree of arrays, in the same preorder, whose nodes know their index in the whole
tree. A region holds something to read or act on and something around it: among 9,055 annotated cuts no subtree has one node
and 33 have two, while such subtrees are three quarters of all nodes. What they hold is counted in the features of the nodes above.
Symbols: N nodes, K of them kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXTree

__all__ = ["SMALLEST_REGION", "Skeleton", "skeleton"]

SMALLEST_REGION = 3
"""Nodes in the smallest subtree that may become a region."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Skeleton:
    """K kept nodes, all arrays of length K.

    `index`: position in the whole tree, rising, first 0. `parent`, `end`: as in `AXTree`, in skeleton positions,
    except `parent[0] == 0`. `before`, `after`: the kept sibling on either side, the node itself where there is none.
    `weight`: nodes of the whole tree that go with a kept node, itself and what was left out below it.
    """

    index: Indices
    parent: Indices
    end: Indices
    before: Indices
    after: Indices
    weight: Indices

    def __len__(self) -> int:
        return len(self.index)


def skeleton(tree: AXTree, smallest: int = SMALLEST_REGION) -> Skeleton:
    """The root and every node whose subtree has `smallest` nodes or more."""
    n = len(tree)
    end = tree.end.astype(np.int64)
    keep = end - np.arange(n) >= smallest
    keep[0] = True
    upto = np.concatenate([[0], np.cumsum(keep)])
    index = np.flatnonzero(keep)
    whole_parent = tree.parent.astype(np.int64)[index]
    whole_parent[0] = 0
    parent = upto[whole_parent]
    k = len(index)
    before = np.arange(k)
    after = np.arange(k)
    order = np.argsort(parent[1:], kind="stable") + 1
    together = parent[order[1:]] == parent[order[:-1]]
    before[order[1:][together]] = order[:-1][together]
    after[order[:-1][together]] = order[1:][together]
    sizes = end[index] - index
    weight = sizes - np.bincount(parent[1:], weights=sizes[1:], minlength=k).astype(np.int64)
    return Skeleton(index, parent, upto[end[index]], before, after, weight)
