"""A browser session that outlives the command that opened it: one background process a session, asked over a local socket.

Enters: requests, one JSON line each (`{"command": "click", "arguments": {"element_id": "41"}}`). Leaves: one JSON line
each, `{"ok": true, ...reply}` or `{"ok": false, "error": line, "status": 1 or 2}`. The socket lies in a folder that only
the user can enter. The process ends on `close`, after idling, or on SIGTERM; what a crash leaves behind is cleared by
the next `open`. Unix only. `python -m pagedigest.integrations.browser_session` is the process itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from region4web.errors import Region4WebError

if TYPE_CHECKING:
    from pagedigest.integrations.live_browser import LiveBrowser

__all__ = ["SessionError", "ask", "close_session", "ensure_session", "failure", "main", "session_names", "sessions_folder"]

SESSIONS_VARIABLE = "PAGEDIGEST_SESSIONS"
"""Environment variable that names the folder of the sessions' sockets."""
START_LIMIT_S = 60.0
COMMAND_LIMIT_S = 90.0
IDLE_LIMIT_S = 30 * 60.0
COMMANDS = frozenset({"open", "look", "click", "fill", "select", "press", "scroll", "back", "tabs", "view_all", "view_region", "find"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class SessionError(Region4WebError):
    """The session's process could not be started or reached. `status` is the exit status that says whose fault it is."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


# The client's side.


def sessions_folder() -> Path:
    """The folder of the sockets, made if need be. Raises SessionError when others could enter it."""
    chosen = os.environ.get(SESSIONS_VARIABLE)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = (
        Path(chosen) if chosen else Path(runtime) / "pagedigest" if runtime else Path(tempfile.gettempdir()) / f"pagedigest-{os.getuid()}"
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise SessionError(
            f"{folder}: cannot be used for sessions ({error.strerror}); name another folder in {SESSIONS_VARIABLE}"
        ) from error
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise SessionError(f"{folder}: others may enter it; run chmod 700 on it, or name another folder in {SESSIONS_VARIABLE}", status=2)
    return folder


def session_names() -> list[str]:
    """Sessions that answer."""
    return [path.stem for path in sorted(sessions_folder().glob("*.sock")) if _connected(path)]


def ask(name: str, command: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Send one command to a session that runs; its reply. Raises SessionError."""
    path = _socket_path(name)
    try:
        with _connection(path) as connection:
            connection.settimeout(COMMAND_LIMIT_S + 10.0)
            connection.sendall(json.dumps({"command": command, "arguments": dict(arguments or {})}).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline()
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise SessionError(f"no session {name!r} is open; start one with: pagedigest open URL", status=2) from error
    except TimeoutError as error:
        raise SessionError(f"session {name!r} does not answer; end it with: pagedigest close") from error
    except OSError as error:
        raise SessionError(f"session {name!r} stopped during the command ({error})") from error
    if not line:
        raise SessionError(f"session {name!r} stopped during the command; see {path.with_suffix('.log')}")
    reply: dict[str, Any] = json.loads(line)
    if not reply.pop("ok"):
        raise SessionError(str(reply["error"]), status=int(reply["status"]))
    return reply


def ensure_session(name: str, *, headed: bool = False, idle_s: float = IDLE_LIMIT_S) -> bool:
    """Start the session's process if it does not run; True when it was started. Raises SessionError."""
    path = _socket_path(name)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at once start one process
        if _connected(path):
            return False
        path.unlink(missing_ok=True)
        log = path.with_suffix(".log")
        command = [sys.executable, "-m", "pagedigest.integrations.browser_session", "--session", name, "--idle", str(idle_s)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *(["--headed"] if headed else [])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if _connected(path):
                return True
            if process.poll() is not None:
                raise SessionError(f"the session's process ended at once ({_last_line(log)}); its log is {log}")
            time.sleep(0.05)
        process.kill()
        raise SessionError(f"the session's process did not come up within {START_LIMIT_S:g} s; its log is {log}")


def close_session(name: str) -> None:
    """End a session; one that does not answer is killed. Raises SessionError when there is none."""
    path = _socket_path(name)
    if not _connected(path):
        path.unlink(missing_ok=True)
        raise SessionError(f"no session {name!r} is open", status=2)
    process_id = _process_of(path)
    try:
        ask(name, "close")
    except SessionError:
        if process_id is None:
            raise
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    path.unlink(missing_ok=True)


def _socket_path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SessionError(f"{name!r} is no session name: use letters, digits, '.', '_' and '-', at most 40", status=2)
    path = sessions_folder() / f"{name}.sock"
    if len(os.fsencode(path)) > 100:
        raise SessionError(f"{path}: too long for a socket; name a shorter folder in {SESSIONS_VARIABLE}", status=2)
    return path


@contextlib.contextmanager
def _connection(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5.0)
        connection.connect(str(path))
        yield connection


def _connected(path: Path) -> bool:
    try:
        with _connection(path):
            return True
    except OSError:
        return False


def _process_of(path: Path) -> int | None:
    """The process that serves a socket, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        with _connection(path) as connection:
            return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    except OSError:
        return None


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


# The process's side.


async def serve(name: str, browser: LiveBrowser, *, idle_s: float) -> None:
    """Answer commands, one at a time, until `close`, idling or a signal."""
    path = _socket_path(name)
    done = asyncio.Event()
    turn = asyncio.Lock()
    last_used = time.monotonic()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal last_used
        try:
            line = await reader.readline()
            if line:
                async with turn:
                    reply = await _answer(browser, json.loads(line))
                    last_used = time.monotonic()
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
                if reply.get("closed"):
                    done.set()
        except (ConnectionError, ValueError):
            pass  # the command was interrupted, or is none of ours
        finally:
            writer.close()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    os.umask(0o077)
    server = await asyncio.start_unix_server(answer, str(path), limit=2**22)
    try:
        while not done.is_set() and (turn.locked() or time.monotonic() - last_used < idle_s):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), min(5.0, max(0.05, idle_s / 4)))
    finally:
        server.close()
        path.unlink(missing_ok=True)
        await browser.close()


async def _answer(browser: LiveBrowser, request: Mapping[str, Any]) -> dict[str, Any]:
    command, arguments = request.get("command"), request.get("arguments") or {}
    try:
        if command == "close":
            return {"ok": True, "closed": True}
        if command not in COMMANDS:
            return {"ok": False, "error": f"no command {command!r}", "status": 2}
        if command == "open":
            browser.allow(files=bool(arguments.pop("allow_files", False)), private=bool(arguments.pop("allow_private", False)))
            await browser.set_task(arguments.pop("task", None), arguments.pop("budget_tokens", None))
        reply = await asyncio.wait_for(getattr(browser, command)(**arguments), COMMAND_LIMIT_S)
        return {"ok": True, **reply.to_json()}
    except Exception as error:
        line, status = failure(error)
        return {"ok": False, "error": line, "status": status}


def failure(error: Exception) -> tuple[str, int]:
    """An error as one line and an exit status: 2 the caller's mistake, 1 the world's."""
    from playwright.async_api import Error

    from region4web.cli import failure_line

    if isinstance(error, TimeoutError):
        return f"the command took longer than {COMMAND_LIMIT_S:g} s", 1
    if isinstance(error, Error):
        return f"the browser refused: {' '.join(str(error).split())[:300]}", 1
    line, status = failure_line(error)
    return " ".join(line.split())[:500], status


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="pagedigest-session", description="The process of one browser session.")
    parser.add_argument("--session", required=True)
    parser.add_argument("--idle", type=float, default=IDLE_LIMIT_S)
    parser.add_argument("--headed", action="store_true")
    arguments = parser.parse_args(argv)
    from pagedigest.integrations.addresses import AddressPolicy
    from pagedigest.integrations.live_browser import LiveBrowser

    downloads = sessions_folder() / f"{arguments.session}-downloads"
    browser = LiveBrowser(headless=not arguments.headed, policy=AddressPolicy(files=False, private=False), downloads=downloads)
    asyncio.run(serve(arguments.session, browser, idle_s=arguments.idle))


if __name__ == "__main__":
    main()
