"""Web$hell as an observation module: a table of contents to start from, everything else on request (section 4.1).

Enters: trees and the agent's actions. Leaves: on a new page its contents, after an action what changed in them, after
an operation its result. Operations are written as actions: `read('p1.s1.t3')`, `read('p1.s1.t3', 2000)`,
`grep('words')`, `grep('words', 'p1.s1')`, `lookup('p1.s1.tab2', 'row', 'column')`, `retrieve('p1.s1')`, and
`execute('p1.s1.a4')`, which tells how to act on that object's controls by their ids.
"""

from __future__ import annotations

import ast
import re
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from pagedigest.modules.webshell.contract import CompiledPage
from pagedigest.modules.webshell.from_axtree import compile_axtree
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree
from region4web.render import render_tree

__all__ = ["WebShell", "WebShellSession"]

_OPERATION = re.compile(r"\b(read|grep|lookup|retrieve|execute)\s*(\([^\n]*\))")
_ID = re.compile(r"\[([^\[\]\s]{1,40})\] \w")


@dataclass(frozen=True)
class WebShell:
    """Web$hell without its search and its own browser: pages come from the agent's environment.

    `kept_states` bounds how many page states stay readable; the oldest goes first, and a request for it says so.
    """

    kept_states: int = 200
    counter: TokenCounter = field(default_factory=default_counter)
    name: str = "webshell"

    def __post_init__(self) -> None:
        if self.kept_states < 1:
            raise ValueError(f"kept_states must be at least 1, found {self.kept_states}")

    def start(self, task: str) -> WebShellSession:
        return WebShellSession(self)


class WebShellSession:
    """One episode: the cache of compiled page states."""

    def __init__(self, module: WebShell) -> None:
        self._module = module
        self._states: OrderedDict[str, CompiledPage] = OrderedDict()
        self._page = 0
        self._state = 0
        self._url = ""
        self._tree: AXTree | None = None

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        started = time.perf_counter()
        operation = _parse_operation(last_action.text) if last_action is not None else None
        counts: dict[str, int] = {}
        new_page = self._page == 0 or _document(tree.url) != _document(self._url)
        changed = new_page or self._tree is None or tree != self._tree
        before = self._current()
        if changed:
            self._page += new_page
            self._state = 1 if new_page else self._state + 1
            address = f"p{self._page}.s{self._state}"
            self._states[address] = compile_axtree(tree, address)
            while len(self._states) > self._module.kept_states:
                self._states.popitem(last=False)
        self._url, self._tree = tree.url, tree
        current = self._current()
        assert current is not None
        if operation is not None:
            counts[f"operation_{operation[0]}"] = 1
            text = self._result(*operation)
            if changed:
                text += f"\n(the page changed meanwhile: {current.address})"
        elif new_page or before is None:
            text = current.contents()
        elif not changed:
            text = f"STATE {current.address} no change"
        else:
            text = _changes(before, current)
        shown = tuple(
            dict.fromkeys(key for key in _ID.findall(text) if key in tree.index_of and tree.nodes[tree.index_of[key]].addressable)
        )
        compiled = time.perf_counter()
        usage = Usage(
            self._module.counter.count(text),
            self._module.counter.count(render_tree(tree)),
            ms={"compile": 1000 * (compiled - started)},
            counts=counts,
        )
        return Observation(text, shown, usage, {"address": current.address})

    def _current(self) -> CompiledPage | None:
        return next(reversed(self._states.values())) if self._states else None

    def _result(self, name: str, arguments: tuple[str | int, ...]) -> str:
        first = str(arguments[0]) if arguments else ""
        try:
            if name == "grep":
                pages = [self._find(str(arguments[1]))] if len(arguments) > 1 else list(self._states.values())
                found = [f"{address} {line}" for page in reversed(pages) for address, line in page.grep(first)][:40]
                return f"grep {first!r}: {len(found)} lines\n" + "\n".join(found) if found else f"grep {first!r}: nothing found"
            page = self._find(first)
            if name == "retrieve":
                return page.contents()
            if name == "lookup":
                row, column = (str(arguments[k]) if len(arguments) > k else "" for k in (1, 2))
                table = next((t for t in page.tables if t.address == first), None)
                if table is None:
                    return f"{first} is no table; tables of {page.address}: {', '.join(t.address for t in page.tables) or 'none'}"
                cells = table.lookup(row, column)[:60]
                return f"lookup {first}: {len(cells)} cells\n" + "\n".join(f"  row {r!r} column {c!r} = {v!r}" for r, c, v in cells)
            if name == "execute":
                if page is not self._current():
                    return (
                        f"{first} belongs to an earlier state; act on the current one, {self._states[next(reversed(self._states))].address}"
                    )
                return page.read(first) + "\nact on these controls by their ids"
            start = int(arguments[1]) if len(arguments) > 1 and str(arguments[1]).isdecimal() else 0
            length = {"length": int(arguments[2])} if len(arguments) > 2 and str(arguments[2]).isdecimal() else {}
            return page.contents() if first == page.address else page.read(first, start, **length)
        except KeyError:
            known = ", ".join(list(self._states)[-5:])
            return f"{name}: no object {first!r}; the latest pages are {known}"

    def _find(self, address: str) -> CompiledPage:
        key = ".".join(address.split(".")[:2])
        if key not in self._states and "." not in address:
            key = next((k for k in reversed(self._states) if k.startswith(f"{address}.")), key)
        return self._states[key]


def _parse_operation(text: str) -> tuple[str, tuple[str | int, ...]] | None:
    match = _OPERATION.search(text)
    if match is None:
        return None
    try:
        arguments = ast.literal_eval(match[2] if match[2] != "()" else "None")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return match[1], (match[2][1:-1].strip().strip("'\""),)
    if arguments is None:
        return match[1], ()
    listed = arguments if isinstance(arguments, tuple) else (arguments,)
    return match[1], tuple(a if isinstance(a, int) else str(a) for a in listed)


def _document(url: str) -> str:
    return url.split("#", 1)[0]


def _changes(before: CompiledPage, after: CompiledPage) -> str:
    """Lines of the contents that went and came; the whole contents when more than half of them did."""
    old = [line.replace(before.address, "@") for line in before.contents().split("\n")]
    new = [line.replace(after.address, "@") for line in after.contents().split("\n")]
    gone, come = set(old) - set(new), set(new) - set(old)
    if len(come) * 2 > len(new):
        return after.contents()
    lines = [f"STATE {after.address} changed from {before.address}"]
    lines.extend(f"- {line.strip()}".replace("@", before.address) for line in old if line in gone)
    lines.extend(f"+ {line.strip()}".replace("@", after.address) for line in new if line in come)
    if len(lines) == 1:
        lines.append("(texts or tables changed, the contents did not: read or grep them)")
    return "\n".join(lines)
