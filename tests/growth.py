"""How processor time grows with the size of what is read: tests bound growth, never seconds, which `scripts/bench.py` measures.

Enters: a function from a size to the work to be timed. Leaves: how many times longer the large one takes, over how many
times larger it is: about 1 when linear, their ratio when quadratic.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["growth"]


def growth(work: Callable[[int], Callable[[], object]], small: int, large: int, *, runs: int = 3) -> float:
    """The least of `runs` times counts, since a busy machine only adds."""
    return _least_seconds(work(large), runs) / _least_seconds(work(small), runs) / (large / small)


def _least_seconds(act: Callable[[], object], runs: int) -> float:
    taken = []
    for _ in range(runs):
        start = time.process_time()
        act()
        taken.append(time.process_time() - start)
    return max(min(taken), 1e-4)
