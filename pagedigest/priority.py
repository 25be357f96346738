"""What stands before relevance in a digest: regions asked for, what blocks the page, messages, what has just appeared.

Enters: a selection and the page's state. Leaves: a selection with those nodes ranked first; the rest keep their order. Of a
dialog that does not block the page, only its own line and its first controls are ranked first: it may be a cookie banner.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from pagedigest.selection import Selection
from region4web.regions import Partition

__all__ = ["with_priorities"]

MESSAGE_NODES = 8
DIALOG_CONTROLS = 5
"""Nodes of a message, controls of a dialog, that are ranked first."""
FRESH_FACTOR = 5.0
"""How much more an element counts that has just appeared."""
_CONTROLS = frozenset({"button", "link", "textbox", "combobox", "checkbox", "radio", "searchbox"})


def with_priorities(
    selection: Selection,
    partition: Partition,
    *,
    opened: Sequence[int],
    first: Collection[int],
    blocked: Collection[int],
    fresh: Collection[str],
    urgent: Collection[str],
) -> Selection:
    """The selection with `opened` regions, the members of the regions `first` before all, then messages, dialogs and the
    ids `urgent`; the ids `fresh` count more than before, and the members of the regions `blocked` nothing."""
    tree = partition.tree
    told = _messages_and_dialogs(partition)
    told.update(at for key in urgent if (at := tree.index_of.get(key)) is not None)
    new = [at for key in fresh if (at := tree.index_of.get(key)) is not None]
    if not (told or new or first or blocked) and tuple(opened) == selection.open:
        return selection
    scores = np.array(selection.node_scores, dtype=float)
    top = float(scores.max(initial=0.0)) or 1.0
    scores[new] = np.minimum(top, np.maximum(scores[new], top / 100) * FRESH_FACTOR)
    scores[list(told)] += top
    for number in blocked:
        scores[partition.regions[number].members] = 0.0
    for number in first:
        members = partition.regions[number].members
        scores[members] += 2 * top
    added = (int(partition.region_of[at]) for at in (*told, *new))
    opened = tuple(dict.fromkeys([*opened, *(number for number in added if number not in blocked)]))
    return replace(selection, open=opened, node_scores=scores)


def _messages_and_dialogs(partition: Partition) -> set[int]:
    """Nodes of alerts, and of each visible dialog its line and first controls."""
    tree = partition.tree
    found: set[int] = set()
    for i, node in enumerate(tree.nodes):
        if not node.visible:
            continue
        if node.role in ("dialog", "alertdialog"):
            controls = [k for k in tree.subtree(i)[1:] if tree.nodes[k].role in _CONTROLS]
            found.update([i, *controls[:DIALOG_CONTROLS]])
        elif node.role == "alert":
            found.update(tree.subtree(i)[:MESSAGE_NODES])
    return found
