"""One region as a short text for a language model: where it stands, what it holds, within a token budget.

Enters: a partition and the number of a region. Leaves: a few lines: the page's title, the region's place and size, its
counts, then its units in reading order, like ones on one line. What does not fit is left out from the middle of long
lists first and said as a count; values, chosen options, errors and headings stay longest. No ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from region4web.axtree import AXNode, AXTree
from region4web.contents import FIELD_KINDS, Unit, region_units
from region4web.preprocessing import short_address
from region4web.regions import Partition, Region

__all__ = ["region_digest", "region_text"]

NAME_LIMITS = (100, 60, 36)
"""Longest unit text in characters; the next is tried when the region does not fit under the one before."""
FIRST_UNITS, TELLING_UNITS, HEADINGS = 5, 10, 8
"""How many of each are put in before the budget is filled up in reading order."""
HEAD_LIMITS = (70, 36, 12)
"""Longest title, heading and place name in the head lines; the next is tried when the head takes more than half of the budget."""
PLACE_ROLES = frozenset(
    {
        "banner",
        "navigation",
        "main",
        "contentinfo",
        "complementary",
        "form",
        "search",
        "dialog",
        "alertdialog",
        "article",
        "region",
        "table",
    }
    | {"list", "tabpanel", "menu", "toolbar", "feed", "Iframe"}
)
DIGEST_TOKENS, DIGEST_TITLE = 110, 30
"""What a digest is cut from, and its share of the page's title in characters."""
TELLING_STATES = ("checked", "selected", "expanded", "pressed", "disabled", "required", "invalid", "busy", "modal")
PLURALS = {"check": "checkboxes", "radio": "radio buttons", "select": "select boxes", "label": "groups"}


def region_text(partition: Partition, number: int, *, budget: int, count: Callable[[str], int]) -> str:
    """The text of region `number`. `count` counts tokens; the text has at most `budget` of them when it is additive over lines.

    Raises ValueError for a budget that cannot hold the head lines.
    """
    region = partition.regions[number]
    units = [unit for unit in region_units(partition, region) if unit.kind != "title"]
    for head_limit in HEAD_LIMITS:
        head = _head(partition, region, units, head_limit)
        room = budget - count(head) - 1
        if room >= budget // 2:
            break
    if room < 8:
        raise ValueError(f"a budget of {budget} tokens cannot hold a region's text; give at least 160")
    for limit in NAME_LIMITS:
        texts = [_unit_text(unit, limit) for unit in units]
        if sum(count(text) + 1 for text in texts) + _label_cost(units, count) <= room:
            return "\n".join([head, *_lines(units, texts, range(len(units)))])
    costs = [count(text) + 1 for text in texts]
    return "\n".join([head, *_lines(units, texts, _chosen(units, costs, room, count))])


def region_digest(partition: Partition, number: int, *, count: Callable[[str], int]) -> str:
    """The region's text for a model that reads little: title, place, heading before, counts and contents."""
    lines = []
    for line in region_text(partition, number, budget=DIGEST_TOKENS, count=count).split("\n"):
        if line.startswith("page: "):
            lines.append(line.removeprefix("page: ")[:DIGEST_TITLE])
        elif line.startswith("region "):
            lines.append(line.partition(" in ")[2])
        elif line.startswith("after heading: "):
            lines.append(f"after {line.removeprefix('after heading: ')}")
        elif line != "...":
            lines.append(line)
    return "\n".join(lines)


def _head(partition: Partition, region: Region, units: Sequence[Unit], limit: int) -> str:
    tree = partition.tree
    root = tree.nodes[region.root]
    title = _cut(tree.title or tree.nodes[0].name, limit)
    above = [tree.nodes[i] for i in tree.ancestors(region.root) if tree.nodes[i].role in PLACE_ROLES]
    place = " > ".join(_named(node, limit) for node in reversed(above[:2])) or "page"
    lines = [f"page: {title}", f"region {region.number + 1} of {len(partition)} in {place}: {_named(root, limit)}"]
    heading = _heading_before(tree, region)
    if heading:
        lines.append(f"after heading: {_cut(heading, limit)}")
    counts = Counter(unit.kind for unit in units)
    if counts:
        lines.append("holds " + ", ".join(f"{n} {kind if n == 1 else PLURALS.get(kind, kind + 's')}" for kind, n in counts.most_common(6)))
    return "\n".join(lines)


def _named(node: AXNode, limit: int) -> str:
    return f"{node.role} {_cut(node.name, limit)!r}" if node.name and node.role != "RootWebArea" else node.role


def _heading_before(tree: AXTree, region: Region) -> str:
    """The last heading before the region within the element around it, '' when there is none or the region has its own first."""
    if region.root == 0:
        return ""
    around = int(tree.parent[region.root])
    for i in range(region.root - 1, around, -1):
        if tree.nodes[i].role == "heading":
            return tree.nodes[i].name
    return ""


def _unit_text(unit: Unit, limit: int) -> str:
    """`Label = value (checked, required)`; a select's options by count, with the first few names."""
    node = unit.ax
    label = unit.text or (short_address(node.url) if node.url else "")
    text = _cut(label, limit) or ("unnamed" if unit.kind != "image" else "")
    if unit.selected:
        text += f" = {_cut(', '.join(unit.selected), limit)}"
    elif node.value not in (None, ""):
        text += f" = {_cut(str(node.value), limit)}"
    if unit.options:
        shown = ", ".join(_cut(option, 24) for option in unit.options[:3])
        text += f" [{len(unit.options)} options: {shown}{', ...' if len(unit.options) > 3 else ''}]"
    told = [_state_word(name, node) for name in TELLING_STATES]
    told = [word for word in told if word]
    return f"{text} ({', '.join(told)})" if told else text


def _state_word(name: str, node: AXNode) -> str:
    value = node.state(name)
    if name == "expanded" and value is not None:
        return "expanded" if value in (True, "true") else "collapsed"
    if name == "checked" and value is not None and value not in (False, "false"):
        return "checked" if value in (True, "true") else f"{value}"
    return name if value not in (None, False, "false", "") else ""


def _is_telling(unit: Unit) -> bool:
    return unit.kind == "alert" or bool(unit.selected) or (unit.kind in FIELD_KINDS and unit.ax.value not in (None, "")) or any(
        _state_word(name, unit.ax) for name in TELLING_STATES if name != "required"
    )  # fmt: skip


def _chosen(units: Sequence[Unit], costs: Sequence[int], room: int, count: Callable[[str], int]) -> list[int]:
    """Indices that fit, in reading order: the first units, telling ones, headings, then reading order."""
    every = range(len(units))
    wishes = [
        *list(every)[:FIRST_UNITS],
        *[i for i in every if _is_telling(units[i])][:TELLING_UNITS],
        *[i for i in every if units[i].kind == "heading"][:HEADINGS],
        *every,
    ]
    gap = count("...\n") + count("heading: ") + 1  # a chosen unit may need a line and a gap of its own
    chosen: set[int] = set()
    left = room - gap
    for i in wishes:
        if i in chosen:
            continue
        cost = costs[i] + (gap if i - 1 not in chosen or units[i].kind != units[i - 1].kind else 0)
        if cost <= left:
            chosen.add(i)
            left -= cost
        elif left < gap:
            break
    return sorted(chosen)


def _label_cost(units: Sequence[Unit], count: Callable[[str], int]) -> int:
    return sum(count(f"{kind}: ") + 1 for kind, _ in groupby(unit.kind for unit in units))


def _lines(units: Sequence[Unit], texts: Sequence[str], chosen: Sequence[int]) -> list[str]:
    """Runs of chosen units of one kind on one line; `...` where units are left out."""
    lines: list[str] = []
    kind, last = "", -1
    for i in chosen:
        if i != last + 1:
            lines.append("...")
            kind = ""
        if units[i].kind == kind:
            lines[-1] += f" | {texts[i]}"
        else:
            kind = units[i].kind
            lines.append(f"{kind}: {texts[i]}")
        last = i
    if last + 1 < len(units):
        lines.append(f"... {len(units) - last - 1} more")
    return lines


def _cut(text: str, limit: int) -> str:
    text = " ".join(text.split())  # page text stays on its line
    text = text if len(text) <= limit else text[: limit - 1].rstrip() + "\u2026"
    return text.encode("utf-8", "replace").decode("utf-8")  # half of a surrogate pair has no place in a prompt
