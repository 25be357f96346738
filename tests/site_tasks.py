"""What the tests of reference solutions share: the tasks of a site, its server, one task replayed in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pagedigest.evaluation import sites
from pagedigest.evaluation.actors import OracleActor
from pagedigest.evaluation.environment import BrowserEnvironment
from pagedigest.evaluation.live_episode import run_episode
from pagedigest.evaluation.tasks import FinalState, Task, failed_checks, load_tasks
from pagedigest.modules.full_tree import FullTree

TASKS = Path(__file__).parent.parent / "data" / "tasks"
INSTANCE = 90  # a server and a database beside those that somebody may be using


def tasks_of(name: str) -> list[Task]:
    return load_tasks([TASKS / f"{name}.jsonl"])


def installed(name: str) -> bool:
    return (sites.sites_root() / name / "installed.json").is_file()


@contextmanager
def served(name: str) -> Iterator[sites.RunningSite]:
    try:
        yield sites.start(name, INSTANCE)
    finally:
        sites.stop(name, INSTANCE)


def check_task(browser: Any, task: Task, site: sites.RunningSite) -> None:
    """Its checks fail before anything was done, also for somebody who says 'done', and hold after the reference solution."""
    sites.reset(task.site, INSTANCE)
    untouched = FinalState(site.url + task.start, "", "done", False, site.database)
    if any(check.page for check in task.checks):
        environment = BrowserEnvironment(browser, task, site)
        untouched = environment.final_state()
        environment.close()
    assert failed_checks(task, untouched), "the checks hold on the untouched site"
    episode = run_episode(BrowserEnvironment(browser, task, site), FullTree(), OracleActor(), seed=0, max_steps=30, trace=[])
    assert episode.success, f"{episode.stage}: {episode.reason}"
