"""State lines: what is there to act on in a region now, in the page's own words.

Enters: the units of a region. Leaves: one line of at most 40 words that names what the region holds: errors and
messages first, fields with their values, what is selected, disabled or expanded, headings and names in reading order,
and how much more there is. Every name and every number written in digits occurs in the region; counts are in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from region4web.contents import FIELD_KINDS, Unit
from region4web.preprocessing import short_address

__all__ = ["DETAILED", "EMPTY_STATE", "ORDERS_DESCRIBED", "SHORT", "Lengths", "gives_orders", "in_words", "state_line"]

EMPTY_STATE = "Only wrappers around other parts"
PROSE_WORDS = 12
"""A text longer than this is prose: named last, by its first words."""

_LETTER = re.compile(r"\w")
_BULLETS = re.compile(r"[\u2022\u25cf*]+")
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,60}\b(?:instructions?|previous|prior|above|prompts?|rules?|tasks?|system)\b"
    r"|\b(?:agents?|assistants?|ai|llm|chatbot|language model)\b.{0,40}\b(?:must|should|shall|has to|have to|needs? to|please|you)\b"
    r"|\bsystem (?:prompts?|messages?|instructions?|notices?|overrides?)\b"
    r"|^\W*(?:assistant|ai agent|agent|important)\s*[,:!]",
    re.IGNORECASE,
)
ORDERS_DESCRIBED = "text that gives its reader orders"
_ONES = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


@dataclass(frozen=True)
class Lengths:
    """How much a state says: words of names in a line, where there is more to name, and of one name, which is cut there."""

    line: int
    name: int


SHORT = Lengths(line=26, name=7)
DETAILED = Lengths(line=34, name=10)
"""As long as a state may be: closer to what annotators write, at about a fifth more words."""


@dataclass(frozen=True)
class _Part:
    """A unit's part of the line. `rank`: lower ones are said first when there is no room for all."""

    text: str
    rank: int
    at: int


def state_line(units: Sequence[Unit], lengths: Lengths = SHORT) -> str:
    """The state of the region that holds `units`."""
    parts = _parts(units, lengths.name)
    unnamed = _unnamed(units)
    if not parts:
        return _sentence(unnamed) if unnamed else EMPTY_STATE
    chosen: list[_Part] = []
    words = 0
    for part in sorted(parts, key=lambda p: (p.rank, p.at)):
        length = len(part.text.split())
        if chosen and words + length > lengths.line:
            break
        chosen.append(part)
        words += length
    said = ", ".join(part.text for part in sorted(chosen, key=lambda p: p.at))
    left = len(parts) - len(chosen)
    if left:
        said += f" and {in_words(left)} more"
    elif unnamed and words <= 12:
        said += f", {unnamed}"
    return said


def in_words(count: int) -> str:
    """A count in words, so that a digit in a state is always the page's own; from one hundred on, how many hundreds."""
    if count < 20:
        return _ONES[count]
    if count < 100:
        return _TENS[count // 10 - 2] + (f"-{_ONES[count % 10]}" if count % 10 else "")
    if count < 1000:
        return f"over {_ONES[count // 100]} hundred"
    return f"over {in_words(count // 1000)} thousand" if count < 100_000 else "very many"


def gives_orders(text: str) -> bool:
    """Whether a text addresses whoever reads the page for its user: to be described, never to be repeated."""
    return _ORDERS.search(text) is not None


QUOTATION_MARKS = (("\u00ab", "\u00bb"), ("\u201c", "\u201d"))


def shortened(text: str, words: int) -> str:
    """The first `words` words on one line, with an ellipsis when there are more."""
    if gives_orders(text):
        return ORDERS_DESCRIBED
    parts = text.split()
    cut = " ".join(parts).rstrip(",;") if len(parts) <= words else " ".join(parts[:words]).rstrip(",;:.") + "\u2026"
    cut = cut if len(cut) <= 16 * words else cut[: 16 * words - 1] + "\u2026"
    for opening, closing in QUOTATION_MARKS:
        if cut.count(opening) != cut.count(closing) or cut.find(closing) < cut.find(opening):
            cut = cut.replace(opening, "").replace(closing, "")  # half a pair would quote what lies between two names
    return cut


def is_unnamed(unit: Unit) -> bool:
    """Whether the element has no name of its own: none, or one made of its address."""
    return not _LETTER.search(unit.text) or (
        unit.ax.url is not None and unit.kind in ("link", "image") and unit.text == short_address(unit.ax.url)
    )


def _parts(units: Sequence[Unit], name_words: int) -> list[_Part]:
    parts: list[_Part] = []
    said: set[str] = set()
    for at, unit in enumerate(units):
        if unit.kind in ("title", "label", "column") and len(units) > 1:
            continue
        if unit.kind == "title":
            continue
        text = _unit_part(unit, name_words)
        if not text or text.casefold() in said or _repeats_value(units, at):
            continue
        said.add(text.casefold())
        parts.append(_Part(text, _rank(unit), at))
    return parts


def _repeats_value(units: Sequence[Unit], at: int) -> bool:
    """Whether a text only shows the value of the field before it, as date fields do."""
    field = units[at - 1] if at else None
    return (
        field is not None
        and units[at].kind == "text"
        and field.kind in FIELD_KINDS
        and str(field.ax.value).strip() == units[at].text.strip()
    )


def _rank(unit: Unit) -> int:
    if unit.kind == "alert":
        return 0
    if unit.kind == "heading":
        return 1
    if unit.kind == "text" and len(unit.text.split()) > PROSE_WORDS:
        return 3
    return 2


def _unit_part(unit: Unit, name_words: int) -> str:
    """One unit's part of the line, '' when there is nothing to say of it."""
    node = unit.ax
    name = shortened(unit.text, name_words)
    if unit.kind in ("check", "radio"):
        mark = "checked" if node.state("checked") in (True, "true", "mixed") else "" if unit.kind == "radio" else "unchecked"
        return f"{name} {mark}".strip() if name else ""
    if unit.kind in FIELD_KINDS:
        value = "" if node.value is None else str(node.value)
        if unit.kind == "select" and not value and unit.selected:
            value = unit.selected[0]
        if value and _BULLETS.fullmatch(value):
            return f"{name} filled in"
        off = " disabled" if node.state("disabled") is True else ""
        if value.strip():
            return f"{name} {shortened(value, name_words)}{off}".strip()
        return f"{name} empty{off}" if name else f"empty field{off}"
    if is_unnamed(unit):
        return ""
    if unit.kind == "text":
        return name.lstrip(":;, ")  # what follows a link in a sentence
    if node.state("disabled") is True:
        return f"{name} disabled"
    if node.state("selected") is True or node.state("pressed") in (True, "true"):
        return f"{name} selected"
    return name


def _unnamed(units: Sequence[Unit]) -> str:
    """How many links and buttons have no name, and which other sites the links lead to."""
    links = [unit for unit in units if unit.kind == "link" and is_unnamed(unit)]
    buttons = [unit for unit in units if unit.kind == "button" and is_unnamed(unit)]
    images = [unit for unit in units if unit.kind == "image" and is_unnamed(unit)]
    found = []
    sites = list(dict.fromkeys(site for unit in links if (site := _known_site(unit.ax.url or ""))))
    if sites:
        found.append(f"{', '.join(sites[:8])} links")
    elif links:
        found.append(f"{in_words(len(links))} unnamed link{'s' * (len(links) > 1)}")
    if buttons:
        found.append(f"{in_words(len(buttons))} unnamed button{'s' * (len(buttons) > 1)}")
    if images and not links:
        found.append(f"{in_words(len(images))} image{'s' * (len(images) > 1)}")
    return ", ".join(found)


SITES = frozenset(
    "facebook twitter instagram youtube linkedin pinterest github tiktok whatsapp telegram reddit discord vimeo flickr tumblr snapchat spotify x rss bsky mastodon medium"
    " vk weibo line google apple amazon yelp tripadvisor soundcloud twitch slack".split()
)


def _known_site(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    labels = host.split(".")
    name = labels[-2] if len(labels) > 1 else ""
    return name.capitalize() if name in SITES else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
