"""BrowserGym's flattened tree text, read back into a tree. Recorded logs hold nothing else.

Enters: lines `<tabs>[id] role 'name' value='...', state=value`. Leaves: an `AXTree` whose rendering is the same text.
Nodes without an id get one that is never printed. A line that is no node line is kept as text, and said in `repairs`.
The time is linear in the text; indentation deeper than `INDENT_LIMIT` is read both as tabs and as `render` writes it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import numpy as np

from region4web.axtree import AXNode, AXTree, StateValue
from region4web.errors import SnapshotError
from region4web.rawnode import clean_text
from region4web.rawtree import Repairs, shown

__all__ = ["parse_flattened"]

_QUOTED = r"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+\""""
_NUMBER = r"[+-]?\d{1,18}(?:\.\d{1,25})?(?:e[+-]?\d{1,3})?"
_BARE = rf"(?:True|False|{_NUMBER})(?![\w.])"
_NODE = re.compile(rf"(?:\[(?P<id>[^\]\s]+)\] )?(?P<role>[A-Za-z][\w-]*)(?: (?P<name>{_QUOTED}))?(?: value=(?P<value>{_QUOTED}|{_BARE}))?")
_ATTRIBUTE = re.compile(rf",? (?P<key>[A-Za-z][\w:-]*)(?:=(?P<value>{_QUOTED}|[^\s,]+))?")
_DEEPER = re.compile(r"\+(\d{1,9}) ")
_FRAME = re.compile(r"(?:(?P<frame>[A-Za-z][\w.-]*):|(?P<letters>[A-Za-z]+))\d+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LITERAL = re.compile(rf"True|False|{_NUMBER}")


def parse_flattened(text: str, *, url: str = "", title: str = "") -> AXTree:
    """Parse flattened text. Raises SnapshotError when no line is a node line."""
    if not isinstance(text, str):
        raise SnapshotError(f"flattened tree must be text, found a {type(text).__name__}")
    repairs = Repairs()
    nodes: list[AXNode] = []
    parent: list[int] = []
    path: list[int] = []  # index of the open node at each depth
    matched = 0
    for number, line in enumerate(text.split("\n"), 1):
        body = line.lstrip("\t")
        if not body or body.isspace():
            continue
        depth = len(line) - len(body)
        if deeper := _DEEPER.match(body):
            depth, body = depth + int(deeper[1]), body[deeper.end() :]
        node = _node_of_line(body, repairs, number)
        if node is None:
            repairs.add("line that is no node kept as text", f"line {number}")
            node = AXNode(id="", role="StaticText", name=clean_text(body), addressable=False)
        else:
            matched += 1
        if nodes and depth == 0:
            repairs.add("second root hung below the first", f"line {number}")
            depth = 1
        if depth > len(path):
            repairs.add("line indented deeper than its parent allows hung below the line before", f"line {number}")
            depth = len(path)
        del path[depth:]
        parent.append(path[-1] if path else -1)
        path.append(len(nodes))
        nodes.append(node)
    if not matched:
        raise SnapshotError("no line of the text is a node line such as \"[12] button 'Save'\"; pass BrowserGym's flattened tree")
    return AXTree(
        nodes=_with_unique_ids(nodes, repairs),
        parent=np.asarray(parent, dtype=np.int32),
        url=url or nodes[0].url or "",
        title=title or nodes[0].name,
        repairs=repairs.lines(),
    )


def _node_of_line(body: str, repairs: Repairs, number: int) -> AXNode | None:
    """The node of one line, its id '' where none is printed; None when the line is no node line."""
    match = _NODE.match(body)
    if match is None:
        return None
    at = match.end()
    if match["name"] is None and match["id"] is None and at < len(body) and body[at] != ",":
        return None  # prose that happens to start with a word
    states: list[tuple[str, StateValue]] = []
    address: str | None = None
    while at < len(body) and (attribute := _ATTRIBUTE.match(body, at)):
        at = attribute.end()
        key, value = attribute["key"], _literal(attribute["value"])
        if key == "url" and isinstance(value, str):
            address = value
        else:
            states.append((key, value))
    if at < len(body) and (rest := body[at : at + 200].strip()):
        repairs.add("end of a line that is no attribute ignored", f"line {number}: {shown(rest)}")
    key = match["id"] or ""
    frame = _FRAME.fullmatch(key)
    return AXNode(
        id=key,
        role=match["role"],
        name=str(_literal(match["name"])) if match["name"] else "",
        value=None if match["value"] is None else _literal(match["value"]),
        states=tuple(states),
        url=address,
        frame="" if frame is None else frame["frame"] or frame["letters"] or "",
        addressable=bool(key),
        visible=("visible", False) not in states,
        clickable=("clickable", True) in states,
    )


def _with_unique_ids(nodes: list[AXNode], repairs: Repairs) -> tuple[AXNode, ...]:
    """The nodes, each with an id of its own; the first of those that share a printed id keeps it."""
    printed = {node.id for node in nodes}
    used: set[str] = set()
    unique: list[AXNode] = []
    for index, node in enumerate(nodes):
        if node.id and node.id not in used:
            used.add(node.id)
            unique.append(node)
            continue
        if node.id:
            repairs.add("id seen before kept without its id", f"[{shown(node.id)}]")
        spare = f"_{index}"
        while spare in printed:
            spare += "_"
        unique.append(replace(node, id=spare, addressable=False))
    return tuple(unique)


def _literal(text: str | None) -> StateValue:
    """A printed value: `'x'`, `"x"`, `True`, `3`; a bare flag is True; anything else stays text."""
    if text is None:
        return True
    quoted = text[0] in "'\""
    if quoted and "\\" not in text:
        return text[1:-1]
    if not quoted and not _LITERAL.fullmatch(text):
        return text
    try:
        value = ast.literal_eval(_ESCAPE.sub(_known_escape, text))
    except (ValueError, SyntaxError):
        return text[1:-1] if quoted else text
    return value if isinstance(value, (str, bool, int, float)) else text


def _known_escape(match: re.Match[str]) -> str:
    """An escape that `repr` writes, as it is; any other backslash stands for itself."""
    return match[0] if match[1] in "\\'\"nrtxuU" else f"\\{match[0]}"
