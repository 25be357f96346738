"""Size, identity and changes on live pages: what users of such tools suffer from, one test a case, in real Chromium.

Cases of size (B1), of identity across steps (B2) and of diff quality (B3); each name says what is right.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from pagedigest.observation import Action, Observation
from pagedigest.selection import HybridSelector, Nothing, Selector
from pagedigest.session import DigestSession, PageDigest
from region4web.abstraction import RoleNameAbstractor
from region4web.axtree import AXTree
from region4web.capture import capture_live
from region4web.segmenters import Landmarks

pytestmark = pytest.mark.browser


class LivePage:
    """A page and an episode on it: change the page, read what the agent reads."""

    def __init__(self, page: Any, html: str, *, task: str = "find the button", budget: int | None = None, selector: Selector | None = None,
                 layout: str = "in_place") -> None:  # fmt: skip
        self.page = page
        self.session: DigestSession = PageDigest(
            Landmarks(),
            RoleNameAbstractor(),
            selector or HybridSelector(),
            budget_tokens=budget,
            layout=layout,  # type: ignore[arg-type]
        ).start(task)
        page.set_content(html)
        self.tree = AXTree.from_snapshot(capture_live(page))
        self.first = self.session.observe(self.tree)

    def after(self, script: str, *, action: Action | None = None) -> Observation:
        self.page.evaluate(f"() => {{ {script} }}")
        return self.seen(action=action)

    def seen(self, *, action: Action | None = None) -> Observation:
        self.tree = AXTree.from_snapshot(capture_live(self.page))
        return self.session.observe(self.tree, last_action=action)

    def id_of(self, role: str, name: str) -> str:
        return next(node.id for node in self.tree.nodes if node.role == role and node.name == name)


def told(observation: Observation) -> str:
    """The lines below CHANGES."""
    return observation.text.partition("CHANGES")[2]


# B1. Size


def test_many_links_twice_navigated_stay_within_the_budget_which_is_printed(live_page: Any) -> None:
    sections = "".join(
        f"<section aria-label='part {s}'>" + "".join(f"<a href='/{s}/{k}'>link {s} {k}</a> " for k in range(60)) + "</section>"
        for s in range(12)
    )
    live = LivePage(live_page, sections, budget=800)
    total = live.first.usage.tokens
    for _ in range(2):
        live_page.set_content(sections.replace("link", "other link"))
        observation = live.seen()
        assert re.search(r"\| \d+ of \d+ tokens$", observation.text.split("\n")[0])
        total += observation.usage.tokens
        assert observation.usage.tokens <= 800
    assert total <= 3 * 800


def test_a_long_article_is_read_by_pages(live_page: Any) -> None:
    article = (
        "<main>"
        + "".join((f"<h2>Chapter {k // 22}</h2>" if k % 22 == 0 else "") + f"<p>Paragraph {k} of the manual.</p>" for k in range(900))
        + "</main>"
    )
    live = LivePage(live_page, article, budget=1500)
    region = next(
        number
        for number in range(9)
        if f"R{number} | " in live.session.view_region(f"R{number}").text
        and "Paragraph 1 of" in live.session.view_region(f"R{number}").text
    )
    first = live.session.view_region(f"R{region}")
    count = int(re.search(r"page 1 of (\d+)", first.text)[1])  # type: ignore[index]
    assert count >= 6
    seen = ""
    for number in range(1, count + 1):
        view = live.session.view_region(f"R{region}", page=number)
        assert f"page {number} of {count}" in view.text
        assert view.usage.tokens <= 1500
        seen += view.text
    assert all(f"Paragraph {k} of the manual." in seen for k in range(900))


def test_toggling_one_checkbox_on_a_large_page_tells_that_one_change(live_page: Any) -> None:
    rows = "".join(f"<li><input type=checkbox aria-label='order {k}'> <a href='/o/{k}'>open {k}</a></li>" for k in range(700))
    live = LivePage(live_page, f"<main><ul>{rows}</ul></main>", budget=1000, selector=Nothing())
    observation = live.after("document.querySelectorAll('input')[600].click()")
    key = live.id_of("checkbox", "order 600")
    changes = [line for line in told(observation).split("\n")[1:] if "focus is on" not in line]
    assert len(changes) == 1
    assert changes[0].endswith(f"[{key}] checkbox 'order 600' checked: false -> true")


# B2. Identity across steps


def test_an_insertion_leaves_all_other_ids_and_is_one_added_line(live_page: Any) -> None:
    live = LivePage(live_page, "<ul>" + "".join(f"<li><button>b{k}</button></li>" for k in range(5)) + "</ul>")
    before = {node.name: node.id for node in live.tree.nodes if node.role == "button"}
    observation = live.after("document.querySelector('ul').insertAdjacentHTML('afterbegin', '<li><button>NEW</button></li>')")
    assert {name: live.id_of("button", name) for name in before} == before
    added = [line for line in told(observation).split("\n") if "button" in line]
    assert [line.strip() for line in added] == [f"[{live.id_of('button', 'NEW')}] button 'NEW'"]


def test_two_observations_without_an_action_list_the_same_ids_and_regions(live_page: Any) -> None:
    live = LivePage(live_page, "<nav><a href=/>Home</a></nav><main><button>Go</button><input aria-label=Name></main>")
    again = live.seen()
    assert again.shown == live.first.shown
    assert [line for line in again.text.split("\n") if re.match(r"R\d", line)] == [
        line for line in live.first.text.split("\n") if re.match(r"R\d", line)
    ]
    assert "no change since step 1" in again.text


def test_a_reload_keeps_the_regions_and_says_that_the_content_is_equal(live_page: Any, tmp_path: Any) -> None:
    file = tmp_path / "page.html"
    file.write_text("<title>T</title><nav><a href=/>Home</a></nav><main><button>Go</button><input aria-label=Name></main>")
    live = LivePage(live_page, "<p>before</p>")
    live_page.goto(file.as_uri())
    opened = live.seen()
    live_page.reload()
    again = live.seen()
    assert again.trace["page"] == opened.trace["page"]
    assert "reloaded, content equal" in again.text
    assert [line for line in again.text.split("\n") if re.match(r"R\d", line)] == [
        line for line in opened.text.split("\n") if re.match(r"R\d", line)
    ]
    assert live.id_of("button", "Go") in again.shown


def test_a_list_that_is_rendered_anew_is_replaced_not_removed_and_added(live_page: Any) -> None:
    live = LivePage(live_page, "<ul><li><button>Save</button></li><li><button>Open</button></li></ul>", selector=Nothing())
    old = live.id_of("button", "Save")
    observation = live.after("const ul = document.querySelector('ul'); ul.innerHTML = ul.innerHTML;")
    new = live.id_of("button", "Save")
    assert new != old
    assert f"replaced: {old} -> [{new}] button 'Save'" in told(observation)
    assert "removed" not in told(observation)
    assert "new under" not in told(observation)
    assert new in observation.shown


def test_like_elements_of_two_frames_have_two_ids(live_page: Any) -> None:
    live = LivePage(live_page, "<iframe srcdoc='<button>Buy</button>'></iframe><iframe srcdoc='<button>Buy</button>'></iframe>")
    live_page.wait_for_timeout(200)
    live.seen()
    ids = [node.id for node in live.tree.nodes if node.role == "button"]
    assert len(ids) == len(set(ids)) == 2
    observation = live.after("document.querySelectorAll('iframe')[0].contentDocument.querySelector('button').disabled = true")
    assert f"{ids[0]} button 'Buy' disabled: false -> true" in told(observation).replace("[", "").replace("]", "")
    assert ids[1] not in told(observation).replace("[", " ").replace("]", " ").split()


# B3. Diff quality


def test_a_filtered_list_tells_what_went_with_ids(live_page: Any) -> None:
    live = LivePage(live_page, "<main><ul>" + "".join(f"<li><a href='/{k}'>item {k}</a></li>" for k in range(36)) + "</ul></main>")
    gone = [live.id_of("link", f"item {k}") for k in range(10, 20)]
    observation = live.after("[...document.querySelectorAll('li')].slice(10, 20).forEach((li) => li.remove())")
    rows = re.search(r"removed: (.*)", told(observation))
    assert rows is not None
    assert rows[1].count("listitem") + len(re.findall(r"\d+(?=[,)])", rows[1].partition(" more (")[2])) == 10
    assert not set(gone) & set(observation.shown)


def test_a_state_that_is_taken_away_is_told(live_page: Any) -> None:
    live = LivePage(live_page, "<main><button aria-expanded=true>Menu</button><button disabled>Apply</button></main>")
    observation = live.after("const [a, b] = document.querySelectorAll('button'); a.removeAttribute('aria-expanded'); b.disabled = false;")
    assert "button 'Menu' expanded: true -> absent" in told(observation)
    assert "button 'Apply' disabled: true -> false" in told(observation)


def test_a_text_set_by_a_script_is_told(live_page: Any) -> None:
    live = LivePage(live_page, "<main><button onclick=\"out.textContent='12 results'\">Search</button><p id=out>nothing yet</p></main>")
    observation = live.after("document.querySelector('button').click()", action=Action("click('5')"))
    assert "'nothing yet' -> '12 results'" in told(observation)


def test_push_state_with_another_body_is_a_new_view_and_read_in_full(live_page: Any, tmp_path: Any) -> None:
    file = tmp_path / "app.html"
    file.write_text("<main>" + "".join(f"<p>old {k}</p><button>b{k}</button>" for k in range(12)) + "</main>")
    live = LivePage(live_page, "<p>before</p>")
    live_page.goto(file.as_uri())
    live.seen()
    new = "".join(f"<p>new {k}</p><a href=/{k}>l{k}</a>" for k in range(12))
    observation = live.after(f"history.pushState({{}}, '', '#v2'); document.body.innerHTML = '<main>{new}</main>'")
    assert observation.trace["event"] == "new view"
    assert "new view, same URL" in observation.text
    assert "CHANGES" not in observation.text
    assert "l11" in observation.text


def test_a_message_shown_for_a_moment_comes_first_and_is_remembered_one_step(live_page: Any) -> None:
    live = LivePage(live_page, "<main><button>Save</button><div id=host></div><p id=n>0</p></main>")
    shown = live.after("n.textContent = '1'; host.innerHTML = '<div role=alert>Saved</div>'")
    assert re.match(r"[^\n]*\n\tnew under R\d+ \(message\)\n(\t+[^\n]*\n)?\t+[^\n]*'Saved'", told(shown))
    gone = live.after("host.innerHTML = ''")
    assert re.match(r"[^\n]*\n\talert 'Saved' was shown at step 2", told(gone))
    assert "was shown" not in live.seen().text


def test_a_popup_far_away_in_the_document_is_tied_to_its_control(live_page: Any) -> None:
    html = "<main><button id=c role=combobox aria-label=City aria-controls=lb aria-expanded=false>City</button><p>a</p><p>b</p></main><div id=portal></div>"
    live = LivePage(live_page, html)
    observation = live.after(
        "portal.innerHTML = '<ul role=listbox id=lb><li role=option>Bern</li><li role=option>Rome</li></ul>'; c.setAttribute('aria-expanded', 'true')"
    )
    assert f"(listbox, popup of {live.id_of('combobox', 'City')})" in told(observation)
    assert live.id_of("option", "Rome") in observation.shown


def test_a_modal_dialog_is_told_first_and_the_rest_is_said_to_be_blocked(live_page: Any) -> None:
    live = LivePage(live_page, "<main><button>Delete</button><p id=n>0</p></main><dialog><p>Sure?</p><button>Yes</button></dialog>")
    observation = live.after("n.textContent = '1'; document.querySelector('dialog').showModal()")
    assert "the other regions are blocked until it is closed" in observation.text
    assert live.id_of("button", "Yes") in observation.shown
