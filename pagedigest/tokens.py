"""Token counts of observation text: `o200k_base` where its vocabulary is at hand, else a named upper estimate.

tiktoken downloads a vocabulary at first use. Nothing here downloads: the vocabulary counts as at hand when its file
lies in `TIKTOKEN_CACHE_DIR` (or `DATA_GYM_CACHE_DIR`), or when `PAGEDIGEST_DOWNLOAD_VOCABULARY=1` allows a download.
"""

from __future__ import annotations

import os
import re
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Protocol

__all__ = ["O200kCounter", "TokenCounter", "UpperEstimateCounter", "default_counter"]

_O200K_CACHE_KEY = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""Name under which tiktoken keeps the vocabulary's file."""
_PIECE = re.compile(r"[A-Za-z]+|\d{1,3}|\s+|[^\sA-Za-z0-9]")


class TokenCounter(Protocol):
    """Counts tokens of a text. `name` says by which vocabulary, `exact` whether it is that vocabulary's own count."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool: ...

    def count(self, text: str) -> int: ...


class O200kCounter:
    """Exact counts by `o200k_base`. Raises OSError when the vocabulary cannot be read."""

    name = "o200k_base"
    exact = True

    def __init__(self) -> None:
        import tiktoken

        self._encoding = tiktoken.get_encoding("o200k_base")

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


class UpperEstimateCounter:
    """An estimate that errs on the safe side: it counts more tokens than `o200k_base` on practically every text.

    Words by pieces of four letters, digits by threes, every other character by its UTF-8 bytes less one.
    """

    name = "upper-estimate"
    exact = False

    def count(self, text: str) -> int:
        total = 0
        for match in _PIECE.finditer(text):
            piece = match[0]
            if piece.isascii() and piece[0].isalpha():
                total += (len(piece) + 3) // 4
            elif piece[0].isspace():
                total += len(piece) // 8 + (piece != " ")
            elif piece.isascii():
                total += 1
            else:
                total += max(1, len(piece.encode("utf-8", "surrogatepass")) - 1)
        return total


@lru_cache(maxsize=1)
def default_counter() -> TokenCounter:
    """The exact counter where its vocabulary is at hand, else the upper estimate."""
    folder = (
        os.environ.get("TIKTOKEN_CACHE_DIR")
        or os.environ.get("DATA_GYM_CACHE_DIR")
        or os.path.join(tempfile.gettempdir(), "data-gym-cache")
    )
    if (Path(folder) / _O200K_CACHE_KEY).is_file() or os.environ.get("PAGEDIGEST_DOWNLOAD_VOCABULARY") == "1":
        try:
            return O200kCounter()
        except (OSError, ImportError, ValueError):
            return UpperEstimateCounter()
    return UpperEstimateCounter()
