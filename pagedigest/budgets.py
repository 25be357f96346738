"""How long a digest may be: a number of tokens, a share of its page, or as long as the open regions are.

Enters: what the whole page's tree takes. Leaves: the limit in tokens for that page, None for no limit.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SMALLEST_BUDGET", "Budget", "PageShare", "page_budget", "view_limit"]

SMALLEST_BUDGET = 120
"""Tokens below which not even the page's first line and what was folded can be said."""


@dataclass(frozen=True)
class PageShare:
    """A share of what the whole page takes, at least `smallest` and at most `largest` tokens."""

    share: float = 0.35
    smallest: int = 800
    largest: int = 2000

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, found {self.share}")
        if not SMALLEST_BUDGET <= self.smallest <= self.largest:
            raise ValueError(f"smallest must lie between {SMALLEST_BUDGET} and largest, found {self.smallest} and {self.largest}")


Budget = int | PageShare | None
"""Tokens, a share of the page, or no limit."""


def page_budget(budget: Budget, full_tokens: int) -> int | None:
    """The limit in tokens for a page whose whole tree takes `full_tokens`."""
    if isinstance(budget, PageShare):
        return max(budget.smallest, min(budget.largest, int(budget.share * full_tokens)))
    return budget


def view_limit(budget: Budget) -> int | None:
    """The limit in tokens for one page of a view, which was asked for: the largest that a digest may have."""
    return budget.largest if isinstance(budget, PageShare) else budget
