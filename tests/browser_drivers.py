"""A browser of this project behind its two front doors, the command line and the MCP server, driven by the same calls.

Enters: commands by name (`do("click", id="41")`). Leaves: (text, whether it is an error); the text of an MCP reply without its fence.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POSITIONAL = {"open": ("url",), "click": ("id",), "fill": ("id", "text"), "select": ("id", "option"), "press": ("key", "id"),
              "find": ("text",), "view_region": ("region",), "tabs": ("number",), "scroll": ("direction", "id")}  # fmt: skip
FENCE = re.compile(r'<page-content nonce="(\w{12})" untrusted="true">\n(.*)\n</page-content nonce="\1">', re.DOTALL)


class Driver:
    """What both have: an element's id as a reader finds it, and the processes behind."""

    timeout_s = 15.0

    def do(self, command: str, **arguments: Any) -> tuple[str, bool]:
        raise NotImplementedError

    def process_id(self) -> int:
        """The process that holds the browser."""
        raise NotImplementedError

    def told(self, command: str, **arguments: Any) -> str:
        """The text of a command that must go well."""
        text, failed = self.do(command, **arguments)
        assert not failed, text
        return text

    def error(self, command: str, **arguments: Any) -> str:
        """The line of a command that must fail."""
        text, failed = self.do(command, **arguments)
        assert failed, text
        assert "\n" not in text.strip(), text
        return text.strip()

    def element(self, name: str, role: str = "button") -> str:
        """The id of an element, looked up as a reader would: with `find`."""
        text = self.told("find", text=name)
        found = re.search(rf"\[([\w:]+)\] {role} '{re.escape(name)}'", text)
        assert found, text
        return found[1]

    def click(self, name: str, role: str = "button", **how: Any) -> str:
        return self.told("click", id=self.element(name, role), **how)

    def kill_browser(self, kind: str = "") -> int:
        """Kill the browser's processes, or those of one kind (`renderer`); how many there were."""
        return kill_browsers_below(self.process_id(), kind)


class CommandLine(Driver):
    """`pagedigest COMMAND`, with sessions in a folder of its own."""

    def __init__(self, folder: Path, session: str = "default", timeout_s: float = 15.0) -> None:
        self.folder, self.session, self.timeout_s = folder, session, timeout_s

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PAGEDIGEST_SESSIONS": str(self.folder),
            "PAGEDIGEST_ALLOW_FILES": "1",
            "PAGEDIGEST_ALLOW_PRIVATE": "1",
        }
        return subprocess.run(
            [sys.executable, "-m", "pagedigest.cli", *arguments], env=environment, capture_output=True, text=True, timeout=150, check=False
        )

    def do(self, command: str, **arguments: Any) -> tuple[str, bool]:
        words = [command.replace("_", "-"), *(str(arguments.pop(name)) for name in POSITIONAL.get(command, ()) if name in arguments)]
        for name, value in arguments.items():
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        if command == "open":
            words += ["--timeout", str(self.timeout_s)]
        done = self.run(*words, "--session", self.session)
        return (done.stderr if done.returncode else done.stdout.removesuffix("\n")), done.returncode != 0

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

    def process_id(self) -> int:
        for process_id, command in processes():
            if b"pagedigest.integrations.browser_session" in command and self.session.encode() in command:
                with (Path("/proc") / str(process_id) / "environ").open("rb") as environment:
                    if os.fsencode(self.folder) in environment.read():
                        return process_id
        raise AssertionError(f"no process holds session {self.session}")


class Mcp(Driver):
    """`pagedigest mcp` under the SDK's own client, over stdio. The client lives in a thread with a loop of its own."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self.client: Any = None
        self._failure: BaseException | None = None
        before = {process_id for process_id, _ in processes()}
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._live()], daemon=True)
        self._thread.start()
        self._ready.wait(60)
        assert self.client is not None, self._failure
        self._server = next((i for i, command in processes() if i not in before and b"mcp" in command and _parent(i) == os.getpid()), 0)

    async def _live(self) -> None:
        import mcp

        server = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "pagedigest.cli", "mcp", *self._options], env=dict(os.environ)
        )
        try:
            async with mcp.Client(server, read_timeout_seconds=150) as client:
                self.client = client
                self._ready.set()
                await self._over.wait()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()

    def wait_for(self, work: Any) -> Any:
        """The result of one of the client's coroutines."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(150)

    def raw(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """A reply as the client gets it."""
        result = self.wait_for(self.client.call_tool(tool, arguments))
        return "\n".join(part.text for part in result.content if part.type == "text"), bool(result.is_error)

    def do(self, command: str, **arguments: Any) -> tuple[str, bool]:
        text, failed = self.raw("observe" if command == "look" else command, **arguments)
        fence = FENCE.fullmatch(text)
        assert failed or fence, text
        return fence[2] if fence else text, failed

    def process_id(self) -> int:
        assert self._server, "the server's process was not found"
        return self._server

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)


@contextmanager
def mcp_server(*options: str) -> Iterator[Mcp]:
    server = Mcp(*options)
    try:
        yield server
    finally:
        server.close()


def processes() -> Iterator[tuple[int, bytes]]:
    """Process numbers and their command lines; nothing where /proc is not."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            yield int(entry.name), (entry / "cmdline").read_bytes()
        except OSError:
            continue


def _parent(process_id: int) -> int:
    try:
        return int((Path("/proc") / str(process_id) / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def kill_browsers_below(process_id: int, kind: str = "") -> int:
    """Kill the browser processes that a process started, or those of one kind; how many there were."""
    wanted = f"--type={kind}".encode() if kind else b""
    killed = 0
    for child, command in list(processes()):
        above = child
        while above not in (0, process_id):
            above = _parent(above)
        if above and b"chrom" in command.split(b"\0", 1)[0] and wanted in command:
            try:
                os.kill(child, signal.SIGKILL)
            except OSError:
                continue
            killed += 1
    return killed
