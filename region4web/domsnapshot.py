"""One document of CDP's `DOMSnapshot.captureSnapshot` as flat lists in document order.

Enters: the decoded reply. Leaves: a `DomDocument` for each frame that the reply covers. Nothing here judges what can
be seen or used; `layout` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from region4web.snapshot import Box

__all__ = ["COMPUTED_STYLES", "DomDocument", "read_documents"]

COMPUTED_STYLES = (
    "visibility",
    "opacity",
    "cursor",
    "pointer-events",
    "position",
    "overflow-x",
    "overflow-y",
    "direction",
    "padding-left",
    "padding-top",
    "border-left-width",
    "border-top-width",
    "color",
    "background-color",
    "background-image",
    "background-clip",
    "text-shadow",
    "font-size",
    "clip",
    "clip-path",
)

_STYLE_INDEX = {name: k for k, name in enumerate(COMPUTED_STYLES)}

ELEMENT, TEXT = 1, 3


@dataclass(frozen=True)
class DomDocument:
    """Nodes of one document, D of them, in document order: `parent[i] < i`, `parent[0] == -1`.

    `boxes`, `styles`, `paint`, `scroll_size` are by node, for nodes that were laid out. Boxes are in CSS px from the
    origin of this document. `styles[i]` follows COMPUTED_STYLES. `scroll_size[i]` is (client width, client height,
    scrolled x, scrolled y, scroll width, scroll height). `content_document[i]` is the position of a same-process frame's document in the reply.
    """

    frame_id: str
    url: str
    title: str
    scroll: tuple[float, float]
    parent: list[int]
    node_type: list[int]
    name: list[str]
    text: list[str]
    backend_id: list[int]
    attributes: list[dict[str, str]]
    boxes: dict[int, Box]
    styles: dict[int, tuple[str, ...]]
    paint: dict[int, int]
    scroll_size: dict[int, tuple[float, float, float, float, float, float]]
    listeners: frozenset[int]
    content_document: Mapping[int, int]
    shadow_root: Mapping[int, str]

    @cached_property
    def node_of(self) -> dict[int, int]:
        """Node by backend id."""
        return {backend: i for i, backend in enumerate(self.backend_id)}

    @cached_property
    def children(self) -> list[list[int]]:
        """(D,) children in document order."""
        lists: list[list[int]] = [[] for _ in self.parent]
        for i, p in enumerate(self.parent):
            if p >= 0:
                lists[p].append(i)
        return lists

    @cached_property
    def end(self) -> list[int]:
        """(D,) one past the last node of each subtree."""
        end = list(range(1, len(self.parent) + 1))
        for i in range(len(end) - 1, 0, -1):
            p = self.parent[i]
            if p >= 0 and end[i] > end[p]:
                end[p] = end[i]
        return end

    def style(self, i: int, name: str) -> str:
        """A computed style; '' when the node was not laid out."""
        values = self.styles.get(i)
        return values[_STYLE_INDEX[name]] if values else ""

    def pixels(self, i: int, name: str) -> float:
        """A computed length in px; 0 when there is none."""
        value = self.style(i, name).removesuffix("px")
        try:
            return float(value)
        except ValueError:
            return 0.0


def read_documents(reply: Mapping[str, Any], *, pixel_ratio: float = 1.0) -> list[DomDocument]:
    """All documents of a reply. `pixel_ratio` is device pixels a CSS px: the reply counts device pixels."""
    strings: Sequence[str] = reply["strings"]
    return [_document(document, strings, 1.0 / pixel_ratio) for document in reply["documents"]]


def _document(document: Mapping[str, Any], strings: Sequence[str], scale: float) -> DomDocument:
    def text(index: int) -> str:
        return strings[index] if index >= 0 else ""

    nodes, layout = document["nodes"], document["layout"]
    attributes = [{text(pair[k]): text(pair[k + 1]) for k in range(0, len(pair) - 1, 2)} for pair in nodes["attributes"]]
    boxes: dict[int, Box] = {}
    styles: dict[int, tuple[str, ...]] = {}
    paint: dict[int, int] = {}
    scroll_size: dict[int, tuple[float, float, float, float, float, float]] = {}
    paint_orders = layout.get("paintOrders") or ()
    client_rects, scroll_rects = layout.get("clientRects") or (), layout.get("scrollRects") or ()
    for k, i in enumerate(layout["nodeIndex"]):
        if i in boxes:
            continue
        x, y, w, h = layout["bounds"][k]
        boxes[i] = (x * scale, y * scale, w * scale, h * scale)
        if layout["styles"][k]:
            styles[i] = tuple(text(index) for index in layout["styles"][k])
        if k < len(paint_orders):
            paint[i] = paint_orders[k]
        if k < len(client_rects) and k < len(scroll_rects) and len(client_rects[k]) == 4 and len(scroll_rects[k]) == 4:
            scroll_size[i] = (client_rects[k][2], client_rects[k][3], *scroll_rects[k])
    return DomDocument(
        frame_id=text(document.get("frameId", -1)),
        url=text(document.get("documentURL", -1)),
        title=text(document.get("title", -1)),
        scroll=(document.get("scrollOffsetX", 0.0) * scale, document.get("scrollOffsetY", 0.0) * scale),
        parent=list(nodes["parentIndex"]),
        node_type=list(nodes["nodeType"]),
        name=[text(index) for index in nodes["nodeName"]],
        text=[text(index) for index in nodes["nodeValue"]],
        backend_id=list(nodes["backendNodeId"]),
        attributes=attributes,
        boxes=boxes,
        styles=styles,
        paint=paint,
        scroll_size=scroll_size,
        listeners=frozenset((nodes.get("isClickable") or {}).get("index", ())),
        content_document=_rare(nodes.get("contentDocumentIndex")),
        shadow_root={i: text(value) for i, value in _rare(nodes.get("shadowRootType")).items()},
    )


def _rare(data: Mapping[str, Any] | None) -> dict[int, int]:
    return dict(zip(data["index"], data["value"], strict=True)) if data else {}
