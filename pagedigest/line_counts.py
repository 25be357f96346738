"""Token counts of texts that change in a few lines from step to step.

Enters: a counter. Leaves: a counter that remembers the count of every line and adds them up. Exact for `o200k_base`, whose
pieces never go beyond a line's end; for another vocabulary the sum may only be larger than the count of the whole.
"""

from __future__ import annotations

from pagedigest.tokens import TokenCounter

__all__ = ["LineCounter"]

REMEMBERED_LINES = 100_000
REMEMBERED_LENGTH = 2_000
"""Longest line, in characters, whose count is remembered."""


class LineCounter:
    """Counts like `counter`, line by line, each different line once."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counts: dict[str, int] = {}
        self._last: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The vocabulary's name."""
        return self._counter.name

    @property
    def exact(self) -> bool:
        """Whether counts are the vocabulary's own."""
        return self._counter.exact

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        *lines, last = text.split("\n")
        counts = self._counts
        total = 0
        for line in lines:
            found = counts.get(line)
            total += self._counted(counts, line, f"{line}\n") if found is None else found
        found = self._last.get(last)
        return total + (self._counted(self._last, last, last) if found is None else found)

    def _counted(self, counts: dict[str, int], line: str, text: str) -> int:
        count = self._counter.count(text)
        if len(line) <= REMEMBERED_LENGTH:
            if len(counts) >= REMEMBERED_LINES:
                counts.clear()
            counts[line] = count
        return count
