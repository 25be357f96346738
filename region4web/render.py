"""Node lines in BrowserGym's format: `[id] role 'name' value='...', state=value, url='...'`.

Enters: a tree. Leaves: text, one node a line, tabs for depth. A line holds nothing but what `repr` escaped, so page
text can neither start a line nor forge an id. `flattened.parse_flattened` reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from region4web.axtree import AXNode, AXTree

__all__ = ["FLAG_STATES", "INDENT_LIMIT", "node_line", "plain_text", "render_lines", "render_tree"]

FLAG_STATES = frozenset({"required", "focused", "atomic", "visible", "clickable", "som"})
"""Printed by name alone; BrowserGym does not print them when false, and trees do not hold them then. The last three are
its own marks, which recorded texts may carry."""
COORDINATE_STATES = frozenset({"center", "box"})
"""BrowserGym's coordinates: `center="(61,20)"`, in double quotes."""
_COORDINATES = re.compile(r"\([-\d.,]+\)")

_ID_LIKE = re.compile(r"(?<!/)\[([^\[\]\s]{1,64})\]")

INDENT_LIMIT = 64
"""Deepest indentation in tabs; a deeper line says by how much it is deeper (`+136`), so that depth costs linear space."""


def node_line(node: AXNode) -> str:
    """One node as one line, without indentation."""
    parts = [f"[{node.id}] {node.role}" if node.addressable else node.role]
    if node.name or node.role != "generic":
        parts.append(f" {node.name!r}")
    if node.value is not None:
        parts.append(f" value={node.value!r}")
    for name, value in node.states:
        if value is True and name in FLAG_STATES:
            parts.append(f", {name}")
        elif name in COORDINATE_STATES and isinstance(value, str) and _COORDINATES.fullmatch(value):
            parts.append(f', {name}="{value}"')
        else:
            parts.append(f", {name}={value!r}")
    if node.url is not None:
        parts.append(f", url={node.url!r}")
    return "".join(parts)


def render_lines(tree: AXTree, indices: Iterable[int] | None = None, *, base_depth: int = 0) -> list[str]:
    """Lines of the nodes `indices` (all, by default) in the order given, indented by depth less `base_depth`."""
    depth = tree.depth.tolist()
    return [indentation(depth[i] - base_depth) + node_line(tree.nodes[i]) for i in (range(len(tree)) if indices is None else indices)]


def render_tree(tree: AXTree) -> str:
    """The whole tree, as BrowserGym's `flatten_axtree_to_str` prints it."""
    return "\n".join(render_lines(tree))


def plain_text(text: str) -> str:
    """Page text where a line has it without quotes (a title, an address, a note): on one line, its control characters
    escaped as `repr` does, no `|`, which parts the fields of such a line, and nothing that looks like an id."""
    text = _ID_LIKE.sub(r"(\1)", " ".join(text.split()).replace("|", "/"))
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def indentation(depth: int) -> str:
    """Tabs for a depth, capped at `INDENT_LIMIT`."""
    return "\t" * depth if depth <= INDENT_LIMIT else "\t" * INDENT_LIMIT + f"+{depth - INDENT_LIMIT} "
