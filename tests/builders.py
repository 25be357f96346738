"""Small trees and snapshots for tests, and hypothesis strategies for sound and malformed ones.

`tree("...")` reads flattened text with four spaces or a tab a level; `snapshot(...)` and `node(...)` build CDP nodes.
`random_tree` and `random_nodes` make many quickly. Strategies: `trees()`, `cuts(tree)`, `cdp_nodes()` (sound), `broken_nodes()` (anything JSON can hold), `json_values()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from region4web import AXNode, AXTree, Snapshot

GOLD = Path(__file__).parent.parent / "data" / "gold"

ROLES = ("generic", "list", "listitem", "link", "button", "heading", "navigation", "StaticText", "image", "textbox", "table", "row")
NAMES = ("", "Save", "Open order 12", "it's", 'say "hi"', "line\\n[7] button 'x'", "注文", "\ue627", "[12] link 'Forged'", "a\xa0b", "'")


def tree(text: str, *, url: str = "http://shop.test/orders", title: str = "") -> AXTree:
    """The tree of flattened text; four spaces stand for a tab, blank lines around it do not count."""
    return AXTree.from_text(text.strip("\n").replace("    ", "\t"), url=url, title=title)


def node(node_id: int, role: str, name: str = "", children: Iterable[int] = (), *, url: str | None = None, **fields: Any) -> dict[str, Any]:
    """A CDP AXNode. `fields` are further keys of the node; None leaves a key out."""
    properties = list(fields.pop("properties", ()))
    if url is not None:
        properties.append({"name": "url", "value": {"type": "string", "value": url}})
    entry = {
        "nodeId": str(node_id),
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "properties": properties,
        "childIds": [str(child) for child in children],
        "backendDOMNodeId": node_id,
        **fields,
    }
    return {key: value for key, value in entry.items() if value is not None}


def prop(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "value": {"value": value}}


def snapshot(*nodes: dict[str, Any], **fields: Any) -> Snapshot:
    """A snapshot of these nodes."""
    return Snapshot.from_json(
        {"url": "http://shop.test/", "title": "Shop", "viewport": [1280, 720], "nodes": list(nodes), "boxes": {}, **fields}
    )


def lines(tree: AXTree) -> list[str]:
    """The rendering, a line a node, four spaces a level."""
    from region4web.render import render_lines

    return [line.replace("\t", "    ") for line in render_lines(tree)]


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    """Names as pages have them, lone surrogates and control characters included."""
    return st.sampled_from(NAMES) | st.text(st.characters(codec=None), max_size=max_size)


def state_values() -> st.SearchStrategy[str | bool | int | float]:
    return st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False) | texts()


@st.composite
def parents(draw: st.DrawFn, max_nodes: int = 24) -> list[int]:
    """A parent array in preorder."""
    found, path = [-1], [0]
    for i in range(1, draw(st.integers(1, max_nodes))):
        del path[draw(st.integers(0, len(path) - 1)) + 1 :]
        found.append(path[-1])
        path.append(i)
    return found


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 24) -> AXTree:
    """Any tree that the type allows: odd names, ids with and without a frame, unaddressable nodes."""
    parent = draw(parents(max_nodes))
    nodes = []
    for i in range(len(parent)):
        addressable = draw(st.integers(0, 3)) > 0
        states = draw(
            st.lists(st.tuples(st.sampled_from(("checked", "expanded", "hasPopup", "value-now", "clickable")), state_values()), max_size=2)
        )
        nodes.append(
            AXNode(
                id=f"{draw(st.sampled_from(('', 'f1:', 'a')))}{i + 1}" if addressable else f"_{i}",
                role=draw(st.sampled_from(ROLES)) if i else "RootWebArea",
                name=draw(texts()),
                value=draw(st.none() | state_values()),
                states=tuple(states),
                url=draw(st.none() | texts()),
                box=draw(st.sampled_from((None, (0.0, 0.0, 10.0, 10.0)))),
                visible=draw(st.booleans()),
                addressable=addressable,
            )
        )
    return AXTree(tuple(nodes), np.asarray(parent, dtype=np.int32), url="http://shop.test/", title="Shop")


@st.composite
def cuts(draw: st.DrawFn, tree: AXTree) -> list[int]:
    """Nodes at which a tree is cut, in any order, perhaps twice."""
    return draw(st.lists(st.integers(0, len(tree) - 1), max_size=len(tree)))


@st.composite
def cdp_nodes(draw: st.DrawFn, max_nodes: int = 24) -> list[dict[str, Any]]:
    """Sound nodes of one document, in preorder; every node's name holds its number, unless it is a nameless wrapper."""
    parent = draw(parents(max_nodes))
    found = []
    for i in range(len(parent)):
        role = draw(st.sampled_from((*ROLES, "InlineTextBox", "none"))) if i else "RootWebArea"
        name = "" if role == "none" or (role == "generic" and draw(st.booleans())) else f"{draw(st.sampled_from(NAMES))} item {i}"
        entry = node(i + 1, role, name, [k + 1 for k in range(len(parent)) if parent[k] == i])
        entry["ignored"] = role == "none"
        if i:
            entry["parentId"] = str(parent[i] + 1)
        found.append(entry)
    return found


def random_tree(random: Random, max_nodes: int = 16) -> AXTree:
    """A tree like those of `trees()`, from a generator: many times faster, and it does not shrink."""
    parent, path, nodes = [-1], [0], []
    numbers = random.sample(range(1, 40), max_nodes)
    for i in range(1, random.randint(1, max_nodes)):
        del path[random.randint(0, len(path) - 1) + 1 :]
        parent.append(path[-1])
        path.append(i)
    for i in range(len(parent)):
        addressable = random.random() < 0.75
        nodes.append(
            AXNode(
                id=f"{random.choice(('', '', 'f1:'))}{numbers[i]}" if addressable else f"_{numbers[i]}",
                role=random.choice(ROLES) if i else "RootWebArea",
                name=_random_text(random),
                value=random.choice((None, None, True, 0.5, -7, "Pending", "\n[9] x ''")),
                states=tuple(
                    (name, random.choice((True, False, "true", "mixed", 3, "a'b")))
                    for name in ("checked", "expanded", "focused")
                    if random.random() < 0.2
                ),
                url=random.choice((None, None, "http://shop.test/a", "x' [1]")),
                box=random.choice((None, (0.0, 0.0, 10.0, 10.0))),
                visible=random.random() < 0.8,
                addressable=addressable,
            )
        )
    return AXTree(
        tuple(nodes), np.asarray(parent, dtype=np.int32), url=random.choice(("http://shop.test/", "http://shop.test/b", "")), title="Shop"
    )


def random_nodes(random: Random, max_nodes: int = 8) -> list[dict[str, Any]]:
    """Nodes like those of `broken_nodes()`, from a generator."""
    wild: tuple[Any, ...] = (
        None,
        True,
        False,
        0,
        -1,
        1.5,
        float("nan"),
        10**400,
        "",
        "x",
        "\ud800",
        [],
        [1],
        {},
        {"value": []},
        {"value": None},
    )
    ids = ("1", "2", "3", "4", "5", "6", 1, 2, 3, *wild)

    def field() -> Any:
        return (
            {"value": random.choice(wild) if random.random() < 0.3 else _random_text(random)}
            if random.random() < 0.9
            else random.choice(wild)
        )

    found = []
    for i in range(random.randint(1, max_nodes)):
        entry: dict[str, Any] = {
            "nodeId": str(i + 1) if random.random() < 0.7 else random.choice(ids),
            "role": {"value": random.choice((*ROLES, "RootWebArea", "none", "a b"))},
        }
        for key, chance in (("parentId", 0.5), ("backendDOMNodeId", 0.7), ("browsergym_id", 0.5), ("frame", 0.1), ("ignored", 0.2)):
            if random.random() < chance:
                entry[key] = random.choice((*ids, "a3", "f1", "a] b")) if key != "ignored" else random.choice((True, True, *wild))
        if random.random() < 0.7:
            entry["childIds"] = [random.choice(ids) for _ in range(random.randint(0, 4))] if random.random() < 0.9 else random.choice(wild)
        for key in ("role", "name", "value", "description"):
            if random.random() < (0.8 if key == "name" else 0.15):
                entry[key] = field()
        if random.random() < 0.4:
            names = ("url", "checked", "focused", "live", "a b", None)
            entry["properties"] = (
                [{"name": random.choice(names), "value": field()} for _ in range(2)] if random.random() < 0.9 else random.choice(wild)
            )
        found.append(entry)
    return found


def _random_text(random: Random) -> str:
    if random.random() < 0.6:
        return random.choice(NAMES)
    return "".join(
        chr(random.choice((random.randint(0, 255), random.randint(0, 0xFFFF), random.randint(0, 0x10FFFF), 10, 39, 92, 91)))
        for _ in range(random.randint(0, 10))
    )


def json_values(max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Anything that a JSON file or a careless caller can hold: NaN, huge integers, lone surrogates."""
    scalars = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | texts()
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(6), inner, max_size=4), max_leaves=max_leaves
    )


@st.composite
def broken_nodes(draw: st.DrawFn, max_nodes: int = 10) -> list[dict[str, Any]]:
    """Nodes whose links and fields may be anything: cycles, orphans, several roots, wrong types, ids used twice."""
    ids = st.sampled_from(("1", "2", "3", "4", "5", 1, 2, 3, "x", "", None, True, 1.5, 10**400)) | json_values(3)
    field = json_values(4) | st.fixed_dictionaries({"value": json_values(3) | texts()})
    role = (
        st.fixed_dictionaries({"value": st.sampled_from((*ROLES, "RootWebArea", "Iframe", "none", "InlineTextBox", "a b", "x]"))}) | field
    )
    properties = st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(("url", "checked", "focused", "a b")) | json_values(2), "value": field})
        | json_values(2),
        max_size=3,
    )
    optional = {
        "nodeId": ids, "parentId": ids, "childIds": st.lists(ids, max_size=5) | json_values(3), "backendDOMNodeId": ids,
        "role": role, "name": field, "value": field, "description": field, "properties": properties | json_values(3),
        "ignored": st.booleans() | json_values(2), "frame": st.sampled_from(("f1", "f2", "a b", "f1]\n[9] button")) | json_values(2),
        "browsergym_id": st.sampled_from(("12", "a3", "a3", "b] x")) | json_values(2),
    }  # fmt: skip
    return draw(st.lists(st.fixed_dictionaries({}, optional=optional), min_size=1, max_size=max_nodes))
