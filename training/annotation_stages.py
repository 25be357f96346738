"""The paper's three stages of annotation on one page: decompose, verify, abstract.

Enters: a capture and a model. Leaves: a `PageOutcome`; in the output folder one file a page and stage, the label file after
the last, and a line of `costs.jsonl` for each batch of calls. A stage whose file is there is not run again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from region4web.axtree import AXTree
from region4web.contents import region_units
from region4web.errors import LanguageModelError, SnapshotError
from region4web.generative import ANSWER_SCHEMA, reply_fault
from region4web.language_models import Completion, LanguageModel, Prompt
from region4web.region_text import region_text
from region4web.regions import Abstraction, Partition, RegionMap
from region4web.render import node_line
from region4web.snapshot import load_snapshot
from training.annotation_texts import (
    ANSWER_TOKENS,
    DECOMPOSE_SCHEMA,
    REGION_CHARACTERS,
    VERIFY_SCHEMA,
    Fault,
    correction,
    outline,
    prompt_text,
    read_answer,
    region_outline,
)
from training.records import append_json_line, save_labels, write_whole

__all__ = ["STAGES", "Annotator", "BadAnswer", "CallFailed", "PageOutcome", "page_name", "without_empty_regions"]

STAGES = ("decompose", "verify", "abstract")


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

    def _ask(self, page: str, stage: str, texts: Sequence[str], schema: Mapping[str, Any], fault: Fault) -> list[Any]:
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
                i: [*prompts[i][:2], *correction(completion, wrong[i])]
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


def without_empty_regions(partition: Partition) -> Partition:
    """Regions that hold nothing to read or act on go back into the region around."""
    kept = [r.root for r in partition.regions if r.number and any(unit.kind != "title" for unit in region_units(partition, r))]
    return Partition.from_cuts(partition.tree, kept)


def _partition(tree: AXTree, roots: Sequence[str]) -> Partition:
    return Partition.from_cuts(tree, [tree.index_of[root] for root in roots])


def _outcome(name: str, labels: Path) -> PageOutcome:
    data = json.loads(labels.read_text(encoding="utf-8"))
    return PageOutcome(name, "skipped", data["skip"]) if "skip" in data else PageOutcome(name, "kept", regions=len(data["regions"]))


def page_name(capture: Path) -> str:
    return capture.name.removesuffix(".gz").removesuffix(".json")
