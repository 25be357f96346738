"""Every task on the shop and its back office: the reference solution passes its checks, the untouched site does not."""

from collections.abc import Iterator

import pytest
from site_tasks import check_task, installed, served, tasks_of

from pagedigest.evaluation.sites import RunningSite
from pagedigest.evaluation.tasks import Task

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not installed("shop"), reason="the shop is not installed: python scripts/sites.py install shop"),
]


@pytest.fixture(scope="module")
def shop() -> Iterator[RunningSite]:
    with served("shop") as site:
        yield site


@pytest.mark.parametrize("task", [*tasks_of("shop"), *tasks_of("dashboard")], ids=lambda task: task.id)
def test_the_reference_solution_passes_and_the_untouched_site_does_not(chromium: object, shop: RunningSite, task: Task) -> None:
    check_task(chromium, task, shop)
