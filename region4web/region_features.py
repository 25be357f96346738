"""What the purpose model reads of a region: hashed words and structure, in blocks.

Enters: a partition with the units of its regions. Leaves: per region and block a count of feature hashes. Words keep
the kind of element that says them (a link's `login` is not a paragraph's); addresses give words that do not depend on
the page's language. Features look at the region, where it stands, what stands around it, and the page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urlsplit
from zlib import crc32

from region4web.contents import Unit
from region4web.regions import Partition

__all__ = ["BLOCKS", "VOICES", "RegionFeatures", "headings_before", "region_features", "tokenize", "word_hash"]

BLOCKS = ("words", "kinds", "addresses", "structure", "context", "page")
VOICES = ("heading", "link", "control", "text", "label")
"""Who says a word: the model knows words by their meaning for each of these apart."""
VOICE_OF_KIND = {
    "heading": 0,
    "link": 1,
    "tab": 1,
    "button": 2,
    "field": 2,
    "select": 2,
    "check": 2,
    "radio": 2,
    "label": 4,
    "title": 4,
    "image": 4,
}


class RegionFeatures(NamedTuple):
    """Counts of hashes: `blocks` of features in the order of BLOCKS, `voices` of words in the order of VOICES."""

    blocks: tuple[Counter[int], ...]
    voices: tuple[Counter[int], ...]


WORD = re.compile(r"[^\W\d_]+|\d+|[$€£¥@©%#?!+→←»«›‹×*]")
WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
PATTERNS = {
    "price": re.compile(r"[$\u20ac\u00a3\u00a5\u20b9]\s?\d|\d\s?(?:\u20ac|EUR|USD|kr|z\u0142|\u20bd|\u0440\u0443\u0431)"),
    "date": re.compile(
        r"\b\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b|\b(?:19|20)\d\d-\d\d|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d", re.I
    ),
    "clock": re.compile(r"\b\d{1,2}:\d\d\b"),
    "ago": re.compile(r"\b(?:ago|yesterday|today)\b", re.I),
    "year": re.compile(r"\b(?:19|20)\d\d\b"),
    "email": re.compile(r"\w@\w"),
    "phone": re.compile(r"\+?\(?\d{2,4}\)?[ .-]\d{3}[ .-]?\d{2,}"),
    "copyright": re.compile(r"\u00a9|\(c\)|copyright|all rights", re.I),
    "percent": re.compile(r"\d\s?%"),
    "rating": re.compile(r"\b\d(?:\.\d)?\s?/\s?\d|\bstars?\b|\u2605", re.I),
    "counted": re.compile(r"\(\d+\)"),
    "question": re.compile(r"\?\s*$"),
    "quote": re.compile('^[\u201c"\u201e\u00ab]'),
    "by": re.compile(r"^(?:by|posted by|written by)\b", re.I),
    "code": re.compile(r"[{};=]{2}|\(\)|</"),
    "numbered": re.compile(r"^#?\d+\.?$"),
}
"""Kinds of text that tell a region's job in any language."""
TEXT_WORDS = 60
"""Words of running text that are read per region; headings and controls are always read."""
NAMES_OF_KIND = {"heading": "h", "link": "l", "button": "b", "field": "f", "select": "f", "check": "c", "radio": "c", "tab": "l", "text": "t",
                 "image": "i", "label": "a", "title": "T", "option": "o", "alert": "!", "column": "k"}  # fmt: skip
LANDMARKS = frozenset({"navigation", "banner", "contentinfo", "complementary", "form", "search", "main", "dialog", "alertdialog", "article", "region",
                       "list", "table", "listitem", "row", "tabpanel", "footer", "sectionheader", "sectionfooter", "Iframe", "LayoutTable", "menu", "grid"})  # fmt: skip


def region_features(partition: Partition, units: Sequence[Sequence[Unit]], numbers: Collection[int] | None = None) -> list[RegionFeatures]:
    """The features of each region, or of those in `numbers`, in page order. `units` are those of all regions."""
    tree = partition.tree
    nodes, n = tree.nodes, len(tree)
    page = _page_words(partition, units)
    host = _host(tree.url)
    above = headings_before(partition, units)
    keys = [_keywords(u) for u in units]
    said: dict[tuple[str, ...], int] = {}
    inner = Counter(region.enclosing for region in partition.regions)
    out: list[RegionFeatures] = []
    for region, own in zip(partition.regions, units, strict=True):
        content = tuple(unit.text for unit in own)
        twin = said.setdefault(content, region.number) != region.number
        if numbers is not None and region.number not in numbers:
            continue
        words: Counter[int] = Counter()
        voices: tuple[Counter[int], ...] = tuple(Counter() for _ in VOICES)
        kinds: Counter[int] = Counter()
        addresses: Counter[int] = Counter()
        structure: Counter[int] = Counter()
        context: Counter[int] = Counter()
        read = 0
        text_length = link_length = 0
        count: Counter[str] = Counter()
        patterns: Counter[str] = Counter()
        for unit in own:
            count[unit.kind] += 1
            text_length += len(unit.text)
            if unit.kind == "link":
                link_length += len(unit.text)
            tag = NAMES_OF_KIND.get(unit.kind, "t")
            tokens = tokenize(unit.text[:200])
            if tag == "t":
                if read >= TEXT_WORDS:
                    continue
                read += len(tokens)
            voice = voices[VOICE_OF_KIND.get(unit.kind, 3)]
            for token in tokens:
                word = word_hash(token)
                words[word] += 1
                voice[word] += 1
                kinds[_hash(tag, token)] += 1
            if tag in "hblfaco!" or read <= TEXT_WORDS // 2:
                for pair in pairwise(tokens[:8]):
                    kinds[_hash("2" if tag in "hblfaco!" else "2t", f"{pair[0]} {pair[1]}")] += 1
                kinds[_hash(f"1{tag}", tokens[0] if tokens else "")] += 1
            for pattern in _patterns(unit.text[:120]):
                patterns[pattern] += 1
            if unit.options:
                for option in unit.options[:12]:
                    for token in tokenize(option[:40]):
                        kinds[_hash("o", token)] += 1
            if unit.ax.url and unit.kind in ("link", "image", "button"):
                for feature in _address_words(unit.ax.url, host, unit.kind):
                    addresses[feature] += 1
        # structure: the region's own roles and sizes, what it hangs below
        roles = Counter(nodes[i].role for i in region.members.tolist())
        for role, times in roles.items():
            structure[_hash("r", role)] = 1
            structure[_hash("rn", f"{role}{_bucket(times)}")] = 1
        root = nodes[region.root]
        structure[_hash("R", root.role)] = 1
        for token in tokenize(root.name[:80]) if root.role not in ("RootWebArea", "cell", "row", "LayoutTableCell") else ():
            structure[_hash("Rn", token)] = 1
        for step, i in enumerate(tree.ancestors(region.root)):
            role = nodes[i].role
            if step == 0:
                structure[_hash("P", role)] = 1
            if role in LANDMARKS:
                structure[_hash("L", role)] += 1
                for token in tokenize(nodes[i].name[:60]) if role not in ("listitem", "row") else ():
                    structure[_hash("Ln", token)] = 1
        for kind, times in count.items():
            structure[_hash("kn", f"{kind}{_bucket(times)}")] = 1
        for unit in own[:200]:
            for key, value in unit.ax.states:
                if key in ("hasPopup", "expanded", "required", "checked", "selected", "disabled", "modal", "live", "pressed"):
                    structure[_hash("s", f"{key}={value}")] = 1
        start, stop = region.root / n, int(tree.end[region.root]) / n
        structure[_hash("size", _bucket(len(region)))] = 1
        structure[_hash("text", _bucket(text_length))] = 1
        structure[_hash("linky", str(int(4 * link_length / (text_length + 1))))] = 1
        structure[_hash("start", str(int(8 * start)))] = 1
        structure[_hash("end", str(int(8 * stop)))] = 1
        structure[_hash("depth", _bucket(int(tree.depth[region.root])))] = 1
        structure[_hash("rank", str(min(region.number, 6)))] = 1
        structure[_hash("last", str(min(len(partition) - region.number, 5)))] = 1
        structure[_hash("share", str(int(6 * len(region) / n)))] = 1
        structure[_hash("units", _bucket(len(own)))] = 1
        if not own:
            structure[_hash("empty", "1")] = 1
        for pattern, times in patterns.items():
            structure[_hash("pattern", pattern)] = 1
            structure[_hash("patterns", f"{pattern}{_bucket(times)}")] = 1
        order = [unit.kind for unit in own]
        for start_of in (order[:1], order[:2], order[:3], order[:5]):
            structure[_hash("first", " ".join(start_of))] = 1
        structure[_hash("final", " ".join(order[-2:]))] = 1
        for three in {*zip(order, order[1:], order[2:])}:
            structure[_hash("three", " ".join(three))] = 1
        heading = next((unit.text for unit in own if unit.kind == "heading"), "")
        if heading:
            structure[_hash("titled", str(int(3 * _overlap(heading, tree.title))))] = 1
            structure[_hash("heading", f"{_bucket(len(heading.split()))}{own[0].kind == 'heading'}")] = 1
        structure[_hash("inner", _bucket(inner[region.number]))] = 1
        # context: heading before, neighbours, region around, the same content seen before
        for token in tokenize(above[region.number][:80]):
            context[_hash("H", token)] += 1
        if region.number:
            for token in keys[region.number - 1]:
                context[_hash("<", token)] += 1
        if region.number + 1 < len(units):
            for token in keys[region.number + 1]:
                context[_hash(">", token)] += 1
        if region.enclosing > 0:
            for token in keys[region.enclosing]:
                context[_hash("^", token)] += 1
        if content and twin:
            context[_hash("twin", "1")] = 1
        out.append(RegionFeatures((words, kinds, addresses, structure, context, page), voices))
    return out


@lru_cache(maxsize=4096)
def tokenize(text: str) -> tuple[str, ...]:
    """Lower-case words; a number is `#` and its length; wide scripts in pairs of characters."""
    tokens: list[str] = []
    for token in WORD.findall(text.lower()):
        if token[0].isdigit():
            tokens.append(f"#{min(len(token), 5)}")
        elif WIDE.search(token):
            tokens.extend(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        else:
            tokens.append(token[:12])
    return tuple(tokens)


@lru_cache(maxsize=16384)
def _patterns(text: str) -> tuple[str, ...]:
    return tuple(name for name, pattern in PATTERNS.items() if pattern.search(text))


def _overlap(first: str, second: str) -> float:
    """Share of the first text's words that the second one has."""
    words = set(tokenize(first[:150]))
    return len(words & set(tokenize(second[:150]))) / len(words) if words else 0.0


def word_hash(token: str) -> int:
    """The hash of a word, whoever says it."""
    return _hash("w", token)


@lru_cache(maxsize=65536)
def _hash(tag: str, token: str) -> int:
    return crc32(f"{tag}:{token}".encode())


def _bucket(count: int) -> str:
    return str(count) if count < 4 else f"b{count.bit_length()}"


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host.removeprefix("www.")


@lru_cache(maxsize=8192)
def _address_words(url: str, host: str, kind: str) -> tuple[int, ...]:
    try:
        parts = urlsplit(url[:300])
        target = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return ()
    if kind == "image":
        return tuple(_hash("iu", token) for token in tokenize(parts.path.rsplit("/", 1)[-1][:60]))
    found = [_hash("us", parts.scheme)]
    if parts.scheme in ("http", "https"):
        if target and target != host:
            found.append(_hash("x", "1"))
            found.extend(_hash("x", part) for part in target.split(".")[-2:])
        if parts.fragment and parts.path.rstrip("/") in ("", "/"):
            found.append(_hash("frag", "1"))
        if parts.path in ("", "/") and not parts.query:
            found.append(_hash("home", "1"))
        tail = [segment for segment in parts.path.split("/") if segment][-2:]
        for segment in tail:
            found.extend(_hash("u", token) for token in tokenize(segment[:50])[:8])
        found.extend(_hash("q", token) for token in tokenize(parts.query[:60])[:6])
        found.extend(_hash("g", token) for token in tokenize(parts.fragment[:30])[:3])
    return tuple(found)


def _keywords(units: Sequence[Unit]) -> set[str]:
    """A few words that tell what a region is, for its neighbours."""
    found: set[str] = set()
    for unit in units[:40]:
        tag = NAMES_OF_KIND.get(unit.kind, "t")
        found.add(f"k{unit.kind}")
        if tag in "hbfac" and len(found) < 40:
            found.update(tag + token for token in tokenize(unit.text[:60]))
    return found


def _page_words(partition: Partition, units: Sequence[Sequence[Unit]]) -> Counter[int]:
    """What the page as a whole says: title, address, its buttons, fields and landmarks."""
    tree = partition.tree
    counts: Counter[int] = Counter()
    for token in {*tokenize(tree.title[:150]), *tokenize(tree.url[:150])}:
        counts[_hash("pt", token)] = 1
    for own in units:
        for unit in own:
            tag = NAMES_OF_KIND.get(unit.kind, "t")
            if tag in "bf":
                for token in tokenize(unit.text[:60]):
                    counts[_hash("pb", token)] = 1
            elif tag in "h":
                for token in tokenize(unit.text[:60]):
                    counts[_hash("ph", token)] = 1
    for role, times in Counter(node.role for node in tree.nodes).items():
        counts[_hash("pr", f"{role}{_bucket(times)}")] = 1
    counts[_hash("pn", _bucket(len(partition)))] = 1
    counts[_hash("ps", _bucket(len(tree)))] = 1
    return counts


def headings_before(partition: Partition, units: Sequence[Sequence[Unit]]) -> list[str]:
    """The nearest heading before each region's root, in page order."""
    headings = sorted((unit.node, unit.text) for own in units for unit in own if unit.kind == "heading")
    found, k, last = [], 0, ""
    for root in partition.roots:
        while k < len(headings) and headings[k][0] < root:
            last = headings[k][1]
            k += 1
        found.append(last)
    return found
