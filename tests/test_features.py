"""What a model sees of a tree is counted right, in linear time, and never from boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from growth import growth
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web.axtree import AXNode, AXTree
from region4web.features import FEATURE_NAMES, PAPER_FEATURE_NAMES, node_features, paper_features
from region4web.name_kinds import KINDS, letters, name_kind
from region4web.roles import ROLES
from region4web.words import shipped_words

TREE_ROLES = ["generic", "link", "StaticText", "heading", "list", "listitem", "button", "navigation", "no-such-role"]


@st.composite
def trees(draw: st.DrawFn, most: int = 40) -> AXTree:
    n = draw(st.integers(1, most))
    path, parent = [0], [-1]
    for i in range(1, n):
        depth = draw(st.integers(1, len(path)))
        path = path[:depth]
        parent.append(path[-1])
        path.append(i)
    roles = draw(st.lists(st.sampled_from(TREE_ROLES), min_size=n, max_size=n))
    names = draw(st.lists(st.sampled_from(["", "Log in", "12", "Next", "Read our story", "© 2020"]), min_size=n, max_size=n))
    nodes = tuple(AXNode(str(i), role, name) for i, (role, name) in enumerate(zip(roles, names)))
    return AXTree(nodes, np.asarray(parent, dtype=np.int32))


def small_tree() -> AXTree:
    nodes = [
        ("RootWebArea", "Shop"),
        ("navigation", ""),
        ("link", "Home"),
        ("link", "Sale"),
        ("main", ""),
        ("heading", "Lamps"),
        ("button", "Add to cart"),
    ]
    parent = [-1, 0, 1, 1, 0, 4, 4]
    return AXTree(tuple(AXNode(str(i), role, name) for i, (role, name) in enumerate(nodes)), np.asarray(parent, dtype=np.int32))


def feature(tree: AXTree, name: str) -> list[float]:
    return [round(float(value), 4) for value in node_features(tree).numbers[:, FEATURE_NAMES.index(name)]]


def test_there_are_204_roles_as_in_the_paper() -> None:
    assert len(ROLES) == len(set(ROLES)) == 204
    assert ROLES[-1] == "unknown"


def test_the_papers_five_numbers_of_a_small_page() -> None:
    rows = paper_features(small_tree()).numbers
    assert PAPER_FEATURE_NAMES == ("depth", "size", "children", "named", "child_role_diversity")
    assert rows[0].tolist() == pytest.approx([0, np.log(8), np.log(3), 1, 1.0])
    assert rows[1].tolist() == pytest.approx([np.log(2), np.log(4), np.log(3), 0, 0.5])
    assert rows[2].tolist() == pytest.approx([np.log(3), np.log(2), 0, 1, 0])


def test_shares_and_counts_of_a_small_page() -> None:
    tree = small_tree()
    assert feature(tree, "link_share")[:2] == [round(2 / 7, 4), round(2 / 3, 4)]
    assert feature(tree, "heading_after") == [0, 0, 0, 0, 0, 0, 0]
    assert feature(tree, "heading_before") == [0, 0, 0, 0, 0, 0, 1]
    assert feature(tree, "first_child_heading") == [0, 0, 0, 0, 1, 0, 0]
    assert feature(tree, "only_child") == [1, 0, 0, 0, 0, 0, 0]
    assert feature(tree, "same_role_before") == [0, 0, 0, 1, 0, 0, 0]
    assert feature(tree, "any_cart_name") == [1, 0, 0, 0, 1, 0, 1]


@settings(max_examples=60, deadline=None)
@given(trees())
def test_subtree_numbers_equal_counting_by_hand(tree: AXTree) -> None:
    links = feature(tree, "link_count")
    words = feature(tree, "words")
    known = shipped_words().row_of
    for i in range(len(tree)):
        inside = [tree.nodes[j] for j in tree.subtree(i)]
        assert links[i] == pytest.approx(np.log1p(sum(node.role == "link" for node in inside)), abs=1e-3)
        told = [word for j in tree.subtree(i) if j for word in letters(tree.nodes[j].name) if word in known]
        assert words[i] == pytest.approx(np.log1p(len(told)), abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(trees())
def test_numbers_are_finite_and_as_many_as_named(tree: AXTree) -> None:
    numbers = node_features(tree).numbers
    assert numbers.shape == (len(tree), len(FEATURE_NAMES))
    assert np.isfinite(numbers).all()
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)


def test_boxes_and_ids_are_not_read() -> None:
    tree = small_tree()
    moved = AXTree(tuple(replace(node, id=f"x{node.id}", box=(5.0, 5.0, 300.0, 900.0)) for node in tree.nodes), tree.parent)
    assert np.array_equal(node_features(tree).numbers, node_features(moved).numbers)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Log in", "account"),
        ("Anmelden", "account"),
        ("Войти", "account"),
        ("View basket (0)", "cart"),
        ("3", "number"),
        ("£12.50", "price"),
        ("© 2024 Example Ltd", "copyright"),
        ("+44 20 7946 0000", "mail"),
        ("info@example.org", "mail"),
        ("»", "sign"),
        ("Read our story", None),
    ],
)
def test_what_a_name_is_about(name: str, kind: str | None) -> None:
    assert name_kind(name, letters(name)) == (0 if kind is None else KINDS.index(kind) + 1)


@pytest.mark.parametrize(("shape", "size"), [("chain", 10_000), ("flat", 100_000)])
def test_ten_thousand_levels_and_a_hundred_thousand_siblings_take_linear_time(shape: str, size: int) -> None:
    def reading(n: int) -> Callable[[], object]:
        parent = np.arange(-1, n - 1) if shape == "chain" else np.r_[-1, np.zeros(n - 1)]
        tree = AXTree(tuple(AXNode(str(i), "generic") for i in range(n)), parent.astype(np.int32))
        return lambda: node_features(tree)

    assert growth(reading, size // 10, size, runs=2) < 4
