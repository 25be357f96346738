"""The short mode of scripts/fuzz.py: every campaign for a moment, and inputs that broke something once."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web import AXTree
from scripts.fuzz import CAMPAIGNS, run_laws
from tests import laws
from tests.builders import random_nodes, random_tree, trees


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_no_random_input_breaks_a_law(campaign: str) -> None:
    counts = run_laws(campaign, examples=60, seed=0)
    assert counts["examples"] >= 60
    assert counts["violations"] == 0


def test_a_campaign_repeats_from_its_seed() -> None:
    assert random_tree(random.Random(7)) == random_tree(random.Random(7))
    assert repr(random_nodes(random.Random(7))) == repr(random_nodes(random.Random(7)))
    assert len({repr(random_nodes(random.Random(seed))) for seed in range(50)}) > 45


@given(st.lists(trees(8), min_size=1, max_size=3), st.sampled_from((None, 120, 300)), st.sampled_from(("in_place", "append")))
@settings(max_examples=20, deadline=None)
def test_digests_of_any_trees_keep_budget_and_ids(pages: list[AXTree], budget: int | None, layout: str) -> None:
    laws.check_digests(pages, ("click('3')", "view_all()"), budget_tokens=budget, layout=layout)


BROKE_ONCE: dict[str, Any] = {
    "an integer that Python refuses to print": [{"nodeId": "1", "name": {"value": 10**5000}, "value": {"value": 10**5000}}],
    "a role that would end the id": [{"nodeId": "1", "role": {"value": "button] x"}, "backendDOMNodeId": 1}],
    "a frame that would start a line": [{"nodeId": "1", "frame": "f1]\n[9] button", "backendDOMNodeId": 1}],
    "a bid that equals a spare id": [{"nodeId": "1", "childIds": ["2", "3"]}, {"nodeId": "2"}, {"nodeId": "3", "browsergym_id": "_2"}],
    "an empty nodeId as somebody's child": [{"nodeId": "", "childIds": [None, ""]}, {"nodeId": "1", "parentId": ""}],
    "two nodes that hold each other": [{"nodeId": "1", "childIds": ["2"]}, {"nodeId": "2", "childIds": ["1"]}],
}


@pytest.mark.parametrize("nodes", BROKE_ONCE.values(), ids=BROKE_ONCE.keys())
def test_what_broke_once_holds(nodes: list[dict[str, Any]]) -> None:
    laws.check_nodes(nodes)


def test_the_laws_can_fail() -> None:
    class OneIdTooMany:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    with pytest.raises(AssertionError):
        laws.check_tree(OneIdTooMany())  # type: ignore[arg-type]
    before, after = random_tree(random.Random(1)), random_tree(random.Random(2))
    with pytest.raises(ValueError, match="a transition applies to the tree it was made from"):
        laws.diff(before, after).apply(after)
