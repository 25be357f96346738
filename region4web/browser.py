"""Which Chromium to drive, and how it is started.

Enters: what the user names, the environment, the places where browsers are installed. Leaves: a path, or a launched
Playwright browser. Playwright is imported when it is needed, never at import.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from region4web.errors import BrowserError, MissingExtraError

__all__ = ["BROWSER_VARIABLE", "LAUNCH_FLAGS", "find_browser", "launch", "launch_async", "require_playwright"]

BROWSER_VARIABLE = "REGION4WEB_BROWSER"
"""Environment variable that names the browser to use."""

LAUNCH_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_COMMANDS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge-stable", "microsoft-edge")
_PLACES = {
    "linux": ("/usr/bin/chromium", "/usr/lib/chromium/chromium", "/opt/google/chrome/chrome", "/snap/bin/chromium"),
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    ),
    "win32": (
        r"C:\Program Files\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    ),
}


def find_browser(browser: str | os.PathLike[str] | None = None) -> Path | None:
    """The browser to start: `browser`, else `$REGION4WEB_BROWSER`, else an installed Chrome or Chromium.

    None means that none was found there and Playwright's own download is to be tried. Raises BrowserError when the
    browser that was named does not exist.
    """
    for name, origin in ((browser, "browser"), (os.environ.get(BROWSER_VARIABLE), BROWSER_VARIABLE)):
        if name:
            found = shutil.which(os.fspath(name))
            if found is None:
                raise BrowserError(f"{origin} names {os.fspath(name)!r}, which is no program; give the path of Chrome or Chromium")
            return Path(found)
    for command in _COMMANDS:
        if found := shutil.which(command):
            return Path(found)
    for place in _PLACES.get(sys.platform, ()):
        if os.access(place, os.X_OK):
            return Path(place)
    return None


def launch(playwright: Any, *, headless: bool = True, browser: str | os.PathLike[str] | None = None) -> Any:
    """Start Chromium with sync Playwright. Raises BrowserError."""
    options = _launch_options(headless, browser)
    try:
        return playwright.chromium.launch(**options)
    except require_playwright().Error as error:
        raise _not_started(error, options) from error


async def launch_async(playwright: Any, *, headless: bool = True, browser: str | os.PathLike[str] | None = None) -> Any:
    """Start Chromium with async Playwright. Raises BrowserError."""
    options = _launch_options(headless, browser)
    try:
        return await playwright.chromium.launch(**options)
    except require_playwright().Error as error:
        raise _not_started(error, options) from error


def require_playwright() -> Any:
    """Playwright's async module. Raises MissingExtraError."""
    try:
        import playwright.async_api
    except ImportError as error:
        raise MissingExtraError("a live page needs Playwright; install it with: pip install 'region4web[browser]'") from error
    return playwright.async_api


def _launch_options(headless: bool, browser: str | os.PathLike[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {"headless": headless, "args": list(LAUNCH_FLAGS)}
    if path := find_browser(browser):
        options["executable_path"] = str(path)
    return options


def _not_started(error: Exception, options: dict[str, Any]) -> BrowserError:
    path = options.get("executable_path")
    if path is None:
        return BrowserError(
            "no Chrome or Chromium found; install one, run 'playwright install chromium', or name it in " + BROWSER_VARIABLE
        )
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return BrowserError(f"{path} did not start: {reason}")
