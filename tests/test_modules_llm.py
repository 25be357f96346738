"""FocusAgent, LCoW and ASH on a small page with a scripted model: what the model sees, what the agent reads."""

import re

import pytest

from pagedigest.modules.ash import ASH, page_kind
from pagedigest.modules.focus_agent import (
    AGGRESSIVE,
    DEFENCE,
    SOFT,
    FocusAgent,
    keep_id,
    keep_id_and_role,
    parse_line_ranges,
)
from pagedigest.modules.lcow import LCoW, contextualisation_prompt, parse_contextualisation
from pagedigest.observation import Action
from region4web.axtree import AXTree
from region4web.errors import LanguageModelError
from region4web.language_models import Completion, ScriptedModel
from region4web.render import render_tree

PAGE = """RootWebArea 'Orders'
\t[1] banner ''
\t\t[2] link 'Home'
\t\t[3] link 'Help'
\t[4] main ''
\t\t[5] heading 'Orders'
\t\t[6] textbox 'Order number'
\t\t[7] button 'Search'
\t\tStaticText 'Order 1001 was paid on 3 May and sent on 4 May by courier'
\t[8] contentinfo ''
\t\t[9] link 'Imprint'
\t\t[10] link 'Privacy policy of the shop and its partners'"""


@pytest.fixture
def tree() -> AXTree:
    return AXTree.from_text(PAGE, url="http://shop.example/orders")


def ids_in(text: str) -> set[str]:
    return set(re.findall(r"\[([^\[\]\s]+)\]", text))


class Unreachable:
    def complete(self, prompts, *, max_tokens, schema=None):
        raise LanguageModelError("no server at 127.0.0.1:1")


def test_focus_agent_keeps_the_lines_that_the_retriever_named_and_counts_the_pruned_ones(tree):
    model = ScriptedModel(["<think>the form</think><answer>[(1, 1), (5, 8)]</answer>"])
    observation = FocusAgent(model).start("Find order 1001").observe(tree)
    assert observation.text.split("\n") == [
        "RootWebArea 'Orders'",
        "... pruned 3 lines ...",
        "\t[4] main ''",
        "\t\t[5] heading 'Orders'",
        "\t\t[6] textbox 'Order number'",
        "\t\t[7] button 'Search'",
        "... pruned 4 lines ...",
    ]
    assert observation.shown == ("4", "5", "6", "7")
    asked = model.prompts[0][-1]["content"]
    assert "Find order 1001" in asked
    assert "\n7 \t\t[6] textbox 'Order number'" in asked
    assert observation.usage.auxiliary_tokens["retrieval"][0] > 0
    assert 0 < observation.usage.tokens < observation.usage.full_tokens


def test_focus_agent_sees_no_history_unless_told_to(tree):
    done = Action("click('3')", "3", "timeout")
    plain, told = (ScriptedModel(["<answer>[(7,7)]</answer>"]) for _ in range(2))
    FocusAgent(plain).start("t").observe(tree, last_action=done)
    FocusAgent(told, history_steps=2).start("t").observe(tree, last_action=done)
    assert "click('3')" not in plain.prompts[0][-1]["content"]
    assert "click('3') (error: timeout)" in told.prompts[0][-1]["content"]


@pytest.mark.parametrize(("pruned", "expected"), [(keep_id, "\t\t[2]"), (keep_id_and_role, "\t\t[2] link")])
def test_a_pruned_line_keeps_what_its_format_says(tree, pruned, expected):
    observation = FocusAgent(ScriptedModel(["<answer>[(7,8)]</answer>"]), pruned=pruned).start("t").observe(tree)
    assert expected in observation.text.split("\n")
    assert set(observation.shown) == ids_in(observation.text) == {str(i) for i in range(1, 11)}


@pytest.mark.parametrize(
    ("answer", "ranges"),
    [
        ("<answer>[(2, 4), (9, 9)]</answer>", [(2, 4), (9, 9)]),
        ("<answer>[[2, 4], [9, 9]]</answer>", [(2, 4), (9, 9)]),
        ("<answer>2-4, 9</answer>", [(2, 4), (9, 9)]),
        ("<answer>[2, 4, 9]</answer>", [(2, 2), (4, 4), (9, 9)]),
        ("<answer>[2, 4]</answer>", [(2, 4)]),
        ("<answer>7</answer>", [(7, 7)]),
        ("<answer>(4, 2)</answer>", [(2, 4)]),
        ("<answer>(8, 400)</answer>", [(8, 12)]),
        ("<answer>(0, 400000)", [(1, 12)]),
        ("<answer>(40, 50)</answer>", []),
        ("<think>the form</think>lines 2 to 4 and 9", [(2, 4), (9, 9)]),
        ("1. The page holds a log-in form.\n2. It has 2 fields.", []),
        ("<think>lines 3 to 5</think> nothing fits", []),
        ("", []),
    ],
)
def test_line_ranges_are_read_in_every_way_models_write_them(answer, ranges):
    assert parse_line_ranges(answer, 1, 12) == ranges


@pytest.mark.parametrize("reply", ["", "I cannot help with that", "<answer>[]</answer>", "<answer>[(90, 95)]</answer>"])
def test_an_unusable_answer_shows_the_whole_tree_and_says_so(tree, reply):
    observation = FocusAgent(ScriptedModel([reply])).start("t").observe(tree)
    assert observation.text == render_tree(tree)
    assert observation.usage.counts["unusable_answers"] == 1
    assert "names no line" in observation.trace["fallback"]


def test_a_truncated_answer_counts_as_far_as_it_goes(tree):
    model = ScriptedModel([Completion("<answer>[(6, 7), (", 10, 10, "truncated: stopped after 10 tokens")])
    assert FocusAgent(model).start("t").observe(tree).shown == ("5", "6")


def test_a_tree_longer_than_the_window_is_read_in_chunks(tree):
    model = ScriptedModel(lambda messages: "<answer>[(7, 7)]</answer>")
    observation = FocusAgent(model, window_tokens=100).start("t").observe(tree)
    assert len(model.prompts) == observation.usage.counts["retrieval_calls"] >= 2
    numbers = [int(n) for m in model.prompts for n in re.findall(r"^(\d+) ", m[-1]["content"], re.MULTILINE)]
    assert numbers == list(range(1, len(tree) + 1))
    assert "6" in observation.shown


def test_prompts_differ_and_the_defence_names_planted_instructions(tree):
    texts = []
    for prompt in (SOFT, AGGRESSIVE, DEFENCE):
        model = ScriptedModel(["<answer>(7,7)</answer>"])
        FocusAgent(model, prompt=prompt).start("t").observe(tree)
        texts.append(model.prompts[0][0]["content"])
    assert len(set(texts)) == 3
    assert "attacker" in texts[2]
    assert FocusAgent(model, prompt=DEFENCE, pruned=keep_id).name == "focus-agent-defence-keep-id"


@pytest.mark.parametrize("module", [FocusAgent(Unreachable()), LCoW(Unreachable()), ASH(Unreachable())], ids=lambda m: m.name)
def test_a_model_that_is_down_shows_the_whole_tree_is_counted_and_the_episode_goes_on(module, tree):
    session = module.start("t")
    for _ in range(2):
        observation = session.observe(tree, last_action=Action("noop()"))
        assert observation.text.endswith(render_tree(tree))
        assert any("failed" in key for key in observation.usage.counts)
        assert "no server" in observation.trace["fallback"]


def test_lcow_shows_the_focused_observation_and_refuses_invented_ids(tree):
    reply = (
        "## Reasoning\nsearch first\n## Focused Observation\n[6] textbox, empty: type the order number\n[77] button 'Go'\n[END] trailing"
    )
    model = ScriptedModel([reply, reply])
    session = LCoW(model, label="trained").start("Find order 1001")
    observation = session.observe(tree)
    assert observation.text == "[6] textbox, empty: type the order number\n[not on the page: 77] button 'Go'"
    assert observation.shown == ("6",)
    assert observation.usage.counts == {"invented_ids": 1}
    session.observe(tree, last_action=Action("fill('6', '1001')", "6"))
    assert "1. fill('6', '1001') on textbox 'Order number'" in model.prompts[1][-1]["content"]


def test_lcow_falls_back_when_the_reply_has_no_focused_observation(tree):
    observation = LCoW(ScriptedModel(["## Reasoning\nnothing else"])).start("t").observe(tree)
    assert observation.text == render_tree(tree)
    assert observation.usage.counts == {"unusable_answers": 1}
    assert parse_contextualisation("## Focused Observation\n\n[END]") is None


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (LCoW, "## Reasoning\nsearch\n## Focused Observation\n[6] textbox 'Order number' and the"),
        (ASH, "info[the box [6] takes a number, and the"),
    ],
)
def test_an_answer_cut_off_at_its_limit_is_used_as_far_as_it_goes_and_counted(tree, module, text):
    observation = module(ScriptedModel([Completion(text, 90, 20, "truncated: stopped after 20 tokens")])).start("t").observe(tree)
    assert observation.shown == ("6",)
    assert observation.usage.counts == {"truncated_answers": 1}
    assert "fallback" not in observation.trace


def test_the_gold_action_is_in_the_prompt_only_as_a_hint_for_training():
    assert "click('7')" not in contextualisation_prompt("t", [], "p")[-1]["content"]
    assert "click('7')" in contextualisation_prompt("t", [], "p", gold_action="click('7')")[-1]["content"]


def test_ash_gives_the_actor_its_history_without_ids_that_are_no_longer_valid(tree):
    model = ScriptedModel(["info[search box [6], button [7]]", "info[order 1001 sent; link [2] Home; button [55]]"])
    session = ASH(model).start("Was order 1001 sent?")
    first = session.observe(tree)
    assert first.shown == ("6", "7")
    second = session.observe(tree, last_action=Action("click('7')", "7"))
    assert second.text.split("\n") == [
        "OBSERVATION (earlier page, ids no longer valid)",
        "search box , button ",
        "ACTION click('7')",
        "OBSERVATION (current page)",
        "order 1001 sent; link [2] Home; button [not on the page: 55]",
    ]
    assert second.shown == ("2",)
    assert "Previous action: click('7')" in model.prompts[1][-1]["content"]
    assert "Order number" in model.prompts[1][-1]["content"]


def test_ash_guides_by_the_kind_of_page():
    form = "RootWebArea ''\n" + "\n".join(f"\t[{i}] textbox 'f{i}'" for i in range(5)) + "\n\t[9] button 'Send'"
    results = "RootWebArea ''\n\t[1] list ''\n" + "\n".join(f"\t\t[{i}] listitem 'r{i}'" for i in range(2, 14))
    item = "RootWebArea ''\n\t[1] combobox 'Size'\n\t[2] button 'Add to basket'"
    kinds = [page_kind(AXTree.from_text(text)) for text in (form, results, item, PAGE)]
    assert kinds == ["form", "results", "item", "other"]


@pytest.mark.parametrize(
    "wrong", [lambda m: FocusAgent(m, window_tokens=5), lambda m: FocusAgent(m, history_steps=-1), lambda m: ASH(m, history_steps=-1)]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must"):
        wrong(ScriptedModel([]))
