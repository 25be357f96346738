"""Annotated pages as training examples of the decomposition, split by site.

Enters: folders of captures and labels. Leaves: `Example`s, a `Split` of them in which no site is on two sides, and
torch-geometric `Data` of each tree. Symbols: N nodes of a page, K of its skeleton.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data
from tqdm import tqdm

from region4web.axtree import AXTree
from region4web.edge_model import TreeBatch
from region4web.features import node_features
from region4web.labels import AnnotatedPage, page_files, read_page
from region4web.regions import Partition
from region4web.skeleton import Skeleton, skeleton
from training.augmentation import Augmentation
from training.folds import deal_folds
from training.grafting import Grafting, donors_of

__all__ = [
    "Example",
    "Split",
    "TreeData",
    "context_example",
    "data_checksum",
    "fold_by_site",
    "grafted_in_folds",
    "read_examples",
    "site_group",
    "split_by_site",
    "tree_batch",
    "tree_data",
    "with_grafts",
]

_SHARED_SUFFIXES = frozenset({"ac", "co", "com", "edu", "gov", "in", "net", "org", "us"})


@dataclass(frozen=True)
class Example:
    """One page: its labelled partition, and what a model reads and should say of it and of its variations."""

    page: AnnotatedPage
    group: str
    gold: Partition
    bones: Skeleton
    data: tuple[Data, ...]
    """The page itself, then its variations."""
    grafts: tuple[Data, ...] = ()
    """The page with regions of other pages."""


@dataclass(frozen=True)
class Split:
    """Examples for training, for choices (epoch, threshold), and for the final figure."""

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    def sizes(self) -> dict[str, int]:
        return {"train": len(self.train), "validation": len(self.validation), "test": len(self.test)}


class TreeData(Data):  # type: ignore[misc]
    """A skeleton with features and cuts; torch-geometric shifts its indices when it batches."""

    def __inc__(self, key: str, value: object, *args: object, **kwargs: object) -> int:
        return int(self.num_nodes) if key in ("parent", "end", "before", "after") else 0


def tree_data(tree: AXTree, bones: Skeleton, cuts: npt.NDArray[np.int64]) -> TreeData:
    """One tree of the context model, with the features of its kept nodes. `cuts` are indices into the whole tree; those outside the skeleton are lost."""
    features = node_features(tree, bones.index)
    return TreeData(
        roles=torch.from_numpy(features.roles),
        numbers=torch.from_numpy(features.numbers),
        parent=torch.from_numpy(bones.parent),
        end=torch.from_numpy(bones.end),
        before=torch.from_numpy(bones.before),
        after=torch.from_numpy(bones.after),
        cut=torch.from_numpy(np.isin(bones.index, cuts).astype(np.float32)),
        num_nodes=len(bones),
    )


def tree_batch(data: Data) -> TreeBatch:
    """A batch of the loader, as the model takes it."""
    return TreeBatch(data.roles, data.numbers, data.parent, data.end, data.before, data.after)


def read_examples(files: Sequence[tuple[Path, Path]], build: Callable[[AnnotatedPage], Example]) -> list[Example]:
    """An example of every labelled page among pairs of capture and label file."""
    pages = (read_page(capture, label) for capture, label in tqdm(files, desc="pages", disable=None))
    return [build(page) for page in pages if page is not None]


def context_example(page: AnnotatedPage, *, variations: int = 0, seed: int = 0) -> Example:
    """A page as the context model is trained on it, with this many variations."""
    rng = random.Random(f"{seed} {page.name}")
    augment = Augmentation()
    gold = page.gold.partition
    cuts = np.asarray(gold.roots[1:], dtype=np.int64)
    bones = skeleton(page.tree)
    data = [tree_data(page.tree, bones, cuts)]
    for _ in range(variations):
        tree, origin = augment(page.tree, gold.roots[1:], rng)
        data.append(tree_data(tree, skeleton(tree), np.flatnonzero(np.isin(origin, cuts))))
    return Example(page, site_group(page), gold, bones, tuple(data))


def with_grafts(examples: Sequence[Example], count: int, *, seed: int = 0, varied: float = 0.6) -> list[Example]:
    """The examples with so many grafted pages each; donors are these examples alone. A share of grafts is varied as well."""
    augment, graft = Augmentation(), Grafting()
    donors = [donor for example in examples for donor in donors_of(example.page.tree, example.gold.roots[1:])]

    def grafted(example: Example) -> Example:
        rng = random.Random(f"grafts {seed} {example.page.name}")
        data = []
        for _ in range(count):
            tree, cuts = graft(example.page.tree, example.gold.roots[1:], donors, rng)
            at = np.asarray(cuts, dtype=np.int64)
            if rng.random() < varied:
                tree, origin = augment(tree, cuts, rng)
                at = np.flatnonzero(np.isin(origin, at))
            data.append(tree_data(tree, skeleton(tree), at))
        return replace(example, grafts=tuple(data))

    return [grafted(example) for example in tqdm(examples, desc="grafts", disable=None)]


def grafted_in_folds(examples: Sequence[Example], folds: Sequence[int], count: int, *, seed: int) -> list[Example]:
    """The examples with grafts whose donors are pages of the same fold: no page lends regions to models that are to judge it."""
    grafted = list(examples)
    for fold in sorted(set(folds)):
        rows = [i for i, k in enumerate(folds) if k == fold]
        for i, example in zip(rows, with_grafts([examples[i] for i in rows], count, seed=seed), strict=True):
            grafted[i] = example
    return grafted


def site_group(page: AnnotatedPage) -> str:
    """What a page is split by: the registered name of its host without its suffix (`bbc` of www.bbc.co.uk).

    Pages of one locally run application stay together (`app-oscar` of `app-oscar_shop__basket`), and so do the pages
    of one template; a page whose address was lost goes by the first word of its own name.
    """
    family, _, rest = page.name.partition("__")
    if family.startswith("app-"):
        return family.split("_")[0]
    if family.startswith("tpl-"):
        return family
    host = page.site
    if host == family or host.endswith(".example"):
        if not re.search(r"[a-z]{3}", rest):
            return page.name
        return re.split(r"[-_.]", rest.removeprefix("sample_"))[0].lower()
    parts = host.split(".")
    while len(parts) > 2 and len(parts[-1]) <= 2 and parts[-2] in _SHARED_SUFFIXES:
        parts = parts[:-1]
    return parts[-2] if len(parts) > 1 else parts[0]


def fold_by_site(examples: Sequence[Example], folds: int, *, seed: int) -> list[int]:
    """A fold of each example, whole groups together: large groups first, each to the fold with the fewest pages.

    Raises ValueError when there are fewer groups than folds.
    """
    groups = [example.group for example in examples]
    sites = len(set(groups))
    if not 2 <= folds <= sites:
        raise ValueError(f"{sites} sites make 2 to {sites} folds, found {folds}")
    return deal_folds(groups, folds, seed=seed)


def split_by_site(examples: Sequence[Example], *, seed: int, validation: float = 0.1, test: float = 0.15) -> Split:
    """Whole groups to each side, in an order drawn by `seed`, until a side holds its share of the pages."""
    if not 0 <= validation < 1 or not 0 <= test < 1 or validation + test >= 1:
        raise ValueError(f"validation and test are shares of the pages that leave some for training, found {validation} and {test}")
    groups: dict[str, list[Example]] = {}
    for example in examples:
        groups.setdefault(example.group, []).append(example)
    names = sorted(groups)
    random.Random(seed).shuffle(names)
    sides: dict[str, list[Example]] = {"test": [], "validation": [], "train": []}
    room = {"test": test * len(examples), "validation": validation * len(examples), "train": float(len(examples))}
    for name in names:
        side = next(side for side in sides if len(sides[side]) + len(groups[name]) <= room[side])
        sides[side] += groups[name]
    return Split(tuple(sides["train"]), tuple(sides["validation"]), tuple(sides["test"]))


def data_checksum(captures: str | os.PathLike[str], labels: str | os.PathLike[str]) -> str:
    """SHA-256 over names and contents of all capture and label files."""
    digest = hashlib.sha256()
    for pair in page_files(captures, labels):
        for path in pair:
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
