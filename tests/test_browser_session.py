"""The command line's browser sessions: a flow over several pages, and what becomes of a session. Faults of the web are in test_browser_faults."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_drivers import CommandLine
from shop_site import shop

pytestmark = pytest.mark.browser
pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")
if sys.platform == "win32":
    pytest.skip("browser sessions use Unix sockets", allow_module_level=True)


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandLine]:
    with tempfile.TemporaryDirectory(prefix="pd") as folder:
        os.chmod(folder, 0o700)
        here = CommandLine(Path(folder))
        yield here
        for path in Path(folder).glob("*.sock"):
            here.run("close", "--session", path.stem)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


@pytest.fixture(scope="module")
def opened(commands: CommandLine, site: str) -> str:
    """The name of a session that runs."""
    commands.reply("open", site, "--session", "tools", "--task", "use the tools")
    return "tools"


@pytest.fixture
def tools(commands: CommandLine, site: str, opened: str) -> tuple[str, str]:
    """The options that name the session, on the page of tools."""
    commands.reply("open", f"{site}/tools", "--session", opened)
    return ("--session", opened)


def test_a_mug_is_bought_with_at_most_two_fifths_of_the_whole_trees_tokens(commands: CommandLine, site: str) -> None:
    replies = [commands.reply("open", site, "--task", "put a large red mug into the basket")]
    finds: list[dict[str, Any]] = []  # a reader of whole trees needs none
    assert replies[0]["event"] == "opened"

    def step(*arguments: str) -> dict[str, Any]:
        replies.append(commands.reply(*arguments))
        return replies[-1]

    def listed(name: str, role: str) -> str:
        """From what was read already, else by `find`, which counts too."""
        for reply in [*reversed(finds), *reversed(replies)]:
            if found := re.search(rf"\[?([\w:]+)\]? {role} '{re.escape(name)}'", reply["text"]):
                return found[1]
        finds.append(commands.reply("find", name))
        found = re.search(rf"\[([\w:]+)\] {role} '{re.escape(name)}'", finds[-1]["text"])
        assert found
        return found[1]

    filled = step("fill", listed("Search products", "textbox"), "Red mug")
    assert filled["text"].startswith("SAME PAGE\n")
    assert filled["event"] == "changed"
    assert "Category A0" not in filled["text"]
    step("press", "Enter")
    assert replies[-1]["title"] == "Results"
    step("click", listed("Red mug", "link"))
    step("select", listed("Size", "combobox"), "large")
    step("click", listed("Add to basket", "button"))
    assert replies[-1]["url"] == f"{site}/basket"
    finds.append(commands.reply("find", "Red mug in large"))
    assert "Red mug in large" in finds[-1]["text"]
    spent, whole = sum(reply["tokens"] for reply in [*replies, *finds]), sum(reply["full_tokens"] for reply in replies)
    assert spent <= 0.4 * whole, (spent, whole)


def test_the_socket_is_the_users_alone(commands: CommandLine, opened: str) -> None:
    assert stat.S_IMODE((commands.folder / f"{opened}.sock").stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(commands.folder.stat().st_mode) == 0o700


def test_bad_ids_addresses_and_files_are_one_line_and_status_2(commands: CommandLine, tools: tuple[str, str]) -> None:
    assert commands.refused("click", "999999", *tools)[0] == 2
    status, line = commands.refused("open", "/nowhere/page.html", *tools)
    assert (status, line) == (2, "pagedigest: /nowhere/page.html: no such file; a web address starts with http:// or https://\n")
    assert commands.refused("open", "http://127.0.0.1:9/", *tools)[0] == 1
    assert commands.refused("click", "3", "--session", "a/b")[0] == 2
    assert "no region 'R99'" in commands.reply("view-region", "R99", *tools)["text"]


def test_a_session_that_was_closed_is_none_any_more(commands: CommandLine, site: str) -> None:
    commands.reply("open", f"{site}/basket", "--session", "other")
    assert commands.run("close", "--session", "other").stdout == "session other closed\n"
    assert commands.refused("look", "--session", "other") == (
        2,
        "pagedigest: no session 'other' is open; start one with: pagedigest open URL\n",
    )


def test_a_killed_session_is_cleared_away_by_the_next_open(commands: CommandLine, site: str) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes cannot be listed here")
    commands.reply("open", site, "--session", "doomed")
    os.kill(CommandLine(commands.folder, "doomed").process_id(), signal.SIGKILL)
    time.sleep(0.5)
    assert (commands.folder / "doomed.sock").exists()
    assert commands.refused("look", "--session", "doomed")[0] == 2
    assert commands.reply("open", site, "--session", "doomed")["event"] == "opened"
    commands.run("close", "--session", "doomed")
    assert not (commands.folder / "doomed.sock").exists()


def test_an_idle_session_ends_by_itself(commands: CommandLine, site: str) -> None:
    commands.reply("open", site, "--session", "idle", "--idle", "1")
    for _ in range(60):
        if not (commands.folder / "idle.sock").exists():
            break
        time.sleep(0.2)
    assert commands.refused("look", "--session", "idle")[0] == 2


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    status, line = CommandLine(tmp_path).refused("look")
    assert (status, "others may enter it" in line) == (2, True)
