"""What the accessibility tree leaves out although a person can use it.

Enters: the accessibility nodes of one frame, its document and layout. Leaves: the nodes with
- visible controls under `aria-hidden` added, described as "hidden from accessibility";
- controls without a name described by what else tells them apart (title, alt, test id, icon class, position);
- pointer-only elements that the browser called uninteresting made generics again;
- synthetic properties: `blocked` (an overlay takes the click), `scrollable` (vertical, horizontal, both), `rows` and
  `items` ("41-44 of 5000": what is mounted of a longer list), `modal` on an overlay, and `controls` as element keys.
Nodes are changed in place; they are this capture's own copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

from region4web.domsnapshot import ELEMENT, TEXT, DomDocument
from region4web.layout import Layout

__all__ = ["HIDDEN_DESCRIPTION", "complete_frame"]

HIDDEN_DESCRIPTION = "hidden from accessibility"

SILENT = frozenset({"STYLE", "SCRIPT", "NOSCRIPT", "TEMPLATE", "HEAD"})
INPUT_ROLES = {
    "checkbox": "checkbox", "radio": "radio", "submit": "button", "button": "button", "reset": "button", "image": "button",
    "range": "slider", "number": "spinbutton", "search": "searchbox",
}  # fmt: skip
WIDGET_ROLES = frozenset(
    "button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option radio searchbox slider spinbutton switch tab textbox treeitem".split()
)
NAMED_BY_ICON = WIDGET_ROLES - {"listbox", "option"}
RELATIONS = frozenset({"controls", "errormessage", "activedescendant"})

_ICON_CLASS = re.compile(
    r"(?:^|\s)(?:fa|fas|far|bi|mdi|icon|icons?|glyphicon|ti|ri|lucide|octicon|material-symbols|oi|la|pi|uil|el-icon|anticon)-+([a-z][\w-]*[a-z0-9])",
    re.I,
)
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd\\s]*")
_WORDY = re.compile(r"[A-Za-z][A-Za-z_-]{2,39}")
_SPACE = re.compile(r"\s+")
TEXT_LIMIT = 120


def complete_frame(
    nodes: list[dict[str, Any]], dom: DomDocument, layout: Layout, *, key: Callable[[int], str], viewport: tuple[float, float]
) -> list[str]:
    """Complete the nodes of one frame. `key` makes an element's key from its backend id. Returns notes, one a kind."""
    notes: list[str] = []
    _drop_source_text(nodes, dom)
    by_backend = {node["backendDOMNodeId"]: node for node in nodes if isinstance(node.get("backendDOMNodeId"), int)}
    if recovered := _recover_hidden(nodes, by_backend, dom, layout):
        notes.append(f"{recovered} visible controls are hidden from accessibility; they were recovered from the document")
    _keep_pointer_elements(by_backend, dom, layout)
    _describe_unnamed(by_backend, dom, layout, viewport)
    _add_relations(nodes, key)
    for i, direction in layout.scrollable.items():
        _add_property(by_backend.get(dom.backend_id[i]), "scrollable", direction)
    _add_extents(by_backend, dom)
    closed = [i for i, kind in dom.shadow_root.items() if kind == "closed"]
    hidden_controls = sum(
        node.get("role", {}).get("value") in WIDGET_ROLES and any(root <= dom.node_of[backend] < dom.end[root] for root in closed)
        for backend, node in by_backend.items()
        if closed and backend in dom.node_of and not node.get("ignored")
    )
    if hidden_controls:
        notes.append(f"{hidden_controls} controls are in closed shadow roots: selectors do not reach them, ids and coordinates do")
    if any("inert" in dom.attributes[i] for i in dom.boxes if dom.node_type[i] == ELEMENT):
        notes.append("part of the page is inactive (inert) and not listed")
    return notes


def _drop_source_text(nodes: list[dict[str, Any]], dom: DomDocument) -> None:
    """No style or script source as text of the page, even where the page displays these elements."""
    silent = set()
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
    present = {_property(node, "url") for node in nodes if not node.get("ignored")}
    by_id = {str(node["nodeId"]): node for node in nodes}
    count, i, size = 0, 0, len(dom.parent)
    while i < size:
        if dom.node_type[i] != ELEMENT or dom.attributes[i].get("aria-hidden", "").lower() != "true" or _is_inert(dom, i):
            i += 1
            continue
        j = i
        while j < dom.end[i]:
            role = _control_role(dom, j)
            if role is None or j not in dom.boxes or j in layout.invisible:
                j += 1
                continue
            href = dom.attributes[j].get("href")
            name = _own_name(dom, j)
            known = by_backend.get(dom.backend_id[j])
            twin = href is not None and urljoin(dom.url, href) in present
            if (known is None or known.get("ignored")) and not twin and (name or href or role not in ("link", "button")):
                _place(nodes, by_backend, by_id, dom, j, _synthetic(dom, j, role, name))
                count += 1
            j = dom.end[j]
        i = dom.end[i]
    return count


def _control_role(dom: DomDocument, i: int) -> str | None:
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


def _own_name(dom: DomDocument, i: int) -> str:
    """A name from the document alone: aria-label, text, alternative text, title, placeholder, value of a button."""
    attributes = dom.attributes[i]
    if label := attributes.get("aria-label", "").strip():
        return _short(label)
    parts = [] if dom.name[i] in ("SELECT", "TEXTAREA") else [text for text in _texts(dom, i)]
    if text := _short(" ".join(parts)):
        return text
    names = ["title", "placeholder", "name"]
    if dom.name[i] == "INPUT" and attributes.get("type", "").lower() in ("submit", "button", "reset"):
        names.insert(0, "value")
    return next((_short(attributes[name]) for name in names if attributes.get(name, "").strip()), "")


def _texts(dom: DomDocument, i: int) -> list[str]:
    found, j = [], i
    while j < dom.end[i]:
        if dom.name[j] in SILENT:
            j = dom.end[j]
            continue
        if dom.node_type[j] == TEXT and dom.text[j].strip() and j in dom.boxes:
            found.append(dom.text[j].strip())
        elif dom.name[j] == "IMG" and dom.attributes[j].get("alt"):
            found.append(dom.attributes[j]["alt"])
        j += 1
    return found


def _synthetic(dom: DomDocument, i: int, role: str, name: str) -> dict[str, Any]:
    backend = dom.backend_id[i]
    node: dict[str, Any] = {
        "nodeId": f"hidden-{backend}",
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "description": {"type": "computedString", "value": HIDDEN_DESCRIPTION},
        "properties": [],
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


def _keep_pointer_elements(by_backend: dict[int, dict[str, Any]], dom: DomDocument, layout: Layout) -> None:
    for i in layout.clickable - layout.invisible:
        node = by_backend.get(dom.backend_id[i])
        if node is None or not node.get("ignored"):
            continue
        reasons = {reason.get("name") for reason in node.get("ignoredReasons") or ()}
        if reasons <= {"uninteresting"}:
            node["ignored"] = False
            node["role"] = {"type": "role", "value": "generic"}
            node.setdefault("name", {"type": "computedString", "value": ""})
            node.pop("ignoredReasons", None)


def _describe_unnamed(by_backend: dict[int, dict[str, Any]], dom: DomDocument, layout: Layout, viewport: tuple[float, float]) -> None:
    """Fill `description` of controls that have no name, or only an icon font's character."""
    nameless: list[tuple[dict[str, Any], int]] = []
    for backend, node in by_backend.items():
        role = node.get("role", {}).get("value")
        name = str((node.get("name") or {}).get("value") or "")
        i = dom.node_of.get(backend)
        if (
            node.get("ignored")
            or i is None
            or i in layout.invisible
            or not _PRIVATE.fullmatch(name)
            or (node.get("description") or {}).get("value")
        ):
            continue
        if role not in NAMED_BY_ICON and not (role == "generic" and i in layout.clickable and not _texts(dom, i)):
            continue
        if hint := _hint(dom, i):
            node["description"] = {"type": "computedString", "value": hint}
        else:
            nameless.append((node, i))
    nameless.sort(key=lambda entry: entry[1])
    for number, (node, i) in enumerate(nameless, start=1):
        x, y, w, h = dom.boxes.get(i, (0.0, 0.0, 0.0, 0.0))
        place = f"{_third(y + h / 2 - dom.scroll[1], viewport[1], 'top', 'middle', 'bottom')} {_third(x + w / 2, viewport[0], 'left', 'centre', 'right')}"
        kind = node["role"]["value"]
        what = "unnamed icon button" if kind in ("button", "generic") else f"unnamed {kind}"
        node["description"] = {"type": "computedString", "value": f"{what} {number} of {len(nameless)}, {place}"}


def _hint(dom: DomDocument, i: int) -> str:
    """What else tells a control: title, described-by text, svg title, test id, icon class, id; '' when nothing does."""
    attributes = dom.attributes[i]
    if title := attributes.get("title", "").strip():
        return _short(title)
    if ids := attributes.get("aria-describedby", "").split():
        described = [text for j, other in enumerate(dom.attributes) if other.get("id") in ids for text in _all_texts(dom, j)]
        if described:
            return _short(" ".join(described))
    for j in range(i, dom.end[i]):
        inner = dom.attributes[j]
        if dom.name[j].lower() == "title" or (j > i and inner.get("title", inner.get("alt", "")).strip()):
            if text := _short(" ".join(_all_texts(dom, j)) or inner.get("title") or inner.get("alt") or ""):
                return text
    for name in ("data-testid", "data-test", "data-cy", "data-qa", "data-action", "data-icon", "placeholder", "name"):
        if value := attributes.get(name, "").strip():
            return _short(_words(value))
    for j in range(i, dom.end[i]):
        inner = dom.attributes[j]
        if found := _ICON_CLASS.search(inner.get("class", "")):
            return _short(_words(found[1]))
        for name in ("data-icon", "data-lucide", "href", "xlink:href"):
            if j > i and (value := inner.get(name, "")) and ("#" in value or name.startswith("data")):
                return _short(_words(value.rsplit("#", 1)[-1]))
    for value in (attributes.get("id", ""), *attributes.get("class", "").split()):
        if _WORDY.fullmatch(value) and value.lower() not in ("btn", "button", "link", "icon"):
            return _short(_words(value))
    return ""


def _all_texts(dom: DomDocument, i: int) -> list[str]:
    return [dom.text[j].strip() for j in range(i, dom.end[i]) if dom.node_type[j] == TEXT and dom.text[j].strip()]


def _words(value: str) -> str:
    value = re.sub(r"^(?:icon|btn|button)[-_]|[-_](?:icon|btn|button)$", "", value, flags=re.I)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", value).replace("-", " ").replace("_", " ").strip().lower()


def _third(value: float, size: float, low: str, middle: str, high: str) -> str:
    return low if value < size / 3 else middle if value < 2 * size / 3 else high


def _add_relations(nodes: list[dict[str, Any]], key: Callable[[int], str]) -> None:
    """`controls` and its like name elements by DOM id; give their keys instead."""
    for node in nodes:
        for entry in node.get("properties") or ():
            value = entry.get("value") or {}
            related = value.get("relatedNodes")
            if entry.get("name") in RELATIONS and related:
                keys = [key(other["backendDOMNodeId"]) for other in related if isinstance(other.get("backendDOMNodeId"), int)]
                if keys:
                    entry["value"] = {"type": value.get("type", "idrefList"), "value": " ".join(keys), "relatedNodes": related}


def _add_extents(by_backend: dict[int, dict[str, Any]], dom: DomDocument) -> None:
    """`rows` and `items` where aria-rowcount or aria-setsize say that more exist than are mounted."""
    sets: dict[int, list[tuple[int, int]]] = {}
    for i, attributes in enumerate(dom.attributes):
        if total := _count(attributes.get("aria-rowcount")):
            inside = range(i + 1, dom.end[i])
            rows = [j for j in inside if dom.name[j] == "TR" or dom.attributes[j].get("role") == "row"]
            indices = [index for j in rows if (index := _count(dom.attributes[j].get("aria-rowindex")))]
            if total < 0 or total > len(rows):
                _add_property(by_backend.get(dom.backend_id[i]), "rows", _extent(indices, len(rows), total))
        if (size := _count(attributes.get("aria-setsize"))) and dom.parent[i] >= 0:
            sets.setdefault(dom.parent[i], []).append((_count(attributes.get("aria-posinset")), size))
    for p, members in sets.items():
        total = max(size for _, size in members) if all(size > 0 for _, size in members) else -1
        if total < 0 or total > len(members):
            holder = p
            while holder >= 0 and (dom.backend_id[holder] not in by_backend or by_backend[dom.backend_id[holder]].get("ignored")):
                holder = dom.parent[holder]
            node = by_backend.get(dom.backend_id[holder]) if holder >= 0 else None
            _add_property(node, "items", _extent([place for place, _ in members if place], len(members), total))


def _extent(indices: list[int], mounted: int, total: int) -> str:
    whole = str(total) if total > 0 else "unknown"
    return f"{min(indices)}-{max(indices)} of {whole}" if indices else f"{mounted} of {whole}"


def _count(value: str | None) -> int:
    """An ARIA count; 0 when absent or no number."""
    try:
        return int(value) if value else 0
    except ValueError:
        return 0


def _add_property(node: dict[str, Any] | None, name: str, value: str | bool) -> None:
    if node is not None:
        kind = "boolean" if isinstance(value, bool) else "string"
        node.setdefault("properties", []).append({"name": name, "value": {"type": kind, "value": value}})


def _property(node: dict[str, Any], name: str) -> Any:
    return next((entry.get("value", {}).get("value") for entry in node.get("properties") or () if entry.get("name") == name), None)


def _short(text: str) -> str:
    text = _SPACE.sub(" ", text).strip()
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "\u2026"
