"""Secrets in fields, before anything is kept of a page: neither what was typed nor how long it is.

Enters: accessibility nodes of one frame. Leaves: the same nodes, changed in place. The browser itself hides the value of a
password field behind bullets, one a character; a field that the page styles so (`-webkit-text-security`) is in plain text.
"""

from __future__ import annotations

import re
from typing import Any

from region4web.properties import property_of

__all__ = ["BULLETS", "FIELD_DEPTH", "FIELD_ROLES", "MASK", "mask_fields"]

MASK = "\u2022\u2022\u2022"
BULLETS = re.compile(r"[\u2022\u25cf\u25e6\u25aa\u25a0\u25fc]+")
"""What masked fields show: discs, circles, squares."""
FIELD_ROLES = frozenset({"textbox", "searchbox", "spinbutton", "combobox"})
FIELD_DEPTH = 4
"""How far above its text a field is."""


def mask_fields(nodes: list[dict[str, Any]]) -> None:
    """Put a mask of fixed length in place of every text that a field shows as bullets, and of the field's value."""
    by_id = {str(node["nodeId"]): node for node in nodes}
    for node in nodes:
        if _is_masked(node.get("value")):
            node["value"] = _masked(node["value"])
        if not _is_masked(node.get("name")) or property_of(node, "editable") is None:
            continue
        node["name"] = _masked(node["name"])
        above = by_id.get(str(node.get("parentId")))
        for _ in range(FIELD_DEPTH):
            if above is None:
                break
            if above.get("role", {}).get("value") in FIELD_ROLES:
                if isinstance(above.get("value"), dict) and above["value"].get("value"):
                    above["value"] = _masked(above["value"])
                break
            above = by_id.get(str(above.get("parentId")))


def _is_masked(field: Any) -> bool:
    value = field.get("value") if isinstance(field, dict) else None
    return isinstance(value, str) and BULLETS.fullmatch(value) is not None


def _masked(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "value": MASK}
