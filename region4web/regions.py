"""Regions: a partition of a tree into connected parts, and what is said of each.

Enters: a tree and the nodes at which it is cut. Leaves: a `Partition`; with one `Abstraction` a region, a `RegionMap`,
which is region4web's product. Symbols: N nodes, R regions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from region4web.axtree import AXTree, IntArray

__all__ = ["Abstraction", "Abstractor", "Partition", "Region", "RegionMap", "Segmenter"]


@dataclass(frozen=True)
class Region:
    """One region: its number, root node, and nodes (indices in preorder, root first).

    `enclosing` is the number of the region around it, -1 for the page's own region R0.
    """

    number: int
    root: int
    members: IntArray = field(repr=False)
    enclosing: int = -1

    @property
    def key(self) -> str:
        """`R3`: how a region is called in every text."""
        return f"R{self.number}"

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True)
class Partition:
    """R connected, disjoint regions that cover the tree. `roots` are node indices in preorder, `roots[0] == 0`."""

    tree: AXTree = field(repr=False)
    roots: tuple[int, ...]

    def __post_init__(self) -> None:
        roots = tuple(int(r) for r in self.roots)
        if not roots or roots[0] != 0:
            raise ValueError(f"roots must start with 0, the page's root, found {roots[:3]}")
        if any(a >= b for a, b in pairwise(roots)) or roots[-1] >= len(self.tree):
            raise ValueError(f"roots must be rising node indices below {len(self.tree)}")
        object.__setattr__(self, "roots", roots)

    @classmethod
    def from_cuts(cls, tree: AXTree, cuts: Iterable[int]) -> Partition:
        """The partition that cuts the edge above each node of `cuts`; the page's root is added."""
        return cls(tree, tuple(sorted({0, *(int(c) for c in cuts)})))

    def __len__(self) -> int:
        return len(self.roots)

    @cached_property
    def region_of(self) -> IntArray:
        """(N,) number of each node's region."""
        region = [-1] * len(self.tree)
        for number, root in enumerate(self.roots):
            region[root] = number
        for i, p in enumerate(self.tree.parent.tolist()):
            if region[i] < 0:
                region[i] = region[p]
        return np.asarray(region, dtype=np.int32)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The regions in page order."""
        order = np.argsort(self.region_of, kind="stable").astype(np.int32)
        sizes = np.bincount(self.region_of, minlength=len(self.roots))
        members = np.split(order, np.cumsum(sizes)[:-1])
        parent = self.tree.parent
        return tuple(
            Region(number, root, members[number], -1 if root == 0 else int(self.region_of[parent[root]]))
            for number, root in enumerate(self.roots)
        )


@dataclass(frozen=True)
class Abstraction:
    """What a region is for, and what is there to act on now. `source` names what wrote it (a label, a model, a rule)."""

    purpose: str
    state: str
    source: str = ""


@dataclass(frozen=True)
class RegionMap:
    """A partition with one abstraction a region, in the same order."""

    partition: Partition
    abstractions: tuple[Abstraction, ...]

    def __post_init__(self) -> None:
        if len(self.abstractions) != len(self.partition):
            raise ValueError(f"{len(self.partition)} regions need as many abstractions, found {len(self.abstractions)}")


class Segmenter(Protocol):
    """Cuts a tree into regions."""

    def segment(self, tree: AXTree) -> Partition: ...


class Abstractor(Protocol):
    """Writes purpose and state of every region, in page order."""

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]: ...
