"""A browser with tabs that is driven by commands and answers each with what is new to read.

Enters: commands (open, click, fill, ...). Leaves: a `Reply` a command: the digest when a page was entered, only the
changes while it stays. Dialogs are answered and told, downloads saved and told, a new tab is followed; a hung page or a
stopped browser is an error, after which `open` goes on. The command line's sessions and the MCP server both use it.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pagedigest.budgets import Budget
from pagedigest.integrations.acting import ActionRefused
from pagedigest.integrations.addresses import AddressPolicy
from pagedigest.integrations.live_digest import PAGE_SHARE, packaged_digest
from pagedigest.integrations.tabbed_digest import TabbedDigest
from pagedigest.observation import Action, Observation
from pagedigest.session import PageDigest
from region4web.render import plain_text

__all__ = ["LiveBrowser", "Reply"]

CLOSE_LIMIT_S = 5.0


@dataclass(frozen=True)
class Reply:
    """`text` is what is new to read; `tokens` its length, `full_tokens` that of the whole tree. `event` says what became of the page."""

    text: str
    tokens: int
    full_tokens: int
    shown: tuple[str, ...]
    notes: tuple[str, ...]
    page: str
    event: str
    url: str
    title: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class LiveBrowser:
    """One browser, one episode. Not started until the first `open`."""

    def __init__(self, *, task: str = "", budget_tokens: Budget = PAGE_SHARE, headless: bool = True, policy: AddressPolicy | None = None,
                 downloads: Path, timeout_s: float = 15.0) -> None:  # fmt: skip
        self.task, self.budget_tokens, self.headless = task, budget_tokens, headless
        self.policy = policy if policy is not None else AddressPolicy()
        self.downloads, self.timeout_s = downloads, timeout_s
        self._method: PageDigest | None = None
        self._playwright: Any = None
        self._chromium: Any = None
        self._context: Any = None
        self._digest: TabbedDigest | None = None
        self._last: tuple[str, str] = ("", "")  # page, text that was told of it
        self._hung = False

    # Commands.

    async def open(self, target: str, *, timeout_s: float | None = None) -> Reply:
        """Go to an address or an .html file, in the current tab. `timeout_s` is the deadline for pages from now on."""
        from region4web.loading import page_address

        if not self.policy.files and not target.lower().startswith(("http://", "https://")):
            self.policy.check("file:" + target)
        address = page_address(target)
        await asyncio.to_thread(self.policy.check, address)
        self.timeout_s = timeout_s if timeout_s is not None else self.timeout_s
        digest = await self._ready()
        digest.timeout_s = self.timeout_s
        if self._hung or digest.page.is_closed() or digest.page in digest.crashed:
            await self._replace_tab(digest)
        await self._go(digest, address, target)
        return await self._told(digest.after(Action(f"open({target!r})")))

    async def look(self) -> Reply:
        """The page as it is now; when its tab was closed, that of the last open tab."""
        digest = self._started()
        if digest.page.is_closed():
            digest.leave_closed_tab()
        return await self._told(self._running().observe())

    async def click(self, element_id: str, *, accept_dialog: bool = False, dialog_text: str | None = None) -> Reply:
        """Click. A dialog that this opens is dismissed, or accepted when `accept_dialog`; `dialog_text` is what a prompt is accepted with."""
        digest = self._running()
        with digest.answering(_answer(accept_dialog, dialog_text)):
            return await self._told(digest.click(element_id))

    async def fill(self, element_id: str, text: str) -> Reply:
        return await self._told(self._running().fill(element_id, text))

    async def select(self, element_id: str, option: str) -> Reply:
        return await self._told(self._running().select(element_id, option))

    async def press(self, key: str, element_id: str | None = None, *, accept_dialog: bool = False, dialog_text: str | None = None) -> Reply:
        digest = self._running()
        with digest.answering(_answer(accept_dialog, dialog_text)):
            return await self._told(digest.press(key, element_id))

    async def scroll(self, direction: str = "down", element_id: str | None = None) -> Reply:
        return await self._told(self._running().scroll(direction, element_id))

    async def back(self) -> Reply:
        return await self._told(self._running().back())

    async def view_all(self, page: int = 1) -> Reply:
        return self._reply(self._running().view_all(page=page), whole=True)

    async def view_region(self, region: str, page: int = 1) -> Reply:
        return self._reply(self._running().view_region(region, page=page), whole=True)

    async def find(self, text: str, page: int = 1) -> Reply:
        return self._reply(self._running().find(text, page=page), whole=True)

    async def tabs(self, number: int | None = None, *, close: bool = False) -> Reply:
        """List the tabs; with a number, go to that tab, or close it."""
        digest = self._started()
        if number is not None:
            pages = self._pages()
            if not 1 <= number <= len(pages):
                raise ActionRefused(f"there is no tab {number}; tabs are 1 to {len(pages)}")
            chosen = pages[number - 1]
            if not close:
                digest.attach(chosen)
                return await self._told(digest.observe(last_action=Action(f"tabs({number})")))
            if len(pages) == 1:
                raise ActionRefused("this is the only tab: open another address in it")
            await _bounded(chosen.close())
            if digest.page is chosen:
                digest.attach(self._pages()[-1])
                return await self._told(digest.observe(last_action=Action(f"tabs({number}, close=True)")))
        return await self._tab_list(digest)

    def allow(self, *, files: bool = False, private: bool = False) -> None:
        """Let more addresses be opened from now on."""
        self.policy = replace(self.policy, files=self.policy.files or files, private=self.policy.private or private)
        if self._digest is not None:
            self._digest.policy = self.policy

    async def set_task(self, task: str | None, budget_tokens: int | None) -> None:
        """A new task or budget begins a new episode on the same browser."""
        if (task is not None and task != self.task) or (budget_tokens is not None and budget_tokens != self.budget_tokens):
            self.task = task if task is not None else self.task
            if budget_tokens is not None and budget_tokens != self.budget_tokens:
                self.budget_tokens, self._method = budget_tokens, None
            if self._digest is not None:
                self._digest = await self._new_digest(self._digest.page)

    async def close(self) -> None:
        """End the browser."""
        chromium, playwright = self._chromium, self._playwright
        self._chromium = self._playwright = self._context = self._digest = None
        if chromium is not None:
            await _bounded(chromium.close())
        if playwright is not None:
            await _bounded(playwright.stop())

    # The browser.

    def _running(self) -> TabbedDigest:
        """The digest of a page that can be read and acted on."""
        from region4web.errors import BrowserError

        digest = self._started()
        if digest.page.is_closed():
            more = f"read tab {len(self._pages())} with look" if self._pages() else "open an address to go on"
            raise ActionRefused(f"the tab was closed: {more}")
        if digest.page in digest.crashed:
            raise BrowserError("the page crashed: open an address to go on, or go to another tab")
        return digest

    def _started(self) -> TabbedDigest:
        from region4web.errors import BrowserError

        if self._digest is None:
            raise ActionRefused("no page is open: open an address first")
        if not self._chromium.is_connected():
            raise BrowserError("the browser has stopped: open an address to start it again")
        return self._digest

    async def _ready(self) -> TabbedDigest:
        """The digest of a browser that runs, started when it does not."""
        from region4web.browser import launch_async, require_playwright

        if self._digest is not None and self._chromium.is_connected():
            return self._digest
        await self.close()
        self._playwright = await require_playwright().async_playwright().start()
        self._chromium = await launch_async(self._playwright, headless=self.headless)
        self._context = await self._chromium.new_context(viewport={"width": 1280, "height": 720}, accept_downloads=True)
        if not (self.policy.files and self.policy.private):
            await self._context.route("**/*", self._routed)
        self._digest = await self._new_digest(await self._context.new_page())
        self._context.on("page", self._opened_tab)
        self._hung = False
        return self._digest

    def _opened_tab(self, page: Any) -> None:
        if self._digest is not None:
            self._digest.opened_tab(page)

    async def _new_digest(self, page: Any) -> TabbedDigest:
        if self._method is None:
            self._method = await asyncio.to_thread(packaged_digest, budget_tokens=self.budget_tokens, layout="append")
        self._last = ("", "")
        return TabbedDigest(page, self.task, method=self._method, timeout_s=self.timeout_s, policy=self.policy, downloads=self.downloads)

    async def _routed(self, route: Any) -> None:
        """Stop a page from leading the browser where it may not go."""
        request = route.request
        if request.resource_type == "document":
            try:
                await asyncio.to_thread(self.policy.check, request.url)
            except ActionRefused as refusal:
                if self._digest is not None:
                    self._digest.notes.append(str(refusal))
                await route.fulfill(status=204)  # the page stays where it is
                return
        await route.continue_()

    async def _go(self, digest: TabbedDigest, address: str, target: str) -> None:
        from playwright.async_api import Error, TimeoutError

        from region4web.errors import BrowserError, CaptureTimeout
        from region4web.loading import navigation_error, stop_loading_async

        digest.saved.clear()
        try:
            await digest.page.goto(address, wait_until="commit", timeout=self.timeout_s * 1000)
        except TimeoutError as error:
            await stop_loading_async(digest.page)
            raise CaptureTimeout(f"{target}: no answer within {self.timeout_s:g} s", target=target) from error
        except Error as error:
            if not self._chromium.is_connected():
                raise BrowserError("the browser has stopped: open an address to start it again") from error
            await self._error_page(digest)
            digest.notes.clear()
            raise navigation_error(str(error), target, digest.saved) from error

    async def _error_page(self, digest: TabbedDigest) -> None:
        """Wait a moment for what follows a failed navigation: the browser's own page, or word of a download."""
        for _ in range(20):
            await asyncio.sleep(0.1)
            if digest.saved or digest.page.url.startswith("chrome-error:"):
                return

    async def _replace_tab(self, digest: TabbedDigest) -> None:
        """Leave a page that does not respond for a fresh tab."""
        hung = digest.page
        page = await self._context.new_page()
        digest.attach(page)
        digest.new_tabs.clear()
        await _bounded(hung.close())
        self._hung = False

    def _pages(self) -> list[Any]:
        return [page for page in self._context.pages if not page.is_closed()]

    # Replies.

    async def _told(self, observing: Any) -> Reply:
        from playwright.async_api import Error

        from region4web.errors import BrowserError, CaptureTimeout

        try:
            observation = await observing
        except CaptureTimeout as error:
            self._running()  # a page that crashed meanwhile says so
            self._hung = True
            raise CaptureTimeout(f"{error}; open another address to leave it", target=error.target) from error
        except (Error, BrowserError) as error:
            if self._chromium is None or not self._chromium.is_connected():
                raise BrowserError("the browser has stopped: open an address to start it again") from error
            raise
        return self._reply(observation)

    def _reply(self, observation: Observation, *, whole: bool = False) -> Reply:
        digest = self._running()
        body, page = str(observation.trace["body"]), str(observation.trace["page"])
        notes = tuple(observation.trace["notes"])
        text = body
        if not whole:
            if (
                page == self._last[0]
                and observation.trace["event"] != "opened"
                and (added := _added_lines(self._last[1], body)) is not None
            ):
                text = "\n".join(["SAME PAGE", *added])
            self._last = (page, body)
        text = "\n".join([*(f"NOTE {plain_text(note)}" for note in notes), text])
        tree = digest.session.page.tree
        return Reply(
            text=text,
            tokens=digest.method.counter.count(text),
            full_tokens=observation.usage.full_tokens,
            shown=observation.shown,
            notes=notes,
            page=page,
            event=str(observation.trace["event"]),
            url=tree.url,
            title=tree.title,
        )

    async def _tab_list(self, digest: TabbedDigest) -> Reply:
        lines = ["TABS"]
        for number, page in enumerate(self._pages(), start=1):
            try:
                title = await asyncio.wait_for(page.title(), 1.0)
            except TimeoutError:
                title = "(does not respond)"
            lines.append(
                f"{'*' if page is digest.page else ' '} {number} | {' '.join(title.split())[:80]!r} | {plain_text(page.url)[:200]}"
            )
        text = "\n".join(lines)
        return Reply(text, digest.method.counter.count(text), 0, (), (), "", "tabs", digest.page.url, "")


def _answer(accept_dialog: bool, dialog_text: str | None) -> str | None:
    return dialog_text if dialog_text is not None else "" if accept_dialog else None


def _added_lines(before: str, now: str) -> list[str] | None:
    """The lines that `now` has beyond `before`, when it goes on from it; the last line of `before` may have been 'no change'."""
    old, new = before.split("\n"), now.split("\n")
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    if same < len(old) - 1 or same == 0:
        return None
    return new[same:] or ["no change"]


async def _bounded(closing: Any) -> None:
    """Wait for something to close, a while."""
    from playwright.async_api import Error

    from region4web.cdp import within

    try:
        await within(closing, CLOSE_LIMIT_S)
    except (TimeoutError, Error):
        return
