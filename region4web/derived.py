"""Accessibility nodes made from the document alone, for a page whose own are not ready in time.

Enters: a `DomDocument`. Leaves: CDP-like nodes of what is laid out: roles by element and `role` attribute, names by
label and text, addresses, levels. Poorer than the browser's (no computed names, no states that only scripts know), but
complete in its elements and their ids. The capture says so in a note.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

from region4web.domsnapshot import ELEMENT, TEXT, DomDocument
from region4web.hints import SILENT
from region4web.recovery import control_role, own_name

__all__ = ["derive_nodes"]

ROLES = {
    "HEADER": "banner", "NAV": "navigation", "MAIN": "main", "FOOTER": "contentinfo", "ASIDE": "complementary", "FORM": "form", "SECTION": "generic",
    "ARTICLE": "article", "UL": "list", "OL": "list", "LI": "listitem", "TABLE": "table", "TR": "row", "TD": "cell", "TH": "columnheader", "P": "paragraph",
    "IMG": "image", "DIALOG": "dialog", "IFRAME": "Iframe", "FRAME": "Iframe", "LABEL": "LabelText", "FIGURE": "figure", "OPTION": "option",
    **{f"H{level}": "heading" for level in range(1, 7)},
}  # fmt: skip
NAMED_BY_CONTENT = frozenset({"heading", "button", "link", "option", "tab", "menuitem", "treeitem", "cell", "columnheader", "row"})


def derive_nodes(dom: DomDocument) -> list[dict[str, Any]]:
    """Nodes in document order, the root first; elements that are not laid out are left out with all below them."""
    root: dict[str, Any] = {
        "nodeId": str(dom.backend_id[0]),
        "ignored": False,
        "role": _text("RootWebArea"),
        "name": _text(dom.title),
        "properties": [{"name": "url", "value": _text(dom.url)}],
        "childIds": [],
        "backendDOMNodeId": dom.backend_id[0],
    }
    nodes = [root]
    node_at: dict[int, dict[str, Any]] = {0: root}
    i = 1
    while i < len(dom.parent):
        kind = dom.node_type[i]
        if dom.name[i] in SILENT or (kind == TEXT and not (i in dom.boxes and dom.text[i].strip())):
            i = dom.end[i]
            continue
        if kind in (ELEMENT, TEXT) and (i in dom.boxes or kind == ELEMENT):
            node = _node(dom, i)
            above = dom.parent[i]
            while above not in node_at:
                above = dom.parent[above]
            node["parentId"] = node_at[above]["nodeId"]
            node_at[above]["childIds"].append(node["nodeId"])
            node_at[i] = node
            nodes.append(node)
        i += 1
    return nodes


def _node(dom: DomDocument, i: int) -> dict[str, Any]:
    backend = dom.backend_id[i]
    node: dict[str, Any] = {"nodeId": str(backend), "ignored": False, "properties": [], "childIds": [], "backendDOMNodeId": backend}
    if dom.node_type[i] == TEXT:
        return {**node, "role": _text("StaticText"), "name": _text(" ".join(dom.text[i].split()))}
    attributes = dom.attributes[i]
    role = control_role(dom, i) or attributes.get("role", "").split(" ")[0] or ROLES.get(dom.name[i], "generic")
    named = role in NAMED_BY_CONTENT or control_role(dom, i) is not None
    name = own_name(dom, i) if named else attributes.get("aria-label") or attributes.get("alt") or ""
    if i not in dom.boxes:
        role, name, node["ignored"] = "none", "", True
    if address := attributes.get("href") or (attributes.get("src") if role == "image" else None):
        node["properties"].append({"name": "url", "value": _text(urljoin(dom.url, address))})
    if role == "heading" and dom.name[i][1:].isdecimal():
        node["properties"].append({"name": "level", "value": {"type": "integer", "value": int(dom.name[i][1:])}})
    if role in ("textbox", "searchbox", "spinbutton") and attributes.get("type", "").lower() != "password" and attributes.get("value"):
        node["value"] = _text(attributes["value"])
    return {**node, "role": _text(role), "name": _text(name)}


def _text(value: str) -> dict[str, str]:
    return {"type": "string", "value": value}
