"""Sentence vectors kept in a file, so that a comparison embeds each text once.

Enters: an encoder (texts in, unit vectors out). Leaves: the same, answering from an SQLite file what it holds. Vectors are
kept and given in half precision, whether they come from the file or not, so that a second run repeats the first.
Safe with several processes. The time that a text took is kept beside its vector and counted as `Spared`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagedigest.evaluation.sharing import Embed, Spared
from region4web.errors import LanguageModelError

__all__ = ["RecordedVectors"]

BUSY_TIMEOUT_S = 120.0
KEYS_A_QUERY = 500


class RecordedVectors:
    """`embed` with a file at `path`. The file belongs to one encoder."""

    def __init__(self, path: str | os.PathLike[str], embed: Embed, spared: Spared) -> None:
        self._path, self._embed, self._spared = Path(path), embed, spared
        try:
            self._db = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB, ms REAL) WITHOUT ROWID")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self._path}: no file of recorded vectors ({error}); remove it or name another") from error

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """(len(texts), width) rows. Raises what the encoder raises, LanguageModelError when the file cannot be read."""
        keys = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        try:
            known = self._read(list(dict.fromkeys(keys)))
            self._spared.ms += sum(ms for _, ms in known.values())
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            if missing:
                started = time.perf_counter()
                vectors = np.asarray(self._embed(list(missing.values())), dtype=np.float16)
                ms = (time.perf_counter() - started) * 1000 / len(missing)
                made = {key: (vector, ms) for key, vector in zip(missing, vectors, strict=True)}
                self._db.executemany(
                    "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", [(key, vector.tobytes(), ms) for key, (vector, ms) in made.items()]
                )
                known.update(made)
        except sqlite3.DatabaseError as error:
            raise LanguageModelError(f"{self._path}: recorded vectors cannot be read or written ({error})") from error
        return np.asarray([known[key][0] for key in keys], dtype=np.float32)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, tuple[npt.NDArray[np.float16], float]]:
        found: dict[bytes, tuple[npt.NDArray[np.float16], float]] = {}
        for start in range(0, len(keys), KEYS_A_QUERY):
            part = keys[start : start + KEYS_A_QUERY]
            marks = ",".join("?" * len(part))
            for key, vector, ms in self._db.execute(f"SELECT key, vector, ms FROM vectors WHERE key IN ({marks})", part):
                found[key] = np.frombuffer(vector, dtype=np.float16), ms
        return found
