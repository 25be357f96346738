"""What bench.py and limits.py measure on, and that time grows with the page and no faster."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from pagedigest.transition import diff
from region4web import AXTree

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

import bench
import limits
from synthetic import changed_page, synthetic_page


@pytest.mark.parametrize("size", [500, 3_000])
def test_a_synthetic_page_has_the_size_asked_for_and_comes_from_its_seed(size: int) -> None:
    page = synthetic_page(size)
    tree = AXTree.from_snapshot(page)
    assert size <= len(tree) <= 1.2 * size
    assert tree.repairs == ()
    assert len({node.role for node in tree.nodes}) >= 15
    assert synthetic_page(size) == page
    assert synthetic_page(size, seed=1) != page


def test_the_changed_page_differs_in_a_few_places() -> None:
    page = synthetic_page(3_000)
    transition = diff(AXTree.from_snapshot(page), AXTree.from_snapshot(changed_page(page)))
    assert len(transition.added) == 21
    assert 1 <= len(transition.updated) < 60
    assert transition.removed == ()


def test_preprocessing_grows_with_the_page_and_no_faster() -> None:
    def seconds(size: int) -> float:
        page = synthetic_page(size)
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            AXTree.from_snapshot(page)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(40_000) / seconds(2_000) < 20 * 2


def test_every_stage_is_measured() -> None:
    result = bench.measured_stages(400, "landmarks", 1)
    assert list(result["ms"]) == list(result["peak_mb"]) == list(bench.STAGES)
    assert all(ms > 0 for ms in result["ms"].values())
    assert result["tokens"] <= 4000 < result["full_tokens"]
    report = bench.table([result, {**result, "nodes": 100_000}], {"diff": 3.0}, {"best": 5.4, "paper": 50})
    assert "| 100,000 |" in report
    assert "best 5 times slower, paper 50 times slower" in report
    assert "diff 3.0 times" in report


def test_the_networks_are_compared_with_one_node_at_a_time() -> None:
    assert set(bench.against_node_by_node(300)) == {"best", "paper"}


def test_growth_compares_the_largest_page_with_the_one_of_2500_nodes() -> None:
    def result(nodes: int, ms: float) -> dict[str, object]:
        return {"nodes": nodes, "ms": dict.fromkeys(bench.STAGES, ms)}

    ratios = bench.growth([result(500, 1), result(2_500, 10), result(100_000, 450)])
    assert ratios["preprocessing + decomposition"] == 45
    assert bench.growth([result(2_500, 10)]) == {}


def test_inputs_of_the_limits_are_as_large_as_they_say() -> None:
    assert len(limits.wide()) == 200_001
    assert int(AXTree.from_snapshot(_page(limits.deep())).depth.max()) == 9_999
    assert int(AXTree.from_snapshot(_page(limits.deep_unnamed())).depth.max()) < 10_000
    assert len({node.frame for node in AXTree.from_snapshot(_page(limits.frames())).nodes}) == 1_001
    assert len(limits.one_text()[1]["name"]["value"]) == 5_000_000


def _page(nodes: limits.Nodes):  # type: ignore[no-untyped-def]
    from region4web import Snapshot

    return Snapshot.from_json({"nodes": nodes})
