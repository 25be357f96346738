"""Candidate regions are described by what they hold, and boosted trees say the same as the library that trained them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from region4web.axtree import AXNode, AXTree
from region4web.boosted_trees import BoostedTrees
from region4web.consensus import best_partition, candidate_regions
from region4web.errors import WeightsError
from region4web.features import ROLE_CLASSES, node_features
from region4web.region_scores import REGION_FEATURE_NAMES, candidate_features, load_region_trees, save_region_trees
from region4web.skeleton import skeleton
from training.boosting import exported

ROLES = ["generic", "link", "StaticText", "heading", "listitem", "button"]


@st.composite
def judged_trees(draw: st.DrawFn) -> tuple[AXTree, np.ndarray]:
    n = draw(st.integers(1, 30))
    path, parent = [0], [-1]
    for i in range(1, n):
        path = path[: draw(st.integers(1, len(path)))]
        parent.append(path[-1])
        path.append(i)
    roles = draw(st.lists(st.sampled_from(ROLES), min_size=n, max_size=n))
    tree = AXTree(tuple(AXNode(str(i), role, "") for i, role in enumerate(roles)), np.asarray(parent, dtype=np.int32))
    rows = draw(st.lists(st.lists(st.floats(0, 1, width=32), min_size=n, max_size=n), min_size=1, max_size=3))
    return tree, np.asarray(rows, dtype=np.float32)


@settings(max_examples=60, deadline=None)
@given(judged_trees())
def test_a_candidate_is_described_by_what_it_owns(page: tuple[AXTree, np.ndarray]) -> None:
    tree, rows = page
    bones = skeleton(tree, 3)
    rows = rows[:, bones.index]
    candidates = candidate_regions(bones, rows)
    found = candidate_features(bones, node_features(tree, bones.index).numbers, rows, candidates)
    assert found.shape == (len(candidates), len(REGION_FEATURE_NAMES))
    assert np.isfinite(found).all()
    column = {name: found[:, k] for k, name in enumerate(REGION_FEATURE_NAMES)}
    for k, (root, nested) in enumerate(zip(candidates.root, candidates.nested, strict=True)):
        owned = set(tree.subtree(int(bones.index[root])))
        for cut in nested:
            owned -= set(tree.subtree(int(bones.index[cut])))
        links = sum(tree.nodes[i].role in ROLE_CLASSES["link"] for i in owned)
        assert column["nodes"][k] == pytest.approx(np.log1p(len(owned)), abs=1e-5)
        assert column["share_of_page"][k] == pytest.approx(len(owned) / len(tree), abs=1e-5)
        assert column["own_link_count"][k] == pytest.approx(np.log1p(links), abs=1e-4)
        assert column["regions_below"][k] == len(nested)
        inside = [rows.mean(axis=0)[i] for i in candidates.members[k] if i != root]
        assert column["inside_highest"][k] == pytest.approx(np.clip(max(inside), 1e-4, 1 - 1e-4) if inside else 0, abs=1e-5)
        assert 0 <= candidates.support[k] <= 1


@settings(max_examples=40, deadline=None)
@given(judged_trees(), st.randoms(use_true_random=False))
def test_the_best_partition_is_one_of_candidates_and_beats_every_vote(page: tuple[AXTree, np.ndarray], random: object) -> None:
    tree, rows = page
    bones = skeleton(tree, 1)
    candidates = candidate_regions(bones, rows)
    value = np.asarray([random.uniform(-1, 1) for _ in range(len(candidates))])  # type: ignore[attr-defined]
    number = {(int(root), nested): k for k, (root, nested) in enumerate(zip(candidates.root, candidates.nested, strict=True))}

    def total(cuts: list[int]) -> float:
        roots, sums = [0, *cuts], 0.0
        for root in roots:
            below = [cut for cut in cuts if root < cut < bones.end[root]]
            nested = tuple(cut for cut in below if not any(other < cut < bones.end[other] for other in below))
            sums += value[number[root, nested]]  # a KeyError: no candidate
        return sums

    best = total(best_partition(candidates, value))
    for row in rows:
        assert best >= total((np.flatnonzero(row[1:] >= 0.5) + 1).tolist()) - 1e-9


@pytest.fixture(scope="module")
def trained() -> tuple[BoostedTrees, np.ndarray, np.ndarray]:
    lightgbm = pytest.importorskip("lightgbm", exc_type=(ImportError, OSError))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, len(REGION_FEATURE_NAMES))).astype(np.float32)
    wanted = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 0).astype(int)
    booster = lightgbm.train(
        {"objective": "binary", "num_leaves": 9, "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(rows, wanted), 20
    )
    return exported(booster), rows, booster.predict(rows, raw_score=True)


def test_exported_trees_say_what_lightgbm_says(trained: tuple[BoostedTrees, np.ndarray, np.ndarray], tmp_path: Path) -> None:
    trees, rows, expected = trained
    assert trees.sums(rows) == pytest.approx(expected, abs=1e-9)
    assert trees.sums(rows, 0, 7) + trees.sums(rows, 7) == pytest.approx(expected, abs=1e-9)
    assert BoostedTrees.averaged([trees, trees]).sums(rows) == pytest.approx(expected, abs=1e-9)
    save_region_trees(tmp_path / "regions.npz", trees)
    assert np.array_equal(load_region_trees(tmp_path / "regions.npz").sums(rows), trees.sums(rows))


def test_trees_that_point_outside_are_refused(trained: tuple[BoostedTrees, np.ndarray, np.ndarray], tmp_path: Path) -> None:
    arrays = trained[0].to_arrays()
    arrays["left"][0, 0] = 999
    np.savez(tmp_path / "regions.npz", allow_pickle=False, **arrays)
    with pytest.raises(WeightsError, match=r"point outside their arrays.*train them with"):
        load_region_trees(tmp_path / "regions.npz")
    with pytest.raises(WeightsError, match="missing or damaged"):
        load_region_trees(tmp_path / "none.npz")
