"""The actions of an agent, written as calls: BrowserGym's set plus the ones that ask to see more.

Enters: a model's reply. Leaves: one `Call`, or None. Ids are texts, so `click(12)` and `click('12')` are one action.
Nothing here runs an action.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

__all__ = ["ACTIONS", "Call", "action_set_text", "parse_call"]

ACTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "click": (("id",), "click an element"),
    "fill": (("id", "text"), "replace the text of a field"),
    "select_option": (("id", "option"), "choose an option of a combobox or listbox by its name"),
    "press": (("id", "key"), "press a key, such as 'Enter', in an element"),
    "hover": (("id",), "move the pointer over an element"),
    "scroll": (("delta_x", "delta_y"), "scroll the page by pixels"),
    "goto": (("url",), "open an address"),
    "go_back": ((), "go back to the page before"),
    "noop": ((), "wait a moment"),
    "send_msg_to_user": (("text",), "give the answer of the task, or say that it is done"),
    "report_infeasible": (("reason",), "say that the task cannot be done"),
    "view_all": (("page?",), "see every region of this page in full, in pages"),
    "view_region": (("region", "page?"), "see one region in full, such as 'R4'"),
    "find": (("text", "page?"), "see the lines of the page that hold a text"),
}
"""Parameters and meaning of every action. The first parameter called `id` names the element acted on; `?` marks one that can be left out."""

_CALL = re.compile(rf"\b({'|'.join(ACTIONS)})\s*\(")


@dataclass(frozen=True)
class Call:
    """One action with its arguments as texts."""

    name: str
    arguments: tuple[str, ...]

    @property
    def target(self) -> str | None:
        """The id of the element acted on, if the action has one."""
        return self.arguments[0] if ACTIONS[self.name][0][:1] == ("id",) and self.arguments else None

    def __str__(self) -> str:
        parameters = ACTIONS[self.name][0]
        written = [a if p == "page?" and a.isdecimal() else repr(a) for p, a in zip(parameters, self.arguments, strict=False)]
        return f"{self.name}({', '.join(written)})"


def action_set_text(names: tuple[str, ...] = tuple(ACTIONS)) -> str:
    """The actions as a prompt shows them, one a line."""
    return "\n".join(f"{name}({', '.join(ACTIONS[name][0])}): {ACTIONS[name][1]}" for name in names)


def parse_call(reply: str) -> Call | None:
    """The last whole call of a known action in a reply; None when there is none or its arguments do not fit."""
    for match in reversed(list(_CALL.finditer(reply))):
        call = _call_at(reply, match.start(), match[1])
        if call is not None:
            return call
    return None


def _call_at(reply: str, start: int, name: str) -> Call | None:
    for close in re.finditer(r"\)", reply[start : start + 4_000]):
        text = reply[start : start + close.end()]
        try:
            node = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if not isinstance(node, ast.Call) or (node.keywords and any(k.arg is None for k in node.keywords)):
            return None
        parameters = ACTIONS[name][0]
        try:
            values = [ast.literal_eval(a) for a in node.args]
            named = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg is not None}
        except (ValueError, TypeError, RecursionError):
            return None
        for parameter in parameters[len(values) :]:
            if parameter.rstrip("?") in named:
                values.append(named[parameter.rstrip("?")])
        values = [v[0] if isinstance(v, list) and len(v) == 1 else v for v in values]
        if not sum(not p.endswith("?") for p in parameters) <= len(values) <= len(parameters) or any(
            not isinstance(v, (str, int, float)) for v in values
        ):
            return None
        return Call(name, tuple(str(v).strip() if p in ("id", "region") else str(v) for p, v in zip(parameters, values, strict=False)))
    return None
