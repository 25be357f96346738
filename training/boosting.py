"""A trained LightGBM model in, the same trees as plain arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from region4web.boosted_trees import BoostedTrees

__all__ = ["exported"]

TreeNode = tuple[int, float, int, int, float]
"""Feature, threshold, left child, right child, value."""


def exported(model: Any) -> BoostedTrees:
    """The trees of a `lightgbm.Booster`; a leaf's children are itself."""
    trees: list[list[TreeNode]] = []
    depth = 0
    for tree in model.dump_model()["tree_info"]:
        nodes: list[TreeNode] = []
        stack = [(tree["tree_structure"], -1, False, 0)]
        while stack:
            entry, above, is_right, level = stack.pop()
            at = len(nodes)
            depth = max(depth, level)
            if above >= 0:
                feature, threshold, left, right, value = nodes[above]
                nodes[above] = (feature, threshold, left, at, value) if is_right else (feature, threshold, at, right, value)
            if "split_feature" in entry:
                nodes.append((entry["split_feature"], entry["threshold"], at, at, 0.0))
                stack += [(entry["right_child"], at, True, level + 1), (entry["left_child"], at, False, level + 1)]
            else:
                nodes.append((0, np.inf, at, at, entry["leaf_value"]))
        trees.append(nodes)
    size = max(map(len, trees))
    columns = [np.zeros((len(trees), size)) for _ in range(5)]
    for t, nodes in enumerate(trees):
        for column, values in zip(columns, zip(*nodes, strict=True), strict=True):
            column[t, : len(nodes)] = values
    feature, threshold, left, right, value = columns
    return BoostedTrees(feature.astype(np.int32), threshold, left.astype(np.int32), right.astype(np.int32), value, depth)
