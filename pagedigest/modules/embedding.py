"""Embedding chunk retrieval: chunks of the tree ranked by cosine with the task (FocusAgent, section 4, baseline).

Enters: a tree, a task. Leaves: the best chunks in page order, at most `budget_tokens`. Vectors come from the packaged
MiniLM or from an OpenAI-compatible endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagedigest.modules.chunks import ChunkSession
from pagedigest.tokens import TokenCounter, default_counter
from pagedigest.words import task_text
from region4web.errors import LanguageModelError, MissingExtraError

__all__ = ["Embed", "EmbeddingChunks", "endpoint_embeddings"]

Embed = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Texts in, unit vectors out, one row a text."""


def _packaged_embeddings(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    from region4web.similarity import sentence_embeddings

    return sentence_embeddings(texts)


def endpoint_embeddings(
    model: str, base_url: str | None = None, api_key: str | None = None, *, timeout_s: float = 60.0, batch_size: int = 128
) -> Embed:
    """Vectors from an OpenAI-compatible `/embeddings`. Raises MissingExtraError; a call raises LanguageModelError."""
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError("an embedding endpoint needs the openai client: pip install 'region4web[lm]'") from error
    client = openai.OpenAI(base_url=base_url, api_key=api_key or ("none" if base_url else None), timeout=timeout_s)

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows: list[Sequence[float]] = []
        try:
            for start in range(0, len(texts), batch_size):
                answer = client.embeddings.create(model=model, input=[text or " " for text in texts[start : start + batch_size]])
                rows += [entry.embedding for entry in sorted(answer.data, key=lambda entry: entry.index)]
        except openai.OpenAIError as error:
            raise LanguageModelError(f"embedding endpoint {base_url or 'of OpenAI'}: {error}") from error
        matrix = np.asarray(rows, dtype=np.float32)
        if matrix.ndim != 2 or len(matrix) != len(texts):
            raise LanguageModelError(f"embedding endpoint {base_url or 'of OpenAI'}: {len(texts)} texts, vectors of shape {matrix.shape}")
        return np.asarray(matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9), dtype=np.float32)

    return embed


@dataclass(frozen=True)
class EmbeddingChunks:
    """The method with its settings. `embed` None: the packaged MiniLM, loaded at the first step."""

    budget_tokens: int = 2000
    chunk_tokens: int = 200
    embed: Embed = _packaged_embeddings
    counter: TokenCounter = field(default_factory=default_counter)
    name = "embedding"

    def __post_init__(self) -> None:
        if self.chunk_tokens < 1 or self.budget_tokens < 1:
            raise ValueError(f"chunk_tokens and budget_tokens must be positive, found {self.chunk_tokens} and {self.budget_tokens}")

    def start(self, task: str) -> ChunkSession:
        return ChunkSession(
            task_text(task), self._scores, "embedding", self.counter, min(self.chunk_tokens, self.budget_tokens), self.budget_tokens
        )

    def _scores(self, query: str, chunks: Sequence[str]) -> npt.NDArray[np.floating]:
        vectors = self.embed([query, *chunks])
        return np.asarray(vectors[1:] @ vectors[0], dtype=np.float32)
