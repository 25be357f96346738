"""What is known of each node against a task: the features that the ranker scores.

Enters: a `RegionMap`, the task, the actions so far. Leaves: a matrix (N, F), one row a node in preorder; columns are
`FEATURES`. Everything is computed on flat arrays: overlap of the task's words with a node's own text and with the
texts around it (subtree, row, heading, neighbours, region), what kind of element it is, and where recent actions were.
Symbols: N nodes, R regions, T task words, V distinct page words, W page words in all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter1d

from pagedigest.concepts import concept_mask
from pagedigest.observation import Action
from pagedigest.words import FloatArray, WordVectors, agreement, load_word_vectors, split_words, task_text
from region4web.axtree import AXTree
from region4web.regions import RegionMap

__all__ = ["CONTROL_ROLES", "FEATURES", "node_features"]

TASK_WORD_LIMIT = 48
"""Task words that are scored at most; the most telling ones of a longer task."""
NODE_WORD_LIMIT = 80
"""Words of one node that are read at most."""
WINDOW = 8
"""Nodes to each side that count as a node's neighbourhood."""

ROLE_CLASSES: tuple[frozenset[str], ...] = (
    frozenset(
        {"StaticText", "text", "paragraph", "LabelText", "Legend", "term", "definition", "time", "code", "emphasis", "strong", "mark"}
    ),
    frozenset({"link"}),
    frozenset({"button", "DisclosureTriangle", "toggle"}),
    frozenset({"textbox", "searchbox", "spinbutton", "textarea"}),
    frozenset({"combobox", "listbox", "slider", "Date", "DateTime", "ColorWell", "popupbutton"}),
    frozenset({"checkbox", "radio", "switch", "radiogroup"}),
    frozenset({"option", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem", "MenuListOption"}),
    frozenset({"heading"}),
    frozenset({"cell", "gridcell", "columnheader", "rowheader", "LayoutTableCell"}),
    frozenset({"row", "listitem", "article", "LayoutTableRow"}),
    frozenset({"image", "img", "figure", "graphics-document", "SvgRoot", "Video", "Audio"}),
    frozenset(
        {
            "banner",
            "navigation",
            "main",
            "contentinfo",
            "complementary",
            "search",
            "form",
            "region",
            "dialog",
            "alertdialog",
            "alert",
            "status",
        }
    ),
)
_ROLE_CLASS = {role: number for number, roles in enumerate(ROLE_CLASSES) for role in roles}
CONTROL_ROLES = frozenset().union(*ROLE_CLASSES[1:7])
"""Roles of elements that an agent acts on."""
_FIELD_CLASSES = (3, 4, 5)
_ROW_ROLES = ROLE_CLASSES[9]
_LANDMARKS = {
    "banner": 1,
    "navigation": 2,
    "main": 3,
    "contentinfo": 4,
    "complementary": 5,
    "search": 6,
    "form": 7,
    "dialog": 8,
    "alertdialog": 8,
}
_QUESTION = re.compile(
    r"\?|？|\b(?:who|what|when|where|which|why|how|is|are|does|do|tell me|list|summari[sz]e|give me|was|wer|wie|welche|quel|quelle|cuál|qué|как|что|кто|сколько|когда)\b",
    re.I,
)
_VALUES = re.compile(r"[\w.+-]+@[\w-]+\.\w+|\"[^\"]+\"|'[^']{2,}'|\b\d{3,}\b|password", re.I)


def node_features(region_map: RegionMap, task: str, actions: Sequence[Action] = ()) -> FloatArray:
    """(N, F) float32, columns `FEATURES`."""
    columns = _columns(region_map, task_text(task), actions)
    return np.stack([np.asarray(columns[name], dtype=np.float32) for name in FEATURES], axis=1)


@dataclass(frozen=True)
class _Words:
    """Words of the N node texts: `flat[start[i]:start[i + 1]]` are node i's, as rows of `vocabulary`."""

    vocabulary: list[str]
    flat: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]


def _page_words(texts: Sequence[str]) -> _Words:
    number: dict[str, int] = {}
    seen: dict[str, tuple[list[int], int]] = {}
    flat: list[int] = []
    start = [0]
    masks: list[int] = []
    for text in texts:
        known = seen.get(text)
        if known is None:
            words = split_words(text)[:NODE_WORD_LIMIT] if text else []
            known = seen[text] = ([number.setdefault(word, len(number)) for word in words], concept_mask(words))
        flat.extend(known[0])
        start.append(len(flat))
        masks.append(known[1])
    return _Words(list(number), np.asarray(flat, dtype=np.int64), np.asarray(start, dtype=np.int64), np.asarray(masks, dtype=np.int64))


def _task_words(task: str, vectors: WordVectors) -> tuple[list[str], FloatArray]:
    words = list(dict.fromkeys(split_words(task)))
    weights = vectors.weights(words) if words else np.zeros(0, dtype=np.float32)
    if len(words) > TASK_WORD_LIMIT:
        kept = np.sort(np.argsort(-weights, kind="stable")[:TASK_WORD_LIMIT])
        words, weights = [words[k] for k in kept], weights[kept]
    return words or [""], weights if words else np.ones(1, dtype=np.float32)


def _segment_max(values: FloatArray, start: npt.NDArray[np.int64]) -> FloatArray:
    """(S, T) largest of the columns of `values` (T, W) in each of S segments; 0 for an empty one."""
    out = np.zeros((len(start) - 1, values.shape[0]), dtype=np.float32)
    full = np.flatnonzero(start[1:] > start[:-1])
    if len(full):
        out[full] = np.maximum.reduceat(values, start[full], axis=1).T
    return out


def _segment_sum(values: FloatArray, start: npt.NDArray[np.int64]) -> FloatArray:
    """(S, ...) sums over segments of the first axis of `values`."""
    total = np.concatenate([np.zeros((1, *values.shape[1:]), dtype=np.float64), np.cumsum(values, axis=0, dtype=np.float64)])
    return np.asarray(total[start[1:]] - total[start[:-1]], dtype=np.float32)


def _cosine(bags: FloatArray, task: FloatArray) -> FloatArray:
    norms = np.linalg.norm(bags, axis=1)
    return np.asarray(bags @ task / np.maximum(norms, 1e-6), dtype=np.float32)


@dataclass(frozen=True)
class _Layout:
    """Where each of N nodes stands, as node indices (-1: none)."""

    role: npt.NDArray[np.int64]
    heading: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    landmark: npt.NDArray[np.int64]
    column_head: npt.NDArray[np.int64]
    siblings: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    in_table: npt.NDArray[np.int64]


def _layout(tree: AXTree) -> _Layout:
    n = len(tree)
    parent = tree.parent.tolist()
    roles = [node.role for node in tree.nodes]
    role = np.asarray([_ROLE_CLASS.get(name, 12) for name in roles])
    heading, row, landmark, table = [-1] * n, [-1] * n, [0] * n, [0] * n
    column_head, siblings, place = [-1] * n, [1] * n, [0] * n
    latest = -1
    children = tree.children
    for i in range(n):
        p = parent[i]
        heading[i] = latest
        if roles[i] == "heading":
            latest = i
        landmark[i] = _LANDMARKS.get(roles[i], landmark[p] if p >= 0 else 0)
        row[i] = i if roles[i] in _ROW_ROLES else row[p] if p >= 0 else -1
        table[i] = 1 if roles[i] in ("table", "grid", "treegrid", "LayoutTable") else table[p] if p >= 0 else 0
        counts: dict[str, int] = {}
        for c in children[i]:
            place[c] = counts.get(roles[c], 0)
            counts[roles[c]] = place[c] + 1
        for c in children[i]:
            siblings[c] = counts[roles[c]]
        if table[i] and roles[i] in ("table", "grid", "treegrid", "LayoutTable"):
            _mark_column_heads(tree, i, roles, column_head)
    for i in range(1, n):  # what hangs in a cell stands under that cell's column head
        if column_head[i] < 0:
            column_head[i] = column_head[parent[i]]
    return _Layout(role, *(np.asarray(a) for a in (heading, row, landmark, column_head, siblings, place, table)))


def _mark_column_heads(tree: AXTree, table: int, roles: list[str], column_head: list[int]) -> None:
    heads: list[int] | None = None
    for i in tree.subtree(table):
        if roles[i] in ("row", "LayoutTableRow"):
            cells = tree.children[i]
            if heads is None:
                heads = list(cells)
            else:
                for k, cell in enumerate(cells[: len(heads)]):
                    column_head[cell] = heads[k]


def _columns(region_map: RegionMap, task: str, actions: Sequence[Action]) -> dict[str, npt.NDArray[np.generic]]:
    partition = region_map.partition
    tree = partition.tree
    n = len(tree)
    vectors = load_word_vectors()
    texts = [node.name if node.value is None or node.value == node.name else f"{node.name} {node.value}" for node in tree.nodes]
    addresses = [_address_text(node.url) for node in tree.nodes]
    purposes = [f"{a.purpose} {a.state}" for a in region_map.abstractions]
    words = _page_words([*texts, *addresses, *purposes])
    task_words, weights = _task_words(task, vectors)
    t = len(task_words)
    exact, loose = agreement(task_words, words.vocabulary, vectors)
    both = _segment_max(np.concatenate([exact, loose])[:, words.flat], words.start)  # (2N + R, 2T)
    own, address, purpose = both[:n], both[n : 2 * n], both[2 * n :]

    df = (own[:, :t] > 0.5).sum(axis=0)
    weights = weights * np.where(df > 0, 0.35 + 0.65 * np.log((1 + n) / (1 + df)) / np.log(1 + n), 1.0).astype(np.float32)
    total = float(weights.sum()) or 1.0
    on_page = float(weights[df > 0].sum()) or 1.0

    lay = _layout(tree)
    parent, end = tree.parent, tree.end
    sub, above = own.copy(), np.zeros_like(own)
    for i in range(n - 1, 0, -1):
        np.maximum(sub[parent[i]], sub[i], out=sub[parent[i]])
    for i in range(1, n):
        p = parent[i]
        np.maximum(above[p], own[p], out=above[i]) if p else None
    region_of = partition.region_of
    order = np.argsort(region_of, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(region_of, minlength=len(partition)))])
    in_region = _segment_max(np.ascontiguousarray(own[order].T), bounds)[region_of]
    has_text = np.asarray([bool(text) for text in texts])
    before, after = _neighbours(has_text, end)
    padded = np.concatenate([own, np.zeros((1, 2 * t), dtype=np.float32)])
    padded_sub = np.concatenate([sub, np.zeros((1, 2 * t), dtype=np.float32)])
    window = maximum_filter1d(own, size=2 * WINDOW + 1, axis=0, mode="constant")
    row = np.where(lay.row >= 0, lay.row, np.maximum(parent, 0))
    contexts = {
        "own": own,
        "address": address,
        "sub": sub,
        "above": above,
        "row": sub[row],
        "heading": padded_sub[lay.heading],
        "column": padded_sub[lay.column_head],
        "before": padded[before],
        "after": padded[after],
        "window": window,
        "region": in_region,
        "purpose": purpose[region_of],
        "around": np.maximum(np.maximum(padded_sub[lay.heading], purpose[region_of]), above),
    }
    columns: dict[str, npt.NDArray[np.generic]] = {}
    for name, matrix in contexts.items():
        columns[f"{name}_exact"] = matrix[:, :t] @ weights / total
        columns[f"{name}_loose"] = matrix[:, t:] @ weights / total
    columns["own_best"] = (own[:, :t] * weights).max(axis=1)
    columns["own_found"] = own[:, :t] @ weights / on_page
    columns["row_found"] = sub[row][:, :t] @ weights / on_page
    columns["window_found"] = window[:, :t] @ weights / on_page
    fresh = np.maximum(own - contexts["around"], 0)
    columns["joint_loose"] = np.maximum(own, contexts["around"])[:, t:] @ weights / total
    columns["fresh_loose"] = fresh[:, t:] @ weights / total
    columns["row_joint"] = np.maximum(sub[row], padded_sub[lay.column_head])[:, t:] @ weights / total

    page_weights = vectors.weights(words.vocabulary)
    matched = loose.max(axis=0) * page_weights
    weight_sums = _segment_sum(np.stack([matched, page_weights], axis=1)[words.flat], words.start)
    precision = weight_sums[:, 0] / np.maximum(weight_sums[:, 1], 1e-6)
    columns["own_precision"] = precision[:n]
    columns["purpose_precision"] = precision[2 * n :][region_of]
    page_vectors = vectors.embed(words.vocabulary) * page_weights[:, None]
    bags = _segment_sum(page_vectors[words.flat], words.start)
    query = (vectors.embed(task_words) * weights[:, None]).sum(axis=0)
    query /= max(float(np.linalg.norm(query)), 1e-6)
    totals = np.concatenate([np.zeros((1, bags.shape[1])), np.cumsum(bags[:n], axis=0, dtype=np.float64)])
    at = np.arange(n)
    low, high = np.maximum(at - WINDOW, 0), np.minimum(at + WINDOW + 1, n)
    region_bags = _segment_sum(bags[:n][order], bounds)
    heading_bags = np.concatenate([totals[end] - totals[at], np.zeros((1, bags.shape[1]))]).astype(np.float32)
    columns["own_cosine"] = _cosine(bags[:n], query)
    columns["row_cosine"] = _cosine(heading_bags[row], query)
    columns["heading_cosine"] = _cosine(heading_bags[lay.heading], query)
    columns["window_cosine"] = _cosine((totals[high] - totals[low]).astype(np.float32), query)
    columns["region_cosine"] = _cosine(region_bags, query)[region_of]
    columns["purpose_cosine"] = _cosine(bags[2 * n :], query)[region_of]

    asked = concept_mask(split_words(task))
    columns["concepts_own"] = _bits(words.masks[:n] & asked)
    columns["concepts_address"] = _bits(words.masks[n : 2 * n] & asked)
    columns["concepts_purpose"] = _bits(words.masks[2 * n :] & asked)[region_of]
    columns["concepts_before"] = np.where(before < n, columns["concepts_own"][np.minimum(before, n - 1)], 0)
    columns.update(_phrase_columns(texts, task))
    columns.update(_structure_columns(region_map, lay, texts))
    columns.update(_task_columns(task, n))
    columns.update(_action_columns(tree, region_of, actions, lay))
    for name in (
        "own_loose",
        "joint_loose",
        "row_loose",
        "window_loose",
        "region_loose",
        "purpose_loose",
        "own_cosine",
        "window_cosine",
        "region_cosine",
    ):
        columns[f"{name}_rank"] = _descending_rank(np.asarray(columns[name], dtype=np.float32))
    return columns


def _address_text(url: str | None) -> str:
    if not url or url[:5].lower() == "data:":
        return ""
    tail = url.split("://", 1)[-1].partition("/")[2]
    return tail[:120]


def _neighbours(has_text: npt.NDArray[np.bool_], end: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Index of the last node with text before each node, and of the first after its subtree; N where there is none."""
    n = len(has_text)
    last = np.maximum.accumulate(np.where(has_text, np.arange(n), -1))
    before = np.concatenate([[-1], last[:-1]])
    following = np.minimum.accumulate(np.where(has_text, np.arange(n), n)[::-1])[::-1]
    after = np.concatenate([following, [n]])[end]
    return np.where(before < 0, n, before), after


def _bits(masks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.asarray([mask.bit_count() for mask in masks.tolist()], dtype=np.int64)


def _descending_rank(scores: FloatArray) -> FloatArray:
    """(N,) 0 for the highest score, log-scaled; ties share their first rank."""
    ordered = np.sort(-scores)
    return np.asarray(np.log1p(np.searchsorted(ordered, -scores, side="left")), dtype=np.float32)


def _phrase_columns(texts: Sequence[str], task: str) -> dict[str, npt.NDArray[np.generic]]:
    """Whether a node's whole text stands in the task, and whether the task's quoted parts stand in it."""
    folded = f" {' '.join(split_words(task))} "
    quoted = [
        " ".join(split_words(q))
        for pair in re.findall(r"\"([^\"]{2,})\"|'([^']{2,}?)'(?!\w)|“([^”]{2,})”|«([^»]{2,})»|「([^」]{2,})」", task)
        for q in pair
        if q
    ]
    seen: dict[str, tuple[int, int]] = {}
    for text in texts:
        if text not in seen:
            words = split_words(text)[:NODE_WORD_LIMIT]
            line = f" {' '.join(words)} "
            seen[text] = (len(words) if words and line in folded else 0, sum(1 + (q == line.strip()) for q in quoted if f" {q} " in line))
    return {"phrase_in_task": np.asarray([seen[x][0] for x in texts]), "quoted": np.asarray([seen[x][1] for x in texts])}


def _structure_columns(region_map: RegionMap, lay: _Layout, texts: Sequence[str]) -> dict[str, npt.NDArray[np.generic]]:
    partition = region_map.partition
    tree = partition.tree
    n, r = len(tree), len(partition)
    region_of = partition.region_of
    at = np.arange(n)
    roots = np.asarray(partition.roots)
    sizes = np.bincount(region_of, minlength=r)
    control = (lay.role >= 1) & (lay.role <= 6)
    field = np.isin(lay.role, _FIELD_CLASSES)
    controls = np.bincount(region_of, weights=control, minlength=r)
    fields = np.bincount(region_of, weights=field, minlength=r)
    links = np.bincount(region_of, weights=lay.role == 1, minlength=r)
    length = np.asarray([len(text) for text in texts])
    text_length = np.bincount(region_of, weights=np.where(lay.role == 1, 0, length), minlength=r)
    count: dict[tuple[int, str], int] = {}
    for k, text in zip(lay.role.tolist(), texts, strict=True):
        count[k, text] = count.get((k, text), 0) + 1
    states = [dict(node.states) for node in tree.nodes]
    digits = np.asarray([sum(c.isdigit() for c in text[:60]) for text in texts])
    parent_role = np.where(tree.parent >= 0, lay.role[np.maximum(tree.parent, 0)], 12)
    return {
        "role": lay.role,
        "parent_role": parent_role,
        "searchbox": np.asarray([node.role == "searchbox" or node.role == "search" for node in tree.nodes]),
        "combobox": np.asarray([node.role == "combobox" for node in tree.nodes]),
        "cell": np.asarray([node.role in ("cell", "gridcell", "LayoutTableCell") for node in tree.nodes]),
        "static_text": np.asarray([node.role == "StaticText" for node in tree.nodes]),
        "addressable": np.asarray([node.addressable for node in tree.nodes]),
        "has_value": np.asarray([node.value is not None for node in tree.nodes]),
        "has_url": np.asarray([node.url is not None for node in tree.nodes]),
        "focused": np.asarray([bool(s.get("focused")) for s in states]),
        "disabled": np.asarray([bool(s.get("disabled")) for s in states]),
        "required": np.asarray([bool(s.get("required")) for s in states]),
        "popup": np.asarray(["hasPopup" in s or "expanded" in s for s in states]),
        "checked": np.asarray([1 + (s["checked"] in (True, "true")) if "checked" in s else 0 for s in states]),
        "hidden": np.asarray([not node.visible for node in tree.nodes]),
        "clickable": np.asarray([node.clickable for node in tree.nodes]),
        "length": np.minimum(length, 400),
        "digits": digits / np.maximum(np.minimum(length, 60), 1),
        "repeats": np.log1p(np.asarray([count[k, text] for k, text in zip(lay.role.tolist(), texts, strict=True)])),
        "nodes": np.full(n, np.log(n)),
        "position": at / n,
        "depth": tree.depth,
        "subtree": np.log(tree.end - at),
        "landmark": lay.landmark,
        "in_table": lay.in_table,
        "siblings": np.log(lay.siblings),
        "place": np.minimum(lay.place, 50),
        "place_from_end": np.minimum(lay.siblings - lay.place, 50),
        "is_region_root": np.isin(at, roots),
        "region_place": region_of / r,
        "in_page_region": region_of == 0,
        "region_size": np.log(sizes)[region_of],
        "region_share": (sizes / n)[region_of],
        "place_in_region": (at - roots[region_of]) / np.maximum(tree.end[roots] - roots, 1)[region_of],
        "region_controls": np.log1p(controls)[region_of],
        "region_fields": np.log1p(fields)[region_of],
        "region_link_share": (links / sizes)[region_of],
        "region_text": np.log1p(text_length)[region_of],
    }


def _task_columns(task: str, n: int) -> dict[str, npt.NDArray[np.generic]]:
    return {
        "task_length": np.full(n, np.log1p(len(task))),
        "task_asks": np.full(n, bool(_QUESTION.search(task))),
        "task_values": np.full(n, min(6, len(_VALUES.findall(task)))),
    }


def _action_columns(
    tree: AXTree, region_of: npt.NDArray[np.int32], actions: Sequence[Action], lay: _Layout
) -> dict[str, npt.NDArray[np.generic]]:
    """How far each node is from what was acted on; all zero at the first step and after a page change."""
    n = len(tree)
    at = np.arange(n)
    found = [i for action in actions if action.target is not None and (i := tree.find(action.target)) is not None]
    last = found[-1] if found and actions[-1].target is not None and tree.find(actions[-1].target) == found[-1] else -1
    distance = at - last if last >= 0 else np.zeros(n, dtype=np.int64)
    touched = np.zeros(n, dtype=np.int64)
    for i in found:
        touched[i] += 1
    control = (lay.role >= 1) & (lay.role <= 6)
    order = np.cumsum(control)
    return {
        "steps": np.full(n, min(len(actions), 20)),
        "touched": np.minimum(touched, 3),
        "after_last": np.clip(distance, -60, 60),
        "controls_after_last": np.clip(order - order[last], -30, 30) if last >= 0 else np.zeros(n),
        "is_last": at == last,
        "touched_region": np.isin(region_of, region_of[found]) if found else np.zeros(n),
        "last_region": region_of == region_of[last] if last >= 0 else np.zeros(n),
        "last_kind": np.full(n, lay.role[last] if last >= 0 else -1),
    }


_CONTEXTS = ("own", "address", "sub", "above", "row", "heading", "column", "before", "after", "window", "region", "purpose", "around")
FEATURES: tuple[str, ...] = (
    *(f"{context}_{kind}" for context in _CONTEXTS for kind in ("exact", "loose")),
    *("own_best own_found row_found window_found joint_loose fresh_loose row_joint own_precision purpose_precision").split(),
    *("own_cosine row_cosine heading_cosine window_cosine region_cosine purpose_cosine").split(),
    *("concepts_own concepts_address concepts_purpose concepts_before phrase_in_task quoted").split(),
    *(
        "role parent_role searchbox combobox cell static_text addressable has_value has_url focused disabled required popup checked hidden clickable"
    ).split(),
    *(
        "length digits repeats nodes position depth subtree landmark in_table siblings place place_from_end is_region_root region_place"
    ).split(),
    *("in_page_region region_size region_share place_in_region region_controls region_fields region_link_share region_text").split(),
    *(
        "task_length task_asks task_values steps touched after_last controls_after_last is_last touched_region last_region last_kind"
    ).split(),
    *(
        f"{name}_rank"
        for name in (
            "own_loose",
            "joint_loose",
            "row_loose",
            "window_loose",
            "region_loose",
            "purpose_loose",
            "own_cosine",
            "window_cosine",
            "region_cosine",
        )
    ),
)
"""Names of the F columns, in order: the weights know them by this list."""
