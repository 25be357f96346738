"""Numbers of a live run: success with intervals, tokens by purpose, paired differences, where episodes failed.

Enters: `Episode`s. Leaves: `LiveSummary`s by module and actor. Intervals of a share are Wilson's; differences pair the same
tasks and resample tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, bootstrap

from pagedigest.evaluation.live_episode import Episode

__all__ = ["Difference", "LiveSummary", "paired_success", "summarise_live"]

RESAMPLES = 5_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class LiveSummary:
    """One module with one actor. Tokens per step are of observations; `tokens_task` sums everything a task spent, of which
    `view_all_tokens_task` are those of observations that answered `view_all`. `hidden` counts elements of reference solutions by what hid them at first.
    """

    module: str
    actor: str
    episodes: int
    not_run: int
    success: float
    success_interval: tuple[float, float]
    tokens_step_mean: float
    tokens_step_median: float
    tokens_task_mean: float
    share_of_full: float
    actor_tokens_task: float
    view_all_tokens_task: float
    selection_tokens_task: float
    other_auxiliary_tokens_task: float
    view_all_rate: float
    selections_task: float
    steps_mean: float
    observe_ms_step: float
    seconds_task: float
    cost_task: float
    failures: Mapping[str, int]
    hidden: Mapping[str, int]


@dataclass(frozen=True)
class Difference:
    """Success of the first less that of the second module on the same tasks, with its interval; None with one task."""

    first: str
    second: str
    actor: str
    tasks: int
    difference: float
    interval: tuple[float, float] | None


def summarise_live(episodes: Sequence[Episode]) -> list[LiveSummary]:
    """A summary for each pair of module and actor, in order of first appearance. Episodes that the infrastructure
    failed are counted in `not_run` and in nothing else."""
    groups: dict[tuple[str, str], list[Episode]] = {}
    for episode in episodes:
        groups.setdefault((episode.module, episode.actor), []).append(episode)
    return [_summary(module, actor, group) for (module, actor), group in groups.items()]


def paired_success(episodes: Sequence[Episode], first: str, second: str, actor: str, *, seed: int = 0) -> Difference | None:
    """Paired by task and seed, averaged over seeds; None when they share no task."""

    def by_task(module: str) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for e in episodes:
            if e.module == module and e.actor == actor and e.stage != "infrastructure":
                found.setdefault(e.task, []).append(float(e.success))
        return {task: float(np.mean(values)) for task, values in found.items()}

    a, b = by_task(first), by_task(second)
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    differences = np.array([a[t] - b[t] for t in shared])
    interval = None
    if len(shared) > 1:
        interval = (float(differences.mean()),) * 2
        if np.ptp(differences) > 0:
            result = bootstrap(
                (differences,), np.mean, n_resamples=RESAMPLES, confidence_level=CONFIDENCE, method="percentile", rng=np.random.default_rng(seed)
            )  # fmt: skip
            interval = (float(result.confidence_interval.low), float(result.confidence_interval.high))
    return Difference(first, second, actor, len(shared), float(differences.mean()), interval)


def _summary(module: str, actor: str, group: Sequence[Episode]) -> LiveSummary:
    ran = [e for e in group if e.stage != "infrastructure"]
    n = len(ran)
    steps = np.array([t for e in ran for t in e.observation_tokens] or [0])
    successes = sum(e.success for e in ran)
    interval = binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson") if n else None
    selection = sum(sum(v) for e in ran for k, v in e.auxiliary_tokens.items() if k == "selection")
    other = sum(sum(v) for e in ran for k, v in e.auxiliary_tokens.items() if k != "selection")
    actor_tokens = sum(sum(e.actor_tokens) for e in ran)
    observation = int(steps.sum())
    # What a task spent: the actor's own count where it has one, else what it was shown.
    spent = (actor_tokens or observation) + selection + other
    full = sum(e.full_tokens for e in ran)
    per_task = max(1, n)
    return LiveSummary(
        module=module,
        actor=actor,
        episodes=n,
        not_run=len(group) - n,
        success=successes / n if n else 0.0,
        success_interval=(float(interval.low), float(interval.high)) if interval else (0.0, 1.0),
        tokens_step_mean=float(steps.mean()),
        tokens_step_median=float(np.median(steps)),
        tokens_task_mean=spent / per_task,
        share_of_full=observation / full if full else 0.0,
        actor_tokens_task=(actor_tokens or observation) / per_task,
        view_all_tokens_task=sum(e.view_all_tokens for e in ran) / per_task,
        selection_tokens_task=selection / per_task,
        other_auxiliary_tokens_task=other / per_task,
        view_all_rate=sum(e.view_all > 0 for e in ran) / per_task,
        selections_task=sum(e.selections for e in ran) / per_task,
        steps_mean=sum(e.steps for e in ran) / per_task,
        observe_ms_step=sum(e.observe_ms for e in ran) / max(1, len(steps)),
        seconds_task=sum(e.seconds for e in ran) / per_task,
        cost_task=sum(e.cost for e in ran) / per_task,
        failures=dict(Counter(e.stage for e in group if not e.success)),
        hidden=dict(sum((Counter(e.hidden) for e in ran), Counter())),
    )
