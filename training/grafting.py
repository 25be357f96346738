"""New pages put together from labelled ones: regions replaced by, and joined with, regions of other pages.

What makes a region one does not hang on the rest of its page, so a page whose menu is another site's menu is still labelled rightly.
Enters: a tree, its cuts, and labelled regions of other pages. Leaves: another tree and its cuts. Donors are the caller's choice: a page that
is to be measured must not lend its regions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import numpy as np

from region4web.axtree import AXNode, AXTree

__all__ = ["Donor", "Grafting", "donors_of"]

LARGEST_DONOR = 250
"""Nodes in the largest region that is lent."""
DONORS_LOOKED_AT = 400


@dataclass(frozen=True)
class Donor:
    """The subtree below a cut, with the cuts within it (its root not among them)."""

    tree: AXTree
    root: int
    cuts: frozenset[int]

    def __len__(self) -> int:
        return int(self.tree.end[self.root]) - self.root

    @property
    def position(self) -> float:
        """Where on its page it starts, 0 to 1."""
        return self.root / len(self.tree)

    @property
    def role(self) -> str:
        return self.tree.nodes[self.root].role


def donors_of(tree: AXTree, cuts: Sequence[int]) -> list[Donor]:
    """What a labelled page can lend."""
    end = tree.end
    return [
        Donor(tree, root, frozenset(cut for cut in cuts if root < cut < end[root])) for root in cuts if end[root] - root <= LARGEST_DONOR
    ]


@dataclass(frozen=True)
class Grafting:
    """How much of a page is exchanged: up to a share of its cuts, and up to so many regions put in before others.

    A donor is at most `size_ratio` times larger or smaller than what it replaces and lies at most `shift` of a page away;
    every other time it has the same role, if there is one.
    """

    replaced: float = 1 / 3
    inserted: int = 2
    size_ratio: float = 3.0
    shift: float = 0.25

    def __call__(self, tree: AXTree, cuts: Sequence[int], donors: Sequence[Donor], rng: random.Random) -> tuple[AXTree, list[int]]:
        """The grafted tree and its cuts, rising. Nodes of donors get ids of their own."""
        replacements = self._replacements(tree, cuts, donors, rng)
        taken = np.zeros(len(tree), dtype=bool)
        for root in replacements:
            taken[root : tree.end[root]] = True
        insertions: dict[int, Donor] = {}
        for _ in range(rng.randint(0, self.inserted) if cuts and donors else 0):
            before, donor = rng.choice(list(cuts)), rng.choice(list(donors))
            if not taken[before] and len(donor) <= 0.5 * len(tree):
                insertions[before] = donor
        return _assemble(tree, frozenset(cuts), replacements, insertions)

    def _replacements(self, tree: AXTree, cuts: Sequence[int], donors: Sequence[Donor], rng: random.Random) -> dict[int, Donor]:
        most = rng.randint(1, max(1, round(self.replaced * len(cuts))))
        found: dict[int, Donor] = {}
        taken = np.zeros(len(tree), dtype=bool)
        for root in rng.sample(list(cuts), len(cuts)):
            size = int(tree.end[root]) - root
            if len(found) == most or taken[root : root + size].any() or size > 0.5 * len(tree):
                continue
            fitting = [
                donor
                for donor in rng.sample(list(donors), min(DONORS_LOOKED_AT, len(donors)))
                if size <= self.size_ratio * len(donor)
                and len(donor) <= self.size_ratio * size
                and abs(donor.position - root / len(tree)) <= self.shift
            ]
            alike = [donor for donor in fitting if donor.role == tree.nodes[root].role]
            chosen = alike if alike and rng.random() < 0.5 else fitting
            if chosen:
                found[root] = rng.choice(chosen)
                taken[root : root + size] = True
        return found


def _assemble(tree: AXTree, cuts: frozenset[int], replacements: dict[int, Donor], insertions: dict[int, Donor]) -> tuple[AXTree, list[int]]:
    nodes: list[AXNode] = []
    parent: list[int] = []
    grafted: list[int] = []
    place = [0] * len(tree)
    host = urlsplit(tree.url or "").netloc

    def put(donor: Donor, above: int) -> None:
        start, theirs = len(nodes), urlsplit(donor.tree.url or "").netloc
        for i in range(donor.root, int(donor.tree.end[donor.root])):
            node = donor.tree.nodes[i]
            url = node.url.replace(theirs, host) if node.url and theirs and host else node.url  # their own links stay links of the site
            parent.append(above if i == donor.root else start + int(donor.tree.parent[i]) - donor.root)
            if i == donor.root or i in donor.cuts:
                grafted.append(len(nodes))
            nodes.append(replace(node, id=f"graft-{len(nodes)}", url=url))

    i = 0
    while i < len(tree):
        above = place[tree.parent[i]] if i else -1
        if i in insertions:
            put(insertions[i], above)
        if i in replacements:
            put(replacements[i], above)
            i = int(tree.end[i])
            continue
        place[i] = len(nodes)
        if i in cuts:
            grafted.append(len(nodes))
        parent.append(above)
        nodes.append(tree.nodes[i])
        i += 1
    return AXTree(tuple(nodes), np.asarray(parent, dtype=np.int32), url=tree.url, title=tree.title), grafted
