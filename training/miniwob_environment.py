"""MiniWoB tasks in a real browser, for LCoW's roll-outs. Needs the site: `python scripts/sites.py install miniwob`.

Enters: a task's name (`click-button`) and the actor's calls. Leaves: trees, and the reward that the page itself gives.
"""

from __future__ import annotations

from typing import Any

from pagedigest.evaluation import sites
from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.environment import TreeReader, do_call
from pagedigest.integrations.playwright import PlaywrightDigest
from region4web.axtree import AXTree

__all__ = ["MiniWoBEnvironment"]


class MiniWoBEnvironment:
    """One browser for all roll-outs; `seed` fixes what each task asks. Use as a context manager."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self._playwright: Any = None
        self._browser: Any = None
        self._live: Any = None
        self._reader = TreeReader()

    def __enter__(self) -> MiniWoBEnvironment:
        from playwright.sync_api import sync_playwright

        from region4web.browser import launch

        self._site = sites.start("miniwob")
        self._playwright = sync_playwright().start()
        self._browser = launch(self._playwright)
        return self

    def __exit__(self, *exception: object) -> None:
        self._browser.close()
        self._playwright.stop()

    def reset(self, task_id: str) -> tuple[str, AXTree]:
        """Open a task and start its episode. Raises ValueError for a task that the site does not have."""
        page = self._browser.new_page()
        if self._live is not None:
            self._live.page.close()
        reply = page.goto(f"{self._site.url}/miniwob/{task_id}.html")
        if reply is None or reply.status >= 400:
            raise ValueError(f"MiniWoB has no task {task_id!r}")
        page.evaluate("seed => { core.EPISODE_MAX_TIME = 1000000; Math.seedrandom(seed); core.startEpisodeReal(); }", self.seed)
        said = page.evaluate("core.getUtterance()")
        self._reader = TreeReader()
        self._live = PlaywrightDigest(page, str(said), method=self._reader)  # type: ignore[arg-type]
        self._live.observe()
        assert self._reader.tree is not None
        return (said["utterance"] if isinstance(said, dict) else str(said)), self._reader.tree

    def step(self, call: Call) -> tuple[AXTree, float, bool]:
        """Act; the page's raw reward (1.0 for success, 0 before the end) and whether the episode is over."""
        do_call(self._live, call)
        done = bool(self._live.page.evaluate("WOB_DONE_GLOBAL"))
        reward = float(self._live.page.evaluate("WOB_RAW_REWARD_GLOBAL")) if done else 0.0
        assert self._reader.tree is not None
        return self._reader.tree, reward, done
