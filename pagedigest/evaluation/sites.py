"""Real web applications on loopback: installed, filled, started, stopped and restored by name.

Enters: site names. Leaves: running servers and their addresses. Each site lives in a folder of its own below the root
(`REGION4WEB_SITES`, else the user's cache folder): virtual environment, application, log, server state, snapshot.
`site_recipes` says what each is made of. Python sites need no root.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pagedigest.evaluation.site_recipes import DATABASE, SITES, Site, SiteError, last_line, recipe_checksum

__all__ = ["SITES", "RunningSite", "SiteError", "install", "reset", "running_site", "sites_root", "start", "stop"]

START_TIMEOUT_S = 240.0


@dataclass(frozen=True)
class RunningSite:
    """A started site: `url` is its front page's address without a trailing slash, `database` its SQLite file if it has one."""

    name: str
    url: str
    pid: int
    database: Path | None = None


def sites_root() -> Path:
    """Where sites are installed."""
    if given := os.environ.get("REGION4WEB_SITES"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "region4web" / "sites"


def install(name: str, progress: Callable[[str], None] = lambda line: None) -> None:
    """Install and fill a site, and take the snapshot that `reset` restores. Nothing is done when it is installed.

    A half-finished installation, and one from other seeds than those of this checkout, is removed first. Raises SiteError.
    """
    site = _site(name)
    home = _home(site)
    marker = home / "installed.json"
    checksum = recipe_checksum(name)
    if marker.is_file():
        if json.loads(marker.read_text()).get("recipe") == checksum:
            progress(f"{name}: installed already")
            return
        progress(f"{name}: was installed from other seeds; removing it")
        stop(name)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    started = time.monotonic()
    progress(f"{name}: installing into {home}")
    site.install(home)
    if site.stateful:
        _copy_database(home / "app" / DATABASE, home / "snapshot.sqlite3")
    marker.write_text(json.dumps({"site": name, "seconds": round(time.monotonic() - started, 1), "recipe": checksum}) + "\n")
    progress(f"{name}: installed and filled in {time.monotonic() - started:.0f} s")


def start(name: str, instance: int = 0) -> RunningSite:
    """Serve a site on a free loopback port and wait until it answers. A running one is returned as it is.

    Each `instance` is a server with a database of its own, so that workers do not disturb one another. Raises SiteError.
    """
    site = _site(name)
    if site.shared_with:
        return _below(site, start(site.shared_with, instance))
    if running := running_site(name, instance):
        return running
    home = _home(site)
    if not (home / "installed.json").is_file():
        raise SiteError(f"{name} is not installed; run: python scripts/sites.py install {name}")
    environment = {**os.environ, **site.environment}
    if site.stateful:
        reset(name, instance)
        environment["SITE_DATABASE"] = str(_database(site, instance))
    port = _free_port()
    log = home / f"server-{instance}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            site.command(home, port),
            cwd=home / "app",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _answers(url + site.health_path):
        if process.poll() is not None:
            raise SiteError(f"{name} stopped while starting (exit status {process.returncode}); see {log}: {last_line(log)}")
        if time.monotonic() > deadline:
            _end(process.pid)
            raise SiteError(f"{name} did not answer within {START_TIMEOUT_S:.0f} s; see {log}: {last_line(log)}")
        time.sleep(0.3)
    _state(site, instance).write_text(json.dumps({"pid": process.pid, "port": port}))
    return RunningSite(name, url, process.pid, _database(site, instance))


def running_site(name: str, instance: int = 0) -> RunningSite | None:
    """The site when it is started and its process lives, else None."""
    site = _site(name)
    if site.shared_with:
        other = running_site(site.shared_with, instance)
        return _below(site, other) if other else None
    try:
        data = json.loads(_state(site, instance).read_text())
        os.kill(data["pid"], 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not _port_open(data["port"]):
        return None
    return RunningSite(name, f"http://127.0.0.1:{data['port']}", data["pid"], _database(site, instance))


def stop(name: str, instance: int = 0) -> bool:
    """End a site's server. False when it was not running."""
    site = _site(name)
    if site.shared_with:
        return stop(site.shared_with, instance)
    running = running_site(name, instance)
    if running:
        _end(running.pid)
    with contextlib.suppress(OSError):
        _state(site, instance).unlink()
    return running is not None


def reset(name: str, instance: int = 0) -> None:
    """Restore the content that the site was installed with, also while it runs. Raises SiteError."""
    site = _site(name)
    if site.shared_with:
        reset(site.shared_with, instance)
        return
    database = _database(site, instance)
    if database is None:
        return  # pages without a server side have nothing to restore
    snapshot = _home(site) / "snapshot.sqlite3"
    if not snapshot.is_file():
        raise SiteError(f"{name} is not installed; run: python scripts/sites.py install {name}")
    database.parent.mkdir(parents=True, exist_ok=True)
    _copy_database(snapshot, database)


def _below(site: Site, other: RunningSite) -> RunningSite:
    """A part of another site: same server, same addresses."""
    return RunningSite(site.name, other.url, other.pid, other.database)


def _database(site: Site, instance: int) -> Path | None:
    return _home(site) / "instances" / str(instance) / DATABASE if site.stateful else None


def _state(site: Site, instance: int) -> Path:
    return _home(site) / f"server-{instance}.json"


def _site(name: str) -> Site:
    if name not in SITES:
        raise ValueError(f"no site is called {name!r}; sites are {', '.join(SITES)}")
    return SITES[name]


def _home(site: Site) -> Path:
    return sites_root() / site.name


def _copy_database(source: Path, target: Path) -> None:
    """SQLite's own backup: one transaction, safe while a server has the target open."""
    try:
        with contextlib.closing(sqlite3.connect(source, timeout=20)) as old, contextlib.closing(sqlite3.connect(target, timeout=20)) as new:
            old.backup(new)
    except sqlite3.Error as error:
        raise SiteError(f"the database {target.name} could not be copied: {error}") from error


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _port_open(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=20) as reply:
            return int(reply.status) < 400
    except (OSError, urllib.error.URLError):
        return False


def _end(pid: int) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, sent)
        for _ in range(30):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            try:
                os.kill(pid, 0)
            except OSError:
                return
            time.sleep(0.1)
