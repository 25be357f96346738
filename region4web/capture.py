"""A page in a browser, as a snapshot.

Enters: an address, an .html file, or a live Playwright page (sync or async). Leaves: a `Snapshot` of all frames, with
boxes, visibility, clickability and notes, or a `CaptureError` that says in one line what went wrong. The deadline is
kept whatever the page does. `loading` opens, `cdp` reads, `layout` judges, `recovery` completes, `frames` merges.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from region4web import cdp, frames
from region4web.browser import launch_async, require_playwright
from region4web.errors import BrowserError, CaptureTimeout
from region4web.layout import Layout, judge_layout
from region4web.loading import open_page, page_address
from region4web.snapshot import Snapshot

__all__ = ["capture_live", "capture_live_async", "capture_page"]

T = TypeVar("T")

HIT_TEST_LIMIT = 200
NODES_SHARE = 0.75
"""Share of the time for reading after which accessibility nodes that are not there are derived from the document."""


def capture_page(
    target: str | os.PathLike[str],
    *,
    timeout_s: float = 15.0,
    viewport: tuple[int, int] = (1280, 720),
    screenshot: bool = False,
    browser: str | os.PathLike[str] | None = None,
) -> Snapshot:
    """Open `target` (URL or .html file) in a fresh headless browser and read it.

    `timeout_s` covers loading and reading, not the start of the browser. A page that is readable but still loading
    when its share of the time is over is read as it is, with a note. Dialogs are dismissed and noted.
    Raises CaptureError (one of its kinds), or ValueError for a target that is neither a web address nor a file.
    """
    address = page_address(target)
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be positive, found {timeout_s!r}")
    return _run_in_thread(_capture_fresh(address, str(target), timeout_s, viewport, screenshot, browser))


def capture_live(page: Any, *, timeout_s: float = 15.0, screenshot: bool = False) -> Snapshot:
    """Read a live sync Playwright page as it is now. Frames keep their labels as long as the page object lives."""
    inner = page._impl_obj  # the sync API has no deadline of its own for protocol calls
    snapshot: Snapshot = page._sync(_read_before(page, inner, timeout_s, screenshot))
    return snapshot


async def capture_live_async(page: Any, *, timeout_s: float = 15.0, screenshot: bool = False) -> Snapshot:
    """Read a live async Playwright page as it is now. Frames keep their labels as long as the page object lives."""
    return await _read_before(page, page, timeout_s, screenshot)


async def _capture_fresh(
    address: str, target: str, timeout_s: float, viewport: tuple[int, int], screenshot: bool, browser: str | os.PathLike[str] | None
) -> Snapshot:
    api = require_playwright()
    async with api.async_playwright() as playwright:
        chromium = await launch_async(playwright, browser=browser)
        try:
            context = await chromium.new_context(viewport={"width": viewport[0], "height": viewport[1]}, ignore_https_errors=True)
            page = await context.new_page()
            deadline = time.monotonic() + timeout_s
            notes: list[str] = []
            await open_page(page, address, target, timeout_s, notes)
            return await _read_before(
                page, page, max(0.5, deadline - time.monotonic()), screenshot, notes=notes, limit_s=timeout_s, target=target
            )
        except api.Error as error:
            raise _browser_gone(error, target) from error
        finally:
            await _close(chromium)


async def _read_before(
    page: Any,
    inner: Any,
    timeout_s: float,
    screenshot: bool,
    *,
    notes: list[str] | None = None,
    limit_s: float | None = None,
    target: str = "",
) -> Snapshot:
    """`page` keys the frame labels, `inner` is what is awaited. Raises CaptureTimeout, BrowserError."""
    api = require_playwright()
    target = target or str(inner.url)
    try:
        return await asyncio.wait_for(
            _read(page, inner, screenshot, notes if notes is not None else [], timeout_s * NODES_SHARE), timeout_s
        )
    except TimeoutError as error:
        shown = timeout_s if limit_s is None else limit_s
        raise CaptureTimeout(
            f"{target}: the page could not be read within {shown:g} s (a script is busy, a dialog is open, or it is very large); give it more time",
            target=target,
        ) from error
    except api.Error as error:
        raise _browser_gone(error, target) from error


async def _read(page: Any, inner: Any, screenshot: bool, notes: list[str], nodes_s: float) -> Snapshot:
    async with cdp.page_session(inner) as session:
        reading = await cdp.read_page(inner, session, nodes_until=time.monotonic() + nodes_s)
        layouts = [judge_layout(frame.dom, viewport=frames.visible_size(reading, k)) for k, frame in enumerate(reading.frames)]
        derived = sum(frame.derived for frame in reading.frames)
        if derived:
            notes.append(f"accessibility tree not ready after {nodes_s:.3g} s; roles and names come from the document (frames: {derived})")
        blocked = frozenset() if derived else await _blocked(session, reading, layouts[0])
        picture = await cdp.take_screenshot(session, reading.content_size) if screenshot else None
    labels = frames.frame_labels(page, reading)
    return frames.merge_frames(reading, layouts, labels, blocked, notes, picture)


async def _blocked(session: Any, reading: cdp.PageReading, layout: Layout) -> frozenset[int]:
    """Nodes of the page's own document that the overlay really covers, by asking the browser where clicks would land."""
    if layout.overlay is None or not layout.blocked:
        return frozenset()
    dom = reading.frames[0].dom
    width, height = reading.viewport
    points: list[tuple[float, float]] = []
    tested: list[int] = []
    for i in sorted(layout.blocked):
        x, y, w, h = dom.boxes[i]
        centre = (x + w / 2 - dom.scroll[0], y + h / 2 - dom.scroll[1])
        if w > 0 and h > 0 and 0 <= centre[0] < width and 0 <= centre[1] < height and len(points) < HIT_TEST_LIMIT:
            points.append(centre)
            tested.append(i)
    if not points:
        return frozenset()
    hits = await cdp.hit_test(session, dom.backend_id[layout.overlay], points)
    free = {i for i, hit in zip(tested, hits, strict=True) if not hit}
    if len(free) == len(tested):
        return frozenset()
    untested = layout.blocked - set(tested) if not free else frozenset()
    return frozenset(set(tested) - free) | untested


def _browser_gone(error: Exception, target: str) -> BrowserError:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return BrowserError(f"{target}: the browser stopped or closed the page ({reason[:160]})", target=target)


async def _close(chromium: Any) -> None:
    """Close the browser, or stop waiting for one that does not answer; Playwright's own exit ends it then."""
    try:
        await cdp.within(chromium.close(), 5.0)
    except (TimeoutError, require_playwright().Error):
        return


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a loop of its own, so that callers may have one running or hold a sync Playwright."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(asyncio.run(work))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="region4web-capture", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
