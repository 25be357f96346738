"""One episode of a live run: from a task's start page to the actor's end, its numbers and every step.

Enters: an environment with its task, a method, an actor. Leaves: an `Episode` and the trace of its steps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pagedigest.evaluation.actors import Actor
from pagedigest.evaluation.attribution import SolutionProgress, hiding_stage
from pagedigest.evaluation.environment import Environment
from pagedigest.observation import Action, ObservationModule

__all__ = ["Episode", "Job", "run_episode"]


@dataclass(frozen=True)
class Job:
    """One episode to run."""

    module: str
    actor: str
    task: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.module}|{self.actor}|{self.task}|{self.seed}"


@dataclass(frozen=True)
class Episode:
    """What came of a job. Tokens are summed over its steps; `stage` is where a failure lies, '' for a success.

    `hidden` counts, by the stage that hid it, the elements of the reference solution that were on the page and not shown at first.
    """

    module: str
    actor: str
    task: str
    seed: int
    site: str
    success: bool
    steps: int
    stage: str
    reason: str
    observation_tokens: tuple[int, ...]
    full_tokens: int
    actor_tokens: tuple[int, int]
    auxiliary_tokens: Mapping[str, tuple[int, int]]
    view_all: int
    selections: int
    observe_ms: float
    seconds: float
    cost: float = 0.0
    hidden: Mapping[str, int] = field(default_factory=dict)
    view_all_tokens: int = 0

    @property
    def key(self) -> str:
        """The key of the job that this came of."""
        return Job(self.module, self.actor, self.task, self.seed).key


def run_episode(environment: Environment, module: ObservationModule, actor: Actor, *, seed: int, max_steps: int, trace: list[dict[str, Any]]) -> Episode:  # fmt: skip
    """One episode from the task's start to the actor's end or the step cap; closes the environment. `trace` receives every step.

    An answer that asks to see more (`view_all` and the like) takes no step of the environment; each counts as a step.
    """
    started = time.monotonic()
    task = environment.task
    try:
        session = module.start(task.intent)
        progress = SolutionProgress(task)
        hidden: dict[str, int] = {}
        sought: str | None = None
        policy = actor.start(task, seed)
        last: Action | None = None
        error, stage, reason, hidden_by = "", "", "", ""
        tokens: list[int] = []
        actor_tokens = [0, 0]
        auxiliary: dict[str, list[int]] = {}
        views = selections = full = view_all_tokens = 0
        observe_ms = 0.0
        for _ in range(max_steps):
            tree = environment.tree
            began = time.perf_counter()
            observation = session.observe(tree, last_action=last)
            observe_ms += 1000 * (time.perf_counter() - began)
            usage = observation.usage
            tokens.append(usage.tokens)
            view_all_tokens += usage.tokens if last is not None and last.text.startswith("view_all") else 0
            full += usage.full_tokens
            selections += int(observation.trace.get("event") == "opened")
            for purpose, spent in usage.auxiliary_tokens.items():
                total = auxiliary.setdefault(purpose, [0, 0])
                total[0], total[1] = total[0] + spent[0], total[1] + spent[1]
            needed = progress.needed(tree)
            hidden_by = hiding_stage(session, observation, tree, needed) if needed is not None and needed not in observation.shown else ""
            if hidden_by and needed != sought:
                hidden[hidden_by] = hidden.get(hidden_by, 0) + 1
            sought = needed
            decision = policy.decide(observation, tree, error=error)
            actor_tokens = [actor_tokens[0] + decision.tokens[0], actor_tokens[1] + decision.tokens[1]]
            step = {
                "url": tree.url, "observation": observation.text, "shown": len(observation.shown), "tokens": usage.tokens, "full_tokens": usage.full_tokens,
                "auxiliary": {k: list(v) for k, v in usage.auxiliary_tokens.items()}, "ms": dict(usage.ms), "counts": dict(usage.counts),
                "prompt": decision.prompt, "reply": decision.reply, "action": str(decision.call) if decision.call else "", "stage": decision.stage,
                "needed": needed or "", "hidden_by": hidden_by,
            }  # fmt: skip
            trace.append(step)
            if decision.call is None:
                stage, reason = (hidden_by if decision.stage == "selection" and hidden_by else decision.stage) or "actor", decision.reply
                break
            progress.act(decision.call, needed)
            if decision.call.name in ("view_all", "view_region", "find"):
                views += decision.call.name == "view_all"
                error = ""
                last = Action(str(decision.call))
                continue
            error = environment.act(decision.call)
            step["error"] = error
            last = Action(str(decision.call), decision.call.target, error)
            if environment.over:
                break
        else:
            stage, reason = "actor", f"not finished after {max_steps} steps"
        failed = environment.failures()
        success = not failed and not stage
        if failed and not stage:
            stage, reason = "actor", "; ".join(failed)
        if stage == "actor" and hidden_by:
            stage = hidden_by  # what it needed next was on its last page and not shown
        return Episode(
            module.name, actor.name, task.id, seed, task.site, success, len(tokens), stage, reason[:400], tuple(tokens), full, (actor_tokens[0], actor_tokens[1]),
            {k: (v[0], v[1]) for k, v in auxiliary.items()}, views, selections, round(observe_ms, 1), round(time.monotonic() - started, 2),
            hidden=hidden, view_all_tokens=view_all_tokens,
        )  # fmt: skip
    finally:
        environment.close()
