"""From raw accessibility nodes to the tree that regions are cut in (Region4Web, "Input tree"; METHOD of the paper).

Kept: every element with a role of its own, clickable generics, and attribute-less wrappers with two or more child
branches that hold content, because they carry the grouping that decomposition needs. Dropped: other wrappers,
`InlineTextBox`, `ListMarker` and line breaks, text that repeats the name of the element around it, unnamed images
without an address. Filled in: the name of an unnamed image or link, from its address. Two passes over flat lists, no recursion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from region4web.axtree import AXNode, AXTree, StateValue
from region4web.errors import SnapshotError
from region4web.rawtree import RawTree, Repairs, build_raw_tree
from region4web.render import FLAG_STATES
from region4web.snapshot import Box, Snapshot

__all__ = ["preprocess_browsergym", "preprocess_snapshot", "short_address"]

NAME_FROM_ADDRESS_LIMIT = 64
"""Longest name, in characters, that is made from an address."""

WRAPPER_ROLES = frozenset({"generic", "none", "presentation"})
DROPPED_ROLES = frozenset({"InlineTextBox", "ListMarker", "LineBreak"})
TEXT_ROLES = frozenset({"StaticText"})
ADDRESS_NAMED_ROLES = frozenset({"image", "img", "link"})
IGNORED_PROPERTIES = frozenset({"editable", "readonly", "level", "settable", "multiline", "invalid", "focusable", "url"})
"""Left out of `states`, as in BrowserGym's flattening; `url` has a field of its own."""
KEPT_WRAPPER_PROPERTIES = frozenset(
    {"live", "busy", "modal", "roledescription", "expanded", "hasPopup", "checked", "pressed", "scrollable", "rows", "items"}
)
"""States that make a generic element more than a wrapper."""

_SPACE = re.compile(r"\s+")
_INVISIBLE = re.compile("[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BULLETS = re.compile(r"[\u2022\u25cf*]+")


def preprocess_snapshot(snapshot: Snapshot) -> AXTree:
    """The tree of a snapshot. Element keys are backend ids with the frame's prefix."""
    raw = build_raw_tree(snapshot.nodes, source=snapshot.url or "snapshot")
    frames = _frames(raw)
    ids: list[str | None] = []
    for entry, frame in zip(raw.entries, frames, strict=True):
        backend = _backend_id(entry, raw.repairs)
        ids.append(None if backend is None else f"{frame}:{backend}" if frame else str(backend))

    def geometry(key: str | None) -> tuple[Box | None, bool, bool]:
        if key is None:
            return None, True, False
        return snapshot.boxes.get(key), key not in snapshot.invisible, key in snapshot.clickable

    return _assemble(raw, ids, frames, geometry, url=snapshot.url, title=snapshot.title, viewport=snapshot.viewport, notes=snapshot.notes)


def preprocess_browsergym(observation: Mapping[str, Any]) -> AXTree:
    """The tree of a BrowserGym observation; ids are bids, nodes without a bid are not addressable."""
    axtree = observation.get("axtree_object")
    nodes = axtree.get("nodes") if isinstance(axtree, Mapping) else None
    if not isinstance(nodes, (list, tuple)):
        raise SnapshotError("BrowserGym observation: 'axtree_object' must be {'nodes': [...]}; keep it in the observation preprocessor")
    properties = observation.get("extra_element_properties") or {}
    if not isinstance(properties, Mapping):
        raise SnapshotError(f"BrowserGym observation: 'extra_element_properties' must be a mapping, found a {type(properties).__name__}")
    raw = build_raw_tree(nodes, source="BrowserGym observation")
    ids = [bid if isinstance(bid := entry.get("browsergym_id"), str) and bid else None for entry in raw.entries]
    frames = [re.sub(r"\d+$", "", bid) if bid else "" for bid in ids]

    def geometry(key: str | None) -> tuple[Box | None, bool, bool]:
        extra = properties.get(key) if key is not None else None
        if not isinstance(extra, Mapping):
            return None, True, False
        box, visibility = extra.get("bbox"), extra.get("visibility")
        visible = not isinstance(visibility, (int, float)) or visibility > 0
        ok = isinstance(box, (list, tuple)) and len(box) == 4 and all(isinstance(v, (int, float)) and math.isfinite(v) for v in box)
        return (tuple(float(v) for v in box) if ok and box else None), visible, bool(extra.get("clickable"))  # type: ignore[return-value]

    index = observation.get("active_page_index")
    active = int(np.asarray(index).ravel()[0]) if index is not None and np.size(index) else 0
    titles = observation.get("open_pages_titles") or ()
    title = str(titles[active]) if active < len(titles) else ""
    return _assemble(raw, ids, frames, geometry, url=str(observation.get("url") or ""), title=title, viewport=(1280, 720), notes=())


def short_address(address: str, limit: int = NAME_FROM_ADDRESS_LIMIT) -> str:
    """An address as a name: `data:image/png (3 kB)` for inline data, else the last telling part of the path."""
    if address[:5].lower() == "data:":
        kind = address[5:].split(",", 1)[0].split(";", 1)[0][:40] or "text/plain"
        return f"data:{kind} ({max(1, round(len(address) * 3 / 4 / 1024))} kB)"
    try:
        parts = urlsplit(address)
        segments = [segment for segment in unquote(parts.path).split("/") if segment]
        name = segments[-1] if segments else parts.netloc
        if parts.query and not segments:
            name = f"{name}?{parts.query}"
        if not name and parts.fragment:
            name = f"#{parts.fragment}"
        if not name:
            name = address
    except ValueError:
        name = address
    name = _clean(name)
    return name if len(name) <= limit else name[: limit - 1] + "\u2026"


def _frames(raw: RawTree) -> list[str]:
    """Frame prefix of each entry: '' in the page's own document, else as given, else numbered in document order."""
    frames = [""] * len(raw.entries)
    count = 0
    for k, entry in enumerate(raw.entries):
        given = entry.get("frame")
        if isinstance(given, str) and given:
            frames[k] = given
        elif k and _value(entry, "role") in ("RootWebArea", "WebArea") and raw.parent[k] > 0:
            count += 1
            frames[k] = f"f{count}"
        elif k:
            frames[k] = frames[raw.parent[k]]
    return frames


def _assemble(
    raw: RawTree,
    ids: list[str | None],
    frames: list[str],
    geometry: Callable[[str | None], tuple[Box | None, bool, bool]],
    *,
    url: str,
    title: str,
    viewport: tuple[int, int],
    notes: Sequence[str],
) -> AXTree:
    """Decide which entries stay, then build the nodes. `geometry(id)` gives box, visible, clickable."""
    n = len(raw.entries)
    roles = [_role(entry, raw.repairs) for entry in raw.entries]
    ignored = [bool(entry.get("ignored")) for entry in raw.entries]
    names = [_clean(_text(entry, "name", raw.repairs)) for entry in raw.entries]
    placed = [geometry(key) for key in ids]
    wrapper = [False] * n
    for k, entry in enumerate(raw.entries):
        if k == 0 or roles[k] in DROPPED_ROLES:
            continue
        if ignored[k] or roles[k] in WRAPPER_ROLES:
            attributed = not ignored[k] and (names[k] or placed[k][2] or _has_telling_state(entry))
            wrapper[k] = not attributed
    keep = _kept(raw, roles, names, wrapper, ignored)

    position = [-1] * n
    nodes: list[AXNode] = []
    parent: list[int] = []
    used: set[str] = set()
    nearest = [-1] * n  # position of the nearest kept ancestor-or-self
    for k, entry in enumerate(raw.entries):
        above = nearest[raw.parent[k]] if k else -1
        if not keep[k]:
            nearest[k] = above
            continue
        key, addressable = ids[k], ids[k] is not None
        if key is None or key in used:
            if key is not None and addressable and roles[k] not in TEXT_ROLES:
                addressable = False
            key = _spare_id(key if key is not None else f"n{entry.get('nodeId', k)}", used)
            addressable = False
        used.add(key)
        position[k] = nearest[k] = len(nodes)
        box, visible, clickable = placed[k]
        nodes.append(_node(entry, key, "generic" if wrapper[k] else roles[k], names[k], frames[k], box, visible, clickable, addressable, raw.repairs))
        parent.append(above)
    _hide_passwords(nodes, parent)
    return AXTree(
        nodes=tuple(nodes),
        parent=np.asarray(parent, dtype=np.int32),
        url=url or (nodes[0].url or ""),
        title=title or nodes[0].name,
        viewport=viewport,
        aliases=_aliases(raw, ids, keep, position, nearest, used),
        repairs=raw.repairs.lines(),
        notes=tuple(notes),
    )


def _kept(raw: RawTree, roles: list[str], names: list[str], wrapper: list[bool], ignored: list[bool]) -> list[bool]:
    n = len(raw.entries)
    # Down: the name that a text below would repeat is that of the nearest element that is no wrapper.
    around = [""] * n
    repeats = [False] * n
    for k in range(1, n):
        p = raw.parent[k]
        around[k] = around[p] if wrapper[p] or roles[p] in DROPPED_ROLES else names[p]
        if roles[k] in TEXT_ROLES:
            repeats[k] = p != 0 and bool(names[k]) and names[k] in around[k]
    # Up: which entries hold content, and how many child branches of each do.
    branches = [0] * n
    keep = [False] * n
    for k in range(n - 1, -1, -1):
        role = roles[k]
        if k == 0:
            keep[k] = True
        elif role in DROPPED_ROLES:
            keep[k] = False
        elif role in TEXT_ROLES:
            keep[k] = bool(names[k]) and not repeats[k] and not ignored[k]
        elif wrapper[k]:
            keep[k] = branches[k] >= 2
        elif role in ADDRESS_NAMED_ROLES and role != "link" and not names[k] and not branches[k]:
            keep[k] = bool(_address(raw.entries[k]))
        else:
            keep[k] = True
        if k and (keep[k] or branches[k]):
            branches[raw.parent[k]] += 1
    return keep


def _node(entry: Mapping[str, Any], key: str, role: str, name: str, frame: str, box: Box | None, visible: bool, clickable: bool,
          addressable: bool, repairs: Repairs) -> AXNode:  # fmt: skip
    address = _address(entry)
    if not name and address and role in ADDRESS_NAMED_ROLES:
        name = short_address(address)
    if address and address[:5].lower() == "data:":
        address = short_address(address)
    backend = entry.get("backendDOMNodeId")
    return AXNode(
        id=key,
        role=role,
        name=name,
        value=_node_value(entry, repairs),
        states=_states(entry, repairs),
        url=address,
        description=_clean(_text(entry, "description", repairs)),
        backend_id=backend if isinstance(backend, int) and not isinstance(backend, bool) else None,
        frame=frame,
        box=box,
        visible=visible,
        clickable=clickable,
        addressable=addressable,
    )


def _hide_passwords(nodes: list[AXNode], parent: list[int]) -> None:
    """A masked value tells the length of the secret, one bullet a character: replace it by a fixed mask."""
    for i, node in enumerate(nodes):
        masked_value = isinstance(node.value, str) and _BULLETS.fullmatch(node.value) and node.role in ("textbox", "searchbox")
        p = parent[i]
        masked_text = node.role in TEXT_ROLES and p >= 0 and nodes[p].value is not None and _BULLETS.fullmatch(node.name)
        if masked_value or masked_text:
            states = tuple((k, "\u2022\u2022\u2022" if k == "valuetext" else v) for k, v in node.states)
            nodes[i] = AXNode(node.id, node.role, "\u2022\u2022\u2022" if masked_text else node.name, "\u2022\u2022\u2022" if masked_value else node.value, states,
                              node.url, node.description, node.backend_id, node.frame, node.box, node.visible, node.clickable, node.addressable)  # fmt: skip


def _aliases(raw: RawTree, ids: list[str | None], keep: list[bool], position: list[int], nearest: list[int], used: set[str]) -> dict[str, int]:
    """Where a dropped element went: the top of what is left of its subtree, else what it hung below."""
    n = len(raw.entries)
    below = [-1] * n  # position of the first kept descendant-or-self
    for k in range(n - 1, -1, -1):
        if keep[k]:
            below[k] = position[k]
        if k and below[k] >= 0:
            below[raw.parent[k]] = below[k]
    aliases: dict[str, int] = {}
    for k, key in enumerate(ids):
        if key is not None and not keep[k] and key not in used:
            aliases.setdefault(key, below[k] if below[k] >= 0 else nearest[k])
    return aliases


def _spare_id(key: str, used: set[str]) -> str:
    spare, count = key, 1
    while spare in used:
        count += 1
        spare = f"{key}#{count}"
    return spare


def _clean(text: str) -> str:
    return _SPACE.sub(" ", _INVISIBLE.sub("", text)).strip()


def _value(entry: Mapping[str, Any], key: str) -> Any:
    field = entry.get(key)
    return field.get("value") if isinstance(field, Mapping) else None


def _text(entry: Mapping[str, Any], key: str, repairs: Repairs) -> str:
    value = _value(entry, key)
    if value is None:
        if entry.get(key) is not None and not isinstance(entry.get(key), Mapping):
            repairs.add(f"{key} of a wrong type ignored", f"nodeId {entry.get('nodeId')}")
        return ""
    if isinstance(value, str):
        return value
    repairs.add(f"{key} that is no text written as text", f"nodeId {entry.get('nodeId')}")
    return str(value)


def _role(entry: Mapping[str, Any], repairs: Repairs) -> str:
    value = _value(entry, "role")
    if isinstance(value, str) and value and not _SPACE.search(value):
        return value
    if not entry.get("ignored"):
        repairs.add("node without a usable role called 'unknown'", f"nodeId {entry.get('nodeId')}")
        return "unknown"
    return "none"


def _backend_id(entry: Mapping[str, Any], repairs: Repairs) -> int | None:
    value = entry.get("backendDOMNodeId")
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    repairs.add("backendDOMNodeId that is no number ignored", f"nodeId {entry.get('nodeId')}")
    return None


def _properties(entry: Mapping[str, Any]) -> list[tuple[str, Any]]:
    properties = entry.get("properties")
    if not isinstance(properties, (list, tuple)):
        return []
    return [(p["name"], _value(p, "value")) for p in properties if isinstance(p, Mapping) and isinstance(p.get("name"), str)]


def _has_telling_state(entry: Mapping[str, Any]) -> bool:
    return any(name in KEPT_WRAPPER_PROPERTIES and value not in (None, "", "off") for name, value in _properties(entry))


def _states(entry: Mapping[str, Any], repairs: Repairs) -> tuple[tuple[str, StateValue], ...]:
    states: list[tuple[str, StateValue]] = []
    for name, value in _properties(entry):
        if name in IGNORED_PROPERTIES or value is None or not re.fullmatch(r"[A-Za-z][\w-]*", name):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            value = str(value)
        if name in FLAG_STATES:
            if value and value != "false":
                states.append((name, True))
        elif isinstance(value, (str, bool, int, float)):
            states.append((name, value))
        else:
            repairs.add("state of a wrong type ignored", f"{name} of nodeId {entry.get('nodeId')}")
    return tuple(states)


def _address(entry: Mapping[str, Any]) -> str | None:
    for name, value in _properties(entry):
        if name == "url" and isinstance(value, str) and value:
            return value
    return None


def _node_value(entry: Mapping[str, Any], repairs: Repairs) -> StateValue | None:
    value = _value(entry, "value")
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return None if value is None else _clean(_text(entry, "value", repairs))
