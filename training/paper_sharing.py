"""The paper's model under teacher forcing, each distinct subtree computed once.

On a page most subtrees occur many times (list items, links, texts): nodes with the same x and the same merged children
have the same r, and edges with the same parent, child and siblings the same logit. Enters: a whole tree and its cuts.
Leaves: torch-geometric `Data` of the distinct nodes and edges with their counts, and logits that equal those of
`PaperModel` node by node. On 200 pages: 15,248 distinct of 64,610 nodes, 19,925 of 64,410 edges.
Symbols: U distinct nodes, M merges, S families (children of one parent), E distinct edges.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from region4web.axtree import AXTree
from region4web.edge_model import REGION_WIDTH, PaperModel
from region4web.features import NodeFeatures, paper_features
from region4web.labels import AnnotatedPage
from region4web.skeleton import skeleton
from training.decomposition_data import Example, site_group

__all__ = ["SharedTreeData", "paper_example", "shared_logits", "shared_tree_data"]


class SharedTreeData(Data):  # type: ignore[misc]
    """Distinct nodes and edges of a tree.

    `roles` (U,), `numbers` (U, 5), `level` (U,): 0 where no child is merged. `merge_child`, `merge_parent`,
    `merge_weight` (M,): the weights of one parent sum to 1. `family_child`, `family`, `family_weight`: members of each
    family and how often; `family_size` (S,). `edge_parent`, `edge_child`, `edge_family`, `cut`, `count` (E,).
    """

    def __inc__(self, key: str, value: object, *args: object, **kwargs: object) -> int:
        if key in ("merge_child", "merge_parent", "family_child", "edge_parent", "edge_child"):
            return int(self.num_nodes)
        return len(self.family_size) if key in ("family", "edge_family") else 0


def shared_tree_data(tree: AXTree, features: NodeFeatures, cuts: npt.NDArray[np.int64]) -> SharedTreeData:
    """The distinct nodes and edges of one page."""
    cut = np.zeros(len(tree), dtype=bool)
    cut[cuts] = True
    parent = tree.parent.tolist()
    x = [(int(role), row.tobytes()) for role, row in zip(features.roles, features.numbers)]
    ids: dict[object, int] = {}
    number = [0] * len(tree)
    children: list[list[int]] = [[] for _ in range(len(tree))]
    merged: list[list[int]] = [[] for _ in range(len(tree))]
    representative: list[int] = []
    for i in range(len(tree) - 1, -1, -1):
        key = (x[i], tuple(sorted(merged[i])))
        number[i] = ids.setdefault(key, len(ids))
        if number[i] == len(representative):
            representative.append(i)
        if i:
            children[parent[i]].append(number[i])
            if not cut[i]:
                merged[parent[i]].append(number[i])
    level = [0] * len(representative)
    merges: list[tuple[int, int, float]] = []
    for u, i in enumerate(representative):  # children come first
        for child, times in Counter(merged[i]).items():
            merges.append((child, u, times / len(merged[i])))
            level[u] = max(level[u], level[child] + 1)
    families: dict[tuple[int, ...], int] = {}
    edges: Counter[tuple[int, int, int, bool]] = Counter()
    family_of = [families.setdefault(tuple(sorted(below)), len(families)) if below else -1 for below in children]
    for i in range(1, len(tree)):
        edges[number[parent[i]], number[i], family_of[parent[i]], bool(cut[i])] += 1
    members = [(child, f, times) for key, f in families.items() for child, times in Counter(key).items()]
    merge, member, edge = (np.asarray(rows, dtype=np.float64).reshape(-1, 3) for rows in (merges, members, [e[:3] for e in edges]))

    def index(values: npt.NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64))

    def real(values: object) -> Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.float32))

    return SharedTreeData(
        roles=torch.from_numpy(features.roles[representative]),
        numbers=torch.from_numpy(features.numbers[representative]),
        level=torch.tensor(level),
        merge_child=index(merge[:, 0]),
        merge_parent=index(merge[:, 1]),
        merge_weight=real(merge[:, 2]),
        family_child=index(member[:, 0]),
        family=index(member[:, 1]),
        family_weight=real(member[:, 2]),
        family_size=real([len(key) for key in families]),
        edge_parent=index(edge[:, 0]),
        edge_child=index(edge[:, 1]),
        edge_family=index(edge[:, 2]),
        cut=real([e[3] for e in edges]),
        count=real(list(edges.values())),
        num_nodes=len(representative),
    )


def shared_logits(model: PaperModel, data: Data) -> Tensor:
    """(E,) logit of a cut for each distinct edge, gold cuts deciding what is merged."""
    x = torch.cat([model.role(data.roles), data.numbers], dim=1)
    r = x.new_zeros(len(x), REGION_WIDTH)
    merge_level = data.level[data.merge_parent]
    place = torch.empty_like(data.level)
    for level in range(int(data.level.max()) + 1):
        v = torch.nonzero(data.level == level)[:, 0]
        place[v] = torch.arange(len(v))
        m = torch.nonzero(merge_level == level)[:, 0]
        merged = x.new_zeros(len(v), REGION_WIDTH)
        if len(m):
            merged = merged.index_add(0, place[data.merge_parent[m]], r[data.merge_child[m]] * data.merge_weight[m, None])
        r = r.index_copy(0, v, model.encoder(x[v], merged))
    total = x.new_zeros(len(data.family_size), REGION_WIDTH).index_add(0, data.family, r[data.family_child] * data.family_weight[:, None])
    child = r[data.edge_child]
    siblings = (total[data.edge_family] - child) / (data.family_size[data.edge_family] - 1).clamp(min=1)[:, None]
    logits: Tensor = model.classifier(x[data.edge_parent], child, siblings)
    return logits


def paper_example(page: AnnotatedPage) -> Example:
    """A page as the paper's model is trained on it: the whole tree, each distinct subtree once."""
    gold = page.gold.partition
    data = shared_tree_data(page.tree, paper_features(page.tree), np.asarray(gold.roots[1:], dtype=np.int64))
    return Example(page, site_group(page), gold, skeleton(page.tree, 1), (data,))
