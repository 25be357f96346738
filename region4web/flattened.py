"""BrowserGym's flattened tree text, read back into a tree. Recorded logs hold nothing else.

Enters: lines `<tabs>[id] role 'name' value='...', state=value`. Leaves: an `AXTree` whose rendering is the same text.
Nodes without an id get one that is never printed. A line that is no node line is kept as text, and said in `repairs`.
"""

from __future__ import annotations

import ast
import re

import numpy as np

from region4web.axtree import AXNode, AXTree, StateValue
from region4web.errors import SnapshotError
from region4web.rawtree import Repairs

__all__ = ["parse_flattened"]

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_BARE = r"True\b|False\b|[+-]?\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?\b"
_NODE = re.compile(rf"(?:\[(?P<id>[^\]\s]+)\] )?(?P<role>[A-Za-z][\w-]*)(?: (?P<name>{_QUOTED}))?(?: value=(?P<value>{_QUOTED}|{_BARE}))?")
_ATTRIBUTE = re.compile(rf",? (?P<key>[A-Za-z][\w:-]*)(?:=(?P<value>{_QUOTED}|[^\s,]+))?")
_DEEPER = re.compile(r"\+(\d+) ")


def parse_flattened(text: str, *, url: str = "", title: str = "") -> AXTree:
    """Parse flattened text. Raises SnapshotError when no line is a node line."""
    if not isinstance(text, str):
        raise SnapshotError(f"flattened tree must be text, found a {type(text).__name__}")
    repairs = Repairs()
    nodes: list[AXNode] = []
    parent: list[int] = []
    path: list[int] = []  # index of the open node at each depth
    used: set[str] = set()
    matched = 0
    for number, line in enumerate(text.split("\n"), 1):
        body = line.lstrip("\t")
        if not body.strip():
            continue
        depth = len(line) - len(body)
        if deeper := _DEEPER.match(body):
            depth, body = depth + int(deeper[1][:7]), body[deeper.end() :]
        node = _parse_line(body, repairs, number)
        if node is None:
            repairs.add("line that is no node kept as text", f"line {number}")
            node = AXNode(id="", role="StaticText", name=body.strip(), addressable=False)
        else:
            matched += 1
        if nodes and depth == 0:
            repairs.add("second root hung below the first", f"line {number}")
            depth = 1
        if depth > len(path):
            if nodes or depth:
                repairs.add("line indented deeper than its parent allows hung below the line before", f"line {number}")
            depth = len(path)
        del path[depth:]
        parent.append(path[-1] if path else -1)
        path.append(len(nodes))
        nodes.append(_with_unique_id(node, len(nodes), used, repairs, number))
    if not matched:
        raise SnapshotError("no line of the text is a node line such as \"[12] button 'Save'\"; pass BrowserGym's flattened tree")
    root = nodes[0]
    return AXTree(
        nodes=tuple(nodes),
        parent=np.asarray(parent, dtype=np.int32),
        url=url or root.url or "",
        title=title or root.name,
        repairs=repairs.lines(),
    )


def _parse_line(body: str, repairs: Repairs, number: int) -> AXNode | None:
    match = _NODE.match(body)
    if match is None:
        return None
    rest = body[match.end() :]
    if match["name"] is None and match["id"] is None and rest and not rest.startswith(","):
        return None  # prose that happens to start with a word
    states: list[tuple[str, StateValue]] = []
    address: str | None = None
    at = 0
    while attribute := _ATTRIBUTE.match(rest, at):
        at = attribute.end()
        key, value = attribute["key"], _literal(attribute["value"])
        if key == "url" and isinstance(value, str):
            address = value
        else:
            states.append((key, value))
    if rest[at:].strip():
        repairs.add("end of a line that is no attribute ignored", f"line {number}: {rest[at:].strip()!r:.40}")
    value_text = match["value"]
    return AXNode(
        id=match["id"] or "",
        role=match["role"],
        name=str(_literal(match["name"])) if match["name"] else "",
        value=None if value_text is None else _literal(value_text),
        states=tuple(states),
        url=address,
        frame=re.sub(r"\d+$", "", match["id"] or "").rstrip(":"),
        addressable=match["id"] is not None,
        visible=("visible", False) not in states,
        clickable=("clickable", True) in states,
    )


def _with_unique_id(node: AXNode, index: int, used: set[str], repairs: Repairs, number: int) -> AXNode:
    key = node.id or f"_{index}"
    addressable = node.addressable
    if key in used:
        if addressable:
            repairs.add("id seen before kept without its id", f"line {number} [{key}]")
        addressable = False
        key = f"{key}#{index}"
    used.add(key)
    return AXNode(key, node.role, node.name, node.value, node.states, node.url, node.description, node.backend_id, node.frame,
                  node.box, node.visible, node.clickable, addressable)  # fmt: skip


def _literal(text: str | None) -> StateValue:
    """A printed value: `'x'`, `"x"`, `True`, `3`; a bare flag is True; anything else stays text."""
    if text is None:
        return True
    if text[0] not in "'\"" and not re.fullmatch(r"True|False|[+-]?\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?", text):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text[1:-1] if text[0] in "'\"" else text
    return value if isinstance(value, (str, bool, int, float)) else text


