"""The product on the gold set: 74 annotated pages of real applications."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from region4web import AXTree
from region4web.labels import AnnotatedPage, annotated_pages
from region4web.metrics import PartitionScore, score_partition
from region4web.regions import Segmenter
from region4web.render import render_tree
from region4web.segmenters import segmenter_by_name
from tests.builders import GOLD


@cache
def pages() -> tuple[AnnotatedPage, ...]:
    return tuple(annotated_pages(GOLD / "captures", GOLD / "labels"))


def region_f1(segmenter: Segmenter) -> float:
    return sum((score_partition(segmenter.segment(page.tree), page.gold.partition) for page in pages()), PartitionScore()).region_f1


def test_the_set_is_what_its_datasheet_says() -> None:
    assert len(pages()) == 74
    assert sum(len(page.gold.partition) for page in pages()) == 683
    assert sum(len(page.tree) for page in pages()) == 16_581
    datasheet = (GOLD.parent / "README.md").read_text(encoding="utf-8")
    assert "74 pages, 16,581 nodes after preprocessing, 683 regions" in datasheet


def test_every_labelled_root_is_in_our_tree_and_no_page_needs_more_than_known_repairs() -> None:
    assert sum(page.roots_mapped for page in pages()) == 0
    kinds = {repair.split(" x ")[1].split(", first")[0] for page in pages() for repair in page.tree.repairs}
    assert kinds <= {"exact copy of a node left out"}


def test_the_split_holds_every_site_once_and_keeps_an_application_on_one_side() -> None:
    split = json.loads((GOLD / "split.json").read_text(encoding="utf-8"))
    assert sorted(split) == ["test", "train", "validation"]
    sites = [site for part in split.values() for site in part]
    assert sorted(sites) == sorted({page.site for page in pages()})
    assert {"app-oscar_dashboard", "app-oscar_shop"} <= set(split["train"])


def test_purposes_keep_the_guidelines() -> None:
    for page in pages():
        for abstraction in page.gold.abstractions:
            assert 1 <= len(abstraction.purpose.split()) <= 12, (page.name, abstraction.purpose)
            assert "\n" not in abstraction.purpose + abstraction.state


def test_trees_of_real_pages_print_and_read_back() -> None:
    for page in pages():
        text = render_tree(page.tree)
        again = AXTree.from_text(text, url=page.tree.url, title=page.tree.title)
        assert render_tree(again) == text, page.name
        assert again.repairs == (), page.name


@pytest.mark.parametrize(("name", "expected"), [("whole-page", 0.066), ("headings", 0.226), ("landmarks", 0.580), ("fixed-depth", 0.666)])
def test_rules_reach_what_the_datasheet_says(name: str, expected: float) -> None:
    assert region_f1(segmenter_by_name(name)) == pytest.approx(expected, abs=0.0006)


def test_labels_agree_with_themselves() -> None:
    total = sum((score_partition(page.gold.partition, page.gold.partition) for page in pages()), PartitionScore())
    assert total.region_f1 == total.edge_f1 == 1.0


def test_the_packaged_weights_are_far_above_the_best_rule() -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra 'model')")
    assert region_f1(segmenter_by_name("best")) > 0.80


def test_eval_prints_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("region4web.evaluation.similarity_available", lambda: False)  # regions are what is checked here
    from region4web.cli import commands

    mine = [page for page in pages() if page.site == "app-miniwob"]
    for folder in ("captures", "labels"):
        (tmp_path / folder).mkdir()
        for path in (GOLD / folder).glob("app-miniwob*"):
            shutil.copy(path, tmp_path / folder)
    arguments = ["eval", "--captures", str(tmp_path / "captures"), "--labels", str(tmp_path / "labels"), "--segmenter", "fixed-depth", "--abstractor", "role-name", "--json"]  # fmt: skip
    done = CliRunner().invoke(commands, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    numbers = json.loads(done.stdout)
    score = sum((score_partition(segmenter_by_name("fixed-depth").segment(p.tree), p.gold.partition) for p in mine), PartitionScore())
    assert (numbers["pages"], numbers["regions"], numbers["roots_mapped"]) == (10, 41, 0)
    assert numbers["region_precision"] == pytest.approx(score.region_precision)
    assert numbers["region_recall"] == pytest.approx(score.region_recall)
    assert numbers["region_f1"] == pytest.approx(score.region_f1)
    assert numbers["edge_f1"] == pytest.approx(score.edge_f1)
