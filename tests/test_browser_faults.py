"""What goes wrong on the web, met through the command line's sessions and through the MCP server: the same words on both."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browser_drivers import CommandLine, Driver, mcp_server
from shop_site import shop

pytestmark = pytest.mark.browser
pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")
if sys.platform == "win32":
    pytest.skip("browser sessions use Unix sockets", allow_module_level=True)

SHORT_S = 4.0
"""Deadline of the browser whose pages hang."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


@pytest.fixture(scope="module", params=["command line", "mcp"])
def both(request: Any) -> Iterator[tuple[Driver, Driver]]:
    """Two browsers at once: one with the usual deadline, one with a short one."""
    with ExitStack() as stack:
        if request.param == "mcp":
            mcp = pytest.importorskip("mcp", reason="the mcp SDK is not installed (extra 'mcp')")
            if not hasattr(mcp, "Client"):
                pytest.skip("the mcp SDK is older than 2.0")
            usual = stack.enter_context(mcp_server("--allow-private"))
            yield usual, stack.enter_context(mcp_server("--allow-private", "--timeout", str(SHORT_S)))
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pd")))
        os.chmod(folder, 0o700)
        lines = CommandLine(folder, "usual"), CommandLine(folder, "short", SHORT_S)
        yield lines
        for line in lines:
            line.do("close")


@pytest.fixture
def browser(both: tuple[Driver, Driver], site: str) -> Driver:
    """On the page of dialogs and links."""
    both[0].told("open", url=f"{site}/dialogs", task="use the tools")
    return both[0]


@pytest.fixture
def impatient(both: tuple[Driver, Driver], site: str) -> Driver:
    both[1].told("open", url=f"{site}/dialogs", task="use the tools")
    return both[1]


def test_two_browsers_at_once_do_not_meet(browser: Driver, impatient: Driver, site: str) -> None:
    assert "PAGE Basket" in browser.told("open", url=f"{site}/basket")
    assert "'Answer nobody'" in impatient.click("Prompt", accept_dialog=True)
    assert "no change" in browser.told("look")
    assert browser.told("tabs").count("\n") == impatient.told("tabs").count("\n")


def test_dialogs_are_dismissed_or_accepted_and_told(browser: Driver) -> None:
    assert browser.click("Alert").startswith("NOTE dialog alert 'Saved' was dismissed\nSAME PAGE\n")
    told = browser.click("Confirm")
    assert "NOTE dialog confirm 'Sure?' was dismissed\n" in told
    assert "'Refused'" in told
    told = browser.click("Confirm", accept_dialog=True)
    assert "NOTE dialog confirm 'Sure?' was accepted\n" in told
    assert "'Confirmed'" in told
    told = browser.told("press", key="Enter", id=browser.element("Prompt"), dialog_text="Ada")
    assert "NOTE dialog prompt 'Your name?' was accepted with 'Ada'\n" in told
    assert "'Answer Ada'" in told
    assert "'Answer null'" in browser.click("Prompt")


def test_a_page_that_asks_before_it_is_left_is_left(browser: Driver, site: str) -> None:
    browser.click("Guard")
    told = browser.told("open", url=f"{site}/greeting")
    assert "NOTE dialog beforeunload was accepted\nNOTE dialog alert 'Welcome' was dismissed\n" in told
    assert "PAGE Greeting" in told


def test_new_tabs_are_followed_and_a_tab_that_closes_is_left(browser: Driver, site: str) -> None:
    told = browser.click("Blank", "link")
    assert told.startswith("NOTE a new tab opened; this is tab 2 of 2\nPAGE Basket")
    assert "PAGE Dialogs" in browser.told("tabs", number=1)
    assert "NOTE a new tab opened; this is tab 3 of 3\nPAGE Basket" in browser.click("Window")
    assert browser.error("tabs", number=9).endswith("there is no tab 9; tabs are 1 to 3")
    browser.told("tabs", number=2, close=True)
    browser.told("open", url=f"{site}/dialogs")
    assert "NOTE the tab closed; this is tab 1 of 1\n" in browser.click("Close me")
    assert "only tab" in browser.error("tabs", number=1, close=True)


def test_a_download_is_saved_and_told(browser: Driver, site: str) -> None:
    told = browser.click("Prices", "link")
    assert told.startswith("NOTE download 'prices.csv' was saved to ")
    assert Path(told.splitlines()[0].removeprefix("NOTE download 'prices.csv' was saved to ")).read_text() == "a;b"
    assert browser.error("open", url=f"{site}/file").endswith("/file: is a download (prices.csv), not a page")
    assert "no change" in browser.told("look")


def test_an_error_page_is_read_and_told(browser: Driver, site: str) -> None:
    assert browser.click("Broken", "link").startswith("NOTE the server answered HTTP 500 Internal Server Error\nPAGE Broken")
    assert browser.told("open", url=f"{site}/nowhere").startswith("NOTE the server answered HTTP 404 Not Found\nPAGE Gone")


def test_a_server_that_cannot_be_reached_is_told(browser: Driver) -> None:
    assert browser.error("open", url="http://127.0.0.1:1099/").endswith("/: could not be reached (ERR_CONNECTION_REFUSED)")
    browser.told("back")
    assert browser.click("Refused", "link").startswith("NOTE http://127.0.0.1:1099/ could not be reached (ERR_CONNECTION_REFUSED)\n")
    assert "PAGE Dialogs" in browser.told("back")


def test_a_server_that_never_answers_leaves_the_page_where_it_is(impatient: Driver, site: str) -> None:
    told = impatient.click("Silent", "link")
    assert told.startswith(f"NOTE {site}/silent did not answer within 4 s; the page stays where it was\nSAME PAGE\n")
    assert impatient.error("open", url=f"{site}/silent").endswith("/silent: no answer within 4 s")
    assert "no change" in impatient.told("look")


def test_a_page_that_never_finishes_is_read_as_it_is(impatient: Driver, site: str) -> None:
    told = impatient.told("open", url=f"{site}/endless")
    assert told.startswith("NOTE still loading after 2.4 s; read as it is now\nPAGE Endless")
    assert "SAME PAGE" in impatient.click("Early button")


def test_a_page_whose_script_never_ends_is_an_error_and_the_next_open_goes_on(impatient: Driver, site: str) -> None:
    line = impatient.error("click", id=impatient.element("Loop"))
    assert "could not be read within 4 s (a script is busy" in line
    assert line.endswith("open another address to leave it")
    assert "(does not respond)" in impatient.told("tabs")
    assert "PAGE Basket" in impatient.told("open", url=f"{site}/basket")


def test_a_crashed_page_and_a_killed_browser_are_errors_and_the_next_open_goes_on(browser: Driver, site: str) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes cannot be listed here")
    assert browser.kill_browser("renderer") > 0
    time.sleep(1.0)
    assert browser.error("look").endswith("the page crashed: open an address to go on, or go to another tab")
    assert "PAGE Basket" in browser.told("open", url=f"{site}/basket")
    assert browser.kill_browser() > 0
    time.sleep(1.0)
    assert browser.error("click", id="3").endswith("the browser has stopped: open an address to start it again")
    assert "PAGE Dialogs" in browser.told("open", url=f"{site}/dialogs")
