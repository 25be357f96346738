"""Training of the decomposition: splits by site, variations that stay true, resume, shared subtrees, two processes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from region4web.axtree import AXNode, AXTree
from region4web.decomposition import LearnedSegmenter
from region4web.edge_model import PaperModel
from region4web.errors import WeightsError
from region4web.features import paper_features
from region4web.labels import page_files
from training import decomposition_training
from training.augmentation import Augmentation
from training.decomposition_data import context_example, fold_by_site, read_examples, site_group, split_by_site
from training.decomposition_training import RECIPES, Recipe, focal_loss, train_member
from training.grafting import Grafting, donors_of
from training.paper_sharing import shared_logits, shared_tree_data
from training.train_decomposition import main

TREE_ROLES = ["generic", "link", "StaticText", "heading", "list", "listitem", "button", "navigation"]


@st.composite
def cut_trees(draw: st.DrawFn, most: int = 40) -> tuple[AXTree, list[int]]:
    n = draw(st.integers(1, most))
    path, parent = [0], [-1]
    for i in range(1, n):
        path = path[: draw(st.integers(1, len(path)))]
        parent.append(path[-1])
        path.append(i)
    roles = draw(st.lists(st.sampled_from(TREE_ROLES), min_size=n, max_size=n))
    tree = AXTree(tuple(AXNode(str(i), role, f"name {i % 5}") for i, role in enumerate(roles)), np.asarray(parent, dtype=np.int32))
    return tree, sorted(draw(st.sets(st.integers(1, n - 1), max_size=8))) if n > 1 else []


def write_page(folder: Path, name: str, url: str, items: int) -> None:
    """A shop page: navigation, a list of products, a footer; labelled as three regions and the rest."""
    nodes: list[dict[str, Any]] = []

    def add(role: str, text: str, parent: int | None) -> int:
        number = len(nodes) + 1
        nodes.append(
            {
                "nodeId": str(number),
                "backendDOMNodeId": number,
                "ignored": False,
                "role": {"value": role},
                "name": {"value": text},
                "childIds": [],
            }
        )
        if parent is not None:
            nodes[parent - 1]["childIds"].append(str(number))
        return number

    page = add("RootWebArea", "Shop", None)
    navigation = add("navigation", "", page)
    for text in ("Home", "Sale", "Log in"):
        add("link", text, navigation)
    products = add("list", "", page)
    for k in range(items):
        item = add("listitem", "", products)
        add("link", f"Lamp {k}", item)
        add("button", "Add to cart", item)
    footer = add("contentinfo", "", page)
    for text in ("Privacy", "Terms", "© 2020 Shop"):
        add("link", text, footer)
    regions = [{"root": root, "purpose": "part of a shop", "state": ""} for root in (page, navigation, products, footer)]
    for kind, data in (
        ("captures", {"url": url, "title": "Shop", "viewport": [1280, 720], "nodes": nodes, "boxes": {}}),
        ("labels", {"page": name, "kind": "shop list", "regions": regions}),
    ):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / f"{name}.json").write_text(json.dumps(data))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shops")
    for k in range(24):
        write_page(folder, f"shop-{k}", f"https://www.shop{k // 2}.test/page{k}", 3 + k % 12)
    return folder


def arguments(shops: Path, out: Path, *more: str) -> list[str]:
    return ["--captures", str(shops / "captures"), "--labels", str(shops / "labels"), "--out", str(out), "--threads", "1", *more]


ACCOUNT = {"arguments", "recipe", "commit", "data_sha256", "pages", "parameters"}


def loads(out: Path, shops: Path) -> bool:
    example = read_examples(page_files(shops / "captures", shops / "labels")[:1], context_example)[0]
    return LearnedSegmenter(out).segment(example.page.tree).roots[0] == 0


def test_one_command_leaves_weights_that_load_and_a_full_account(shops: Path, tmp_path: Path) -> None:
    few = ("--epochs", "2", "--members", "2", "--folds", "2", "--variations", "1", "--grafts", "1")
    main(arguments(shops, tmp_path, *few))
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert set(metrics) >= ACCOUNT | {"region_cost", "cross_validated", "by_fold", "by_kind", "test_pages_of_paper"}
    assert metrics["by_kind"]["shop list"]["pages"] == metrics["pages"]["cross-validated"] == 24
    assert [fold["pages"] for fold in metrics["by_fold"]] == [12, 12]
    assert len(metrics["history"]) == 3  # the first member of the first fold, and those that ship
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert loads(tmp_path, shops)
    (tmp_path / "regions.npz").write_bytes(b"PK")
    with pytest.raises(WeightsError, match=r"regions\.npz: region trees missing or damaged"):
        LearnedSegmenter(tmp_path)


def test_the_papers_variant_is_split_chosen_and_measured(shops: Path, tmp_path: Path) -> None:
    main(arguments(shops, tmp_path, "--variant", "paper", "--epochs", "2", "--all-pages"))
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert set(metrics) >= ACCOUNT | {"validation", "test", "test_by_kind", "split", "threshold"}
    assert metrics["test_by_kind"]["shop list"]["pages"] == metrics["pages"]["test"]
    assert len(metrics["history"]) == 1
    assert loads(tmp_path, shops)


def test_training_learns_to_cut_the_shops(shops: Path, tmp_path: Path) -> None:
    given = (
        "--epochs",
        "40",
        "--members",
        "1",
        "--folds",
        "2",
        "--variations",
        "0",
        "--grafts",
        "0",
        "--batch-pages",
        "2",
        "--dropout",
        "0",
    )
    main(arguments(shops, tmp_path, *given))
    assert json.loads((tmp_path / "metrics.json").read_text())["cross_validated"]["region_f1"] == 1.0


def test_folds_keep_sites_together_and_are_even(shops: Path) -> None:
    examples = read_examples(page_files(shops / "captures", shops / "labels"), context_example)
    folds = fold_by_site(examples, 4, seed=3)
    assert len({(example.group, fold) for example, fold in zip(examples, folds, strict=True)}) == 12
    assert sorted(folds.count(fold) for fold in range(4)) == [6, 6, 6, 6]
    with pytest.raises(ValueError, match="12 sites make 2 to 12 folds, found 13"):
        fold_by_site(examples, 13, seed=0)


def test_no_site_is_on_two_sides_of_a_split(shops: Path) -> None:
    examples = read_examples(page_files(shops / "captures", shops / "labels"), context_example)
    for seed in range(5):
        split = split_by_site(examples, seed=seed, validation=0.2, test=0.2)
        sides = [{example.group for example in side} for side in (split.train, split.validation, split.test)]
        assert sum(map(len, sides)) == len(set.union(*sides)) == 12
        assert all(sides)
    with pytest.raises(ValueError, match=r"0\.6"):
        split_by_site(examples, seed=0, validation=0.6, test=0.6)


@pytest.mark.parametrize(
    ("name", "site", "group"),
    [
        ("wcxb__article-bbc.co.uk-1", "www.bbc.co.uk", "bbc"),
        ("wcxb__forum-1", "forum.example.org", "example"),
        ("app-oscar_shop__basket", "app-oscar_shop", "app-oscar"),
        ("app-oscar_dashboard__orders", "app-oscar_dashboard", "app-oscar"),
        ("tpl-volt__typography", "page.example", "tpl-volt"),
        ("tdewolff-minify__sample_bbc", "page.example", "bbc"),
        ("cleaneval__376", "page.example", "cleaneval__376"),
    ],
)
def test_what_pages_are_split_by(name: str, site: str, group: str) -> None:
    assert site_group(SimpleNamespace(name=name, site=site)) == group  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(cut_trees(), st.integers(0, 5))
def test_a_variation_is_a_tree_of_nodes_of_the_page(page: tuple[AXTree, list[int]], seed: int) -> None:
    tree, cuts = page
    augment = Augmentation(drop_region=0.3, drop_wrapper=0.5, hide_landmark=0.5, shorten_run=0.9)
    varied, origin = augment(tree, cuts, random.Random(seed))
    assert origin.tolist() == sorted(set(origin.tolist()))
    assert origin[0] == 0
    for i in range(1, len(varied)):
        assert varied.nodes[i].id == tree.nodes[origin[i]].id
        assert origin[varied.parent[i]] in set(tree.ancestors(int(origin[i])))
    gone = set(range(len(tree))) - set(origin.tolist())
    for cut in gone & set(cuts):  # a cut goes with all it holds, never alone
        assert set(tree.subtree(cut)) <= gone


@settings(max_examples=60, deadline=None)
@given(cut_trees(), st.lists(cut_trees(), min_size=1, max_size=3), st.integers(0, 5))
def test_a_graft_keeps_what_it_does_not_replace_and_brings_whole_regions(
    page: tuple[AXTree, list[int]], others: list[tuple[AXTree, list[int]]], seed: int
) -> None:
    tree, cuts = page
    donors = [donor for other, theirs in others for donor in donors_of(other, theirs)]
    grafted, new_cuts = Grafting(replaced=1.0, inserted=3)(tree, cuts, donors, random.Random(seed))
    own = [i for i, node in enumerate(grafted.nodes) if not node.id.startswith("graft-")]
    place = {node.id: i for i, node in enumerate(tree.nodes)}
    kept = [place[grafted.nodes[i].id] for i in own]
    assert kept == sorted(kept)
    for i in set(range(len(tree))) - set(kept):  # only whole cuts go
        assert any(cut <= i < tree.end[cut] and cut not in kept for cut in cuts)
    assert {kept[own.index(i)] for i in new_cuts if i in own} == set(cuts) & set(kept)
    brought = [i for i in new_cuts if i not in own and (grafted.parent[i] in own)]
    sizes = {(grafted.nodes[i].role, int(grafted.end[i]) - i) for i in brought}
    assert sizes <= {(donor.role, len(donor)) for donor in donors}
    assert all(any(root <= i < grafted.end[root] for root in brought) for i in range(len(grafted)) if i not in own)


def test_no_probability_no_variation() -> None:
    tree = AXTree(tuple(AXNode(str(i), "generic") for i in range(9)), np.asarray([-1, 0, 1, 1, 0, 4, 4, 4, 0], dtype=np.int32))
    varied, origin = Augmentation(0, 0, 0, 0)(tree, [1, 4], random.Random(0))
    assert varied == tree
    assert origin.tolist() == list(range(9))


def teacher_forced(model: PaperModel, tree: AXTree, cuts: list[int]) -> dict[int, float]:
    """METHOD's pass, gold cuts deciding, one node at a time."""
    features = paper_features(tree)
    x = torch.cat([model.role(torch.from_numpy(features.roles)), torch.from_numpy(features.numbers)], dim=1)
    r: dict[int, torch.Tensor] = {}
    logits: dict[int, float] = {}
    for v in range(len(tree) - 1, -1, -1):
        for child in tree.children[v]:
            others = [r[c] for c in tree.children[v] if c != child]
            siblings = torch.stack(others).mean(0) if others else torch.zeros(256)
            logits[child] = float(model.classifier(x[v][None], r[child][None], siblings[None]))
        merged = [r[c] for c in tree.children[v] if c not in cuts]
        r[v] = model.encoder(x[v][None], (torch.stack(merged).mean(0) if merged else torch.zeros(256))[None])[0]
    return logits


@settings(max_examples=25, deadline=None)
@given(st.lists(cut_trees(25), min_size=1, max_size=3))
def test_each_distinct_subtree_once_gives_the_loss_of_node_by_node(pages: list[tuple[AXTree, list[int]]]) -> None:
    torch.manual_seed(0)
    model = PaperModel()
    with torch.no_grad():
        data = [shared_tree_data(tree, paper_features(tree), np.asarray(cuts, dtype=np.int64)) for tree, cuts in pages]
        batch = next(iter(DataLoader(data, batch_size=len(data))))
        values = focal_loss(shared_logits(model, batch), batch.cut) * batch.count
        expected = 0.0
        for tree, cuts in pages:
            for node, logit in teacher_forced(model, tree, cuts).items():
                expected += float(focal_loss(torch.tensor([logit]), torch.tensor([float(node in cuts)]))[0])
    assert float(batch.count.sum()) == sum(len(tree) - 1 for tree, _ in pages)
    assert float(values.sum()) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_focal_loss_of_an_undecided_edge() -> None:
    undecided = focal_loss(torch.zeros(2), torch.tensor([1.0, 0.0]))
    assert undecided.tolist() == pytest.approx([0.75 * 0.25 * np.log(2), 0.25 * 0.25 * np.log(2)])


def test_resuming_gives_the_weights_of_an_uninterrupted_run(shops: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = read_examples(page_files(shops / "captures", shops / "labels"), partial(context_example, variations=1))
    recipe = Recipe(**(vars(RECIPES["best"]) | {"epochs": 3, "batch_pages": 4}))
    whole, _ = train_member(recipe, examples, (), seed=5)
    write = decomposition_training._write_atomically

    def write_twice(path: Path, state: dict[str, Any]) -> None:
        write(path, state)
        if len(state["history"]) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(decomposition_training, "_write_atomically", write_twice)
    checkpoint = tmp_path / "checkpoint.pt"
    with pytest.raises(KeyboardInterrupt):
        train_member(recipe, examples, (), seed=5, checkpoint=checkpoint)
    monkeypatch.undo()
    resumed, history = train_member(recipe, examples, (), seed=5, checkpoint=checkpoint, resume=True)
    assert len(history) == 3
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.mark.slow
def test_two_processes_have_the_loss_of_one(shops: Path, tmp_path: Path) -> None:
    main(arguments(shops, tmp_path / "one", "--variant", "paper", "--epochs", "2", "--batch-pages", "3"))
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29571",
        "-m",
        "training.train_decomposition",
    ]
    subprocess.run(
        [*command, *arguments(shops, tmp_path / "two", "--variant", "paper", "--epochs", "2", "--batch-pages", "3")],
        check=True,
        timeout=300,
    )
    one, two = (json.loads((tmp_path / side / "metrics.json").read_text())["history"][0] for side in ("one", "two"))
    assert [entry["loss"] for entry in one] == pytest.approx([entry["loss"] for entry in two], rel=1e-4)


def test_more_pages_than_there_are_is_said(shops: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments(shops, tmp_path, "--pages", "99"))
    assert stopped.value.code == 2
    assert "between 1 and 24, found 99" in capsys.readouterr().err
