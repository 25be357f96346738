"""WebArena's flattened tree (`[12] textbox 'Search' required: False`) as a tree.

Enters: the text that WebArena's environment, AgentOccam and SteP hand to their agents. Leaves: an `AXTree` with the same
ids. The format differs from BrowserGym's only in how properties are written, so lines are rewritten and parsed once.
"""

from __future__ import annotations

import re

from region4web.axtree import AXTree

__all__ = ["tree_from_webarena_text"]

_LINE = re.compile(r"""(\t*\[\d+\] [A-Za-z][\w-]*(?: (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))?)[ \t]*(.*)\Z""", re.DOTALL)
_PROPERTY = re.compile(r"([A-Za-z][\w-]*): (.*?)(?=\s+[A-Za-z][\w-]*: |\Z)", re.DOTALL)


def tree_from_webarena_text(text: str, *, url: str = "") -> AXTree:
    """Parse the text. The line `Tab 0 (current): ...` that some versions put first is left out. Raises SnapshotError."""
    lines = []
    for line in text.split("\n"):
        if re.match(r"Tab \d+", line):
            continue
        match = _LINE.match(line)
        if match is None:
            lines.append(line)
            continue
        properties = [f", {name}={_printed(value.strip())}" for name, value in _PROPERTY.findall(match[2])]
        lines.append(match[1] + "".join(properties))
    return AXTree.from_text("\n".join(lines), url=url)


def _printed(value: str) -> str:
    return value if value in ("True", "False") else repr(value)
