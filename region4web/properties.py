"""Properties that are added to CDP's on accessibility nodes, and how existing ones are put in the snapshot's terms.

Enters: the nodes of one frame, by backend id, and its document. The nodes are changed in place. Added: `rows` and
`items` ("41-44 of 5000": what is mounted of a longer list), `blocked` on controls under an overlay and `modal` on the
overlay. Changed: `controls` and its like hold element keys instead of DOM ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from region4web.domsnapshot import ELEMENT, DomDocument
from region4web.layout import Layout

__all__ = ["WIDGET_ROLES", "add_extents", "add_property", "add_relations", "mark_blocked", "property_of"]

WIDGET_ROLES = frozenset(
    ("button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "radio",
     "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem")
)  # fmt: skip
RELATIONS = frozenset({"controls", "errormessage", "activedescendant"})


def add_relations(nodes: list[dict[str, Any]], key: Callable[[int], str]) -> None:
    """`controls` and its like name elements by DOM id; give their keys instead."""
    for node in nodes:
        for entry in node.get("properties") or ():
            value = entry.get("value") or {}
            related = value.get("relatedNodes")
            if entry.get("name") in RELATIONS and related:
                keys = [key(other["backendDOMNodeId"]) for other in related if isinstance(other.get("backendDOMNodeId"), int)]
                if keys:
                    entry["value"] = {"type": value.get("type", "idrefList"), "value": " ".join(keys), "relatedNodes": related}


def add_extents(by_backend: dict[int, dict[str, Any]], dom: DomDocument) -> None:
    """`rows` and `items` where aria-rowcount or aria-setsize say that more exist than are mounted."""
    sets: dict[int, list[tuple[int, int]]] = {}
    for i, attributes in enumerate(dom.attributes):
        if total := _count(attributes.get("aria-rowcount")):
            inside = range(i + 1, dom.end[i])
            rows = [j for j in inside if dom.name[j] == "TR" or dom.attributes[j].get("role") == "row"]
            indices = [index for j in rows if (index := _count(dom.attributes[j].get("aria-rowindex")))]
            if total < 0 or total > len(rows):
                add_property(by_backend.get(dom.backend_id[i]), "rows", _extent(indices, len(rows), total))
        if (size := _count(attributes.get("aria-setsize"))) and dom.parent[i] >= 0:
            sets.setdefault(dom.parent[i], []).append((_count(attributes.get("aria-posinset")), size))
    for p, members in sets.items():
        total = max(size for _, size in members) if all(size > 0 for _, size in members) else -1
        if total < 0 or total > len(members):
            holder = p
            while holder >= 0 and (dom.backend_id[holder] not in by_backend or by_backend[dom.backend_id[holder]].get("ignored")):
                holder = dom.parent[holder]
            node = by_backend.get(dom.backend_id[holder]) if holder >= 0 else None
            add_property(node, "items", _extent([place for place, _ in members if place], len(members), total))


def _extent(indices: list[int], mounted: int, total: int) -> str:
    whole = str(total) if total > 0 else "unknown"
    return f"{min(indices)}-{max(indices)} of {whole}" if indices else f"{mounted} of {whole}"


def _count(value: str | None) -> int:
    """An ARIA count; 0 when absent or no number."""
    try:
        return int(value) if value else 0
    except ValueError:
        return 0


def add_property(node: dict[str, Any] | None, name: str, value: str | bool) -> None:
    if node is not None:
        kind = "boolean" if isinstance(value, bool) else "string"
        node.setdefault("properties", []).append({"name": name, "value": {"type": kind, "value": value}})


def property_of(node: dict[str, Any], name: str) -> Any:
    return next((entry.get("value", {}).get("value") for entry in node.get("properties") or () if entry.get("name") == name), None)


def mark_blocked(nodes: list[dict[str, Any]], dom: DomDocument, layout: Layout, blocked: frozenset[int] | None) -> list[str]:
    """`blocked` on each covered control, `modal` on what covers them; returns the note. None: the whole frame is covered."""
    if blocked is not None and (not blocked or layout.overlay is None):
        return []
    covered = set(dom.backend_id) if blocked is None else {dom.backend_id[i] for i in blocked if dom.node_type[i] == ELEMENT}
    clickable = {dom.backend_id[i] for i in layout.clickable}
    overlay = None if blocked is None or layout.overlay is None else dom.backend_id[layout.overlay]
    count = 0
    for node in nodes:
        backend = node.get("backendDOMNodeId")
        if overlay is not None and backend == overlay:
            if node.get("ignored"):
                node["ignored"], node["role"] = False, {"type": "role", "value": "generic"}
                node.pop("ignoredReasons", None)
            if property_of(node, "modal") is None:
                add_property(node, "modal", True)
        elif backend in covered and not node.get("ignored") and (node.get("role", {}).get("value") in WIDGET_ROLES or backend in clickable):
            add_property(node, "blocked", True)
            count += 1
    return [f"controls covered by [{overlay}] until it is closed: {count}"] if count else []
