"""Replay: observation methods on recorded steps, one runner for all.

Enters: methods, steps. Leaves: one `StepResult` a method and step. Steps of an episode are fed to one session in their
order, each with the action recorded before it. Nothing is acted out: a method is asked what it would show, and whether the
element that the recorded action needed is among it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pagedigest.evaluation.sharing import Spared
from pagedigest.evaluation.statistics import StepResult
from pagedigest.evaluation.steps import RecordedStep
from pagedigest.observation import Observation, ObservationModule
from region4web.axtree import AXTree

__all__ = ["episode_results", "episodes", "replay"]

Progress = Callable[[Sequence[RecordedStep]], None]


def episodes(steps: Iterable[RecordedStep]) -> Iterator[list[RecordedStep]]:
    """Runs of steps of one episode, in the order of their numbers."""
    for _, run in groupby(steps, key=lambda step: (step.source, step.episode)):
        yield sorted(run, key=lambda step: step.step)


def replay(
    modules: Mapping[str, ObservationModule], steps: Iterable[RecordedStep], *, on_episode: Progress | None = None
) -> dict[str, list[StepResult]]:
    """Results by the names of `modules`, in the order of the steps."""
    results: dict[str, list[StepResult]] = {name: [] for name in modules}
    spared = Spared()
    for episode in episodes(steps):
        for name, module in modules.items():
            results[name] += episode_results(module, episode, spared)
        if on_episode is not None:
            on_episode(episode)
    return results


def episode_results(module: ObservationModule, episode: Sequence[RecordedStep], spared: Spared) -> list[StepResult]:
    """One method on one episode. Time that shared parts spared it is counted as if it had been taken."""
    session = module.start(episode[0].task)
    results: list[StepResult] = []
    last: RecordedStep | None = None
    text = ""
    for step in episode:
        started, before = time.perf_counter(), spared.ms
        observation = session.observe(step.tree, last_action=None if last is None else last.last_action())
        ms = (time.perf_counter() - started) * 1000 + spared.ms - before
        results.append(_result(step, observation, ms, None if last is None else text))
        last, text = step, observation.text
    return results


def _result(step: RecordedStep, observation: Observation, ms: float, text_before: str | None) -> StepResult:
    found, mapped, missing = _target_found(step.tree, step.target, observation)
    usage = observation.usage
    return StepResult(
        source=step.source,
        site=step.site,
        kind=step.kind,
        page_kind=step.page_kind,
        episode=f"{step.source}/{step.episode}",
        step=step.step,
        found=found,
        mapped=mapped,
        missing=missing,
        tokens=usage.tokens,
        full_tokens=usage.full_tokens,
        auxiliary_tokens=sum(prompt + completion for prompt, completion in usage.auxiliary_tokens.values()),
        ms=round(ms, 3),
        cacheable=None if text_before is None else round(_shared_start(text_before, observation.text), 4),
        needed_open=_needed_open(step, observation),
        fallbacks=int("fallback" in observation.trace) + usage.counts.get("selection_fallbacks", 0),
    )


def _target_found(tree: AXTree, target: str | None, observation: Observation) -> tuple[bool | None, bool, bool]:
    """Whether the target is shown (None: there is none), by its nearest kept element, not in the tree at all."""
    if target is None:
        return None, False, False
    if target in tree.index_of:
        return target in observation.shown, False, False
    at = tree.find(target)
    if at is None:
        return False, False, True
    return tree.nodes[at].id in observation.shown, True, False


def _shared_start(before: str, now: str) -> float:
    """Part of `now` that repeats the start of `before`, by characters."""
    if not now:
        return 1.0
    shared, beyond = 0, min(len(before), len(now)) + 1
    while beyond - shared > 1:  # `shared` characters are equal, `beyond` are not
        middle = (shared + beyond) // 2
        shared, beyond = (middle, beyond) if before[shared:middle] == now[shared:middle] else (shared, middle)
    return shared / len(now)


def _needed_open(step: RecordedStep, observation: Observation) -> bool | None:
    """Whether any id of a needed region's subtree is shown: for steps that name the regions they need."""
    if not step.needed:
        return None
    shown = set(observation.shown)
    for root in step.needed:
        at = step.tree.find(root)
        if at is not None and any(step.tree.nodes[i].id in shown for i in step.tree.subtree(at)):
            return True
    return False
