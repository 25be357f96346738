"""Random mutations of a document in real Chromium; after each, every law of transitions, trees and digests is checked.

Enters: a number of mutations and a seed. Leaves: counts. Mutated (fuzz_dom.js) are elements, attributes, styles, text,
order, whole subtrees, relations, frames of this and of another site, shadow roots, modal dialogs, overlays, alerts, and
the address. Pages are small and short-lived: each takes `MUTATIONS_A_PAGE` mutations and depends on its number alone, so
a run can be resumed from its log, and a page that the browser could not read in time is tried again, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["MUTATIONS_A_PAGE", "run_dom"]

MUTATIONS_A_PAGE = 25
PAGES_AT_ONCE = 4
"""In one browser: while one page is laid out, another's trees are compared."""
ATTEMPTS = 3
CAPTURE_TIMEOUT_S = 60.0
MUTATE = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")

PAGES = (
    """<!doctype html><title>Orders</title><header><a href="/">Home</a><nav><button aria-expanded=false>Menu</button></nav></header>
<main><h1>Orders</h1><form><label>Name <input value=a></label><select><option>Day<option>Month</select><button>Apply</button></form>
<table><tr><td>1</td><td><input type=checkbox aria-label="row 1"></td></tr><tr><td>2</td><td><button>Delete</button></td></tr></table>
<ul><li><a href=/a>a</a><li><a href=/b>b</a><li><a href=/c>c</a></ul><div role=status>Ready</div></main><footer><p>Text</p></footer>""",
    """<!doctype html><title>Sign in</title><main><form><h1>Sign in</h1><label>User <input name=u></label><label>Password <input type=password value=hunter2></label>
<fieldset><legend>Stay</legend><label><input type=radio name=s> yes</label><label><input type=radio name=s checked> no</label></fieldset>
<button disabled>Go</button></form><p>No account? <a href=/join>Join</a></p><div aria-live=polite></div></main>""",
    """<!doctype html><title>Article</title><article><h1>Title</h1><p>First <b>bold</b> and <a href=/x>link</a>.</p><h2>Part</h2><p>Second</p><img alt=Photo src=/p.png>
<details><summary>More</summary><p>Inside</p></details><blockquote>Said</blockquote></article><aside><ul><li>1<li>2<li>3</ul></aside>""",
    """<!doctype html><title>App</title><div id=root><div role=toolbar><button><svg><title>Bold</title></svg></button><div role=button tabindex=0>B</div></div>
<div role=grid><div role=row><div role=gridcell>a</div><div role=gridcell tabindex=0>b</div></div></div><iframe srcdoc="<button>In frame</button>"></iframe></div>""",
)


@dataclass
class PageCounts:
    """What one page took, and how often it was tried anew."""

    page: int
    changed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    unread: bool = False

    def entry(self, seed: int) -> dict[str, Any]:
        """The page's line of the log."""
        return {"seed": seed, **asdict(self), "kinds": dict(self.kinds)}


def run_dom(*, mutations: int, seed: int, log: Path | None = None) -> dict[str, Any]:
    """Mutate and check. Raises AssertionError with the page and the mutation that broke a law.

    `log`: one line a finished page is added there, and pages that it holds are not run again.
    """
    return asyncio.run(_run_dom(mutations, seed, log))


async def _run_dom(mutations: int, seed: int, log: Path | None) -> dict[str, Any]:
    from tqdm import tqdm

    start = time.monotonic()
    done = {} if log is None else _finished(log, seed)
    bar = tqdm(total=mutations, unit="mutation", disable=None, initial=sum(sum(entry["kinds"].values()) for entry in done.values()))
    resumed = len(done)
    fuzzer = _Fuzzer(seed)
    waiting = [page for page in range(-(-mutations // MUTATIONS_A_PAGE)) if page not in done]
    waiting.reverse()

    async def work() -> None:
        while waiting:
            page = waiting.pop()
            counts = await fuzzer.page(page, min(MUTATIONS_A_PAGE, mutations - page * MUTATIONS_A_PAGE))
            done[page] = counts.entry(seed)
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[page]) + "\n")
            bar.update(sum(counts.kinds.values()))

    workers = [asyncio.ensure_future(work()) for _ in range(PAGES_AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await fuzzer.close()
        bar.close()
    kinds: Counter[str] = Counter()
    for entry in done.values():
        kinds.update(entry["kinds"])
    return {
        "campaign": "dom",
        "mutations": sum(kinds.values()),
        "changed": sum(entry["changed"] for entry in done.values()),
        "pages": len(done),
        "pages_from_log": resumed,
        "pages_retried": sum(entry["retries"] > 0 for entry in done.values()),
        "pages_unread": sum(entry["unread"] for entry in done.values()),
        "kinds": dict(sorted(kinds.items())),
        "seed": seed,
        "seconds": round(time.monotonic() - start, 1),
        "violations": 0,
    }


def _finished(log: Path, seed: int) -> dict[int, dict[str, Any]]:
    """Entries of the log by page; a last line that was cut off is no entry."""
    log.parent.mkdir(parents=True, exist_ok=True)
    entries = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry["seed"] == seed:
            entries[int(entry["page"])] = entry
    return entries


@dataclass
class _Tab:
    """A tab that takes one page after the other: a fresh one costs more than a page."""

    context: Any
    page: Any
    html: str = ""

    async def answer(self, route: Any) -> None:
        body = "<p>of another site <button>Pay</button>" if "other.example" in route.request.url else self.html
        await route.fulfill(body=body, content_type="text/html")


class _Fuzzer:
    """A browser that is started anew when it died or hung."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._playwright: Any = None
        self._browser: Any = None
        self._turn = asyncio.Lock()
        self._free: list[_Tab] = []

    async def page(self, number: int, mutations: int) -> PageCounts:
        """Run one page; the same page again where the browser failed, `ATTEMPTS` times at most."""
        from playwright.async_api import Error

        from region4web.cdp import within
        from region4web.errors import BrowserError, CaptureTimeout

        for attempt in range(ATTEMPTS):
            counts = PageCounts(number, retries=attempt)
            tab = await self._tab()
            try:
                await self._run(tab, counts, mutations)
            except (CaptureTimeout, BrowserError, Error):
                with contextlib.suppress(Error, TimeoutError):
                    await within(tab.context.close(), 10.0)
                continue
            self._free.append(tab)
            return counts
        return PageCounts(number, retries=ATTEMPTS, unread=True)

    async def close(self) -> None:
        """End the browser."""
        from playwright.async_api import Error

        from region4web.cdp import within

        if self._browser is not None:
            with contextlib.suppress(Error, TimeoutError):  # it is dead or hangs; Playwright's own end stops it
                await within(self._browser.close(), 10.0)
            await self._playwright.stop()
        self._browser = self._playwright = None
        self._free.clear()

    async def _tab(self) -> _Tab:
        """A tab of a browser that answers, both made when there is none."""
        from playwright.async_api import async_playwright

        from region4web.browser import launch_async

        async with self._turn:
            if self._browser is None or not self._browser.is_connected():
                await self.close()
                self._playwright = await async_playwright().start()
                self._browser = await launch_async(self._playwright)
            if self._free:
                return self._free.pop()
            context = await self._browser.new_context()
            tab = _Tab(context, await context.new_page())
            await context.route("**/*", tab.answer)
            return tab

    async def _run(self, tab: _Tab, counts: PageCounts, mutations: int) -> None:
        from pagedigest.transition import diff
        from region4web.axtree import AXTree
        from region4web.capture import capture_live_async
        from tests import laws

        number, page = counts.page, tab.page
        tab.html = PAGES[number % len(PAGES)]
        await page.goto("http://orders.example/")
        choice = random.Random(f"{self.seed}/{number}")
        checker = laws.SessionChecker(budget_tokens=choice.choice((None, 130, 300, 800)), layout=choice.choice(("in_place", "append")))
        entry = before = AXTree.from_snapshot(await capture_live_async(page, timeout_s=CAPTURE_TIMEOUT_S))
        checker.observe(entry)
        for at in range(mutations):
            mutation = self.seed * 1_000_003 + number * MUTATIONS_A_PAGE + at
            kind = await page.evaluate(MUTATE, mutation)
            if kind == "browser:reload":
                await page.reload()
            after = AXTree.from_snapshot(await capture_live_async(page, timeout_s=CAPTURE_TIMEOUT_S))
            try:
                laws.check_transition(before, after)
                laws.check_transition(entry, after)
                step = diff(before, after)
                laws.check_told(step, after)
                laws.check_rendering(after)
                checker.observe(
                    after, choice.choice(("click('3')", "click('3')", "click('3')", "view_all()", "view_region('R1')", "find('Save')"))
                )
            except Exception as error:
                raise AssertionError(
                    f"seed {self.seed}, page {number}, mutation {at} ({kind}) broke a law: {type(error).__name__}: {error}"
                ) from error
            counts.kinds[kind] += 1
            counts.changed += not step.is_empty
            before = after
