"""Text that is laid out and takes place, and yet cannot be read: no colour, the colour of what is behind it, clipped away.

Enters: a `DomDocument`. Leaves: for a text, whether it has ink. In doubt it has: a text over a picture, a gradient or
another element's colour counts as readable.
"""

from __future__ import annotations

import re

from region4web.domsnapshot import ELEMENT, DomDocument

__all__ = ["Inks", "clips_all"]

SMALLEST_FONT_PX = 2.0
COMPARED_LIMIT = 200
"""Texts of one document, in the colour of their background, of which the elements around are looked through."""
PICTURES = frozenset({"IMG", "VIDEO", "CANVAS", "PICTURE", "IFRAME", "OBJECT", "EMBED", "svg"})
WHITE = (255.0, 255.0, 255.0, 1.0)

_Colour = tuple[float, float, float, float]
_RGB = re.compile(r"rgba?\(\s*([\d.]+)[ ,]+([\d.]+)[ ,]+([\d.]+)(?:[ ,/]+([\d.]+)(%?))?\s*\)")
_INSET = re.compile(r"inset\(([^)]*?)(?:\s+round[^)]*)?\)")
_EMPTY_CIRCLE = re.compile(r"(?:circle|ellipse)\(\s*0(?:px|%)?[\s)]")
_EMPTY_RECT = re.compile(r"rect\((?:\s*[01]px[\s,]*){4}\)")


class Inks:
    """Judges the texts of one document."""

    def __init__(self, document: DomDocument) -> None:
        self._document = document
        self._behind: dict[int, _Colour | None] = {}
        self._compared = 0

    def is_unreadable(self, i: int) -> bool:
        """Whether text i, which is laid out, has no ink that tells it from its background."""
        document = self._document
        p = document.parent[i]
        if p < 0 or p not in document.styles:
            return False
        if 0 <= document.pixels(p, "font-size") < SMALLEST_FONT_PX and document.style(p, "font-size"):
            return True
        colour = _colour(document.style(p, "color"))
        if colour is None or document.style(p, "text-shadow") not in ("none", ""):
            return False
        if colour[3] == 0:
            return not self._is_painted_through(p)
        if colour[3] < 1 or self._background(p) != colour or self._compared >= COMPARED_LIMIT:
            return False
        self._compared += 1
        return not self._is_over_something(i)

    def _is_painted_through(self, p: int) -> bool:
        """Whether a background shows in the shape of the text (`background-clip: text`)."""
        while p >= 0:
            if "text" in self._document.style(p, "background-clip"):
                return True
            p = self._document.parent[p]
        return False

    def _background(self, p: int) -> _Colour | None:
        """The colour behind the content of element p as its ancestors have it; None where that is a picture or a mixture."""
        path = []
        while p >= 0 and p not in self._behind:
            path.append(p)
            p = self._document.parent[p]
        found: _Colour | None = self._behind[p] if p >= 0 else WHITE
        for q in reversed(path):
            own = _colour(self._document.style(q, "background-color")) if q in self._document.styles else None
            if self._document.style(q, "background-image") not in ("none", ""):
                found = None
            elif own is not None and own[3] == 1:
                found = own
            elif own is not None and own[3] > 0:
                found = None
            self._behind[q] = found
        return found

    def _is_over_something(self, i: int) -> bool:
        """Whether an element that is not around the text and has a look of its own lies where the text is, painted before it."""
        document = self._document
        x, y, w, h = document.boxes[i]
        at = (x + w / 2, y + h / 2)
        limit = document.paint.get(i, document.paint.get(document.parent[i], 0))
        around = set()
        p = document.parent[i]
        while p >= 0:
            around.add(p)
            p = document.parent[p]
        for j, order in document.paint.items():
            if order > limit or j in around or document.node_type[j] != ELEMENT:
                continue
            left, top, width, height = document.boxes[j]
            if not (left <= at[0] <= left + width and top <= at[1] <= top + height):
                continue
            colour = _colour(document.style(j, "background-color"))
            if (
                document.name[j] in PICTURES
                or document.style(j, "background-image") not in ("none", "")
                or (colour is not None and colour[3] > 0)
            ):
                return True
        return False


def clips_all(clip_path: str, clip: str) -> bool:
    """Whether `clip-path`, or the older `clip`, leaves nothing of an element."""
    if clip and _EMPTY_RECT.fullmatch(clip):
        return True
    if not clip_path or clip_path == "none":
        return False
    if _EMPTY_CIRCLE.match(clip_path):
        return True
    if (found := _INSET.fullmatch(clip_path)) is None:
        return False
    sides = found[1].split()
    if not 1 <= len(sides) <= 4 or not all(side.endswith("%") for side in sides):
        return False
    try:
        top, right, bottom, left = (float(sides[k].rstrip("%")) for k in _SIDES[len(sides)])
    except ValueError:
        return False
    return top + bottom >= 100 or left + right >= 100


_SIDES = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}


def _colour(value: str) -> _Colour | None:
    """Red, green, blue and alpha from 0 to 1 of a computed colour; None when it is written another way."""
    if value == "transparent":
        return (0.0, 0.0, 0.0, 0.0)
    if (found := _RGB.fullmatch(value)) is None:
        return None
    alpha = 1.0 if found[4] is None else float(found[4]) / (100 if found[5] else 1)
    return float(found[1]), float(found[2]), float(found[3]), alpha
