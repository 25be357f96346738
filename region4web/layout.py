"""What of a document can be seen, clicked, scrolled, and what an overlay covers.

Enters: a `DomDocument`. Leaves: sets of its nodes. Everything is computed from one reply of the browser, in linear
time and without recursion; the page is asked nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from region4web.domsnapshot import ELEMENT, TEXT, DomDocument
from region4web.ink import Inks, clips_all
from region4web.snapshot import Box

__all__ = ["CONTROLS", "Layout", "judge_layout"]

CONTROLS = frozenset({"A", "BUTTON", "INPUT", "SELECT", "TEXTAREA", "SUMMARY", "OPTION", "LABEL", "AUDIO", "VIDEO"})
"""Elements that answer to the pointer by themselves."""

PAGE_ELEMENTS = frozenset({"HTML", "BODY", "#document"})
OVERLAY_SHARE = 0.9
"""Share of the viewport from which on a positioned element counts as covering the page."""

_Clip = tuple[float, float, float, float]  # left, top, right, bottom
_NOWHERE_CLIPPED: _Clip = (float("-inf"), float("-inf"), float("inf"), float("inf"))


@dataclass(frozen=True)
class Layout:
    """Sets of node positions of one document.

    `invisible`: laid out, but neither it nor anything below it can be seen. `clickable`: has a click listener or the pointer cursor begins there.
    `scrollable`: node -> directions (`vertical`, `horizontal`, `both`) in which its content is larger than it is.
    `overlay`: the node that covers the viewport, None if there is none; `blocked`: nodes below it in paint order.
    """

    invisible: frozenset[int]
    clickable: frozenset[int]
    scrollable: dict[int, str]
    overlay: int | None
    blocked: frozenset[int]


def judge_layout(document: DomDocument, *, viewport: tuple[float, float]) -> Layout:
    """Judge one document whose visible part has the size `viewport`."""
    invisible = _invisible(document)
    overlay = _overlay(document, viewport)
    return Layout(
        invisible=invisible,
        clickable=_clickable(document),
        scrollable=_scrollable(document, invisible),
        overlay=overlay,
        blocked=_blocked(document, overlay) if overlay is not None else frozenset(),
    )


def _invisible(document: DomDocument) -> frozenset[int]:
    count = len(document.parent)
    opacity = [1.0] * count
    flow: list[_Clip] = [_NOWHERE_CLIPPED] * count  # what clips a child in the flow
    positioned: list[_Clip] = [_NOWHERE_CLIPPED] * count  # what clips an absolutely positioned child
    seen = [False] * count
    inks = Inks(document)
    rtl = any(document.style(i, "direction") == "rtl" for i in range(min(count, 6)) if document.name[i] == "HTML")
    for i in range(count):
        p = document.parent[i]
        if p >= 0:
            opacity[i], flow[i], positioned[i] = opacity[p], flow[p], positioned[p]
        box = document.boxes.get(i)
        styles = document.styles.get(i)
        if box is None:
            continue
        if styles is None or document.node_type[i] == TEXT:  # it looks as its parent does
            hidden = p >= 0 and document.style(p, "visibility") in ("hidden", "collapse")
            seen[i] = not hidden and opacity[i] > 0.02 and _can_be_seen(box, flow[i], rtl) and not inks.is_unreadable(i)
            continue
        opacity[i] *= _number(document.style(i, "opacity"), 1.0)
        position = document.style(i, "position")
        clip = _NOWHERE_CLIPPED if position == "fixed" else positioned[i] if position == "absolute" else flow[i]
        hidden = document.style(i, "visibility") in ("hidden", "collapse")
        if clips_all(document.style(i, "clip-path"), document.style(i, "clip") if position in ("absolute", "fixed") else ""):
            opacity[i] = 0.0
        seen[i] = not hidden and opacity[i] > 0.02 and _can_be_seen(box, clip, rtl)
        if document.name[i] not in PAGE_ELEMENTS:
            clip = _clipped(clip, box, document.style(i, "overflow-x"), document.style(i, "overflow-y"))
        flow[i] = clip
        if position not in ("static", ""):
            positioned[i] = clip
    for i in range(count - 1, 0, -1):
        if seen[i] and document.parent[i] >= 0:
            seen[document.parent[i]] = True
    _see_labelled(document, seen)
    return frozenset(i for i in document.boxes if not seen[i])


def _can_be_seen(box: Box, clip: _Clip, rtl: bool) -> bool:
    """Whether more than a pixel of the box is inside the clip and can be scrolled to."""
    left, top = max(box[0], clip[0]), max(box[1], clip[1])
    right, bottom = min(box[0] + box[2], clip[2]), min(box[1] + box[3], clip[3])
    if right <= left or bottom <= top or (right - left) * (bottom - top) <= 1.0:
        return False
    return bottom > 0 and (rtl or right > 0)


def _clipped(clip: _Clip, box: Box, overflow_x: str, overflow_y: str) -> _Clip:
    left, top, right, bottom = clip
    if overflow_x in ("hidden", "clip"):
        left, right = max(left, box[0]), min(right, box[0] + box[2])
    elif overflow_x in ("auto", "scroll") and min(right, box[0] + box[2]) > max(left, box[0]):
        left, right = float("-inf"), float("inf")  # its content can be scrolled into what is seen of it
    if overflow_y in ("hidden", "clip"):
        top, bottom = max(top, box[1]), min(bottom, box[1] + box[3])
    elif overflow_y in ("auto", "scroll") and min(bottom, box[1] + box[3]) > max(top, box[1]):
        top, bottom = float("-inf"), float("inf")
    return left, top, right, bottom


def _see_labelled(document: DomDocument, seen: list[bool]) -> None:
    """A transparent check box or file input that a visible label stands for can be used, so it counts as seen."""
    labels = {document.attributes[i].get("for"): i for i, name in enumerate(document.name) if name == "LABEL" and seen[i]}
    for i, name in enumerate(document.name):
        if name != "INPUT" or seen[i] or i not in document.boxes:
            continue
        attributes = document.attributes[i]
        if attributes.get("type", "").lower() not in ("checkbox", "radio", "file"):
            continue
        around = document.parent[i]
        while around >= 0 and document.name[around] != "LABEL":
            around = document.parent[around]
        if (around >= 0 and seen[around]) or (attributes.get("id") and attributes["id"] in labels):
            seen[i] = True


def _clickable(document: DomDocument) -> frozenset[int]:
    """Elements with a listener, an `onclick`, or where the pointer cursor begins; not those that only delegate."""
    count = len(document.parent)
    pointer = [False] * count
    controls_below = [0] * count
    for i in range(count):
        p = document.parent[i]
        pointer[i] = document.style(i, "cursor") == "pointer" if i in document.styles else p >= 0 and pointer[p]
    for i in range(count - 1, 0, -1):
        p = document.parent[i]
        own = document.name[i] in CONTROLS or i in document.listeners or "tabindex" in document.attributes[i]
        controls_below[p] += controls_below[i] + own
    found = set()
    for i in range(count):
        if document.node_type[i] != ELEMENT or document.name[i] in PAGE_ELEMENTS or i not in document.boxes:
            continue
        p = document.parent[i]
        begins = pointer[i] and not (p >= 0 and pointer[p])
        listens = i in document.listeners or "onclick" in document.attributes[i]
        if begins or (listens and (pointer[i] or document.name[i] in CONTROLS or not controls_below[i])):
            found.add(i)
    return frozenset(found)


def _scrollable(document: DomDocument, invisible: frozenset[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for i, (client_w, client_h, _, _, scroll_w, scroll_h) in document.scroll_size.items():
        if document.node_type[i] != ELEMENT or document.name[i] in PAGE_ELEMENTS or i in invisible:
            continue
        if document.name[i] in ("TEXTAREA", "INPUT", "SELECT") or min(client_w, client_h) < 20:
            continue
        down = document.style(i, "overflow-y") in ("auto", "scroll") and scroll_h > client_h + 1
        across = document.style(i, "overflow-x") in ("auto", "scroll") and scroll_w > client_w + 1
        if down or across:
            found[i] = "both" if down and across else "vertical" if down else "horizontal"
    return found


def _overlay(document: DomDocument, viewport: tuple[float, float]) -> int | None:
    """The topmost positioned element that takes the pointer over nearly the whole viewport and is painted above content."""
    width, height = viewport
    left, top = document.scroll
    best: int | None = None
    for i, (x, y, w, h) in document.boxes.items():
        if document.style(i, "position") not in ("fixed", "absolute") or document.style(i, "pointer-events") == "none":
            continue
        if document.style(i, "visibility") in ("hidden", "collapse") or document.name[i] in PAGE_ELEMENTS:
            continue
        covered_w = max(0.0, min(x + w, left + width) - max(x, left))
        covered_h = max(0.0, min(y + h, top + height) - max(y, top))
        if covered_w * covered_h < OVERLAY_SHARE * width * height:
            continue
        if best is None or document.paint.get(i, 0) >= document.paint.get(best, 0):
            best = i
    return best


def _blocked(document: DomDocument, overlay: int) -> frozenset[int]:
    """Elements under the overlay: painted before it, their centre in its box, not around it."""
    x, y, w, h = document.boxes[overlay]
    fixed = document.style(overlay, "position") == "fixed"
    around = {overlay}
    p = document.parent[overlay]
    while p >= 0:
        around.add(p)
        p = document.parent[p]
    limit = document.paint.get(overlay, 0)
    inside = range(overlay, document.end[overlay])
    found = []
    for i, order in document.paint.items():
        if order >= limit or i in around or i in inside or document.node_type[i] != ELEMENT:
            continue
        box = document.boxes[i]
        if fixed or (x <= box[0] + box[2] / 2 <= x + w and y <= box[1] + box[3] / 2 <= y + h):
            found.append(i)
    return frozenset(found)


def _number(value: str, default: float) -> float:
    try:
        return float(value)
    except ValueError:
        return default
