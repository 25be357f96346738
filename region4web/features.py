"""What the decomposition models see of a tree: one role and a row of numbers a node, by counting.

Enters: an `AXTree`. Leaves: arrays in node order. Boxes are not read: saved pages have misleading ones, and trials
were worse with them. Everything is linear in N: subtrees are contiguous ranges of a preorder, so what a subtree holds
is a difference of two running sums. Symbols: N nodes, F numbers a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from region4web.axtree import AXNode, AXTree, IntArray
from region4web.name_kinds import KINDS, NAME_READ, letters, name_kind
from region4web.roles import ROLE_INDEX, UNKNOWN_ROLE
from region4web.words import WORD_DIMENSIONS, WordTable, shipped_words

__all__ = ["FEATURE_NAMES", "PAPER_FEATURE_NAMES", "NodeFeatures", "node_features", "paper_features", "role_indices"]

FloatArray = npt.NDArray[np.float32]

PAPER_FEATURE_NAMES = ("depth", "size", "children", "named", "child_role_diversity")

ROLE_CLASSES: dict[str, frozenset[str]] = {
    "text": frozenset({"StaticText", "time", "Abbr", "code", "mark"}),
    "link": frozenset({"link"}),
    "image": frozenset({"image", "img", "SvgRoot", "Canvas", "Video", "Audio", "graphics-symbol", "figure"}),
    "heading": frozenset({"heading"}),
    "button": frozenset({"button", "menuitem", "tab", "DisclosureTriangle", "switch", "menuitemcheckbox", "menuitemradio"}),
    "field": frozenset({"textbox", "searchbox", "combobox", "spinbutton", "slider", "listbox", "Date", "DateTime", "ColorWell", "InputTime"}),
    "choice": frozenset({"checkbox", "radio", "option"}),
    "item": frozenset({"listitem", "row", "LayoutTableRow", "article", "term", "definition"}),
    "list": frozenset({"list", "table", "LayoutTable", "grid", "DescriptionList", "menu", "MenuListPopup", "tree", "tablist", "menubar"}),
    "cell": frozenset({"cell", "LayoutTableCell", "columnheader", "rowheader", "gridcell"}),
    "paragraph": frozenset({"paragraph", "blockquote"}),
    "landmark": frozenset({"banner", "navigation", "main", "complementary", "contentinfo", "search", "form", "region", "sectionheader",
                           "sectionfooter"}),
    "wrapper": frozenset({"generic", "none", "group"}),
    "popup": frozenset({"dialog", "alertdialog", "alert", "status", "log", "tooltip", "tabpanel"}),
}  # fmt: skip
CLASS_NAMES = tuple(ROLE_CLASSES)
_CLASS_OF_ROLE = np.full(len(ROLE_INDEX), len(CLASS_NAMES), dtype=np.int64)
for _number, _roles in enumerate(ROLE_CLASSES.values()):
    for _role in _roles:
        if _role in ROLE_INDEX:
            _CLASS_OF_ROLE[ROLE_INDEX[_role]] = _number

REMEMBERED = 1 << 15
"""Names whose facts are kept: pages of a site, and a page from step to step, repeat most of theirs."""
LINK_KINDS = ("same_page", "outward", "script", "contact")


@dataclass(frozen=True)
class NodeFeatures:
    """`roles` (N,) int64 indices into `roles.ROLES`; `numbers` (N, F) float32, named by FEATURE_NAMES."""

    roles: npt.NDArray[np.int64]
    numbers: FloatArray


def role_indices(tree: AXTree) -> npt.NDArray[np.int64]:
    """(N,) index of each node's role; unknown roles share one."""
    unknown = ROLE_INDEX[UNKNOWN_ROLE]
    return np.fromiter((ROLE_INDEX.get(node.role, unknown) for node in tree.nodes), dtype=np.int64, count=len(tree))


def paper_features(tree: AXTree) -> NodeFeatures:
    """The paper's five numbers: depth, subtree size, child count, has a name, child role diversity.

    Counts enter as log(1 + x), ours: the paper does not say how they are scaled.
    """
    n = len(tree)
    roles = role_indices(tree)
    parent = tree.parent.astype(np.int64)
    children = np.bincount(parent[1:], minlength=n)
    pairs = np.unique(parent[1:] * len(ROLE_INDEX) + roles[1:])
    distinct = np.bincount(pairs // len(ROLE_INDEX), minlength=n)
    named = np.fromiter((bool(node.name) for node in tree.nodes), dtype=np.float32, count=n)
    numbers = np.stack(
        [np.log1p(tree.depth), np.log1p(tree.end - np.arange(n)), np.log1p(children), named, distinct / np.maximum(children, 1)], axis=1
    )
    return NodeFeatures(roles, numbers.astype(np.float32))


def node_features(tree: AXTree, kept: npt.NDArray[np.int64] | None = None) -> NodeFeatures:
    """The numbers of the `best` model, see FEATURE_NAMES, of all nodes or of those `kept`. All are of order one.

    Raises WeightsError without a word table.
    """
    roles = role_indices(tree)
    names = _NameFacts.of(tree, shipped_words())
    counted = _columns(tree, roles, names)
    rows: slice | npt.NDArray[np.int64] = slice(None) if kept is None else kept
    numbers = np.empty((len(FEATURE_NAMES), len(tree) if kept is None else len(kept)), dtype=np.float32)
    for k, column in enumerate(counted.values()):
        numbers[k] = column[rows]
    mean_word, words = names.word_means(tree.end[rows], np.arange(len(tree))[rows])
    numbers[len(counted) : -1] = mean_word.T
    numbers[-1] = np.log1p(words)
    return NodeFeatures(roles[rows], np.ascontiguousarray(numbers.T))


@dataclass(frozen=True)
class _NameFacts:
    """`kinds` (N,): see name_kinds. `rows`: table rows of the known words of all names in node order, (T,);
    `offsets` (N + 1,): where each node's begin.
    """

    kinds: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    table: WordTable

    @classmethod
    def of(cls, tree: AXTree, table: WordTable) -> _NameFacts:
        facts = table.facts
        if len(facts) > REMEMBERED:
            facts.clear()
        kinds = [0] * len(tree)
        rows: list[int] = []
        offsets = [0] * (len(tree) + 1)
        for i, node in enumerate(tree.nodes):
            if i and node.name:  # the page's title is not content
                head = node.name[:NAME_READ]
                fact = facts.get(head)
                if fact is None:
                    words = letters(head)
                    fact = facts[head] = name_kind(head, words), [table.row_of[word] for word in words if word in table.row_of]
                kinds[i] = fact[0]
                rows += fact[1]
            offsets[i + 1] = len(rows)
        return cls(np.asarray(kinds, dtype=np.int64), np.asarray(rows, dtype=np.int64), np.asarray(offsets, dtype=np.int64), table)

    def word_means(self, end: IntArray, start: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """(K, D) mean vector of the known words of the subtrees from `start` to `end` (K,), and (K,) their number."""
        sums = np.zeros((len(self.rows) + 1, WORD_DIMENSIONS))
        np.cumsum(self.table.vectors[self.rows], axis=0, dtype=np.float64, out=sums[1:])
        first, last = self.offsets[start], self.offsets[end]
        words = last - first
        return (sums[last] - sums[first]) / np.maximum(words, 1)[:, None], words


def _columns(tree: AXTree, roles: npt.NDArray[np.int64], names: _NameFacts) -> dict[str, npt.NDArray[Any]]:
    n = len(tree)
    parent = tree.parent.astype(np.int64)
    parent[0] = 0
    start = np.arange(n)
    end = tree.end.astype(np.int64)
    size = end - start
    depth = tree.depth.astype(np.int64)
    children = np.bincount(parent[1:], minlength=n)
    leaf = children == 0
    height = _heights(tree)
    columns: dict[str, npt.NDArray[Any]] = {}

    # Own content.
    length = np.fromiter((len(node.name) for node in tree.nodes), dtype=np.int64, count=n)
    link_kind = _link_kinds(tree)
    classes = _CLASS_OF_ROLE[roles]
    columns["depth"] = depth / 10
    columns["depth_share"] = depth / max(1, int(depth.max()))
    columns["size"] = np.log1p(size)
    columns["size_share"] = size / n
    columns["page_size"] = np.full(n, np.log1p(n))
    columns["height"] = np.log1p(height)
    columns["children"] = np.log1p(children)
    columns["leaf"] = leaf
    columns["named"] = length > 0
    columns["name_length"] = np.log1p(length)
    columns["clickable"] = np.fromiter((node.clickable for node in tree.nodes), dtype=bool, count=n)
    columns["stateful"] = np.fromiter((bool(node.states) for node in tree.nodes), dtype=bool, count=n)
    columns["start"] = start / n
    columns["end"] = end / n

    # Content of the subtree, the node included.
    in_link = _under(classes == CLASS_NAMES.index("link"), end)
    in_list = _under(classes == CLASS_NAMES.index("item"), end)
    characters = np.where(leaf | (length > 0), np.minimum(length, 500), 0)
    total_characters = _subtree_sum(characters, end)
    columns["characters"] = np.log1p(total_characters)
    columns["characters_share"] = total_characters / max(1, int(total_characters[0]))
    columns["link_characters"] = _subtree_sum(characters * in_link, end) / np.maximum(total_characters, 1)
    columns["mean_characters"] = np.log1p(total_characters / size)
    counts = {}
    for number, name in enumerate(CLASS_NAMES):
        counts[name] = _subtree_sum(classes == number, end)
        columns[f"{name}_share"] = counts[name] / size
        columns[f"{name}_count"] = np.log1p(counts[name])
    controls = counts["button"] + counts["field"] + counts["choice"]
    columns["controls_of_page"] = controls / max(1, int(controls[0]))
    columns["links_of_page"] = counts["link"] / max(1, int(counts["link"][0]))
    columns["headings_of_page"] = counts["heading"] / max(1, int(counts["heading"][0]))
    columns["leaf_share"] = _subtree_sum(leaf, end) / size
    columns["listed"] = in_list
    columns["linked"] = in_link
    actionable = np.maximum(counts["link"] + counts["button"] + counts["field"] + counts["text"], 1)
    for number, name in enumerate(KINDS, 1):
        hits = _subtree_sum(names.kinds == number, end)
        columns[f"{name}_names"] = np.minimum(hits / actionable, 2)
        columns[f"any_{name}_name"] = hits > 0
    for number, name in enumerate(LINK_KINDS, 1):
        columns[f"{name}_links"] = _subtree_sum(link_kind == number, end) / np.maximum(counts["link"], 1)

    # Shape: two subtrees look alike when they hold the same roles with the same numbers of children.
    exact = _subtree_sum(_MIX[roles, np.minimum(children, _MIX.shape[1] - 1)], end)
    first_child = np.where(leaf, start, np.minimum(start + 1, n - 1))
    last_child = start.copy()
    last_child[parent[1:]] = start[1:]  # later children overwrite earlier ones
    rough = _MIX[roles, 0] + 3 * _MIX[roles[first_child], 1] + 5 * _MIX[roles[last_child], 2] + 7 * np.minimum(height, 3)
    order = np.lexsort((start[1:], parent[1:])) + 1 if n > 1 else np.zeros(0, dtype=np.int64)
    siblings = np.ones(n, dtype=np.int64)
    siblings[1:] = children[parent[1:]]
    position = np.zeros(n, dtype=np.int64)
    if n > 1:
        groups = parent[order]
        firsts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
        position[order] = np.arange(n - 1) - np.repeat(firsts, np.diff(np.r_[firsts, n - 1]))
    before, after = _neighbours(order, parent, n)
    columns["siblings"] = np.log1p(siblings)
    columns["position"] = (position + 0.5) / siblings
    columns["position_count"] = np.log1p(position)
    columns["positions_left"] = np.log1p(siblings - 1 - position)
    columns["only_child"] = siblings == 1
    columns["share_of_parent"] = size / np.maximum(size[parent] - 1, 1)
    columns["size_to_mean_sibling"] = np.log(size * siblings / np.maximum(size[parent] - 1, 1)).clip(-4, 4)
    for name, key in (("role", roles), ("shape", exact), ("rough_shape", rough)):
        alike = _alike_siblings(parent, key, n)
        columns[f"alike_{name}"] = alike / siblings
        columns[f"alike_{name}_count"] = np.log1p(alike - 1)
        columns[f"same_{name}_before"] = (before >= 0) & (key[before] == key)
        columns[f"same_{name}_after"] = (after >= 0) & (key[after] == key)
        _, inverse, frequency = np.unique(key * 31 + depth, return_inverse=True, return_counts=True)
        columns[f"{name}_at_depth"] = np.log1p(frequency[inverse] - 1)
        children_alike = np.zeros(n)
        np.maximum.at(children_alike, parent[1:], alike[1:])
        columns[f"children_alike_{name}"] = children_alike / np.maximum(children, 1)
    biggest = np.zeros(n)
    np.maximum.at(biggest, parent[1:], size[1:])
    columns["biggest_child"] = biggest / np.maximum(size - 1, 1)
    for least in (3, 8, 15):
        big = np.bincount(parent[1:], weights=size[1:] >= least, minlength=n)
        columns[f"children_of_{least}"] = np.log1p(big)
    below = np.maximum(children, 1)
    mean_size = (size - 1) / below
    columns["mean_child"] = np.log1p(mean_size)
    spread = np.sqrt(np.maximum(np.bincount(parent[1:], weights=np.square(size[1:].astype(float)), minlength=n) / below - mean_size**2, 0))
    columns["uneven_children"] = spread / np.maximum(mean_size, 1)
    columns["characters_per_child"] = np.log1p(total_characters / below)
    columns["controls_per_child"] = np.minimum(controls / below, 4)
    with_heading = np.bincount(parent[1:], weights=counts["heading"][1:] > 0, minlength=n)
    columns["children_with_heading"] = np.log1p(with_heading)
    columns["share_with_heading"] = with_heading / below
    heading = classes == CLASS_NAMES.index("heading")
    columns["child_headings"] = np.log1p(np.bincount(parent[1:], weights=heading[1:], minlength=n))
    columns["first_child_heading"] = ~leaf & heading[first_child]
    columns["starts_with_heading"] = counts["heading"][first_child] > 0
    columns["heading_before"] = (before >= 0) & heading[before]
    columns["heading_after"] = (after >= 0) & heading[after]
    columns["size_before"] = np.where(before >= 0, np.log1p(size[before]), 0)
    columns["size_after"] = np.where(after >= 0, np.log1p(size[after]), 0)
    landmark = (classes == CLASS_NAMES.index("landmark")).astype(np.int64)
    columns["landmarks_around"] = np.log1p(_ancestor_sum(landmark, end))
    columns["headings_before"] = np.cumsum(heading) / max(1, int(heading.sum()))
    columns["wrappers_around"] = _ancestor_sum((classes == CLASS_NAMES.index("wrapper")).astype(np.int64), end) / np.maximum(depth, 1)
    return columns


_MIX = np.random.default_rng(20260705).integers(-(2**62), 2**62, size=(len(ROLE_INDEX), 9), dtype=np.int64)
"""Random keys of (role, child count); sums of them wrap around and tell shapes apart."""


def _heights(tree: AXTree) -> IntArray:
    height = [0] * len(tree)
    parent = tree.parent.tolist()
    for i in range(len(height) - 1, 0, -1):
        h = height[i] + 1
        if h > height[parent[i]]:
            height[parent[i]] = h
    return np.asarray(height, dtype=np.int32)


def _subtree_sum(values: npt.NDArray[np.generic], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(N,) sum of `values` over each subtree, its root included."""
    sums = np.zeros(len(end) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:], dtype=np.int64)
    return sums[end] - sums[:-1]


def _ancestor_sum(values: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(N,) sum of `values` over the ancestors of each node, the node left out."""
    steps = np.zeros(len(end) + 1, dtype=np.int64)
    steps[:-1] += values
    np.subtract.at(steps, end, values)
    return np.cumsum(steps[:-1]) - values


def _under(flag: npt.NDArray[np.bool_], end: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """(N,) whether the node or an ancestor has the flag."""
    return (_ancestor_sum(flag.astype(np.int64), end) > 0) | flag


def _neighbours(order: npt.NDArray[np.int64], parent: npt.NDArray[np.int64], n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(N,) sibling before and sibling after, -1 where there is none. `order` lists edges grouped by parent."""
    before = np.full(n, -1, dtype=np.int64)
    after = np.full(n, -1, dtype=np.int64)
    together = parent[order[1:]] == parent[order[:-1]]
    before[order[1:][together]] = order[:-1][together]
    after[order[:-1][together]] = order[1:][together]
    return before, after


def _alike_siblings(parent: npt.NDArray[np.int64], key: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    """(N,) how many children of the node's parent share its key, itself included."""
    alike = np.ones(n, dtype=np.int64)
    if n > 1:
        order = np.lexsort((key[1:], parent[1:])) + 1
        k, p = key[order], parent[order]
        new = np.r_[True, (k[1:] != k[:-1]) | (p[1:] != p[:-1])]
        firsts = np.flatnonzero(new)
        lengths = np.diff(np.r_[firsts, n - 1])
        alike[order] = np.repeat(lengths, lengths)
    return alike


def _link_kinds(tree: AXTree) -> npt.NDArray[np.int64]:
    """(N,) where each link leads, counted from 1 in LINK_KINDS; 0 for elsewhere on the site and for what is no link."""
    host = urlsplit(tree.url).hostname if tree.url else None
    base = tree.url.split("#", 1)[0]
    return np.fromiter(
        (_link_kind(node.url, base, host) if node.url and node.role == "link" else 0 for node in tree.nodes),
        dtype=np.int64,
        count=len(tree),
    )


def _link_kind(url: str, base: str, host: str | None) -> int:
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if not colon or scheme == "javascript":
        return 3
    if scheme in ("mailto", "tel", "sms"):
        return 4
    if "#" in url and url.split("#", 1)[0] == base:
        return 1
    there = rest[2:].split("/", 1)[0].split("?", 1)[0]
    return 2 if host and there and there.removeprefix("www.") != host.removeprefix("www.") else 0


_ONE_NODE = AXTree((AXNode("1", "RootWebArea"),), np.asarray([-1], dtype=np.int32))
_NO_WORDS = WordTable({}, np.zeros((0, WORD_DIMENSIONS), dtype=np.float32))
FEATURE_NAMES: tuple[str, ...] = (
    *_columns(_ONE_NODE, role_indices(_ONE_NODE), _NameFacts.of(_ONE_NODE, _NO_WORDS)),
    *(f"word_{k}" for k in range(WORD_DIMENSIONS)),
    "words",
)
