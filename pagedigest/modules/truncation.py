"""Bottom truncation: the first lines of the tree that fit (the baseline of FocusAgent, section 4).

Enters: a tree. Leaves: its text from the top, whole lines, at most `budget_tokens`, the last line saying how many were
left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pagedigest.modules.lines import TreeLines, tree_lines
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree

__all__ = ["Truncation", "fitting_lines"]


def fitting_lines(lines: Sequence[str], counter: TokenCounter, budget_tokens: int) -> tuple[str, int]:
    """The text of the first lines that fit with the note on what is missing, and how many lines those are."""
    text = "\n".join(lines)
    if counter.count(text) <= budget_tokens:
        return text, len(lines)
    kept = used = 0
    for line in lines:
        used += counter.count(line + "\n")
        if used > budget_tokens:
            break
        kept += 1
    while kept:
        text = "\n".join([*lines[:kept], f"... {len(lines) - kept} more lines ..."])
        if counter.count(text) <= budget_tokens:
            return text, kept
        kept -= 1
    return "", 0


@dataclass(frozen=True)
class Truncation:
    """Stateless: the module is its own session."""

    budget_tokens: int
    counter: TokenCounter = field(default_factory=default_counter)
    name = "truncation"

    def __post_init__(self) -> None:
        if self.budget_tokens < 1:
            raise ValueError(f"budget_tokens must be positive, found {self.budget_tokens}")

    def start(self, task: str) -> Truncation:
        return self

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        started = time.perf_counter()
        lines: TreeLines = tree_lines(tree)
        text, kept = fitting_lines(lines.text, self.counter, self.budget_tokens)
        full_tokens = self.counter.count("\n".join(lines.text))
        usage = Usage(self.counter.count(text), full_tokens, ms={"render": (time.perf_counter() - started) * 1000})
        return Observation(text, lines.shown(range(kept)), usage)
