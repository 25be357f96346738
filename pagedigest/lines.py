"""The lines of a digest: which nodes have one, and how each is written.

Enters: a `RegionMap`. Leaves: for each node a short line `[id] role 'name' value='...', state=value`, or none: bare
wrappers and texts that their element already says. One node, one line; page text is quoted, so it cannot start a line.
Bare words at the end are marks: `clickable` (no control by its role, yet it answers to clicks), `hidden` (people cannot
see it), `name_unseen` (they see it, not what its name says).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from region4web.axtree import AXNode, AXTree, StateValue
from region4web.render import FLAG_STATES

__all__ = ["MARKS", "DigestLines", "marked_line", "merged_names", "shortened"]

TOLD_STATES = frozenset(
    {
        "checked",
        "pressed",
        "expanded",
        "selected",
        "disabled",
        "required",
        "focused",
        "hasPopup",
        "invalid",
        "valuetext",
        "busy",
        "readonly",
        "modal",
        "scrollable",
        "rows",
        "items",
        "hint",
    }
)
TOLD_WHEN_FALSE = frozenset({"checked", "pressed", "expanded"})
FIELD_ROLES = frozenset(
    {"textbox", "searchbox", "combobox", "listbox", "spinbutton", "slider", "checkbox", "radio", "switch", "textarea", "Date", "DateTime"}
)
BARE_ROLES = frozenset(
    "generic none presentation list listitem group paragraph section LayoutTable LayoutTableRow LayoutTableCell row rowgroup table grid treegrid cell gridcell "
    "banner navigation main contentinfo complementary region form article figure separator LineBreak SvgRoot image img blockquote DescriptionList term "
    "definition DescriptionListTerm DescriptionListDetail LabelText Iframe RootWebArea emphasis strong code time status alert log search".split()
)
"""Roles that say nothing without a name, a value or a state."""
MARKS = frozenset({"clickable", "hidden", "name_unseen"})
CONTROL_ROLES = FIELD_ROLES | frozenset("button link option menuitem menuitemcheckbox menuitemradio tab treeitem".split())
"""Roles of which one knows that they answer to clicks."""
POPUP_ROLES = frozenset({"dialog", "listbox", "menu", "tree", "grid"})
_VALUE = re.compile(r"[^A-Za-z]{1,16}")
"""A number, price or date: it means nothing without its caption."""
MERGED_TEXT_LIMIT = 60
"""Longest text, in characters, that is told as the name of the nameless element around it."""


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, the last one `…` where something is left out."""
    return text if len(text) <= limit else text[: max(1, limit - 1)].rstrip() + "…"


def marked_line(line: str, node: AXNode) -> str:
    """The node's line with its marks."""
    if node.clickable and node.role not in CONTROL_ROLES and node.role != "StaticText":
        line += ", clickable"
    if not node.visible:
        return f"{line}, hidden"
    return f"{line}, name_unseen" if node.states and node.state("name_unseen") is True else line


def merged_names(tree: AXTree) -> dict[int, str]:
    """Names of nameless elements that hold one short text which has no id of its own, by node index."""
    names: dict[int, str] = {}
    end = tree.end.tolist()
    # The text in a clickable wrapper may have an id: clicking it is clicking the wrapper.
    for i, node in enumerate(tree.nodes):
        if node.name or not node.addressable or node.role in FIELD_ROLES or not 2 <= end[i] - i <= 4:
            continue
        inside = tree.nodes[i + 1 : end[i]]
        wrapper = node.clickable and node.role == "generic"
        if any(below.addressable and not (wrapper and below.role == "StaticText") for below in inside):
            continue
        text = " ".join(below.name for below in inside if below.name)
        if text and len(text) <= MERGED_TEXT_LIMIT:
            names[i] = text
    return names


class DigestLines:
    """Lines of a tree's nodes for one digest.

    `printable[i]`: whether node i has a line. `label[i]`: index of the node whose line tells a look-alike or nameless
    node i apart (the text before a field, the first text of a row), -1 when none is needed.
    """

    def __init__(self, tree: AXTree, *, hidden: Collection[int] = (), with_addresses: bool = False) -> None:
        self.tree = tree
        self._with_addresses = with_addresses
        self.merged = merged_names(tree)
        covered = self._covered()
        nodes = tree.nodes
        hidden_nodes = frozenset(hidden)
        self.printable = [
            i not in hidden_nodes and not covered[i] and (i in self.merged or not _is_bare(node)) for i, node in enumerate(nodes)
        ]
        self.printable[0] = False
        self.label = self._labels()
        self._twins = self._link_twins()
        self._trigger = self._triggers()

    def line(self, i: int, limit: int) -> str:
        """Node i's line without indentation; name and value of at most `limit` characters."""
        node = self.tree.nodes[i]
        name = self.merged.get(i, node.name)
        parts = [f"[{node.id}] {node.role}" if node.addressable else node.role]
        parts.append(f" {shortened(name, limit)!r}")
        if node.value is not None and node.value != "" and node.value != node.name:
            parts.append(f" value={_quoted(node.value, limit)}")
        for key, state in node.states:
            if key in TOLD_STATES and (told := _told(key, state)):
                parts.append(f", {told}")
        if i in self._trigger:
            parts.append(f", popup_of={self._trigger[i]!r}")
        if node.url and (self._with_addresses or i in self._twins) and node.role == "link":
            parts.append(f", url={shortened(_path(node.url), 60)!r}")
        return marked_line("".join(parts), node)

    def _covered(self) -> list[bool]:
        """Texts that the line of the element around them says."""
        tree = self.tree
        covered = [False] * len(tree)
        parent = tree.parent.tolist()
        end = tree.end.tolist()
        for i in self.merged:
            covered[i + 1 : end[i]] = [True] * (end[i] - i - 1)
        for i in range(1, len(covered)):
            node, above = tree.nodes[i], tree.nodes[parent[i]]
            if node.role != "StaticText":
                continue
            covered[i] = covered[i] or node.name == str(above.value) or (not node.addressable and node.name in above.name)
        return covered

    def _labels(self) -> list[int]:
        tree = self.tree
        nodes, parent, end = tree.nodes, tree.parent.tolist(), tree.end.tolist()
        counts: dict[tuple[str, str], int] = {}
        for i, node in enumerate(nodes):
            key = (node.role, self.merged.get(i, node.name))
            counts[key] = counts.get(key, 0) + 1
        label = [-1] * len(nodes)
        last = -1
        row_text: dict[int, int] = {}
        row = [-1] * len(nodes)
        for i, node in enumerate(nodes):
            name = self.merged.get(i, node.name)
            if i:
                row[i] = parent[i] if nodes[parent[i]].role in ("row", "listitem", "article", "LayoutTableRow") else row[parent[i]]
            if name and self.printable[i] and row[i] >= 0:
                row_text.setdefault(row[i], i)
            if self.printable[i] and (node.role != "StaticText" or _VALUE.fullmatch(name)):
                if not name and node.role in FIELD_ROLES:
                    label[i] = last
                elif (
                    (counts[node.role, name] > 1 or _VALUE.fullmatch(name))
                    and row[i] >= 0
                    and (first := row_text.get(row[i], -1)) != i
                    and first >= 0
                ):
                    label[i] = first
                elif counts[node.role, name] > 1 and last >= 0 and node.role in FIELD_ROLES:
                    label[i] = last
            if name and self.printable[i] and node.role not in FIELD_ROLES and end[i] - i <= 3:
                last = i
        return label

    def _triggers(self) -> dict[int, str]:
        """Ids of the elements that control a list, menu or dialog which stands elsewhere in the tree, by the node it is."""
        found: dict[int, str] = {}
        for i, node in enumerate(self.tree.nodes):
            if not (node.states and node.addressable and isinstance(keys := node.state("controls"), str)):
                continue
            for key in keys.split():
                k = self.tree.index_of.get(key, -1)
                if k >= 0 and self.tree.nodes[k].role in POPUP_ROLES and not i <= k < self.tree.end[i]:
                    found.setdefault(k, node.id)
        return found

    def _link_twins(self) -> frozenset[int]:
        """Links that share their name with a link to another address, and that no row's text tells apart."""
        places: dict[str, list[int]] = {}
        for i, node in enumerate(self.tree.nodes):
            if node.role == "link" and node.url:
                places.setdefault(node.name, []).append(i)
        twins: set[int] = set()
        for group in places.values():
            if len(group) > 1 and len({self.tree.nodes[i].url for i in group}) > 1:
                twins.update(i for i in group if self.label[i] < 0)
        return frozenset(twins)


def _is_bare(node: AXNode) -> bool:
    if node.name or (node.value is not None and node.value != ""):
        return False
    return node.role == "StaticText" or (
        node.role in BARE_ROLES and not node.clickable and not any(key in TOLD_STATES and _told(key, state) for key, state in node.states)
    )


def _told(key: str, state: StateValue) -> str:
    if state in (False, "false", "") and key not in TOLD_WHEN_FALSE:
        return ""
    if state is True and key in FLAG_STATES:
        return key
    return f"{key}={_quoted(state, 60)}"


def _quoted(value: StateValue, limit: int) -> str:
    return repr(shortened(value, limit) if isinstance(value, str) else value)


def _path(url: str) -> str:
    """Path, query and fragment of an address; the address itself where it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    tail = parts.path + (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")
    return tail or url
