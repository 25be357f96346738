"""The fields of one CDP `AXNode`, checked and cleaned. Malformed ones are mended or left out, and the repair is said.

Enters: one node object. Leaves: role, text, value, states, address, ids in the forms that `AXNode` holds. Text is one
line without control characters, direction overrides and invisible characters; ids cannot hold space or brackets.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from region4web.axtree import StateValue
from region4web.rawtree import Repairs, shown
from region4web.render import FLAG_STATES

__all__ = [
    "address_of",
    "backend_id_of",
    "clean_text",
    "is_ignored",
    "is_safe_id",
    "properties_of",
    "role_of",
    "states_of",
    "text_of",
    "value_of",
]

IGNORED_PROPERTIES = frozenset({"editable", "readonly", "level", "settable", "multiline", "invalid", "focusable", "url"})
"""Left out of `states`, as in BrowserGym's flattening; `url` has a field of its own."""
LARGEST_NUMBER = 10**18
"""Larger integers are no values of a page; written as text, so that every value prints and reads back."""
LARGEST_ID = 1 << 53

# Controls, soft hyphen, zero-width and direction characters, tag characters, supplementary variation selectors. Kept:
# zero-width (non-)joiner and one variation selector at a time, which letters and emoji need, and private use, which icon fonts need.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e01ef]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ROLE = re.compile(r"[A-Za-z][\w-]{0,63}")
_STATE = re.compile(r"[A-Za-z][\w-]{0,63}")
_ID = re.compile(r"[^\s\[\]]{1,64}")


def clean_text(text: str) -> str:
    """One line: white space runs become a space, invisible characters go, a lone surrogate becomes U+FFFD."""
    if not (text.isascii() and text.isprintable()):
        text = _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text))
    return " ".join(text.split())


def is_safe_id(value: object) -> bool:
    """Whether `[value]` reads as one id in a node line."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None and value.isprintable()


def text_of(entry: dict[str, Any], key: str, repairs: Repairs) -> str:
    """The cleaned text of `name`, `description` or `value`; '' when absent."""
    field = entry.get(key)
    if field is None:
        return ""
    if not isinstance(field, dict):
        repairs.add_node(f"{key} of a wrong type ignored", entry.get("nodeId"))
        return ""
    value = field.get("value")
    if isinstance(value, str):
        return clean_text(value) if value else ""
    if value is None:
        return ""
    repairs.add_node(f"{key} that is no text written as text", entry.get("nodeId"))
    return clean_text(shown(value))


def role_of(entry: dict[str, Any], repairs: Repairs) -> str:
    """The role; `unknown` when there is none that a node line can hold, `none` for such a node that is ignored."""
    field = entry.get("role")
    value = field.get("value") if isinstance(field, dict) else None
    if isinstance(value, str) and _is_role(value):
        return value
    if entry.get("ignored") is True:
        return "none"
    repairs.add_node("node without a usable role called 'unknown'", entry.get("nodeId"))
    return "unknown"


def is_ignored(entry: dict[str, Any], repairs: Repairs) -> bool:
    """Whether the browser says that the node is no part of the accessibility tree."""
    ignored = entry.get("ignored")
    if ignored is None or ignored is True or ignored is False:
        return ignored is True
    repairs.add_node("'ignored' that is neither true nor false taken as false", entry.get("nodeId"))
    return False


@lru_cache(maxsize=1024)
def _is_role(value: str) -> bool:
    return _ROLE.fullmatch(value) is not None


def backend_id_of(entry: dict[str, Any], repairs: Repairs) -> int | None:
    value = entry.get("backendDOMNodeId")
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and -LARGEST_ID < value < LARGEST_ID:
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    repairs.add_node("backendDOMNodeId that is no number ignored", entry.get("nodeId"))
    return None


def properties_of(entry: dict[str, Any]) -> list[tuple[str, Any]]:
    """Names and values of the well-formed properties, in order."""
    properties = entry.get("properties")
    if not properties or not isinstance(properties, (list, tuple)):
        return []
    found = []
    for each in properties:
        if isinstance(each, dict) and isinstance(name := each.get("name"), str):
            field = each.get("value")
            found.append((name, field.get("value") if isinstance(field, dict) else None))
    return found


def states_of(entry: dict[str, Any], properties: list[tuple[str, Any]], repairs: Repairs) -> tuple[tuple[str, StateValue], ...]:
    states: list[tuple[str, StateValue]] = []
    for name, value in properties:
        if name in IGNORED_PROPERTIES or value is None:
            continue
        if not _STATE.fullmatch(name):
            repairs.add("state with an impossible name ignored", f"{shown(name)} of nodeId {shown(entry.get('nodeId'))}")
        elif name in FLAG_STATES:
            if value and value != "false":
                states.append((name, True))
        elif isinstance(value, str):
            states.append((name, clean_text(value)))
        elif isinstance(value, (bool, int, float)):
            states.append((name, _printable_number(value)))
        else:
            repairs.add("state of a wrong type ignored", f"{name} of nodeId {shown(entry.get('nodeId'))}")
    return tuple(states)


def address_of(properties: list[tuple[str, Any]]) -> str | None:
    """The `url` property, without characters that no address holds."""
    for name, value in properties:
        if name == "url" and isinstance(value, str) and value:
            return clean_text(value) or None
    return None


def value_of(entry: dict[str, Any], repairs: Repairs) -> StateValue | None:
    """The value of a control; None when it has none."""
    field = entry.get("value")
    if field is None:
        return None
    value = field.get("value") if isinstance(field, dict) else None
    if isinstance(value, (bool, int, float)):
        return _printable_number(value)
    text = text_of(entry, "value", repairs)
    return None if value is None else text


def _printable_number(value: bool | int | float) -> StateValue:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if -LARGEST_NUMBER < value < LARGEST_NUMBER else shown(value)
