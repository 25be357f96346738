"""An episode's memory: every state of every page, readable under a short address.

Enters: the regions' full texts at each step. Leaves: text by address (`p2` the page's latest state, `p2.s5` its state at
step 5, `p2.s5.R3` one region), what a search finds, a JSON lines export. SQLite, in memory or in a file; equal region
texts are kept once; the oldest states go when a limit is reached, and reading one that went says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from region4web.render import plain_text

__all__ = ["Found", "PageStore", "StoredRegion", "StoredState"]

_ADDRESS = re.compile(r"p(\d{1,9})(?:\.s(\d{1,9})(?:\.R(\d{1,9}))?)?")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS states (
    page INTEGER, step INTEGER, url TEXT, title TEXT, observation TEXT, bytes INTEGER, PRIMARY KEY (page, step));
CREATE TABLE IF NOT EXISTS bodies (digest TEXT PRIMARY KEY, body TEXT, bytes INTEGER, users INTEGER);
CREATE TABLE IF NOT EXISTS regions (
    page INTEGER, step INTEGER, number INTEGER, purpose TEXT, digest TEXT, PRIMARY KEY (page, step, number));
"""


@dataclass(frozen=True)
class StoredRegion:
    """A region's number, purpose and full text."""

    number: int
    purpose: str
    text: str


@dataclass(frozen=True)
class StoredState:
    """One page at one step. `observation` is what the agent was given to read."""

    page: int
    step: int
    url: str
    title: str
    observation: str
    regions: tuple[StoredRegion, ...]

    @property
    def address(self) -> str:
        """`p2.s5`."""
        return f"p{self.page}.s{self.step}"


@dataclass(frozen=True)
class Found:
    """A line that a search found, and the address of the newest region that holds it."""

    address: str
    line: str


class PageStore:
    """States by address. `max_states` and `max_bytes` (of text) bound it; the newest state always stays."""

    def __init__(self, path: str | os.PathLike[str] = ":memory:", *, max_states: int = 500, max_bytes: int = 64 * 2**20) -> None:
        if max_states < 1 or max_bytes < 1:
            raise ValueError(f"a store keeps at least one state and one byte, found max_states={max_states}, max_bytes={max_bytes}")
        self.max_states, self.max_bytes, self._name = max_states, max_bytes, os.fspath(path)
        if os.fspath(path) != ":memory:":
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # pages may hold what is nobody else's business
        self._db = sqlite3.connect(os.fspath(path), isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(_SCHEMA)
        self._db.create_function("holds", 2, lambda body, needle: needle in body.casefold(), deterministic=True)

    def __enter__(self) -> PageStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Number of states kept."""
        return int(self._db.execute("SELECT COUNT(*) FROM states").fetchone()[0])

    @property
    def bytes(self) -> int:
        """Size of the kept texts, equal ones counted once."""
        row = self._db.execute("SELECT (SELECT TOTAL(bytes) FROM bodies) + (SELECT TOTAL(bytes) FROM states)").fetchone()
        return int(row[0])

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def add(self, state: StoredState) -> str:
        """Keep a state; one of the same page and step is replaced. Returns its address. Raises OSError when it cannot be
        written: what was kept before stays."""
        try:
            self._add(state)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._name}: the page store cannot be written ({error}); what it held stays") from error
        return state.address

    def _add(self, state: StoredState) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._drop(state.page, state.step)
            read = _sound(state.observation)
            self._db.execute(
                "INSERT INTO states VALUES (?, ?, ?, ?, ?, ?)",
                (state.page, state.step, _sound(state.url), _sound(state.title), read, len(read.encode())),
            )
            for region in state.regions:
                body = _sound(region.text)
                raw = body.encode()
                digest = hashlib.blake2b(raw, digest_size=16).hexdigest()
                self._db.execute(
                    "INSERT INTO bodies VALUES (?, ?, ?, 1) ON CONFLICT (digest) DO UPDATE SET users = users + 1", (digest, body, len(raw))
                )
                self._db.execute(
                    "INSERT INTO regions VALUES (?, ?, ?, ?, ?)", (state.page, state.step, region.number, _sound(region.purpose), digest)
                )
            self._shrink()
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise

    def addresses(self) -> tuple[str, ...]:
        """Addresses of the states kept, oldest first."""
        return tuple(f"p{page}.s{step}" for page, step in self._db.execute("SELECT page, step FROM states ORDER BY step, page"))

    def state(self, address: str) -> StoredState:
        """The state at `p2` (the latest of the page) or `p2.s5`. Raises ValueError that names what is kept."""
        page, step, _ = _parse(address)
        if step is None:
            row = self._db.execute(
                "SELECT page, step, url, title, observation FROM states WHERE page = ? ORDER BY step DESC", (page,)
            ).fetchone()
        else:
            row = self._db.execute(
                "SELECT page, step, url, title, observation FROM states WHERE page = ? AND step = ?", (page, step)
            ).fetchone()
        if row is None:
            kept = self.addresses()
            span = f"kept are {kept[0]} to {kept[-1]}" if kept else "nothing is kept yet"
            raise ValueError(f"no state {address}: {span} (at most {self.max_states} states, {self.max_bytes} bytes)")
        regions = self._db.execute(
            "SELECT number, purpose, body FROM regions JOIN bodies USING (digest) WHERE page = ? AND step = ? ORDER BY number", row[:2]
        )
        return StoredState(row[0], row[1], row[2], row[3], row[4], tuple(StoredRegion(*region) for region in regions))

    def read(self, address: str, *, start: int = 0, limit: int | None = None) -> str:
        """Full text at an address, or `limit` characters of it from `start`. Raises ValueError when nothing is there."""
        number = _parse(address)[2]
        state = self.state(address.rsplit(".R", 1)[0])
        if number is None:
            head = f"{state.address} {state.title[:120]!r} {plain_text(state.url)[:200]}"
            text = "\n".join([head, *(_region_text(region) for region in state.regions)])
        else:
            found = [region for region in state.regions if region.number == number]
            if not found:
                raise ValueError(f"no region R{number} in {state.address}: it has R{state.regions[0].number} to R{state.regions[-1].number}"
                                 if state.regions else f"no region R{number} in {state.address}: it has no regions")  # fmt: skip
            text = _region_text(found[0])
        return text[start:] if limit is None else text[start : start + limit]

    def search(self, text: str, *, limit: int = 20) -> tuple[Found, ...]:
        """Lines that hold `text`, whatever the case, newest state first; a line that several states share comes once."""
        needle = text.casefold().strip()
        if not needle:
            raise ValueError("search needs a text to look for")
        rows = self._db.execute(
            "SELECT page, step, number, body FROM regions JOIN bodies USING (digest) WHERE holds(body, ?) ORDER BY step DESC, page DESC, number",
            (needle,),
        )
        found: dict[str, Found] = {}
        for page, step, number, body in rows:
            for line in body.split("\n"):
                if needle in line.casefold():
                    line = line.strip()
                    found.setdefault(line, Found(f"p{page}.s{step}.R{number}", line))
                    if len(found) == limit:
                        return tuple(found.values())
        return tuple(found.values())

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write every state as one JSON line, oldest first. Returns the number of states."""
        addresses = self.addresses()
        with Path(path).open("w", encoding="utf-8") as file:
            for address in addresses:
                state = self.state(address)
                record = {
                    "address": address, "page": state.page, "step": state.step, "url": state.url, "title": state.title, "observation": state.observation,
                    "regions": [{"id": f"R{region.number}", "purpose": region.purpose, "text": region.text} for region in state.regions],
                }  # fmt: skip
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return len(addresses)

    def _shrink(self) -> None:
        while (count := len(self)) > 1 and (count > self.max_states or self.bytes > self.max_bytes):
            self._drop(*self._db.execute("SELECT page, step FROM states ORDER BY step, page LIMIT 1").fetchone())

    def _drop(self, page: int, step: int) -> None:
        self._db.execute(
            "UPDATE bodies SET users = users - (SELECT COUNT(*) FROM regions r WHERE r.digest = bodies.digest AND r.page = ? AND r.step = ?) "
            "WHERE digest IN (SELECT digest FROM regions WHERE page = ? AND step = ?)",
            (page, step, page, step),
        )
        self._db.execute("DELETE FROM regions WHERE page = ? AND step = ?", (page, step))
        self._db.execute("DELETE FROM bodies WHERE users <= 0")
        self._db.execute("DELETE FROM states WHERE page = ? AND step = ?", (page, step))


def _parse(address: str) -> tuple[int, int | None, int | None]:
    match = _ADDRESS.fullmatch(address.strip())
    if match is None:
        raise ValueError(f"{address!r:.60} is no address: give a page (p2), a state (p2.s5) or a region (p2.s5.R3)")
    page, step, number = match.groups()
    return int(page), None if step is None else int(step), None if number is None else int(number)


def _region_text(region: StoredRegion) -> str:
    head = f"R{region.number} | {plain_text(region.purpose)}" if region.purpose else f"R{region.number}"
    return f"{head}\n{region.text}" if region.text else head


def _sound(text: str) -> str:
    """Lone surrogates of page text cannot be stored: written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
