"""From an element's id on a captured live page to the element itself.

Enters: a live Playwright page, an id that a capture of it gave, and a name. Leaves: the element, reachable under that
name as a global of its frame, from where Playwright can take it; every kind of shadow root and every frame is reached, and the document is
left as it is. An id of a document that the page has left, or of an element that was removed, is an `ElementGone`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from region4web import cdp
from region4web.browser import require_playwright
from region4web.errors import BrowserError, CaptureTimeout, ElementGone
from region4web.frames import read_documents_of

__all__ = ["expose_element", "expose_element_async"]

_EXPOSE = """function(name) {
    let element = this;
    while (element && element.nodeType !== 1) element = element.parentNode || element.host;
    if (!element || !element.isConnected) return false;
    globalThis[name] = element;
    return true;
}"""


def expose_element(page: Any, key: str, name: str, *, timeout_s: float = 5.0) -> None:
    """Make element `key` of a sync page the global `name` of its frame. Raises ElementGone, CaptureTimeout."""
    page._sync(_expose_before(page, page._impl_obj, key, name, timeout_s))


async def expose_element_async(page: Any, key: str, name: str, *, timeout_s: float = 5.0) -> None:
    """Make element `key` of an async page the global `name` of its frame. Raises ElementGone, CaptureTimeout."""
    await _expose_before(page, page, key, name, timeout_s)


async def _expose_before(page: Any, inner: Any, key: str, name: str, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(_expose(page, inner, key, name), timeout_s)
    except TimeoutError as error:
        raise CaptureTimeout(
            f"{inner.url}: the page did not respond within {timeout_s:g} s (a script is busy, or a dialog is open)"
        ) from error
    except require_playwright().Error as error:
        raise BrowserError(f"the browser stopped or closed the page ({str(error).splitlines()[0][:160]})") from error


async def _expose(page: Any, inner: Any, key: str, name: str) -> None:
    label, _, number = key.rpartition(":")
    document = read_documents_of(page).get(label)
    if document is None or not number.isdecimal():
        raise ElementGone(f"no element {key!r}: it is no id of the page as it was last read")
    async with cdp.page_session(inner) as session:
        if await _holds(session, document):
            await _expose_in(session, key, int(number), name)
            return
        for frame in inner.frames:
            other = None if frame == inner.main_frame or not label else await _foreign_session(inner, frame)
            if other is None:
                continue
            try:
                if await _holds(other, document):
                    await _expose_in(other, key, int(number), name)
                    return
            finally:
                await other.close()
    raise ElementGone(f"element {key} belonged to a document that the page has left since")


async def _foreign_session(inner: Any, frame: Any) -> cdp.DevTools | None:
    """A session for a frame of another process; None for the others."""
    try:
        return await cdp.open_session(inner, frame)
    except Exception as error:
        if not cdp.is_protocol_error(error):
            raise
        return None


async def _holds(session: cdp.DevTools, document: tuple[str, str]) -> bool:
    """Whether this frame still shows this document in the process of `session`."""
    return (await cdp.current_documents(session)).get(document[0]) == document[1]


async def _expose_in(session: cdp.DevTools, key: str, backend_id: int, name: str) -> None:
    try:
        resolved = await session.send("DOM.resolveNode", {"backendNodeId": backend_id})
        reply = await session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": resolved["object"]["objectId"],
                "functionDeclaration": _EXPOSE,
                "arguments": [{"value": name}],
                "returnByValue": True,
            },
        )
    except Exception as error:
        if not cdp.is_protocol_error(error):
            raise
        raise ElementGone(f"element {key} is no longer on the page") from error
    if reply.get("result", {}).get("value") is not True:
        raise ElementGone(f"element {key} is no longer on the page")
