"""PageDigest with one part taken out, as compositions (the paper ablates none of them apart).

Enters: a method. Leaves: the method without memory from step to step, or without views on demand; and selection of single
elements instead of regions (the element-level variant of the paper's Table 2). Other parts are left out by composing
`PageDigest` of other ones: see `evaluation.systems`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pagedigest.digest import compose_digest
from pagedigest.observation import Action, Observation, ObservationModule, ObservationSession, Usage
from pagedigest.selection import Page, Selection, Selector
from pagedigest.tokens import TokenCounter, default_counter
from pagedigest.views import parse_command
from region4web.axtree import AXTree
from region4web.regions import Abstraction, Partition, RegionMap
from region4web.render import render_tree

__all__ = ["ElementSelection", "WithoutPersistence", "WithoutViews"]


@dataclass(frozen=True)
class WithoutPersistence:
    """Every step is a page entered anew: nothing is kept, no change is told. The task and the actions are known."""

    module: ObservationModule

    @property
    def name(self) -> str:
        return f"{self.module.name} without persistence"

    def start(self, task: str) -> _ForgetfulSession:
        return _ForgetfulSession(self.module, task)


@dataclass(frozen=True)
class _ForgetfulSession:
    module: ObservationModule
    task: str

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        return self.module.start(self.task).observe(tree, last_action=last_action)


@dataclass(frozen=True)
class WithoutViews:
    """`view_all`, `view_region`, `find` and `read` are not answered: such an action is an action like any other."""

    module: ObservationModule

    @property
    def name(self) -> str:
        return f"{self.module.name} without views"

    def start(self, task: str) -> _ViewlessSession:
        return _ViewlessSession(self.module.start(task))


@dataclass(frozen=True)
class _ViewlessSession:
    session: ObservationSession

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        if last_action is not None and _is_view(last_action.text):
            last_action = replace(last_action, text="noop()", error=f"{last_action.text[:60]} is not available")
        return self.session.observe(tree, last_action=last_action)


def _is_view(text: str) -> bool:
    try:
        return parse_command(text) is not None
    except ValueError:
        return True


@dataclass(frozen=True)
class ElementSelection:
    """Single elements chosen by the selector's node scores, no regions, no memory.

    Without a budget: the best elements until they hold `share` of all relevance.
    """

    selector: Selector
    budget_tokens: int | None = None
    share: float = 0.9
    counter: TokenCounter = field(default_factory=default_counter)
    name = "element_level"

    def start(self, task: str) -> _ElementSession:
        return _ElementSession(self, task, [])


@dataclass(frozen=True)
class _ElementSession:
    module: ElementSelection
    task: str
    actions: list[Action]

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        if last_action is not None:
            self.actions.append(last_action)
        module = self.module
        region_map = RegionMap(Partition.from_cuts(tree, []), (Abstraction("Page", "", "none"),))
        selection = module.selector.select(Page(region_map, self.task, tuple(self.actions)))
        full_tokens = module.counter.count(render_tree(tree))
        hidden: Sequence[int] = ()
        if module.budget_tokens is None:
            hidden = _beyond_share(selection, module.share)
            selection = replace(selection, open=(0,))
        digest = compose_digest(
            region_map,
            selection,
            counter=module.counter,
            budget_tokens=module.budget_tokens,
            task=self.task,
            hidden=hidden,
            full_tokens=full_tokens,
        )
        return Observation(
            digest.text, digest.shown, Usage(digest.tokens, full_tokens, selection.auxiliary_tokens, counts=selection.counts)
        )


def _beyond_share(selection: Selection, share: float) -> list[int]:
    """Nodes outside the best ones that together hold `share` of the relevance."""
    order = np.argsort(-selection.node_scores, kind="stable")
    held = np.cumsum(selection.node_scores[order])
    return [int(i) for i in order[np.searchsorted(held, share * held[-1]) + 1 :]]
