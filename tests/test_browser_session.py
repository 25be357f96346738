"""The command line's browser sessions: a flow over several pages, and everything that goes wrong on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shop_site import shop

pytestmark = pytest.mark.browser
pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")
if sys.platform == "win32":
    pytest.skip("browser sessions use Unix sockets", allow_module_level=True)


class Commands:
    """The command line, with sessions in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PAGEDIGEST_SESSIONS": str(self.folder)}
        return subprocess.run(
            [sys.executable, "-m", "pagedigest.cli", *arguments], env=environment, capture_output=True, text=True, timeout=150, check=False
        )

    def reply(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def refused(self, *arguments: str) -> tuple[int, str]:
        done = self.run(*arguments)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr

    def element(self, name: str, role: str, *session: str) -> str:
        """The id of an element, looked up as a user would: with `find`."""
        text = self.reply("find", name, *session)["text"]
        found = re.search(rf"\[([\w:]+)\] {role} '{re.escape(name)}'", text)
        assert found, text
        return found[1]


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with tempfile.TemporaryDirectory(prefix="pd") as folder:
        os.chmod(folder, 0o700)
        here = Commands(Path(folder))
        yield here
        for path in Path(folder).glob("*.sock"):
            here.run("close", "--session", path.stem)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


@pytest.fixture(scope="module")
def opened(commands: Commands, site: str) -> str:
    """The name of a session that runs."""
    commands.reply("open", site, "--session", "tools", "--task", "use the tools")
    return "tools"


@pytest.fixture
def tools(commands: Commands, site: str, opened: str) -> tuple[str, str]:
    """The options that name the session, on the page of tools."""
    commands.reply("open", f"{site}/tools", "--session", opened)
    return ("--session", opened)


def test_a_mug_is_bought_with_at_most_two_fifths_of_the_whole_trees_tokens(commands: Commands, site: str) -> None:
    replies = [commands.reply("open", site, "--task", "put a large red mug into the basket")]
    assert replies[0]["event"] == "opened"

    def step(*arguments: str) -> dict[str, Any]:
        replies.append(commands.reply(*arguments))
        return replies[-1]

    def listed(name: str, role: str) -> str:
        """From what was read already, else by `find`, which counts too."""
        for reply in reversed(replies):
            if found := re.search(rf"\[?([\w:]+)\]? {role} '{re.escape(name)}'", reply["text"]):
                return found[1]
        found = re.search(rf"\[([\w:]+)\] {role} '{re.escape(name)}'", step("find", name)["text"])
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
    assert "Red mug in large" in replies[-1]["text"] + step("find", "Red mug in large")["text"]
    spent, whole = sum(reply["tokens"] for reply in replies), sum(reply["full_tokens"] for reply in replies)
    assert spent <= 0.4 * whole, (spent, whole)


def test_the_socket_is_the_users_alone(commands: Commands, opened: str) -> None:
    assert stat.S_IMODE((commands.folder / f"{opened}.sock").stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(commands.folder.stat().st_mode) == 0o700


def test_two_sessions_at_once_do_not_meet(commands: Commands, site: str, tools: tuple[str, str]) -> None:
    other = commands.reply("open", f"{site}/basket", "--session", "other")
    assert other["title"] == "Basket"
    assert commands.reply("look", *tools)["title"] == "Tools"
    assert commands.run("close", "--session", "other").stdout == "session other closed\n"
    assert commands.refused("look", "--session", "other") == (
        2,
        "pagedigest: no session 'other' is open; start one with: pagedigest open URL\n",
    )


def test_a_dialog_is_dismissed_or_accepted_and_told(commands: Commands, tools: tuple[str, str]) -> None:
    button = commands.element("Delete all", "button", *tools)
    reply = commands.reply("click", button, *tools)
    assert reply["notes"] == ["dialog confirm 'Delete all?' was dismissed"]
    assert reply["text"].startswith("NOTE dialog confirm 'Delete all?' was dismissed\n")
    assert "'Kept'" in commands.reply("find", "Kept", *tools)["text"]
    assert commands.reply("click", button, "--accept-dialog", *tools)["notes"] == ["dialog confirm 'Delete all?' was accepted"]


def test_a_download_is_saved_and_told(commands: Commands, tools: tuple[str, str]) -> None:
    reply = commands.reply("click", commands.element("Prices", "link", *tools), *tools)
    for _ in range(20):
        if reply["notes"]:
            break
        time.sleep(0.2)
        reply = commands.reply("look", *tools)
    path = commands.folder / "tools-downloads" / "prices.csv"
    assert reply["notes"] == [f"download 'prices.csv' was saved to {path}"]
    assert path.read_text() == "a;b"
    status, line = commands.refused("open", f"{reply['url'].rsplit('/', 1)[0]}/file", *tools)
    assert (status, "is a download (prices.csv), not a page" in line) == (2, True)


def test_a_new_tab_is_followed_and_can_be_left_and_closed(commands: Commands, tools: tuple[str, str]) -> None:
    reply = commands.reply("click", commands.element("New tab", "button", *tools), *tools)
    assert reply["title"] == "Basket"
    assert reply["notes"] == ["a new tab opened; this is tab 2 of 2"]
    assert [line[0] for line in commands.reply("tabs", *tools)["text"].splitlines()[1:]] == [" ", "*"]
    assert commands.reply("tabs", "1", *tools)["title"] == "Tools"
    assert len(commands.reply("tabs", "2", "--close", *tools)["text"].splitlines()) == 2
    assert commands.refused("tabs", "7", *tools)[0] == 2


def test_a_500_page_is_read_and_told(commands: Commands, site: str, tools: tuple[str, str]) -> None:
    reply = commands.reply("open", f"{site}/broken", *tools)
    assert reply["notes"] == ["the server answered HTTP 500 Internal Server Error"]
    assert "Something broke" in reply["text"] + commands.reply("find", "Something broke", *tools)["text"]


def test_bad_ids_addresses_and_files_are_one_line_and_status_2(commands: Commands, tools: tuple[str, str]) -> None:
    assert commands.refused("click", "999999", *tools)[0] == 2
    status, line = commands.refused("open", "/nowhere/page.html", *tools)
    assert (status, line) == (2, "pagedigest: /nowhere/page.html: no such file; a web address starts with http:// or https://\n")
    assert commands.refused("open", "http://127.0.0.1:9/", *tools)[0] == 1
    assert commands.refused("click", "3", "--session", "a/b")[0] == 2
    assert "no region 'R99'" in commands.reply("view-region", "R99", *tools)["text"]


def test_a_hung_page_is_an_error_and_the_next_open_goes_on(commands: Commands, site: str, tools: tuple[str, str]) -> None:
    commands.run("open", f"{site}/hang", *tools)  # may be read before it hangs
    time.sleep(0.5)
    started = time.monotonic()
    status, line = commands.refused("look", *tools)
    assert status == 1
    assert "could not be read within 15 s" in line
    assert "open another address to leave it" in line
    assert time.monotonic() - started < 60
    assert commands.reply("open", f"{site}/tools", *tools)["title"] == "Tools"


def test_a_killed_browser_is_an_error_and_the_next_open_starts_another(commands: Commands, site: str, tools: tuple[str, str]) -> None:
    assert _kill_browsers_below(_server(commands, tools[1])) > 0
    time.sleep(1.0)
    status, line = commands.refused("look", *tools)
    assert status == 1
    assert "the browser has stopped: open an address to start it again" in line
    assert commands.reply("open", f"{site}/tools", *tools)["title"] == "Tools"


def test_a_killed_session_is_cleared_away_by_the_next_open(commands: Commands, site: str) -> None:
    commands.reply("open", site, "--session", "doomed")
    os.kill(_server(commands, "doomed"), signal.SIGKILL)
    time.sleep(0.5)
    assert (commands.folder / "doomed.sock").exists()
    assert commands.refused("look", "--session", "doomed")[0] == 2
    assert commands.reply("open", site, "--session", "doomed")["event"] == "opened"
    commands.run("close", "--session", "doomed")
    assert not (commands.folder / "doomed.sock").exists()


def test_an_idle_session_ends_by_itself(commands: Commands, site: str) -> None:
    commands.reply("open", site, "--session", "idle", "--idle", "1")
    for _ in range(60):
        if not (commands.folder / "idle.sock").exists():
            break
        time.sleep(0.2)
    assert commands.refused("look", "--session", "idle")[0] == 2


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    status, line = Commands(tmp_path).refused("look")
    assert (status, "others may enter it" in line) == (2, True)


def _server(commands: Commands, name: str) -> int:
    """The process of a session, found by its command line."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if (
            b"pagedigest.integrations.browser_session" in arguments
            and name.encode() in arguments
            and os.fsencode(commands.folder) in environment
        ):
            return int(entry.name)
    pytest.skip("processes cannot be listed here")


def _kill_browsers_below(process_id: int) -> int:
    """Kill the browser processes that a session started; how many there were."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    killed = 0
    for child in parents:
        above = parents[child]
        while above in parents and above != process_id:
            above = parents[above]
        if above == process_id and b"chrom" in _command(child):
            try:
                os.kill(child, signal.SIGKILL)
            except OSError:
                continue
            killed += 1
    return killed


def _command(process_id: int) -> bytes:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0", 1)[0]
    except OSError:
        return b""
