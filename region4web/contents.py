"""What a region holds, as a reader would list it: its units in reading order.

Enters: a partition. Leaves: for each region the headings, links, buttons, fields and texts it owns, each text once
(a name that repeats the text around it is not listed again), the options of a select box folded into its field.
Knows nothing of what the region is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from region4web.axtree import AXNode
from region4web.regions import Partition, Region

__all__ = ["FIELD_KINDS", "Unit", "region_units", "units_of_regions"]

KIND_OF_ROLE = {
    "heading": "heading",
    "link": "link",
    "button": "button",
    "menuitem": "link",
    "menuitemcheckbox": "check",
    "menuitemradio": "radio",
    "tab": "tab",
    "textbox": "field",
    "searchbox": "field",
    "spinbutton": "field",
    "slider": "field",
    "combobox": "select",
    "listbox": "select",
    "PopUpButton": "select",
    "checkbox": "check",
    "switch": "check",
    "radio": "radio",
    "option": "option",
    "menuListOption": "option",
    "image": "image",
    "img": "image",
    "figure": "image",
    "StaticText": "text",
    "paragraph": "text",
    "time": "text",
    "alert": "alert",
    "status": "alert",
    "log": "alert",
    "RootWebArea": "title",
    "WebArea": "title",
    "columnheader": "column",
    "rowheader": "text",
    "cell": "text",
    "gridcell": "text",
    "LayoutTableCell": "text",
    "caption": "heading",
    "figcaption": "text",
    "Legend": "heading",
    "term": "text",
    "definition": "text",
    "DisclosureTriangle": "button",
    "Date": "field",
    "DateTime": "field",
    "InputTime": "field",
    "ColorWell": "field",
    "progressbar": "text",
    "meter": "text",
}
LABEL_ROLES = frozenset(
    {
        "region",
        "navigation",
        "banner",
        "contentinfo",
        "complementary",
        "form",
        "search",
        "main",
        "dialog",
        "alertdialog",
        "group",
        "radiogroup",
    }
    | {"list", "table", "grid", "article", "toolbar", "tablist", "menu", "menubar", "Iframe", "tree", "feed", "directory"}
)
ROW_ROLES = frozenset({"row", "LayoutTableRow", "listitem", "LabelText", "tabpanel", "treeitem"})
FIELD_KINDS = frozenset({"field", "select", "check", "radio"})
CONTROL_KINDS = FIELD_KINDS | {"link", "button", "tab"}
CELL_ROLES = frozenset({"cell", "gridcell", "LayoutTableCell", "rowheader", "columnheader"})


@dataclass(slots=True)
class Unit:
    """One thing that a reader sees: `kind` is heading, link, button, field, select, check, radio, tab, text, image, ...

    `text` is its name, `node` its index. `options` are the names of a select's options, `selected` those chosen.
    """

    kind: str
    text: str
    node: int
    ax: AXNode
    inside: int = -1
    """Index of the heading unit it stands under, in the same region; -1 for none."""
    options: list[str] = field(default_factory=list)
    selected: list[str] = field(default_factory=list)


def units_of_regions(partition: Partition) -> Iterator[list[Unit]]:
    """The units of each region, in page order."""
    for region in partition.regions:
        yield region_units(partition, region)


def region_units(partition: Partition, region: Region) -> list[Unit]:
    """The units of one region, in reading order."""
    tree = partition.tree
    nodes, end = tree.nodes, tree.end
    units: list[Unit] = []
    around: list[tuple[int, str]] = []  # (end of subtree, text said) of the units that the walk is inside of
    select_end, select = -1, None
    for i in region.members.tolist():
        node = nodes[i]
        while around and around[-1][0] <= i:
            around.pop()
        if i >= select_end:
            select = None
        role, name = node.role, node.name
        kind = KIND_OF_ROLE.get(role)
        if kind == "option" and select is not None:
            select.options.append(name)
            if node.state("selected") is True:
                select.selected.append(name)
            continue
        if kind is None:
            if role in LABEL_ROLES:
                kind = "label"
            elif role in ROW_ROLES:
                kind = "text" if end[i] == i + 1 else None
            elif name:
                kind = "text"
        if kind is None:
            continue
        if role in CELL_ROLES and name and end[i] > i + 1 and _said_below(nodes, i, int(end[i]), name):
            continue
        if not name and kind not in CONTROL_KINDS:
            continue
        repeated = kind not in FIELD_KINDS and any(name in said for _, said in around)
        if repeated and (kind not in CONTROL_KINDS or any(name == said for _, said in around)):
            continue
        unit = Unit(kind, name, i, node)
        units.append(unit)
        if kind == "select":
            select, select_end = unit, int(end[i])
        if name and end[i] > i + 1 and kind != "title" and kind != "label":
            around.append((int(end[i]), name))
    return _without_repeats(units)


def _said_below(nodes: tuple[AXNode, ...], i: int, end: int, name: str) -> bool:
    """Whether the named elements below cell i say most of its name."""
    said, last = 0, ""
    for j in range(i + 1, end):
        text = nodes[j].name
        if text and text not in last:
            said += len(text)
            last = text
            if said * 10 >= len(name) * 6:
                return True
    return False


def _without_repeats(units: list[Unit]) -> list[Unit]:
    """Drop texts that label a field beside them, and texts or images said just before; note the heading above each."""
    fields = {unit.text for unit in units if unit.kind in FIELD_KINDS and unit.text}
    kept: list[Unit] = []
    heading = -1
    for unit in units:
        if unit.kind in ("text", "image", "label"):
            if unit.text in fields or unit.text.rstrip(":* ") in fields:
                continue
            if kept and unit.text == kept[-1].text:
                continue
        unit.inside = heading
        if unit.kind == "heading":
            heading = len(kept)
        kept.append(unit)
    return kept
