"""Recorded steps (DESIGN "Files"): JSON lines, plain or gzipped, each a page, a task and the action taken.

Enters: files. Leaves: `RecordedStep`s with their trees, in the order of the files. Trees are read one at a time. A line
that cannot be read is a ValueError that names file and line.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from pagedigest.modules.ash import page_kind
from pagedigest.observation import Action
from region4web.axtree import AXTree
from region4web.errors import SnapshotError
from region4web.snapshot import Snapshot, load_snapshot

__all__ = ["RecordedStep", "count_steps", "read_steps"]


@dataclass(frozen=True)
class RecordedStep:
    """One step. `action` is what was done after seeing `tree`, on `target` (None: the step counts for tokens only).

    `needed` are the ids of the roots of needed regions; `kind` and `capture` are the file's own, '' without one.
    """

    source: str
    episode: str
    step: int
    task: str
    tree: AXTree = field(repr=False)
    action: str | None = None
    target: str | None = None
    url: str = ""
    kind: str = ""
    needed: tuple[str, ...] = ()
    action_error: str = ""
    capture: str = ""

    @property
    def site(self) -> str:
        """Host of the page; a port tells local applications apart."""
        return urlsplit(self.url or self.tree.url).netloc or self.source

    @cached_property
    def page_kind(self) -> str:
        """`results`, `item`, `form` or `other`, by the roles on the page."""
        return page_kind(self.tree)

    def last_action(self) -> Action | None:
        """The action as the next step's `last_action`."""
        return None if self.action is None else Action(self.action, self.target, self.action_error)


def count_steps(paths: Iterable[str | os.PathLike[str]]) -> int:
    """Number of non-empty lines."""
    total = 0
    for path in paths:
        with _opened(Path(path)) as stream:
            total += sum(1 for line in stream if line.strip())
    return total


def read_steps(paths: Iterable[str | os.PathLike[str]]) -> Iterator[RecordedStep]:
    """Every step of the files. Raises ValueError or FileNotFoundError."""
    captures: dict[Path, AXTree] = {}
    for path in map(Path, paths):
        with _opened(path) as stream:
            number = 0
            try:
                for number, line in enumerate(stream, 1):  # noqa: B007
                    if line.strip():
                        yield _step(line, path, captures)
            except (OSError, EOFError, UnicodeDecodeError, SnapshotError, ValueError, KeyError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


def _opened(path: Path) -> TextIO:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8")


def _step(line: str, path: Path, captures: dict[Path, AXTree]) -> RecordedStep:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(data, dict):
        raise ValueError(f"a step is a JSON object, found a {type(data).__name__}")
    task = data.get("task")
    if not isinstance(task, str):
        raise ValueError(f"a step needs a 'task' that is text, found {task!r:.40}")
    url = data.get("url") or ""
    target = data.get("target")
    action = data.get("action")
    return RecordedStep(
        source=str(data.get("source") or path.name),
        episode=str(data.get("episode") or ""),
        step=int(data.get("step") or 0),
        task=task,
        tree=_tree(data, url, path, captures),
        action=None if action is None else str(action),
        target=None if target is None else str(target),
        url=url,
        kind=str(data.get("kind") or ""),
        needed=tuple(map(str, data.get("needed") or ())),
        action_error=str(data.get("action_error") or ""),
        capture=str(data.get("capture") or ""),
    )


def _tree(data: Mapping[str, Any], url: str, path: Path, captures: dict[Path, AXTree]) -> AXTree:
    if isinstance(data.get("observation"), str):
        return AXTree.from_text(data["observation"], url=url)
    if data.get("axtree") is not None:
        nodes = data["axtree"].get("nodes") if isinstance(data["axtree"], dict) else data["axtree"]
        return AXTree.from_snapshot(Snapshot.from_json({"url": url, "nodes": nodes, "boxes": data.get("boxes") or {}}, source="axtree"))
    if isinstance(data.get("capture"), str):
        capture = (path.parent / data["capture"]).resolve()
        if capture not in captures:
            captures.clear()  # neighbouring lines share a page; older ones are not needed again
            captures[capture] = AXTree.from_snapshot(load_snapshot(capture))
        return captures[capture]
    raise ValueError("a step needs 'observation' (flattened text), 'axtree' (CDP nodes) or 'capture' (path of a snapshot)")
