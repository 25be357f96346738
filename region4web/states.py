"""State lines: what is there to act on in a region now, in the page's own words.

Enters: the units of a region. Leaves: one line of at most 40 words that names what the region holds: fields with their
values, what is selected, disabled or expanded, and the first names. Every name and number of it occurs in the region,
or is a count of what the region holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from region4web.contents import FIELD_KINDS, Unit

__all__ = ["EMPTY_STATE", "WORD_LIMIT", "state_line"]

WORD_LIMIT = 40
EMPTY_STATE = "No content of its own"
NAME_WORDS = 10
LINE_WORDS = 22


def state_line(units: Sequence[Unit]) -> str:
    """The state of the region that holds `units`."""
    parts: list[str] = []
    words = 0
    said: set[str] = set()
    for unit in units:
        if unit.kind == "title" and len(units) > 1:
            continue
        text = unit_state(unit)
        if not text or text in said:
            continue
        said.add(text)
        length = len(text.split())
        if parts and words + length > LINE_WORDS:
            break
        parts.append(text)
        words += length
    return ", ".join(parts) or EMPTY_STATE


def unit_state(unit: Unit) -> str:
    """One unit's part of the line, '' when it has no name and no value."""
    name = shortened(unit.text, NAME_WORDS)
    node = unit.ax
    if unit.kind in FIELD_KINDS:
        if unit.kind in ("check", "radio"):
            checked = node.state("checked")
            mark = " (checked)" if checked in (True, "true") else ""
            return name + mark if name else ""
        value = "" if node.value is None else shortened(str(node.value), NAME_WORDS)
        if unit.kind == "select" and not value and unit.selected:
            value = shortened(unit.selected[0], NAME_WORDS)
        if value:
            return f"{name} {value!r}" if name else repr(value)
        return f"{name} empty" if name else "empty field"
    if node.state("disabled") is True and name:
        return f"{name} (disabled)"
    return name


def shortened(text: str, words: int) -> str:
    """The first `words` words on one line, with an ellipsis when there are more."""
    parts = text.split()
    return " ".join(parts) if len(parts) <= words else " ".join(parts[:words]) + "\u2026"
