"""ASH: a stateless summariser before a stateful actor (arXiv 2305.14257, section 3).

Enters: instruction, previous action, tree. Leaves: the history of (summary, action) pairs that the paper's ACTOR reads,
ending with the summary of the current page. The SUMMARIZER gets step-by-step guidance for the kind of page at hand,
written for web pages in general where the paper's was for WebShop. A summary cut off at its limit is used as far as it
goes; a failing model shows the whole tree; both are counted.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass, field

from pagedigest.modules.lines import checked_ids, full_tree_observation, tree_lines
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree
from region4web.errors import LanguageModelError
from region4web.language_models import LanguageModel

__all__ = ["ASH", "GUIDANCE", "ASHSession", "page_kind"]

GUIDANCE = {
    "results": "This page lists many items. Keep the controls for search, sorting, filters and further pages. Keep about three items that "
    "match the instruction best, each with what tells it apart, and drop the rest. If none matches, say so and suggest other search words.",
    "item": "This page is about one item. Keep the options and quantities that can be chosen and the buttons that act on the item. Compare "
    "the item with each requirement of the instruction, and say which are met, which are not, and which the page does not tell.",
    "form": "This page holds a form. Keep every field with its label, current value, whether it is required, and its error if there is one; "
    "keep the options of a choice that the instruction bears on; keep the buttons that send or leave the form.",
    "other": "Keep the navigation that leads towards the instruction's goal, the facts that answer it, and the elements to act on next.",
}
"""Step-by-step guidance for the summariser, by page kind."""

_FIELDS = frozenset({"textbox", "searchbox", "combobox", "checkbox", "radio", "spinbutton", "listbox", "slider", "switch", "Date"})
_INFO = re.compile(r"info\s*\[(.*)\]\s*$", re.DOTALL)


@dataclass(frozen=True)
class ASH:
    """ASH as an observation module. The actor reads at most `history_steps` past summaries with their actions."""

    model: LanguageModel
    history_steps: int = 10
    max_summary_tokens: int = 500
    counter: TokenCounter = field(default_factory=default_counter)
    name: str = "ash"

    def __post_init__(self) -> None:
        if self.history_steps < 0:
            raise ValueError(f"history_steps must not be negative, found {self.history_steps}")

    def start(self, task: str) -> ASHSession:
        return ASHSession(self, task)


class ASHSession:
    """One episode: what the actor has read and done."""

    def __init__(self, module: ASH, task: str) -> None:
        self._module = module
        self._task = task
        self._history: list[tuple[str, str]] = []  # (summary, action taken on it)
        self._summary = ""

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        module = self._module
        if last_action is not None and self._summary:
            self._history.append((self._summary, last_action.text))
        started = time.perf_counter()
        lines = tree_lines(tree)
        page = "\n".join(lines.text)
        kind = page_kind(tree)
        auxiliary: dict[str, tuple[int, int]] = {}
        fallback, summary, truncated = "", "", False
        try:
            completion = module.model.complete([self._prompt(page, kind, last_action)], max_tokens=module.max_summary_tokens)[0]
            auxiliary["summary"] = (completion.prompt_tokens, completion.completion_tokens)
            truncated = completion.error.startswith("truncated")
            fallback, summary = "" if truncated else completion.error, _summary_text(completion.text)
        except LanguageModelError as error:
            fallback = str(error)
        ms = {"summary": 1000 * (time.perf_counter() - started)}
        if fallback or not summary:
            self._summary = f"(page {tree.title!r:.80}, read in full)"
            usage = Usage(auxiliary_tokens=auxiliary, ms=ms, counts={"summariser_failed" if fallback else "unusable_answers": 1})
            whole = full_tree_observation(lines, module.counter, usage)
            return Observation(whole.text, whole.shown, whole.usage, {"fallback": fallback or "the summary is empty", "kind": kind})
        summary, shown, invented = checked_ids(summary, tree)
        self._summary = summary
        past = self._history[-module.history_steps :] if module.history_steps else []
        blocks = [f"OBSERVATION (earlier page, ids no longer valid)\n{_without_ids(old)}\nACTION {done}" for old, done in past]
        text = "\n".join([*blocks, f"OBSERVATION (current page)\n{summary}"])
        counts = ({"invented_ids": invented} if invented else {}) | ({"truncated_answers": 1} if truncated else {})
        usage = Usage(module.counter.count(text), module.counter.count(page), auxiliary, ms, counts)
        return Observation(text, shown, usage, {"kind": kind})

    def _prompt(self, page: str, kind: str, last_action: Action | None) -> list[dict[str, str]]:
        system = (
            "You condense a web page for an agent that follows an instruction. You see one page at a time and keep no memory.\n"
            f"{GUIDANCE[kind]}\n"
            "Keep the [ids] of every element that you mention, exactly as given. Never mention an element or an option that the page does not "
            "have. If the previous action was invalid or changed nothing, add one hint that says what is possible instead. Do not repeat the "
            "instruction. Answer as info[<the condensed page>]."
        )
        previous = "none" if last_action is None else last_action.text + (f" (error: {last_action.error})" if last_action.error else "")
        user = f"Instruction:\n{self._task}\n\nPrevious action: {previous}\n\nPage:\n{page}"
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def page_kind(tree: AXTree) -> str:
    """Which guidance fits: `form`, `results`, `item` or `other`, by counts of roles and repeated siblings."""
    roles = Counter(node.role for node in tree.nodes)
    fields = sum(roles[role] for role in _FIELDS)
    shapes = Counter(
        (int(parent), node.role)
        for node, parent in zip(tree.nodes, tree.parent, strict=True)
        if node.role in ("listitem", "row", "article")
    )
    repeated = max(shapes.values(), default=0)
    if fields >= 4 and fields * 4 >= repeated:
        return "form"
    if repeated >= 8:
        return "results"
    choices = roles["radio"] + roles["combobox"] + roles["spinbutton"]
    return "item" if roles["button"] and choices else "other"


def _summary_text(reply: str) -> str:
    match = _INFO.search(reply.strip())
    return (match[1] if match else reply.strip().removeprefix("info[")).strip()


def _without_ids(text: str) -> str:
    """An earlier summary: its elements may be gone or mean something else, so none can be acted on by it."""
    return re.sub(r"\[([^\[\]\s]{1,40})\] ?", "", text)
