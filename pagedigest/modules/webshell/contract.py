"""WebContract: every object of a page has an address, a value and associations (Web$hell, section 4.2 and C.1).

Enters: what a compiler found. Leaves: a `CompiledPage` of text sections, tables, actions and facts, each under a short
address (`p2.s5.t3`), with its table of contents, and the operations read, lookup and grep over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["LONG_TEXT", "ActionObject", "CompiledPage", "Fact", "Field", "TableObject", "TextObject"]

LONG_TEXT = 2_000
"""Characters from which a text is stored apart and read by range (section C.2)."""


@dataclass(frozen=True)
class Field:
    """One control of an action. `id` is what the agent acts with; None where the source has no ids."""

    id: str | None
    role: str
    label: str
    value: str = ""
    options: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    def line(self, option_limit: int = 12) -> str:
        """`[41] combobox 'Status' = 'Pending' (required) options 'A', 'B', 3 more`."""
        parts = [f"[{self.id}] " if self.id is not None else "", self.role, f" {self.label!r}"]
        if self.value:
            parts.append(f" = {self.value!r}")
        if self.constraints:
            parts.append(f" ({', '.join(self.constraints)})")
        if self.options:
            more = len(self.options) - option_limit
            parts.append(" options " + ", ".join(repr(o) for o in self.options[:option_limit]) + (f", {more} more" if more > 0 else ""))
        return "".join(parts)


@dataclass(frozen=True)
class TextObject:
    """A section: its heading, its text, and the objects that stand in it."""

    address: str
    heading: str
    level: int
    group: str
    text: str
    associations: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableObject:
    """A table as cells with their labels: `cells[r][c]` under `columns[c]` beside `rows[r]`, spans repeated."""

    address: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    actions: tuple[tuple[Field, ...], ...] = ()
    section: str = ""

    def lookup(self, row: str, column: str) -> list[tuple[str, str, str]]:
        """Cells (row label, column label, value) whose labels contain the words asked for; '' matches all."""
        row, column = row.casefold(), column.casefold()
        found = []
        for r, values in enumerate(self.cells):
            if row and row not in self.rows[r].casefold() and not any(row in v.casefold() for v in values):
                continue
            for c, value in enumerate(values):
                label = self.columns[c] if c < len(self.columns) else f"column {c + 1}"
                if not column or column in label.casefold():
                    found.append((self.rows[r], label, value))
        return found


@dataclass(frozen=True)
class ActionObject:
    """Controls that are used together: a form with its submit, or one control that stands alone."""

    address: str
    purpose: str
    fields: tuple[Field, ...]
    section: str = ""


@dataclass(frozen=True)
class Fact:
    """A piece of structured data embedded in the page (JSON-LD, microdata), flattened to a path."""

    address: str
    path: str
    value: str


@dataclass(frozen=True)
class CompiledPage:
    """One state of one page. Addresses of all objects start with `address`."""

    address: str
    url: str
    title: str
    texts: tuple[TextObject, ...]
    tables: tuple[TableObject, ...]
    actions: tuple[ActionObject, ...]
    facts: tuple[Fact, ...] = ()

    def contents(self) -> str:
        """The table of contents: what the agent reads first. Lists every control, and texts and tables by size."""
        tables = {t.address: t for t in self.tables}
        actions = {a.address: a for a in self.actions}
        lines = [f"PAGE {self.address} {self.title!r} {self.url}"]
        group = ""
        for text in self.texts:
            if text.group != group:
                group = text.group
                lines.append(f"GROUP {group}")
            size = f" {len(text.text)} characters" if text.text else ""
            lines.append(f"{text.address} section {text.heading!r}{size}")
            if text.text and len(text.text) <= 160:
                lines.append(f"  text {text.text!r}")
            for address in text.associations:
                if table := tables.get(address):
                    columns = ", ".join(repr(c) for c in table.columns[:12])
                    lines.append(f"  {address} table {table.caption!r} {len(table.cells)} rows; columns {columns}")
                elif action := actions.get(address):
                    lines.extend(self._action_lines(action))
        if self.facts:
            lines.append(f"{self.address}.f facts {len(self.facts)}: " + ", ".join(repr(f.path) for f in self.facts[:12]))
        return "\n".join(lines)

    def read(self, address: str, start: int = 0, length: int = LONG_TEXT) -> str:
        """The value of an object; of a long text the range asked for. Raises KeyError for an unknown address."""
        for text in self.texts:
            if text.address == address:
                part = text.text[start : start + length]
                rest = len(text.text) - start - len(part)
                more = f"\n({rest} more characters: read({address!r}, {start + len(part)}))" if rest > 0 else ""
                return f"{address} section {text.heading!r} characters {start}..{start + len(part)} of {len(text.text)}\n  {part!r}{more}"
        for table in self.tables:
            if table.address == address:
                return "\n".join(self._table_lines(table, start, length))
        for action in self.actions:
            if action.address == address:
                return "\n".join(self._action_lines(action, option_limit=1_000))
        facts = [f for f in self.facts if f.address == address or address == f"{self.address}.f"]
        if facts:
            return "\n".join(f"{f.address} {f.path!r} = {f.value!r}" for f in facts)
        raise KeyError(address)

    def grep(self, pattern: str, limit: int = 40) -> list[tuple[str, str]]:
        """(address, line) of everything that matches a regular expression, else the literal text, caseless."""
        try:
            expression = re.compile(pattern, re.IGNORECASE)
        except re.error:
            expression = re.compile(re.escape(pattern), re.IGNORECASE)
        found: list[tuple[str, str]] = []
        for address, line in self._lines():
            if expression.search(line):
                found.append((address, line))
                if len(found) == limit:
                    break
        return found

    def _lines(self) -> Iterator[tuple[str, str]]:
        for text in self.texts:
            for piece in re.split(r"(?<=[.!?\u3002])\s+", f"{text.heading}. {text.text}"):
                if piece.strip(" ."):
                    yield text.address, repr(piece[:300])
        for table in self.tables:
            for r, values in enumerate(table.cells):
                controls = " ".join(f.line() for f in table.actions[r]) if r < len(table.actions) else ""
                yield table.address, " | ".join(repr(v) for v in (table.rows[r], *values) if v) + (f" {controls}" if controls else "")
        for action in self.actions:
            for field in action.fields:
                yield action.address, field.line(1_000)
        for fact in self.facts:
            yield fact.address, f"{fact.path!r} = {fact.value!r}"

    @staticmethod
    def _action_lines(action: ActionObject, option_limit: int = 12) -> list[str]:
        if len(action.fields) == 1:
            return [f"  {action.address} {action.fields[0].line(option_limit)}"]
        return [f"  {action.address} form {action.purpose!r}", *(f"    {field.line(option_limit)}" for field in action.fields)]

    @staticmethod
    def _table_lines(table: TableObject, start: int, length: int) -> list[str]:
        lines = [f"{table.address} table {table.caption!r} columns {', '.join(repr(c) for c in table.columns)}"]
        used = 0
        for r in range(start, len(table.cells)):
            controls = " ".join(f.line() for f in table.actions[r]) if r < len(table.actions) else ""
            line = f"  row {r} {table.rows[r]!r}: " + " | ".join(repr(v) for v in table.cells[r]) + (f" {controls}" if controls else "")
            if used and used + len(line) > length:
                lines.append(f"({len(table.cells) - r} more rows: read({table.address!r}, {r}))")
                break
            used += len(line)
            lines.append(line)
        return lines
