"""The digest of a browser with tabs: new tabs are followed, dialogs answered, downloads saved.

Enters: a page of an async browser, and the policy on addresses. Leaves: observations, with what happened beside the page
as notes. A page that may not be read is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

from pagedigest.integrations.acting import ActionFailed, ActionRefused
from pagedigest.integrations.addresses import AddressPolicy
from pagedigest.integrations.live_digest import REQUEST_LIMIT_S, Steps
from pagedigest.integrations.playwright import AsyncPlaywrightDigest
from pagedigest.observation import Action, Observation
from pagedigest.session import PageDigest

__all__ = ["TabbedDigest"]


CAPTURES = 3
"""How often a page is read anew that goes where it may not while it is read."""


class TabbedDigest(AsyncPlaywrightDigest):
    """A digest that follows new tabs, answers dialogs, saves downloads, and leaves pages that it may not be on."""

    def __init__(self, page: Any, task: str, *, method: PageDigest, timeout_s: float, policy: AddressPolicy, downloads: Path) -> None:
        self.policy, self.downloads = policy, downloads
        self._dialog_answer: str | None = None
        self.new_tabs: list[Any] = []
        self.crashed: set[Any] = set()
        self.saved: list[Any] = []
        self._tasks: set[asyncio.Task[None]] = set()
        super().__init__(page, task, method=method, timeout_s=timeout_s)

    def attach(self, page: Any) -> None:
        fresh = id(page) not in self._attached
        super().attach(page)
        if fresh:
            page.on("crash", lambda _: self.crashed.add(page))
            page.on("dialog", lambda dialog: self._soon(self._answer(dialog)))
            page.on("download", lambda download: self._soon(self._save(download)))

    def opened_tab(self, page: Any) -> None:
        """Take note of a tab that a page opened."""
        if page is not self.page:
            self.new_tabs.append(page)
            self.attach_listeners(page)

    def attach_listeners(self, page: Any) -> None:
        """Listen to a tab before it is followed: its first dialog may come at once."""
        current = self.page
        self.attach(page)
        self.page = current

    @contextlib.contextmanager
    def answering(self, text: str | None) -> Iterator[None]:
        """Accept dialogs meanwhile, prompts with `text` ('': their own default); None: they are dismissed."""
        self._dialog_answer = text
        try:
            yield
        finally:
            self._dialog_answer = None

    async def after(self, action: Action) -> Observation:
        """Settle and observe, after something that was done to the page directly."""
        await self.settle()
        return await self.observe(last_action=action)

    def _settle(self) -> Steps[None]:
        try:
            yield from super()._settle()
        except ActionFailed as error:
            if not self.leave_closed_tab():
                raise ActionFailed("this closed the only tab: open an address to go on") from error
        yield self._finish_downloads()
        open_tabs = [page for page in self.new_tabs if not page.is_closed()]
        self.new_tabs.clear()
        if open_tabs:
            self.attach(open_tabs[-1])
            self.notes.append(f"a new tab opened; this is {self._position()}")
            yield from super()._settle()
        yield self._stay_where_allowed()

    def leave_closed_tab(self) -> bool:
        """Go from a tab that was closed to the last one that is open; whether there is one."""
        if pages := self._open_pages():
            self.attach(pages[-1])
            self.notes.append(f"the tab closed; this is {self._position()}")
        return bool(pages)

    def _open_pages(self) -> list[Any]:
        return [page for page in self.page.context.pages if not page.is_closed()]

    def _position(self) -> str:
        pages = self._open_pages()
        return f"tab {pages.index(self.page) + 1} of {len(pages)}"

    async def _finish_downloads(self) -> None:
        """Small downloads are told with the action that began them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=REQUEST_LIMIT_S)

    def _capture(self) -> Awaitable[Any]:
        return self._capture_where_allowed()

    async def _capture_where_allowed(self) -> Any:
        """What was read is checked as well: a page may have gone on while it was read."""
        for _ in range(CAPTURES):
            await self._stay_where_allowed()
            snapshot = await super()._capture()
            if self.policy.files and self.policy.private:
                return snapshot
            refused = await asyncio.to_thread(self._refused, _documents(snapshot))
            if not refused:
                return snapshot
        await self.page.goto("about:blank")
        raise refused[0]

    def _refused(self, addresses: list[str]) -> list[ActionRefused]:
        found = []
        for address in addresses:
            try:
                self.policy.check(address)
            except ActionRefused as refusal:
                found.append(refusal)
        return found

    async def _stay_where_allowed(self) -> None:
        """A redirect may end where the page itself could not lead: leave it unread, and frames of the page likewise."""
        from playwright.async_api import Error

        if self.policy.files and self.policy.private:
            return
        for frame in self.page.frames:
            try:
                await asyncio.to_thread(self.policy.check, frame.url)
            except ActionRefused as refusal:
                if frame == self.page.main_frame:
                    await self.page.goto("about:blank")
                    raise
                self.notes.append(f"a frame was emptied: {refusal}")
                with contextlib.suppress(Error):  # it went away by itself
                    await frame.goto("about:blank")

    async def _answer(self, dialog: Any) -> None:
        from playwright.async_api import Error

        kind, text = dialog.type, " ".join(dialog.message.split())[:300]
        accepted = self._dialog_answer is not None or kind == "beforeunload"
        answer = (self._dialog_answer or dialog.default_value) if kind == "prompt" else ""
        try:
            await (dialog.accept(answer) if accepted else dialog.dismiss())
        except Error:
            return  # the page went away with it
        with_answer = f" with {answer!r}" if accepted and kind == "prompt" else ""
        self.notes.append(f"dialog {kind}{f' {text!r}' if text else ''} was {'accepted' if accepted else 'dismissed'}{with_answer}")

    async def _save(self, download: Any) -> None:
        from playwright.async_api import Error

        self.saved.append(download)
        name = re.sub(r"[^\w.()-]", "_", download.suggested_filename)[-100:] or "download"
        path = self.downloads / name
        try:
            await download.save_as(path)
        except Error as error:
            self.notes.append(f"download {name!r} failed: {str(error).splitlines()[0][:100]}")
            return
        self.notes.append(f"download {name!r} was saved to {path}")

    def _soon(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _documents(snapshot: Any) -> list[str]:
    """Addresses of the documents that were read: the page's and those of its frames."""
    found = [snapshot.url]
    for node in snapshot.nodes:
        if (node.get("role") or {}).get("value") == "RootWebArea":
            found += [each["value"].get("value") for each in node.get("properties") or () if each.get("name") == "url"]
    return list(dict.fromkeys(address for address in found if isinstance(address, str)))
