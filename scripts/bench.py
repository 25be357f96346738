"""Time and memory of every stage against the number of nodes: a table (Markdown and JSON) and a plot.

    python scripts/bench.py [--sizes 500,1000,...] [--segmenter best] [--out output/bench]

Each size runs in a process of its own, on synthetic pages from a fixed seed. Time is CPU time of one thread, so that a
busy machine does not change it; memory is by how much the process's peak rose above what it held before the page, with
all models loaded. The ratio of 100,000 to 2,500 nodes comes from the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STAGES = ("preprocessing", "decomposition", "abstraction", "digest", "diff", "next step")
SIZES = "500,1000,2500,5000,10000,25000,50000,100000"
TASK = "Add the blue garden lamp to the basket and check its price"


def measured_stages(size: int, segmenter_name: str, repeats: int) -> dict[str, Any]:
    """Milliseconds and memory of each stage on one page, the best of `repeats`."""
    from synthetic import changed_page, synthetic_page

    from pagedigest.selection import HybridSelector
    from pagedigest.session import PageDigest
    from pagedigest.transition import diff
    from region4web import AXTree, RegionMap
    from region4web.abstraction import abstractor_by_name
    from region4web.segmenters import segmenter_by_name

    segmenter, abstractor = segmenter_by_name(segmenter_name), abstractor_by_name("embedded")
    method = PageDigest(segmenter, abstractor, HybridSelector(), budget_tokens=4000)
    small = AXTree.from_snapshot(synthetic_page(300))
    method.start(TASK).observe(small)  # what loads late is loaded now
    page, later = synthetic_page(size), changed_page(synthetic_page(size))
    gc.collect()
    held = _peak_mb()
    ms: dict[str, float] = {}
    mb: dict[str, float] = {}

    def stage(name: str, call: Callable[[], Any]) -> Any:
        for _ in range(repeats):
            start = time.process_time()
            result = call()
            ms[name] = min(ms.get(name, float("inf")), 1000 * (time.process_time() - start))
        mb[name] = _peak_mb() - held
        return result

    tree = stage("preprocessing", lambda: AXTree.from_snapshot(page))
    partition = stage("decomposition", lambda: segmenter.segment(_fresh(tree)))
    regions = RegionMap(partition, stage("abstraction", lambda: abstractor.abstract(partition)))
    observation = stage("digest", lambda: _digest(method, tree, regions))
    current = AXTree.from_snapshot(later)
    stage("diff", lambda: diff(tree, current))
    session = method.start(TASK)
    session.observe(tree)
    stage("next step", lambda: session.observe(_fresh(current)))
    return {
        "nodes": len(tree),
        "raw_nodes": len(page.nodes),
        "regions": len(partition),
        "tokens": observation.usage.tokens,
        "full_tokens": observation.usage.full_tokens,
        "ms": {name: round(ms[name], 2) for name in STAGES},
        "peak_mb": {name: round(mb[name], 1) for name in STAGES},
    }


def against_node_by_node(size: int) -> dict[str, float]:
    """How many times longer the networks take when they are run one node at a time, on one page of this size."""
    import torch
    from node_by_node import context_node_by_node, paper_node_by_node
    from synthetic import synthetic_page

    from region4web import AXTree
    from region4web.decomposition import LearnedSegmenter

    torch.set_num_threads(1)
    tree = AXTree.from_snapshot(synthetic_page(size))
    best: Any = LearnedSegmenter("best")
    paper: Any = LearnedSegmenter("paper")

    def best_slow() -> None:
        for member in best._model.members:
            context_node_by_node(member, tree)

    def paper_slow() -> None:
        paper_node_by_node(paper._model, tree, float(paper.config["threshold"]))

    return {
        "best": round(_milliseconds(best_slow, 1) / _milliseconds(lambda: best.segment(_fresh(tree)), 3), 1),
        "paper": round(_milliseconds(paper_slow, 1) / _milliseconds(lambda: paper.segment(_fresh(tree)), 3), 1),
    }


def _milliseconds(call: Callable[[], Any], repeats: int) -> float:
    """Processor time of the fastest of some calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(1000 * (time.process_time() - start))
    return min(times)


def _fresh(tree: Any) -> Any:
    """The same tree without what earlier calls computed and kept."""
    from region4web import AXTree

    return AXTree(tree.nodes, tree.parent, url=tree.url, title=tree.title)


def _digest(method: Any, tree: Any, regions: Any) -> Any:
    """Selection and text of an entered page; the regions are given."""
    from pagedigest.session import PageDigest

    class Given:
        def segment(self, _: Any) -> Any:
            return regions.partition

        def abstract(self, _: Any) -> Any:
            return regions.abstractions

    return PageDigest(Given(), Given(), method.selector, budget_tokens=method.budget_tokens).start(TASK).observe(tree)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(results: list[dict[str, Any]], ratios: dict[str, float], slower: dict[str, float]) -> str:
    """The Markdown report."""
    head = "| nodes | regions | " + " | ".join(f"{name} ms" for name in STAGES) + " | peak MB | text tokens | whole tree tokens |"
    lines = ["# Time and memory against nodes", "", __doc__.split("\n\n")[2].strip(), "", head, "|" + "---|" * (len(STAGES) + 5)]
    for r in results:
        times = " | ".join(f"{r['ms'][name]:,.1f}" for name in STAGES)
        lines.append(
            f"| {r['nodes']:,} | {r['regions']:,} | {times} | {max(r['peak_mb'].values()):,.0f} | {r['tokens']:,} | {r['full_tokens']:,} |"
        )
    if ratios:
        lines += [
            "",
            f"From {results_span(results)} times the nodes: "
            + ", ".join(f"{name} {ratio:.1f} times" for name, ratio in ratios.items())
            + ".",
        ]
    lines += [
        "",
        "Decomposition node by node, in the same run: " + ", ".join(f"{name} {r:,.0f} times slower" for name, r in slower.items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def results_span(results: list[dict[str, Any]]) -> str:
    base, last = _base(results), results[-1]
    return f"{base['nodes']:,} to {last['nodes']:,} nodes, {last['nodes'] / base['nodes']:.1f}"


def _base(results: list[dict[str, Any]]) -> dict[str, Any]:
    return min(results, key=lambda r: abs(r["nodes"] - 2500))


def growth(results: list[dict[str, Any]]) -> dict[str, float]:
    """How many times longer the largest page takes than the one of about 2,500 nodes."""
    base, last = _base(results), results[-1]
    if base is last:
        return {}
    times = {name: last["ms"][name] / base["ms"][name] for name in STAGES}
    both = ("preprocessing", "decomposition")
    times["preprocessing + decomposition"] = sum(last["ms"][s] for s in both) / sum(base["ms"][s] for s in both)
    return {name: round(ratio, 2) for name, ratio in times.items()}


def plot(results: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (time_axis, memory_axis) = plt.subplots(1, 2, figsize=(11, 4.5))
    nodes = [r["nodes"] for r in results]
    for name in STAGES:
        time_axis.plot(nodes, [r["ms"][name] for r in results], marker="o", markersize=3, label=name)
    time_axis.plot(nodes, [results[0]["ms"]["preprocessing"] * n / nodes[0] for n in nodes], color="grey", linestyle=":", label="linear")
    memory_axis.plot(nodes, [max(r["peak_mb"].values()) for r in results], marker="o", markersize=3, color="black")
    for axis, label in ((time_axis, "CPU time, ms"), (memory_axis, "peak memory above start, MB")):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("nodes after preprocessing")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    time_axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def _in_its_own_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"bench.py: {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default=SIZES, help=f"nodes, separated by commas (default {SIZES})")
    parser.add_argument("--segmenter", default="best", help="a segmenter's name or a weights folder (default best)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each stage, the best counts (default 3)")
    parser.add_argument("--out", type=Path, default=Path("output/bench"), help="folder for bench.md, bench.json and bench.png")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--node-by-node", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.node_by_node is not None:
        print(json.dumps(against_node_by_node(options.node_by_node)))
        return
    if options.one is not None:
        print(json.dumps(measured_stages(options.one, options.segmenter, options.repeats)))
        return
    from tqdm import tqdm

    results = []
    for size in tqdm(sorted({int(s) for s in options.sizes.split(",")}), unit="page", disable=None):
        results.append(_in_its_own_process("--one", str(size), "--segmenter", options.segmenter, "--repeats", str(options.repeats)))
    ratios = growth(results)
    slower = _in_its_own_process("--node-by-node", str(_base(results)["nodes"]))
    from pagedigest.evaluation.provenance import git_commit

    options.out.mkdir(parents=True, exist_ok=True)
    about = {
        "segmenter": options.segmenter,
        "repeats": options.repeats,
        "commit": git_commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    (options.out / "bench.json").write_text(
        json.dumps({"about": about, "growth": ratios, "node_by_node": slower, "sizes": results}, indent=1) + "\n", encoding="utf-8"
    )
    report = table(results, ratios, slower)
    (options.out / "bench.md").write_text(report, encoding="utf-8")
    plot(results, options.out / "bench.png")
    print(report)


if __name__ == "__main__":
    main()
