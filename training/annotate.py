"""Annotate captured pages with a language model in the paper's three stages: `python -m training.annotate CAPTURE... --out DIR`.

Enters: snapshots (`training.crawl` makes them) and a chat model behind an OpenAI-compatible endpoint. Leaves in --out:
`decompose/`, `verify/`, `abstract/` with one JSON file a page and stage, `labels/` with the finished label files, and
`costs.jsonl`, one line a page and stage with calls, tokens, seconds and price. A page is kept only when every region verifies;
one that does not gets a label file that says why it was skipped. A page whose calls fail (server down, timeouts) gets
none and is taken up again by the next run, which starts at the first stage that has no file.

    python -m training.annotate captures/*.json.gz --out annotated --model gpt-5-mini
    python -m training.annotate captures/*.json.gz --out annotated --model Qwen3-32B --base-url http://127.0.0.1:8000/v1 --ray auto
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from region4web.axtree import AXTree
from region4web.contents import region_units
from region4web.errors import LanguageModelError, SnapshotError
from region4web.generative import ANSWER_SCHEMA, reply_fault
from region4web.language_models import Completion, LanguageModel, Prompt
from region4web.openai_model import OpenAIModel
from region4web.region_text import region_text
from region4web.regions import Abstraction, Partition, RegionMap
from region4web.render import indentation, node_line
from region4web.snapshot import load_snapshot
from training.records import append_json_line, json_lines, save_labels, write_whole

__all__ = ["STAGES", "Annotator", "Endpoint", "PageOutcome", "annotate_page", "main"]

STAGES = ("decompose", "verify", "abstract")
DECOMPOSE_SCHEMA = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "roots": {"type": "array", "items": {"type": "string"}}},
    "required": ["kind", "roots"],
    "additionalProperties": False,
}
VERIFY_SCHEMA = {
    "type": "object",
    "properties": {"valid": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["valid", "reason"],
    "additionalProperties": False,
}
REGION_CHARACTERS = 6000
"""Budget of a region's text in the abstract stage."""
OUTLINE_NAME_LIMIT = 120
ANSWER_TOKENS = {"decompose": 4096, "verify": 400, "abstract": 400}
"""Thinking counts too with models that think; raise with --answer-tokens where answers come back truncated."""
_log = logging.getLogger("training.annotate")


@dataclass(frozen=True)
class Endpoint:
    """Where the model is; small enough to be sent to other machines. The key comes from OPENAI_API_KEY there."""

    model: str
    base_url: str | None = None
    timeout_s: float = 120.0
    max_retries: int = 6
    concurrency: int = 4
    temperature: float | None = None

    def open(self) -> LanguageModel:
        options = {} if self.temperature is None else {"temperature": self.temperature}
        return OpenAIModel(
            self.model, self.base_url, timeout_s=self.timeout_s, max_retries=self.max_retries, concurrency=self.concurrency, options=options
        )


@dataclass(frozen=True)
class PageOutcome:
    """What came of a page: `kept`, `skipped` (with the reason), `failed` (to be tried again), or `open` (not all stages were asked for)."""

    page: str
    result: str
    reason: str = ""
    regions: int = 0


class BadAnswer(Exception):
    """The model answered, but nothing that can be used, also when asked again: the page is skipped."""


class CallFailed(Exception):
    """No whole answer came: the page is tried again by the next run."""


@dataclass
class Annotator:
    """The three stages of one page at a time, with their files and the cost log in `out`. Used by several threads."""

    model: LanguageModel
    out: Path
    stages: Sequence[str] = STAGES
    attempts: int = 2
    answer_tokens: int = 0
    max_nodes: int = 3000
    prices: tuple[float, float] = (0.0, 0.0)
    """Per million prompt and completion tokens."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def page(self, capture: Path) -> PageOutcome:
        """Run the stages that have no file yet, write the label file after the last."""
        name = page_name(capture)
        labels = self.out / "labels" / f"{name}.json"
        if labels.is_file():
            return _outcome(name, labels)
        try:
            tree = AXTree.from_snapshot(load_snapshot(capture))
        except SnapshotError as error:
            return self._skip(labels, name, f"capture: {error}")
        if len(tree) > self.max_nodes:
            return self._skip(labels, name, f"{len(tree)} nodes, more than {self.max_nodes}")
        try:
            return self._stages(name, tree, labels)
        except BadAnswer as error:
            return self._skip(labels, name, str(error))
        except CallFailed as error:
            return PageOutcome(name, "failed", str(error))

    def _stages(self, name: str, tree: AXTree, labels: Path) -> PageOutcome:
        done: dict[str, Any] = {}
        for stage in STAGES:
            path = self.out / stage / f"{name}.json"
            if path.is_file():
                done[stage] = json.loads(path.read_text(encoding="utf-8"))
            elif stage not in self.stages:
                return PageOutcome(name, "open", f"{stage} was not asked for")
            else:
                done[stage] = {"decompose": self._decompose, "verify": self._verify, "abstract": self._abstract}[stage](name, tree, done)
                write_whole(path, json.dumps(done[stage], ensure_ascii=False, indent=1) + "\n")
            invalid = [check for check in done.get("verify", {}).get("checks", []) if not check["valid"]]
            if invalid:
                return self._skip(
                    labels,
                    name,
                    f"verify: {len(invalid)} of {len(done['verify']['checks'])} regions not valid; {invalid[0]['reason']}"[:300],
                )
        partition = _partition(tree, done["decompose"]["roots"])
        abstractions = tuple(Abstraction(entry["purpose"], entry["state"]) for entry in done["abstract"]["regions"])
        save_labels(name, done["decompose"]["kind"], RegionMap(partition, abstractions), labels)
        return PageOutcome(name, "kept", regions=len(partition))

    def _decompose(self, name: str, tree: AXTree, done: Mapping[str, Any]) -> dict[str, Any]:
        def fault(answer: Any) -> str:
            unknown = [root for root in answer["roots"] if root not in tree.index_of]
            return f"these ids are not in the outline: {', '.join(unknown[:5])}" if unknown else ""

        (answer,) = self._ask(name, "decompose", [outline(tree, range(len(tree)))], DECOMPOSE_SCHEMA, fault)
        partition = without_empty_regions(_partition(tree, answer["roots"]))
        return {"kind": answer["kind"], "roots": [tree.nodes[root].id for root in partition.roots]}

    def _verify(self, name: str, tree: AXTree, done: Mapping[str, Any]) -> dict[str, Any]:
        partition = _partition(tree, done["decompose"]["roots"])
        regions = "\n".join(f"{r.key}: {len(r)} elements, {node_line(tree.nodes[r.root])[:100]}" for r in partition.regions)
        texts = [
            f"All regions of the page {tree.title!r}:\n{regions}\n\nThe region {r.key}:\n{region_outline(partition, r.number)}"
            for r in partition.regions
        ]
        answers = self._ask(name, "verify", texts, VERIFY_SCHEMA, lambda answer: "")
        return {"checks": [{"root": tree.nodes[root].id, **answer} for root, answer in zip(partition.roots, answers, strict=True)]}

    def _abstract(self, name: str, tree: AXTree, done: Mapping[str, Any]) -> dict[str, Any]:
        partition = _partition(tree, done["decompose"]["roots"])
        texts = [region_text(partition, number, budget=REGION_CHARACTERS, count=len) for number in range(len(partition))]
        answers = self._ask(name, "abstract", texts, ANSWER_SCHEMA, lambda answer: reply_fault(answer["purpose"], answer["state"]))
        return {"regions": [{"root": tree.nodes[root].id, **answer} for root, answer in zip(partition.roots, answers, strict=True)]}

    def _ask(self, page: str, stage: str, texts: Sequence[str], schema: Mapping[str, Any], fault: Any) -> list[Any]:
        """One checked answer a text; a bad one is asked for again, with what was wrong. Raises BadAnswer and CallFailed."""
        answers: list[Any] = [None] * len(texts)
        prompts: dict[int, list[dict[str, str]]] = {
            i: [{"role": "system", "content": prompt_text(stage)}, {"role": "user", "content": text}] for i, text in enumerate(texts)
        }
        for _ in range(self.attempts):
            started = time.monotonic()
            asked: list[Prompt] = list(prompts.values())
            try:
                completions = self.model.complete(asked, max_tokens=self.answer_tokens or ANSWER_TOKENS[stage], schema=schema)
            except LanguageModelError as error:
                self._log_cost(page, stage, [], time.monotonic() - started, str(error))
                raise
            self._log_cost(page, stage, completions, time.monotonic() - started)
            wrong: dict[int, str] = {}
            for i, completion in zip(list(prompts), completions, strict=True):
                answers[i], wrong[i] = read_answer(completion, schema, fault)
            failed = [
                wrong[i]
                for i, c in zip(wrong, completions, strict=True)
                if c.error.startswith(("timeout", "unreachable", "refused", "malformed"))
            ]
            if failed:
                raise CallFailed(f"{stage}: {len(failed)} of {len(prompts)} calls without an answer; {failed[0]}")
            prompts = {
                i: [*prompts[i][:2], *_correction(completion, wrong[i])]
                for i, completion in zip(list(prompts), completions, strict=True)
                if wrong[i]
            }
            if not prompts:
                return answers
        first = next(iter(prompts))
        raise BadAnswer(f"{stage}: {len(prompts)} of {len(texts)} answers of no use; {wrong[first]}"[:300])

    def _log_cost(self, page: str, stage: str, completions: Sequence[Completion], seconds: float, error: str = "") -> None:
        sent, written = sum(c.prompt_tokens for c in completions), sum(c.completion_tokens for c in completions)
        entry = {
            "page": page,
            "stage": stage,
            "calls": len(completions),
            "failed_calls": sum(bool(c.error) for c in completions),
            "prompt_tokens": sent,
            "completion_tokens": written,
            "price": round((sent * self.prices[0] + written * self.prices[1]) / 1e6, 6),
            "seconds": round(seconds, 3),
            **({"error": error} if error else {}),
        }
        with self._lock:
            append_json_line(entry, self.out / "costs.jsonl")

    def _skip(self, labels: Path, name: str, reason: str) -> PageOutcome:
        write_whole(labels, json.dumps({"page": name, "skip": reason}, ensure_ascii=False) + "\n")
        return PageOutcome(name, "skipped", reason)


def read_answer(completion: Completion, schema: Mapping[str, Any], fault: Any) -> tuple[Any, str]:
    """The answer's JSON and '', or None and what is wrong with it."""
    if completion.error:
        return None, completion.error
    start, end = completion.text.find("{"), completion.text.rfind("}")
    try:
        data = json.loads(completion.text[start : end + 1])
    except (ValueError, RecursionError):
        return None, f"no JSON object: {completion.text[:60]!r}"
    for key, form in schema["properties"].items():
        value = data.get(key)
        if form["type"] == "array" and isinstance(value, list):
            data[key] = [str(item) for item in value]  # ids come back as numbers now and then
        elif not isinstance(value, {"string": str, "boolean": bool, "array": list}[form["type"]]):
            return None, f"{key!r} must be of type {form['type']}, found {value!r:.40}"
    answer = {key: data[key].strip() if isinstance(data[key], str) else data[key] for key in schema["properties"]}
    wrong = fault(answer)
    return (None, wrong) if wrong else (answer, "")


def _correction(completion: Completion, wrong: str) -> list[dict[str, str]]:
    said = completion.text or "(nothing)"
    return [
        {"role": "assistant", "content": said[:2000]},
        {"role": "user", "content": f"That cannot be used: {wrong}. Answer again, with the JSON object only."},
    ]


def outline(tree: AXTree, indices: Sequence[int] | range) -> str:
    """Nodes as lines with ids, long names cut, no addresses."""
    depth = tree.depth
    base = min((int(depth[i]) for i in indices), default=0)
    return "\n".join(indentation(int(depth[i]) - base) + _outline_line(tree, i) for i in indices)


def _outline_line(tree: AXTree, i: int) -> str:
    node = tree.nodes[i]
    name = node.name if len(node.name) <= OUTLINE_NAME_LIMIT else node.name[: OUTLINE_NAME_LIMIT - 1] + "\u2026"
    value = f" value={str(node.value)[:60]!r}" if node.value not in (None, "") else ""
    states = "".join(f" {key}={value!r}" for key, value in node.states if key in ("checked", "selected", "expanded", "disabled", "pressed"))
    return f"[{node.id}] {node.role} {name!r}{value}{states}"


def region_outline(partition: Partition, number: int) -> str:
    """A region's lines without ids, with `<R5>` where a deeper region was taken out; at most REGION_CHARACTERS."""
    tree, region = partition.tree, partition.regions[number]
    holes = {r.root: r.key for r in partition.regions if r.enclosing == number}
    base = int(tree.depth[region.root])
    lines: list[str] = []
    for i in sorted([*region.members.tolist(), *holes]):
        line = f"<{holes[i]}>" if i in holes else _outline_line(tree, i).partition("] ")[2]
        lines.append(indentation(int(tree.depth[i]) - base) + line)
    kept, used = 0, 0
    while kept < len(lines) and used + len(lines[kept]) < REGION_CHARACTERS:
        used += len(lines[kept]) + 1
        kept += 1
    return "\n".join(lines[:kept] + ([f"... {len(lines) - kept} more lines"] if kept < len(lines) else []))


def without_empty_regions(partition: Partition) -> Partition:
    """Regions that hold nothing to read or act on go back into the region around."""
    kept = [r.root for r in partition.regions if r.number and any(unit.kind != "title" for unit in region_units(partition, r))]
    return Partition.from_cuts(partition.tree, kept)


def _partition(tree: AXTree, roots: Sequence[str]) -> Partition:
    return Partition.from_cuts(tree, [tree.index_of[root] for root in roots])


def page_name(capture: Path) -> str:
    return capture.name.removesuffix(".gz").removesuffix(".json")


@cache
def prompt_text(stage: str) -> str:
    return (Path(__file__).parent / "prompts" / f"{stage}.txt").read_text(encoding="utf-8").strip()


def _outcome(name: str, labels: Path) -> PageOutcome:
    data = json.loads(labels.read_text(encoding="utf-8"))
    return PageOutcome(name, "skipped", data["skip"]) if "skip" in data else PageOutcome(name, "kept", regions=len(data["regions"]))


def annotate_page(capture: Path, endpoint: Endpoint, settings: Mapping[str, Any]) -> PageOutcome:
    """One page with a model opened here: what another machine runs."""
    return Annotator(endpoint.open(), **settings).page(capture)


def annotate_here(captures: Sequence[Path], endpoint: Endpoint, settings: Mapping[str, Any], pages_at_once: int) -> list[PageOutcome]:
    from tqdm import tqdm

    annotator = Annotator(endpoint.open(), **settings)
    with ThreadPoolExecutor(pages_at_once) as pool:
        return list(tqdm(pool.map(annotator.page, captures), total=len(captures), desc="pages", disable=None))


def annotate_with_ray(
    captures: Sequence[Path], endpoint: Endpoint, settings: Mapping[str, Any], pages_at_once: int, address: str
) -> list[PageOutcome]:
    """The same on the machines of a Ray cluster; captures and --out lie on a disk that all of them share."""
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs ray; run: pip install 'region4web[ray]'") from error
    ray.init(address=None if address == "local" else address, ignore_reinit_error=True)

    def work(row: dict[str, Any]) -> dict[str, Any]:
        outcome = annotate_page(Path(row["capture"]), endpoint, settings)
        return {"page": outcome.page, "result": outcome.result, "reason": outcome.reason, "regions": outcome.regions}

    rows = ray.data.from_items([{"capture": str(path.absolute())} for path in captures]).repartition(min(len(captures), 4 * pages_at_once))
    return [PageOutcome(**row) for row in rows.map(work, concurrency=pages_at_once).take_all()]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.annotate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("captures", type=Path, nargs="+", help="snapshot files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url", help="of an OpenAI-compatible server; OpenAI itself by default")
    parser.add_argument("--stage", choices=STAGES, action="append", help="run this one only (may be given again); all by default")
    parser.add_argument("--pages-at-once", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=4, help="calls at once for each page")
    parser.add_argument("--timeout-s", type=float, default=120.0)
    parser.add_argument("--max-retries", type=int, default=6, help="of a call that got 429, 5xx or no answer, with growing pauses")
    parser.add_argument("--attempts", type=int, default=2, help="how often an answer of no use is asked for")
    parser.add_argument("--answer-tokens", type=int, default=0, help="most tokens of an answer; by stage by default")
    parser.add_argument("--temperature", type=float, help="the server's own by default")
    parser.add_argument("--max-nodes", type=int, default=3000, help="larger pages are skipped")
    parser.add_argument(
        "--price", type=float, nargs=2, default=(0.0, 0.0), metavar=("PROMPT", "COMPLETION"), help="per million tokens, for the cost log"
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster: its address, 'auto', or 'local' for one started here")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    missing = [path for path in args.captures if not path.is_file()]
    if missing:
        print(f"{missing[0]}: no such file; give snapshot files, for example captures/*.json.gz", file=sys.stderr)
        return 2
    out = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    endpoint = Endpoint(args.model, args.base_url, args.timeout_s, args.max_retries, args.concurrency, args.temperature)
    settings = {"out": out, "stages": tuple(args.stage or STAGES), "attempts": args.attempts, "answer_tokens": args.answer_tokens,
                "max_nodes": args.max_nodes, "prices": tuple(args.price)}  # fmt: skip
    try:
        if args.ray:
            outcomes = annotate_with_ray(args.captures, endpoint, settings, args.pages_at_once, args.ray)
        else:
            outcomes = annotate_here(args.captures, endpoint, settings, args.pages_at_once)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except LanguageModelError as error:
        print(f"{error}; what is done is kept, run the same command to go on", file=sys.stderr)
        return 1
    return report(outcomes, out)


def report(outcomes: Sequence[PageOutcome], out: Path) -> int:
    """One JSON object on stdout; exit status 1 when pages are left to be tried again."""
    entries = list(json_lines(out / "costs.jsonl"))
    totals = {
        key: round(sum(entry[key] for entry in entries), 6)
        for key in ("calls", "failed_calls", "prompt_tokens", "completion_tokens", "price")
    }
    counts = {result: sum(outcome.result == result for outcome in outcomes) for result in ("kept", "skipped", "failed", "open")}
    print(json.dumps({"pages": len(outcomes), **counts, "regions": sum(outcome.regions for outcome in outcomes), **totals}))
    for outcome in outcomes:
        if outcome.result in ("skipped", "failed"):
            print(f"{outcome.page}: {outcome.result}: {outcome.reason}", file=sys.stderr)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
