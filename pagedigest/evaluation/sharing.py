"""Work that several methods and budgets of a comparison have in common, done once.

Enters: `Parts`. Leaves: parts that remember what they made of the last pages: regions, purposes, selections, a model's
answers. Nothing of a result changes but the time it took to get; that is kept honest by `Spared`: the time that the work
took when it was done is added again wherever its result is used again.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pagedigest.evaluation.systems import Parts
from pagedigest.observation import Action
from pagedigest.selection import FollowingSelector, Page, Selection, Selector
from region4web.axtree import AXTree
from region4web.language_models import Completion, LanguageModel, Prompt, chat
from region4web.regions import Abstraction, Abstractor, Partition, Segmenter

__all__ = ["Embed", "Spared", "shared"]

Embed = Callable[[Sequence[str]], npt.NDArray[np.float32]]
Result = TypeVar("Result")

REMEMBERED = 64
"""Results kept of each kind: more than one page's under all methods and budgets."""


@dataclass
class Spared:
    """Milliseconds of work that were not spent again, ever."""

    ms: float = 0.0


@dataclass
class _Memory:
    """Results by key, with what they took to make; the one used longest ago goes first."""

    spared: Spared
    entries: OrderedDict[Hashable, tuple[Any, float, Any]] = field(default_factory=OrderedDict)

    def once(self, key: Hashable, make: Callable[[], Result], *, alive: object = None) -> Result:
        """The result of `make`, or that of the same key. `alive` is kept, so that an identity in the key stays its own."""
        if key in self.entries:
            self.entries.move_to_end(key)
            made, ms, _ = self.entries[key]
            self.spared.ms += ms
            return made  # type: ignore[no-any-return]
        started, before = time.perf_counter(), self.spared.ms
        result = make()
        self.entries[key] = result, (time.perf_counter() - started) * 1000 + self.spared.ms - before, alive
        if len(self.entries) > REMEMBERED:
            self.entries.popitem(last=False)
        return result


@dataclass(frozen=True)
class _SharedSegmenter:
    segmenter: Segmenter
    memory: _Memory

    def segment(self, tree: AXTree) -> Partition:
        return self.memory.once(id(tree), lambda: self.segmenter.segment(tree), alive=tree)


@dataclass(frozen=True)
class _SharedAbstractor:
    abstractor: Abstractor
    memory: _Memory

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.memory.once(id(partition), lambda: self.abstractor.abstract(partition), alive=partition)


@dataclass(frozen=True)
class _SharedSelector:
    selector: Selector
    memory: _Memory

    def select(self, page: Page) -> Selection:
        partition = page.region_map.partition
        actions: tuple[Action, ...] = tuple(page.actions)
        key = (id(partition.tree), tuple(map(int, partition.roots)), page.region_map.abstractions, page.task, actions)
        return self.memory.once(key, lambda: _unwritable(self.selector.select(page)), alive=partition.tree)

    def follow(self, selection: Selection, page: Page) -> Selection:
        """Not kept: it depends on the digest of each budget's own page."""
        return self.selector.follow(selection, page) if isinstance(self.selector, FollowingSelector) else selection


def _unwritable(selection: Selection) -> Selection:
    """Several methods read the same scores; none may change them."""
    selection.region_scores.flags.writeable = False
    selection.node_scores.flags.writeable = False
    return selection


@dataclass(frozen=True)
class _SharedModel:
    """Equal prompts get equal answers, so that a method asks once for all budgets."""

    model: LanguageModel
    memory: _Memory

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]:
        key = json.dumps([[chat(prompt) for prompt in prompts], max_tokens, schema], sort_keys=True)
        return self.memory.once(key, lambda: self.model.complete(prompts, max_tokens=max_tokens, schema=schema))


def shared(parts: Parts, spared: Spared) -> Parts:
    """The same parts, each doing the same work once. A model's failures are not remembered."""
    return replace(
        parts,
        segmenter=_SharedSegmenter(parts.segmenter, _Memory(spared)),
        abstractor=_SharedAbstractor(parts.abstractor, _Memory(spared)),
        rules=_SharedSegmenter(parts.rules, _Memory(spared)),
        role_names=_SharedAbstractor(parts.role_names, _Memory(spared)),
        selector=_SharedSelector(parts.selector, _Memory(spared)),
        held_out=_SharedSelector(parts.held_out, _Memory(spared)),
        embedding_selector=_SharedSelector(parts.embedding_selector, _Memory(spared)),
        model=None if parts.model is None else _SharedModel(parts.model, _Memory(spared)),
    )
