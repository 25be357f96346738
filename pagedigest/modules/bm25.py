"""BM25 chunk retrieval: chunks of the tree ranked by the words of the task (FocusAgent, section 4, baseline).

Enters: a tree, a task. Leaves: the best chunks in page order, at most `budget_tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagedigest.modules.chunks import ChunkSession
from pagedigest.tokens import TokenCounter, default_counter
from pagedigest.words import split_words, stem, task_text

__all__ = ["BM25Chunks", "bm25_scores"]


def bm25_scores(query: str, chunks: Sequence[str]) -> npt.NDArray[np.floating]:
    """(len(chunks),) BM25 (Lucene's variant) of stemmed words."""
    import bm25s

    documents = [[stem(word) for word in split_words(chunk)] or [""] for chunk in chunks]
    known = {word for document in documents for word in document}
    wanted = [word for word in dict.fromkeys(stem(word) for word in split_words(query)) if word in known]
    if not wanted:
        return np.zeros(len(chunks), dtype=np.float32)
    retriever = bm25s.BM25()
    retriever.index(documents, show_progress=False)
    return np.asarray(retriever.get_scores(wanted), dtype=np.float32)


@dataclass(frozen=True)
class BM25Chunks:
    """The method with its settings."""

    budget_tokens: int = 2000
    chunk_tokens: int = 200
    counter: TokenCounter = field(default_factory=default_counter)
    name = "bm25"

    def __post_init__(self) -> None:
        if not self.chunk_tokens >= 1 or not self.budget_tokens >= 1:
            raise ValueError(f"chunk_tokens and budget_tokens must be positive, found {self.chunk_tokens} and {self.budget_tokens}")

    def start(self, task: str) -> ChunkSession:
        return ChunkSession(
            task_text(task), bm25_scores, "bm25", self.counter, min(self.chunk_tokens, self.budget_tokens), self.budget_tokens
        )
