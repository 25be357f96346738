"""All frames of a page as one snapshot.

Enters: a `PageReading` and the layout of each frame. Leaves: a `Snapshot`: nodes of child frames below the nodes of
their frame elements, keys that are unique on the page, boxes from the page's origin. A document keeps its frame label
as long as the live page it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from region4web.cdp import PageReading
from region4web.domsnapshot import DomDocument
from region4web.layout import Layout
from region4web.masking import mask_fields
from region4web.properties import mark_blocked
from region4web.recovery import complete_frame
from region4web.snapshot import Box, Snapshot

__all__ = ["frame_labels", "merge_frames", "read_documents_of", "visible_size"]

_known_labels: WeakKeyDictionary[Any, dict[tuple[str, str], str]] = WeakKeyDictionary()
_read_documents: WeakKeyDictionary[Any, dict[str, tuple[str, str]]] = WeakKeyDictionary()
DROPPED_ROLES = frozenset({"InlineTextBox", "ListMarker"})


def visible_size(reading: PageReading, k: int) -> tuple[float, float]:
    """Width and height of the window that frame k is seen through."""
    owner = reading.frames[k].owner
    if owner is None:
        return reading.viewport
    dom = reading.frames[owner[0]].dom
    _, _, w, h = dom.boxes[dom.node_of[owner[1]]]
    return w, h


def frame_labels(page: Any, reading: PageReading) -> list[str]:
    """'' for the page's own document, `f1`, `f2` for the others; a document keeps its label while the page lives."""
    known = _known_labels.setdefault(page, {})
    labels = []
    for frame in reading.frames:
        document = (frame.frame_id, frame.loader_id)
        if frame.owner is None:
            labels.append("")
            continue
        if document not in known:
            known[document] = f"f{len(known) + 1}"
        labels.append(known[document])
    _read_documents[page] = {label: (frame.frame_id, frame.loader_id) for label, frame in zip(labels, reading.frames, strict=True)}
    return labels


def read_documents_of(page: Any) -> Mapping[str, tuple[str, str]]:
    """(frame id, loader id) by frame label, of the documents that the last reading of a live page found."""
    return _read_documents.get(page, {})


def merge_frames(
    reading: PageReading, layouts: list[Layout], labels: list[str], blocked: frozenset[int], notes: list[str], picture: bytes | None
) -> Snapshot:
    """One list of nodes, child frames below the nodes of their frame elements; keys and boxes in the page's terms.

    `blocked` are nodes of the page's own document that an overlay covers.
    """
    nodes: list[dict[str, Any]] = []
    boxes: dict[str, Box] = {}
    invisible: set[str] = set()
    clickable: set[str] = set()
    placed: list[_Placed | None] = []
    counts: dict[str, int] = {}
    for k, (frame, layout, label) in enumerate(zip(reading.frames, layouts, labels, strict=True)):
        place = _place(reading, layouts, placed, blocked, k)
        placed.append(place)
        if place is None:
            continue
        dom = frame.dom

        def key(backend: int, label: str = label) -> str:
            return f"{label}:{backend}" if label else str(backend)

        own = _own_nodes(frame.ax_nodes, frame.dom)
        mask_fields(own)
        for note in complete_frame(own, dom, layout, key=key, viewport=visible_size(reading, k)):
            counts[note] = counts.get(note, 0) + 1
        if place.covered:
            mark_blocked(own, dom, layout, None)
        elif frame.owner is None:
            notes.extend(mark_blocked(own, dom, layout, blocked))
        unseen = _unseen(own, dom, layout)
        for node in own:
            backend = node.get("backendDOMNodeId")
            i = dom.node_of.get(backend, -1) if isinstance(backend, int) else -1
            if i >= 0 and isinstance(backend, int):
                place.node_of[backend] = node
                if i in dom.boxes:
                    x, y, w, h = dom.boxes[i]
                    boxes[key(backend)] = (round(x + place.origin[0], 1), round(y + place.origin[1], 1), round(w, 1), round(h, 1))
                if backend in unseen:
                    invisible.add(key(backend))
                if i in layout.clickable:
                    clickable.add(key(backend))
            if label:
                _prefix(node, label)
        if place.holder is not None and own:
            own[0]["parentId"] = place.holder["nodeId"]
            place.holder["childIds"] = [*(place.holder.get("childIds") or ()), own[0]["nodeId"]]
        nodes.extend(own)
    notes.extend(f"{note} (in {count} frames)" if count > 1 else note for note, count in counts.items())
    if left_out := placed.count(None):
        notes.append(f"frames that cannot be seen, left out: {left_out}")
    if reading.lost:
        notes.append(f"frames that could not be read: {reading.lost}")
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


def _unseen(nodes: list[dict[str, Any]], dom: DomDocument, layout: Layout) -> set[int]:
    """Backend ids of nodes that cannot be seen; a node that owns one that can be seen (aria-owns) counts as seen with it."""
    unseen = {dom.backend_id[i] for i in layout.invisible}
    by_id = {str(node["nodeId"]): node for node in nodes}
    for node in nodes:
        backend = node.get("backendDOMNodeId")
        if not isinstance(backend, int) or backend in unseen or dom.node_of.get(backend, -1) not in dom.boxes:
            continue
        above = by_id.get(str(node.get("parentId")))
        while above is not None and above.get("backendDOMNodeId") in unseen:
            unseen.discard(above["backendDOMNodeId"])
            above = by_id.get(str(above.get("parentId")))
    return unseen


@dataclass(frozen=True)
class _Placed:
    """A frame that is on the page: its origin there, the node that holds it, its own nodes by backend id, whether an overlay covers it."""

    origin: tuple[float, float]
    holder: dict[str, Any] | None
    covered: bool
    node_of: dict[int, dict[str, Any]] = field(default_factory=dict)


def _place(reading: PageReading, layouts: list[Layout], placed: list[_Placed | None], blocked: frozenset[int], k: int) -> _Placed | None:
    """Where frame k goes; None when its frame element cannot be seen or is not in the accessibility tree."""
    frame = reading.frames[k]
    if frame.owner is None:
        return _Placed((0.0, 0.0), None, False)
    above, backend = frame.owner
    parent = placed[above]
    i = reading.frames[above].dom.node_of[backend]
    if parent is None or backend not in parent.node_of or parent.node_of[backend].get("ignored") or i in layouts[above].invisible:
        return None
    origin = (parent.origin[0] + frame.origin[0], parent.origin[1] + frame.origin[1])
    return _Placed(origin, parent.node_of[backend], parent.covered or (reading.frames[above].owner is None and i in blocked))


def _own_nodes(ax_nodes: list[dict[str, Any]], dom: DomDocument) -> list[dict[str, Any]]:
    """Copies of the nodes, root first, without line boxes and list markers (they repeat texts) and without how names were found."""
    own = []
    dropped: set[str] = set()
    markers = {dom.backend_id[i] for i, name in enumerate(dom.name) if name == "::marker"}
    pending = [node for node in ax_nodes if node.get("role", {}).get("value") in DROPPED_ROLES or node.get("backendDOMNodeId") in markers]
    by_id = {str(node["nodeId"]): node for node in ax_nodes} if pending else {}
    while pending:
        node = pending.pop()
        if str(node["nodeId"]) not in dropped:
            dropped.add(str(node["nodeId"]))
            pending.extend(by_id[str(child)] for child in node.get("childIds") or () if str(child) in by_id)
    for node in ax_nodes:
        if str(node["nodeId"]) in dropped:
            continue
        copy = dict(node)
        for name in ("name", "description", "value"):
            if isinstance(copy.get(name), dict) and "sources" in copy[name]:
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
