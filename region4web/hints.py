"""What tells a control that has no name: title, description, alternative text, test id, icon class, position.

Enters: accessibility nodes by backend id, their document and layout. Leaves: the same nodes with `description` and the state `hint` filled,
and with the state `name_unseen` where the name says what the screen does not. Also the text of an element, as the document has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

from region4web.domsnapshot import ELEMENT, TEXT, DomDocument
from region4web.layout import Layout
from region4web.properties import WIDGET_ROLES, add_property, property_of

__all__ = ["SILENT", "describe_unnamed", "mark_unseen_names", "short_text", "shown_texts"]

SILENT = frozenset({"STYLE", "SCRIPT", "NOSCRIPT", "TEMPLATE", "HEAD"})
"""Elements whose text is no text of the page."""
TEXT_LIMIT = 120
NAMED_BY_ICON = WIDGET_ROLES - {"listbox", "option"}
_UNNAMED = {"button": "unnamed icon button", "generic": "unnamed icon button"}

UNSEEN_LENGTH = 20
"""Letters of a name that must be missing on the screen before that is said; a letter outside Latin counts double."""
NAMED_BY_CONTENT = frozenset(
    {"heading", "link", "button", "cell", "gridcell", "row", "listitem", "tab", "menuitem", "option", "tooltip", "label"}
)

_ICON_CLASS = re.compile(
    r"(?:^|\s)(?:fa|fas|far|bi|mdi|icons?|glyphicon|ti|ri|lucide|octicon|oi|la|pi|uil|el-icon|anticon)-+([a-z][\w-]*[a-z0-9])", re.I
)
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd\\s]*")
_WORDY = re.compile(r"[A-Za-z][A-Za-z_-]{2,39}")
_SPACE = re.compile(r"\s+")


def describe_unnamed(by_backend: dict[int, dict[str, Any]], dom: DomDocument, layout: Layout, viewport: tuple[float, float]) -> None:
    """Fill `description` of controls that have no name, or only an icon font's character."""
    nameless: list[tuple[dict[str, Any], int]] = []
    for backend, node in by_backend.items():
        role = node.get("role", {}).get("value")
        name = str((node.get("name") or {}).get("value") or "")
        i = dom.node_of.get(backend)
        if node.get("ignored") or i is None or i in layout.invisible or not _PRIVATE.fullmatch(name):
            continue
        if described := str((node.get("description") or {}).get("value") or ""):
            if role in NAMED_BY_ICON and property_of(node, "hint") is None:
                add_property(node, "hint", short_text(described))
            continue
        if role not in NAMED_BY_ICON and not (role == "generic" and i in layout.clickable and not shown_texts(dom, i)):
            continue
        if hint := _hint(dom, i):
            _describe(node, hint)
        else:
            nameless.append((node, i))
    nameless.sort(key=lambda entry: entry[1])
    kinds = [_UNNAMED.get(node["role"]["value"], f"unnamed {node['role']['value']}") for node, _ in nameless]
    counted: Counter[str] = Counter()
    for kind, (node, i) in zip(kinds, nameless, strict=True):
        counted[kind] += 1
        x, y, w, h = dom.boxes.get(i, (0.0, 0.0, 0.0, 0.0))
        place = f"{_third(y + h / 2 - dom.scroll[1], viewport[1], 'top', 'middle', 'bottom')} {_third(x + w / 2, viewport[0], 'left', 'centre', 'right')}"
        _describe(node, f"{kind} {counted[kind]} of {kinds.count(kind)}, {place}")


def mark_unseen_names(by_backend: dict[int, dict[str, Any]], dom: DomDocument, layout: Layout) -> None:
    """`name_unseen` on nodes whose name, given by `aria-label` or by text that cannot be read, is longer than what people see of it.

    Alternative texts of pictures count as seen: they say what is there to see.
    """
    for backend, node in by_backend.items():
        i = dom.node_of.get(backend)
        name = _SPACE.sub(" ", str((node.get("name") or {}).get("value") or "")).strip()
        if (
            node.get("ignored")
            or i is None
            or dom.node_type[i] != ELEMENT
            or i in layout.invisible
            or _weight(name.split()) < UNSEEN_LENGTH
        ):
            continue
        attributes = dom.attributes[i]
        labelled = _SPACE.sub(" ", attributes.get("aria-label", "")).strip() == name
        if not labelled and (node.get("role", {}).get("value") not in NAMED_BY_CONTENT or "aria-labelledby" in attributes):
            continue
        said = [*shown_texts(dom, i, layout.invisible), attributes.get("placeholder", ""), attributes.get("value", "")]
        if not labelled and not _SPACE.sub(" ", " ".join(texts(dom, i))).strip():
            continue  # named by something else than its text
        seen = Counter(" ".join(said).casefold().split())
        unseen = list((Counter(name.casefold().split()) - seen).elements())
        if _weight(unseen) >= UNSEEN_LENGTH:
            add_property(node, "name_unseen", True)


def _weight(words: list[str]) -> int:
    return sum(1 if letter < "\u0250" else 2 for word in words for letter in word)


def _describe(node: dict[str, Any], text: str) -> None:
    """`description` for who reads it, `hint` among the states for who prints the node."""
    node["description"] = {"type": "computedString", "value": text}
    add_property(node, "hint", text)


def _hint(dom: DomDocument, i: int) -> str:
    """What else tells a control: title, described-by text, svg title, test id, icon class, id; '' when nothing does."""
    attributes = dom.attributes[i]
    if title := attributes.get("title", "").strip():
        return short_text(title)
    if ids := attributes.get("aria-describedby", "").split():
        described = [text for j, other in enumerate(dom.attributes) if other.get("id") in ids for text in texts(dom, j)]
        if described:
            return short_text(" ".join(described))
    for j in range(i, dom.end[i]):
        inner = dom.attributes[j]
        telling = dom.name[j].lower() == "title" or (j > i and inner.get("title", inner.get("alt", "")).strip())
        if telling and (text := short_text(" ".join(texts(dom, j)) or inner.get("title") or inner.get("alt") or "")):
            return text
    if (shown := short_text(" ".join(shown_texts(dom, i)))) and not _PRIVATE.fullmatch(shown):
        return shown
    for name in ("data-testid", "data-test", "data-cy", "data-qa", "data-action", "data-icon", "placeholder", "name"):
        if value := attributes.get(name, "").strip():
            return short_text(_words(value))
    for j in range(i, dom.end[i]):
        inner = dom.attributes[j]
        if found := _ICON_CLASS.search(inner.get("class", "")):
            return short_text(_words(found[1]))
        for name in ("data-icon", "data-lucide", "href", "xlink:href"):
            if j > i and (value := inner.get(name, "")) and ("#" in value or name.startswith("data")):
                return short_text(_words(value.rsplit("#", 1)[-1]))
    for value in (attributes.get("id", ""), *attributes.get("class", "").split()):
        if _WORDY.fullmatch(value) and value.lower() not in ("btn", "button", "link", "icon"):
            return short_text(_words(value))
    return ""


def _words(value: str) -> str:
    value = re.sub(r"^(?:icon|btn|button)[-_]|[-_](?:icon|btn|button)$", "", value, flags=re.I)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", value).replace("-", " ").replace("_", " ").strip().lower()


def _third(value: float, size: float, low: str, middle: str, high: str) -> str:
    return low if value < size / 3 else middle if value < 2 * size / 3 else high


def shown_texts(dom: DomDocument, i: int, unseen: Collection[int] = ()) -> list[str]:
    """Texts below element i that are laid out, with the alternative texts of pictures; what is `unseen` left out."""
    found, j = [], i
    while j < dom.end[i]:
        if dom.name[j] in SILENT:
            j = dom.end[j]
            continue
        if j in unseen:
            j += 1
            continue
        if dom.node_type[j] == TEXT and dom.text[j].strip() and j in dom.boxes:
            found.append(dom.text[j].strip())
        elif dom.name[j] == "IMG" and dom.attributes[j].get("alt"):
            found.append(dom.attributes[j]["alt"])
        j += 1
    return found


def texts(dom: DomDocument, i: int) -> list[str]:
    return [dom.text[j].strip() for j in range(i, dom.end[i]) if dom.node_type[j] == TEXT and dom.text[j].strip()]


def short_text(text: str) -> str:
    text = _SPACE.sub(" ", text).strip()
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "\u2026"
