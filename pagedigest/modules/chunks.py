"""Chunk retrieval: the tree cut into runs of lines, the best ones by a score kept (FocusAgent, section 4, baselines).

Enters: a tree, a task. Leaves: the kept chunks in page order. `bm25` and `embedding` bring the score.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pagedigest.modules.lines import chunks_within, tree_lines
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter
from region4web.axtree import AXTree

__all__ = ["ChunkScorer", "ChunkSession"]

GAP = "..."


class ChunkScorer(Protocol):
    """Scores chunks of text against a query, larger is better."""

    def __call__(self, query: str, chunks: Sequence[str]) -> npt.NDArray[np.floating]: ...


@dataclass(frozen=True)
class ChunkSession:
    """One episode; nothing is remembered from step to step. A gap between kept chunks is a line `...`."""

    task: str
    scorer: ChunkScorer
    stage: str
    counter: TokenCounter
    chunk_tokens: int
    budget_tokens: int

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        started = time.perf_counter()
        lines = tree_lines(tree)
        full_tokens = self.counter.count("\n".join(lines.text))
        runs = chunks_within(lines.text, self.counter, self.chunk_tokens)
        chunks = ["\n".join(lines.text[i] for i in run) for run in runs]
        scored = time.perf_counter()
        scores = self.scorer(self.task, chunks)
        retrieved = time.perf_counter()
        kept: set[int] = set()
        for k in np.argsort(-scores, kind="stable").tolist():
            if self.counter.count(self._text(chunks, kept | {k})) <= self.budget_tokens:
                kept.add(k)
        text = self._text(chunks, kept)
        shown = lines.shown(i for k in sorted(kept) for i in runs[k])
        ms = {self.stage: (retrieved - scored) * 1000, "render": (time.perf_counter() - started - retrieved + scored) * 1000}
        return Observation(text, shown, Usage(self.counter.count(text), full_tokens, ms=ms))

    def _text(self, chunks: Sequence[str], kept: set[int]) -> str:
        parts: list[str] = []
        last = -1
        for k in sorted(kept):
            if k > last + 1:
                parts.append(GAP)
            parts.append(chunks[k])
            last = k
        if kept and last < len(chunks) - 1:
            parts.append(GAP)
        return "\n".join(parts)
