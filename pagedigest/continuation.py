"""A digest at a later step of its page: the lines of entry, written as their elements are now.

Enters: the digest at entry, the regions over the entry tree with updates in place, the nodes that are gone, the changes.
Leaves: a `Digest` within the budget. The same lines stay in the same places from step to step; to make room for the changes
the least needed ones go, also where they have changed: the changes tell those. Work grows with the lines printed, not with the page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from pagedigest.changes import RenderedChanges
from pagedigest.digest import BodyLine, Digest, DigestFrame, open_header, region_purpose
from pagedigest.line_choice import varied
from pagedigest.lines import DigestLines
from pagedigest.tokens import TokenCounter
from pagedigest.words import FloatArray
from region4web.axtree import AXNode, AXTree
from region4web.regions import RegionMap

__all__ = ["continue_digest"]

DEEPEST = 12
"""Tabs of a line at most, as in a digest at entry."""
MERGED_SIZE = 4
"""Largest subtree, in nodes, whose text may stand as its element's name (`lines`)."""


def continue_digest(
    digest: Digest,
    region_map: RegionMap,
    display: RegionMap,
    *,
    updated: Collection[int],
    hidden: Collection[int],
    node_scores: FloatArray,
    labels: Callable[[], Sequence[int]],
    tell: Callable[[Collection[str]], RenderedChanges],
    counter: TokenCounter,
    budget_tokens: int | None,
    notes: Sequence[str],
    full_tokens: int,
) -> tuple[Digest, RenderedChanges]:
    """The digest and the changes told under it.

    `region_map` is that of entry, `display` the same regions over the entry tree with updates in place. `tell(printed)`
    renders the changes, ids bare where `printed` has them. `labels()` gives for each node the one that tells it apart
    (`lines`); it is asked for only where room has to be made.
    """
    body = _current_lines(digest.body, display.partition.tree, frozenset(updated), frozenset(hidden))
    nodes = display.partition.tree.nodes
    wanted = cache(lambda: varied(region_map.partition.tree, node_scores))  # asked for only where room has to be made
    told = tell(())
    frame = DigestFrame(display, counter, notes, told.text, full_tokens, budget_tokens)
    if budget_tokens is not None:
        over = counter.count(frame.text([line.text for line in body], len(digest.open), budget_tokens)) - budget_tokens
        body = _without_least_needed(body, over, wanted, labels, counter)
    while True:
        shown = tuple(nodes[line.node].id for line in body if line.node >= 0 and nodes[line.node].addressable)
        told = tell(frozenset(shown))
        frame = DigestFrame(display, counter, notes, told.text, full_tokens, budget_tokens)
        lines, opened = _with_headers(_indented(body, region_map.partition.tree), region_map, frozenset(hidden))
        text, tokens = frame.finished(lines, len(opened))
        if budget_tokens is None or tokens <= budget_tokens:
            return Digest(text, shown, opened, tokens, digest.folded + len(digest.body) - len(body), tuple(body)), told
        if not body:
            text, tokens = frame.shortest(budget_tokens)
            return Digest(text, (), (), tokens, digest.folded + len(digest.body)), told if text else RenderedChanges("", ())
        body = _without_least_needed(body, tokens - budget_tokens, wanted, labels, counter)


def _current_lines(body: Sequence[BodyLine], tree: AXTree, updated: frozenset[int], hidden: frozenset[int]) -> list[BodyLine]:
    """Lines of elements that are gone left out, lines of changed elements written anew."""
    stale = set(updated)
    for i in updated:
        above = i
        for _ in range(MERGED_SIZE - 1):
            above = int(tree.parent[above])
            if above < 0:
                break
            stale.add(above)
    lines = []
    for line in body:
        if line.node in hidden:
            continue
        if line.node in stale:
            tabs = len(line.text) - len(line.text.lstrip("\t"))
            text = "\t" * tabs + _written(tree, line.node, line.name_limit, ", url='" in line.text)
            line = BodyLine(text, line.node, line.name_limit)
        lines.append(line)
    return lines


def _written(tree: AXTree, i: int, limit: int, with_address: bool) -> str:
    end = int(tree.end[i])
    inside = range(i, end if end - i <= MERGED_SIZE else i + 1)
    parents = np.asarray([-1, *(int(tree.parent[k]) - i for k in inside[1:])], dtype=np.int32)
    nodes: tuple[AXNode, ...] = tuple(tree.nodes[k] for k in inside)
    return DigestLines(AXTree(nodes, parents), with_addresses=with_address).line(0, limit)


def _without_least_needed(
    body: list[BodyLine],
    over: int,
    wanted: Callable[[], npt.NDArray[np.float64]],
    labels: Callable[[], Sequence[int]],
    counter: TokenCounter,
) -> list[BodyLine]:
    """Enough lines left out to save `over` tokens, the least needed first; what no element is on last."""
    if over <= 0:
        return body
    cost = [counter.count(f"{line.text}\n") for line in body]
    # A line that tells another apart is needed as much as that one.
    label_of = labels()
    score_of = wanted()
    worth = {line.node: float(score_of[line.node]) / max(1, cost[k]) for k, line in enumerate(body) if line.node >= 0}
    for node in list(worth):
        if (label := label_of[node]) in worth:
            worth[label] = max(worth[label], worth[node] * 1.001)
    order = sorted(
        (k for k, line in enumerate(body) if line.node >= 0),
        key=lambda k: (worth[body[k].node], -k),
    )
    order += [k for k in range(len(body) - 1, -1, -1) if body[k].node < 0]
    left_out: set[int] = set()
    for k in order:
        if over <= 0:
            break
        left_out.add(k)
        over -= cost[k]
    return [line for k, line in enumerate(body) if k not in left_out]


def _indented(body: Sequence[BodyLine], tree: AXTree) -> list[BodyLine]:
    """The lines, one tab more for each element around them that is listed in their region."""
    around: list[int] = []  # ends of the listed subtrees that are open
    lines = []
    for line in body:
        if line.node < 0:
            if line.region >= 0:
                around.clear()
            lines.append(line)
            continue
        while around and around[-1] <= line.node:
            around.pop()
        around.append(int(tree.end[line.node]))
        lines.append(replace(line, text="\t" * min(DEEPEST, len(around)) + line.text.lstrip("\t")))
    return lines


def _with_headers(body: Sequence[BodyLine], region_map: RegionMap, hidden: frozenset[int]) -> tuple[list[str], tuple[int, ...]]:
    """The lines' texts, headers of open regions counted anew, and the regions that still show something."""
    shown: dict[int, int] = {}
    region = -1
    for line in body:
        if line.region >= 0:
            region = line.region
            shown[region] = 0
        elif line.node >= 0 and region >= 0:
            shown[region] += 1
    gone: dict[int, int] = {}
    for i in hidden:
        number = int(region_map.partition.region_of[i])
        gone[number] = gone.get(number, 0) + 1
    texts = []
    for line in body:
        if line.region < 0:
            texts.append(line.text)
            continue
        purpose = region_purpose(region_map, line.region)
        if gone.get(line.region, 0) == len(region_map.partition.regions[line.region]):
            texts.append(f"R{line.region} | {purpose} | gone")
        elif shown[line.region] or not line.size:
            texts.append(
                open_header(line.region, purpose, shown[line.region], max(shown[line.region], line.size - gone.get(line.region, 0)))
            )
        else:
            texts.append(f"R{line.region} | {purpose}")
    sizes = {line.region: line.size for line in body if line.region >= 0}
    return texts, tuple(number for number, count in shown.items() if count or not sizes[number])
