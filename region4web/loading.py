"""Opening an address in a page, and everything that can go wrong on the way.

Enters: an async Playwright page and an address. Leaves: the page, ready to be read, with notes; or a `CaptureError`
whose one line says what happened. An answer with an error status (4xx, 5xx) is an HttpError even when it has a body.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from region4web.browser import require_playwright
from region4web.cdp import page_session, within
from region4web.errors import BrowserError, CaptureError, CaptureTimeout, HttpError, MissingFile, NotAPage, Unreachable

__all__ = [
    "dismiss",
    "navigation_error",
    "open_page",
    "page_address",
    "settle",
    "stop_loading",
    "stop_loading_async",
    "wait_until_quiet",
    "wait_until_quiet_async",
]

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
LOADING_SHARE = 0.6
"""Share of the deadline that loading may take; the rest is for reading the page."""
QUIET_MS, QUIET_LIMIT_S = 250, 2.0
"""A page is settled when its document has not changed for QUIET_MS; waited for at most QUIET_LIMIT_S."""
LIVE_QUIET_MS, LIVE_QUIET_LIMIT_S = 150, 1.5
"""The same after an action on a live page."""


def page_address(target: str | os.PathLike[str]) -> str:
    """The URL to open for what the user gave. Raises ValueError or MissingFile."""
    text = os.fspath(target)
    scheme = urlsplit(text).scheme.lower() if "://" in text or text.lower().startswith(("data:", "about:", "javascript:")) else ""
    if scheme in ("http", "https"):
        if not urlsplit(text).netloc:
            raise ValueError(f"{text!r} names no host; write it as https://host/path")
        return text
    if scheme == "file":
        path = Path(url2pathname(urlsplit(text).path))
    elif scheme:
        raise ValueError(f"{text[:80]!r} is neither an http(s) address nor an .html file")
    else:
        path = Path(text)
    if not path.exists():
        raise MissingFile(f"{path}: no such file; a web address starts with http:// or https://", target=text)
    if path.is_dir():
        raise MissingFile(f"{path}: is a folder; name the .html file in it", target=text)
    address = path.resolve().as_uri()
    query = urlsplit(text) if scheme == "file" else None
    if query and query.query:
        address += f"?{query.query}"
    if query and query.fragment:
        address += f"#{query.fragment}"
    return address


async def open_page(page: Any, address: str, target: str, timeout_s: float, notes: list[str]) -> None:
    """Go to the address and wait until it can be read. Raises CaptureError."""
    api = require_playwright()
    downloads: list[Any] = []
    page.on("download", lambda download: downloads.append(download))
    page.on("dialog", lambda dialog: asyncio.ensure_future(dismiss(dialog, notes)))
    started = time.monotonic()
    budget = timeout_s * LOADING_SHARE

    def left_ms() -> float:
        return max(1.0, (started + budget - time.monotonic()) * 1000)

    try:
        response = await page.goto(address, wait_until="commit", timeout=timeout_s * 0.9 * 1000)
    except api.TimeoutError as error:
        raise CaptureTimeout(f"{target}: no answer within {timeout_s:g} s; try again or give it more time", target=target) from error
    except api.Error as error:
        await asyncio.sleep(0.1)  # a download is announced after the navigation has failed
        raise navigation_error(str(error), target, downloads) from error
    if response is not None and response.status >= 400:
        text = f"{response.status} {response.status_text}".strip()
        raise HttpError(f"{target}: the server answered HTTP {text}", target=target, status=response.status)
    ready = True
    for state in ("domcontentloaded", "load"):
        try:
            await page.wait_for_load_state(state, timeout=left_ms())
        except api.TimeoutError:
            ready = False
            notes.append(f"still loading after {budget:g} s; read as it was then")
            break
    try:
        content_type = await within(page.evaluate("document.contentType"), max(1.0, started + timeout_s - time.monotonic()))
    except TimeoutError as error:
        raise CaptureTimeout(f"{target}: the page did not respond within {timeout_s:g} s (a script is busy)", target=target) from error
    if content_type not in HTML_TYPES:
        raise NotAPage(f"{target}: holds {content_type}, not an HTML page", target=target)
    if ready:
        await settle(page, started + budget)


_QUIET = """([quiet, limit]) => new Promise(done => {
    let timer = setTimeout(done, quiet);
    const observer = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(finish, quiet); });
    function finish() { observer.disconnect(); done(); }
    clearTimeout(timer); timer = setTimeout(finish, quiet);
    setTimeout(finish, limit);
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
})"""


def wait_until_quiet(page: Any) -> bool:
    """Wait until the document of a live sync page rests for a moment; False when it was left meanwhile or does not respond."""
    rested: bool = page._sync(_quiet(page._impl_obj))
    return rested


async def wait_until_quiet_async(page: Any) -> bool:
    """The same for a live async page."""
    return await _quiet(page)


async def _quiet(inner: Any) -> bool:
    """Through the DevTools protocol, because a page that hangs on the way must not be waited for."""
    expression = f"({_QUIET})([{LIVE_QUIET_MS}, {LIVE_QUIET_LIMIT_S * 1000}])"
    try:
        async with page_session(inner) as session:
            reply = await within(
                session.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True}), LIVE_QUIET_LIMIT_S + 1.0
            )
    except (TimeoutError, require_playwright().Error):
        return False
    return "exceptionDetails" not in reply


def stop_loading(page: Any) -> None:
    """Give up what a live sync page is loading: while it waits for an answer, nothing of it can be read."""
    page._sync(_stop_loading(page._impl_obj))


async def stop_loading_async(page: Any) -> None:
    """The same for a live async page."""
    await _stop_loading(page)


async def _stop_loading(inner: Any) -> None:
    try:
        async with page_session(inner) as session:
            await within(session.send("Page.stopLoading", {}), LIVE_QUIET_LIMIT_S)
    except (TimeoutError, require_playwright().Error):
        return  # reading it has its own deadline


async def settle(page: Any, until: float) -> None:
    """Wait until the document rests for a moment: many pages fill themselves after `load`."""
    limit_s = min(QUIET_LIMIT_S, until - time.monotonic())
    if limit_s <= 0:
        return
    try:
        await within(page.evaluate(_QUIET, [QUIET_MS, limit_s * 1000]), limit_s + 1.0)
    except (TimeoutError, require_playwright().Error):
        return  # it navigated or is busy; reading it has its own deadline


async def dismiss(dialog: Any, notes: list[str]) -> None:
    """Close a dialog unanswered; leaving the page is allowed."""
    kind, text = dialog.type, " ".join(dialog.message.split())[:200]
    try:
        if kind == "beforeunload":
            await dialog.accept()
        else:
            notes.append(f"dialog {kind} {text!r} dismissed")
            await dialog.dismiss()
    except require_playwright().Error:
        notes.append(f"dialog {kind} went away by itself")


def navigation_error(message: str, target: str, downloads: list[Any]) -> CaptureError:
    reason = next((word for word in message.replace("\n", " ").split() if word.startswith(("net::ERR", "NS_ERROR"))), "").rstrip(":;,")
    if downloads or "Download is starting" in message:
        name = downloads[0].suggested_filename if downloads else ""
        return NotAPage(f"{target}: is a download{f' ({name})' if name else ''}, not a page", target=target)
    if reason == "net::ERR_ABORTED":
        return NotAPage(f"{target}: the server sent no page (an empty answer or a download)", target=target)
    if reason == "net::ERR_FILE_NOT_FOUND":
        return MissingFile(f"{target}: no such file", target=target)
    if reason in ("net::ERR_INVALID_URL", "net::ERR_UNKNOWN_URL_SCHEME") or "invalid URL" in message:
        return Unreachable(f"{target}: not a valid address", target=target)
    if reason == "net::ERR_TOO_MANY_REDIRECTS":
        return Unreachable(f"{target}: redirects in a circle", target=target)
    if reason in ("net::ERR_HTTP_RESPONSE_CODE_FAILURE",):
        return HttpError(f"{target}: the server answered with an error status and no page", target=target)
    if reason:
        return Unreachable(f"{target}: could not be reached ({reason.removeprefix('net::')})", target=target)
    if "crash" in message.lower() or "closed" in message.lower():
        return BrowserError(f"{target}: the browser stopped while the page was opened", target=target)
    return Unreachable(f"{target}: could not be opened ({message.splitlines()[0][:160]})", target=target)
