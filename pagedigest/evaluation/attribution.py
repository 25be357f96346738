"""Which part of a method hid the element that a task needs next: by rule, where the page's state decides it.

Enters: a task's reference solution, each step's tree, observation and action. Leaves: the id needed next, and the name of the stage that
kept it from being shown. Reads states, changes nothing.
"""

from __future__ import annotations

import re

from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.tasks import Task, find_element
from pagedigest.observation import Observation, ObservationSession
from pagedigest.session import DigestSession
from region4web.axtree import AXTree

__all__ = ["STAGES", "SolutionProgress", "hiding_stage"]

STAGES = ("decomposition", "abstraction", "selection", "transition", "actor", "environment", "infrastructure")
"""Where an episode can fail, in the order of the tables."""

_CALLS = {
    "click": "click",
    "fill": "fill",
    "select": "select_option",
    "press": "press",
    "goto": "goto",
    "back": "go_back",
    "answer": "send_msg_to_user",
}


class SolutionProgress:
    """How far an episode has come along the reference solution. An actor that goes another way stays where it left it."""

    def __init__(self, task: Task) -> None:
        self._left = list(task.solution)

    def needed(self, tree: AXTree) -> str | None:
        """Id of the element that the next step of the solution acts on or reads; None when it needs none or the page has none."""
        if not self._left or self._left[0].element is None:
            return None
        index = find_element(tree, self._left[0].element)
        return None if index is None else tree.nodes[index].id

    def act(self, call: Call, needed: str | None) -> None:
        """Take note of an action."""
        if self._left and call.name == _CALLS.get(self._left[0].act) and (call.target is None or call.target == needed):
            self._left.pop(0)


def hiding_stage(session: ObservationSession, observation: Observation, tree: AXTree, needed: str) -> str:
    """The stage that kept an element of the page from being shown.

    `transition`: it came after the page was opened and the report of changes leaves it out. `decomposition`: its region is open but too
    long to be shown whole. `abstraction`: a model that reads nothing but purposes and states left out a region whose purpose and state share no word
    with the element. Else `selection`; so it is for methods without regions, which choose lines.
    """
    if not isinstance(session, DigestSession):
        return "selection"
    page = session.page
    if needed not in page.region_map.partition.tree.index_of:
        return "transition"
    region = page.region_map.partition.region_of[page.region_map.partition.tree.index_of[needed]]
    if f"R{region}" in observation.trace.get("open", ()):
        return "decomposition"
    about = page.region_map.abstractions[region]
    if page.selection.source == "llm" and not _words(tree.nodes[tree.index_of[needed]].name) & _words(f"{about.purpose} {about.state}"):
        return "abstraction"
    return "selection"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.casefold()))
