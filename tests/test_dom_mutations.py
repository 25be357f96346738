"""Transitions on a page that real Chromium mutates: the reported changes, applied to the entry tree, give the current tree."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise

import pytest

from pagedigest.transition import diff
from region4web.axtree import AXTree
from region4web.browser import find_browser
from tests import laws

pytest.importorskip("playwright")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(find_browser() is None, reason="no Chromium found")]

MUTATIONS = 1_050
MUTATIONS_A_PAGE = 150

PAGE = """
<header><a href="/">Home</a><nav><button aria-expanded="false" aria-haspopup="menu">Menu</button></nav></header>
<main><h1>Orders</h1>
<form><label>Name <input name="n" value="a"></label><select><option>Day</option><option>Month</option></select><button>Apply</button></form>
<table><tbody>{rows}</tbody></table>
<ul id="list">{items}</ul>
<div role="status" id="out">Ready</div></main>
<footer><p>Text of the footer</p><a href="/about">About</a></footer>
"""

MUTATE = """
(seed) => {
  let state = seed >>> 0;
  const random = () => { state = (state + 0x6D2B79F5) >>> 0; let t = state; t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61); return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
  const pick = (list) => list[Math.floor(random() * list.length)];
  const every = () => [...document.body.querySelectorAll('*')];
  const words = ['Save', 'Open', 'Delete', 'Item ' + seed, 'Order', 'x', ''];
  const fresh = () => { const host = document.createElement('div'); host.innerHTML = pick([
    '<button>' + pick(words) + '</button>', '<p>' + pick(words) + ' <a href="/p' + seed + '">link</a></p>',
    '<div role="dialog" aria-label="Confirm"><p>Sure?</p><button>Yes</button><button>No</button></div>',
    '<div role="alert">Saved ' + seed + '</div>', '<ul role="menu"><li role="menuitem">Edit</li><li role="menuitem">Remove</li></ul>',
    '<label><input type="checkbox"> ' + pick(words) + '</label>', '<section><h2>' + pick(words) + '</h2><div><p>one</p><p>two</p></div></section>',
    '<div><div><span onclick="1" style="cursor:pointer">card</span></div></div>']); return host.firstElementChild; };
  const kinds = {
    insert() { const at = pick(every()); pick([() => at.before(fresh()), () => at.after(fresh()), () => at.append(fresh()), () => at.prepend(fresh())])(); },
    remove() { const all = every(); if (all.length > 25) pick(all).remove(); },
    move() { const a = pick(every()), b = pick(every()); if (!a.contains(b)) b.append(a); },
    swap() { const a = pick(every()); if (a.nextElementSibling) a.nextElementSibling.after(a); },
    sort() { const list = pick([...document.querySelectorAll('ul,tbody,form')].concat([document.body])); [...list.children].reverse().forEach((c) => list.append(c)); },
    rerender() { const at = pick(every()); at.innerHTML = at.innerHTML; },
    recreate() { const at = pick(every()); at.replaceWith(at.cloneNode(true)); },
    wrap() { const at = pick(every()); const host = document.createElement('div'); at.before(host); host.append(at); },
    unwrap() { const at = pick(every()); at.replaceWith(...at.childNodes); },
    text() { const at = pick(every()); at.prepend(pick(words) + ' '); },
    rename() { pick(every()).setAttribute('aria-label', pick(words)); },
    state() { const at = pick(every()); const name = pick(['aria-expanded', 'aria-checked', 'aria-pressed', 'aria-selected', 'aria-disabled', 'disabled', 'hidden', 'inert', 'aria-hidden']);
      if (at.hasAttribute(name)) at.removeAttribute(name); else at.setAttribute(name, pick(['true', 'false'])); },
    role() { pick(every()).setAttribute('role', pick(['button', 'listitem', 'group', 'generic', 'alert', 'dialog', 'none'])); },
    value() { const at = pick([...document.querySelectorAll('input,select')]); if (at) { if (at.type === 'checkbox') at.checked = !at.checked; else at.value = pick(['Day', 'Month', 'b', '']); } },
    focus() { const at = pick([...document.querySelectorAll('button,input,a')]); if (at) at.focus(); },
  };
  const kind = pick(Object.keys(kinds));
  kinds[kind]();
  return kind;
}
"""


@dataclass(frozen=True)
class Step:
    kind: str
    tree: AXTree


def run_page(browser_steps: int, seed: int) -> list[Step]:
    """The trees of one page, first as loaded, then after each mutation."""
    from playwright.async_api import async_playwright

    from region4web.browser import launch_async
    from region4web.capture import capture_live_async

    async def run() -> list[Step]:
        async with async_playwright() as playwright:
            browser = await launch_async(playwright)
            try:
                page = await browser.new_page()
                rows = "".join(
                    f"<tr><td>{n}</td><td><input type=checkbox aria-label='row {n}'></td><td><button>Delete</button></td></tr>"
                    for n in range(8)
                )
                await page.set_content(PAGE.format(rows=rows, items="".join(f"<li><a href='/i{n}'>item {n}</a></li>" for n in range(10))))
                steps = [Step("load", AXTree.from_snapshot(await capture_live_async(page)))]
                for k in range(browser_steps):
                    kind = await page.evaluate(MUTATE, seed * 100_003 + k)
                    steps.append(Step(kind, AXTree.from_snapshot(await capture_live_async(page))))
                return steps
            finally:
                await browser.close()

    return asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(MUTATIONS // MUTATIONS_A_PAGE))
def test_reported_changes_rebuild_the_tree_after_every_mutation(seed: int) -> None:
    steps = run_page(MUTATIONS_A_PAGE, seed)
    assert len({step.kind for step in steps}) > 12
    changed = 0
    for before, after in pairwise(steps):
        transition = diff(before.tree, after.tree)
        assert transition.apply(before.tree) == after.tree, after.kind
        laws.check_told(transition, after.tree)
        since_load = diff(steps[0].tree, after.tree)
        assert since_load.apply(steps[0].tree) == after.tree, after.kind
        changed += not transition.is_empty
    assert changed > MUTATIONS_A_PAGE / 3
