"""Methods that ask a language model against an HTTP server that misbehaves: the fallback, its trace and count, the episode goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openai_server import OpenAIServer, Reply

from pagedigest.modules.ash import ASH
from pagedigest.modules.focus_agent import FocusAgent
from pagedigest.modules.lcow import LCoW
from pagedigest.observation import Action, ObservationModule
from pagedigest.selection import HybridSelector, LLMSelector
from pagedigest.session import PageDigest
from region4web.abstraction import abstractor_by_name
from region4web.axtree import AXTree
from region4web.language_models import LanguageModel
from region4web.openai_model import OpenAIModel
from region4web.render import render_tree
from region4web.segmenters import segmenter_by_name

pytest.importorskip("openai", reason="openai is not installed (extra 'lm')")

TREE = AXTree.from_text(
    "RootWebArea 'Orders'\n\t[1] banner ''\n\t\t[2] link 'Home'\n\t[3] main ''\n\t\t[4] heading 'Orders'\n"
    "\t\t[5] textbox 'Order number'\n\t\t[6] button 'Search'\n\t[7] contentinfo ''\n\t\t[8] link 'Imprint'",
    url="http://shop.example/orders",
)
OTHER = AXTree.from_text(
    "RootWebArea 'Order search'\n\t[21] navigation ''\n\t\t[22] link 'Back'\n\t[23] search ''\n"
    "\t\t[5] searchbox 'Which order'\n\t\t[6] button 'Find it'\n\t\t[24] checkbox 'Archived too'",
    url="http://shop.example/search",
)
GOOD = {
    "focus-agent-soft": "<answer>[(5, 6)]</answer>",
    "lcow-self": "## Reasoning\nsearch\n## Focused Observation\n[5] textbox 'Order number'\n[6] button 'Search'\n[END]",
    "ash": "info[search by number [5], then [6]]",
    "pagedigest": '{"regions": ["R2"]}',
}
MODULES: dict[str, Callable[[LanguageModel], ObservationModule]] = {
    "focus-agent-soft": FocusAgent,
    "lcow-self": LCoW,
    "ash": ASH,
    "pagedigest": lambda model: PageDigest(
        segmenter_by_name("landmarks"), abstractor_by_name("role-name"), LLMSelector(model, fallback=HybridSelector())
    ),
}
FAULTS: dict[str, tuple[Reply, str]] = {
    "busy": (Reply("slow down", 429, headers={"Retry-After": "0.01"}), "refused: "),
    "broken": (Reply("oops", 503, headers={"Retry-After": "0.01"}), "refused: "),
    "late": (Reply("late", pause_s=1.5), "timeout: "),
    "no protocol": (Reply(body="<html>gateway</html>"), "malformed: "),
    "no message": (Reply(body='{"choices": []}'), "malformed: "),
    "empty": (Reply(""), "empty: "),
}


def model(server_url: str) -> OpenAIModel:
    return OpenAIModel("tiny", server_url, timeout_s=0.5, max_retries=1)


def reason(name: str, trace: Any) -> str:
    return str(trace["selection"] if name == "pagedigest" else trace["fallback"])


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_server_is_told_and_the_next_step_is_answered(name: str, fault: str) -> None:
    reply, said = FAULTS[fault]
    faulty = [True]
    with OpenAIServer(lambda request: reply if faulty else GOOD[name]) as server:
        session = MODULES[name](model(server.url)).start("Find order 1001")
        first = session.observe(TREE)
        faulty.clear()
        second = session.observe(OTHER, last_action=Action("click('6')", "6"))
    assert said in reason(name, first.trace)
    assert sum(first.usage.counts.values()) >= 1
    if name == "pagedigest":
        assert first.usage.counts["selection_fallbacks"] == 1
        assert "6" in first.shown
    else:
        assert first.text.endswith(render_tree(TREE))
        assert set(first.shown) == {str(k) for k in range(1, 9)}
    assert "fallback" not in second.trace
    assert "fell back" not in str(second.trace.get("selection", ""))
    assert {"5", "6"} <= set(second.shown)
    assert sum(prompt for prompt, _ in second.usage.auxiliary_tokens.values()) > 0


@pytest.mark.parametrize("name", MODULES)
def test_a_server_that_is_down_is_told_by_its_address(name: str) -> None:
    session = MODULES[name](OpenAIModel("tiny", "http://127.0.0.1:9/v1", timeout_s=1, max_retries=0)).start("Find order 1001")
    for _ in range(2):
        observation = session.observe(TREE, last_action=Action("noop()"))
        assert "6" in observation.shown
        assert "127.0.0.1:9" in reason(name, observation.trace)
