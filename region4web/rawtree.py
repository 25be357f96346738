"""CDP accessibility nodes as one sound tree, whatever the source held.

Enters: a list of CDP `AXNode` objects in any order. Leaves: a `RawTree` in preorder. Broken links are mended and each
kind of repair is said once, with a count and the first entry: no node is lost in silence, nothing recurses, the time
is linear. What cannot be placed at all (an empty list) is a SnapshotError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from region4web.errors import SnapshotError

__all__ = ["RawTree", "Repairs", "build_raw_tree"]


class Repairs:
    """Counts repairs by kind and remembers the first entry of each."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def add(self, kind: str, entry: str) -> None:
        self._first.setdefault(kind, entry)
        self._count[kind] = self._count.get(kind, 0) + 1

    def lines(self) -> tuple[str, ...]:
        """One line a kind: `3 x node without a parent hung below the root, first nodes[7]`."""
        return tuple(f"{count} x {kind}, first {self._first[kind]}" for kind, count in self._count.items())


@dataclass(frozen=True)
class RawTree:
    """`entries[k]` is the k-th node in preorder, `parent[k]` the position of its parent (-1 for the root)."""

    entries: list[Mapping[str, Any]]
    parent: list[int]
    end: list[int]
    repairs: Repairs


def build_raw_tree(nodes: Sequence[object], *, source: str = "snapshot") -> RawTree:
    """Order `nodes` in preorder and mend what is broken. Raises SnapshotError when there is nothing to order."""
    if not nodes:
        raise SnapshotError(f"{source}: no accessibility nodes; capture the page again")
    repairs = Repairs()
    entries: list[Mapping[str, Any]] = []
    place: dict[str, int] = {}
    for i, node in enumerate(nodes):
        if not isinstance(node, Mapping):
            raise SnapshotError(f"{source}: nodes[{i}] must be an object, found a {type(node).__name__}")
        key = node.get("nodeId")
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            repairs.add("node without a nodeId kept where its parentId says", f"nodes[{i}]")
        elif str(key) in place:
            if node == entries[place[str(key)]]:
                repairs.add("exact copy of a node left out", f"nodes[{i}] (nodeId {key})")
                continue
            repairs.add("second node under one nodeId kept where its parentId says", f"nodes[{i}] (nodeId {key})")
        else:
            place[str(key)] = len(entries)
        entries.append(node)
    children = _linked_children(entries, place, repairs)
    return _in_preorder(entries, children, _first_root(entries, place), repairs)


def _linked_children(entries: list[Mapping[str, Any]], place: dict[str, int], repairs: Repairs) -> list[list[int]]:
    """Children of each entry by `childIds`, then those that only their `parentId` places."""
    claimed = [False] * len(entries)
    children: list[list[int]] = [[] for _ in entries]
    for i, entry in enumerate(entries):
        ids = entry.get("childIds")
        if ids is None:
            continue
        if not isinstance(ids, (list, tuple)):
            repairs.add("childIds that is no list ignored", f"nodeId {entry.get('nodeId')}")
            continue
        for child_id in ids:
            c = place.get(str(child_id)) if isinstance(child_id, (str, int)) else None
            if c is None:
                repairs.add("childId that names no node ignored", f"{child_id!r:.40} of nodeId {entry.get('nodeId')}")
            elif c == i:
                repairs.add("node that is its own child unlinked", f"nodeId {entry.get('nodeId')}")
            elif claimed[c]:
                repairs.add("node claimed by two parents left with the first", f"nodeId {entries[c].get('nodeId')}")
            else:
                claimed[c] = True
                children[i].append(c)
    for i, entry in enumerate(entries):
        parent_id = entry.get("parentId")
        if claimed[i] or parent_id is None:
            continue
        p = place.get(str(parent_id)) if isinstance(parent_id, (str, int)) else None
        if p is not None and p != i:
            children[p].append(i)
            claimed[i] = True
            repairs.add("node missing from its parent's childIds appended there", f"nodeId {entry.get('nodeId')}")
    return children


def _first_root(entries: list[Mapping[str, Any]], place: dict[str, int]) -> int:
    """The first root of the page: a RootWebArea that names no known parent, else any such node, else the first."""
    roots = [i for i, entry in enumerate(entries) if str(entry.get("parentId")) not in place]
    for i in roots:
        role = entries[i].get("role")
        if isinstance(role, Mapping) and role.get("value") in ("RootWebArea", "WebArea"):
            return i
    return roots[0] if roots else 0


def _in_preorder(entries: list[Mapping[str, Any]], children: list[list[int]], root: int, repairs: Repairs) -> RawTree:
    order: list[int] = []
    parent: list[int] = []
    seen = [False] * len(entries)
    is_child = [False] * len(entries)
    for below in children:
        for c in below:
            is_child[c] = True

    def walk(start: int, parent_position: int) -> None:
        stack = [(start, parent_position)]
        while stack:
            i, p = stack.pop()
            if seen[i]:
                repairs.add("cycle cut open", f"nodeId {entries[i].get('nodeId')}")
                continue
            seen[i] = True
            position = len(order)
            order.append(i)
            parent.append(p)
            stack.extend((c, position) for c in reversed(children[i]))

    walk(root, -1)
    for i in range(len(entries)):
        if not seen[i] and not is_child[i]:
            kind = "second root" if entries[i].get("parentId") is None else "node without a parent"
            repairs.add(f"{kind} hung below the root", f"nodeId {entries[i].get('nodeId')}")
            walk(i, 0)
    for i in range(len(entries)):
        if not seen[i]:
            repairs.add("cycle without a root hung below the root", f"nodeId {entries[i].get('nodeId')}")
            walk(i, 0)
    # A late branch hangs below the root and comes last, so the order is still preorder.
    end = list(range(1, len(order) + 1))
    for k in range(len(order) - 1, 0, -1):
        if end[k] > end[parent[k]]:
            end[parent[k]] = end[k]
    return RawTree([entries[i] for i in order], parent, end, repairs)
