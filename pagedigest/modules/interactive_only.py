"""Interactive elements only: every line that an agent can act on, nothing else (Agent-E's and others' reduction).

Enters: a tree. Leaves: one line for each element with an id whose role or state makes it actionable, without addresses
and indentation, in page order; with a budget cut at the bottom.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from pagedigest.modules.lines import tree_lines
from pagedigest.modules.truncation import fitting_lines
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXNode, AXTree
from region4web.render import node_line

__all__ = ["INTERACTIVE_ROLES", "InteractiveOnly", "is_interactive"]

INTERACTIVE_ROLES = frozenset(
    "link button textbox searchbox combobox listbox option checkbox radio switch slider spinbutton menuitem menuitemcheckbox menuitemradio tab treeitem "
    "DisclosureTriangle gridcell Date DateTime ColorWell popupbutton LabelText".split()
)


@dataclass(frozen=True)
class InteractiveOnly:
    """Stateless: the module is its own session. `budget_tokens` None: all of them."""

    budget_tokens: int | None = None
    counter: TokenCounter = field(default_factory=default_counter)
    name = "interactive_only"

    def start(self, task: str) -> InteractiveOnly:
        return self

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        started = time.perf_counter()
        full_tokens = self.counter.count("\n".join(tree_lines(tree).text))
        nodes = [node for node in tree.nodes if is_interactive(node)]
        lines = [node_line(replace(node, url=None)) for node in nodes]
        if self.budget_tokens is None:
            text, kept = "\n".join(lines), len(lines)
        else:
            text, kept = fitting_lines(lines, self.counter, self.budget_tokens)
        usage = Usage(self.counter.count(text), full_tokens, ms={"render": (time.perf_counter() - started) * 1000})
        return Observation(text, tuple(node.id for node in nodes[:kept]), usage)


def is_interactive(node: AXNode) -> bool:
    """Whether an agent can act on the element."""
    return node.addressable and (node.role in INTERACTIVE_ROLES or node.clickable)
