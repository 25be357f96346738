"""WebArena and WebArena-Verified: their tasks from their packages, their sites through BrowserGym.

Enters: the name of a benchmark with the numbers of tasks (`webarena:0-99,310`), addresses of its sites in WA_... variables. Leaves:
`Task`s, and an environment that the same runner drives. Their own evaluators judge; they hold no reference solutions.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.sites import SiteError
from pagedigest.evaluation.tasks import Task
from pagedigest.integrations.browsergym import goal_text
from region4web.axtree import AXTree
from region4web.errors import MissingExtraError

__all__ = ["ADDRESSES", "BENCHMARKS", "WebArenaEnvironment", "is_webarena", "missing_addresses", "open_webarena", "webarena_tasks"]

ADDRESSES = ("WA_SHOPPING", "WA_SHOPPING_ADMIN", "WA_REDDIT", "WA_GITLAB", "WA_WIKIPEDIA", "WA_MAP", "WA_HOMEPAGE")
"""Variables that BrowserGym reads the sites' addresses from; it needs all of them."""

BENCHMARKS: dict[str, tuple[str, str, str]] = {
    "webarena": ("libwebarena", "webarena", "test.raw.json"),
    "webarena_verified": ("webarena-verified", "webarena_verified", "assets/dataset/webarena-verified.json"),
}
"""Per benchmark: the distribution and the package that bring its task file, and that file."""

_GYM_PACKAGES = {"webarena": "browsergym.webarena", "webarena_verified": "browsergym.webarena_verified"}
_CHOICE = re.compile(r"(\w+)(?::((?:\d+(?:-\d+)?)(?:,\d+(?:-\d+)?)*))?")


def is_webarena(source: str) -> bool:
    """Whether an entry of a configuration's `tasks` names a benchmark, not a file."""
    found = _CHOICE.fullmatch(source)
    return found is not None and found[1] in BENCHMARKS


def webarena_tasks(source: str, file: Path | None = None) -> list[Task]:
    """Tasks of a benchmark, all or the numbers given; `file` stands for the package's own. Raises ValueError, MissingExtraError."""
    found = _CHOICE.fullmatch(source)
    if found is None or found[1] not in BENCHMARKS:
        raise ValueError(f"{source!r}: write NAME or NAME:0-99,310 with NAME one of {', '.join(BENCHMARKS)}")
    name, numbers = found[1], found[2]
    rows = {int(row["task_id"]): row for row in json.loads((file or _task_file(name)).read_text(encoding="utf-8"))}
    wanted = _numbers(numbers) if numbers else list(rows)
    if unknown := [n for n in wanted if n not in rows]:
        raise ValueError(f"{source!r}: {name} has no task {unknown[0]}")
    return [_task(name, rows[n]) for n in wanted]


def missing_addresses() -> list[str]:
    """Variables that still have to be set."""
    return [name for name in ADDRESSES if not os.environ.get(name)]


def open_webarena(task: Task, *, headless: bool = True) -> WebArenaEnvironment:
    """The task's page in BrowserGym. Raises SiteError where an address is missing or a site does not answer, MissingExtraError without BrowserGym."""
    if missing := missing_addresses():
        raise SiteError(f"{task.id}: set {', '.join(missing)} to the addresses of WebArena's sites")
    benchmark = task.site
    try:
        import gymnasium

        importlib.import_module(_GYM_PACKAGES[benchmark])
    except ImportError as error:
        raise MissingExtraError(
            f"{benchmark} is driven through BrowserGym; in an environment of its own run: pip install browsergym-{benchmark.replace('_', '-')}"
        ) from error
    from pagedigest.integrations.browsergym import action_set_with_views

    gym_id = task.start
    actions = action_set_with_views(subsets=["bid", "nav", "chat", "infeas"])
    return WebArenaEnvironment(task, gymnasium.make(gym_id, headless=headless, action_mapping=actions.to_python_code))


class WebArenaEnvironment:
    """One episode of a BrowserGym environment. The goal that the environment gives replaces the task file's intent; what follows it about the
    form of the answer is kept apart, for the actor only."""

    def __init__(self, task: Task, gym: Any) -> None:
        self._gym = gym
        try:
            observation, _ = gym.reset(seed=0)
        except Exception as error:  # whatever the sites' login scripts raise
            gym.close()
            raise SiteError(f"{task.id}: the environment did not start: {str(error).splitlines()[0][:200]}") from error
        goal = goal_text(observation)
        whole = str(observation.get("goal") or goal)
        self.task = replace(task, intent=goal or task.intent, answer_format=whole[len(goal) :].strip() if whole.startswith(goal) else "")
        self._reward = 0.0
        self._ended = False
        self._take(observation)

    @property
    def tree(self) -> AXTree:
        """The page as it was after the last action."""
        return self._tree

    @property
    def over(self) -> bool:
        """Whether the environment or the agent has ended the episode."""
        return self._ended

    def act(self, call: Call) -> str:
        """Do one action; what went wrong in one line, '' when nothing did."""
        observation, reward, terminated, truncated, _ = self._gym.step(str(call))
        self._reward = max(self._reward, float(reward))
        self._ended = terminated or truncated or call.name in ("send_msg_to_user", "report_infeasible")
        self._take(observation)
        return " ".join(str(observation.get("last_action_error") or "").split())[:300]

    def failures(self) -> list[str]:
        """[] when the benchmark's evaluator gave a reward."""
        return [] if self._reward > 0 else ["the benchmark's evaluator gave no reward"]

    def close(self) -> None:
        self._gym.close()

    def _take(self, observation: Mapping[str, Any]) -> None:
        self._tree = AXTree.from_browsergym(observation)


def _task_file(name: str) -> Path:
    distribution, package, inside = BENCHMARKS[name]
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (Path(folder) / inside).is_file():
            return Path(folder) / inside
    raise MissingExtraError(f"the tasks of {name} come with the package {distribution}; run: pip install --no-deps {distribution}")


def _numbers(text: str) -> list[int]:
    chosen: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        chosen.extend(range(int(low), int(high or low) + 1))
    return list(dict.fromkeys(chosen))


def _task(name: str, row: Mapping[str, Any]) -> Task:
    """`site` is the benchmark and `start` BrowserGym's name of the environment; the sites taking part stand in the note."""
    number = row["task_id"]
    gym_id = f"browsergym/webarena.{number}"
    if name == "webarena_verified":
        gym_id = f"browsergym/webarena_verified.{row['intent_template_id']}.{number}.{row['revision']}"
    sites = ", ".join(row["sites"])
    return Task(f"{name}-{number}", name, gym_id, str(row["intent"]), _kind(row["eval"]), (), (), note=f"sites: {sites}")


def _kind(evaluation: Any) -> str:
    """WebArena: by the evaluators; Verified: by the type of the expected answer."""
    if isinstance(evaluation, Mapping):
        if evaluation.get("reference_answers") and evaluation["reference_answers"].get("fuzzy_match") == "N/A":
            return "unachievable"
        kinds = set(evaluation["eval_types"])
        return "change" if "program_html" in kinds else "navigation" if "url_match" in kinds else "information"
    expected = evaluation[0].get("expected", {})
    if str(expected.get("status", "SUCCESS")).upper() != "SUCCESS":
        return "unachievable"
    return {"retrieve": "information", "navigate": "navigation", "mutate": "change"}[str(expected["task_type"]).lower()]
