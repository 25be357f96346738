"""Web$hell as an observation module: a table of contents to start from, everything else on request (section 4.1).

Enters: trees and the agent's actions. Leaves: on a new page its contents, after an action what changed in them, after
an operation its result. Operations are written as actions: `read('p1.s1.t3')`, `read('p1.s1.t3', 2000)`,
`grep('words')`, `grep('words', 'p1.s1')`, `lookup('p1.s1.tab2', 'row', 'column')`, `retrieve('p1.s1')`, and
`execute('p1.s1.a4')`, which tells how to act on that object's controls by their ids. Pages live in PageDigest's page store,
under the same addresses (page, step); an earlier state is compiled again from its stored text when it is asked for.
"""

from __future__ import annotations

import ast
import re
import time
from dataclasses import dataclass, field

from pagedigest.modules.webshell.contract import CompiledPage
from pagedigest.modules.webshell.from_axtree import compile_axtree
from pagedigest.observation import Action, Observation, Usage
from pagedigest.store import PageStore, StoredRegion, StoredState
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree
from region4web.render import render_tree

__all__ = ["WebShell", "WebShellSession"]

KEPT_STATES = 200
"""States that an episode keeps where it is given no store."""
COMPILED_STATES = 8
"""Earlier states kept compiled; others are compiled again from the store."""
GREP_LINES = 40
WHOLE_PAGE = "The whole page"
_OPERATION = re.compile(r"\b(read|grep|lookup|retrieve|execute)\s*(\([^\n]*\))")
_ID = re.compile(r"\[([^\[\]\s]{1,40})\] \w")


@dataclass(frozen=True)
class WebShell:
    """Web$hell without its search and its own browser: pages come from the agent's environment.

    `store` bounds how many page states stay readable (the oldest goes first, and a request for it says so); it belongs to
    one episode. Without one each episode has its own, in memory.
    """

    store: PageStore | None = None
    counter: TokenCounter = field(default_factory=default_counter)
    name: str = "webshell"

    def start(self, task: str) -> WebShellSession:
        return WebShellSession(self)


class WebShellSession:
    """One episode: its page store, and the page it is on."""

    def __init__(self, module: WebShell) -> None:
        self._module = module
        self._store = module.store if module.store is not None else PageStore(max_states=KEPT_STATES)
        self._current: CompiledPage | None = None
        self._earlier: dict[str, CompiledPage] = {}
        self._tree: AXTree | None = None
        self._page = self._step = 0

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        started = time.perf_counter()
        self._step += 1
        operation = _parse_operation(last_action.text) if last_action is not None else None
        counts: dict[str, int] = {}
        before = self._current
        new_page = self._tree is None or _document(tree.url) != _document(self._tree.url)
        changed = new_page or tree != self._tree
        if changed or before is None:
            self._page += new_page
            current = compile_axtree(tree, f"p{self._page}.s{self._step}")
            self._current, self._tree = current, tree
        else:
            current = before
        if operation is not None:
            counts[f"operation_{operation[0]}"] = 1
            text = self._result(current, *operation)
            if changed:
                text += f"\n(the page changed meanwhile: {current.address})"
        elif new_page or before is None:
            text = current.contents()
        elif not changed:
            text = f"STATE {current.address} no change"
        else:
            text = _changes(before, current)
        whole = render_tree(tree)
        if changed:
            self._store.add(StoredState(self._page, self._step, tree.url, tree.title, text, (StoredRegion(0, WHOLE_PAGE, whole),)))
        shown = tuple(
            dict.fromkeys(key for key in _ID.findall(text) if key in tree.index_of and tree.nodes[tree.index_of[key]].addressable)
        )
        compiled = time.perf_counter()
        usage = Usage(
            self._module.counter.count(text), self._module.counter.count(whole), ms={"compile": 1000 * (compiled - started)}, counts=counts
        )
        return Observation(text, shown, usage, {"address": current.address})

    def _result(self, current: CompiledPage, name: str, arguments: tuple[str | int, ...]) -> str:
        first = str(arguments[0]) if arguments else ""
        try:
            if name == "grep":
                found = self._grep(first, str(arguments[1]) if len(arguments) > 1 else "")
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
                if page is not current:
                    return f"{first} belongs to an earlier state; act on the current one, {current.address}"
                return page.read(first) + "\nact on these controls by their ids"
            start = int(arguments[1]) if len(arguments) > 1 and str(arguments[1]).isdecimal() else 0
            length = {"length": int(arguments[2])} if len(arguments) > 2 and str(arguments[2]).isdecimal() else {}
            return page.contents() if first == page.address else page.read(first, start, **length)
        except KeyError:
            return f"{name}: no object {first!r}; the latest pages are {', '.join(self._addresses()[-5:])}"

    def _grep(self, pattern: str, address: str) -> list[str]:
        """Lines of one page, or of all that are kept, newest first."""
        pages = [self._find(address)] if address else [self._find(known) for known in reversed(self._addresses())]
        return [f"{where} {line}" for page in pages for where, line in page.grep(pattern)][:GREP_LINES]

    def _addresses(self) -> list[str]:
        """States that can be asked for, oldest first. The current one is stored only after its text is written."""
        kept = [address for address in self._store.addresses() if self._current is None or address != self._current.address]
        return [*kept, self._current.address] if self._current is not None else kept

    def _find(self, address: str) -> CompiledPage:
        """The page state that an object's address starts with; `p2` is the latest of the page. Raises KeyError."""
        key = ".".join(address.split(".")[:2])
        if self._current is not None and key in (self._current.address, self._current.address.split(".")[0]):
            return self._current
        try:
            state = self._store.state(key)
        except ValueError as error:
            raise KeyError(address) from error
        if state.address not in self._earlier:
            if len(self._earlier) >= COMPILED_STATES:
                del self._earlier[next(iter(self._earlier))]
            tree = AXTree.from_text("\n".join(region.text for region in state.regions), url=state.url, title=state.title)
            self._earlier[state.address] = compile_axtree(tree, state.address)
        return self._earlier[state.address]


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
