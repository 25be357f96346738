"""WebCompiler over HTML: sections, tables with spans, forms with their submit, embedded data (Web$hell, section C.2).

Enters: HTML text. Leaves: a `CompiledPage`. Deterministic, no model. Element ids are BrowserGym's `bid` attributes where
the HTML carries them. Needs lxml (extra `webshell`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pagedigest.modules.webshell.contract import ActionObject, CompiledPage, Fact, Field, TableObject, TextObject
from region4web.errors import MissingExtraError

__all__ = ["compile_html"]

_SPACE = re.compile(r"\s+")
_SKIPPED = frozenset({"script", "style", "template", "noscript", "head", "svg"})
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_GROUPS = {"nav": "navigation", "header": "header", "footer": "footer", "aside": "aside", "dialog": "dialog"}
_ROLE_GROUPS = {"navigation": "navigation", "banner": "header", "contentinfo": "footer", "complementary": "aside", "dialog": "dialog"}
_INPUT_ROLES = {"checkbox": "checkbox", "radio": "radio", "submit": "button", "button": "button", "reset": "button", "image": "button",
                "range": "slider", "number": "spinbutton", "search": "searchbox"}  # fmt: skip
_CONSTRAINTS = (
    "required",
    "disabled",
    "readonly",
    "checked",
    "multiple",
    "min",
    "max",
    "maxlength",
    "minlength",
    "pattern",
    "accept",
    "step",
)
SPAN_LIMIT = 1_000
"""Largest colspan or rowspan believed; browsers cap colspan at the same number."""


def compile_html(html: str, url: str = "", address: str = "p1") -> CompiledPage:
    """Compile a page's HTML. Raises MissingExtraError without lxml, ValueError for text that holds no element."""
    try:
        import lxml.etree
        import lxml.html
    except ImportError as error:
        raise MissingExtraError("compiling HTML needs lxml: pip install 'region4web[webshell]'") from error
    parser = lxml.html.HTMLParser(huge_tree=True, encoding="utf-8")
    try:
        root = lxml.html.document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError) as error:
        raise ValueError(f"no HTML element in the {len(html)} characters given: {error}") from error
    compiler = _HTMLCompiler(root, address)
    compiler.run()
    title = _text(root.find(".//title")) if root.find(".//title") is not None else ""
    texts = tuple(
        TextObject(s["address"], s["heading"], s["level"], s["group"], _join(s["words"]), tuple(s["associations"]))
        for s in compiler.sections
        if s["heading"] or s["words"] or s["associations"]
    )
    return CompiledPage(address, url, title, texts, tuple(compiler.tables), tuple(compiler.actions), tuple(_facts(root, address)))


class _HTMLCompiler:
    def __init__(self, root: Any, address: str) -> None:
        self.root, self.address = root, address
        self.sections: list[dict[str, Any]] = []
        self.tables: list[TableObject] = []
        self.actions: list[ActionObject] = []
        self.labels = _labels(root)
        self.handled: set[Any] = set()

    def run(self) -> None:
        self._open("", 1, "main")
        # (element, group, entering); an explicit stack, since real pages nest deeper than Python recurses
        stack: list[tuple[Any, str, bool]] = [(self.root.find("body") if self.root.find("body") is not None else self.root, "main", True)]
        while stack:
            element, group, entering = stack.pop()
            if not entering:
                self._words(element.tail, group)
                continue
            if not isinstance(element.tag, str) or element.tag in _SKIPPED or element.get("hidden") is not None:
                self._words(element.tail, group)
                continue
            inner = _ROLE_GROUPS.get(element.get("role") or "", _GROUPS.get(element.tag, group))
            stack.append((element, group, False))
            if self._consume(element, inner):
                continue
            self._words(element.text, inner)
            stack.extend((child, inner, True) for child in reversed(element))

    def _consume(self, element: Any, group: str) -> bool:
        """Handle an element with a constructor of its own; True when its inside is done with."""
        tag = element.tag
        if tag in _HEADINGS:
            self._open(_text(element), _HEADINGS[tag], group)
            for link in element.iter("a", "button"):
                self._action("", [self._field(link)], group)
            return True
        if tag == "table" and self._table(element, group):
            return True
        if tag == "form":
            fields = [self._field(e) for e in _controls(element)]
            if fields:
                submit = next((f.label for f in fields if f.role == "button"), "")
                self._action(element.get("aria-label") or submit or "form", fields, group)
                self.handled.update(_controls(element))
            return False
        if (
            tag in ("select", "input", "textarea", "button")
            or (tag == "a" and element.get("href"))
            or element.get("onclick")
            or element.get("role") == "button"
        ):
            if element not in self.handled and not (tag == "input" and element.get("type") == "hidden"):
                self._action("", [self._field(element)], group)
            return tag in ("select", "input", "textarea", "button", "a")
        if tag == "img" and element.get("alt"):
            self._words(element.get("alt"), group)
        return tag == "label" and bool(element.get("for"))

    def _open(self, heading: str, level: int, group: str) -> None:
        address = f"{self.address}.t{len(self.sections) + 1}"
        self.sections.append({"address": address, "heading": heading, "level": level, "group": group, "words": [], "associations": []})

    def _section(self, group: str) -> dict[str, Any]:
        if self.sections[-1]["group"] != group:
            self._open("", 1, group)
        return self.sections[-1]

    def _words(self, text: str | None, group: str) -> None:
        if text and (cleaned := _SPACE.sub(" ", text).strip()):
            self._section(group)["words"].append(cleaned)

    def _action(self, purpose: str, fields: list[Field], group: str) -> None:
        section = self._section(group)
        action = ActionObject(f"{self.address}.a{len(self.actions) + 1}", purpose, tuple(fields), section["address"])
        self.actions.append(action)
        section["associations"].append(action.address)

    def _field(self, element: Any) -> Field:
        tag, kind = element.tag, (element.get("type") or "text").lower()
        role = element.get("role") or {"a": "link", "select": "combobox", "textarea": "textbox", "button": "button"}.get(tag, "")
        role = role or (_INPUT_ROLES.get(kind, "textbox") if tag == "input" else "button")
        options: tuple[str, ...] = ()
        value = element.get("value") or ""
        if tag == "select":
            chosen = [o for o in element.iter("option") if o.get("selected") is not None] or list(element.iter("option"))[:1]
            value = ", ".join(_text(o) for o in chosen)
            options = tuple(
                _text(o) + (f" ({o.get('value')})" if o.get("value") not in (None, _text(o)) else "") for o in element.iter("option")
            )
        elif tag == "textarea":
            value = element.text or ""
        elif kind == "password":
            value = "\u2022\u2022\u2022" if value else ""
        label = self.labels.get(element.get("id") or "", "") or element.get("aria-label") or ""
        if not label and tag in ("a", "button"):
            label = _text(element) or element.get("title") or next((i.get("alt") for i in element.iter("img") if i.get("alt")), "")
        if not label and role == "button":
            label, value = value or element.get("alt") or kind, ""
        if not label:
            around = element.getparent()
            while around is not None and around.tag != "label":
                around = around.getparent()
            label = _text(around) if around is not None else element.get("placeholder") or element.get("title") or element.get("name") or ""
        constraints = tuple(n if element.get(n) in ("", n) else f"{n}={element.get(n)}" for n in _CONSTRAINTS if element.get(n) is not None)
        return Field(element.get("bid"), role, label[:200], value[:200], options, constraints)

    def _table(self, element: Any, group: str) -> bool:
        """Cells on a grid, spans repeated in every place they cover (section C.2). A table used for layout is no table."""
        if element.get("role") in ("presentation", "none") or any(True for _ in element.iterdescendants("table")):
            return False
        grid, headers, row_elements = _grid(element)
        if not grid or max(len(row) for row in grid) < 2:
            return False
        head_rows = 0
        while head_rows < len(grid) and all(headers[head_rows]) and headers[head_rows]:
            head_rows += 1
        if head_rows == len(grid):
            return False
        width = max(len(row) for row in grid)
        columns = tuple(
            " / ".join(dict.fromkeys(grid[r][c] for r in range(head_rows) if c < len(grid[r]) and grid[r][c])) for c in range(width)
        )
        labels, cells, actions = [], [], []
        for r in range(head_rows, len(grid)):
            marked = [value for value, is_header in zip(grid[r], headers[r], strict=True) if is_header]
            labels.append(" / ".join(dict.fromkeys(marked)) or (grid[r][0] if grid[r] else ""))
            cells.append(tuple(grid[r]))
            actions.append(tuple(self._field(e) for e in _controls(row_elements[r]) if e not in self.handled))
        caption = element.find("caption")
        section = self._section(group)
        table = TableObject(
            f"{self.address}.tab{len(self.tables) + 1}",
            _text(caption) if caption is not None else section["heading"],
            columns if any(columns) else (),
            tuple(labels),
            tuple(cells),
            tuple(actions),
            section["address"],
        )
        self.tables.append(table)
        section["associations"].append(table.address)
        controls = [self._field(e) for r in range(head_rows) for e in _controls(row_elements[r]) if e not in self.handled]
        if controls:
            self._action(f"columns of {table.caption}".strip(), controls, group)
        return True


def _grid(table: Any) -> tuple[list[list[str]], list[list[bool]], list[Any]]:
    grid: list[list[str]] = []
    headers: list[list[bool]] = []
    rows = list(table.iter("tr"))
    waiting: dict[int, tuple[int, str, bool]] = {}  # column -> rows left, text, header
    for row in rows:
        values: list[str] = []
        marks: list[bool] = []
        cells = [c for c in row if c.tag in ("td", "th")]
        column = 0
        while cells or column in waiting or any(c > column for c in waiting):
            if column in waiting:
                left, text, mark = waiting.pop(column)
                values.append(text)
                marks.append(mark)
                if left > 1:
                    waiting[column] = (left - 1, text, mark)
                column += 1
                continue
            if not cells:
                values.append("")
                marks.append(False)
                column += 1
                continue
            cell = cells.pop(0)
            text, mark = _text(cell), cell.tag == "th"
            down = _span(cell.get("rowspan"))
            for _ in range(_span(cell.get("colspan"))):
                values.append(text)
                marks.append(mark)
                if down > 1:
                    waiting[column] = (down - 1, text, mark)
                column += 1
        grid.append(values)
        headers.append(marks)
    return grid, headers, rows


def _span(text: str | None) -> int:
    digits = (text or "1").strip()
    return max(1, min(int(digits), SPAN_LIMIT)) if digits.isdecimal() and len(digits) < 9 else 1


def _controls(element: Any) -> list[Any]:
    return [e for e in element.iter("input", "select", "textarea", "button", "a")
            if not (e.tag == "input" and e.get("type") == "hidden") and not (e.tag == "a" and e.get("href") is None and e.get("onclick") is None)]  # fmt: skip


def _labels(root: Any) -> dict[str, str]:
    by_id = {e.get("id"): e for e in root.iter() if isinstance(e.tag, str) and e.get("id")}
    labels = {label.get("for"): _text(label) for label in root.iter("label") if label.get("for")}
    for key, element in by_id.items():
        references = (element.get("aria-labelledby") or "").split()
        if named := _join(_text(by_id[r]) for r in references if r in by_id):
            labels[key] = named
    return labels


def _facts(root: Any, address: str) -> Iterator[Fact]:
    """JSON-LD blocks and meta tags, flattened: `product.offers.price`."""
    count = 0
    for script in root.iter("script"):
        if (script.get("type") or "").lower() != "application/ld+json":
            continue
        try:
            data = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        for path, value in _leaves(data):
            count += 1
            yield Fact(f"{address}.f{count}", path, value)
    for meta in root.iter("meta"):
        name, content = meta.get("property") or meta.get("name"), meta.get("content")
        if name and content and name.split(":")[0] in ("og", "article", "product", "description", "author", "date", "keywords"):
            count += 1
            yield Fact(f"{address}.f{count}", name, content)


def _leaves(data: Any) -> Iterator[tuple[str, str]]:
    stack: list[tuple[str, Any]] = [("", data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend((f"{path}.{k}".lstrip("."), v) for k, v in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((f"{path}[{i}]", v) for i, v in reversed(list(enumerate(value))))
        elif value is not None:
            yield path, str(value)


def _text(element: Any) -> str:
    return _join(_visible_text(element))


def _visible_text(element: Any) -> Iterator[str]:
    stack: list[tuple[Any, bool]] = [(element, True)]
    while stack:
        e, entering = stack.pop()
        if not entering:
            yield e.tail or ""
            continue
        if e is not element:
            stack.append((e, False))
        if not isinstance(e.tag, str) or e.tag in _SKIPPED:
            continue
        yield e.text or ""
        stack.extend((child, True) for child in reversed(e))


def _join(words: Any) -> str:
    return _SPACE.sub(" ", " ".join(w for w in words if w)).strip()
