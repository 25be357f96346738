"""What each local test site is made of: how it is installed and filled, and the command that serves it.

Enters: a site's folder. Leaves: an application in it with a filled SQLite file, and `SITES` by name. Python sites come from PyPI into
virtual environments of their own, the tracker and the wiki from Debian packages. Nothing here starts, stops or restores a server.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["DATABASE", "SITES", "Site", "SiteError", "last_line", "recipe_checksum"]

SITE_DATA = Path(__file__).resolve().parents[2] / "data" / "sites"
DATABASE = "db.sqlite3"


class SiteError(RuntimeError):
    """A site could not be installed, started or restored. The message says what failed and where its log is."""


@dataclass(frozen=True)
class Site:
    """One application below `app` of its folder. `install(site folder)` leaves it filled; `command(site folder, port)` serves it on loopback.

    `stateful`: it keeps its content in `app/db.sqlite3`; its server takes the file's place from SITE_DATABASE.
    """

    name: str
    about: str
    install: Callable[[Path], None]
    command: Callable[[Path, int], list[str]]
    health_path: str
    stateful: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    shared_with: str | None = None


_SHOP_ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "shopsite.settings", "PYTHONHASHSEED": "0"}
_FORUM_ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "local_settings", "PYTHONHASHSEED": "0"}
_TRACKER_ENVIRONMENT = {
    "RAILS_ENV": "production",
    "REDMINE_LANG": "en",
    "REDMINE_INSTANCE": "default",
    "RAILS_SERVE_STATIC_FILES": "1",
    "TZ": "UTC",
}
_WIKI_ENVIRONMENT = {"PHP_CLI_SERVER_WORKERS": "3", "TZ": "UTC"}
_TRACKER_PACKAGES = ("redmine", "redmine-sqlite", "ruby-sqlite3", "puma")
_WIKI_PACKAGES = ("php-cli", "php-sqlite3", "php-intl", "php-mbstring", "php-xml")
_PHP = ("php", "-d", "opcache.enable_cli=1")


def last_line(log: Path) -> str:
    """The end of a log, for an error message."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return lines[-1][:200] if lines else "the log is empty"


def recipe_checksum(name: str) -> str:
    """Of the files that a site is filled from: tasks hold on no other content."""
    digest = hashlib.sha256()
    for path in (SITE_DATA / "texts.py", *sorted(p for p in (SITE_DATA / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts)):
        digest.update(path.relative_to(SITE_DATA).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _install_shop(home: Path) -> None:
    python = _virtual_environment(home, SITE_DATA / "shop" / "requirements.txt")
    app = home / "app"
    shutil.copytree(SITE_DATA / "shop", app, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SITE_DATA / "texts.py", app)
    for step in (
        ["manage.py", "migrate", "-v0"],
        ["manage.py", "oscar_populate_countries", "--initial-only", "-v0"],
        ["seed.py"],
        ["manage.py", "rebuild_index", "--noinput", "-v0"],
        ["manage.py", "collectstatic", "--noinput", "-v0"],
    ):
        _run([python, *step], home=home, cwd=app, environment=_SHOP_ENVIRONMENT)


def _install_forum(home: Path) -> None:
    python = _virtual_environment(home, SITE_DATA / "forum" / "requirements.txt")
    app = home / "app"
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    _run([python.parent / "spirit", "startproject", "mysite"], home=home, environment={"PATH": path})
    (home / "mysite").rename(app)
    for name in ("local_settings.py", "seed.py"):
        shutil.copy(SITE_DATA / "forum" / name, app)
    shutil.copy(SITE_DATA / "forum" / "wsgi.py", app / "forum_wsgi.py")
    shutil.copy(SITE_DATA / "texts.py", app)
    for step in (["manage.py", "spiritinstall"], ["seed.py"], ["manage.py", "rebuild_index", "--noinput", "-v0"]):
        _run([python, *step], home=home, cwd=app, environment=_FORUM_ENVIRONMENT)


def _install_miniwob(home: Path) -> None:
    _run([sys.executable, "-m", "venv", home / "venv"], home=home)
    python = home / "venv" / "bin" / "python"
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "miniwob==1.1.0"], home=home)
    pages = next((home / "venv" / "lib").glob("python*/site-packages/miniwob/html"), None)
    if pages is None:
        raise SiteError(f"the miniwob package holds no pages; see {home / 'install.log'}")
    shutil.copytree(pages, home / "app")


def _install_tracker(home: Path) -> None:
    """A copy of Debian's Redmine that keeps everything in its own folder; Debian's own instance is not touched."""
    _debian_packages("tracker", _TRACKER_PACKAGES, home)
    app, source = home / "app", Path("/usr/share/redmine")
    if not (source / "config.ru").is_file():
        raise SiteError(f"the Debian package redmine holds no application at {source}")
    shutil.copytree(source, app, ignore=lambda folder, names: {"instances", "Gemfile.lock", "database.yml"} & set(names))
    instance = app / "instances" / "default"
    for folder in (instance / "config", instance / "log", instance / "tmp", app / "files"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SITE_DATA / "tracker" / "database.yml", instance / "config")
    (instance / "config" / "secret_key.txt").write_text("0123456789abcdef" * 4 + "\n")
    gemfile = app / "Gemfile"
    gemfile.write_text(gemfile.read_text().replace("/usr/share/redmine/{config,instances/*/config}", "instances/default/config"))
    environment = {**_TRACKER_ENVIRONMENT, "SITE_DATABASE": str(app / DATABASE)}
    seed = str(SITE_DATA / "tracker" / "seed.rb")
    for step in (["rake", "db:migrate"], ["rake", "redmine:load_default_data"], ["rails", "runner", seed]):
        _run(["bundle", "exec", *step], home=home, cwd=app, environment=environment)


def _install_wiki(home: Path) -> None:
    """MediaWiki unpacked from its Debian package, so that no web server is installed beside PHP's own."""
    _debian_packages("wiki", _WIKI_PACKAGES, home)
    _run(["apt-get", "download", "-q", "mediawiki", "mediawiki-classes"], home=home)
    for archive in sorted(home.glob("*.deb")):
        _run(["dpkg-deb", "-x", archive, home / "package"], home=home)
        archive.unlink()
    app = home / "app"
    (home / "package" / "usr" / "share" / "mediawiki").rename(app)
    shutil.rmtree(home / "package")
    shutil.rmtree(app / "extensions-core")
    for name in ("extensions", "images", "config", "LocalSettings.php"):
        (app / name).unlink()  # links into the system
    for name in ("extensions", "images", "cache"):
        (app / name).mkdir()
    first: list[str | Path] = [
        "maintenance/install.php", "--dbtype", "sqlite", "--dbpath", app / "first", "--dbname", "wiki", "--pass", "password12345", "--server", "http://127.0.0.1",
        "--scriptpath", "", "Arena Wiki", "Admin",
    ]  # fmt: skip
    _run([*_PHP, *first], home=home, cwd=app, environment=_WIKI_ENVIRONMENT)
    (app / "first" / "wiki.sqlite").rename(app / DATABASE)
    shutil.rmtree(app / "first")
    for name in ("LocalSettings.php", "router.php", "seed.php"):
        shutil.copy(SITE_DATA / "wiki" / name, app)
    environment = {**_WIKI_ENVIRONMENT, "SITE_DATABASE": str(app / DATABASE)}
    _run([*_PHP, "maintenance/rebuildLocalisationCache.php", "--lang", "en"], home=home, cwd=app, environment=environment)
    pages = home / "pages.json"
    made = subprocess.run(
        [sys.executable, SITE_DATA / "wiki" / "pages.py"], capture_output=True, env={**os.environ, "PYTHONPATH": str(SITE_DATA)}
    )
    if made.returncode:
        raise SiteError(f"the wiki's pages could not be written: {made.stderr.decode(errors='replace').strip().splitlines()[-1]}")
    pages.write_bytes(made.stdout)
    for step in (["seed.php", str(pages)], ["maintenance/rebuildtextindex.php"], ["maintenance/initSiteStats.php", "--update"]):
        _run([*_PHP, *step], home=home, cwd=app, environment=environment)


def _debian_packages(site: str, packages: Sequence[str], home: Path) -> None:
    """Have Debian packages installed. Raises SiteError that says what to run where that needs a right that is lacking."""
    missing = [name for name in packages if not _debian_version(name)]
    if missing:
        command = f"apt-get install --no-install-recommends {' '.join(missing)}"
        if shutil.which("apt-get") is None:
            raise SiteError(
                f"{site} is made of the Debian packages {', '.join(missing)} and this system has no apt-get; use Debian 12 for it"
            )
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        if prefix and (shutil.which("sudo") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode):
            raise SiteError(f"{site} needs Debian packages; run as root: {command}")
        apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=900", "-o", "Dpkg::Use-Pty=0", "-q"]
        _run([*apt, "update"], home=home)
        _run([*apt, "install", "-y", "--no-install-recommends", *missing], home=home)
    with (home / "install.log").open("a") as log:
        log.writelines(f"{name} {_debian_version(name)}\n" for name in packages)


def _debian_version(package: str) -> str:
    """The installed version, '' when it is not installed or this is no Debian system."""
    if shutil.which("dpkg-query") is None:
        return ""
    found = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", package], capture_output=True, text=True)
    return found.stdout[3:].strip() if found.stdout.startswith("ii") else ""


def _virtual_environment(home: Path, requirements: Path) -> Path:
    _run([sys.executable, "-m", "venv", home / "venv"], home=home)
    python = home / "venv" / "bin" / "python"
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements], home=home)
    return python


def _run(command: Sequence[str | Path], *, home: Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """One step of an installation, its output in the folder's install.log. Raises SiteError."""
    log = home / "install.log"
    with log.open("ab") as out:
        out.write(f"$ {' '.join(map(str, command))}\n".encode())
        out.flush()
        try:
            done = subprocess.run(
                list(map(str, command)), cwd=cwd or home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
            )  # fmt: skip
        except FileNotFoundError as error:
            raise SiteError(f"the program {command[0]} is not installed") from error
    if done.returncode:
        shown = " ".join([Path(str(command[0])).name, *map(str, command[1:4])])
        raise SiteError(f"{shown} failed (exit status {done.returncode}); see {log}: {last_line(log)}")


def _waitress(application: str) -> Callable[[Path, int], list[str]]:
    def command(home: Path, port: int) -> list[str]:
        return [str(home / "venv" / "bin" / "waitress-serve"), f"--listen=127.0.0.1:{port}", "--threads=4", application]

    return command


def _static_files(home: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(home / "app")]


def _puma(home: Path, port: int) -> list[str]:
    return ["puma", "-b", f"tcp://127.0.0.1:{port}", "-t", "1:4", "-w", "0", "config.ru"]


def _php_server(home: Path, port: int) -> list[str]:
    return [*_PHP, "-S", f"127.0.0.1:{port}", "-t", str(home / "app"), str(home / "app" / "router.php")]


_SHOP_SERVER = _waitress("shopsite.wsgi:application")
SITES: dict[str, Site] = {
    site.name: site
    for site in (
        Site("shop", "django-oscar storefront (shopping)", _install_shop, _SHOP_SERVER, "/en-gb/", environment=_SHOP_ENVIRONMENT),
        Site("dashboard", "back office of the shop (shopping admin)", _install_shop, _SHOP_SERVER, "/en-gb/dashboard/", shared_with="shop"),
        Site("forum", "Spirit forum (reddit)", _install_forum, _waitress("forum_wsgi:application"), "/", environment=_FORUM_ENVIRONMENT),
        Site("tracker", "Redmine issue tracker (gitlab)", _install_tracker, _puma, "/projects", environment=_TRACKER_ENVIRONMENT),
        Site("wiki", "MediaWiki encyclopedia (wikipedia)", _install_wiki, _php_server, "/wiki/Main_Page", environment=_WIKI_ENVIRONMENT),
        Site("miniwob", "MiniWoB++ task pages", _install_miniwob, _static_files, "/miniwob/click-test.html", stateful=False),
    )
}
"""Every site by name. The dashboard is served by the shop."""
