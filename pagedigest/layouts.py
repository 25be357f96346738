"""The two ways a page's digest goes on after entry (DESIGN "Digest text").

Enters: an `OpenPage`. Leaves: a `PageText` within the budget, or None where the changes no longer fit and the page has to
be shown anew. `InPlaceLayout` writes the regions as they are now and tells below what changed since entry (the paper's).
`AppendLayout` keeps the digest at entry byte for byte and adds a paragraph a step, so that a provider's prompt cache hits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pagedigest.changes import Change, RenderedChanges, render_changes
from pagedigest.continuation import continue_digest
from pagedigest.digest import Digest, compose_digest
from pagedigest.page_state import OpenPage, PageLog
from pagedigest.tokens import TokenCounter

__all__ = ["AppendLayout", "InPlaceLayout", "Layout", "PageText"]

CHANGES_SHARE = 0.4
"""Part of a budget that the changes may take."""
TOLD_SHARES = ((700, 0.08), (1200, 0.12), (2400, 0.25))
"""Part of a budget, up to a budget in tokens, that changes of elements which were there before may take in `InPlaceLayout`: the
regions say what they are now. New elements are listed nowhere else."""
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
    task: str = ""

    def opened(self, page: OpenPage) -> PageText:
        """The digest at entry."""
        return _page_text(self._entry_digest(page))

    def continued(self, page: OpenPage, *, step: int) -> PageText | None:
        """The digest at a later step."""
        changes = page.recent_first()

        def tell(printed: Collection[str]) -> RenderedChanges:
            return self._changes(page, changes, printed, step)

        if page.changes.folded > UNLISTED_LIMIT:
            return None
        display, hidden = page.display_map()
        digest, told = continue_digest(
            self._entry_digest(page),
            page.region_map,
            display,
            updated=page.updated_indices(),
            hidden=hidden,
            node_scores=page.selection.node_scores,
            labels=page.labels,
            tell=tell,
            counter=self.counter,
            budget_tokens=page.budget_tokens,
            notes=page.notes(),
            full_tokens=page.full_tokens,
        )
        return None if told.left_out > UNLISTED_LIMIT else _page_text(digest, told.ids)

    def _changes(self, page: OpenPage, changes: tuple[Change, ...], printed: Collection[str], step: int) -> RenderedChanges:
        quiet = page.changed_at < step
        if quiet and not changes and not page.passed_alerts:
            return RenderedChanges(f"CHANGES none: no change since step {page.changed_at}", ())
        notes = [*page.passed_alerts, *([f"no change since step {page.changed_at}"] if quiet else [])]
        title = f"CHANGES since this page was opened at step {page.opened_at}"
        budget = page.budget_tokens
        limit, told = CHANGES_TOKENS, None
        if budget is not None:
            limit = int(budget * CHANGES_SHARE)
            told = next((int(budget * share) for most, share in TOLD_SHARES if budget <= most), None)
        return render_changes(
            title,
            changes,
            printed=printed,
            counter=self.counter,
            limit_tokens=limit,
            notes=notes,
            told_tokens=told,
        )

    def _entry_digest(self, page: OpenPage) -> Digest:
        """What entry printed; composed anew when other regions are to be open (`view_region`, a modal dialog)."""
        if page.digest is None or page.digest_open != page.open:
            page.digest = compose_digest(
                page.region_map,
                page.display_selection(),
                counter=self.counter,
                budget_tokens=page.budget_tokens,
                task=self.task,
                notes=page.notes() if page.transition is None else (),
                full_tokens=page.full_tokens,
            )
            page.digest_open = page.open
        return page.digest


@dataclass(frozen=True)
class AppendLayout:
    """The digest at entry, unchanged, then what each step changed."""

    counter: TokenCounter
    task: str = ""

    def opened(self, page: OpenPage) -> PageText:
        """The digest at entry."""
        log = self._entry_log(page)
        return PageText(log.text, log.listed, self.counter.count(log.text), log.open, log.folded)

    def _entry_log(self, page: OpenPage) -> PageLog:
        digest = compose_digest(
            page.region_map,
            page.display_selection(),
            counter=self.counter,
            budget_tokens=None if page.budget_tokens is None else int(page.budget_tokens * ENTRY_SHARE),
            task=self.task,
            notes=page.notes(),
            full_tokens=page.full_tokens,
        )
        region_of = tuple(page.region_map.partition.region_of.tolist())
        page.log = PageLog(digest.text, digest.shown, digest.open, digest.folded, page.entry, region_of)
        return page.log

    def continued(self, page: OpenPage, *, step: int) -> PageText | None:
        """What was written before, and a paragraph for this step."""
        log = page.log if page.log is not None else self._entry_log(page)  # None: only seen in a view so far
        changes = page.since(log)
        if not (changes.changes or page.passed_alerts or page.note):
            return self._within_budget(log, f"{log.text}\nno change since step {page.changed_at}", page)
        if changes.folded > UNLISTED_LIMIT or changes.unnamed:
            return None
        title = f"CHANGES at step {step}"
        limit = CHANGES_TOKENS if page.budget_tokens is None else int(page.budget_tokens * CHANGES_SHARE)
        notes = [*page.notes(), *page.passed_alerts]
        told = render_changes(title, changes.changes, printed=frozenset(log.listed), counter=self.counter, limit_tokens=limit, notes=notes)
        if told.left_out > UNLISTED_LIMIT:
            return None
        page.log = PageLog(f"{log.text}\n{told.text}", (*log.listed, *told.ids), log.open, log.folded, page.tree, changes.region_of)
        return self._within_budget(page.log, page.log.text, page)

    def _within_budget(self, log: PageLog, text: str, page: OpenPage) -> PageText | None:
        tokens = self.counter.count(text)
        if page.budget_tokens is not None and tokens > page.budget_tokens:
            return None
        tree = page.tree
        shown = tuple(key for key in log.listed if (at := tree.index_of.get(key)) is not None and tree.nodes[at].addressable)
        return PageText(text, shown, tokens, log.open, log.folded)


Layout = InPlaceLayout | AppendLayout


def _page_text(digest: Digest, ids: tuple[str, ...] = ()) -> PageText:
    return PageText(digest.text, (*digest.shown, *ids), digest.tokens, digest.open, digest.folded)
