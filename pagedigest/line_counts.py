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
        counts = self._counts
        total = 0
        for line in text.split("\n"):
            found = counts.get(line)
            total += self._counted(line) if found is None else found
        # Every line was counted with its newline; the last has none.
        last = text[text.rfind("\n") + 1 :]
        return total - self._counter.count(f"{last}\n") + self._counter.count(last)

    def _counted(self, line: str) -> int:
        count = self._counter.count(f"{line}\n")
        if len(line) <= REMEMBERED_LENGTH:
            if len(self._counts) >= REMEMBERED_LINES:
                self._counts.clear()
            self._counts[line] = count
        return count
