"""The learned decomposition: the fast passes equal the slow ones, weights are checked, every page gets a partition."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from growth import growth
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web.axtree import AXNode, AXTree
from region4web.decomposition import LearnedSegmenter, dissolve_remnants, divide_oversized, weights_folder
from region4web.edge_model import ContextModel, PaperModel, TreeBatch, batch_trees
from region4web.errors import WeightsError
from region4web.features import node_features, paper_features
from region4web.regions import Partition
from region4web.skeleton import SMALLEST_REGION, skeleton

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from node_by_node import context_node_by_node, paper_node_by_node

TREE_ROLES = ["generic", "link", "StaticText", "heading", "list", "listitem", "button", "navigation"]


def tree_of(parent: list[int], roles: list[str] | None = None) -> AXTree:
    roles = roles or ["generic"] * len(parent)
    return AXTree(
        tuple(AXNode(str(i), role, f"name {i % 7}" if i % 3 else "") for i, role in enumerate(roles)), np.asarray(parent, dtype=np.int32)
    )


@st.composite
def trees(draw: st.DrawFn, most: int = 40) -> AXTree:
    n = draw(st.integers(1, most))
    path, parent = [0], [-1]
    for i in range(1, n):
        path = path[: draw(st.integers(1, len(path)))]
        parent.append(path[-1])
        path.append(i)
    return tree_of(parent, draw(st.lists(st.sampled_from(TREE_ROLES), min_size=n, max_size=n)))


def random_tree(n: int, seed: int = 0) -> AXTree:
    rng = np.random.default_rng(seed)
    path, parent = [0], [-1]
    for i in range(1, n):
        path = path[: rng.integers(max(1, len(path) - 3), len(path) + 1)][:14]
        parent.append(path[-1])
        path.append(i)
    return tree_of(parent, [TREE_ROLES[k] for k in rng.integers(0, len(TREE_ROLES), n)])


def best_members(segmenter: LearnedSegmenter) -> list[ContextModel]:
    return list(segmenter._model.members)  # type: ignore[union-attr, arg-type]


@pytest.fixture(scope="module")
def best() -> LearnedSegmenter:
    return LearnedSegmenter("best")


@pytest.fixture(scope="module")
def paper() -> LearnedSegmenter:
    return LearnedSegmenter("paper")


def test_the_papers_model_has_its_number_of_parameters() -> None:
    assert sum(p.numel() for p in PaperModel().parameters()) == 536_773


@settings(max_examples=25, deadline=None)
@given(trees(), st.integers(0, 3))
def test_paper_by_levels_equals_node_by_node(tree: AXTree, seed: int) -> None:
    torch.manual_seed(seed)
    model = PaperModel()
    found = model.cut_probability(batch_trees([(skeleton(tree, 1), paper_features(tree))]), 0.5).numpy()
    assert np.allclose(found, paper_node_by_node(model, tree, 0.5), atol=1e-5)


def test_shipped_paper_by_levels_equals_node_by_node(paper: LearnedSegmenter) -> None:
    tree = random_tree(300)
    model = paper._model
    assert isinstance(model, PaperModel)
    assert np.allclose(paper.cut_probability(tree), paper_node_by_node(model, tree, float(paper.config["threshold"])), atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(trees())
def test_best_all_at_once_equals_node_by_node(best: LearnedSegmenter, tree: AXTree) -> None:
    expected = np.mean([context_node_by_node(member, tree) for member in best_members(best)], axis=0)
    assert np.allclose(best.cut_probability(tree), expected, atol=1e-5)


@torch.no_grad()
def test_a_batch_of_pages_equals_page_by_page(best: LearnedSegmenter) -> None:
    pages = [random_tree(n, seed=n) for n in (1, 40, 150)]
    parts = [(bones, node_features(tree, bones.index)) for tree, bones in zip(pages, map(skeleton, pages), strict=True)]
    together = best._model.cut_probabilities(batch_trees(parts)).numpy()  # type: ignore[union-attr]
    apart = [best._model.cut_probabilities(batch_trees([part])).numpy() for part in parts]  # type: ignore[union-attr]
    assert np.allclose(together, np.concatenate(apart, axis=1), atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(trees(most=80))
def test_regions_are_disjoint_connected_and_cover_the_page(best: LearnedSegmenter, tree: AXTree) -> None:
    partition = best.segment(tree)
    assert sorted(i for region in partition.regions for i in region.members.tolist()) == list(range(len(tree)))
    for region in partition.regions:
        members = set(region.members.tolist())
        assert all(i == region.root or int(tree.parent[i]) in members for i in members)
    assert all(tree.end[root] - root >= SMALLEST_REGION for root in partition.roots[1:])


def test_the_same_page_is_cut_the_same_way_twice(best: LearnedSegmenter) -> None:
    tree = random_tree(500)
    assert best.segment(tree).roots == best.segment(tree).roots


@pytest.mark.parametrize(("name", "deep", "wide"), [("best", 10_000, 50_000), ("paper", 2_000, 5_000)])
def test_deep_and_wide_pages_are_cut_in_linear_time(name: str, deep: int, wide: int) -> None:
    segmenter = LearnedSegmenter(name)

    def chain(n: int) -> Callable[[], object]:
        tree = tree_of(list(range(-1, n - 1)))
        return lambda: segmenter.segment(tree)

    def siblings(n: int) -> Callable[[], object]:
        tree = tree_of([-1] + [0] * n)
        return lambda: segmenter.segment(tree)

    assert isinstance(segmenter.segment(tree_of([-1] + [0] * wide)), Partition)
    assert growth(chain, deep // 10, deep, runs=2) < 4
    assert growth(siblings, wide // 10, wide, runs=2) < 4


def test_skeleton_keeps_subtrees_of_three_and_knows_its_neighbours() -> None:
    tree = tree_of([-1, 0, 1, 1, 0, 4, 0, 6, 7])  # subtrees of 3, 2 and 3 nodes below the root
    bones = skeleton(tree)
    assert bones.index.tolist() == [0, 1, 6]
    assert bones.parent.tolist() == [0, 0, 0]
    assert bones.end.tolist() == [3, 2, 3]
    assert bones.before.tolist() == [0, 1, 1]
    assert bones.after.tolist() == [0, 2, 2]


def test_the_thread_count_is_respected_and_restored() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    class Probe(torch.nn.Module):
        def cut_probabilities(self, batch: TreeBatch) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return torch.zeros(1, len(batch))

    segmenter = LearnedSegmenter("best", threads=2)
    segmenter._model = Probe()  # type: ignore[assignment]
    segmenter.segment(random_tree(20))
    assert seen == [2]
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="found 0"):
        LearnedSegmenter("best", threads=0)


def test_importing_the_module_loads_no_torch() -> None:
    code = "import sys, region4web.decomposition; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(weights_folder("best"), tmp_path / "weights")
    return tmp_path / "weights"


def test_weights_load_from_a_folder(copied: Path) -> None:
    tree = random_tree(200)
    assert LearnedSegmenter(copied).segment(tree).roots == LearnedSegmenter("best").segment(tree).roots


def test_weights_load_from_the_hub(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: list[str] = []

    def download(repository: str, **_: object) -> str:
        asked.append(repository)
        if repository == "region4web/best":
            return str(copied)
        raise hub.errors.LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert LearnedSegmenter("hub:region4web/best").folder == copied
    with pytest.raises(WeightsError, match=r"hub:region4web/none: not in the hub, or the hub cannot be reached \(no connection\)"):
        LearnedSegmenter("hub:region4web/none")
    assert asked == ["region4web/best", "region4web/none"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="nowhere"):
        LearnedSegmenter(tmp_path / "nowhere")


def test_damaged_weights_are_named(copied: Path) -> None:
    (copied / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        LearnedSegmenter(copied)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variant": "other"}, "variant"),
        ({"region_cost": None}, "lacks region_cost"),
        ({"width": 8}, "another model"),
        ({"features": ["depth"]}, "other features"),
    ],
)
def test_a_description_that_does_not_fit_is_named(copied: Path, change: dict[str, object], message: str) -> None:
    config = json.loads((copied / "config.json").read_text()) | change
    (copied / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    with pytest.raises(WeightsError, match=message):
        LearnedSegmenter(copied)


def bare_page(shape: str) -> AXTree:
    """400 nodes and more without a landmark, a heading or a name."""
    if shape == "canvas":
        return tree_of([-1] + [0] * 399, ["RootWebArea", "Canvas"] + ["StaticText"] * 398)
    if shape == "flat list":
        return tree_of([-1, 0] + [1] * 400, ["RootWebArea", "list"] + ["listitem"] * 400)
    if shape == "table":
        rows = [1 + 5 * k + 1 for k in range(80)]
        parent = [-1, 0] + [p for row in rows for p in (1, row, row, row, row)]
        return tree_of(parent, ["RootWebArea", "table"] + ["row", "cell", "cell", "cell", "cell"] * 80)
    parent = [-1]  # div soup: every wrapper holds three
    while len(parent) < 400:
        parent.append((len(parent) - 1) // 3)
    order = sorted(range(len(parent)), key=lambda i: _path(parent, i))
    place = {old: new for new, old in enumerate(order)}
    return tree_of([-1] + [place[parent[old]] for old in order[1:]])


def _path(parent: list[int], i: int) -> tuple[int, ...]:
    path = []
    while i >= 0:
        path.append(i)
        i = parent[i]
    return tuple(reversed(path))


@pytest.mark.parametrize("shape", ["canvas", "flat list", "table", "div soup"])
def test_a_page_without_structure_degrades_to_sensible_regions(best: LearnedSegmenter, shape: str) -> None:
    tree = bare_page(shape)
    partition = best.segment(tree)
    sizes = [len(region) for region in partition.regions]
    assert sum(sizes) == len(tree)
    assert min(sizes[1:], default=3) >= 3
    if shape == "div soup":
        assert max(sizes) <= 0.4 * len(tree)


def test_the_rest_of_a_page_is_divided_where_the_tree_offers_it() -> None:
    tree = tree_of([-1] + [p for k in range(10) for p in (0, *([1 + 40 * k] * 39))])  # ten wrappers of 40 nodes
    bones = skeleton(tree)
    probability = np.asarray([0.0] + [0.05 + 0.001 * k for k in range(10)], dtype=np.float32)
    cuts = divide_oversized(bones, [], probability)
    assert cuts == [4, 5, 6, 7, 8, 9, 10]  # the seven most probable: with six, the rest held 161 of 401
    small = skeleton(tree_of([-1] + [p for k in range(5) for p in (0, *([1 + 40 * k] * 39))]))
    assert divide_oversized(small, [], probability[:6]) == []


def test_a_long_list_stays_one_region_unless_a_cut_is_likely() -> None:
    tree = tree_of([-1, 0] + [p for k in range(10) for p in (1, *([2 + 40 * k] * 39))])  # one list of ten long items
    bones = skeleton(tree)
    unlikely = np.full(len(bones), 0.05, dtype=np.float32)
    assert divide_oversized(bones, [1], unlikely) == [1]
    likely = unlikely.copy()
    likely[4] = 0.3
    assert divide_oversized(bones, [1], likely) == [1, 4]


def test_a_wrapper_that_keeps_too_little_for_itself_is_no_region() -> None:
    tree = tree_of([-1, 0, 1, 2, 2, 1, 5, 5, 0, 8, 8])  # 1 holds two regions of three and nothing else; 8 stands alone
    bones = skeleton(tree)
    assert bones.index.tolist() == [0, 1, 2, 5, 8]
    assert dissolve_remnants(bones, [1, 2, 3, 4]) == [2, 3, 4]
    assert dissolve_remnants(bones, [1, 2, 4]) == [1, 2, 4]  # keeps four of its own
