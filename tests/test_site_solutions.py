"""Every task on the forum, the tracker and the wiki: the reference solution passes its checks, the untouched site does not."""

from collections.abc import Iterator

import pytest
from site_tasks import check_task, installed, served, tasks_of

from pagedigest.evaluation.sites import RunningSite
from pagedigest.evaluation.tasks import Task

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def forum() -> Iterator[RunningSite]:
    with served("forum") as site:
        yield site


@pytest.fixture(scope="module")
def tracker() -> Iterator[RunningSite]:
    with served("tracker") as site:
        yield site


@pytest.fixture(scope="module")
def wiki() -> Iterator[RunningSite]:
    with served("wiki") as site:
        yield site


@pytest.mark.skipif(not installed("forum"), reason="the forum is not installed: python scripts/sites.py install forum")
@pytest.mark.parametrize("task", tasks_of("forum"), ids=lambda task: task.id)
def test_on_the_forum(chromium: object, forum: RunningSite, task: Task) -> None:
    check_task(chromium, task, forum)


@pytest.mark.optional
@pytest.mark.skipif(not installed("tracker"), reason="the tracker is made of Debian packages: python scripts/sites.py install tracker")
@pytest.mark.parametrize("task", tasks_of("tracker"), ids=lambda task: task.id)
def test_on_the_tracker(chromium: object, tracker: RunningSite, task: Task) -> None:
    check_task(chromium, task, tracker)


@pytest.mark.optional
@pytest.mark.skipif(not installed("wiki"), reason="the wiki is made of Debian packages: python scripts/sites.py install wiki")
@pytest.mark.parametrize("task", tasks_of("wiki"), ids=lambda task: task.id)
def test_on_the_wiki(chromium: object, wiki: RunningSite, task: Task) -> None:
    check_task(chromium, task, wiki)
