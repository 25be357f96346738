"""A tree as numbered node lines, and what an agent may act on after reading some of them.

Enters: a tree. Leaves: `TreeLines`; ids named in a model's free text, checked against the tree. Shared by the methods
that prune lines or rewrite the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagedigest.observation import Observation, Usage
from pagedigest.tokens import TokenCounter
from region4web.axtree import AXTree
from region4web.render import render_lines

__all__ = ["TreeLines", "checked_ids", "full_tree_observation", "tree_lines"]

_NAMED_ID = re.compile(r"\[([^\[\]\s]{1,40})\]")


@dataclass(frozen=True)
class TreeLines:
    """Line k of `text` shows node k of the tree."""

    tree: AXTree
    text: tuple[str, ...]

    def shown(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Ids printed by these lines, in the order given."""
        nodes = self.tree.nodes
        return tuple(nodes[i].id for i in indices if nodes[i].addressable)


def tree_lines(tree: AXTree) -> TreeLines:
    """One line a node, in BrowserGym's format."""
    return TreeLines(tree, tuple(render_lines(tree)))


def full_tree_observation(lines: TreeLines, counter: TokenCounter, usage: Usage | None = None) -> Observation:
    """The whole tree: what every method falls back to."""
    text = "\n".join(lines.text)
    tokens = counter.count(text)
    base = usage or Usage()
    return Observation(
        text,
        lines.shown(range(len(lines.text))),
        Usage(tokens, tokens, base.auxiliary_tokens, base.ms, base.counts),
    )


def checked_ids(text: str, tree: AXTree) -> tuple[str, tuple[str, ...], int]:
    """A model's text with every bracketed id checked against the page.

    Returns the text, the ids that are addressable elements in order of first mention, and how many mentions named no
    element; those are rewritten as `[not on the page: x]` so that they cannot be acted on. Brackets with other content
    (`[x]`, `[END]`) are such mentions only when they look like ids, that is, hold a digit.
    """
    shown: dict[str, None] = {}
    invented = 0

    def check(match: re.Match[str]) -> str:
        nonlocal invented
        key = match[1]
        index = tree.index_of.get(key)
        if index is not None and tree.nodes[index].addressable:
            shown[key] = None
            return match[0]
        if not re.search(r"\d", key):
            return match[0]
        invented += 1
        return f"[not on the page: {key}]"

    return _NAMED_ID.sub(check, text), tuple(shown), invented


def chunks_within(lines: Sequence[str], counter: TokenCounter, limit_tokens: int) -> list[range]:
    """Runs of consecutive lines of at most `limit_tokens` each; a longer single line makes a run of its own."""
    runs: list[range] = []
    start = used = 0
    for i, line in enumerate(lines):
        cost = counter.count(line + "\n")
        if i > start and used + cost > limit_tokens:
            runs.append(range(start, i))
            start, used = i, 0
        used += cost
    runs.append(range(start, len(lines)))
    return runs
