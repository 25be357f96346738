"""Tasks over the local test sites: what to do, how to check it, and a reference solution.

Enters: JSON lines (data/schemas/task.schema.json). Leaves: `Task`s; whether a final state passes a task's checks; the node that
a solution step means on a page. Checks read the site's database or the final page, never an observation.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from region4web.axtree import AXTree

__all__ = ["Check", "Element", "FinalState", "SolutionStep", "Task", "failed_checks", "find_element", "load_tasks"]

ROW_ROLES = frozenset({"row", "listitem", "article", "LayoutTableRow", "option", "comment"})
_ACTS = ("click", "fill", "select", "press", "answer", "infeasible", "goto", "back")


@dataclass(frozen=True)
class Element:
    """An element of a page by what it says, independent of ids.

    `row`: a text that the row, list item or article around it holds. `after`: a name that occurs before it in page
    order. `nth` picks among several, 0 the first, -1 the last.
    """

    role: str
    name: str = ""
    row: str = ""
    after: str = ""
    nth: int = 0

    def __str__(self) -> str:
        where = (f" in the row of {self.row!r}" if self.row else "") + (f" after {self.after!r}" if self.after else "")
        return f"{self.role} {self.name!r}{where}"


@dataclass(frozen=True)
class SolutionStep:
    """One step of a reference solution. `element` is acted on; for an answer it is the evidence that has to be read."""

    act: str
    element: Element | None = None
    text: str = ""


@dataclass(frozen=True)
class Check:
    """One condition on the final state; the field that is set says which (see `failed_checks`)."""

    sql: str = ""
    equals: tuple[tuple[Any, ...], ...] = ()
    url: str = ""
    page: str = ""
    answer_all: tuple[str, ...] = ()
    answer_none: tuple[str, ...] = ()
    infeasible: bool = False


@dataclass(frozen=True)
class Task:
    """One task. `user` is who is logged in when it starts, '' for a visitor. `note` says which elements matter; `answer_format` what form a
    benchmark wants its answer in, for the actor only."""

    id: str
    site: str
    start: str
    intent: str
    kind: str
    checks: tuple[Check, ...]
    solution: tuple[SolutionStep, ...]
    user: str = ""
    difficulty: str = "medium"
    note: str = ""
    answer_format: str = ""


@dataclass(frozen=True)
class FinalState:
    """How an episode ended: what a checker may look at."""

    url: str
    page_text: str
    answer: str | None = None
    infeasible: bool = False
    database: Path | None = None


def load_tasks(paths: Iterable[str | Path]) -> list[Task]:
    """Read task files in order. Raises ValueError that names file, line and what is missing."""
    tasks: list[Task] = []
    seen: set[str] = set()
    for path in map(Path, paths):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                task = _task(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}:{number}: no task: {type(error).__name__} {error}") from error
            if task.id in seen:
                raise ValueError(f"{path}:{number}: the task id {task.id!r} occurs twice")
            seen.add(task.id)
            tasks.append(task)
    return tasks


def find_element(tree: AXTree, element: Element) -> int | None:
    """Index of the node that a description means, None when the page has none. Names compare without case; a name that
    matches whole goes before one that only contains it."""
    wanted = _plain(element.name)
    start = 0
    if element.after:
        marks = [i for i, node in enumerate(tree.nodes) if _plain(element.after) in _plain(node.name)]
        if not marks:
            return None
        start = marks[0] + 1
    whole: list[int] = []
    partly: list[int] = []
    for i in range(start, len(tree)):
        node = tree.nodes[i]
        if element.role != "*" and node.role != element.role:
            continue
        name = _plain(node.name)
        if name == wanted or not wanted:
            whole.append(i)
        elif wanted in name:
            partly.append(i)
    candidates = [i for i in (whole or partly) if not element.row or _row_holds(tree, i, _plain(element.row))]
    if not candidates and element.row:
        candidates = [i for i in partly if _row_holds(tree, i, _plain(element.row))]
    try:
        return candidates[element.nth]
    except IndexError:
        return None


def failed_checks(task: Task, final: FinalState) -> list[str]:
    """What of the task's checks does not hold, [] when the task is done."""
    return [reason for check in task.checks if (reason := _failure(check, final))]


def _failure(check: Check, final: FinalState) -> str:
    if check.infeasible:
        return "" if final.infeasible else "the task cannot be done and that was not reported"
    if check.sql:
        if final.database is None:
            return "the site has no database to check"
        uri = f"file:{final.database}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=20)) as connection:
            rows = [tuple(row) for row in connection.execute(check.sql).fetchall()]
        return "" if rows == [tuple(row) for row in check.equals] else f"{check.sql} gave {rows!r:.120}, not {list(check.equals)!r:.120}"
    if check.url and not re.search(check.url, final.url):
        return f"the final address {final.url} does not match {check.url}"
    if check.page and _plain(check.page) not in _plain(final.page_text):
        return f"the final page does not say {check.page!r}"
    if check.answer_all or check.answer_none:
        if final.answer is None:
            return "no answer was given"
        said = _plain(final.answer)
        missing = [part for part in check.answer_all if not _says(said, _plain(part))]
        if missing:
            return f"the answer lacks {missing}"
        wrong = [part for part in check.answer_none if _says(said, _plain(part))]
        if wrong:
            return f"the answer says {wrong}"
    return ""


def _says(answer: str, part: str) -> bool:
    """Whether a part stands in an answer, not as a piece of a longer number or word."""
    return re.search(rf"(?<![\w.,]){re.escape(part)}(?![\w]|[.,]\d)", answer) is not None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _row_holds(tree: AXTree, i: int, text: str) -> bool:
    for above in (i, *tree.ancestors(i)):
        if tree.nodes[above].role in ROW_ROLES:
            return any(text in _plain(tree.nodes[j].name) for j in tree.subtree(above))
    return False


def _task(data: dict[str, Any]) -> Task:
    checks = tuple(_check(c) for c in data["checks"])
    solution = tuple(_step(s) for s in data["solution"])
    if not checks or not solution:
        raise ValueError("a task needs checks and a solution")
    texts = {key: str(data[key]) for key in ("id", "site", "start", "intent", "kind")}
    return Task(
        **texts,
        checks=checks,
        solution=solution,
        user=data.get("user", ""),
        difficulty=data.get("difficulty", "medium"),
        note=data.get("note", ""),
    )


def _check(data: dict[str, Any]) -> Check:
    unknown = set(data) - {"sql", "equals", "url", "page", "answer_all", "answer_none", "infeasible"}
    if unknown or not data:
        raise ValueError(f"a check has no field {', '.join(sorted(unknown)) or '(empty)'}")
    return Check(
        sql=data.get("sql", ""),
        equals=tuple(tuple(row) for row in data.get("equals", ())),
        url=data.get("url", ""),
        page=data.get("page", ""),
        answer_all=tuple(data.get("answer_all", ())),
        answer_none=tuple(data.get("answer_none", ())),
        infeasible=bool(data.get("infeasible", False)),
    )


def _step(data: dict[str, Any]) -> SolutionStep:
    acts = [act for act in _ACTS if act in data]
    if len(acts) != 1:
        raise ValueError(f"a solution step has one of {', '.join(_ACTS)}, found {sorted(data)}")
    act = acts[0]
    if act in ("answer", "infeasible", "goto"):
        evidence = data.get("evidence")
        return SolutionStep(act, Element(**evidence) if evidence else None, str(data[act]))
    if act == "back":
        return SolutionStep(act)
    return SolutionStep(act, Element(**data[act]), str(data.get("text", data.get("option", data.get("key", "")))))
