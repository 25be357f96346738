"""What must hold on any input: called by tests, by scripts/fuzz.py with random trees, and on bytes that atheris finds.

Each function takes one input and returns nothing; it raises AssertionError where a law is broken, and lets through any
exception that is a crash. Refusals that the interface documents (SnapshotError) are no crash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagedigest.change_list import collect_changes
from pagedigest.observation import Action, Observation
from pagedigest.selection import All, HybridSelector, Nothing, Selector
from pagedigest.session import PageDigest
from pagedigest.tokens import TokenCounter, UpperEstimateCounter
from pagedigest.transition import Transition, diff, field_changes
from region4web import Abstraction, AXTree, Partition, Snapshot
from region4web.errors import SnapshotError
from region4web.metrics import score_partition
from region4web.render import render_tree
from region4web.segmenters import SEGMENTER_NAMES, segmenter_by_name
from region4web.snapshot import parse_snapshot

LINE_ID = re.compile(r"^\t*(?:\+\d+ )?\[([^\]\s]+)\] ", re.M)


class Sections:
    """Cuts below the root, and names each region by its root's role."""

    def segment(self, tree: AXTree) -> Partition:
        return Partition.from_cuts(tree, tree.children[0])

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return tuple(Abstraction(f"{partition.tree.nodes[root].role} part", "") for root in partition.roots)


def check_tree(tree: AXTree) -> None:
    """One node, one line; what is printed reads back; every rule partitions."""
    check_rendering(tree)
    for name in SEGMENTER_NAMES[:4]:
        check_partition(segmenter_by_name(name).segment(tree))


def check_rendering(tree: AXTree) -> None:
    """One node, one line; what is printed reads back."""
    text = render_tree(tree)
    printed = text.split("\n")
    assert len(printed) == len(tree)
    for line, node in zip(printed, tree.nodes, strict=True):
        body = re.sub(r"^\t*(?:\+\d+ )?", "", line)
        assert body.startswith(f"[{node.id}] " if node.addressable else node.role)
        assert body.isprintable()
    again = AXTree.from_text(text)
    assert render_tree(again) == text
    assert again.parent.tolist() == tree.parent.tolist()
    assert again.repairs == ()


def check_partition(partition: Partition) -> None:
    """Regions are disjoint, connected, and cover; agreement with itself is perfect."""
    tree = partition.tree
    members = np.concatenate([region.members for region in partition.regions])
    assert sorted(members.tolist()) == list(range(len(tree)))
    for region in partition.regions:
        own = set(region.members.tolist())
        assert all(int(tree.parent[i]) in own for i in own if i != region.root)
    assert score_partition(partition, partition).region_f1 == 1.0


def check_nodes(nodes: list[dict[str, Any]]) -> None:
    """Any list of objects becomes a tree, as a snapshot and as a BrowserGym observation, twice the same."""
    snapshot = Snapshot.from_json({"url": "http://shop.test/", "nodes": nodes})
    tree = AXTree.from_snapshot(snapshot)
    assert tree == AXTree.from_snapshot(snapshot)
    assert all(0 <= index < len(tree) for index in tree.aliases.values())
    check_tree(tree)
    check_tree(AXTree.from_browsergym({"axtree_object": {"nodes": nodes}}))


def check_snapshot_bytes(raw: bytes) -> None:
    """Any file is a snapshot with a tree, or refused in one line."""
    try:
        tree = AXTree.from_snapshot(parse_snapshot(raw))
    except SnapshotError as error:
        assert "\n" not in str(error), str(error)  # noqa: PT017
        return
    check_tree(tree)


def check_text(text: str) -> None:
    """Any text is a tree whose rendering is stable, or refused."""
    try:
        tree = AXTree.from_text(text)
    except SnapshotError:
        return
    printed = render_tree(tree)
    assert printed.count("\n") == len(tree) - 1
    assert render_tree(AXTree.from_text(printed)) == printed


def check_transition(before: AXTree, after: AXTree) -> None:
    """The script rebuilds the current tree; a tree differs in nothing from itself."""
    assert diff(before, after).apply(before) == after
    assert diff(after, after).is_empty


def check_told(transition: Transition, current: AXTree) -> None:
    """No change of content goes untold, and what is told is there."""
    told = collect_changes(transition, current, [0] * len(transition.entry), open_regions=(0,))
    assert len(told.region_of) == len(current)
    if any(field_changes(update) and current.index_of[update.after.id] for update in transition.updated):
        assert any(change.kind in ("update", "alert") for change in told.changes)
    for change in told.changes:
        for line in change.lines:
            assert line.id is None or line.id in current.index_of
            assert "\n" not in line.text(())


def check_digests(trees: Sequence[AXTree], actions: Sequence[str], *, budget_tokens: int | None, layout: str) -> None:
    """A session over these trees: within budget, no forged line or id, `shown` is of the current tree."""
    counter = UpperEstimateCounter()
    for selector in (All(), Nothing()):
        _check_session(trees, actions, selector, counter, budget_tokens, layout)


def _check_session(
    trees: Sequence[AXTree],
    actions: Sequence[str],
    selector: Selector,
    counter: UpperEstimateCounter,
    budget_tokens: int | None,
    layout: str,
) -> None:
    checker = SessionChecker(selector=selector, counter=counter, budget_tokens=budget_tokens, layout=layout)
    for step, tree in enumerate(trees):
        checker.observe(tree, actions[step % len(actions)] if step and actions else None)


class SessionChecker:
    """An episode of which every observation is checked."""

    def __init__(
        self, *, budget_tokens: int | None, layout: str, selector: Selector | None = None, counter: TokenCounter | None = None
    ) -> None:
        sections = Sections()
        self.counter = counter if counter is not None else UpperEstimateCounter()
        self.budget_tokens = budget_tokens
        self.session = PageDigest(
            sections,
            sections,
            selector if selector is not None else HybridSelector(),
            budget_tokens=budget_tokens,
            layout=layout,
            counter=self.counter,  # type: ignore[arg-type]
        ).start("Open the order")

    def observe(self, tree: AXTree, action: str | None = None) -> Observation:
        """The next observation. Raises AssertionError."""
        observation = self.session.observe(tree, last_action=None if action is None else Action(action))
        ids = {node.id for node in tree.nodes if node.addressable}
        shown = set(observation.shown)
        text = observation.text
        assert shown <= ids, "an id is shown that the page does not have"
        assert set(LINE_ID.findall(text)) & ids <= shown, "a line shows an id that is not in `shown`"
        assert all(line.replace("\t", "").isprintable() for line in text.split("\n")), "page text reached the text unescaped"
        used = observation.usage.tokens
        assert used >= self.counter.count(text), "fewer tokens reported than the text has"
        assert self.budget_tokens is None or used <= self.budget_tokens, f"{used} of {self.budget_tokens} tokens:\n{text}"
        return observation
