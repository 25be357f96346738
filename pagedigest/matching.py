"""Which element of one tree is which of another: DESIGN "Page life", rule 4.

Enters: two trees of one page. Leaves: a `Matching`, a partial one-to-one map of node indices. An element is known by
its backend id within a document, else by the id an agent acts with, else by role, name and place: below matched
parents first by what the whole subtree says, then by role and name in order, last by a path that is unique in both
trees. Linear in the number of nodes, no recursion. What a matched pair differs in is `transition`'s business.

Symbols: N nodes in the entry tree, M nodes in the current tree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from region4web.axtree import AXNode, AXTree

__all__ = ["Matching", "match_trees", "same_document"]

_PLAIN_ROLES = frozenset({"generic", "none"})
"""Wrappers: they come and go with layout and say nothing in a path."""


@dataclass(frozen=True)
class Matching:
    """`current_of[i]` is the index in the current tree of entry node i, `entry_of[j]` the reverse; -1 where none."""

    current_of: tuple[int, ...]
    entry_of: tuple[int, ...]

    @property
    def kept(self) -> int:
        """Number of matched pairs."""
        return len(self.current_of) - self.current_of.count(-1)


def same_document(entry: AXTree, current: AXTree) -> bool | None:
    """Whether both trees are of one document; None when the source does not say (recorded text)."""
    a, b = entry.nodes[0].backend_id, current.nodes[0].backend_id
    return None if a is None or b is None else a == b


def match_trees(entry: AXTree, current: AXTree) -> Matching:
    """Match the nodes of two trees; the roots always match."""
    pairs = _Pairs(entry, current)
    pairs.link(0, 0)
    document = same_document(entry, current)
    _match_unchanged_ids(pairs, document)
    if document and pairs.free_entry and pairs.free_current:
        _match_by_key(pairs, _backend_key, _always)
    if pairs.free_entry and pairs.free_current:
        _match_by_key(pairs, _id_key, _same_role if document is not False else _same_role_and_name)
    if pairs.free_entry and pairs.free_current:
        _match_by_place(pairs)
    if pairs.free_entry and pairs.free_current:
        _match_by_path(pairs)
    return Matching(tuple(pairs.current_of), tuple(pairs.entry_of))


class _Pairs:
    """The map under construction."""

    def __init__(self, entry: AXTree, current: AXTree) -> None:
        self.entry, self.current = entry, current
        self.current_of = [-1] * len(entry)
        self.entry_of = [-1] * len(current)
        self.free_entry, self.free_current = len(entry), len(current)

    def link(self, i: int, j: int) -> None:
        self.current_of[i] = j
        self.entry_of[j] = i
        self.free_entry -= 1
        self.free_current -= 1


def _match_unchanged_ids(pairs: _Pairs, document: bool | None) -> None:
    """The bulk of a step, in one pass: id, backend id and role are those of before (and the name, in another document)."""
    place = pairs.current.index_of
    nodes = pairs.current.nodes
    current_of, entry_of = pairs.current_of, pairs.entry_of
    linked = 0
    for i, node in enumerate(pairs.entry.nodes):
        j = place.get(node.id, 0)
        if not j or not i:
            continue
        other = nodes[j]
        known = node.addressable if node.backend_id is None else document is not None
        if known and node.backend_id == other.backend_id and node.role == other.role and (document is not False or node.name == other.name):
            current_of[i] = j
            entry_of[j] = i
            linked += 1
    pairs.free_entry -= linked
    pairs.free_current -= linked


def _backend_key(node: AXNode) -> Hashable:
    return None if node.backend_id is None else (node.frame, node.backend_id)


def _id_key(node: AXNode) -> Hashable:
    return node.id if node.addressable else None


def _always(a: AXNode, b: AXNode) -> bool:
    return True


def _same_role(a: AXNode, b: AXNode) -> bool:
    return a.role == b.role


def _same_role_and_name(a: AXNode, b: AXNode) -> bool:
    return a.role == b.role and a.name == b.name


def _match_by_key(pairs: _Pairs, key: Callable[[AXNode], Hashable], fits: Callable[[AXNode, AXNode], bool]) -> None:
    place: dict[Hashable, int] = {}
    for j, node in enumerate(pairs.current.nodes):
        if pairs.entry_of[j] < 0 and (k := key(node)) is not None:
            place.setdefault(k, j)
    if not place:
        return
    for i, node in enumerate(pairs.entry.nodes):
        if pairs.current_of[i] < 0 and (k := key(node)) is not None:
            found = place.get(k)
            if found is not None and pairs.entry_of[found] < 0 and fits(node, pairs.current.nodes[found]):
                pairs.link(i, found)


def _match_by_place(pairs: _Pairs) -> None:
    """Top down: the unmatched children of a matched pair, against each other."""
    entry, current = pairs.entry, pairs.current
    deep_entry: list[int] | None = None
    deep_current: list[int] = []
    for i in range(len(entry)):
        j = pairs.current_of[i]
        if j < 0:
            continue
        left = [c for c in entry.children[i] if pairs.current_of[c] < 0]
        right = [c for c in current.children[j] if pairs.entry_of[c] < 0] if left else []
        if not right:
            continue
        if deep_entry is None:
            deep_entry, deep_current = _content_hashes(entry), _content_hashes(current)
        deep = deep_entry
        left, right = _link_in_order(pairs, left, right, deep.__getitem__, deep_current.__getitem__)
        left, right = _link_in_order(pairs, *_named(pairs, left, right), *_readers(pairs, _role_and_name))
        left, right = _unmatched(pairs, entry.children[i], current.children[j])
        left, right = _equally_many(pairs, left, right)
        _link_in_order(pairs, left, right, *_readers(pairs, _role_if_unnamed))


def _named(pairs: _Pairs, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
    nodes, others = pairs.entry.nodes, pairs.current.nodes
    return [i for i in left if nodes[i].name and nodes[i].addressable], [j for j in right if others[j].name and others[j].addressable]


def _unmatched(pairs: _Pairs, left: Sequence[int], right: Sequence[int]) -> tuple[list[int], list[int]]:
    return [i for i in left if pairs.current_of[i] < 0], [j for j in right if pairs.entry_of[j] < 0]


def _equally_many(pairs: _Pairs, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
    """Those that only a role tells apart, where both sides hold as many of the role: else order would be a guess."""
    read_left, read_right = _readers(pairs, _role_if_unnamed)
    counts: dict[Hashable, int] = {}
    for i in left:
        counts[read_left(i)] = counts.get(read_left(i), 0) + 1
    for j in right:
        counts[read_right(j)] = counts.get(read_right(j), 0) - 1
    return [i for i in left if counts.get(read_left(i)) == 0], [j for j in right if counts.get(read_right(j)) == 0]


def _role_and_name(node: AXNode) -> Hashable:
    return node.role, node.name


def _role_if_unnamed(node: AXNode) -> Hashable:
    """Role of a node that has no name, or that is a text; None for others: a different name is a different element."""
    return node.role if not node.name or not node.addressable or node.role == "StaticText" else None


def _readers(pairs: _Pairs, read: Callable[[AXNode], Hashable]) -> tuple[Callable[[int], Hashable], Callable[[int], Hashable]]:
    return (lambda i: read(pairs.entry.nodes[i])), (lambda j: read(pairs.current.nodes[j]))


def _link_in_order(pairs: _Pairs, left: list[int], right: list[int], left_key: Callable[[int], Hashable],
                   right_key: Callable[[int], Hashable]) -> tuple[list[int], list[int]]:  # fmt: skip
    """Link the k-th of a key with the k-th of the same key; returns what is left on both sides."""
    waiting: dict[Hashable, list[int]] = {}
    for j in reversed(right):
        waiting.setdefault(right_key(j), []).append(j)
    rest = []
    for i in left:
        key = left_key(i)
        queue = waiting.get(key) if key is not None else None
        if queue:
            pairs.link(i, queue.pop())
        else:
            rest.append(i)
    return rest, [j for j in right if pairs.entry_of[j] < 0]


def _content_hashes(tree: AXTree) -> list[int]:
    """Hash of role, name and value over each subtree."""
    parts: list[list[int]] = [[] for _ in tree.nodes]
    hashes = [0] * len(tree)
    parent = tree.parent.tolist()
    for i in range(len(tree) - 1, -1, -1):
        node = tree.nodes[i]
        hashes[i] = hash((node.role, node.name, node.value, tuple(parts[i])))
        if i:
            parts[parent[i]].append(hashes[i])
    return hashes


def _match_by_path(pairs: _Pairs) -> None:
    """Named nodes whose path of roles and names, wrappers left out, is unique among the unmatched of both trees."""
    left = _unique_paths(pairs.entry, pairs.current_of)
    right = _unique_paths(pairs.current, pairs.entry_of)
    for path, i in left.items():
        j = right.get(path, -1)
        if i >= 0 and j >= 0:
            pairs.link(i, j)


def _unique_paths(tree: AXTree, other: list[int]) -> dict[int, int]:
    """Unmatched named node by the hash of its path; -1 where several share one."""
    paths = [0] * len(tree)
    unique: dict[int, int] = {}
    parent = tree.parent.tolist()
    for i, node in enumerate(tree.nodes):
        above = paths[parent[i]] if i else 0
        paths[i] = above if node.role in _PLAIN_ROLES and not node.name else hash((above, node.role, node.name))
        if other[i] < 0 and node.name and node.addressable:
            unique[paths[i]] = -1 if paths[i] in unique else i
    return unique
