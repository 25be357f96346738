"""Whether a tree shows the page that was opened, or another one: DESIGN "Page life", rule 3.

Enters: the tree at entry, the tree before and the current one. Leaves: a `PageEvent`, with the transition where the
page stays. A new page is another URL path or query with other content, another document, or the same URL with more
than half of the entry's nodes gone. A hash, a `pushState` that leaves the content alone and a reload with the same
content stay on the page. A shell that has not filled yet is the same page later, but a new view of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from pagedigest.matching import same_document
from pagedigest.transition import Transition, diff
from region4web.axtree import AXTree

__all__ = ["PageEvent", "PageEventKind", "identify", "page_address", "unready_reason"]

PageEventKind = Literal["opened", "unchanged", "changed", "reloaded", "new view", "filled"]
"""`opened`: another page. `unchanged` and `changed`: the same page. `reloaded`: the same page in a new document.
`new view`: the same URL with other content. `filled`: an empty shell that has its content now."""

GONE_LIMIT = 0.5
"""Share of the entry's nodes that may go before the page counts as another view."""
ADDED_LIMIT = 2.0
"""New nodes per entry node from which a list of additions would no longer be a digest."""
ADDED_FLOOR = 80
"""Fewer new nodes than this are always listed: a menu on a small page is no new page."""

_WAITING_ROLES = frozenset({"progressbar", "ProgressIndicator"})
_WAITING_TEXT = re.compile(
    r"\b(loading|please wait|just a moment|one moment|initiali[sz]ing|laden|chargement|cargando)\b|加载|読み込み", re.IGNORECASE
)
_WRAPPERS = frozenset({"generic", "none", "RootWebArea", "WebArea", "main", "Iframe"})
_READ_ROLES = frozenset({"StaticText", "heading", "paragraph", "status", "alert"})
_WAITING_SIZE = 12
_WAITING_CONTROLS = 3
"""A page with more content nodes or controls than these is not called empty, whatever it says."""
_SHORT_TEXT = 25
"""Characters below which a page with nothing to act on counts as empty."""


@dataclass(frozen=True)
class PageEvent:
    """What the step did to the page. `transition` is from the entry tree, None where the page must be read anew."""

    kind: PageEventKind
    transition: Transition | None = None
    note: str = ""

    @property
    def stays(self) -> bool:
        """Whether regions, selection and numbering go on."""
        return self.transition is not None


def identify(entry: AXTree, previous: AXTree, current: AXTree) -> PageEvent:
    """Tell the page of `current` from that of `entry`; `previous` is the tree of the step before, on the entry's page."""
    if page_address(previous.url) != page_address(current.url) and not _same_content(previous, current):
        return PageEvent("opened")
    transition = diff(entry, current)
    new_document = same_document(previous, current) is False
    if transition.gone_share > GONE_LIMIT:
        return (
            PageEvent("opened", note="the document was loaded again with other content")
            if new_document
            else PageEvent("new view", note="new view, same URL")
        )
    added = len(current) - transition.matching.kept
    if unready_reason(entry) and not unready_reason(current):
        return PageEvent("filled", note="the page has its content now")
    if added > max(ADDED_FLOOR, ADDED_LIMIT * len(entry)):
        return PageEvent("new view", note=f"new view, same URL: {added} elements are new")
    if new_document:
        return PageEvent("reloaded", transition, _reload_note(previous, current))
    if previous == current:
        return PageEvent("unchanged", transition)
    return PageEvent("changed", transition, _address_note(previous.url, current.url))


def page_address(url: str) -> str:
    """The URL without its fragment: what tells pages apart before their content does."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.split("#", 1)[0]
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}?{parts.query}"


def unready_reason(tree: AXTree) -> str:
    """Why a page looks not ready ('only 2 elements'), '' when it looks ready."""
    if tree.nodes[0].state("busy") is True:
        return "the document says it is busy"
    content = [node for node in tree.nodes if node.role not in _WRAPPERS or node.clickable]
    controls = [node for node in content if node.role not in _READ_ROLES and node.role not in _WAITING_ROLES]
    if len(content) > _WAITING_SIZE or len(controls) > _WAITING_CONTROLS:
        return ""
    if any(node.role in _WAITING_ROLES or node.state("busy") is True for node in content):
        return "it shows a progress indicator and little else"
    if any(_WAITING_TEXT.search(node.name) for node in content):
        return "it says that it is loading"
    to_read = sum(len(node.name) for node in content if node.role in _READ_ROLES)
    if not controls and to_read < _SHORT_TEXT:
        return f"only {len(content)} element{'s' * (len(content) != 1)}" if content else "no elements"
    return ""


def _same_content(previous: AXTree, current: AXTree) -> bool:
    """Whether a change of URL left the content alone (`history.pushState`): same nodes, links and states aside."""
    if same_document(previous, current) is False or len(previous) != len(current):
        return False
    return all(
        a.id == b.id and a.role == b.role and (a.name == b.name or not k) for k, (a, b) in enumerate(zip(previous.nodes, current.nodes))
    )


def _reload_note(previous: AXTree, current: AXTree) -> str:
    same = len(previous) == len(current) and all(
        (a.role, a.name, a.value, a.states) == (b.role, b.name, b.value, b.states) for a, b in zip(previous.nodes, current.nodes)
    )
    return "reloaded, content equal" if same else "reloaded, content changed"


def _address_note(before: str, after: str) -> str:
    return f"the URL is now {after[:200]}" if before != after else ""
