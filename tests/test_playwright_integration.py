"""Page digests of a plain Playwright page: what ids may be acted on, and what is said when they may not."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from shop_site import shop

from pagedigest.integrations.acting import ActionFailed, ActionRefused
from pagedigest.integrations.playwright import AsyncPlaywrightDigest, PlaywrightDigest, packaged_digest

pytestmark = pytest.mark.browser
pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


@pytest.fixture(scope="module")
def method() -> Any:
    return packaged_digest()


def element(digest: Any, name: str, role: str | None = None) -> str:
    """The id of an element, shown by `find` if nothing showed it before."""
    digest.find(name)
    return next(node.id for node in digest.session.page.tree.nodes if node.name == name and role in (None, node.role))


@pytest.fixture
def tools(site: str, method: Any, live_page: Any) -> PlaywrightDigest:
    """The page of tools, read in full."""
    live_page.goto(f"{site}/tools")
    digest = PlaywrightDigest(live_page, "use the tools", method=method)
    digest.observe()
    digest.view_all()
    return digest


def test_five_lines_buy_a_mug(site: str, method: Any, live_page: Any) -> None:
    live_page.goto(site)
    digest = PlaywrightDigest(live_page, task="put a large red mug into the basket", method=method)
    assert "searchbox" in digest.observe().text or "Search products" in digest.find("Search products").text
    digest.fill(element(digest, "Search products"), "Red mug")
    assert "Red mug" in digest.click(element(digest, "Search", "button")).text
    digest.view_all()
    digest.click(element(digest, "Red mug", "link"))
    digest.view_all()
    digest.select(element(digest, "Size", "combobox"), "large")
    digest.click(element(digest, "Add to basket", "button"))
    assert "Red mug in large" in digest.find("Red mug").text
    assert live_page.url == f"{site}/basket"


def test_controls_in_frames_and_closed_shadow_roots_can_be_clicked(tools: PlaywrightDigest) -> None:
    tools.click(element(tools, "In frame"))
    assert element(tools, "Clicked in frame").startswith("f1:")
    tools.click(element(tools, "In closed root"))
    assert element(tools, "Closed root clicked")


def test_what_a_click_fetches_is_waited_for(tools: PlaywrightDigest) -> None:
    tools.click(element(tools, "Fetch"))
    assert element(tools, "Arrived late")


def test_a_slow_navigation_is_waited_for(tools: PlaywrightDigest) -> None:
    assert "Slow page" in tools.click(element(tools, "Slow", "link")).text + tools.find("Slow page").text


def test_an_id_that_was_not_shown_is_refused_with_the_region_to_read(site: str, live_page: Any) -> None:
    live_page.goto(f"{site}/product?name=Red%20mug")
    digest = PlaywrightDigest(live_page, "read the reviews", method=packaged_digest(budget_tokens=400))
    shown = digest.observe().shown
    hidden = next(node for node in digest.session.page.tree.nodes if node.role == "link" and node.id not in shown)
    with pytest.raises(ActionRefused, match=r"was not shown yet: read it first with view_region\('R\d+'\)") as caught:
        digest.click(hidden.id)
    assert caught.value.element_id == hidden.id
    digest.view_region(str(caught.value).split("view_region('")[1].split("'")[0])
    digest.click(hidden.id)
    assert live_page.url != f"{site}/product?name=Red%20mug"


def test_an_id_that_went_is_refused_with_what_it_was_and_what_there_is_now(tools: PlaywrightDigest) -> None:
    old = element(tools, "Old name", "button")
    tools.click(element(tools, "Rename"))
    tools.view_all()
    with pytest.raises(ActionRefused) as caught:
        tools.click(old)
    message = str(caught.value)
    assert message.startswith(f"[{old}] button 'Old name' was last there at step 1")
    assert f"[{element(tools, 'New name', 'button')}] button 'New name'" in message


def test_an_id_that_went_behind_our_back_is_refused_too(tools: PlaywrightDigest) -> None:
    tools.page.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Remove me').remove()")
    with pytest.raises(ActionRefused, match="no longer on the page: observe the page again"):
        tools.click(element(tools, "Remove me"))


def test_an_id_of_a_page_that_was_left_is_refused(tools: PlaywrightDigest, site: str) -> None:
    button = element(tools, "Fetch")
    tools.page.goto(f"{site}/basket")
    with pytest.raises(ActionRefused, match="a document that the page has left"):
        tools.click(button)
    tools.observe()
    with pytest.raises(ActionRefused, match=r"button 'Fetch' was on an earlier page"):
        tools.click(button)


def test_what_does_not_take_the_action_says_what_does(tools: PlaywrightDigest, site: str) -> None:
    with pytest.raises(ActionRefused, match="is disabled"):
        tools.click(element(tools, "Not now"))
    with pytest.raises(ActionRefused, match="is no drop-down of the browser"):
        tools.select(element(tools, "Fetch"), "x")
    with pytest.raises(ActionFailed, match="is no text field"):
        tools.fill(element(tools, "Fetch"), "x")
    with pytest.raises(ActionRefused, match="no element \\[99999999\\] was shown"):
        tools.click("99999999")
    with pytest.raises(ActionRefused, match="directions are down, up"):
        tools.scroll("sideways")
    tools.page.goto(f"{site}/product?name=Red%20mug")
    tools.observe()
    tools.view_all()
    size = element(tools, "Size", "combobox")
    with pytest.raises(ActionRefused, match="it has 'standard', 'large'"):
        tools.select(size, "huge")
    with pytest.raises(ActionRefused, match=rf"is an option of \[{size}\]: use select\('{size}', 'large'\)"):
        tools.click(element(tools, "large", "option"))


def test_a_covered_control_names_what_covers_it(tools: PlaywrightDigest) -> None:
    tools.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<div id=veil style=\"position:fixed;inset:0\">Accept cookies</div>')"
    )
    with pytest.raises(ActionFailed, match=r"is covered by '<div id=\"veil\""):
        tools.click(element(tools, "Fetch"))


def test_an_error_page_is_read_and_told(tools: PlaywrightDigest) -> None:
    observation = tools.click(element(tools, "Broken", "link"))
    assert observation.text.startswith("NOTE the server answered HTTP 500 Internal Server Error\n")
    assert observation.trace["notes"] == ("the server answered HTTP 500 Internal Server Error",)


def test_scrolling_and_going_back_say_when_there_is_nothing_more(tools: PlaywrightDigest) -> None:
    tools.scroll("bottom")
    assert "NOTE nothing scrolled: there is no more down" in tools.scroll("down").text
    assert tools.page.evaluate("scrollY") > 0


def test_the_digest_tells_icons_apart_recovers_hidden_controls_and_never_calls_a_list_complete(method: Any, live_page: Any) -> None:
    live_page.set_content(
        "<main><h1>Log</h1><button class='fa fa-gear' style='width:20px;height:20px'></button><div aria-hidden=true><button>Close offer</button></div>"
        "<div role=grid aria-label=Log aria-rowcount=5000><div role=row aria-rowindex=41><div role=gridcell>Started</div></div></div></main>"
    )
    text = PlaywrightDigest(live_page, "close the offer, open the settings and read the log", method=method).observe().text
    assert re.search(r"\[\d+\] button '', hint='gear'", text)
    assert re.search(r"\[\d+\] button 'Close offer', hint='hidden from accessibility'", text)
    assert re.search(r"\[\d+\] grid 'Log', rows='41-41 of 5000'", text)


def test_an_action_before_any_observation_is_refused(method: Any, live_page: Any) -> None:
    with pytest.raises(ActionRefused, match="observe the page first"):
        PlaywrightDigest(live_page, method=method).click("3")


def test_the_async_api_does_the_same(site: str, method: Any) -> None:
    from playwright.async_api import async_playwright

    from region4web.browser import launch_async

    async def run() -> str:
        async with async_playwright() as playwright:
            browser = await launch_async(playwright)
            page = await browser.new_page()
            await page.goto(f"{site}/tools")
            digest = AsyncPlaywrightDigest(page, "use the tools", method=method)
            await digest.observe()
            digest.view_all()
            await digest.click(element(digest, "In frame"))
            with pytest.raises(ActionRefused, match="is disabled"):
                await digest.click(element(digest, "Not now"))
            name = element(digest, "Clicked in frame")
            await browser.close()
            return name

    result: list[str] = []
    thread = threading.Thread(target=lambda: result.append(asyncio.run(run())))
    thread.start()
    thread.join()
    assert result[0].startswith("f1:")
