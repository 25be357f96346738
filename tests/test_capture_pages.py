"""Pages that each prove one thing about what capture keeps, finds and says: tests/pages/<what-it-proves>/.

`page.html` goes in; `expected.json` holds facts about the tree: nodes that must be there (by role, name, or the text
below them) and what they are, texts that no name may hold, notes that must be made. Folders are found, not listed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from region4web.axtree import AXTree
from region4web.snapshot import Snapshot

PAGES = Path(__file__).parent / "pages"
FOLDERS = sorted(path.parent for path in PAGES.glob("*/expected.json") if (path.parent / "page.html").exists())

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_page(folder: Path, live_page: Any) -> None:
    from region4web.capture import capture_live

    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    live_page.goto((folder / "page.html").as_uri())
    snapshot = capture_live(live_page)
    tree = AXTree.from_snapshot(Snapshot.from_json(json.loads(json.dumps(snapshot.to_json()))))

    for fact in expected["nodes"]:
        _check_node(tree, fact)
    names = [text for node in tree.nodes for text in (node.name, node.description, str(node.value or ""), node.url or "")]
    for text in expected.get("absent", ()):
        assert not [name for name in names if text in name], f"{text!r} must not be in the tree"
    for text in expected.get("not_clickable", ()):
        name, _, role = text.partition("/")
        assert not [node for node in tree.nodes if node.name == name and node.clickable and role in ("", node.role)]
    for text in expected.get("notes", ()):
        assert [note for note in snapshot.notes if text in note], f"no note says {text!r}: {snapshot.notes}"
    if expected.get("no_notes"):
        assert snapshot.notes == ()
    if expected.get("no_repairs"):
        assert tree.repairs == ()
    if limit := expected.get("longest_name"):
        assert max(len(name) for name in names if not name.startswith("file:")) <= limit


def _check_node(tree: AXTree, fact: dict[str, Any]) -> None:
    found = [i for i, node in enumerate(tree.nodes) if node.role == fact["role"] and _is_it(tree, i, fact)]
    assert found, f"no {fact} in\n" + "\n".join(f"{node.role} {node.name!r} {node.description!r} {node.states}" for node in tree.nodes)
    i = found[0]
    node = tree.nodes[i]
    for key in ("value", "frame", "clickable", "visible"):
        if key in fact:
            assert getattr(node, key) == fact[key], (key, node)
    if "box" in fact:
        assert node.box == pytest.approx(fact["box"], abs=1.0)
    if "parent" in fact:
        assert fact["parent"] in [tree.nodes[j].role for j in tree.ancestors(i)]
    order = [other.name for other in tree.nodes]
    if "after" in fact:
        assert order.index(fact["after"]) < i
    if "before" in fact:
        assert order.index(fact["before"]) > i
    if "controls" in fact:
        target = tree.find(str(node.state("controls")))
        assert target is not None
        assert tree.nodes[target].name == fact["controls"]


def _is_it(tree: AXTree, i: int, fact: dict[str, Any]) -> bool:
    node = tree.nodes[i]
    if "name" in fact and node.name != fact["name"]:
        return False
    if "description" in fact and node.description != fact["description"]:
        return False
    if "text" in fact and " ".join(tree.nodes[j].name for j in tree.subtree(i) if tree.nodes[j].name and j != i) != fact["text"]:
        return False
    return all(node.state(name) == value for name, value in fact.get("states", {}).items())
