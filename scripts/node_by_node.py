"""The decomposition networks written one node at a time, as they read: the reference of the fast passes and of `bench.py`.

Enters: a model and a tree. Leaves: (N,) probabilities of a cut above each node.
"""

from __future__ import annotations

import numpy as np
import torch

from region4web.axtree import AXTree
from region4web.edge_model import ContextModel, PaperModel
from region4web.features import node_features, paper_features
from region4web.skeleton import skeleton


@torch.no_grad()
def paper_node_by_node(model: PaperModel, tree: AXTree, threshold: float) -> np.ndarray:
    """METHOD's pass written as it reads: one node at a time, from the last to the first."""
    features = paper_features(tree)
    x = torch.cat([model.role(torch.from_numpy(features.roles)), torch.from_numpy(features.numbers)], dim=1)
    r: dict[int, torch.Tensor] = {}
    probability = np.zeros(len(tree), dtype=np.float32)
    for v in range(len(tree) - 1, -1, -1):
        merged = []
        for child in tree.children[v]:
            others = [r[c] for c in tree.children[v] if c != child]
            siblings = torch.stack(others).mean(0) if others else torch.zeros(256)
            probability[child] = float(torch.sigmoid(model.classifier(x[v][None], r[child][None], siblings[None])))
            if probability[child] < threshold:
                merged.append(r[child])
        r[v] = model.encoder(x[v][None], (torch.stack(merged).mean(0) if merged else torch.zeros(256))[None])[0]
    return probability


@torch.no_grad()
def context_node_by_node(model: ContextModel, tree: AXTree) -> np.ndarray:
    """Every block written for one node at a time."""
    bones = skeleton(tree)
    features = node_features(tree)
    k = len(bones)
    numbers = ((torch.from_numpy(features.numbers[bones.index]) - model.mean) / model.deviation).clamp(-6, 6)
    h = torch.stack([model.input(torch.cat([model.role.weight[features.roles[bones.index[i]]], numbers[i]])) for i in range(k)])
    children = [[j for j in range(1, k) if bones.parent[j] == i] for i in range(k)]
    for block in model.blocks:
        z = torch.stack([block.norm(h[i]) for i in range(k)])
        nothing = torch.zeros_like(z[0])
        rows = []
        for i in range(k):
            siblings = children[bones.parent[i]] if i else []
            others = [z[j] for j in siblings if j != i]
            place = siblings.index(i) if i else 0
            around = [
                z[i],
                z[bones.parent[i]],
                torch.stack([z[j] for j in children[i]]).mean(0) if children[i] else nothing,
                torch.stack(others).mean(0) if others else nothing,
                z[siblings[place - 1]] if i and place else nothing,
                z[siblings[place + 1]] if i and place + 1 < len(siblings) else nothing,
                z[i : bones.end[i]].mean(0),
            ]
            rows.append(h[i] + block.mix(torch.relu(block.gather(torch.cat(around)))))
        h = torch.stack(rows)
    logits = [model.classifier(torch.cat([h[i], h[bones.parent[i]]]))[0] for i in range(k)]
    probability = np.zeros(len(tree), dtype=np.float32)
    probability[bones.index] = torch.sigmoid(torch.stack(logits)).numpy()
    probability[0] = 0
    return probability
