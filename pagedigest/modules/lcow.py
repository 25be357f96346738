"""LCoW: the page rewritten for the task by a language model (arXiv 2503.10689, section 3.1).

Enters: task, actions so far, tree. Leaves: the focused observation o_co = f(task, actions, o). With the actor's own
model this is self-contextualisation; with a model trained by `training.lcow` it is LCoW. The reply holds reasoning
and a focused observation, which is used as far as it goes when the model did not come to an end; one that cannot be
read, or is not shorter, shows the whole tree and is counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pagedigest.modules.lines import checked_ids, full_tree_observation, tree_lines
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree
from region4web.errors import LanguageModelError
from region4web.language_models import LanguageModel

__all__ = ["LCoW", "LCoWSession", "action_with_element", "contextualisation_prompt", "parse_contextualisation"]

_FOCUSED = re.compile(r"##\s*Focused Observation\s*:?(.*?)(?:\[END\]|$)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class LCoW:
    """LCoW's contextualisation module. `label` tells models apart in tables (`self` is the actor's own, untrained)."""

    model: LanguageModel
    label: str = "self"
    max_answer_tokens: int = 2_000
    counter: TokenCounter = field(default_factory=default_counter)

    @property
    def name(self) -> str:
        return f"lcow-{self.label}"

    def start(self, task: str) -> LCoWSession:
        return LCoWSession(self, task)


class LCoWSession:
    """One episode: the actions so far, written with the elements they named."""

    def __init__(self, module: LCoW, task: str) -> None:
        self._module = module
        self._task = task
        self._history: list[str] = []
        self._previous: AXTree | None = None

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        module = self._module
        if last_action is not None:
            self._history.append(action_with_element(last_action, self._previous))
        self._previous = tree
        started = time.perf_counter()
        lines = tree_lines(tree)
        page = "\n".join(lines.text)
        auxiliary: dict[str, tuple[int, int]] = {}
        reply, fallback, truncated = "", "", False
        try:
            completion = module.model.complete(
                [contextualisation_prompt(self._task, self._history, page)], max_tokens=module.max_answer_tokens
            )[0]
            auxiliary["contextualisation"] = (completion.prompt_tokens, completion.completion_tokens)
            reply, truncated = completion.text, completion.error.startswith("truncated")
            fallback = "" if truncated else completion.error
        except LanguageModelError as error:
            fallback = str(error)
        focused = None if fallback else parse_contextualisation(reply)
        ms = {"contextualisation": 1000 * (time.perf_counter() - started)}
        if focused is None:
            usage = Usage(auxiliary_tokens=auxiliary, ms=ms, counts={"contextualiser_failed" if fallback else "unusable_answers": 1})
            whole = full_tree_observation(lines, module.counter, usage)
            return Observation(
                whole.text, whole.shown, whole.usage, {"fallback": fallback or "no focused observation in the reply", "reply": reply}
            )
        text, shown, invented = checked_ids(focused, tree)
        tokens, full_tokens = module.counter.count(text), module.counter.count(page)
        counts = ({"invented_ids": invented} if invented else {}) | ({"truncated_answers": 1} if truncated else {})
        if tokens >= full_tokens:
            whole = full_tree_observation(lines, module.counter, Usage(0, 0, auxiliary, ms, counts | {"not_shorter": 1}))
            return Observation(whole.text, whole.shown, whole.usage, {"fallback": "the rewritten page is not shorter", "reply": reply})
        return Observation(text, shown, Usage(tokens, full_tokens, auxiliary, ms, counts), {"reply": reply})


def contextualisation_prompt(task: str, history: Sequence[str], page: str, *, gold_action: str = "") -> list[dict[str, str]]:
    """The messages that ask for a contextualisation. `gold_action` is training's hint after all samples failed."""
    system = (
        "You rewrite web pages for an agent that must complete a task. From the accessibility tree you extract what the agent needs for "
        "its next step: the elements to act on with their [ids] exactly as given, the values and options they hold, what each of them does, "
        "and the texts that answer the task. Leave the rest out. Never invent an element, an id or an option. Do not name the next action.\n"
        "Answer in this form:\n## Reasoning\n<what the task needs now>\n## Focused Observation\n<the rewritten page>\n[END]"
    )
    steps = "\n".join(f"{i}. {step}" for i, step in enumerate(history, 1)) or "none"
    hint = (
        f"\n\nThe right next action is {gold_action}. Make sure that what it needs is in the rewritten page, without naming the action."
        if gold_action
        else ""
    )
    user = f"Task:\n{task}\n\nActions so far:\n{steps}{hint}\n\nAccessibility tree:\n{page}"
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def parse_contextualisation(reply: str) -> str | None:
    """The focused observation of a reply, or None when it has none."""
    match = _FOCUSED.search(reply)
    body = match[1].strip() if match else ""
    return body or None


def action_with_element(action: Action, tree: AXTree | None) -> str:
    """An action as text with the element that it named on the page it was taken on: `click('12') on link 'Orders'`."""
    index = tree.index_of.get(action.target) if tree is not None and action.target is not None else None
    element = f" on {tree.nodes[index].role} {tree.nodes[index].name[:80]!r}" if tree is not None and index is not None else ""
    return f"{action.text}{element}{f' (error: {action.error})' if action.error else ''}"
