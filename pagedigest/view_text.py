"""The text of a view: `view_all`, `view_region`, `find`, `read`, in pages within the budget.

Enters: an `OpenPage` and a `ViewCommand`. Leaves: a `PageText`: one line that names page and view, the lines asked for,
the changes. Views show the page as it is now, additions in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pagedigest.changes import RenderedChanges, render_changes
from pagedigest.layouts import PageText
from pagedigest.page_state import OpenPage
from pagedigest.store import PageStore
from pagedigest.tokens import TokenCounter
from pagedigest.views import ViewCommand, ViewLine, ViewPage, found_lines, paginate, region_lines
from region4web.render import plain_text

__all__ = ["view_text"]

VIEW_PAGE_TOKENS = 6000
"""Length of one page of a view where there is no budget."""
CHANGES_SHARE = 0.25
"""Part of a page that the changes may take."""
SMALLEST_PAGE = 40
"""Tokens of lines for which the changes are left out of a page."""
HEAD_SHARE = 0.4
"""Part of a page that its first lines may take before they are shortened."""
_REGION = re.compile(r"[Rr]?(\d{1,6})")
_LISTED_ID = re.compile(r"(?m)^(\t*)\[([^\]\s]+)\]")


def view_text(
    page: OpenPage, command: ViewCommand, *, counter: TokenCounter, budget_tokens: int | None, store: PageStore | None
) -> PageText:
    """What to read for `command`. A region, text or address that is not there is said in the text."""
    limit = VIEW_PAGE_TOKENS if budget_tokens is None else budget_tokens
    lines, told, opened = _lines(page, command, store)
    head = _Head(page, counter, limit, told, command)
    # Room for lines is the same on every page, whatever the page's own first line and changes take.
    most = _changes(page, (), counter, int(limit * CHANGES_SHARE)) if command.name != "read" else RenderedChanges("", ())
    kept = 0
    if most.text:  # what is listed on the page reads differently below it; at worst, the changes are only counted
        kept = max(counter.count(text + "\n") for text in (most.text, _changes(page, (), counter, 0).text))
    room = limit - counter.count(head.text(999, 999, 99999)) - kept
    if room < SMALLEST_PAGE:
        kept = 0
        room = limit - counter.count(head.text(999, 999, 99999)) - 2
    view = paginate(lines, counter=counter, limit_tokens=room, page=command.page)
    changes = _changes(page, view.ids, counter, kept) if kept else RenderedChanges("", ())
    body = [*view.lines, *([changes.text] if changes.text else [])]
    text, tokens = head.with_own_count(view, body)
    return PageText(text, (*view.ids, *changes.ids), tokens, opened)


class _Head:
    """The first line of a view and the page's notes, as short as the limit asks."""

    def __init__(self, page: OpenPage, counter: TokenCounter, limit: int, told: str, command: ViewCommand) -> None:
        self._counter, self._full, self._command = counter, page.full_tokens, command
        title, url = plain_text(page.tree.title), plain_text(page.tree.url)
        notes = [plain_text(note)[:200] for note in page.notes()]
        self._notes: list[str] = []
        for title_limit, url_limit, told_limit, notes_limit in ((120, 200, 100, 9), (60, 60, 60, 1), (30, 0, 30, 1), (0, 0, 12, 0)):
            parts = ["PAGE " + title[:title_limit] if title_limit else "PAGE", url[:url_limit], told[:told_limit]]
            self._start = " | ".join(part for part in parts if part)
            self._notes = notes[:notes_limit]
            if counter.count(self.text(999, 999, 99999)) <= limit * HEAD_SHARE:
                break

    def text(self, number: int, count: int, tokens: int) -> str:
        """The lines, for page `number` of `count` of a text of `tokens` tokens."""
        where = f" | page {number} of {count}" if count > 1 else ""
        if number < count or number == 999:
            call = self._command.call(number + 1) if len(self._command.argument) <= 8 else f"page={number + 1}"
            where += f", {call} shows the next"
        return "\n".join([f"{self._start}{where} | {tokens} of {self._full} tokens", *self._notes])

    def with_own_count(self, view: ViewPage, body: Sequence[str]) -> tuple[str, int]:
        """The whole text, which says how long it is, and that length."""
        tokens = 0
        for _ in range(6):
            text = "\n".join([self.text(view.number, view.count, tokens), *body])
            counted = self._counter.count(text)
            if counted <= tokens:
                break
            tokens = counted
        return text, counted


def _lines(page: OpenPage, command: ViewCommand, store: PageStore | None) -> tuple[list[ViewLine], str, tuple[int, ...]]:
    """The lines asked for, what the first line calls them, the regions they show in full."""
    count = len(page.region_map.abstractions)
    region_of = page.changes.region_of
    if command.name == "view_all":
        every = tuple(range(count))
        return list(region_lines(page.tree, region_of, page.region_map, every, addresses=False)), f"all {count} regions", every
    if command.name == "view_region":
        match = _REGION.fullmatch(command.argument)
        number = int(match[1]) if match else -1
        if not 0 <= number < count:
            return [ViewLine(f"no region {command.argument[:40]!r}: this page has R0 to R{count - 1}")], "view_region", ()
        page.viewed = (number, *(n for n in page.viewed if n != number))
        return list(region_lines(page.tree, region_of, page.region_map, (number,), addresses=True)), f"R{number} in full", (number,)
    if command.name == "find":
        lines = list(found_lines(page.tree, region_of, page.region_map, command.argument))
        hits = sum(bool(line.header) for line in lines)
        if not hits:
            lines = [ViewLine(f"no element of this page says {command.argument[:80]!r}")]
        return lines, f"{hits} elements that say {command.argument[:80]!r}", ()
    return _stored_lines(command.argument, store), f"{command.argument[:40]} as it was", ()


def _stored_lines(address: str, store: PageStore | None) -> list[ViewLine]:
    """An earlier state; its ids are written without brackets: they may be gone by now."""
    if store is None:
        return [ViewLine("no earlier pages are kept: this episode runs without a page store")]
    try:
        text = store.read(address)
    except ValueError as error:
        return [ViewLine(str(error))]
    return [ViewLine(_LISTED_ID.sub(r"\1\2", line)) for line in text.split("\n")]


def _changes(page: OpenPage, printed: Sequence[str], counter: TokenCounter, limit_tokens: int) -> RenderedChanges:
    changes = page.recent_first()
    if not changes and not page.passed_alerts:
        return RenderedChanges("", ())
    title = f"CHANGES since this page was opened at step {page.opened_at}"
    return render_changes(title, changes, printed=frozenset(printed), counter=counter, limit_tokens=limit_tokens, notes=page.passed_alerts)
