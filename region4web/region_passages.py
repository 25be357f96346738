"""Each region of a page as one passage for a sentence embedding model: what it is, what it holds, and what stands around it.

Enters: a partition. Leaves: one line of text a region. What tells most stands first, so that a model that reads only so many
tokens loses the least: the region's own root and place, its counts, its heading and contents, then the page's title and
address, the headings of the page, and what the regions before and after it start with. No ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from region4web.axtree import AXTree
from region4web.contents import Unit
from region4web.region_features import headings_before
from region4web.region_text import PLACE_ROLES, PLURALS
from region4web.regions import Partition

__all__ = ["region_passages"]

UNIT_CHARACTERS, FIRST_UNIT_CHARACTERS = 36, 70
"""Longest text of one unit, and of the first few."""
FIRST_UNITS, LAST_UNITS = 3, 2
CONTENT_CHARACTERS = 330
AROUND_CHARACTERS = 44
"""Of a heading, of the title, of a region before or after."""
PAGE_HEADINGS = 3


def region_passages(partition: Partition, units: Sequence[Sequence[Unit]], numbers: Sequence[int] | None = None) -> list[str]:
    """The passages of the regions `numbers` (all by default). `units` are those of all regions."""
    tree = partition.tree
    page = _page(tree, units)
    starts = [_start(own) for own in units]
    headings = headings_before(partition, units)
    inner = Counter(region.enclosing for region in partition.regions)
    first: dict[tuple[str, ...], int] = {}
    twins = [first.setdefault(tuple(unit.text for unit in own), number) != number for number, own in enumerate(units)]
    found = []
    for number in range(len(partition)) if numbers is None else numbers:
        region, own = partition.regions[number], [unit for unit in units[number] if unit.kind != "title"]
        root = tree.nodes[region.root]
        above = [tree.nodes[i] for i in tree.ancestors(region.root) if tree.nodes[i].role in PLACE_ROLES]
        place = " > ".join(_named(node.role, node.name) for node in reversed(above[:3])) or "page"
        counts = Counter(unit.kind for unit in own)
        holds = ", ".join(f"{n} {kind if n == 1 else PLURALS.get(kind, kind + 's')}" for kind, n in counts.most_common(5))
        parts = [
            _named(root.role, "" if root.role == "RootWebArea" else root.name),
            f"in {place}",
            f"{number + 1} of {len(partition)}",
            "seen before" if own and twins[number] else "",
            f"around {inner[number]} regions" if inner[number] else "",
            f"holds {holds}" if holds else "empty",
            f"after {_cut(headings[number], AROUND_CHARACTERS)}" if headings[number] else "",
            _contents(own),
            page,
            f"before it {starts[number - 1]}" if number and starts[number - 1] else "",
            f"next {starts[number + 1]}" if number + 1 < len(units) and starts[number + 1] else "",
        ]
        found.append(" ".join(" . ".join(filter(None, parts)).split()))
    return found


def _page(tree: AXTree, units: Sequence[Sequence[Unit]]) -> str:
    """Title, address and first headings of the page."""
    try:
        parts = urlsplit(tree.url)
        address = unquote(" ".join(filter(None, [(parts.hostname or "").removeprefix("www."), parts.path.replace("/", " ")])))
    except ValueError:
        address = ""
    headings = list(dict.fromkeys(_cut(unit.text, AROUND_CHARACTERS) for own in units for unit in own if unit.kind == "heading"))
    said = [_cut(tree.title, 2 * AROUND_CHARACTERS), _cut(address, 2 * AROUND_CHARACTERS), *headings[:PAGE_HEADINGS]]
    return "page " + " | ".join(filter(None, said))


def _contents(units: Sequence[Unit]) -> str:
    """Runs of units of one kind, the last ones too where not all fit."""
    texts = []
    for k, unit in enumerate(units):
        text = _cut(unit.text, FIRST_UNIT_CHARACTERS if k < FIRST_UNITS else UNIT_CHARACTERS)
        if unit.selected:
            text += f" = {_cut(', '.join(unit.selected), UNIT_CHARACTERS)}"
        elif unit.ax.value not in (None, ""):
            text += f" = {_cut(str(unit.ax.value), UNIT_CHARACTERS)}"
        texts.append(text or "unnamed")
    tail = sum(len(text) + 3 for text in texts[-LAST_UNITS:])
    shown, used = [], 0
    for k, text in enumerate(texts):
        if used + len(text) + tail > CONTENT_CHARACTERS and k < len(texts) - LAST_UNITS:
            shown += [-1, *range(len(texts) - LAST_UNITS, len(texts))]
            break
        shown.append(k)
        used += len(text) + 3
    lines: list[str] = []
    kind = ""
    for k in shown:
        if k < 0:
            lines.append("...")
            kind = ""
        elif units[k].kind == kind:
            lines[-1] += f" | {texts[k]}"
        else:
            kind = units[k].kind
            lines.append(f"{kind}: {texts[k]}")
    return " . ".join(lines)


def _start(units: Sequence[Unit]) -> str:
    """What a region starts with, for its neighbours."""
    heading = next((unit for unit in units if unit.kind == "heading"), None)
    told = [heading] if heading else [unit for unit in units if unit.text and unit.kind != "title"][:2]
    return _cut(", ".join(f"{unit.kind} {unit.text}" for unit in told), AROUND_CHARACTERS)


def _named(role: str, name: str) -> str:
    return f"{role} {_cut(name, UNIT_CHARACTERS)!r}" if name else role


def _cut(text: str, limit: int) -> str:
    return " ".join(text.split())[:limit].encode("utf-8", "replace").decode("utf-8")
