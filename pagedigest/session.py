"""PageDigest: what an agent reads at each step of an episode (METHOD "PageDigest", DESIGN "Page life").

Enters: a task, then one tree a step with the action before it. Leaves: an `Observation` a step. Entering a page: it is
cut into regions, described, and the regions that the task needs are shown. Within the page: the tree is compared with
the tree at entry; regions and purposes stay, under a budget the lines shown follow the actions. All state of an episode lives in its `DigestSession`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from pagedigest.budgets import SMALLEST_BUDGET, Budget, page_budget, view_limit
from pagedigest.layouts import AppendLayout, InPlaceLayout, Layout, PageText
from pagedigest.line_counts import LineCounter
from pagedigest.observation import Action, Observation, Usage
from pagedigest.page_identity import PageEvent, PageEventKind, identify, page_address, unready_reason
from pagedigest.page_state import OpenPage, full_tree_tokens
from pagedigest.selection import FollowingSelector, Page, Selector
from pagedigest.store import PageStore
from pagedigest.stored_states import stored_state
from pagedigest.tokens import TokenCounter, default_counter
from pagedigest.view_text import view_text
from pagedigest.views import ViewCommand, parse_command
from region4web.abstraction_cache import Cached
from region4web.axtree import AXTree
from region4web.regions import Abstraction, Abstractor, Partition, RegionMap, Segmenter

__all__ = ["DigestSession", "PageDigest"]

REMEMBERED_PAGES = 8
"""Pages an episode can come back to (another tab) without entering them anew."""

LayoutName = Literal["in_place", "append"]


class PageDigest:
    """The method with its settings. `budget_tokens`: a number, a `PageShare`, None for no limit; `counter` None: the default one.

    `layout`: `in_place` writes regions as they are now, `append` keeps the first text and adds what changed. `store`
    keeps every state readable; it belongs to one episode.
    """

    name = "pagedigest"

    def __init__(self, segmenter: Segmenter, abstractor: Abstractor, selector: Selector, *, budget_tokens: Budget = None,
                 layout: LayoutName = "in_place", counter: TokenCounter | None = None, store: PageStore | None = None) -> None:  # fmt: skip
        if isinstance(budget_tokens, int) and budget_tokens < SMALLEST_BUDGET:
            raise ValueError(f"budget_tokens must be at least {SMALLEST_BUDGET}, found {budget_tokens}")
        if layout not in ("in_place", "append"):
            raise ValueError(f"layout must be 'in_place' or 'append', found {layout!r}")
        self.segmenter, self.abstractor, self.selector = segmenter, abstractor, selector
        self.budget_tokens, self.layout, self.store = budget_tokens, layout, store
        counted = counter if counter is not None else default_counter()
        self.counter = counted if isinstance(counted, LineCounter) else LineCounter(counted)

    def start(self, task: str) -> DigestSession:
        """Open an episode."""
        return DigestSession(self, task)


class DigestSession:
    """One episode."""

    def __init__(self, method: PageDigest, task: str) -> None:
        self.method, self.task = method, task
        kind = InPlaceLayout if method.layout == "in_place" else AppendLayout
        self._layout: Layout = kind(method.counter, task)
        self._actions: list[Action] = []
        self._pages: list[OpenPage] = []  # most recent last
        self._opened = 0
        self._step = 0
        self._ms: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._auxiliary: Mapping[str, tuple[int, int]] = {}

    @property
    def step(self) -> int:
        """Number of trees observed."""
        return self._step

    @property
    def page(self) -> OpenPage:
        """The page that the episode is on. Raises ValueError before the first tree."""
        if not self._pages:
            raise ValueError("no page yet: observe a tree first")
        return self._pages[-1]

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        """What to read now. An action that is `view_all()`, `view_region('R4')`, `find('text')` or `read('p2')` is answered."""
        self._begin()
        self._step += 1
        command, complaint = None, ""
        if last_action is not None:
            self._actions.append(last_action)
            try:
                command = parse_command(last_action.text)
            except ValueError as error:
                complaint = str(error)
        event = self._advance(tree)
        if command is not None:
            return self._view(command, event.kind)
        if complaint:
            self.page.note = "; ".join(part for part in (self.page.note, complaint) if part)
        text = self._text(event)
        return self._observation(text, "shown anew" if self._counts["shown_anew"] else event.kind)

    def view_all(self, *, page: int = 1) -> Observation:
        """Every region in full, in pages, now and for the rest of this page."""
        return self._asked(ViewCommand("view_all", page=page))

    def view_region(self, region: str, *, page: int = 1) -> Observation:
        """One region in full (`R4`), with addresses; it stays open for the rest of this page."""
        return self._asked(ViewCommand("view_region", region, page))

    def find(self, text: str, *, page: int = 1) -> Observation:
        """Elements of the current page that say `text`."""
        return self._asked(ViewCommand("find", text, page))

    def read(self, address: str, *, page: int = 1) -> Observation:
        """An earlier state from the page store, by address (`p2`, `p2.s5`, `p2.s5.R3`)."""
        return self._asked(ViewCommand("read", address, page))

    def _asked(self, command: ViewCommand) -> Observation:
        if command.page < 1:
            raise ValueError(f"pages count from 1, found {command.page}")
        self._begin()
        return self._view(command, "unchanged")

    def _begin(self) -> None:
        self._ms, self._counts, self._auxiliary = Counter(), Counter(), {}

    def _advance(self, tree: AXTree) -> PageEvent:
        """Bring the page's state to `tree`: on the same page, back on one left open, or on a new one."""
        event = PageEvent("opened")
        if self._pages:
            with self._stage("diff"):
                event = identify(self.page.entry, self.page.tree, tree)
                if event.kind == "opened" and (back := self._page_left_open(tree)) is not None:
                    event = back
                if event.stays:
                    self.page.update(event, tree, step=self._step, counter=self.method.counter)
        if not event.stays:
            self._enter(tree, event.note)
        return event

    def _page_left_open(self, tree: AXTree) -> PageEvent | None:
        """Another tab: a page of this episode at the same URL whose elements are still there under their ids."""
        for page in reversed(self._pages[:-1]):
            if page_address(page.tree.url) != page_address(tree.url) or tree.nodes[0].backend_id != page.tree.nodes[0].backend_id:
                continue
            same = sum(a.role == tree.nodes[j].role for a in page.tree.nodes if (j := tree.index_of.get(a.id)) is not None)
            event = identify(page.entry, page.tree, tree)
            if event.stays and same > len(page.tree) / 2:
                self._pages.remove(page)
                self._pages.append(page)
                return PageEvent("changed", event.transition, f"back on page p{page.number}, opened at step {page.opened_at}")
        return None

    def _enter(self, tree: AXTree, note: str) -> None:
        method = self.method
        with self._stage("segment"):
            partition = method.segmenter.segment(tree)
        with self._stage("abstract"):
            region_map = RegionMap(partition, self._abstractions(partition))
        with self._stage("select"):
            selection = method.selector.select(Page(region_map, self.task, tuple(self._actions)))
        with self._stage("count"):
            full_tokens = full_tree_tokens(tree, method.counter)
        budget = page_budget(method.budget_tokens, full_tokens)
        self._auxiliary = selection.auxiliary_tokens
        self._counts.update(selection.counts)
        self._counts["pages_entered"] += 1
        self._opened += 1
        reason = unready_reason(tree)
        if reason:
            self._counts["not_ready"] += 1
        note = "; ".join(part for part in (note, f"page looks not ready: {reason}" if reason else "") if part)
        self._pages = [
            *self._pages[-REMEMBERED_PAGES + 1 :],
            OpenPage(self._opened, self._step, region_map, selection, full_tokens, budget, note),
        ]

    def _abstractions(self, partition: Partition) -> tuple[Abstraction, ...]:
        abstractor = self.method.abstractor
        if not isinstance(abstractor, Cached):
            return abstractor.abstract(partition)
        answer = abstractor.answer(partition)
        self._counts["descriptions_reused"] += answer.reused
        self._counts["descriptions_written"] += len(partition) - answer.reused
        return answer.abstractions

    def _text(self, event: PageEvent) -> PageText:
        page = self.page
        if page.all_page:
            return self._view_text(ViewCommand("view_all", page=page.all_page))
        with self._stage("render"):
            if not event.stays:
                return self._layout.opened(page)
        self._follow()
        with self._stage("render"):
            text = None if page.was_unblocked else self._layout.continued(page, step=self._step)
        if text is not None:
            return text
        self._counts["shown_anew"] += 1
        reason = "what covered it is closed" if page.was_unblocked else "much has changed since the page was opened"
        self._enter(page.tree, "; ".join(part for part in (page.note, f"shown anew: {reason}") if part))
        self.page.urgent, self.page.fresh = page.appeared()
        with self._stage("render"):
            return self._layout.opened(self.page)

    def _follow(self) -> None:
        """Under a budget the digest in place follows the actions: lines that the next step needs take the place of others."""
        page, selector = self.page, self.method.selector
        if page.budget_tokens is None or page.full_tokens <= page.budget_tokens or self.method.layout != "in_place":
            return
        if isinstance(selector, FollowingSelector) and self._actions and self._actions[-1].target is not None:
            with self._stage("select"):
                page.follow(selector.follow(page.selection, Page(page.display_map()[0], self.task, tuple(self._actions))))

    def _view(self, command: ViewCommand, kind: PageEventKind) -> Observation:
        self._counts[command.name] += 1
        return self._observation(self._view_text(command), kind)

    def _view_text(self, command: ViewCommand) -> PageText:
        page = self.page
        if command.name == "view_all":
            page.all_page = command.page
        with self._stage("render"):
            return view_text(
                page, command, counter=self.method.counter, budget_tokens=view_limit(self.method.budget_tokens), store=self.method.store
            )

    def _observation(self, text: PageText, kind: str) -> Observation:
        page = self.page
        trace: dict[str, object] = {
            "page": f"p{page.number}",
            "address": f"p{page.number}.s{self._step}",
            "step": self._step,
            "event": kind,
            "regions": len(page.region_map.abstractions),
            "open": tuple(f"R{number}" for number in text.open),
            "selection": page.selection.source,
            "folded": text.folded,
            "counter": self.method.counter.name,
        }
        if self.method.store is not None:
            with self._stage("store"):
                self.method.store.add(stored_state(page, self._step, text.text))
        usage = Usage(
            text.tokens, page.full_tokens, dict(self._auxiliary), {k: round(v, 3) for k, v in self._ms.items()}, dict(self._counts)
        )
        return Observation(text.text, text.shown, usage, trace)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._ms[name] += (time.perf_counter() - started) * 1000  # type: ignore[assignment]
