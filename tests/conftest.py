"""Fixtures for tests that need Chromium: one browser a module, a fresh page a test. Skipped, with the reason, where there is none."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_abstraction_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Descriptions that tests make go into a file of theirs, and none come from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGION4WEB_CACHE", str(tmp_path_factory.mktemp("cache") / "abstractions.sqlite"))
        yield


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A running headless Chromium under sync Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'browser')")
    from region4web.browser import launch
    from region4web.errors import BrowserError

    with sync_api.sync_playwright() as playwright:
        try:
            browser = launch(playwright)
        except BrowserError as error:
            pytest.skip(f"no browser: {error}")
        yield browser
        browser.close()


@pytest.fixture
def live_page(chromium: Any) -> Iterator[Any]:
    """A fresh page of 1280 x 720."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    yield context.new_page()
    context.close()


@pytest.fixture
def system_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes BrowserGym's playwright start the machine's Chromium: it launches browsers itself and lets no path be set for all of them."""
    from region4web.browser import find_browser

    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    asked = "from playwright.sync_api import sync_playwright as start; p = start().start(); print(p.chromium.executable_path); p.stop()"
    told = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )  # BrowserGym may hold a loop in this process
    expected = Path(told.stdout.strip())
    expected.parent.mkdir(parents=True)
    expected.write_text(f'#!/bin/sh\nexec "{find_browser()}" --no-sandbox --disable-gpu "$@"\n')
    expected.chmod(expected.stat().st_mode | stat.S_IXUSR)
    return expected
