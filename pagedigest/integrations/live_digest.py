"""Observing a live page and acting on it, written once for both of Playwright's APIs.

Enters: a live page and ids that were shown. Leaves: an `Observation` a step, with what happened beside the page (HTTP
errors, new tabs, notes of the capture) as NOTE lines above the digest. Page logic yields what Playwright returned and
is sent the value: `playwright` has the two subclasses that run it. Every action checks its id, acts with Playwright's own
waiting, lets the page settle and observes.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

from pagedigest.budgets import Budget, PageShare
from pagedigest.integrations.acting import ActionFailed, ActionRefused, ShownElements
from pagedigest.observation import Action, Observation
from pagedigest.session import DigestSession, PageDigest
from region4web.axtree import AXTree
from region4web.render import plain_text

__all__ = ["LiveDigest", "Steps", "packaged_digest"]

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""Page logic written once: it yields what Playwright returned, and is sent the value (sync) or the awaited value (async)."""

PAGE_SHARE = PageShare()
ACTION_TIMEOUT_S = 5.0
REQUEST_LIMIT_S = 2.0
"""How long a page's own requests are waited for after an action."""
LOADING_SHARE = 0.6
"""Share of the deadline for which a page that has begun to arrive is waited for."""
DIRECTIONS = {"down": (0, 0.9), "up": (0, -0.9), "right": (0.9, 0), "left": (-0.9, 0), "bottom": (0, 1e6), "top": (0, -1e6)}

_TAKE = "name => { const element = globalThis[name]; delete globalThis[name]; return element ?? null; }"
_SCROLL = """(element, [x, y]) => {
    let box = element || document.scrollingElement || document.documentElement;
    if (!element && box.scrollHeight <= box.clientHeight + 1) {
        const inner = [...document.querySelectorAll('*')].filter(e => e.scrollHeight > e.clientHeight + 20 && /auto|scroll/.test(getComputedStyle(e).overflowY));
        box = inner.sort((a, b) => b.clientHeight * b.clientWidth - a.clientHeight * a.clientWidth)[0] || box;
    }
    while (box.parentElement && box.scrollHeight <= box.clientHeight + 1 && box.scrollWidth <= box.clientWidth + 1) box = box.parentElement;
    const before = [box.scrollLeft, box.scrollTop];
    box.scrollBy({left: x * box.clientWidth, top: y * box.clientHeight, behavior: 'instant'});
    return before[0] !== box.scrollLeft || before[1] !== box.scrollTop;
}"""
_SENT, _HANDLED = "performing click action", "click action done"
"""What Playwright's log says when a click was sent to the page, and when the page has taken it."""
_COVERING = re.compile(r"(<[a-zA-Z][^\n]*?>).{0,120}intercepts pointer events")


def packaged_digest(*, budget_tokens: Budget = PAGE_SHARE, layout: str = "in_place") -> PageDigest:
    """PageDigest with the packaged segmenter and abstractor and the language-model-free selector; a share of each page by default."""
    from pagedigest.selection import HybridSelector
    from region4web.abstraction import abstractor_by_name
    from region4web.abstraction_cache import remembered
    from region4web.segmenters import segmenter_by_name

    return PageDigest(
        segmenter_by_name("best"),
        remembered(abstractor_by_name("embedded")),
        HybridSelector(),
        budget_tokens=budget_tokens,
        layout="append" if layout == "append" else "in_place",
    )


class LiveDigest:
    """What both APIs share: one episode on one page at a time."""

    def __init__(self, page: Any, task: str = "", *, method: PageDigest | None = None, budget_tokens: Budget = PAGE_SHARE, timeout_s: float = 15.0) -> None:  # fmt: skip
        if method is not None and budget_tokens != PAGE_SHARE:
            raise ValueError("budget_tokens is a setting of the method: give one of them")
        self.method = method if method is not None else packaged_digest(budget_tokens=budget_tokens)
        self.session: DigestSession = self.method.start(task)
        self.timeout_s = timeout_s
        self.notes: list[str] = []
        """What happened beside the page since the last observation."""
        self._elements = ShownElements()
        self._told: set[str] = set()
        self._pending: dict[Any, float] = {}
        self._navigations: dict[Any, float] = {}
        self._endless = ""
        self._failed: Action | None = None
        self._attached: set[int] = set()
        self.page = page
        self.attach(page)

    def attach(self, page: Any) -> None:
        """Make `page` the one that is observed and acted on (another tab)."""
        self.page = page
        if id(page) in self._attached:
            return
        self._attached.add(id(page))
        page.on("request", lambda request: self._requested(page, request))
        page.on("requestfinished", lambda request: self._ended(request))
        page.on("requestfailed", lambda request: self._failed_to_load(page, request))
        page.on("response", lambda response: self._answered(page, response))
        page.on("framenavigated", lambda frame: self._navigations.clear() if frame == self.page.main_frame else None)

    def _requested(self, page: Any, request: Any) -> None:
        if page is not self.page:
            return
        if _is_navigation(page, request):
            self._navigations[request] = time.monotonic()
        elif request.resource_type in ("document", "xhr", "fetch"):
            self._pending[request] = time.monotonic()

    def _ended(self, request: Any) -> None:
        self._pending.pop(request, None)
        self._navigations.pop(request, None)

    def _failed_to_load(self, page: Any, request: Any) -> None:
        self._ended(request)
        if page is self.page and _is_navigation(page, request) and (reason := request.failure or "") != "net::ERR_ABORTED":
            self.notes.append(f"{request.url[:200]} could not be reached ({reason.removeprefix('net::')})")

    def _answered(self, page: Any, response: Any) -> None:
        if page is self.page and response.status >= 400 and _is_navigation(page, response.request):
            self.notes.append(f"the server answered HTTP {_status(response.status)}")

    # What the subclass gives: sync values or awaitables.

    def _capture(self) -> Any:
        raise NotImplementedError

    def _expose(self, key: str, name: str) -> Any:
        raise NotImplementedError

    def _quiet(self) -> Any:
        raise NotImplementedError

    def _stop_loading(self) -> Any:
        raise NotImplementedError

    # Page logic.

    @property
    def _action_ms(self) -> float:
        return min(ACTION_TIMEOUT_S, self.timeout_s) * 1000

    def _observe(self, action: Action | None) -> Steps[Observation]:
        if action is None and self._failed is not None:
            action = self._failed
        yield from self._arrive()
        snapshot = yield self._capture()
        self._failed = None
        tree = AXTree.from_snapshot(snapshot)
        observation = self.session.observe(tree, last_action=action)
        return self._noted(observation, tree)

    def _viewed(self, observation: Observation) -> Observation:
        return self._noted(observation, self.session.page.tree)

    def _noted(self, observation: Observation, tree: AXTree) -> Observation:
        """The observation with NOTE lines on top; those of the capture once a page."""
        if observation.trace.get("event") == "opened":
            self._told.clear()
        fresh = [*self.notes, *(note for note in tree.notes if note not in self._told)]
        self._told.update(tree.notes)
        self.notes = []
        self._elements.show(observation, tree, self.session.page.changes.region_of)
        trace = {**observation.trace, "notes": tuple(fresh), "body": observation.text}
        if not fresh:
            return replace(observation, trace=trace)
        lines = [f"NOTE {plain_text(note)}" for note in fresh]
        added = self.method.counter.count("\n".join(lines) + "\n")
        usage = replace(observation.usage, tokens=observation.usage.tokens + added)
        return replace(observation, text="\n".join([*lines, observation.text]), usage=usage, trace=trace)

    def _on_element(self, call: str, element_id: str | int, perform: Callable[[Any], Steps[None]]) -> Steps[Observation]:
        node = self._elements.node(element_id)
        from region4web.errors import ElementGone

        name = f"__pagedigest_{secrets.token_hex(8)}"
        try:
            yield self._expose(node.id, name)
        except ElementGone as error:
            raise ActionRefused(f"{error}: observe the page again", element_id=node.id) from error
        element = yield from self._take(name, in_frame=bool(node.frame))
        if element is None:
            raise ActionRefused(f"element {node.id} went away: observe the page again", element_id=node.id)
        return (yield from self._performed(Action(call, node.id), perform(element)))

    def _performed(self, action: Action, steps: Steps[None]) -> Steps[Observation]:
        from playwright.async_api import Error

        try:
            yield from steps
        except Error as error:
            if self.page.is_closed():
                yield from self._settle()  # another tab may go on
                return (yield from self._observe(action))
            if _SENT in str(error):  # and what it set off takes long
                if _HANDLED in str(error):
                    yield from self._settle()
                return (yield from self._observe(action))
            reason = _reason(str(error), action.target or "")
            self._failed = replace(action, error=reason)
            raise ActionFailed(reason, element_id=action.target or "") from error
        yield from self._settle()
        return (yield from self._observe(action))

    def _take(self, name: str, *, in_frame: bool) -> Steps[Any]:
        """The exposed element as Playwright's handle; None when its frame went away meanwhile."""
        from playwright.async_api import Error

        for frame in self.page.frames if in_frame else [self.page.main_frame]:
            try:
                handle = yield frame.evaluate_handle(_TAKE, name)
            except Error:
                continue
            if element := handle.as_element():
                return element
        return None

    def _settle(self) -> Steps[None]:
        """Wait for what the action set off: a navigation, the page's requests, then a moment without changes."""
        from playwright.async_api import Error

        started = time.monotonic()
        try:
            yield self.page.wait_for_timeout(60)
            while self._busy(started):
                yield self.page.wait_for_timeout(40)
            for _ in range(2):  # a late navigation ends the first rest
                yield from self._arrive()
                yield from self._load()
                if (yield self._quiet()):
                    break
        except Error as error:
            if self.page.is_closed():
                raise ActionFailed("this closed the page") from error
            # A page that never rests is observed as it is; the capture has a deadline of its own.

    def _busy(self, started: float) -> bool:
        """Whether the page waits for data that it asked for lately."""
        recent = any(since >= started - ACTION_TIMEOUT_S for since in self._pending.values())
        return not self._navigations and recent and time.monotonic() - started < REQUEST_LIMIT_S

    def _arrive(self) -> Steps[None]:
        """Wait for the answer to a navigation; without one in time it is given up, for nothing can be read meanwhile."""
        while self._navigations:
            request, since = next(iter(self._navigations.items()))
            if time.monotonic() - since > self.timeout_s:
                yield self._stop_loading()
                self._navigations.clear()
                self.notes.append(f"{request.url[:200]} did not answer within {self.timeout_s:g} s; the page stays where it was")
            else:
                yield self.page.wait_for_timeout(40)

    def _load(self) -> Steps[None]:
        """Wait until the document is there, the first time at an address for long."""
        from playwright.async_api import TimeoutError

        limit_s = 1.0 if self._endless == self.page.url else self.timeout_s * LOADING_SHARE
        try:
            yield self.page.wait_for_load_state("domcontentloaded", timeout=limit_s * 1000)
        except TimeoutError:
            if self._endless != self.page.url:
                self._endless = self.page.url
                self.notes.append(f"still loading after {limit_s:g} s; read as it is now")

    def _click(self, element_id: str | int) -> Steps[Observation]:
        def perform(element: Any) -> Steps[None]:
            yield element.click(timeout=self._action_ms)

        return (yield from self._on_element(f"click({str(element_id)!r})", element_id, perform))

    def _fill(self, element_id: str | int, text: str) -> Steps[Observation]:
        def perform(element: Any) -> Steps[None]:
            yield element.fill(text, timeout=self._action_ms)

        return (yield from self._on_element(f"fill({str(element_id)!r}, {text!r})", element_id, perform))

    def _select(self, element_id: str | int, option: str) -> Steps[Observation]:
        def perform(element: Any) -> Steps[None]:
            names = yield element.evaluate("e => e.tagName === 'SELECT' ? [...e.options].map(o => [o.label.trim(), o.value]) : null")
            if names is None:
                raise ActionRefused(
                    f"[{element_id}] is no drop-down of the browser: click it, then click the option", element_id=str(element_id)
                )
            labels, values = [name for name, _ in names], [value for _, value in names]
            if option in labels:
                yield element.select_option(index=labels.index(option), timeout=self._action_ms)
            elif option in values:
                yield element.select_option(value=option, timeout=self._action_ms)
            else:
                known = ", ".join(repr(label[:40]) for label in labels[:12]) + (f" and {len(labels) - 12} more" if len(labels) > 12 else "")
                raise ActionRefused(f"[{element_id}] has no option {option!r}; it has {known}", element_id=str(element_id))

        return (yield from self._on_element(f"select({str(element_id)!r}, {option!r})", element_id, perform))

    def _press(self, key: str, element_id: str | int | None) -> Steps[Observation]:
        if element_id is not None:

            def perform(element: Any) -> Steps[None]:
                yield element.press(key, timeout=self._action_ms)

            return (yield from self._on_element(f"press({key!r}, {str(element_id)!r})", element_id, perform))

        def on_page() -> Steps[None]:
            yield self.page.keyboard.press(key)

        return (yield from self._performed(Action(f"press({key!r})"), on_page()))

    def _scroll(self, direction: str, element_id: str | int | None) -> Steps[Observation]:
        if direction not in DIRECTIONS:
            raise ActionRefused(f"cannot scroll {direction!r}; directions are {', '.join(DIRECTIONS)}")
        amount = list(DIRECTIONS[direction])

        def perform(element: Any) -> Steps[None]:
            moved = yield (
                self.page.evaluate(f"a => ({_SCROLL})(null, a)", amount) if element is None else element.evaluate(_SCROLL, amount)
            )
            if not moved:
                self.notes.append(f"nothing scrolled: there is no more {direction}")

        if element_id is not None:
            return (yield from self._on_element(f"scroll({direction!r}, {str(element_id)!r})", element_id, perform))
        return (yield from self._performed(Action(f"scroll({direction!r})"), perform(None)))

    def _back(self) -> Steps[Observation]:
        from playwright.async_api import TimeoutError

        def perform() -> Steps[None]:
            before = self.page.url
            try:
                response = yield self.page.go_back(wait_until="commit", timeout=self._action_ms)
            except TimeoutError:
                return  # the answer is waited for elsewhere
            if response is None and self.page.url == before:
                self.notes.append("there is no earlier page in this tab")

        return (yield from self._performed(Action("back()"), perform()))

    # Reading more of the page needs no browser.

    def view_all(self, *, page: int = 1) -> Observation:
        """Every region in full, in pages."""
        return self._viewed(self.session.view_all(page=page))

    def view_region(self, region: str, *, page: int = 1) -> Observation:
        """One region in full (`R4`)."""
        return self._viewed(self.session.view_region(region, page=page))

    def find(self, text: str, *, page: int = 1) -> Observation:
        """Elements that say `text`."""
        return self._viewed(self.session.find(text, page=page))


def _is_navigation(page: Any, request: Any) -> bool:
    """Whether a request is for the page itself, not for a frame or for data."""
    return bool(request.resource_type == "document" and request.is_navigation_request() and request.frame == page.main_frame)


def _status(code: int) -> str:
    """`404 Not Found`: the standard's words, for a server may answer with its own."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _reason(message: str, element_id: str) -> str:
    """Playwright's call log as one line."""
    what = f"[{element_id}]" if element_id else "it"
    if found := _COVERING.search(message):
        return f"{what} is covered by {found[1][:100]!r}: close that first"
    for told in (
        "element is not visible",
        "element is not enabled",
        "element is not stable",
        "element is outside of the viewport",
        "not editable",
    ):
        if told in message:
            return f"{what} could not be used: {told}"
    if "is not an <input>" in message or "cannot be filled" in message or "Cannot type" in message:
        return f"{what} is no text field"
    first = next((line for line in message.splitlines() if line.strip()), "the browser refused")
    return f"{what} could not be used: {plain_text(first.split(': ', 1)[-1])[:160]}"
