"""Real web applications on loopback: installed, filled, started, stopped and restored by name.

Enters: site names. Leaves: running servers and their addresses. Each site lives in a folder of its own below the root
(`REGION4WEB_SITES`, else the user's cache folder): virtual environment, application, log, server state, snapshot.
What a site is made of lies in the repository's data/sites. Python sites need no root.
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
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["SITES", "RunningSite", "Site", "SiteError", "install", "reset", "running_site", "sites_root", "start", "stop"]

REPOSITORY = Path(__file__).resolve().parents[2]
SITE_DATA = REPOSITORY / "data" / "sites"
START_TIMEOUT_S = 90.0
DEBIAN_TIMEOUT_S = 900


class SiteError(RuntimeError):
    """A site could not be installed, started or restored. The message says what failed and where its log is."""


@dataclass(frozen=True)
class RunningSite:
    """A started site: `url` is its front page's address without a trailing slash, `database` its SQLite file if it has one."""

    name: str
    url: str
    pid: int
    database: Path | None = None


@dataclass(frozen=True)
class Site:
    """One application. `install(site folder)` leaves it filled; `command(site folder, port)` serves it."""

    name: str
    about: str
    install: Callable[[Path], None]
    command: Callable[[Path, int], list[str]]
    directory: str
    health_path: str
    database: str | None
    environment: dict[str, str] = field(default_factory=dict)
    shared_with: str | None = None


def sites_root() -> Path:
    """Where sites are installed."""
    if given := os.environ.get("REGION4WEB_SITES"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "region4web" / "sites"


def install(name: str, progress: Callable[[str], None] = lambda line: None) -> None:
    """Install and fill a site, and take the snapshot that `reset` restores. Nothing is done when it is installed.

    A half-finished installation is removed first. Raises SiteError.
    """
    site = _site(name)
    home = _home(site)
    marker = home / "installed.json"
    if marker.is_file():
        progress(f"{name}: installed already")
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    started = time.monotonic()
    progress(f"{name}: installing into {home}")
    site.install(home)
    if site.database:
        _copy_database(home / site.directory / site.database, home / "snapshot.sqlite3")
    marker.write_text(json.dumps({"site": name, "seconds": round(time.monotonic() - started, 1)}) + "\n")
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
    if site.database:
        reset(name, instance)
        environment["SITE_DATABASE"] = str(_database(site, instance))
    port = _free_port()
    log = home / f"server-{instance}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            site.command(home, port),
            cwd=home / site.directory,
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
            raise SiteError(f"{name} stopped while starting (exit status {process.returncode}); see {log}: {_last_line(log)}")
        if time.monotonic() > deadline:
            _end(process.pid)
            raise SiteError(f"{name} did not answer within {START_TIMEOUT_S:.0f} s; see {log}: {_last_line(log)}")
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
    return _home(site) / "instances" / str(instance) / "db.sqlite3" if site.database else None


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


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return lines[-1][:200] if lines else "the log is empty"


def _run(command: Sequence[str | Path], *, cwd: Path, log: Path, environment: dict[str, str] | None = None) -> None:
    with log.open("ab") as out:
        out.write(f"$ {' '.join(map(str, command))}\n".encode())
        out.flush()
        done = subprocess.run(
            list(map(str, command)), cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )  # fmt: skip
    if done.returncode:
        raise SiteError(
            f"{Path(str(command[0])).name} {' '.join(map(str, command[1:4]))} failed (exit status {done.returncode}); see {log}: {_last_line(log)}"
        )


def _virtual_environment(home: Path, requirements: Path) -> Path:
    log = home / "install.log"
    _run([sys.executable, "-m", "venv", home / "venv"], cwd=home, log=log)
    python = home / "venv" / "bin" / "python"
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements], cwd=home, log=log)
    return python


_SHOP_ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "shopsite.settings", "PYTHONHASHSEED": "0"}
_FORUM_ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "local_settings", "PYTHONHASHSEED": "0"}


def _install_shop(home: Path) -> None:
    python = _virtual_environment(home, SITE_DATA / "shop" / "requirements.txt")
    app, log = home / "app", home / "install.log"
    shutil.copytree(SITE_DATA / "shop", app, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SITE_DATA / "texts.py", app)
    for step in (
        ["manage.py", "migrate", "-v0"],
        ["manage.py", "oscar_populate_countries", "--initial-only", "-v0"],
        ["seed.py"],
        ["manage.py", "rebuild_index", "--noinput", "-v0"],
        ["manage.py", "collectstatic", "--noinput", "-v0"],
    ):
        _run([python, *step], cwd=app, log=log, environment=_SHOP_ENVIRONMENT)


def _install_forum(home: Path) -> None:
    python = _virtual_environment(home, SITE_DATA / "forum" / "requirements.txt")
    log = home / "install.log"
    app = home / "app"
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    _run([python.parent / "spirit", "startproject", "mysite"], cwd=home, log=log, environment={"PATH": path})
    (home / "mysite").rename(app)
    for name in ("local_settings.py", "seed.py"):
        shutil.copy(SITE_DATA / "forum" / name, app)
    shutil.copy(SITE_DATA / "forum" / "wsgi.py", app / "forum_wsgi.py")
    shutil.copy(SITE_DATA / "texts.py", app)
    for step in (["manage.py", "spiritinstall"], ["seed.py"], ["manage.py", "rebuild_index", "--noinput", "-v0"]):
        _run([python, *step], cwd=app, log=log, environment=_FORUM_ENVIRONMENT)


def _install_miniwob(home: Path) -> None:
    log = home / "install.log"
    _run([sys.executable, "-m", "venv", home / "venv"], cwd=home, log=log)
    python = home / "venv" / "bin" / "python"
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "miniwob==1.1.0"], cwd=home, log=log)
    pages = next((home / "venv" / "lib").glob("python*/site-packages/miniwob/html"), None)
    if pages is None:
        raise SiteError(f"the miniwob package holds no pages; see {log}")
    shutil.copytree(pages, home / "app")


def _waitress(application: str) -> Callable[[Path, int], list[str]]:
    def command(home: Path, port: int) -> list[str]:
        return [str(home / "venv" / "bin" / "waitress-serve"), f"--listen=127.0.0.1:{port}", "--threads=4", application]

    return command


def _static_files(home: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(home / "app")]


SITES: dict[str, Site] = {
    site.name: site
    for site in (
        Site("shop", "django-oscar storefront (shopping)", _install_shop, _waitress("shopsite.wsgi:application"), "app", "/en-gb/", "db.sqlite3", _SHOP_ENVIRONMENT),
        Site("dashboard", "back office of the shop (shopping admin)", _install_shop, _waitress("shopsite.wsgi:application"), "app", "/en-gb/dashboard/", None, shared_with="shop"),
        Site("forum", "Spirit forum (reddit)", _install_forum, _waitress("forum_wsgi:application"), "app", "/", "db.sqlite3", _FORUM_ENVIRONMENT),
        Site("miniwob", "MiniWoB++ task pages", _install_miniwob, _static_files, "app", "/miniwob/click-test.html", None),
    )
}  # fmt: skip
"""Every site by name. The dashboard is served by the shop."""
