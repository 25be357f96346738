"""Texts that the name of the element around them says already.

Enters: the raw tree's parents and names, and what each entry is. Leaves: which texts to leave out. An element that is
named from its contents holds them a second time; a text counts as said when the texts of the element, put together, are
its name, or when the text stands in the name as whole words. `1` is not said by `Item 12 of 100`.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["repeated_texts"]

SCAN_FACTOR = 64
"""Characters scanned for one element at most, as a multiple of its name's length: what is not found by then is kept."""


def repeated_texts(
    parent: Sequence[int], names: Sequence[str], *, is_text: Sequence[bool], is_transparent: Sequence[bool], is_silent: Sequence[bool]
) -> list[bool]:
    """(N,) whether entry k is a text that its element's name says already. All arguments are in preorder.

    A text belongs to the nearest entry around it that is not transparent; the name of a silent one (a document, whose
    name is its title) does not count.
    """
    owner = [-1] * len(names)
    texts: dict[int, list[int]] = {}
    for k in range(1, len(names)):
        p = parent[k]
        owner[k] = owner[p] if is_transparent[p] else p
        if is_text[k] and names[k] and owner[k] >= 0 and names[owner[k]] and not is_silent[owner[k]]:
            texts.setdefault(owner[k], []).append(k)
    said = [False] * len(names)
    for k, members in texts.items():
        name = names[k]
        if len(members) == 1 and names[members[0]] == name:
            said[members[0]] = True
        elif "".join([names[m] for m in members]).replace(" ", "") == name.replace(" ", ""):
            for m in members:
                said[m] = True
        else:
            spoken = _Name(name)
            for m in members:
                said[m] = spoken.says(names[m])
    return said


class _Name:
    """A name that is asked for one text after the other, mostly in the order in which it holds them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._at = 0
        self._budget = SCAN_FACTOR * len(name) + 4096

    def says(self, text: str) -> bool:
        """Whether the text stands in the name as whole words, further on or else from the start."""
        found = self._find(text, self._at, len(self._name))
        if found < 0 and self._at:
            found = self._find(text, 0, min(len(self._name), self._at + len(text)))
        if found < 0:
            return False
        self._at = found + len(text)
        return True

    def _find(self, text: str, start: int, stop: int) -> int:
        name = self._name
        while self._budget > 0:
            found = name.find(text, start, stop)
            self._budget -= (stop if found < 0 else found + len(text)) - start
            if found < 0:
                return -1
            end = found + len(text)
            cut_before = found > 0 and name[found - 1].isalnum() and text[0].isalnum()
            cut_after = end < len(name) and name[end].isalnum() and text[-1].isalnum()
            if not (cut_before or cut_after):
                return found
            start = found + 1
        return -1
