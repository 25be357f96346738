"""Groups of examples dealt into folds of about equal size, a group never on two sides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

__all__ = ["deal_folds"]


def deal_folds(groups: Sequence[str], folds: int, *, seed: int | None = None) -> list[int]:
    """Fold of each example, by its group: large groups first, each to the fold with the fewest examples.

    Groups of one size go by name, or in an order drawn by `seed`.
    """
    sizes = Counter(groups)
    names = sorted(sizes)
    if seed is not None:
        random.Random(seed).shuffle(names)
    load = [0] * folds
    fold_of: dict[str, int] = {}
    for name in sorted(names, key=lambda name: -sizes[name]):
        fold_of[name] = min(range(folds), key=lambda fold: load[fold])
        load[fold_of[name]] += sizes[name]
    return [fold_of[group] for group in groups]
