"""One page of an episode: its regions at entry, what was selected, and how far it has changed since.

Enters: the tree of each step with what `page_identity` made of it. Leaves: what a layout draws from: the entry tree with
updates written in place, the nodes not to print there, the changes since entry and since the step before. An element
keeps its place and its region from entry on; what was added has none in the entry tree and is told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pagedigest.change_list import IDS_LIMIT, collect_changes
from pagedigest.changes import Change, ChangeList, alert_texts
from pagedigest.digest import Digest
from pagedigest.lines import DigestLines
from pagedigest.page_identity import PageEvent
from pagedigest.priority import with_priorities
from pagedigest.selection import Selection
from pagedigest.tokens import TokenCounter
from pagedigest.transition import Transition, diff
from region4web.axtree import AXNode, AXTree
from region4web.regions import Partition, RegionMap
from region4web.render import indentation, node_line, render_tree

__all__ = ["Modal", "OpenPage", "PageLog", "full_tree_tokens"]

FOLLOWED = 10
"""Of so many most needed nodes each has to be on a line of the digest, else the digest is composed anew."""


@dataclass(frozen=True)
class Modal:
    """A dialog or an overlay that blocks the rest: the regions in it, its own first, and whether it came after entry."""

    regions: tuple[int, ...]
    added: bool
    text: str


@dataclass(frozen=True)
class PageLog:
    """What an append-only text of the page holds so far: the text, the ids it lists, the regions it shows in full.

    `tree` is the tree that the text has come to, `region_of` the region of each of its nodes.
    """

    text: str
    listed: tuple[str, ...]
    open: tuple[int, ...]
    folded: int
    tree: AXTree = field(repr=False)
    region_of: tuple[int, ...] = field(repr=False)


@dataclass
class OpenPage:
    """A page from its opening on. `number` counts from 1; steps likewise.

    `all_page` is the page of `view_all` that is shown, 0 when the digest is shown; `viewed` are regions asked for.
    `urgent` and `fresh` are ids that appeared with the step at which the page was shown anew: messages and popups, others.
    """

    number: int
    opened_at: int
    region_map: RegionMap
    selection: Selection
    full_tokens: int
    budget_tokens: int | None = None
    note: str = ""
    all_page: int = 0
    viewed: tuple[int, ...] = ()
    urgent: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    log: PageLog | None = None
    digest: Digest | None = None
    digest_open: tuple[int, ...] = ()
    tree: AXTree = field(init=False)
    transition: Transition | None = field(init=False, default=None)
    changes: ChangeList = field(init=False)
    previous_changes: ChangeList = field(init=False)
    changed_at: int = field(init=False)
    modal: Modal | None = field(init=False)
    blocked: frozenset[int] = field(init=False)
    """Regions under an overlay when the page was opened: nothing in them can be used before it is closed."""
    alerts: dict[str, str] = field(init=False)
    passed_alerts: tuple[str, ...] = field(init=False, default=())
    _full_tokens_at_entry: int = field(init=False)
    _labels: Sequence[int] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self.tree = self.entry
        self.changes = self.previous_changes = ChangeList((), tuple(self.region_map.partition.region_of.tolist()))
        self.changed_at = self.opened_at
        self.alerts = alert_texts(self.entry)
        self.modal = self._find_modal()
        self.blocked = frozenset() if self.modal is None else _blocked_regions(self.region_map.partition) - {*self.modal.regions}
        self._full_tokens_at_entry = self.full_tokens

    @property
    def entry(self) -> AXTree:
        """The tree at entry."""
        return self.region_map.partition.tree

    @property
    def open(self) -> tuple[int, ...]:
        """Regions to show in full, most needed first: a modal dialog's, those asked for, those selected."""
        first = () if self.modal is None or self.modal.added else self.modal.regions
        return tuple(dict.fromkeys((*first, *self.viewed, *(number for number in self.selection.open if number not in self.blocked))))

    @property
    def was_unblocked(self) -> bool:
        """Whether regions that an overlay covered when the page was opened are free now."""
        return bool(self.blocked) and self.modal is None

    def update(self, event: PageEvent, tree: AXTree, *, step: int, counter: TokenCounter) -> None:
        """Take the tree of `step`, which shows this page."""
        if event.transition is None:
            raise ValueError(f"a page that was {event.kind} starts anew")
        self.previous_changes = self.changes
        self.tree, self.transition, self.note = tree, event.transition, event.note
        region_of = self.region_map.partition.region_of.tolist()
        if event.kind != "unchanged":
            self.changes = collect_changes(event.transition, tree, region_of, open_regions=self.open)
            self.full_tokens = self._full_tokens_at_entry + _token_difference(event.transition, tree, counter)
            self.modal = self._find_modal()
        told = self.changes.changes != self.previous_changes.changes or bool(event.note)
        now = alert_texts(tree)
        self.passed_alerts = tuple(f"{text} was shown at step {step - 1}" for key, text in self.alerts.items() if now.get(key) != text)
        self.alerts = now
        if told or self.passed_alerts:
            self.changed_at = step

    def follow(self, selection: Selection) -> None:
        """Take the scores of `selection`; the digest at entry is composed anew when it does not print what now is needed most."""
        self.selection = selection
        digest = self.digest
        if digest is None:
            return
        scores, nodes = selection.node_scores, self.entry.nodes
        gone = frozenset() if self.transition is None else frozenset(self.transition.removed)
        printed = {line.node for line in digest.body}
        best = [i for i in np.argsort(-scores, kind="stable")[:FOLLOWED].tolist() if nodes[i].addressable and i not in gone]
        if any(i not in printed for i in best):
            self.digest = None

    def recent_first(self) -> tuple[Change, ...]:
        """The changes since entry: alerts and popups first, then what the last step brought, then the rest."""
        before = set(self.previous_changes.changes)
        return tuple(sorted(self.changes.changes, key=lambda change: (change.kind not in ("alert", "popup"), change in before)))

    def since(self, log: PageLog) -> ChangeList:
        """The changes that `log` does not tell yet."""
        transition = diff(log.tree, self.tree)
        return collect_changes(transition, self.tree, log.region_of, open_regions=self.open, replaced_limit=IDS_LIMIT)

    def appeared(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids that the last step brought: of messages and popups, and of other additions."""
        before = set(self.previous_changes.changes)
        new = [change for change in self.changes.changes if change not in before]

        def ids(*kinds: str) -> tuple[str, ...]:
            return tuple(line.id for change in new if change.kind in kinds for line in change.lines if line.id is not None)

        return ids("alert", "popup"), ids("added")

    def display_map(self) -> tuple[RegionMap, frozenset[int]]:
        """The regions at entry over the entry tree with updates written in place, and the nodes not to print there."""
        transition = self.transition
        if transition is None or (transition.is_empty and self.tree.url == self.entry.url and self.tree.title == self.entry.title):
            return self.region_map, frozenset()
        hidden = frozenset(transition.removed) | self.changes.moved_away
        nodes = list(self.entry.nodes)
        for update in transition.updated:
            nodes[self.entry.index_of[update.before.id]] = update.after
        _rename_gone(nodes, transition.removed)
        tree = AXTree(tuple(nodes), self.entry.parent, self.tree.url, self.tree.title, self.tree.viewport, notes=self.tree.notes)
        return RegionMap(Partition(tree, self.region_map.partition.roots), self.region_map.abstractions), hidden

    def display_selection(self) -> Selection:
        """The selection with what comes before relevance ranked first."""
        first = [*self.viewed, *(self.modal.regions if self.modal is not None and not self.modal.added else ())]
        return with_priorities(
            self.selection,
            self.region_map.partition,
            opened=self.open,
            first=first,
            blocked=self.blocked - {*self.viewed},
            fresh=self.fresh,
            urgent=self.urgent,
        )

    def labels(self) -> Sequence[int]:
        """For each entry node the node whose line tells it apart, -1 where none does."""
        if self._labels is None:
            self._labels = DigestLines(self.entry).label
        return self._labels

    def updated_indices(self) -> frozenset[int]:
        """Entry nodes whose content is another now."""
        if self.transition is None:
            return frozenset()
        return frozenset(self.entry.index_of[update.before.id] for update in self.transition.updated)

    def _find_modal(self) -> Modal | None:
        """The last modal dialog or overlay of the current tree that can be seen."""
        for j in range(len(self.tree) - 1, 0, -1):
            node = self.tree.nodes[j]
            if node.states and node.visible and node.state("modal") is True:
                added = self.transition is not None and self.transition.matching.entry_of[j] < 0
                regions = tuple(dict.fromkeys(self.changes.region_of[k] for k in self.tree.subtree(j)))
                return Modal(regions, added, f"{node.role} {node.name[:80]!r}")
        return None

    def notes(self) -> tuple[str, ...]:
        """What to say above the regions."""
        lines = [self.note] if self.note else []
        modal = self.modal
        if modal is not None:
            where = "see CHANGES" if modal.added else f"in R{modal.regions[0]}"
            lines.append(f"modal {modal.text} is open, {where}: the other regions are blocked until it is closed")
        return tuple(lines)


def _blocked_regions(partition: Partition) -> frozenset[int]:
    """Regions that hold controls, all of them covered."""
    covered: set[int] = set()
    free: set[int] = set()
    for node, number in zip(partition.tree.nodes, partition.region_of.tolist(), strict=True):
        if node.states and node.state("blocked") is True:
            covered.add(number)
        elif node.clickable and node.visible:
            free.add(number)
    return frozenset(covered - free)


def full_tree_tokens(tree: AXTree, counter: TokenCounter) -> int:
    """Tokens of the whole tree in the same line format: what an agent without a digest reads."""
    return counter.count(render_tree(tree))


def _token_difference(transition: Transition, tree: AXTree, counter: TokenCounter) -> int:
    """Tokens that the changes add to the whole tree's text, line by line: the whole is not counted anew each step."""
    entry = transition.entry

    def cost(node: AXNode, depth: int) -> int:
        return counter.count(f"{indentation(depth)}{node_line(node)}\n")

    total = 0
    for update in transition.updated:
        before, after = node_line(update.before), node_line(update.after)
        if before != after:
            total += counter.count(after) - counter.count(before)
    for i in transition.removed:
        total -= cost(entry.nodes[i], int(entry.depth[i]))
    for j, i in enumerate(transition.matching.entry_of):
        if i < 0:
            total += cost(tree.nodes[j], int(tree.depth[j]))
    return total


def _rename_gone(nodes: list[AXNode], removed: Sequence[int]) -> None:
    """A removed node whose id another element has by now gets one that is never printed: ids stay unique."""
    gone = set(removed)
    used = {node.id for i, node in enumerate(nodes) if i not in gone}
    for i in removed:
        if nodes[i].id in used:
            nodes[i] = replace(nodes[i], id=f"gone:{i}:{nodes[i].id}", addressable=False)
