"""Random mutations of a document in real Chromium: after each, the transition from the tree before rebuilds the tree after.

Enters: a number of mutations and a seed. Leaves: counts. Mutated are elements, attributes, text, order, whole subtrees,
frames, open and closed shadow roots, modal dialogs, alerts, and the address (pushState, hash). Each page takes 100
mutations, then a fresh one follows, so that pages neither die out nor grow without bound.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

__all__ = ["MUTATIONS_A_PAGE", "run_dom"]

MUTATIONS_A_PAGE = 100

PAGE = """<!doctype html><title>Orders</title><header><a href="/">Home</a><nav><button aria-expanded=false>Menu</button></nav></header>
<main><h1>Orders</h1><form><label>Name <input value=a></label><select><option>Day<option>Month</select><button>Apply</button></form>
<table><tr><td>1</td><td><input type=checkbox aria-label="row 1"></td></tr><tr><td>2</td><td><button>Delete</button></td></tr></table>
<ul><li><a href=/a>a</a><li><a href=/b>b</a><li><a href=/c>c</a></ul><div role=status>Ready</div></main><footer><p>Text</p></footer>"""

MUTATE = """
(seed) => {
  let state = seed >>> 0;
  const random = () => { state = (state + 0x6D2B79F5) >>> 0; let t = state; t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61); return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
  const pick = (list) => list[Math.floor(random() * list.length)];
  const open = [];
  const gather = (root) => { for (const e of root.querySelectorAll('*')) { open.push(e); if (e.shadowRoot) gather(e.shadowRoot); } };
  gather(document.body);
  for (const f of document.querySelectorAll('iframe')) { try { if (f.contentDocument && f.contentDocument.body) gather(f.contentDocument.body); } catch (e) {} }
  const any = () => pick(open.length ? open : [document.body]);
  const words = ['Save', 'Open', 'Delete', 'Item ' + seed, "it's", '[7] button', '', '\\u202e', 'a\\nb'];
  const fresh = () => { const host = document.createElement('div'); host.innerHTML = pick([
    '<button>' + pick(words) + '</button>', '<p>' + pick(words) + ' <a href="/p' + seed + '">link</a></p>', '<input type=date value=2026-01-02>',
    '<input type=password value=secret>', '<div role="alert">Saved ' + seed + '</div>', '<ul role="menu"><li role="menuitem">Edit</li></ul>',
    '<label><input type="checkbox"> ' + pick(words) + '</label>', '<section><h2>x</h2><div><p>one</p><p>two</p></div></section>', '<svg><circle r=4></svg>',
    '<div><span onclick="1" style="cursor:pointer">card</span></div>', '<details><summary>More</summary>text</details>', '<div style="opacity:0">unseen</div>']);
    return host.firstElementChild; };
  const kinds = {
    insert() { const at = any(); pick([() => at.before(fresh()), () => at.after(fresh()), () => at.append(fresh()), () => at.prepend(fresh())])(); },
    remove() { if (open.length > 20) any().remove(); },
    move() { const a = any(), b = any(); if (!a.contains(b)) b.append(a); },
    reverse() { const at = any(); [...at.children].reverse().forEach((c) => at.append(c)); },
    rerender() { const at = any(); at.innerHTML = at.innerHTML; },
    recreate() { const at = any(); at.replaceWith(at.cloneNode(true)); },
    clone() { const at = any(); at.before(at.cloneNode(true)); },
    wrap() { const at = any(), host = document.createElement('div'); at.before(host); host.append(at); },
    unwrap() { const at = any(); at.replaceWith(...at.childNodes); },
    text() { any().append(pick(words)); },
    attribute() { const at = any(), name = pick(['aria-expanded', 'aria-checked', 'aria-pressed', 'disabled', 'hidden', 'inert', 'aria-hidden', 'aria-label', 'tabindex', 'contenteditable']);
      if (at.hasAttribute(name)) at.removeAttribute(name); else at.setAttribute(name, pick(['true', 'false', '0', pick(words)])); },
    role() { any().setAttribute('role', pick(['button', 'listitem', 'group', 'generic', 'alert', 'dialog', 'none', 'row', 'x'])); },
    value() { const at = pick([...document.querySelectorAll('input,select'), document.body]); if (at.type === 'checkbox') at.checked = !at.checked; else if (at.type !== 'date') at.value = pick(words); },
    frame() { const f = document.createElement('iframe'); f.srcdoc = '<button>in ' + seed + '</button><p>frame</p>'; if (document.querySelectorAll('iframe').length < 4) any().after(f); },
    unframe() { const f = pick([...document.querySelectorAll('iframe')]); if (f) f.remove(); },
    shadow() { const host = document.createElement('div'); host.innerHTML = '<span>slotted</span>'; host.attachShadow({mode: pick(['open', 'closed'])}).innerHTML = '<button>shadow ' + seed + '</button><slot></slot>'; any().after(host); },
    dialog() { const d = document.querySelector('dialog'); if (d) { d.remove(); return; } const n = document.createElement('dialog'); n.innerHTML = '<p>Sure?</p><button>Yes</button>'; document.body.append(n); pick([() => n.showModal(), () => n.show()])(); },
    push() { history.pushState({}, '', pick(['#v' + seed, '?v=' + seed, '/p' + (seed % 3)])); },
    view() { if (random() < 0.1) { history.pushState({}, '', '/view' + seed); document.body.innerHTML = '<main><h1>View ' + seed + '</h1><ul><li><a href=/a>a</a><li>b</ul><form><input><button>Go</button></form></main>'; } },
    title() { document.title = pick(words); },
    focus() { const at = pick([...document.querySelectorAll('button,input,a')]); if (at) at.focus(); },
    scroll() { window.scrollTo(0, random() * 500); },
  };
  const kind = pick(Object.keys(kinds));
  try { kinds[kind](); } catch (error) { if (!(error instanceof DOMException)) throw error; }
  return kind;
}
"""


def run_dom(*, mutations: int, seed: int) -> dict[str, Any]:
    """Mutate and check. Raises AssertionError with the seed of the mutation that broke a law."""
    return asyncio.run(_run_dom(mutations, seed))


async def _run_dom(mutations: int, seed: int) -> dict[str, Any]:
    from playwright.async_api import async_playwright
    from tqdm import tqdm

    from pagedigest.transition import diff
    from region4web.axtree import AXTree
    from region4web.browser import launch_async
    from region4web.capture import capture_live_async
    from tests import laws

    kinds: Counter[str] = Counter()
    changed = 0
    start = time.monotonic()
    bar = tqdm(total=mutations, unit="mutation", disable=None)
    async with async_playwright() as playwright:
        browser = await launch_async(playwright)
        try:
            context = await browser.new_context()
            await context.route("**/*", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
            for first in range(0, mutations, MUTATIONS_A_PAGE):
                page = await context.new_page()
                await page.goto("http://orders.example/")
                entry = before = AXTree.from_snapshot(await capture_live_async(page))
                for number in range(first, min(first + MUTATIONS_A_PAGE, mutations)):
                    mutation = seed * 1_000_003 + number
                    kind = await page.evaluate(MUTATE, mutation)
                    try:
                        after = AXTree.from_snapshot(await capture_live_async(page, timeout_s=60))
                        laws.check_transition(before, after)
                        laws.check_transition(entry, after)
                        laws.check_tree(after)
                    except Exception as error:
                        raise AssertionError(
                            f"mutation {mutation} ({kind}), number {number - first} of its page, broke a law: {error}"
                        ) from error
                    kinds[kind] += 1
                    changed += not diff(before, after).is_empty
                    before = after
                    bar.update()
                await page.close()
        finally:
            await browser.close()
    bar.close()
    return {"campaign": "dom", "mutations": sum(kinds.values()), "changed": changed, "kinds": dict(sorted(kinds.items())), "seed": seed,
            "seconds": round(time.monotonic() - start, 1), "violations": 0}  # fmt: skip
