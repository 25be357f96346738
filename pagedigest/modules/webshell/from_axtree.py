"""WebCompiler over an accessibility tree: what every plug-in has, live ids included (Web$hell, section 4.3).

Enters: a tree. Leaves: a `CompiledPage`. Deterministic, no model, one pass. Column and row spans are not in the
accessibility tree; `from_html` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable

from pagedigest.modules.webshell.contract import ActionObject, CompiledPage, Field, TableObject, TextObject
from region4web.axtree import AXTree

__all__ = ["compile_axtree"]

GROUP_ROLES = {
    "banner": "header",
    "navigation": "navigation",
    "contentinfo": "footer",
    "complementary": "aside",
    "dialog": "dialog",
    "alertdialog": "dialog",
    "sectionheader": "header",
    "sectionfooter": "footer",
}
TABLE_ROLES = frozenset({"table", "grid", "treegrid"})
ROW_ROLES = frozenset({"row", "LayoutTableRow"})
CELL_ROLES = frozenset({"cell", "gridcell", "rowheader", "columnheader", "LayoutTableCell"})
FIELD_ROLES = frozenset(
    {
        "textbox",
        "searchbox",
        "combobox",
        "listbox",
        "checkbox",
        "radio",
        "spinbutton",
        "slider",
        "switch",
        "Date",
        "DateTime",
        "InputTime",
        "ColorWell",
    }
)
PRESS_ROLES = frozenset(
    {"button", "link", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem", "DisclosureTriangle", "popUpButton"}
)
OPTION_ROLES = frozenset({"option", "MenuListOption", "menuitemradio"})
FORM_TABLE_ROWS = 8
"""A table of more rows inside a form lists records; one of fewer may lay out the form's fields."""
CONSTRAINT_STATES = (
    "required",
    "disabled",
    "checked",
    "selected",
    "pressed",
    "expanded",
    "valuemin",
    "valuemax",
    "autocomplete",
    "hasPopup",
)


class _Section:
    def __init__(self, address: str, heading: str, level: int, group: str) -> None:
        self.address, self.heading, self.level, self.group = address, heading, level, group
        self.words: list[str] = []
        self.associations: list[str] = []


def compile_axtree(tree: AXTree, address: str = "p1") -> CompiledPage:
    """Compile one page state under `address`."""
    compiler = _Compiler(tree, address)
    compiler.run()
    texts = tuple(
        TextObject(s.address, s.heading, s.level, s.group, " ".join(s.words), tuple(s.associations))
        for s in compiler.sections
        if s.words or s.associations or s.heading
    )
    return CompiledPage(address, tree.url, tree.title, texts, tuple(compiler.tables), tuple(compiler.actions))


class _Compiler:
    def __init__(self, tree: AXTree, address: str) -> None:
        self.tree, self.address = tree, address
        self.sections: list[_Section] = []
        self.tables: list[TableObject] = []
        self.actions: list[ActionObject] = []
        self.group_of = self._groups()

    def run(self) -> None:
        tree = self.tree
        self._open(tree.title, 1, "main")
        i = 1
        while i < len(tree):
            node = tree.nodes[i]
            if self.group_of[i] != self.sections[-1].group:
                self._open("", 1, self.group_of[i])
            if node.role == "heading":
                self._open(node.name or self._text(tree.subtree(i)), int(tree.depth[i]), self.group_of[i])
                for j in tree.subtree(i):
                    if tree.nodes[j].role in PRESS_ROLES:
                        self._add_action("", (self._field(j),))
                i = int(tree.end[i])
            elif node.role in TABLE_ROLES and self._add_table(i):
                i = int(tree.end[i])
            elif node.role in ("form", "search"):
                self._add_form(i)
                i += 1
            else:
                self._visit(i)
                i += int(tree.end[i]) - i if node.role in FIELD_ROLES | PRESS_ROLES else 1

    def _visit(self, i: int) -> None:
        node = self.tree.nodes[i]
        if node.role in FIELD_ROLES or node.role in PRESS_ROLES or node.clickable:
            if not self._forms[i]:
                self._add_action("", (self._field(i),))
        elif node.role in ("StaticText", "image", "code", "time") and node.name:
            self.sections[-1].words.append(node.name)

    def _open(self, heading: str, level: int, group: str) -> None:
        self.sections.append(_Section(f"{self.address}.t{len(self.sections) + 1}", heading, level, group))

    def _groups(self) -> list[str]:
        group = ["main"] * len(self.tree)
        self._forms = [False] * len(self.tree)
        for i, p in enumerate(self.tree.parent.tolist()):
            if i:
                role = self.tree.nodes[i].role
                group[i] = GROUP_ROLES.get(role, group[p])
                self._forms[i] = self._forms[p] or self.tree.nodes[p].role in ("form", "search")
        return group

    def _add_action(self, purpose: str, fields: tuple[Field, ...]) -> None:
        action = ActionObject(f"{self.address}.a{len(self.actions) + 1}", purpose, fields, self.sections[-1].address)
        self.actions.append(action)
        self.sections[-1].associations.append(action.address)

    def _add_form(self, i: int) -> None:
        """A form with its fields and buttons as one action; a form inside another belongs to the outer one."""
        if self._forms[i]:
            return
        tree = self.tree
        fields: list[Field] = []
        j = i + 1
        while j < tree.end[i]:
            if tree.nodes[j].role in TABLE_ROLES and self._rows(j) > FORM_TABLE_ROWS:
                j = int(tree.end[j])  # a list of records inside a form: its controls stand in the table's rows
            elif tree.nodes[j].role in FIELD_ROLES | PRESS_ROLES or tree.nodes[j].clickable:
                fields.append(self._field(j))
                j = int(tree.end[j])
            else:
                j += 1
        if fields:
            submit = next((f.label for f in reversed(fields) if f.role == "button"), "")
            self._add_action(tree.nodes[i].name or submit or self.sections[-1].heading, tuple(fields))

    def _field(self, i: int) -> Field:
        tree = self.tree
        node = tree.nodes[i]
        options = tuple(
            tree.nodes[j].name + (" (selected)" if tree.nodes[j].state("selected") is True else "")
            for j in tree.subtree(i)
            if tree.nodes[j].role in OPTION_ROLES and j != i
        )
        constraints = tuple(
            name if value is True else f"{name}={value}"
            for name in CONSTRAINT_STATES
            if (value := node.state(name)) not in (None, False, "false", "")
        )
        label = node.name or self._text(j for j in tree.subtree(i) if j != i and tree.nodes[j].role not in OPTION_ROLES) or node.description
        value = "" if node.value is None else str(node.value)
        return Field(node.id if node.addressable else None, node.role, label[:200], value[:200], options, constraints)

    def _add_table(self, i: int) -> bool:
        tree = self.tree
        rows = [j for j in tree.subtree(i) if tree.nodes[j].role in ROW_ROLES]
        columns: list[str] = []
        labels: list[str] = []
        cells: list[tuple[str, ...]] = []
        actions: list[tuple[Field, ...]] = []
        header_controls: list[Field] = []
        for row in rows:
            heads: list[str] = []
            values: list[str] = []
            label = ""
            for j in tree.subtree(row):
                if tree.nodes[j].role not in CELL_ROLES or self._row_of(j) != row:
                    continue
                text = self._text(tree.subtree(j)) or tree.nodes[j].name
                if tree.nodes[j].role == "columnheader":
                    heads.append(text)
                elif tree.nodes[j].role == "rowheader" and not label:
                    label = text
                    values.append(text)
                else:
                    values.append(text)
            if heads and not values:
                columns = columns or heads
                header_controls.extend(self._row_controls(row))
                continue
            if values:
                labels.append(label or values[0])
                cells.append(tuple(values))
                actions.append(tuple(self._row_controls(row)))
        if not cells:
            return False
        table = TableObject(
            f"{self.address}.tab{len(self.tables) + 1}",
            tree.nodes[i].name or self.sections[-1].heading,
            tuple(columns),
            tuple(labels),
            tuple(cells),
            tuple(actions),
            self.sections[-1].address,
        )
        self.tables.append(table)
        self.sections[-1].associations.append(table.address)
        if header_controls and (not self._forms[i] or len(rows) > FORM_TABLE_ROWS):
            self._add_action(f"columns of {table.caption}".strip(), tuple(header_controls))
        return True

    def _rows(self, i: int) -> int:
        return sum(self.tree.nodes[j].role in ROW_ROLES for j in self.tree.subtree(i))

    def _row_of(self, j: int) -> int:
        for a in self.tree.ancestors(j):
            if self.tree.nodes[a].role in ROW_ROLES:
                return a
        return -1

    def _row_controls(self, row: int) -> Iterable[Field]:
        tree = self.tree
        for j in tree.subtree(row):
            if tree.nodes[j].role in FIELD_ROLES | PRESS_ROLES or tree.nodes[j].clickable:
                yield self._field(j)

    def _text(self, indices: Iterable[int]) -> str:
        """Names below, each once where a name repeats the one before."""
        words: list[str] = []
        for j in indices:
            node = self.tree.nodes[j]
            if node.name and node.role not in CELL_ROLES and (not words or node.name not in words[-1]):
                words.append(node.name)
        return " ".join(words)
