"""The whole tree at every step: what an agent without an observation method reads.

Enters: a tree. Leaves: BrowserGym's flattened text of all of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pagedigest.modules.lines import full_tree_observation, tree_lines
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree

__all__ = ["FullTree"]


@dataclass(frozen=True)
class FullTree:
    """Stateless: the module is its own session."""

    counter: TokenCounter = field(default_factory=default_counter)
    name = "full_tree"

    def start(self, task: str) -> FullTree:
        return self

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        started = time.perf_counter()
        observation = full_tree_observation(tree_lines(tree), self.counter)
        usage = Usage(observation.usage.tokens, observation.usage.full_tokens, ms={"render": (time.perf_counter() - started) * 1000})
        return Observation(observation.text, observation.shown, usage)
