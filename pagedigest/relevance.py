"""What is known of each node against a task: the features that the ranker scores.

Enters: a `RegionMap`, the task, the actions so far. Leaves: a matrix (N, F), one row a node in preorder; columns are
`FEATURES`. Everything is computed on flat arrays: how much of the task the words of a node's own text cover, and those of
the texts around it (subtree, row, heading, neighbours, region), beside the columns of `structure`.
Symbols: N nodes, R regions, T task words, V distinct page words, W page words in all, S texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter1d
from scipy.sparse import csr_matrix

from pagedigest.concepts import concept_bit, concept_mask
from pagedigest.lines import merged_names
from pagedigest.observation import Action
from pagedigest.structure import (
    Columns,
    Layout,
    action_columns,
    answer_columns,
    named,
    page_layout,
    state_columns,
    structure_columns,
    task_columns,
)
from pagedigest.words import FloatArray, WordVectors, agreement, load_word_vectors, split_words, task_text
from region4web.axtree import AXTree, IntArray
from region4web.regions import RegionMap

__all__ = ["FEATURES", "followed_features", "node_features", "node_texts"]

TASK_WORD_LIMIT = 48
"""Task words that are scored at most; the most telling ones of a longer task."""
NODE_WORD_LIMIT = 80
"""Words of one node that are read at most."""
WINDOW = 8
"""Nodes to each side that count as a node's neighbourhood."""
ADDRESS_LIMIT = 120
_QUOTED = re.compile(r"\"([^\"]{2,})\"|'([^']{2,}?)'(?!\w)|“([^”]{2,})”|«([^»]{2,})»|「([^」]{2,})」")


def node_features(region_map: RegionMap, task: str, actions: Sequence[Action] = ()) -> FloatArray:
    """(N, F) float32, columns `FEATURES`."""
    task = task_text(task)
    tree = region_map.partition.tree
    texts = node_texts(tree)
    layout = page_layout(tree)
    columns = _word_columns(region_map, task, texts, layout)
    columns.update(structure_columns(region_map, layout, texts))
    columns.update(answer_columns(task, texts))
    columns.update(task_columns(task, len(tree)))
    columns.update(action_columns(tree, region_map.partition.region_of, actions, layout.role))
    for name in _RANKED:
        columns[f"{name}_rank"] = _descending_rank(np.asarray(columns[name], dtype=np.float32))
    return named(columns, FEATURES)


def followed_features(
    before: FloatArray, region_map: RegionMap, actions: Sequence[Action], at: npt.NDArray[np.int64] | None = None
) -> FloatArray:
    """(K, F) rows `at` (all: None) of `before` (N, F), with what actions and states say now; words stay as they were.

    `region_map`: the same nodes as they are now.
    """
    tree = region_map.partition.tree
    rows = np.arange(len(tree)) if at is None else at
    features = before[rows]
    columns = action_columns(tree, region_map.partition.region_of, actions, before[:, FEATURES.index("role")].astype(np.int64))
    for name, column in columns.items():
        features[:, FEATURES.index(name)] = column[rows]
    for name, column in state_columns([tree.nodes[i] for i in rows.tolist()]).items():
        features[:, FEATURES.index(name)] = column
    return features


def node_texts(tree: AXTree) -> list[str]:
    """What each node says: its name, else the text merged into its line, and its value."""
    merged = merged_names(tree)
    texts = []
    for i, node in enumerate(tree.nodes):
        name = node.name or merged.get(i, "")
        texts.append(name if node.value is None or node.value == name else f"{name} {node.value}".strip())
    return texts


@dataclass(frozen=True)
class _Words:
    """Words of S texts: `flat[start[i]:start[i + 1]]` are text i's, as rows of `vocabulary`. `masks` (S,) their concepts;
    `phrase` (S,) how many words a text has that stands whole in the task; `quoted` (S,) how far it holds the task's quoted
    parts; `pairs` (S,) how many of its neighbouring word pairs are neighbours in the task."""

    vocabulary: list[str]
    flat: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]
    phrase: npt.NDArray[np.int64]
    quoted: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.int64]


def _words_of(texts: Sequence[str], task: str) -> _Words:
    asked = split_words(task)
    folded, asked_pairs = f" {' '.join(asked)} ", set(pairwise(asked))
    quoted = [" ".join(split_words(part)) for parts in _QUOTED.findall(task) for part in parts if part]
    number: dict[str, int] = {}
    rows: list[list[int]] = []
    facts: list[tuple[int, int, int, int]] = []
    place: dict[str, int] = {}
    which: list[int] = []
    for text in texts:
        at = place.get(text)
        if at is None:
            words = split_words(text)[:NODE_WORD_LIMIT] if text else []
            line = f" {' '.join(words)} "
            at = place[text] = len(rows)
            rows.append([number.setdefault(word, len(number)) for word in words])
            holds = sum(1 + (part == line.strip()) for part in quoted if f" {part} " in line)
            pairs = sum(pair in asked_pairs for pair in pairwise(words))
            facts.append((concept_mask(words), len(words) if words and line in folded else 0, holds, pairs))
        which.append(at)
    flat = np.asarray([word for at in which for word in rows[at]], dtype=np.int64)
    start = np.concatenate([[0], np.cumsum([len(rows[at]) for at in which])]).astype(np.int64)
    told = np.asarray(facts, dtype=np.int64)[which]
    return _Words(list(number) or [""], flat, start, told[:, 0], told[:, 1], told[:, 2], told[:, 3])


def _task_words(task: str, vectors: WordVectors) -> tuple[list[str], FloatArray]:
    words = list(dict.fromkeys(split_words(task))) or [""]
    weights = vectors.weights(words)
    if len(words) > TASK_WORD_LIMIT:
        kept = np.sort(np.argsort(-weights, kind="stable")[:TASK_WORD_LIMIT])
        words, weights = [words[k] for k in kept], weights[kept]
    return words, weights


def _word_columns(region_map: RegionMap, task: str, texts: Sequence[str], layout: Layout) -> Columns:
    """Coverage of the task by each node's text and its contexts, cosines, concepts, quotations."""
    partition = region_map.partition
    tree, region_of = partition.tree, partition.region_of
    n, r = len(tree), len(partition)
    vectors = load_word_vectors()
    addresses = [_address_text(node.url) for node in tree.nodes]
    words = _words_of([*texts, *addresses, *(f"{a.purpose} {a.state}" for a in region_map.abstractions)], task)
    task_words, weights = _task_words(task, vectors)
    t = len(task_words)
    exact, loose = agreement(task_words, words.vocabulary, vectors)
    both = _segment_max(np.concatenate([exact, loose]), words.flat, words.start)  # (2N + R, 2T)
    own, purpose = both[:n], both[2 * n :]
    df = (own[:, :t] > 0.5).sum(axis=0)
    weights = weights * np.where(df > 0, 0.35 + 0.65 * np.log((1 + n) / (1 + df)) / np.log(1 + n), 1.0).astype(np.float32)
    total = float(weights.sum()) or 1.0
    on_page = float(weights[df > 0].sum()) or 1.0

    order = np.argsort(region_of, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(region_of, minlength=r))])
    row = np.where(layout.row >= 0, layout.row, np.maximum(tree.parent, 0))
    contexts = _contexts(tree, own, layout, row)
    contexts["address"] = both[n : 2 * n]
    contexts["region"] = np.maximum.reduceat(own[order], bounds[:-1], axis=0)[region_of]
    contexts["purpose"] = purpose[region_of]
    contexts["around"] = np.maximum(np.maximum(contexts["heading"], contexts["purpose"]), contexts["above"])
    columns: Columns = {}
    for name in _CONTEXTS:
        columns[f"{name}_exact"] = contexts[name][:, :t] @ weights / total
        columns[f"{name}_loose"] = contexts[name][:, t:] @ weights / total
    columns["own_best"] = (own[:, :t] * weights).max(axis=1)
    for name in ("own", "row", "window"):
        columns[f"{name}_found"] = contexts[name][:, :t] @ weights / on_page
    columns["joint_loose"] = np.maximum(own, contexts["around"])[:, t:] @ weights / total
    columns["fresh_loose"] = np.maximum(own - contexts["around"], 0)[:, t:] @ weights / total
    columns["row_joint"] = np.maximum(contexts["row"], contexts["column"])[:, t:] @ weights / total

    page_weights = vectors.weights(words.vocabulary)
    holds = csr_matrix(
        (np.ones(len(words.flat), dtype=np.float32), words.flat, words.start), shape=(len(words.start) - 1, len(words.vocabulary))
    )
    matched = holds @ np.stack([loose.max(axis=0) * page_weights, page_weights], axis=1)
    precision = matched[:, 0] / np.maximum(matched[:, 1], 1e-6)
    columns["own_precision"], columns["purpose_precision"] = precision[:n], precision[2 * n :][region_of]
    query = (vectors.embed(task_words) * weights[:, None]).sum(axis=0)
    bags = holds @ (vectors.embed(words.vocabulary) * page_weights[:, None])
    columns.update(_cosine_columns(tree, bags, query / max(float(np.linalg.norm(query)), 1e-6), layout, row, (order, bounds, region_of)))

    shared = np.asarray([mask.bit_count() for mask in (words.masks & concept_mask(split_words(task))).tolist()])
    columns["proceeds"], columns["reveals"] = words.masks[:n] & concept_bit("proceed") > 0, words.masks[:n] & concept_bit("reveal") > 0
    columns["concepts_own"], columns["concepts_address"] = shared[:n], shared[n : 2 * n]
    columns["concepts_purpose"] = shared[2 * n :][region_of]
    columns["concepts_before"] = np.concatenate([[0], shared[: n - 1]])
    columns["phrase_in_task"], columns["quoted"] = words.phrase[:n], words.quoted[:n]
    columns["pairs"], columns["address_pairs"] = words.pairs[:n], words.pairs[n : 2 * n]
    return columns


def _contexts(tree: AXTree, own: FloatArray, layout: Layout, row: npt.NDArray[np.int64]) -> dict[str, FloatArray]:
    """(N, 2T) agreement of the texts around each node."""
    n = len(tree)
    parent, end = tree.parent.tolist(), tree.end
    sub, above = own.copy(), np.zeros_like(own)
    for i in range(n - 1, 0, -1):
        at = sub[parent[i]]
        np.maximum(at, sub[i], out=at)
    for i in range(1, n):
        if p := parent[i]:
            np.maximum(above[p], own[p], out=above[i])
    nothing = np.zeros((1, own.shape[1]), dtype=np.float32)
    padded, padded_sub = np.concatenate([own, nothing]), np.concatenate([sub, nothing])
    before, after = _neighbours(own.any(axis=1) | np.asarray([bool(node.name) for node in tree.nodes]), end)
    return {
        "own": own,
        "sub": sub,
        "above": above,
        "row": sub[row],
        "heading": padded_sub[layout.heading],
        "column": padded_sub[layout.column_head],
        "before": padded[before],
        "after": padded[after],
        "window": maximum_filter1d(own, size=2 * WINDOW + 1, axis=0, mode="constant"),
    }


def _cosine_columns(
    tree: AXTree,
    bags: FloatArray,
    query: FloatArray,
    layout: Layout,
    row: npt.NDArray[np.int64],
    regions: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], IntArray],
) -> Columns:
    """Cosines of the task's summed word vectors with those of each node (first N of `bags`) and of its contexts."""
    n = len(tree)
    order, bounds, region_of = regions
    at = np.arange(n)
    totals = np.concatenate([np.zeros((1, bags.shape[1])), np.cumsum(bags[:n], axis=0, dtype=np.float64)])
    subtrees = np.concatenate([totals[tree.end] - totals[at], np.zeros((1, bags.shape[1]))])
    low, high = np.maximum(at - WINDOW, 0), np.minimum(at + WINDOW + 1, n)
    in_order = np.concatenate([np.zeros((1, bags.shape[1])), np.cumsum(bags[:n][order], axis=0, dtype=np.float64)])
    return {
        "own_cosine": _cosine(bags[:n], query),
        "row_cosine": _cosine(subtrees, query)[row],
        "heading_cosine": _cosine(subtrees, query)[layout.heading],
        "window_cosine": _cosine(totals[high] - totals[low], query),
        "region_cosine": _cosine(in_order[bounds[1:]] - in_order[bounds[:-1]], query)[region_of],
        "purpose_cosine": _cosine(bags[2 * n :], query)[region_of],
    }


def _cosine(bags: npt.NDArray[np.floating], query: FloatArray) -> FloatArray:
    return np.asarray(bags @ query / np.maximum(np.linalg.norm(bags, axis=1), 1e-3), dtype=np.float32)


def _segment_max(values: FloatArray, flat: npt.NDArray[np.int64], start: npt.NDArray[np.int64]) -> FloatArray:
    """(S, T) largest of the columns `values[:, flat]` (T, W) in each of S segments; 0 for an empty one."""
    out = np.zeros((len(start) - 1, values.shape[0]), dtype=np.float32)
    full = np.flatnonzero(start[1:] > start[:-1])
    if len(full):
        out[full] = np.maximum.reduceat(np.ascontiguousarray(values.T)[flat], start[full], axis=0)
    return out


def _address_text(url: str | None) -> str:
    if not url or url[:5].lower() == "data:":
        return ""
    return url.split("://", 1)[-1].partition("/")[2][:ADDRESS_LIMIT]


def _neighbours(has_text: npt.NDArray[np.bool_], end: IntArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Index of the last node with text before each node, and of the first after its subtree; N where there is none."""
    n = len(has_text)
    last = np.maximum.accumulate(np.where(has_text, np.arange(n), -1))
    before = np.concatenate([[-1], last[:-1]])
    following = np.minimum.accumulate(np.where(has_text, np.arange(n), n)[::-1])[::-1]
    after = np.concatenate([following, [n]])[end]
    return np.where(before < 0, n, before), after


def _descending_rank(scores: FloatArray) -> FloatArray:
    """(N,) 0 for the highest score, log-scaled; ties share their first rank."""
    ordered = np.sort(-scores)
    return np.asarray(np.log1p(np.searchsorted(ordered, -scores, side="left")), dtype=np.float32)


_CONTEXTS = ("own", "address", "sub", "above", "row", "heading", "column", "before", "after", "window", "region", "purpose", "around")
_RANKED = (
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
FEATURES: tuple[str, ...] = (
    *(f"{context}_{kind}" for context in _CONTEXTS for kind in ("exact", "loose")),
    *"own_best own_found row_found window_found joint_loose fresh_loose row_joint own_precision purpose_precision".split(),
    *"own_cosine row_cosine heading_cosine window_cosine region_cosine purpose_cosine".split(),
    *"concepts_own concepts_address concepts_purpose concepts_before proceeds reveals phrase_in_task quoted pairs address_pairs".split(),
    *"role parent_role searchbox combobox cell static_text has_value has_url focused disabled required popup checked hidden".split(),
    *"length digits answers asked_kinds is_caption repeats nodes position depth subtree landmark in_table siblings place place_from_end".split(),
    *"is_region_root region_place in_page_region region_size region_share place_in_region region_controls region_fields region_link_share region_text".split(),
    *"task_length task_asks task_values task_opens task_fills task_chooses steps touched after_last controls_after_last is_last touched_region last_region last_kind".split(),
    *(f"{name}_rank" for name in _RANKED),
)
"""Names of the F columns, in order: the weights know them by this list."""
