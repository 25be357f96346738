"""What kind of element each node is, where it stands, and where recent actions were: features that read no task words.

Enters: a `RegionMap`, node texts, actions. Leaves: named columns (N,). Symbols: N nodes, R regions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagedigest.observation import Action
from region4web.axtree import AXNode, AXTree
from region4web.regions import RegionMap

__all__ = [
    "Columns",
    "Layout",
    "action_columns",
    "answer_columns",
    "named",
    "page_layout",
    "state_columns",
    "structure_columns",
    "task_columns",
]

Columns = dict[str, npt.NDArray[np.generic]]
Indices = npt.NDArray[np.int64]

ROLE_CLASSES: tuple[frozenset[str], ...] = (
    frozenset({"StaticText", "text", "paragraph", "term", "definition", "time", "code", "emphasis", "strong", "mark"}),
    frozenset({"link"}),
    frozenset({"button", "DisclosureTriangle", "toggle"}),
    frozenset({"textbox", "searchbox", "spinbutton", "textarea"}),
    frozenset({"combobox", "listbox", "slider", "Date", "DateTime", "ColorWell", "popupbutton"}),
    frozenset({"checkbox", "radio", "switch", "radiogroup"}),
    frozenset({"option", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem", "MenuListOption"}),
    frozenset({"heading"}),
    frozenset({"cell", "gridcell", "columnheader", "rowheader", "LayoutTableCell"}),
    frozenset({"row", "listitem", "article", "LayoutTableRow"}),
    frozenset({"image", "img", "figure", "graphics-document", "SvgRoot", "Video", "Audio"}),
    frozenset(
        {
            "banner",
            "navigation",
            "main",
            "contentinfo",
            "complementary",
            "search",
            "form",
            "region",
            "dialog",
            "alertdialog",
            "alert",
            "status",
        }
    ),
    frozenset({"LabelText", "Legend"}),
)
OTHER_ROLE = len(ROLE_CLASSES)
_ROLE_CLASS = {role: number for number, roles in enumerate(ROLE_CLASSES) for role in roles}
_FIELD_CLASSES = (3, 4, 5)
_ROW_ROLES = ROLE_CLASSES[9]
_TABLE_ROLES = frozenset({"table", "grid", "treegrid", "LayoutTable"})
_LANDMARKS = {
    "banner": 1,
    "navigation": 2,
    "main": 3,
    "contentinfo": 4,
    "complementary": 5,
    "search": 6,
    "form": 7,
    "dialog": 8,
    "alertdialog": 8,
}
_QUESTION = re.compile(
    r"\?|？|\b(?:who|what|when|where|which|why|how|is|are|does|do|tell me|list|summari[sz]e|give me|was|wer|wie|welche|quel|quelle|cuál|qué|как|что|кто|сколько|когда)\b",
    re.I,
)
_VALUES = re.compile(r"[\w.+-]+@[\w-]+\.\w+|\"[^\"]+\"|'[^']{2,}'|\b\d{3,}\b|password", re.I)
_OPENS = re.compile(
    r"\b(?:open|go to|visit|read|show|see|view|bring up|take me|navigate|pull up|look at|öffne|ouvr\w*|abr\w*|открой|покажи)\b|打开|開い|見せ",
    re.I,
)
_FILLS = re.compile(
    r"\b(?:write|type|enter|fill|set|change|rename|put|name|sign me up|register|send|ask|subscribe|book|message|comment|reply|create|make)\b",
    re.I,
)
_CHOOSES = re.compile(
    r"\b(?:choose|select|tick|check|untick|switch|turn|only|filter|sort|mark|pick|size|colou?r|option|configuration|quantity|language)\b",
    re.I,
)
_ANSWERS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (
        re.compile(
            r"\b(?:how much|price|cost|costs|cheap\w*|expensive|pay|paid|fee|worth|salary|total|amount|prix|preis|precio|цена|стоит)\b|いくら|价格",
            re.I,
        ),
        re.compile(r"[$€£¥₽₹]\s?\d|\d\s?(?:[$€£¥₽₹]|USD|EUR|GBP|kr|руб|zł)|\bfree\b", re.I),
    ),
    (
        re.compile(
            r"\b(?:when|date|day|year|month|since|until|deadline|opens?|closes?|start|starts|time|hours|wann|quand|cuándo|когда)\b|何時|いつ",
            re.I,
        ),
        re.compile(
            r"\b(?:19|20)\d\d\b|\b\d{1,2}[:.]\d\d\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\bago\b|\b\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}|[年月日]",
            re.I,
        ),
    ),
    (
        re.compile(
            r"\bhow (?:many|long|old|far|big|tall|heavy|wide|often)|number|percent\w*|share\b|wie viele|combien|cuánt|сколько|件", re.I
        ),
        re.compile(r"\d"),
    ),
    (
        re.compile(r"\b(?:who|whose|author|name|written by|editor|photographer|qui|wer|quién|кто|кем)\b|誰", re.I),
        re.compile(r"\b[A-ZÀ-ÞА-Я][\w'’-]+ (?:[A-Z]\. )?[A-ZÀ-ÞА-Я][\w'’-]+|\bby\b"),
    ),
    (
        re.compile(r"\b(?:e-?mail|mail|contact|phone|call|number|fax|telephone)\b", re.I),
        re.compile(r"[\w.+-]+@[\w-]+\.\w|\+?\(?\d{2,4}\)?[ .-]\d{3}[ .-]?\d{2,}"),
    ),
    (
        re.compile(r"\b(?:command|code|type|install|run|snippet|example|syntax|config\w*)\b", re.I),
        re.compile(r"[{}=<>();]|--\w|\b(?:npm|pip|git|curl|brew|cargo|npx|sudo|apt|import)\b"),
    ),
    (
        re.compile(r"\b(?:where|address|located|location|street|city|wo|où|dónde|где)\b", re.I),
        re.compile(r"\b\d{5}\b|\b(?:street|st\.?|road|rd|avenue|ave|drive|suite|floor)\b", re.I),
    ),
)
"""What a task asks for, and what a text that answers it looks like."""
ANSWER_TEXT_LIMIT = 300


@dataclass(frozen=True)
class Layout:
    """Where each of N nodes stands, as node indices (-1: none) or counts."""

    role: Indices
    heading: Indices
    row: Indices
    landmark: Indices
    column_head: Indices
    siblings: Indices
    place: Indices
    in_table: Indices

    @property
    def control(self) -> npt.NDArray[np.bool_]:
        """(N,) whether an agent acts on such elements."""
        return is_control(self.role)


def is_control(role: Indices) -> npt.NDArray[np.bool_]:
    """(N,) whether an agent acts on elements of these `Layout.role`."""
    return (role >= 1) & (role <= 6)


def page_layout(tree: AXTree) -> Layout:
    """One pass over the tree."""
    n = len(tree)
    parent = tree.parent.tolist()
    roles = [node.role for node in tree.nodes]
    role = np.asarray([_ROLE_CLASS.get(name, OTHER_ROLE) for name in roles])
    heading, row, landmark, table = [-1] * n, [-1] * n, [0] * n, [0] * n
    column_head, siblings, place = [-1] * n, [1] * n, [0] * n
    counts: dict[tuple[int, str], int] = {}
    latest = -1
    for i in range(n):
        p = parent[i]
        name = roles[i]
        heading[i] = latest
        if name == "heading":
            latest = i
        if p >= 0:
            landmark[i], row[i], table[i] = landmark[p], row[p], table[p]
            place[i] = counts.get((p, name), 0)
            counts[p, name] = place[i] + 1
        landmark[i] = _LANDMARKS.get(name, landmark[i])
        if name in _ROW_ROLES:
            row[i] = i
        if name in _TABLE_ROLES:
            table[i] = 1
            _mark_column_heads(tree, i, roles, column_head)
    for i in range(1, n):
        siblings[i] = counts[parent[i], roles[i]]
        if column_head[i] < 0:  # what hangs in a cell stands under that cell's column head
            column_head[i] = column_head[parent[i]]
    return Layout(role, *(np.asarray(a) for a in (heading, row, landmark, column_head, siblings, place, table)))


def _mark_column_heads(tree: AXTree, table: int, roles: list[str], column_head: list[int]) -> None:
    heads: tuple[int, ...] | None = None
    for i in tree.subtree(table):
        if roles[i] in ("row", "LayoutTableRow"):
            cells = tree.children[i]
            if heads is None:
                heads = cells
            else:
                for k, cell in enumerate(cells[: len(heads)]):
                    column_head[cell] = heads[k]


def structure_columns(region_map: RegionMap, layout: Layout, texts: Sequence[str]) -> Columns:
    """Kind, states, place in page and region, and what the region holds."""
    partition = region_map.partition
    tree = partition.tree
    nodes = tree.nodes
    n, r = len(tree), len(partition)
    region_of = partition.region_of
    at = np.arange(n)
    roots = np.asarray(partition.roots)
    sizes = np.bincount(region_of, minlength=r)
    controls = np.bincount(region_of, weights=layout.control, minlength=r)
    fields = np.bincount(region_of, weights=np.isin(layout.role, _FIELD_CLASSES), minlength=r)
    links = np.bincount(region_of, weights=layout.role == 1, minlength=r)
    length = np.asarray([len(text) for text in texts])
    text_length = np.bincount(region_of, weights=np.where(layout.role == 1, 0, length), minlength=r)
    pairs = list(zip(layout.role.tolist(), texts, strict=True))
    count: dict[tuple[int, str], int] = {}
    for pair in pairs:
        count[pair] = count.get(pair, 0) + 1
    return {
        **state_columns(nodes),
        "role": layout.role,
        "parent_role": np.where(tree.parent >= 0, layout.role[np.maximum(tree.parent, 0)], OTHER_ROLE),
        "searchbox": np.asarray([node.role in ("searchbox", "search") for node in nodes]),
        "combobox": np.asarray([node.role == "combobox" for node in nodes]),
        "cell": np.asarray([node.role in ("cell", "gridcell", "LayoutTableCell") for node in nodes]),
        "static_text": np.asarray([node.role == "StaticText" for node in nodes]),
        "length": np.minimum(length, 400),
        "repeats": np.log1p(np.asarray([count[pair] for pair in pairs])),
        "nodes": np.full(n, np.log(n)),
        "position": at / n,
        "depth": tree.depth,
        "subtree": np.log(tree.end - at),
        "landmark": layout.landmark,
        "in_table": layout.in_table,
        "siblings": np.log(layout.siblings),
        "place": np.minimum(layout.place, 50),
        "place_from_end": np.minimum(layout.siblings - layout.place, 50),
        "is_region_root": np.isin(at, roots),
        "region_place": region_of / r,
        "in_page_region": region_of == 0,
        "region_size": np.log(sizes)[region_of],
        "region_share": (sizes / n)[region_of],
        "place_in_region": (at - roots[region_of]) / np.maximum(tree.end[roots] - roots, 1)[region_of],
        "region_controls": np.log1p(controls)[region_of],
        "region_fields": np.log1p(fields)[region_of],
        "region_link_share": (links / sizes)[region_of],
        "region_text": np.log1p(text_length)[region_of],
    }


def state_columns(nodes: Sequence[AXNode]) -> Columns:
    """What each node's states and value say."""
    states = [dict(node.states) for node in nodes]
    return {
        "has_value": np.asarray([node.value is not None for node in nodes]),
        "has_url": np.asarray([node.url is not None for node in nodes]),
        "focused": np.asarray([bool(s.get("focused")) for s in states]),
        "disabled": np.asarray([bool(s.get("disabled")) for s in states]),
        "required": np.asarray([bool(s.get("required")) for s in states]),
        "popup": np.asarray(["hasPopup" in s or "expanded" in s for s in states]),
        "checked": np.asarray([1 + (s["checked"] in (True, "true")) if "checked" in s else 0 for s in states]),
        "hidden": np.asarray([not node.visible for node in nodes]),
    }


def task_columns(task: str, n: int) -> Columns:
    """What kind of task it is; the same for all N nodes."""
    return {
        "task_length": np.full(n, np.log1p(len(task))),
        "task_asks": np.full(n, bool(_QUESTION.search(task))),
        "task_values": np.full(n, min(6, len(_VALUES.findall(task)))),
        "task_opens": np.full(n, bool(_OPENS.search(task))),
        "task_fills": np.full(n, bool(_FILLS.search(task))),
        "task_chooses": np.full(n, bool(_CHOOSES.search(task))),
    }


def answer_columns(task: str, texts: Sequence[str]) -> Columns:
    """Whether a text looks like an answer of a kind that the task asks for, and how much of it is digits."""
    asked = [answer for question, answer in _ANSWERS if question.search(task)]
    seen: dict[str, tuple[int, float, bool]] = {"": (0, 0.0, False)}
    for text in texts:
        if text not in seen:
            start = text[:ANSWER_TEXT_LIMIT]
            digits = sum(map(str.isdigit, start[:60])) / min(len(start), 60)
            seen[text] = (sum(1 for answer in asked if answer.search(start)), digits, text[-1] in ":：")
    return {
        "answers": np.asarray([seen[text][0] for text in texts]),
        "asked_kinds": np.full(len(texts), len(asked)),
        "digits": np.asarray([seen[text][1] for text in texts]),
        "is_caption": np.asarray([seen[text][2] for text in texts]),
    }


def action_columns(tree: AXTree, region_of: npt.NDArray[np.int32], actions: Sequence[Action], role: Indices) -> Columns:
    """How far each node is from what was acted on; all zero at the first step and after a page change. `role` (N,): `Layout.role`."""
    n = len(tree)
    at = np.arange(n)
    targets = [None if action.target is None else tree.find(action.target) for action in actions]
    found = [i for i in targets if i is not None]
    last = targets[-1] if targets and targets[-1] is not None else -1
    touched = np.bincount(np.asarray(found, dtype=np.int64), minlength=n)
    controls = np.cumsum(is_control(role))
    return {
        "steps": np.full(n, min(len(actions), 20)),
        "touched": np.minimum(touched, 3),
        "after_last": np.clip(at - last, -60, 60) if last >= 0 else np.zeros(n),
        "controls_after_last": np.clip(controls - controls[last], -30, 30) if last >= 0 else np.zeros(n),
        "is_last": at == last,
        "touched_region": np.isin(region_of, region_of[found]) if found else np.zeros(n),
        "last_region": region_of == region_of[last] if last >= 0 else np.zeros(n),
        "last_kind": np.full(n, role[last] if last >= 0 else -1),
    }


def named(columns: Mapping[str, npt.NDArray[np.generic]], names: Sequence[str]) -> npt.NDArray[np.float32]:
    """(N, F) float32, the columns of these names in order."""
    return np.stack([np.asarray(columns[name], dtype=np.float32) for name in names], axis=1)
