"""What the accessibility tree leaves out although a person can use it.

Enters: the accessibility nodes of one frame, its document and layout. Leaves: the nodes, changed in place (they are
this capture's own copies), and notes. Visible controls under `aria-hidden` are added, described as "hidden from
accessibility"; pointer-only and scrollable elements that the browser called uninteresting become generics again;
style and script source goes. `scrollable` (vertical, horizontal, both) is a property of its own; `hints` and
`properties` hold the rest of what is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

from region4web.domsnapshot import ELEMENT, DomDocument
from region4web.hints import SILENT, describe_unnamed, mark_unseen_names, short_text, shown_texts
from region4web.layout import Layout
from region4web.properties import WIDGET_ROLES, add_extents, add_property, add_relations, property_of

__all__ = ["HIDDEN_DESCRIPTION", "complete_frame", "control_role", "own_name"]

HIDDEN_DESCRIPTION = "hidden from accessibility"
INPUT_ROLES = {
    "checkbox": "checkbox", "radio": "radio", "submit": "button", "button": "button", "reset": "button", "image": "button",
    "range": "slider", "number": "spinbutton", "search": "searchbox",
}  # fmt: skip


def complete_frame(
    nodes: list[dict[str, Any]], dom: DomDocument, layout: Layout, *, key: Callable[[int], str], viewport: tuple[float, float]
) -> list[str]:
    """Complete the nodes of one frame. `key` makes an element's key from its backend id. Returns notes, one a kind."""
    notes: list[str] = []
    _drop_source_text(nodes, dom)
    by_backend = {node["backendDOMNodeId"]: node for node in nodes if isinstance(node.get("backendDOMNodeId"), int)}
    if recovered := _recover_hidden(nodes, by_backend, dom, layout):
        notes.append(f"visible controls hidden from accessibility, recovered from the document: {recovered}")
    _keep_usable_elements(by_backend, dom, layout)
    describe_unnamed(by_backend, dom, layout, viewport)
    mark_unseen_names(by_backend, dom, layout)
    add_relations(nodes, key)
    for i, direction in layout.scrollable.items():
        add_property(by_backend.get(dom.backend_id[i]), "scrollable", direction)
    add_extents(by_backend, dom)
    closed = [i for i, kind in dom.shadow_root.items() if kind == "closed"]
    hidden_controls = sum(
        node.get("role", {}).get("value") in WIDGET_ROLES and any(root <= dom.node_of[backend] < dom.end[root] for root in closed)
        for backend, node in by_backend.items()
        if closed and backend in dom.node_of and not node.get("ignored")
    )
    if hidden_controls:
        notes.append(f"controls in closed shadow roots, reached by ids and coordinates, not by selectors: {hidden_controls}")
    if any("inert" in dom.attributes[i] for i in dom.boxes if dom.node_type[i] == ELEMENT):
        notes.append("part of the page is inactive (inert) and not listed")
    return notes


def _drop_source_text(nodes: list[dict[str, Any]], dom: DomDocument) -> None:
    """No style or script source as text of the page, even where the page displays these elements."""
    silent: set[int] = set()
    for i, name in enumerate(dom.name):
        if name in SILENT and name != "HEAD":
            silent.update(dom.backend_id[j] for j in range(i, dom.end[i]))
    if not silent:
        return
    for node in nodes:
        if node.get("backendDOMNodeId") in silent:
            node["ignored"] = True
            node["name"] = {"type": "computedString", "value": ""}


def _recover_hidden(nodes: list[dict[str, Any]], by_backend: dict[int, dict[str, Any]], dom: DomDocument, layout: Layout) -> int:
    present = {property_of(node, "url") for node in nodes if not node.get("ignored")}
    by_id = {str(node["nodeId"]): node for node in nodes}
    count, i, size = 0, 0, len(dom.parent)
    while i < size:
        if dom.node_type[i] != ELEMENT or dom.attributes[i].get("aria-hidden", "").lower() != "true" or _is_inert(dom, i):
            i += 1
            continue
        j = i
        while j < dom.end[i]:
            role = control_role(dom, j)
            if role is None or j not in dom.boxes or j in layout.invisible:
                j += 1
                continue
            href = dom.attributes[j].get("href")
            name = own_name(dom, j)
            known = by_backend.get(dom.backend_id[j])
            twin = href is not None and urljoin(dom.url, href) in present
            if (known is None or known.get("ignored")) and not twin and (name or href or role not in ("link", "button")):
                _place(nodes, by_backend, by_id, dom, j, _synthetic(dom, j, role, name))
                count += 1
            j = dom.end[j]
        i = dom.end[i]
    return count


def control_role(dom: DomDocument, i: int) -> str | None:
    """The role of an element that a person could use, else None."""
    if dom.node_type[i] != ELEMENT:
        return None
    name, attributes = dom.name[i], dom.attributes[i]
    if "disabled" in attributes:
        return None
    role = attributes.get("role", "").split(" ")[0].lower()
    if role in WIDGET_ROLES:
        return role
    if name == "A" and "href" in attributes:
        return "link"
    if name == "BUTTON" or name == "SUMMARY":
        return "button"
    if name == "INPUT" and attributes.get("type", "text").lower() != "hidden":
        return INPUT_ROLES.get(attributes.get("type", "text").lower(), "textbox")
    if name == "SELECT":
        return "combobox"
    if name == "TEXTAREA":
        return "textbox"
    return "button" if "onclick" in attributes else None


def own_name(dom: DomDocument, i: int) -> str:
    """A name from the document alone: aria-label, text, alternative text, title, placeholder, value of a button."""
    attributes = dom.attributes[i]
    if label := attributes.get("aria-label", "").strip():
        return short_text(label)
    parts = [] if dom.name[i] in ("SELECT", "TEXTAREA") else shown_texts(dom, i)
    if text := short_text(" ".join(parts)):
        return text
    names = ["title", "placeholder", "name"]
    if dom.name[i] == "INPUT" and attributes.get("type", "").lower() in ("submit", "button", "reset"):
        names.insert(0, "value")
    return next((short_text(attributes[name]) for name in names if attributes.get(name, "").strip()), "")


def _synthetic(dom: DomDocument, i: int, role: str, name: str) -> dict[str, Any]:
    backend = dom.backend_id[i]
    node: dict[str, Any] = {
        "nodeId": f"hidden-{backend}",
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "description": {"type": "computedString", "value": HIDDEN_DESCRIPTION},
        "properties": [{"name": "hint", "value": {"type": "string", "value": HIDDEN_DESCRIPTION}}],
        "childIds": [],
        "backendDOMNodeId": backend,
    }
    attributes = dom.attributes[i]
    if "href" in attributes:
        node["properties"].append({"name": "url", "value": {"type": "string", "value": urljoin(dom.url, attributes["href"])}})
    if (
        dom.name[i] == "INPUT"
        and role in ("textbox", "searchbox", "spinbutton", "slider")
        and attributes.get("type", "").lower() != "password"
    ):
        node["value"] = {"type": "string", "value": attributes.get("value", "")}
    return node


def _place(
    nodes: list[dict[str, Any]],
    by_backend: dict[int, dict[str, Any]],
    by_id: dict[str, dict[str, Any]],
    dom: DomDocument,
    i: int,
    node: dict[str, Any],
) -> None:
    """Put a synthetic node where its element is: in place of its ignored node, else below the nearest ancestor that has one."""
    known = by_backend.get(dom.backend_id[i])
    if known is not None:
        node["nodeId"], node["childIds"] = known["nodeId"], known.get("childIds", [])
        if "parentId" in known:
            node["parentId"] = known["parentId"]
        known.clear()
        known.update(node)
        return
    p = dom.parent[i]
    while p >= 0 and dom.backend_id[p] not in by_backend:
        p = dom.parent[p]
    parent = by_backend[dom.backend_id[p]] if p >= 0 else nodes[0]
    node["parentId"] = parent["nodeId"]
    siblings = list(parent.get("childIds") or ())
    at = len(siblings)
    for k, sibling in enumerate(siblings):
        position = dom.node_of.get(by_id.get(str(sibling), {}).get("backendDOMNodeId", -1))
        if position is not None and position > i:
            at = k
            break
    siblings.insert(at, node["nodeId"])
    parent["childIds"] = siblings
    nodes.append(node)
    by_backend[dom.backend_id[i]] = node
    by_id[node["nodeId"]] = node


def _is_inert(dom: DomDocument, i: int) -> bool:
    while i >= 0:
        if "inert" in dom.attributes[i]:
            return True
        i = dom.parent[i]
    return False


def _keep_usable_elements(by_backend: dict[int, dict[str, Any]], dom: DomDocument, layout: Layout) -> None:
    for i in (layout.clickable | layout.scrollable.keys()) - layout.invisible:
        node = by_backend.get(dom.backend_id[i])
        if node is None or not node.get("ignored"):
            continue
        reasons = {reason.get("name") for reason in node.get("ignoredReasons") or ()}
        if reasons <= {"uninteresting"}:
            node["ignored"] = False
            node["role"] = {"type": "role", "value": "generic"}
            node.setdefault("name", {"type": "computedString", "value": ""})
            node.pop("ignoredReasons", None)
