"""A page in a browser, as a snapshot.

Enters: an address, an .html file, or a live Playwright page (sync or async). Leaves: a `Snapshot` of all frames, with
boxes, visibility, clickability and notes, or a `CaptureError` that says in one line what went wrong. The deadline is
kept whatever the page does. Loading strategy and errors are here; `cdp` reads, `layout` judges, `recovery` completes.

Properties added to CDP's are listed in `recovery`. An answer with an error status (4xx, 5xx) is an HttpError even when
it has a body; a live page shows whatever it shows.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from region4web import cdp
from region4web.browser import launch_async, require_playwright
from region4web.domsnapshot import ELEMENT
from region4web.errors import BrowserError, CaptureError, CaptureTimeout, HttpError, MissingFile, NotAPage, Unreachable
from region4web.layout import Layout, judge_layout
from region4web.recovery import WIDGET_ROLES, complete_frame
from region4web.snapshot import Box, Snapshot

__all__ = ["capture_live", "capture_live_async", "capture_page"]

T = TypeVar("T")

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
LOADING_SHARE = 0.6
"""Share of the deadline that loading may take; the rest is for reading the page."""
QUIET_MS, QUIET_LIMIT_S = 250, 2.0
"""A page is settled when its document has not changed for QUIET_MS; waited for at most QUIET_LIMIT_S."""
HIT_TEST_LIMIT = 200

_frame_labels: WeakKeyDictionary[Any, dict[tuple[str, str], str]] = WeakKeyDictionary()


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


def page_address(target: str | os.PathLike[str]) -> str:
    """The URL to open for what the user gave. Raises ValueError or MissingFile."""
    text = os.fspath(target)
    scheme = urlsplit(text).scheme.lower() if "://" in text or text.lower().startswith(("data:", "about:", "javascript:")) else ""
    if scheme in ("http", "https"):
        if not urlsplit(text).netloc:
            raise ValueError(f"{text!r} names no host; write it as https://host/path")
        return text
    if scheme == "file":
        from urllib.request import url2pathname

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
            await _open(page, address, target, timeout_s, notes)
            return await _read_before(
                page, page, max(0.5, deadline - time.monotonic()), screenshot, notes=notes, limit_s=timeout_s, target=target
            )
        except api.Error as error:
            raise _browser_gone(error, target) from error
        finally:
            await _close(chromium)


async def _open(page: Any, address: str, target: str, timeout_s: float, notes: list[str]) -> None:
    """Go to the address and wait until it can be read. Raises CaptureError."""
    api = require_playwright()
    downloads: list[Any] = []
    page.on("download", lambda download: downloads.append(download))
    page.on("dialog", lambda dialog: asyncio.ensure_future(_dismiss(dialog, notes)))
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
        raise _not_opened(str(error), target, downloads) from error
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
        content_type = await asyncio.wait_for(page.evaluate("document.contentType"), max(1.0, started + timeout_s - time.monotonic()))
    except asyncio.TimeoutError as error:
        raise CaptureTimeout(f"{target}: the page did not respond within {timeout_s:g} s (a script is busy)", target=target) from error
    if content_type not in HTML_TYPES:
        raise NotAPage(f"{target}: holds {content_type}, not an HTML page", target=target)
    if ready:
        await _settle(page, started + budget)


_QUIET = """([quiet, limit]) => new Promise(done => {
    let timer = setTimeout(done, quiet);
    const observer = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(finish, quiet); });
    function finish() { observer.disconnect(); done(); }
    clearTimeout(timer); timer = setTimeout(finish, quiet);
    setTimeout(finish, limit);
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
})"""


async def _settle(page: Any, until: float) -> None:
    """Wait until the document rests for a moment: many pages fill themselves after `load`."""
    limit_s = min(QUIET_LIMIT_S, until - time.monotonic())
    if limit_s <= 0:
        return
    try:
        await asyncio.wait_for(page.evaluate(_QUIET, [QUIET_MS, limit_s * 1000]), limit_s + 1.0)
    except (asyncio.TimeoutError, require_playwright().Error):
        return  # it navigated or is busy; reading it has its own deadline


async def _dismiss(dialog: Any, notes: list[str]) -> None:
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
        return await asyncio.wait_for(_read(page, inner, screenshot, notes if notes is not None else []), timeout_s)
    except asyncio.TimeoutError as error:
        shown = timeout_s if limit_s is None else limit_s
        raise CaptureTimeout(
            f"{target}: the page could not be read within {shown:g} s (a script is busy, or a dialog is open); give it more time",
            target=target,
        ) from error
    except api.Error as error:
        raise _browser_gone(error, target) from error


async def _read(page: Any, inner: Any, screenshot: bool, notes: list[str]) -> Snapshot:
    async with cdp.page_session(inner) as session:
        reading = await cdp.read_page(inner, session)
        layouts = [judge_layout(frame.dom, viewport=_visible_size(reading, k)) for k, frame in enumerate(reading.frames)]
        blocked = await _blocked(session, reading, layouts[0])
        picture = await cdp.take_screenshot(session, reading.content_size) if screenshot else None
    labels = _labels(page, reading)
    return _merge(reading, layouts, labels, blocked, notes, picture)


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


def _visible_size(reading: cdp.PageReading, k: int) -> tuple[float, float]:
    owner = reading.frames[k].owner
    if owner is None:
        return reading.viewport
    dom = reading.frames[owner[0]].dom
    _, _, w, h = dom.boxes[dom.node_of[owner[1]]]
    return w, h


def _labels(page: Any, reading: cdp.PageReading) -> list[str]:
    """'' for the page's own document, `f1`, `f2` for the others; a document keeps its label while the page lives."""
    known = _frame_labels.setdefault(page, {})
    labels = []
    for frame in reading.frames:
        document = (frame.frame_id, frame.loader_id)
        if frame.owner is None:
            labels.append("")
            continue
        if document not in known:
            known[document] = f"f{len(known) + 1}"
        labels.append(known[document])
    return labels


def _merge(
    reading: cdp.PageReading, layouts: list[Layout], labels: list[str], blocked: frozenset[int], notes: list[str], picture: bytes | None
) -> Snapshot:
    """One list of nodes, child frames below the nodes of their frame elements; keys and boxes in the page's terms."""
    nodes: list[dict[str, Any]] = []
    boxes: dict[str, Box] = {}
    invisible: set[str] = set()
    clickable: set[str] = set()
    shown: list[bool] = []
    origins: list[tuple[float, float]] = []
    holders: list[dict[int, dict[str, Any]]] = []
    counts: dict[str, int] = {}
    hidden_frames = 0
    for frame, layout, label in zip(reading.frames, layouts, labels, strict=True):
        dom = frame.dom
        parent_node: dict[str, Any] | None = None
        origin = frame.origin
        if frame.owner is not None:
            above, backend = frame.owner
            origin = (origins[above][0] + frame.origin[0], origins[above][1] + frame.origin[1])
            parent_node = holders[above].get(backend) if shown[above] else None
            if parent_node is None or reading.frames[above].dom.node_of[backend] in layouts[above].invisible:
                hidden_frames += 1
                shown.append(False)
                origins.append(origin)
                holders.append({})
                continue

        def key(backend: int, label: str = label) -> str:
            return f"{label}:{backend}" if label else str(backend)

        own = _own_nodes(frame.ax_nodes)
        for note in complete_frame(own, dom, layout, key=key, viewport=_visible_size(reading, len(shown))):
            counts[note] = counts.get(note, 0) + 1
        if frame.owner is None:
            notes.extend(_mark_blocked(own, frame, layout, blocked))
        for node in own:
            backend_id = node.get("backendDOMNodeId")
            i = dom.node_of.get(backend_id, -1) if isinstance(backend_id, int) else -1
            if i >= 0 and i in dom.boxes:
                x, y, w, h = dom.boxes[i]
                boxes[key(dom.backend_id[i])] = (round(x + origin[0], 1), round(y + origin[1], 1), round(w, 1), round(h, 1))
                if i in layout.invisible:
                    invisible.add(key(dom.backend_id[i]))
                if i in layout.clickable:
                    clickable.add(key(dom.backend_id[i]))
            if label:
                _prefix(node, label)
        if parent_node is not None and own:
            own[0]["parentId"] = parent_node["nodeId"]
            parent_node["childIds"] = [*(parent_node.get("childIds") or ()), own[0]["nodeId"]]
        nodes.extend(own)
        shown.append(True)
        origins.append(origin)
        holders.append({node["backendDOMNodeId"]: node for node in own if isinstance(node.get("backendDOMNodeId"), int)})
    notes.extend(counts)
    if hidden_frames:
        notes.append(f"{hidden_frames} frames that cannot be seen left out")
    if reading.lost:
        notes.append(f"{reading.lost} frames could not be read")
    main = reading.frames[0]
    return Snapshot(
        url=main.url or main.dom.url,
        title=main.dom.title,
        viewport=reading.viewport,
        nodes=tuple(nodes),
        boxes=boxes,
        invisible=frozenset(invisible),
        clickable=frozenset(clickable),
        notes=tuple(notes),
        screenshot=picture,
    )


def _own_nodes(ax_nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copies of the nodes, root first, without line boxes (they repeat every text) and without how names were found."""
    own = []
    dropped = {str(node["nodeId"]) for node in ax_nodes if node.get("role", {}).get("value") == "InlineTextBox"}
    for node in ax_nodes:
        if str(node["nodeId"]) in dropped:
            continue
        copy = dict(node)
        for name in ("name", "description", "value"):
            if isinstance(copy.get(name), dict):
                copy[name] = {key: value for key, value in copy[name].items() if key != "sources"}
        if "childIds" in copy:
            copy["childIds"] = [child for child in copy["childIds"] if str(child) not in dropped]
        if "properties" in copy:
            copy["properties"] = [dict(entry) for entry in copy["properties"]]
        own.append(copy)
    own.sort(key=lambda node: "parentId" in node)
    return own


def _prefix(node: dict[str, Any], label: str) -> None:
    node["nodeId"] = f"{label}:{node['nodeId']}"
    node["frame"] = label
    if "parentId" in node:
        node["parentId"] = f"{label}:{node['parentId']}"
    if "childIds" in node:
        node["childIds"] = [f"{label}:{child}" for child in node["childIds"]]


def _mark_blocked(own: list[dict[str, Any]], frame: cdp.FrameReading, layout: Layout, blocked: frozenset[int]) -> list[str]:
    """`blocked` on each covered control, `modal` on what covers them; returns the note."""
    if not blocked or layout.overlay is None:
        return []
    dom = frame.dom
    backends = {dom.backend_id[i] for i in blocked if dom.node_type[i] == ELEMENT}
    clickable = {dom.backend_id[i] for i in layout.clickable}
    overlay = dom.backend_id[layout.overlay]
    count = 0
    for node in own:
        backend = node.get("backendDOMNodeId")
        if backend == overlay:
            if node.get("ignored"):
                node["ignored"], node["role"] = False, {"type": "role", "value": "generic"}
                node.pop("ignoredReasons", None)
            node.setdefault("properties", []).append({"name": "modal", "value": {"type": "boolean", "value": True}})
        elif (
            backend in backends and not node.get("ignored") and (node.get("role", {}).get("value") in WIDGET_ROLES or backend in clickable)
        ):
            node.setdefault("properties", []).append({"name": "blocked", "value": {"type": "boolean", "value": True}})
            count += 1
    return [f"{count} controls are covered by [{overlay}] until it is closed"] if count else []


def _not_opened(message: str, target: str, downloads: list[Any]) -> CaptureError:
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


def _browser_gone(error: Exception, target: str) -> BrowserError:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return BrowserError(f"{target}: the browser stopped or closed the page ({reason[:160]})", target=target)


async def _close(chromium: Any) -> None:
    """Close the browser, or stop waiting for one that does not answer; Playwright's own exit ends it then."""
    try:
        await asyncio.wait_for(chromium.close(), 5.0)
    except (asyncio.TimeoutError, require_playwright().Error):
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
