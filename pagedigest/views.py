"""What an agent asks to see beyond the digest: `view_all`, `view_region`, `find`, `read`.

Enters: a page's current tree with the region of each node, and a `ViewCommand`. Leaves: pages of lines with the ids they
list; no page is longer than its limit in tokens, and each says how to read on. Names are printed whole here; addresses
only where one region is asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pagedigest.changes import PLAIN_ROLES
from pagedigest.lines import MARKS, marked_line
from pagedigest.tokens import TokenCounter
from region4web.axtree import AXNode, AXTree
from region4web.regions import RegionMap
from region4web.render import indentation, node_line, plain_text

__all__ = ["ViewCommand", "ViewLine", "ViewPage", "found_lines", "paginate", "parse_command", "region_lines"]

NAME_LIMIT = 4000
"""Characters of one name that a page of a view prints at most."""

CommandName = Literal["view_all", "view_region", "find", "read"]
_NAMES: tuple[CommandName, ...] = ("view_all", "view_region", "find", "read")


@dataclass(frozen=True)
class ViewCommand:
    """`view_region('R4', page=2)` as a value: `argument` is the region, the text or the address; `page` counts from 1."""

    name: CommandName
    argument: str = ""
    page: int = 1

    def call(self, page: int) -> str:
        """How the agent asks for another page of the same."""
        arguments = [repr(self.argument)] if self.argument else []
        return f"{self.name}({', '.join([*arguments, f'page={page}'])})"


@dataclass(frozen=True)
class ViewLine:
    """One line; `id` is what it lists in brackets. `header` is the region's line, repeated where a page starts inside."""

    text: str
    id: str | None = None
    header: str = ""


@dataclass(frozen=True)
class ViewPage:
    """One page of a view: `number` of `count`."""

    lines: tuple[str, ...]
    ids: tuple[str, ...]
    number: int
    count: int


def parse_command(text: str) -> ViewCommand | None:
    """The view that an action's text asks for; None when it is another action. Raises ValueError on bad arguments."""
    text = text.strip().strip("`").strip()
    if text in ("view_all", "view_all()"):
        return ViewCommand("view_all")
    if not text.startswith(_NAMES):
        return None
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _NAMES):
        return None
    name: CommandName = call.func.id
    try:
        values = [ast.literal_eval(argument) for argument in call.args]
        keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise ValueError(f"{text[:80]}: arguments must be plain values") from error
    argument, page = "", keywords.pop("page", 1)
    if name == "view_all":
        page = values.pop(0) if values else page
    elif values:
        argument = str(values.pop(0))
        page = values.pop(0) if values else page
    else:
        named = [key for key in keywords if key is not None]
        argument = str(keywords.pop(named[0])) if named else ""
    if keywords or values or not isinstance(page, int) or page < 1 or (name != "view_all" and not argument.strip()):
        usage = {
            "view_all": "view_all(page=1)",
            "view_region": "view_region('R4', page=1)",
            "find": "find('text')",
            "read": "read('p2.s5.R3')",
        }
        raise ValueError(f"{text[:80]!r} was not understood: use {usage[name]}")
    return ViewCommand(name, argument.strip(), page)


def region_lines(
    tree: AXTree, region_of: Sequence[int], region_map: RegionMap, wanted: Sequence[int], *, addresses: bool
) -> Iterator[ViewLine]:
    """Every node of the regions `wanted`, under their purposes; plain wrappers left out."""
    write: Callable[[AXNode], str] = _whole_line if addresses else _line
    members: dict[int, list[int]] = {number: [] for number in wanted}
    for j in range(len(tree)):
        if region_of[j] in members:
            members[region_of[j]].append(j)
    parent = tree.parent.tolist()
    for number in wanted:
        header = region_header(region_map, number)
        yield ViewLine(header)
        depth: dict[int, int] = {}
        for j in members[number]:
            node = tree.nodes[j]
            at = depth.get(parent[j], 0)
            if j == 0 or (node.role in PLAIN_ROLES and not node.name and not node.clickable):
                depth[j] = at
            else:
                depth[j] = at + 1
                yield ViewLine(indentation(at + 1) + write(node), node.id if node.addressable else None, header)


def found_lines(tree: AXTree, region_of: Sequence[int], region_map: RegionMap, text: str) -> Iterator[ViewLine]:
    """Nodes whose name, value or description holds `text`, whatever the case, under their regions' purposes."""
    needle = text.casefold()
    hits: dict[int, list[int]] = {}
    for j, node in enumerate(tree.nodes):
        if j and any(needle in str(part).casefold() for part in (node.name, node.value, node.description) if part is not None):
            hits.setdefault(region_of[j], []).append(j)
    for number in sorted(hits):
        header = region_header(region_map, number)
        yield ViewLine(header)
        for j in hits[number]:
            node = tree.nodes[j]
            yield ViewLine("\t" + _whole_line(node), node.id if node.addressable else None, header)


def paginate(lines: Sequence[ViewLine], *, counter: TokenCounter, limit_tokens: int, page: int) -> ViewPage:
    """Page `page` of the lines; a number beyond the last gives the last. A line longer than a page is cut short."""
    starts = [0]
    cut: dict[int, str] = {}
    used = 0
    repeated: dict[str, int] = {"": 0}
    for k, line in enumerate(lines):
        if line.header not in repeated:
            repeated[line.header] = counter.count(f"{line.header} | continued\n")
        cost = counter.count(line.text + "\n")
        if cost > limit_tokens - repeated[line.header]:
            cut[k] = _cut(line.text, counter, limit_tokens - repeated[line.header])
            cost = counter.count(cut[k] + "\n")
        if used and used + cost > limit_tokens:
            starts.append(k)
            used = repeated[line.header]
        used += cost
    count = len(starts)
    number = min(page, count)
    first = starts[number - 1]
    chosen = range(first, starts[number] if number < count else len(lines))
    texts = [cut.get(k, lines[k].text) for k in chosen]
    if chosen and lines[first].header and number > 1:
        texts.insert(0, f"{lines[first].header} | continued")
    return ViewPage(tuple(texts), tuple(key for k in chosen if (key := lines[k].id) is not None), number, count)


def _cut(text: str, counter: TokenCounter, limit_tokens: int) -> str:
    while counter.count(f"{text}\u2026\n") > limit_tokens and len(text) > 20:
        text = text[: len(text) * 3 // 4]
    return f"{text}\u2026"


def region_header(region_map: RegionMap, number: int) -> str:
    """`R3 | Table of customer orders`."""
    purpose = plain_text(region_map.abstractions[number].purpose)[:120]
    return f"R{number} | {purpose}" if purpose else f"R{number}"


def _line(node: AXNode) -> str:
    return marked_line(node_line(_shortened(node, None)), node)


def _whole_line(node: AXNode) -> str:
    return marked_line(node_line(_shortened(node, node.url)), node)


def _shortened(node: AXNode, url: str | None) -> AXNode:
    name = node.name if len(node.name) <= NAME_LIMIT else f"{node.name[:NAME_LIMIT]}\u2026 ({len(node.name)} characters)"
    states = tuple(state for state in node.states if state[0] not in MARKS)
    return AXNode(node.id, node.role, name, node.value, states, url, addressable=node.addressable)
