"""The two ways a page's digest goes on after entry (DESIGN "Digest text").

Enters: an `OpenPage`. Leaves: a `PageText` within the budget, or None where the changes no longer fit and the page has to
be shown anew. `InPlaceLayout` writes the regions as they are now and tells below what changed since entry (the paper's).
`AppendLayout` keeps the digest at entry byte for byte and adds a paragraph a step, so that a provider's prompt cache hits.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedigest.changes import Change, ChangeList, RenderedChanges, render_changes
from pagedigest.digest import Digest, compose_digest
from pagedigest.page_state import OpenPage, PageLog
from pagedigest.tokens import TokenCounter

__all__ = ["AppendLayout", "InPlaceLayout", "Layout", "PageText"]

CHANGES_SHARE = 0.4
"""Part of a budget that the changes may take."""
ENTRY_SHARE = 0.75
"""Part of a budget that the digest at entry takes in `AppendLayout`; the rest is for what follows."""
CHANGES_TOKENS = 2000
"""Limit of the changes where there is no budget."""
UNLISTED_LIMIT = 25
"""New lines that may stay unlisted before the page is shown anew."""


@dataclass(frozen=True)
class PageText:
    """A text, the ids it lists that an agent may act on, its tokens, the regions open, the lines folded."""

    text: str
    shown: tuple[str, ...]
    tokens: int
    open: tuple[int, ...] = ()
    folded: int = 0


@dataclass(frozen=True)
class InPlaceLayout:
    """Regions as they are now, then CHANGES since entry."""

    counter: TokenCounter
    budget_tokens: int | None = None
    task: str = ""

    def opened(self, page: OpenPage) -> PageText:
        """The digest at entry."""
        return _page_text(self._compose(page, RenderedChanges("", ()), frozenset()))

    def continued(self, page: OpenPage, *, step: int) -> PageText | None:
        """The digest at a later step."""
        if _outgrown(page.changes):
            return None
        changes = page.recent_first()
        limit = CHANGES_TOKENS if self.budget_tokens is None else int(self.budget_tokens * CHANGES_SHARE)
        told = self._changes(page, changes, frozenset(), limit, step)
        if told.left_out > UNLISTED_LIMIT:
            return None
        digest = self._compose(page, told, frozenset())
        # The first pass tells which ids the regions list; only the others stand in brackets below.
        listed = frozenset(digest.shown)
        if listed.isdisjoint(told.ids):
            return _page_text(digest, told.ids)
        told = self._changes(page, changes, listed, limit, step)
        digest = self._compose(page, told, frozenset(told.ids))
        return _page_text(digest, told.ids)

    def _changes(self, page: OpenPage, changes: tuple[Change, ...], printed: frozenset[str], limit: int, step: int) -> RenderedChanges:
        if not changes and not page.passed_alerts and page.changed_at < step:
            return RenderedChanges(f"CHANGES none since step {page.changed_at}, when this page was opened" if page.changed_at == page.opened_at
                                   else f"no change since step {page.changed_at}", ())  # fmt: skip
        notes = [*page.passed_alerts, *([f"no change since step {page.changed_at}"] if page.changed_at < step else [])]
        title = f"CHANGES since this page was opened at step {page.opened_at}"
        return render_changes(title, changes, printed=printed, counter=self.counter, limit_tokens=limit, notes=notes)

    def _compose(self, page: OpenPage, told: RenderedChanges, apart: frozenset[str]) -> Digest:
        region_map, hidden = page.display_map()
        index_of = region_map.partition.tree.index_of
        return compose_digest(
            region_map,
            page.display_selection(),
            counter=self.counter,
            budget_tokens=self.budget_tokens,
            task=self.task,
            hidden=hidden | {index_of[key] for key in apart if key in index_of},
            notes=page.notes(),
            changes=told.text,
            full_tokens=page.full_tokens,
        )


@dataclass(frozen=True)
class AppendLayout:
    """The digest at entry, unchanged, then what each step changed."""

    counter: TokenCounter
    budget_tokens: int | None = None
    task: str = ""

    def opened(self, page: OpenPage) -> PageText:
        """The digest at entry; what was kept of the page's earlier texts is dropped."""
        digest = compose_digest(
            page.region_map,
            page.display_selection(),
            counter=self.counter,
            budget_tokens=None if self.budget_tokens is None else int(self.budget_tokens * ENTRY_SHARE),
            task=self.task,
            notes=page.notes(),
            full_tokens=page.full_tokens,
        )
        text = _page_text(digest)
        page.log = PageLog(text.text, text.shown, text.open, text.folded, page.tree, page.changes.region_of)
        return text

    def continued(self, page: OpenPage, *, step: int) -> PageText | None:
        """What was written before, and a paragraph for this step."""
        log = page.log
        if log is None:
            raise ValueError(f"page {page.number} was not opened in this layout")
        changes = page.since(log)
        if not (changes.changes or page.passed_alerts or page.note):
            return self._within_budget(log, f"{log.text}\nno change since step {page.changed_at}", page)
        if _outgrown(changes) or changes.unnamed:
            return None
        title = f"CHANGES at step {step}"
        limit = CHANGES_TOKENS if self.budget_tokens is None else int(self.budget_tokens * CHANGES_SHARE)
        now = tuple(key for key in log.listed if key in page.tree.index_of)
        notes = [*page.notes(), *page.passed_alerts]
        told = render_changes(title, changes.changes, printed=frozenset(now), counter=self.counter, limit_tokens=limit, notes=notes)
        if told.left_out > UNLISTED_LIMIT:
            return None
        page.log = PageLog(f"{log.text}\n{told.text}", (*now, *told.ids), log.open, log.folded, page.tree, changes.region_of)
        return self._within_budget(page.log, page.log.text, page)

    def _within_budget(self, log: PageLog, text: str, page: OpenPage) -> PageText | None:
        tokens = self.counter.count(text)
        if self.budget_tokens is not None and tokens > self.budget_tokens:
            return None
        shown = tuple(key for key in log.listed if key in page.tree.index_of)
        return PageText(text, shown, tokens, log.open, log.folded)


Layout = InPlaceLayout | AppendLayout


def _outgrown(changes: ChangeList) -> bool:
    return changes.folded > UNLISTED_LIMIT


def _page_text(digest: Digest, ids: tuple[str, ...] = ()) -> PageText:
    return PageText(digest.text, (*digest.shown, *ids), digest.tokens, digest.open, digest.folded)
