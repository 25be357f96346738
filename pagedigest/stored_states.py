"""A page's state as the store keeps it.

Enters: an `OpenPage` and what the agent was given to read. Leaves: a `StoredState` with the full text of every region, addresses
included, new elements under the region they hang in.
"""

from __future__ import annotations

from pagedigest.page_state import OpenPage
from pagedigest.store import StoredRegion, StoredState
from pagedigest.views import region_lines

__all__ = ["stored_state"]


def stored_state(page: OpenPage, step: int, observation: str) -> StoredState:
    """The state of `page` at `step`."""
    numbers = range(len(page.region_map.abstractions))
    texts: dict[int, list[str]] = {number: [] for number in numbers}
    number = -1
    for line in region_lines(page.tree, page.changes.region_of, page.region_map, numbers, addresses=True):
        if not line.header:
            number += 1
        else:
            texts[number].append(line.text)
    return StoredState(
        page=page.number,
        step=step,
        url=page.tree.url,
        title=page.tree.title,
        observation=observation,
        regions=tuple(StoredRegion(n, page.region_map.abstractions[n].purpose, "\n".join(texts[n])) for n in numbers),
    )
