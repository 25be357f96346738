"""The browser behind the sessions and the MCP server: where it may not go, and what a step tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from shop_site import shop

from pagedigest.integrations.acting import ActionRefused
from pagedigest.integrations.addresses import AddressPolicy
from pagedigest.integrations.live_browser import LiveBrowser

pytestmark = pytest.mark.browser
pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")


class NoBasket(AddressPolicy):
    """Stands for private addresses: these tests have no public one that could lead to them."""

    def check(self, url: str) -> None:
        if url.endswith("/basket"):
            raise ActionRefused(f"{url}: the basket may not be opened")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


def browse(downloads: Path, policy: AddressPolicy, use: Callable[[LiveBrowser], Awaitable[None]]) -> None:
    async def run() -> None:
        browser = LiveBrowser(task="look around", policy=policy, downloads=downloads)
        try:
            await use(browser)
        finally:
            await browser.close()

    asyncio.run(run())


def test_neither_a_link_nor_a_redirect_leads_where_the_browser_may_not_go(site: str, tmp_path: Path) -> None:
    async def use(browser: LiveBrowser) -> None:
        with pytest.raises(ActionRefused, match="may not be opened"):
            await browser.open(f"{site}/basket")
        await browser.open(site)
        link = (await browser.find("Basket")).shown[0]
        told = await browser.click(link)
        assert told.url == f"{site}/"
        assert told.notes == (f"{site}/basket: the basket may not be opened",)
        with pytest.raises(ActionRefused, match="may not be opened"):
            await browser.open(f"{site}/to-basket")
        assert (await browser.look()).url == "about:blank"

    browse(tmp_path, NoBasket(files=False, private=True), use)


def test_a_step_tells_only_what_is_new_and_another_task_begins_anew(site: str, tmp_path: Path) -> None:
    async def use(browser: LiveBrowser) -> None:
        first = await browser.open(f"{site}/tools")
        assert first.event == "opened"
        again = await browser.look()
        assert again.text.startswith("SAME PAGE\n")
        assert again.tokens < 20
        await browser.set_task("another task", None)
        anew = await browser.look()
        assert anew.event == "opened"
        assert "PAGE Tools" in anew.text

    browse(tmp_path, AddressPolicy(), use)


def test_commands_before_a_page_is_open_are_refused(tmp_path: Path) -> None:
    async def use(browser: LiveBrowser) -> None:
        with pytest.raises(ActionRefused, match="no page is open"):
            await browser.look()

    browse(tmp_path, AddressPolicy(), use)
