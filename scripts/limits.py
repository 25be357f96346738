"""What enormous and hostile pages cost: input size against time, memory and length of the text that an agent reads.

    python scripts/limits.py [--budget 4000] [--segmenter best] [--out output/limits]

Each input runs in a process of its own, from the saved snapshot's bytes to the digest, and once more after a small
change. Time is CPU time of one thread; memory is the process's peak, models included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Nodes = list[dict[str, Any]]


def _node(number: int, role: str, name: str = "", children: Any = (), **more: Any) -> dict[str, Any]:
    return {"nodeId": str(number), "ignored": False, "role": {"value": role}, "name": {"value": name}, "childIds": [str(c) for c in children],
            "backendDOMNodeId": number, **more}  # fmt: skip


def _flat(count: int, role: str, name: Callable[[int], str], **more: Any) -> Nodes:
    return [_node(1, "RootWebArea", "Page", range(2, count + 2))] + [_node(i, role, name(i), **more) for i in range(2, count + 2)]


def wide() -> Nodes:
    return _flat(200_000, "button", lambda i: f"Button {i}")


def deep() -> Nodes:
    return [_node(1, "RootWebArea", "Page", [2])] + [
        _node(i, "group", f"level {i}", [i + 1] if i < 10_000 else []) for i in range(2, 10_001)
    ]


def deep_unnamed() -> Nodes:
    return [_node(1, "RootWebArea", "Page", [2])] + [
        _node(i, "generic", "", [2 * i, 2 * i + 1] if i % 2 == 0 and i < 20_000 else []) for i in range(2, 20_002)
    ]


def long_text() -> Nodes:
    return _flat(5_000, "StaticText", lambda i: f"{i} " + "word " * 200)


def one_text() -> Nodes:
    return _flat(1, "StaticText", lambda i: "word " * 1_000_000)


def select() -> Nodes:
    options = range(4, 10_004)
    return [
        _node(1, "RootWebArea", "Page", [2]),
        _node(2, "combobox", "Country", [3], value={"value": "Option 7"}),
        _node(3, "MenuListPopup", "", options),
    ] + [_node(i, "option", f"Option {i}", properties=[{"name": "selected", "value": {"value": i == 11}}]) for i in options]


def frames() -> Nodes:
    nodes = [_node(1, "RootWebArea", "Page", range(2, 4_002, 4))]
    for i in range(2, 4_002, 4):
        nodes += [
            _node(i, "Iframe", f"Frame {i}", [i + 1]),
            _node(i + 1, "RootWebArea", "inside", [i + 2, i + 3]),
            _node(i + 2, "button", "Go"),
            _node(i + 3, "link", "More"),
        ]
    return nodes


def inline_images() -> Nodes:
    return _flat(200, "image", lambda i: "", properties=[{"name": "url", "value": {"value": "data:image/png;base64," + "A" * 50_000}}])


def long_names() -> Nodes:
    return _flat(100, "link", lambda i: f"{i} " + "name " * 10_000)


def repeated_names() -> Nodes:
    nodes = [_node(1, "RootWebArea", "Page", range(2, 202, 2))]
    for i in range(2, 202, 2):
        nodes += [_node(i, "link", "ab" * 25_000, [i + 1]), _node(i + 1, "StaticText", "ba" * 24_000 + "c")]
    return nodes


def one_id() -> Nodes:
    return _flat(50_000, "button", lambda i: f"Button {i}", backendDOMNodeId=7)


def cycles() -> Nodes:
    return [_node(1, "RootWebArea", "Page")] + [_node(i, "group", f"g{i}", [i ^ 1]) for i in range(2, 50_002)]


def rows() -> Nodes:
    count = 12_000
    nodes = [_node(1, "RootWebArea", "Page", [2]), _node(2, "list", "", range(3, 3 + 2 * count, 2))]
    for i in range(3, 3 + 2 * count, 2):
        nodes += [_node(i, "listitem", "", [i + 1]), _node(i + 1, "link", f"row {i}")]
    return nodes


INPUTS: dict[str, Callable[[], Nodes]] = {
    "200,000 buttons side by side": wide,
    "10,000 levels deep, named": deep,
    "20,000 wrappers, 10,000 levels deep": deep_unnamed,
    "5 MB of text in 5,000 pieces": long_text,
    "5 MB of text in one piece": one_text,
    "a select of 10,000 options": select,
    "1,000 frames": frames,
    "200 inline images, 10 MB": inline_images,
    "100 names of 50,000 characters": long_names,
    "100 links of 50,000 characters, text almost repeated": repeated_names,
    "50,000 nodes of one id": one_id,
    "50,000 nodes in cycles": cycles,
    "12,000 rows with a link": rows,
}


def measured(name: str, budget_tokens: int, segmenter_name: str) -> dict[str, Any]:
    """Seconds, memory and text of one input."""
    from pagedigest.observation import Action
    from pagedigest.selection import HybridSelector
    from pagedigest.session import PageDigest
    from region4web import AXTree
    from region4web.abstraction import abstractor_by_name
    from region4web.segmenters import segmenter_by_name
    from region4web.snapshot import parse_snapshot

    method = PageDigest(segmenter_by_name(segmenter_name), abstractor_by_name("embedded"), HybridSelector(), budget_tokens=budget_tokens)
    method.start("warm up").observe(AXTree.from_text("RootWebArea 'x'\n\t[1] main ''\n\t\t[2] button 'Go'"))
    nodes = INPUTS[name]()
    raw = json.dumps({"url": "http://limits.example/", "title": name, "viewport": [1280, 720], "nodes": nodes}).encode()
    count = len(nodes)
    del nodes
    start = time.process_time()
    tree = AXTree.from_snapshot(parse_snapshot(raw))
    read_s = time.process_time() - start
    session = method.start("Open button 12 and choose option 9")
    observation = session.observe(tree)
    entry_s = time.process_time() - start - read_s
    nodes = json.loads(raw)["nodes"]
    nodes[-1]["name"] = {"value": "changed"}
    current = AXTree.from_snapshot(parse_snapshot(json.dumps({"url": "http://limits.example/", "title": name, "nodes": nodes}).encode()))
    start = time.process_time()
    step = session.observe(current, last_action=Action("click('2')"))
    assert observation.usage.tokens <= budget_tokens
    assert step.usage.tokens <= budget_tokens
    return {
        "input": name,
        "raw_nodes": count,
        "mb": round(len(raw) / 1e6, 1),
        "nodes": len(tree),
        "read_s": round(read_s, 2),
        "entry_s": round(entry_s, 2),
        "step_s": round(time.process_time() - start, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "tokens": observation.usage.tokens,
        "full_tokens": observation.usage.full_tokens,
    }


def table(results: list[dict[str, Any]], budget_tokens: int) -> str:
    lines = [
        "| input | raw nodes | MB | tree nodes | read s | regions and digest s | next step s | peak MB | tokens read | tokens of the tree |",
        "|" + "---|" * 10,
    ]
    for r in results:
        lines.append(f"| {r['input']} | {r['raw_nodes']:,} | {r['mb']} | {r['nodes']:,} | {r['read_s']} | {r['entry_s']} | {r['step_s']} | {r['peak_mb']:,} | {r['tokens']:,} | {r['full_tokens']:,} |")  # fmt: skip
    return f"# Limits (budget {budget_tokens:,} tokens)\n\n" + "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=int, default=4000, help="tokens of the text (default 4000)")
    parser.add_argument("--segmenter", default="best", help="a segmenter's name or a weights folder (default best)")
    parser.add_argument("--input", choices=list(INPUTS), action="append", help="measure only this one; may be given several times")
    parser.add_argument("--timeout", type=float, default=600, help="wall seconds for one input (default 600)")
    parser.add_argument("--out", type=Path, default=Path("output/limits"), help="folder for limits.md and limits.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one is not None:
        print(json.dumps(measured(options.one, options.budget, options.segmenter)))
        return
    from tqdm import tqdm

    results, failed = [], []
    for name in tqdm(options.input or list(INPUTS), unit="input", disable=None):
        command = [sys.executable, __file__, "--one", name, "--budget", str(options.budget), "--segmenter", options.segmenter]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=options.timeout, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        except subprocess.TimeoutExpired:
            failed.append(f"{name}: no result within {options.timeout:g} s")
            continue
        if done.returncode:
            failed.append(f"{name}: {(done.stderr.strip().splitlines() or ['killed'])[-1]}")
        else:
            results.append(json.loads(done.stdout.splitlines()[-1]))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "limits.json").write_text(
        json.dumps({"budget_tokens": options.budget, "inputs": results, "failed": failed}, indent=1) + "\n", encoding="utf-8"
    )
    report = table(results, options.budget) + "".join(f"\nFailed: {line}\n" for line in failed)
    (options.out / "limits.md").write_text(report, encoding="utf-8")
    print(report)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
