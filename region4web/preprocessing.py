"""From raw accessibility nodes to the tree that regions are cut in (Region4Web, "Input tree"; METHOD of the paper).

Kept: every element with a role of its own; generics that are named, clickable, editable or have a telling state; and
attribute-less wrappers with two or more child branches that hold content, because they carry the grouping that
decomposition needs. Dropped: other wrappers, ignored nodes (the browser says they are no part of the accessibility
tree), `InlineTextBox`, `ListMarker` and line breaks, text that the name of the element around it says already, unnamed
images that have no address and cannot be used. Filled in: the name of an unnamed image or link, from its address.
A dropped element's id leads to what is left of it (`AXTree.aliases`). Passes over flat lists, no recursion, linear time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from region4web.axtree import AXNode, AXTree
from region4web.errors import SnapshotError
from region4web.masking import BULLETS, FIELD_DEPTH, FIELD_ROLES, MASK
from region4web.rawnode import (
    address_of,
    backend_id_of,
    clean_text,
    is_ignored,
    is_safe_id,
    properties_of,
    role_of,
    states_of,
    text_of,
    value_of,
)
from region4web.rawtree import RawTree, build_raw_tree, shown
from region4web.repetition import repeated_texts
from region4web.snapshot import Box, Snapshot

__all__ = ["preprocess_browsergym", "preprocess_snapshot", "short_address"]

NAME_FROM_ADDRESS_LIMIT = 64
"""Longest name, in characters, that is made from an address."""

AREA_ROLES = frozenset({"RootWebArea", "WebArea"})
WRAPPER_ROLES = frozenset({"generic", "none", "presentation"})
DROPPED_ROLES = frozenset({"InlineTextBox", "ListMarker", "LineBreak"})
TEXT_ROLES = frozenset({"StaticText"})
IMAGE_ROLES = frozenset({"image", "img"})
KEPT_WRAPPER_PROPERTIES = frozenset(
    {"live", "busy", "modal", "roledescription", "expanded", "hasPopup", "checked", "pressed", "scrollable", "rows", "items"}
)
"""States that make a generic element more than a wrapper."""

_FRAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}")

_Layout = Callable[[str | None], tuple[Box | None, bool]]
"""Box and visibility of the element with an id."""


def preprocess_snapshot(snapshot: Snapshot) -> AXTree:
    """The tree of a snapshot. Element keys are backend ids with the frame's prefix."""
    raw = build_raw_tree(snapshot.nodes, source=snapshot.url or "snapshot")
    roles = [role_of(entry, raw.repairs) for entry in raw.entries]
    frames = _frames(raw, roles)
    backend_ids = [backend_id_of(entry, raw.repairs) for entry in raw.entries]
    ids = [
        None if backend is None else f"{frame}:{backend}" if frame else str(backend)
        for frame, backend in zip(frames, backend_ids, strict=True)
    ]

    def layout(key: str | None) -> tuple[Box | None, bool]:
        return (None, True) if key is None else (snapshot.boxes.get(key), key not in snapshot.invisible)

    return _assemble(
        raw, roles, ids, backend_ids, frames, [key in snapshot.clickable for key in ids], layout,
        url=snapshot.url, title=snapshot.title, viewport=snapshot.viewport, notes=snapshot.notes,
    )  # fmt: skip


def preprocess_browsergym(observation: Mapping[str, Any]) -> AXTree:
    """The tree of a BrowserGym observation; ids are bids, nodes without a bid are not addressable.

    BrowserGym's `visibility` is the share of the element inside the viewport, so that what is merely scrolled out of it
    has 0; only elements that no scrolling brings into view (no area, left of the page) count as invisible here.
    """
    axtree = observation.get("axtree_object") if isinstance(observation, Mapping) else None
    nodes = axtree.get("nodes") if isinstance(axtree, Mapping) else None
    if not isinstance(nodes, (list, tuple)):
        raise SnapshotError("BrowserGym observation: 'axtree_object' must be {'nodes': [...]}; keep it in the observation preprocessor")
    properties = observation.get("extra_element_properties")
    if properties is None:
        properties = {}
    if not isinstance(properties, Mapping):
        raise SnapshotError(f"BrowserGym observation: 'extra_element_properties' must be a mapping, found a {type(properties).__name__}")
    raw = build_raw_tree(nodes, source="BrowserGym observation")
    roles = [role_of(entry, raw.repairs) for entry in raw.entries]
    ids: list[str | None] = []
    for entry in raw.entries:
        bid = entry.get("browsergym_id")
        if bid is not None and bid != "" and not is_safe_id(bid):
            raw.repairs.add_node("browsergym_id that is no id ignored", entry.get("nodeId"))
        ids.append(bid if is_safe_id(bid) else None)
    frames = ["" if bid is None else bid.rstrip("0123456789") for bid in ids]
    backend_ids = [backend_id_of(entry, raw.repairs) for entry in raw.entries]

    def extra(key: str | None) -> Mapping[str, Any]:
        found = properties.get(key) if key is not None else None
        return found if isinstance(found, Mapping) else {}

    def layout(key: str | None) -> tuple[Box | None, bool]:
        box, visibility = _box(extra(key).get("bbox")), extra(key).get("visibility")
        unseen = box is not None and isinstance(visibility, (int, float)) and visibility < 0.5
        return box, not (unseen and box is not None and (box[2] <= 0 or box[3] <= 0 or box[0] + box[2] <= 0))

    return _assemble(
        raw, roles, ids, backend_ids, frames, [extra(key).get("clickable") is True for key in ids], layout,
        url=_line(observation.get("url")), title=_active_title(observation), viewport=(1280, 720), notes=(),
    )  # fmt: skip


def short_address(address: str, limit: int = NAME_FROM_ADDRESS_LIMIT) -> str:
    """An address as a name: `data:image/png (3 kB)` for inline data, else the last telling part of the path.

    '' for a `javascript:` address, which says nothing.
    """
    scheme = address[:11].lower()
    if scheme.startswith("data:"):
        kind = clean_text(address[5:300].split(",", 1)[0].split(";", 1)[0])[:40] or "text/plain"
        return f"data:{kind} ({max(1, round(len(address) * 3 / 4 / 1024))} kB)"
    if scheme == "javascript:":
        return ""
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
    name = clean_text(name)
    return name if len(name) <= limit else name[: limit - 1] + "\u2026"


def _box(value: object) -> Box | None:
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        return None
    try:
        x, y, width, height = (float(v) for v in value)
    except (TypeError, ValueError, OverflowError):
        return None
    return (x, y, width, height) if all(map(math.isfinite, (x, y, width, height))) else None


def _line(value: object) -> str:
    return clean_text(value) if isinstance(value, str) else ""


def _active_title(observation: Mapping[str, Any]) -> str:
    """The title of the tab that is observed: `open_pages_titles[active_page_index]`."""
    titles, index = observation.get("open_pages_titles"), observation.get("active_page_index")
    try:
        active = int(np.ravel(index)[0]) if index is not None else 0
    except (TypeError, ValueError, IndexError, OverflowError):
        return ""
    return _line(titles[active]) if isinstance(titles, (list, tuple)) and 0 <= active < len(titles) else ""


def _frames(raw: RawTree, roles: list[str]) -> list[str]:
    """Frame prefix of each entry: '' in the page's own document, else as given, else numbered in document order."""
    given = [entry.get("frame") for entry in raw.entries]
    if any(given):
        for k, frame in enumerate(given):
            if frame and not (isinstance(frame, str) and _FRAME.fullmatch(frame)):
                raw.repairs.add_node("frame that is no frame's name ignored", raw.entries[k].get("nodeId"))
                given[k] = None
    taken = {frame for frame in given if frame}
    frames = [""] * len(given)
    count = 0
    for k, frame in enumerate(given):
        p = raw.parent[k]
        if frame:
            frames[k] = frame
        elif roles[k] in AREA_ROLES and p > 0:
            count += 1
            while f"f{count}" in taken:
                count += 1
            frames[k] = f"f{count}"
        elif p >= 0:
            frames[k] = frames[p]
    return frames


def _assemble(
    raw: RawTree,
    roles: list[str],
    ids: list[str | None],
    backend_ids: list[int | None],
    frames: list[str],
    clickable: list[bool],
    layout: _Layout,
    *,
    url: str,
    title: str,
    viewport: tuple[int, int],
    notes: Sequence[str],
) -> AXTree:
    """Decide which entries stay, then build the nodes."""
    names = ["" if role in DROPPED_ROLES else text_of(entry, "name", raw.repairs) for entry, role in zip(raw.entries, roles, strict=True)]
    wrapper = [
        k > 0 and (is_ignored(entry, raw.repairs) or _is_wrapper(entry, roles[k], names[k], clickable[k]))
        for k, entry in enumerate(raw.entries)
    ]
    keep = _kept(raw, roles, names, wrapper, clickable)

    position = [-1] * len(keep)
    nearest = [-1] * len(keep)  # position of the nearest kept ancestor-or-self
    nodes: list[AXNode] = []
    parent: list[int] = []
    used: set[str] = set()
    spare = _SpareIds({key for key in ids if key is not None})
    for k, entry in enumerate(raw.entries):
        above = nearest[raw.parent[k]] if k else -1
        if not keep[k]:
            nearest[k] = above
            continue
        given = ids[k]
        addressable = given is not None and given not in used
        key = given if given is not None and addressable else spare.like(given or _internal_id(entry))
        used.add(key)
        position[k] = nearest[k] = len(nodes)
        parent.append(above)
        properties = properties_of(entry)
        role, name, address = "generic" if wrapper[k] else roles[k], names[k], address_of(properties)
        if not name and address and (role == "link" or role in IMAGE_ROLES):
            name = short_address(address)
        box, visible = layout(given)
        nodes.append(
            AXNode(
                id=key,
                role=role,
                name=name,
                value=value_of(entry, raw.repairs),
                states=states_of(entry, properties, raw.repairs),
                url=short_address(address) if address and address[:5].lower() == "data:" else address,
                description=text_of(entry, "description", raw.repairs),
                backend_id=backend_ids[k],
                frame=frames[k],
                box=box,
                visible=visible,
                clickable=clickable[k],
                addressable=addressable,
            )
        )
    _hide_passwords(nodes, parent)
    return AXTree(
        nodes=tuple(nodes),
        parent=np.asarray(parent, dtype=np.int32),
        url=_line(url) or nodes[0].url or "",
        title=_line(title) or nodes[0].name,
        viewport=viewport,
        aliases=_aliases(raw, ids, keep, position, nearest, used),
        repairs=raw.repairs.lines(),
        notes=tuple(notes),
    )


def _internal_id(entry: dict[str, Any]) -> str:
    """`_` and the browser's own number of the node, which stays from step to step."""
    node_id = entry.get("nodeId")
    key = f"_{node_id}" if isinstance(node_id, str) else f"_{shown(node_id)}"
    return key if is_safe_id(key) else "_"


def _is_wrapper(entry: dict[str, Any], role: str, name: str, clickable: bool) -> bool:
    """Whether the element only groups: a generic without name, action or telling state."""
    if role not in WRAPPER_ROLES or name or clickable:
        return False
    states = dict(properties_of(entry))
    if states.get("editable") and states.get("focusable"):
        return False
    return not any(states.get(state) not in (None, "", "off") for state in KEPT_WRAPPER_PROPERTIES)


def _kept(raw: RawTree, roles: list[str], names: list[str], wrapper: list[bool], clickable: list[bool]) -> list[bool]:
    said = repeated_texts(
        raw.parent, names,
        is_text=[role in TEXT_ROLES and not wrapper[k] for k, role in enumerate(roles)],
        is_transparent=[wrapper[k] or role in DROPPED_ROLES for k, role in enumerate(roles)],
        is_silent=[role in AREA_ROLES for role in roles],
    )  # fmt: skip
    n = len(roles)
    branches = [0] * n  # child branches that hold content
    keep = [False] * n
    for k in range(n - 1, -1, -1):
        role = roles[k]
        if k == 0:
            keep[k] = True
        elif role in DROPPED_ROLES:
            pass
        elif role in TEXT_ROLES:
            keep[k] = bool(names[k]) and not said[k] and not wrapper[k]
        elif wrapper[k]:
            keep[k] = branches[k] >= 2 or (branches[k] == 1 and clickable[k])
        elif role in IMAGE_ROLES and not names[k] and not branches[k]:
            properties = properties_of(raw.entries[k])
            keep[k] = clickable[k] or address_of(properties) is not None or ("focusable", True) in properties
        else:
            keep[k] = True
        if k and (keep[k] or branches[k]):
            branches[raw.parent[k]] += 1
    return keep


def _hide_passwords(nodes: list[AXNode], parent: list[int]) -> None:
    """A masked value tells the length of the secret, one bullet a character: replace it by a fixed mask. A value that the page
    shows as bullets is masked likewise."""
    shown_as_bullets: set[int] = set()
    for i, node in enumerate(nodes):
        if node.role not in TEXT_ROLES or not BULLETS.fullmatch(node.name):
            continue
        p = parent[i]
        for _ in range(FIELD_DEPTH):
            if p < 0 or nodes[p].role in FIELD_ROLES:
                break
            p = parent[p]
        if p >= 0 and isinstance(value := nodes[p].value, str) and (len(value) == len(node.name) or BULLETS.fullmatch(value)):
            shown_as_bullets.update((i, p))
    for i, node in enumerate(nodes):
        masked_value = isinstance(node.value, str) and (i in shown_as_bullets or BULLETS.fullmatch(node.value))
        masked_text = i in shown_as_bullets and node.role in TEXT_ROLES
        if masked_value or masked_text:
            nodes[i] = replace(
                node,
                name=MASK if masked_text else node.name,
                value=MASK if masked_value else node.value,
                states=tuple((name, MASK if name == "valuetext" else value) for name, value in node.states),
            )


def _aliases(
    raw: RawTree, ids: list[str | None], keep: list[bool], position: list[int], nearest: list[int], used: set[str]
) -> dict[str, int]:
    """Where a dropped element went: the top of what is left of its subtree, else what it hung below."""
    below = [-1] * len(keep)  # position of the first kept descendant-or-self
    for k in range(len(keep) - 1, -1, -1):
        if keep[k]:
            below[k] = position[k]
        if k and below[k] >= 0:
            below[raw.parent[k]] = below[k]
    aliases: dict[str, int] = {}
    for k, key in enumerate(ids):
        if key is not None and not keep[k] and key not in used:
            aliases.setdefault(key, below[k] if below[k] >= 0 else nearest[k])
    return aliases


class _SpareIds:
    """Ids for nodes that have none of their own, different from all that are in use."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._count: dict[str, int] = {}

    def like(self, key: str) -> str:
        """The key itself where it is free, else with a number."""
        count, spare = self._count.get(key, 0), key
        while spare in self._taken:
            count += 1
            spare = f"{key}#{count}"
        self._count[key] = count
        self._taken.add(spare)
        return spare
