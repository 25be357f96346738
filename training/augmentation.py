"""Variations of an annotated page, so that a model does not lean on what a page happens to have.

Enters: a tree and its cut nodes. Leaves: another tree, and where each of its nodes was. Whole regions go, wrappers are dissolved,
landmark roles become `generic`, long runs of alike children get shorter. Preorder and labels stay true.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXTree

__all__ = ["Augmentation"]

LANDMARKS = frozenset(
    {
        "banner",
        "navigation",
        "main",
        "complementary",
        "contentinfo",
        "search",
        "form",
        "region",
        "sectionheader",
        "sectionfooter",
        "article",
    }
)
LONG_RUN = 6
"""Children of one role from which a run may be shortened."""
LARGEST_DROPPED = 0.4
"""Share of the page above which a region is never left out."""


@dataclass(frozen=True)
class Augmentation:
    """Probabilities: of each region to go, of each wrapper, of each landmark role, of each run to be shortened."""

    drop_region: float = 0.1
    drop_wrapper: float = 0.08
    hide_landmark: float = 0.25
    shorten_run: float = 0.3

    def __call__(self, tree: AXTree, cuts: Collection[int], rng: random.Random) -> tuple[AXTree, npt.NDArray[np.int64]]:
        """A varied tree, and for each of its nodes the index it had in `tree`. No node of `cuts` is dissolved."""
        cut = set(cuts)
        gone = self._gone(tree, cut, rng)
        dissolved = [False] * len(tree)
        hidden = [False] * len(tree)
        end = tree.end.tolist()
        for i, node in enumerate(tree.nodes[1:], 1):
            if node.role == "generic":
                dissolved[i] = i not in cut and end[i] - i > 1 and rng.random() < self.drop_wrapper
            elif node.role in LANDMARKS:
                hidden[i] = rng.random() < self.hide_landmark
        place = [0] * len(tree)  # of the node itself, or of what stands in for it
        nodes, parent, origin = [tree.nodes[0]], [-1], [0]
        for i, above in enumerate(tree.parent.tolist()):
            if i == 0:
                continue
            place[i] = place[above]
            if gone[i] or dissolved[i]:
                continue
            origin.append(i)
            parent.append(place[above])
            place[i] = len(nodes)
            nodes.append(replace(tree.nodes[i], role="generic") if hidden[i] else tree.nodes[i])
        varied = AXTree(tuple(nodes), np.asarray(parent, dtype=np.int32), url=tree.url, title=tree.title)
        return varied, np.asarray(origin, dtype=np.int64)

    def _gone(self, tree: AXTree, cut: set[int], rng: random.Random) -> list[bool]:
        gone = [False] * len(tree)
        end = tree.end.tolist()
        leave_out = [c for c in sorted(cut) if rng.random() < self.drop_region and end[c] - c < LARGEST_DROPPED * len(tree)]
        for children in tree.children:
            if len(children) >= LONG_RUN and rng.random() < self.shorten_run:
                role, count = Counter(tree.nodes[c].role for c in children).most_common(1)[0]
                if count >= LONG_RUN:
                    alike = [c for c in children if tree.nodes[c].role == role]
                    leave_out += rng.sample(alike, count - rng.randint(LONG_RUN // 2, count))
        for c in leave_out:
            gone[c : end[c]] = [True] * (end[c] - c)
        return gone
