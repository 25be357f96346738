"""Every frame of a live page, read through the DevTools protocol in a handful of calls, however large the page.

Enters: a Playwright page's own object (the sync and the async page wrap the same one). Leaves: a `FrameReading` for
each frame, the page's own document first: accessibility nodes, the document laid out, where the frame sits on the
page. Frames of other processes have sessions of their own. Nothing here merges or interprets.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from region4web.derived import derive_nodes
from region4web.domsnapshot import COMPUTED_STYLES, DomDocument, read_documents

__all__ = [
    "DevTools",
    "FrameReading",
    "PageReading",
    "current_documents",
    "hit_test",
    "is_protocol_error",
    "open_session",
    "page_session",
    "read_page",
    "take_screenshot",
    "within",
]

T = TypeVar("T")

DETACH_TIMEOUT_S = 0.5
SCREENSHOT_HEIGHT_LIMIT = 16_000
"""Tallest picture in CSS px; Chromium's largest texture is 16,384."""


class DevTools:
    """A DevTools session of the sync or the async API.

    Its calls survive the cancelling of who waits for them: Playwright breaks on a broken call. They go to the object
    that both APIs wrap, because the wrappers walk through every value of an answer in search of Playwright objects,
    which takes seconds for a large page; its `send` has a third parameter in later releases.
    """

    def __init__(self, session: Any) -> None:
        self._session = getattr(session, "_impl_obj", session)
        self._more = (None,) if "timeout" in inspect.signature(self._session.send).parameters else ()

    async def send(self, method: str, params: Mapping[str, Any]) -> Any:
        return await _unbroken(self._session.send(method, dict(params), *self._more))

    async def close(self) -> None:
        """A session whose page has gone is closed already, and a busy page is not waited for."""
        from playwright.async_api import Error

        with contextlib.suppress(Error, TimeoutError):
            await asyncio.wait_for(_unbroken(self._session.detach()), DETACH_TIMEOUT_S)


@dataclass(frozen=True)
class FrameReading:
    """One frame. `owner` is (index of the reading, backend id) of the frame element; None for the page's own document.

    `origin` is where the frame's document begins, in CSS px of its parent's document, scrolling of the frame included. `document` is
    identified by `loader_id`: the same frame with another loader holds another document. `derived`: the nodes were made
    from the document, the browser's were not ready in time.
    """

    frame_id: str
    loader_id: str
    url: str
    ax_nodes: list[dict[str, Any]]
    dom: DomDocument
    owner: tuple[int, int] | None
    origin: tuple[float, float]
    session: DevTools
    derived: bool


@dataclass(frozen=True)
class PageReading:
    """All frames, a frame after its parent; `lost` counts frames that went away or could not be read."""

    frames: list[FrameReading]
    viewport: tuple[int, int]
    pixel_ratio: float
    content_size: tuple[float, float]
    lost: int


@contextlib.asynccontextmanager
async def page_session(page: Any) -> AsyncIterator[DevTools]:
    """A DevTools session of the page's own process, closed at the end."""
    session = await open_session(page, page)
    try:
        yield session
    finally:
        await session.close()


async def within(call: Awaitable[T], seconds: float) -> T:
    """Wait for a call of Playwright at most so long, without breaking it. Raises TimeoutError."""
    return await asyncio.wait_for(_unbroken(call), seconds)


async def _unbroken(call: Awaitable[T]) -> T:
    task = asyncio.ensure_future(call)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # when nobody waits any more
    return await asyncio.shield(task)


async def open_session(page: Any, target: Any) -> DevTools:
    """A DevTools session for `target`: the page or one of its frames."""
    return DevTools(await _unbroken(page.context.new_cdp_session(target)))


async def read_page(page: Any, session: DevTools, *, nodes_until: float) -> PageReading:
    """Read all frames of `page` through its `session`. Accessibility nodes that are not there at the time `nodes_until`
    (of `time.monotonic`) are derived from the document."""
    metrics = await session.send("Page.getLayoutMetrics", {})
    visual = metrics.get("cssVisualViewport") or metrics["visualViewport"]
    viewport = metrics.get("cssLayoutViewport") or metrics["layoutViewport"]
    content = metrics.get("cssContentSize") or metrics["contentSize"]
    device = metrics["layoutViewport"]["clientWidth"]
    pixel_ratio = device / viewport["clientWidth"] if viewport["clientWidth"] and device else 1.0
    frames, lost = await _read_process(session, None, pixel_ratio, nodes_until)
    foreign: list[DevTools] = []
    try:
        if len(page.frames) > len(frames) + lost:
            lost += await _read_foreign(page, frames, foreign, pixel_ratio, nodes_until)
    finally:
        for other in foreign:
            await other.close()
    return PageReading(
        frames=frames,
        viewport=(round(visual["clientWidth"]), round(visual["clientHeight"])),
        pixel_ratio=pixel_ratio,
        content_size=(content["width"], content["height"]),
        lost=lost,
    )


async def _read_process(
    session: DevTools, owner: tuple[int, int] | None, pixel_ratio: float, nodes_until: float, first: int = 0
) -> tuple[list[FrameReading], int]:
    """The frames that live in the process of `session`; `first` is the index that the first of them will have."""
    tree = (await session.send("Page.getFrameTree", {}))["frameTree"]
    reply = await session.send(
        "DOMSnapshot.captureSnapshot",
        {"computedStyles": list(COMPUTED_STYLES), "includePaintOrder": True, "includeDOMRects": True},
    )
    documents = read_documents(reply, pixel_ratio=pixel_ratio)
    loaders = _loaders(tree)
    readings: list[FrameReading] = []
    lost = 0
    pending: list[tuple[int, tuple[int, int] | None, tuple[float, float]]] = [(0, owner, (0.0, 0.0))]
    for position, above, origin in pending:  # grows while it is walked: parents come first
        dom = documents[position]
        loader_id, url = loaders.get(dom.frame_id, ("", dom.url))
        derived = False
        try:
            nodes = await within(_ax_nodes(session, dom.frame_id, is_root=position == 0), max(0.1, nodes_until - time.monotonic()))
        except TimeoutError:
            nodes, derived = derive_nodes(dom), True
        if nodes is None:
            lost += 1
            continue
        index = first + len(readings)
        readings.append(FrameReading(dom.frame_id, loader_id, url, nodes, dom, above, origin, session, derived))
        for i, child in dom.content_document.items():
            if i in dom.boxes:
                pending.append((child, (index, dom.backend_id[i]), frame_origin(dom, i, documents[child].scroll)))
    return readings, lost


async def _ax_nodes(session: DevTools, frame_id: str, *, is_root: bool) -> list[dict[str, Any]] | None:
    """Accessibility nodes of one frame; None when the frame has gone meanwhile."""
    try:
        reply = await session.send("Accessibility.getFullAXTree", {} if is_root else {"frameId": frame_id})
    except Exception as error:
        if is_root or not is_protocol_error(error):
            raise
        return None
    nodes: list[dict[str, Any]] = reply["nodes"]
    return nodes


async def _read_foreign(page: Any, frames: list[FrameReading], foreign: list[DevTools], pixel_ratio: float, nodes_until: float) -> int:
    """Append the frames of other processes to `frames`, their sessions to `foreign`; returns how many could not be read."""
    lost = 0
    for frame in page.frames:
        if frame == page.main_frame:
            continue
        try:
            session = await open_session(page, frame)
        except Exception as error:
            if not is_protocol_error(error):
                raise
            continue  # it lives in its parent's process and was read there, or it went away
        foreign.append(session)
        try:
            frame_id = (await session.send("Page.getFrameTree", {}))["frameTree"]["frame"]["id"]
            owner = await _owner(frames, frame_id)
            if owner is None:
                continue
            readings, gone = await _read_process(session, owner, pixel_ratio, nodes_until, first=len(frames))
        except Exception as error:
            if not is_protocol_error(error):
                raise
            lost += 1
            continue
        parent = frames[owner[0]].dom
        origin = frame_origin(parent, parent.node_of[owner[1]], readings[0].dom.scroll)
        readings[0] = replace(readings[0], origin=origin)
        frames.extend(readings)
        lost += gone
    return lost


async def _owner(frames: list[FrameReading], frame_id: str) -> tuple[int, int] | None:
    """The frame element that holds a foreign frame; None when it is not laid out."""
    asked: list[DevTools] = []
    for reading in list(frames):
        if any(reading.session is session for session in asked):
            continue
        asked.append(reading.session)
        try:
            await reading.session.send("DOM.enable", {})
            backend = (await reading.session.send("DOM.getFrameOwner", {"frameId": frame_id}))["backendNodeId"]
        except Exception as error:
            if not is_protocol_error(error):
                raise
            continue
        for index, candidate in enumerate(frames):
            if candidate.session is reading.session and backend in candidate.dom.node_of:
                node = candidate.dom.node_of[backend]
                return (index, backend) if node in candidate.dom.boxes else None
    return None


def frame_origin(dom: DomDocument, i: int, scroll: tuple[float, float]) -> tuple[float, float]:
    """Where the document of frame element `i` begins in its parent's document."""
    x, y, _, _ = dom.boxes[i]
    left = dom.pixels(i, "border-left-width") + dom.pixels(i, "padding-left")
    top = dom.pixels(i, "border-top-width") + dom.pixels(i, "padding-top")
    return x + left - scroll[0], y + top - scroll[1]


def _loaders(tree: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """frame id -> (loader id, url) of a frame tree."""
    found: dict[str, tuple[str, str]] = {}
    stack = [tree]
    while stack:
        entry = stack.pop()
        frame = entry["frame"]
        found[frame["id"]] = (frame.get("loaderId", ""), frame.get("url", "") + frame.get("urlFragment", ""))
        stack.extend(entry.get("childFrames") or ())
    return found


async def current_documents(session: DevTools) -> dict[str, str]:
    """frame id -> loader id of the frames that live in the process of `session`."""
    tree = (await session.send("Page.getFrameTree", {}))["frameTree"]
    return {frame_id: loader_id for frame_id, (loader_id, _) in _loaders(tree).items()}


_COVERED = """function(points) {
    const root = this.ownerDocument;
    return points.map(([x, y]) => {
        let hit = root.elementFromPoint(x, y);
        while (hit && hit.shadowRoot) {
            const inner = hit.shadowRoot.elementFromPoint(x, y);
            if (!inner || inner === hit) break;
            hit = inner;
        }
        while (hit && hit !== this) hit = hit.parentNode || hit.host;
        return hit === this;
    });
}"""


async def hit_test(session: DevTools, overlay_backend_id: int, points: list[tuple[float, float]]) -> list[bool]:
    """Whether a click at each point (CSS px of the viewport) would land on the overlay. Two calls, whatever the number of points."""
    resolved = await session.send("DOM.resolveNode", {"backendNodeId": overlay_backend_id})
    reply = await session.send(
        "Runtime.callFunctionOn",
        {
            "objectId": resolved["object"]["objectId"],
            "functionDeclaration": _COVERED,
            "arguments": [{"value": [list(point) for point in points]}],
            "returnByValue": True,
        },
    )
    value = reply.get("result", {}).get("value")
    return [bool(hit) for hit in value] if isinstance(value, list) else [False] * len(points)


async def take_screenshot(session: DevTools, content_size: tuple[float, float]) -> bytes:
    """A PNG of the whole page, cut at SCREENSHOT_HEIGHT_LIMIT."""
    import base64

    clip = {"x": 0, "y": 0, "width": max(1, content_size[0]), "height": min(max(1, content_size[1]), SCREENSHOT_HEIGHT_LIMIT), "scale": 1}
    reply = await session.send("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
    return base64.b64decode(reply["data"])


def is_protocol_error(error: BaseException) -> bool:
    """Whether the browser refused one command, as against a page or browser that is gone."""
    from playwright.async_api import Error

    text = str(error)
    return isinstance(error, Error) and "has been closed" not in text and "Target closed" not in text
