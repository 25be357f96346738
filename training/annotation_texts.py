"""What an annotating model reads and what it may answer, for the three stages of `training.annotate`.

Enters: trees, partitions, a model's answer. Leaves: outlines with ids (decompose), outlines of one region (verify), the
stages' instructions and JSON schemas, and a checked answer or what is wrong with it. Asks no model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from region4web.axtree import AXTree
from region4web.language_models import Completion
from region4web.regions import Partition
from region4web.render import indentation

__all__ = [
    "ANSWER_TOKENS",
    "DECOMPOSE_SCHEMA",
    "REGION_CHARACTERS",
    "VERIFY_SCHEMA",
    "Fault",
    "correction",
    "outline",
    "prompt_text",
    "read_answer",
    "region_outline",
]

Fault = Callable[[Any], str]
"""What is wrong with an answer of the right form, '' for nothing."""

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
"""Budget of a region's text."""
OUTLINE_NAME_LIMIT = 120
ANSWER_TOKENS = {"decompose": 4096, "verify": 400, "abstract": 400}
"""Thinking counts too with models that think; raise with --answer-tokens where answers come back truncated."""


@cache
def prompt_text(stage: str) -> str:
    return (Path(__file__).parent / "prompts" / f"{stage}.txt").read_text(encoding="utf-8").strip()


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


def read_answer(completion: Completion, schema: Mapping[str, Any], fault: Fault) -> tuple[Any, str]:
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


def correction(completion: Completion, wrong: str) -> list[dict[str, str]]:
    said = completion.text or "(nothing)"
    return [
        {"role": "assistant", "content": said[:2000]},
        {"role": "user", "content": f"That cannot be used: {wrong}. Answer again, with the JSON object only."},
    ]
