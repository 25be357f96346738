"""Any method at one length: its text cut at the bottom, or grown with lines of the page that it left out.

Enters: a method, a budget. Leaves: the same observations with at most `budget_tokens` and, where the page has more to
show, about as many. Grown means: elements that can be acted on from the top of the page, then the other lines, as many as
fit, under one line that parts them from the method's own text. So a comparison at equal budgets asks what a method shows
first, and never how short it happens to be.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from pagedigest.modules.interactive_only import is_interactive
from pagedigest.modules.truncation import fitting_lines
from pagedigest.observation import Action, Observation, ObservationModule, ObservationSession
from pagedigest.tokens import TokenCounter
from region4web.axtree import AXTree
from region4web.render import node_line

__all__ = ["GROWN_HEADER", "Budgeted"]

GROWN_HEADER = "REST OF THE PAGE, as far as it fits"
_ID = re.compile(r"\[([^\[\]\s]+)\]")


@dataclass(frozen=True)
class Budgeted:
    """Another method at a budget."""

    module: ObservationModule
    budget_tokens: int
    counter: TokenCounter

    def __post_init__(self) -> None:
        if self.budget_tokens < 1:
            raise ValueError(f"budget_tokens must be positive, found {self.budget_tokens}")

    @property
    def name(self) -> str:
        return self.module.name

    def start(self, task: str) -> _BudgetedSession:
        return _BudgetedSession(self.module.start(task), self.budget_tokens, self.counter)


@dataclass(frozen=True)
class _BudgetedSession:
    session: ObservationSession
    budget_tokens: int
    counter: TokenCounter

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        whole = self.session.observe(tree, last_action=last_action)
        if whole.usage.tokens > self.budget_tokens:
            return self._cut(whole)
        return self._grown(whole, tree)

    def _cut(self, whole: Observation) -> Observation:
        text, _ = fitting_lines(whole.text.split("\n"), self.counter, self.budget_tokens)
        left = set(_ID.findall(text))
        usage = replace(whole.usage, tokens=self.counter.count(text), counts={**whole.usage.counts, "truncated": 1})
        return Observation(text, tuple(key for key in whole.shown if key in left), usage, whole.trace)

    def _grown(self, whole: Observation, tree: AXTree) -> Observation:
        lines = self._missing_lines(tree, set(whole.shown), whole.text)
        head = f"{whole.text}\n{GROWN_HEADER}" if whole.text else GROWN_HEADER
        room = self.budget_tokens - self.counter.count(f"{head}\n")
        kept: list[int] = []
        for i, line in lines.items():
            room -= self.counter.count(f"{line}\n")
            if room < 0:
                break
            kept.append(i)
        while kept:
            text = "\n".join([head, *(lines[i] for i in sorted(kept))])
            tokens = self.counter.count(text)
            if tokens <= self.budget_tokens:
                shown = (*whole.shown, *(tree.nodes[i].id for i in sorted(kept) if tree.nodes[i].addressable))
                usage = replace(whole.usage, tokens=tokens, counts={**whole.usage.counts, "grown_lines": len(kept)})
                return Observation(text, shown, usage, whole.trace)
            kept.pop()
        return whole

    @staticmethod
    def _missing_lines(tree: AXTree, shown: Collection[str], text: str) -> dict[int, str]:
        """Lines by node, in the order in which they are added."""
        said = {line.strip() for line in text.split("\n")}
        first: dict[int, str] = {}
        then: dict[int, str] = {}
        for i, node in enumerate(tree.nodes):
            if node.addressable and node.id in shown:
                continue
            line = node_line(replace(node, url=None))
            if node.addressable or (node.name and line not in said):
                (first if is_interactive(node) else then)[i] = line
        return {**first, **then}
