"""`Cached`: an abstractor that remembers what it said of a region, in one SQLite file.

Enters: a partition. Leaves: its abstractions, from the file where a region of the same content was seen before, else
from the abstractor underneath. Content is what the region's elements are, say and hold, not where the page stands, so a
site's header costs nothing on its second page. The file is bounded in size, private to the user, and safe with several
processes and threads; a damaged one is moved aside with a warning.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from region4web.regions import Abstraction, Abstractor, Partition

__all__ = ["CACHE_VARIABLE", "DEFAULT_MAX_BYTES", "Answer", "Cached", "content_keys", "default_cache_path", "remembered"]

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "REGION4WEB_CACHE"
"""Environment variable: the file to use, or `off`."""
DEFAULT_MAX_BYTES = 64 * 2**20
SMALLEST_BYTES = 64 * 2**10
BUSY_TIMEOUT_S = 5.0
TOUCH_AFTER_S = 3600.0
"""A hit renews an entry's time of use only when that is older, so that a warm page writes nothing."""
FORMAT = 1
SCHEMA = (
    "CREATE TABLE entries (key BLOB PRIMARY KEY, purpose TEXT NOT NULL, state TEXT NOT NULL, source TEXT NOT NULL, used REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX entries_used ON entries (used)",
)
KEYS_A_QUERY = 500
MOMENTARY_STATES = frozenset({"focused"})
"""States that say where the user is, not what the region is."""

Result = TypeVar("Result")


@runtime_checkable
class _AbstractsSome(Protocol):
    """An abstractor that can be asked about some regions of a page only."""

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]: ...


class Answer(NamedTuple):
    """The abstractions of a page's regions, in page order, and how many of them came from the cache."""

    abstractions: tuple[Abstraction, ...]
    reused: int


class Cached:
    """`abstractor` with a cache at `path`, of at most `max_bytes` on disk; least recently used entries go first.

    The key holds `identity`, by default the abstractor's own `identity`, `name` or `source`, else its class's name: two
    abstractors that answer differently need different ones. `hits`, `misses` and `unavailable` (regions abstracted
    without the cache because the file was locked or not writable) add up over the pages seen. An abstraction whose
    source is not the abstractor's own (a fallback's) is returned but not remembered. An abstractor with a method
    `abstract_regions(partition, numbers)` is asked about missing regions only.
    """

    def __init__(
        self,
        abstractor: Abstractor,
        path: str | os.PathLike[str] | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        identity: str | None = None,
    ) -> None:
        if max_bytes < SMALLEST_BYTES:
            raise ValueError(f"max_bytes must be at least {SMALLEST_BYTES}, found {max_bytes}")
        self.abstractor = abstractor
        self.path = default_cache_path() if path is None else Path(path)
        self.max_bytes = max_bytes
        own = next((value for name in ("source", "name") if isinstance(value := getattr(abstractor, name, None), str)), None)
        given = identity if identity is not None else getattr(abstractor, "identity", None)
        self.identity = given if isinstance(given, str) else own or type(abstractor).__name__
        self._own_source = own
        self.hits = self.misses = self.unavailable = 0
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened_by = -1
        self._inode = -1

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.answer(partition).abstractions

    def answer(self, partition: Partition) -> Answer:
        """What `abstract` gives, and how much of it was remembered."""
        keys = content_keys(partition, self.identity)
        with self._lock:
            known = self._guarded(lambda db: _look_up(db, keys))
        found: dict[int, Abstraction] = {}
        if known is not None:
            found = {number: known[key] for number, key in enumerate(keys) if key in known}
        missing = [number for number in range(len(keys)) if number not in found]
        fresh = dict(zip(missing, self._asked(partition, missing), strict=True)) if missing else {}
        if known is None:
            self.unavailable += len(keys)
        else:
            self.hits += len(found)
            self.misses += len(missing)
            entries = {keys[n]: a for n, a in fresh.items() if self._own_source is None or a.source == self._own_source}
            if entries:
                with self._lock:
                    self._guarded(lambda db: _remember(db, entries, self.max_bytes))
        return Answer(tuple(found[n] if n in found else fresh[n] for n in range(len(keys))), len(found))

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        with self._lock:
            if self._connection is not None and self._opened_by == os.getpid():
                self._connection.close()
            self._connection = None

    def _asked(self, partition: Partition, numbers: list[int]) -> tuple[Abstraction, ...]:
        if len(numbers) < len(partition) and isinstance(self.abstractor, _AbstractsSome):
            return self.abstractor.abstract_regions(partition, numbers)
        everything = self.abstractor.abstract(partition)
        return tuple(everything[number] for number in numbers)

    def _guarded(self, act: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """`act` on the open file; None when it cannot be used now. A damaged file is moved aside, and `act` tried again."""
        for attempt in range(2):
            try:
                return act(self._open())
            except sqlite3.OperationalError as error:
                self.close()
                logger.warning("abstraction cache %s cannot be used now (%s); going on without it", self.path, error)
                return None
            except sqlite3.DatabaseError as error:
                self.close()
                if attempt:
                    logger.warning("abstraction cache %s cannot be used (%s); going on without it", self.path, error)
                    return None
                self._move_aside(error)
            except OSError as error:
                self.close()
                logger.warning("abstraction cache %s cannot be used (%s); going on without it", self.path, error)
                return None
        return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._opened_by == os.getpid():
            return self._connection
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._inode = self.path.stat().st_ino
        os.chmod(self.path, 0o600)
        db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA journal_size_limit = {self.max_bytes}")
            if _format(db) != FORMAT:
                _write(db, lambda: _create(db))
        except sqlite3.Error:
            db.close()
            raise
        self._connection, self._opened_by = db, os.getpid()
        return db

    def _move_aside(self, error: sqlite3.DatabaseError) -> None:
        """Move a damaged file out of the way, unless another process has done so since it was opened here."""
        try:
            if self.path.stat().st_ino != self._inode:
                return
            aside = self.path.with_name(f"{self.path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
            os.replace(self.path, aside)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        except FileNotFoundError:
            return
        logger.warning("abstraction cache %s was damaged (%s); moved to %s and started anew", self.path, error, aside.name)


def remembered(abstractor: Abstractor) -> Abstractor:
    """`abstractor` with the user's cache, as it is where REGION4WEB_CACHE is `off`."""
    return abstractor if os.environ.get(CACHE_VARIABLE) == "off" else Cached(abstractor)


def default_cache_path() -> Path:
    """The file that REGION4WEB_CACHE names, else `region4web/abstractions.sqlite` under XDG_CACHE_HOME, else under ~/.cache."""
    if (named := os.environ.get(CACHE_VARIABLE, "")) not in ("", "off"):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and os.path.isabs(home) else Path.home() / ".cache") / "region4web" / "abstractions.sqlite"


def content_keys(partition: Partition, identity: str) -> list[bytes]:
    """One key a region, of what its elements are and say, and of `identity`. Ids, boxes and queries of addresses don't count."""
    nodes = partition.tree.nodes
    depth = partition.tree.depth.tolist()
    said = [
        f"{node.role}\x1f{node.name}\x1f{'' if node.value is None else node.value}\x1f{_lasting(node.states)}\x1f{(node.url or '').partition('?')[0]}\x1f"
        for node in nodes
    ]
    keys = []
    for region in partition.regions:
        base = depth[region.root]
        digest = blake2b(f"{FORMAT}\x1f{identity}\x1e".encode(), digest_size=20)
        digest.update("".join(f"{said[i]}{depth[i] - base}\x1e" for i in region.members.tolist()).encode("utf-8", "surrogatepass"))
        keys.append(digest.digest())
    return keys


def _lasting(states: tuple[tuple[str, object], ...]) -> str:
    return ",".join(f"{name}={value}" for name, value in states if name not in MOMENTARY_STATES) if states else ""


def _look_up(db: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, Abstraction]:
    """What is known of `keys`; entries not used for a while are marked as used now."""
    found: dict[bytes, Abstraction] = {}
    stale: list[bytes] = []
    now = time.time()
    distinct = list(dict.fromkeys(keys))
    for start in range(0, len(distinct), KEYS_A_QUERY):
        part = distinct[start : start + KEYS_A_QUERY]
        marks = ",".join("?" * len(part))
        for key, purpose, state, source, used in db.execute(
            f"SELECT key, purpose, state, source, used FROM entries WHERE key IN ({marks})", part
        ):
            found[key] = Abstraction(purpose, state, source)
            if now - used > TOUCH_AFTER_S:
                stale.append(key)
    if stale:
        _write(db, lambda: db.executemany("UPDATE entries SET used = ? WHERE key = ?", [(now, key) for key in stale]))
    return found


def _remember(db: sqlite3.Connection, entries: Mapping[bytes, Abstraction], max_bytes: int) -> None:
    """Store `entries`, then drop the least recently used ones until the file's content fits `max_bytes`."""
    now = time.time()
    rows = [(key, a.purpose, a.state, a.source, now) for key, a in entries.items()]
    _write(db, lambda: db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", rows))
    while _content_bytes(db) > max_bytes:
        count = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
        if not count:
            break
        drop = max(1, count // 4)
        _write(db, lambda: db.execute("DELETE FROM entries WHERE key IN (SELECT key FROM entries ORDER BY used LIMIT ?)", (drop,)))  # noqa: B023
        db.execute("PRAGMA incremental_vacuum").fetchall()


def _content_bytes(db: sqlite3.Connection) -> int:
    pages, free, size = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def _format(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _create(db: sqlite3.Connection) -> None:
    """Make the table anew, unless another process has done so meanwhile."""
    if _format(db) == FORMAT:
        return
    db.execute("DROP TABLE IF EXISTS entries")
    for statement in SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {FORMAT}")


def _write(db: sqlite3.Connection, act: Callable[[], object]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        act()
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
