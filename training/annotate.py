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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from region4web.errors import LanguageModelError
from region4web.language_models import LanguageModel
from region4web.openai_model import OpenAIModel
from training.annotation_stages import STAGES, Annotator, PageOutcome
from training.records import json_lines

__all__ = ["Endpoint", "annotate_page", "main"]


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
