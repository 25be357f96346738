"""CDP accessibility nodes as one sound tree, whatever the source held.

Enters: a list of CDP `AXNode` objects in any order. Leaves: a `RawTree` in preorder. Broken links are mended and each
kind of repair is said once, with a count and the first entry: no node is lost in silence, nothing recurses, the time
is linear. What cannot be placed at all (an empty list) is a SnapshotError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from region4web.errors import SnapshotError

__all__ = ["RawTree", "Repairs", "build_raw_tree", "shown"]

LARGEST_INTEGER = 1 << 63
"""Integers beyond it are no ids: a browser's have 53 bits, and Python refuses to print very long ones."""
SHOWN_LIMIT = 40


class Repairs:
    """Counts repairs by kind and remembers the first entry of each."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def add(self, kind: str, entry: str) -> None:
        self._first.setdefault(kind, entry)
        self._count[kind] = self._count.get(kind, 0) + 1

    def add_node(self, kind: str, node_id: object) -> None:
        """Like `add`, for a node named by its id."""
        if kind not in self._first:
            self._first[kind] = f"nodeId {shown(node_id)}"
        self._count[kind] = self._count.get(kind, 0) + 1

    def lines(self) -> tuple[str, ...]:
        """One line a kind: `3 x node without a parent hung below the root, first nodes[7]`."""
        return tuple(f"{count} x {kind}, first {self._first[kind]}" for kind, count in self._count.items())


@dataclass(frozen=True)
class RawTree:
    """`entries[k]` is the k-th node in preorder, `parent[k]` the position of its parent (-1 for the root)."""

    entries: list[dict[str, Any]]
    parent: list[int]
    repairs: Repairs


def build_raw_tree(nodes: Sequence[object], *, source: str = "snapshot") -> RawTree:
    """Order `nodes` in preorder and mend what is broken. Raises SnapshotError when there is nothing to order."""
    if not nodes:
        raise SnapshotError(f"{source}: no accessibility nodes; capture the page again")
    repairs = Repairs()
    entries: list[dict[str, Any]] = []
    place: dict[str, int] = {}
    for i, node in enumerate(nodes):
        if not isinstance(node, dict):
            raise SnapshotError(f"{source}: nodes[{i}] must be an object, found a {type(node).__name__}")
        key = _link(node.get("nodeId"))
        if key is None:
            repairs.add("node without a nodeId kept where its parentId says", f"nodes[{i}]")
        elif key in place:
            if node == entries[place[key]]:
                repairs.add("exact copy of a node left out", f"nodes[{i}] (nodeId {shown(key)})")
                continue
            repairs.add("second node under one nodeId kept where its parentId says", f"nodes[{i}] (nodeId {shown(key)})")
        else:
            place[key] = len(entries)
        entries.append(node)
    children, is_child = _linked_children(entries, place, repairs)
    return _in_preorder(entries, children, is_child, repairs)


def shown(value: object) -> str:
    """A foreign value as it may stand in a message: one short line."""
    if isinstance(value, int) and not -LARGEST_INTEGER < value < LARGEST_INTEGER:
        return "a very large integer"
    if isinstance(value, (str, bytes)):
        value = value[:SHOWN_LIMIT]
    elif value is not None and not isinstance(value, (int, float)):
        return f"a {type(value).__name__}"
    return str(value) if isinstance(value, str) and value.isprintable() else repr(value)


def _link(value: object) -> str | None:
    """A nodeId, parentId or childId in one form; None when it can name no node."""
    if type(value) is str:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -LARGEST_INTEGER < value < LARGEST_INTEGER:
        return str(value)
    return str(value) if isinstance(value, str) else None


def _linked_children(entries: list[dict[str, Any]], place: dict[str, int], repairs: Repairs) -> tuple[list[list[int]], list[bool]]:
    """Children of each entry by `childIds`, then those that only their `parentId` places; and which entries are a child."""
    is_child = [False] * len(entries)
    children: list[list[int]] = [[] for _ in entries]
    for i, entry in enumerate(entries):
        ids = entry.get("childIds")
        if not ids:
            continue
        if not isinstance(ids, (list, tuple)):
            repairs.add_node("childIds that is no list ignored", entry.get("nodeId"))
            continue
        for child_id in ids:
            key = _link(child_id)
            c = None if key is None else place.get(key)
            if c is None:
                repairs.add_node("childId that names no node ignored", child_id)
            elif c == i:
                repairs.add_node("node that is its own child unlinked", child_id)
            elif is_child[c]:
                repairs.add_node("node claimed by two parents left with the first", child_id)
            else:
                is_child[c] = True
                children[i].append(c)
    for i, entry in enumerate(entries):
        if is_child[i] or (parent_id := _link(entry.get("parentId"))) is None:
            continue
        p = place.get(parent_id)
        if p is not None and p != i:
            children[p].append(i)
            is_child[i] = True
            repairs.add_node("node missing from its parent's childIds appended there", entry.get("nodeId"))
    return children, is_child


def _in_preorder(entries: list[dict[str, Any]], children: list[list[int]], is_child: list[bool], repairs: Repairs) -> RawTree:
    """Walk from the first root; what it does not reach (other roots, cycles) hangs below it and comes last."""
    order: list[int] = []
    parent: list[int] = []
    seen = [False] * len(entries)

    def walk(start: int, parent_position: int) -> None:
        stack = [(start, parent_position)]
        while stack:
            i, p = stack.pop()
            if seen[i]:
                repairs.add_node("cycle cut open", entries[i].get("nodeId"))
                continue
            seen[i] = True
            position = len(order)
            order.append(i)
            parent.append(p)
            if children[i]:
                stack.extend([(c, position) for c in reversed(children[i])])

    roots = [i for i, child in enumerate(is_child) if not child]
    walk(_first_root(entries, roots), -1)
    for i in roots:
        if not seen[i]:
            kind = "second root" if entries[i].get("parentId") is None else "node without a parent"
            repairs.add_node(f"{kind} hung below the root", entries[i].get("nodeId"))
            walk(i, 0)
    if len(order) < len(entries):
        for i in range(len(entries)):
            if not seen[i]:
                repairs.add_node("cycle without a root hung below the root", entries[i].get("nodeId"))
                walk(i, 0)
    return RawTree([entries[i] for i in order], parent, repairs)


def _first_root(entries: list[dict[str, Any]], roots: list[int]) -> int:
    """The page's root: the first RootWebArea that is nobody's child and names no parent, else that is nobody's child,
    else the first such node of any role; where every node is a child (cycles only), the first RootWebArea, else the first node.
    """
    areas = []
    for i in roots or range(len(entries)):
        role = entries[i].get("role")
        if isinstance(role, dict) and role.get("value") in ("RootWebArea", "WebArea"):
            areas.append(i)
    orphans = [i for i in areas if entries[i].get("parentId") is None]
    return (orphans or areas or roots or [0])[0]
