"""The command `pagedigest`: one page's digest, and observation methods replayed on recorded steps.

One JSON object on stdout with `--json`, progress and errors on stderr, one line an error. Exit status: 0 done, 2 the
caller's mistake, 1 the world failed (browser, network, model). Commands of a live browser come from `session_cli`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from pagedigest.cli_options import abstractor_option, json_option, segmenter_option
from region4web.cli import run_command

__all__ = ["commands", "main"]

_BUDGET = click.IntRange(min=1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="region4web")
def commands() -> None:
    """What a web agent reads at each step: page digests by region, within a token budget."""


@commands.command()
@click.argument("page", metavar="INPUT")
@click.option("--task", required=True, help="What the agent is to do.")
@click.option(
    "--budget",
    "budget_tokens",
    metavar="N",
    type=_BUDGET,
    help="Most tokens of the digest; without it 35% of the page's, at least 800 and at most 2000.",
)
@click.option("--selector", type=click.Choice(["hybrid", "llm"]), default="hybrid", show_default=True, help="What chooses regions.")
@click.option(
    "--model", metavar="NAME", help="Language model of --selector llm: openai:MODEL@BASE_URL, transformers:FOLDER or recorded:FILE."
)
@segmenter_option
@abstractor_option
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=15.0,
    show_default=True,
    help="Deadline for capturing a page.",
)
@click.option("--fence", "with_fence", is_flag=True, help="Put the text, which comes from the web, between markers with a nonce; they count in the budget.")  # fmt: skip
@json_option
def observe(
    page: str,
    task: str,
    budget_tokens: int | None,
    selector: str,
    model: str | None,
    segmenter: str,
    abstractor: str,
    timeout_s: float,
    with_fence: bool,
    as_json: bool,
) -> None:
    """Print the digest of a page. INPUT is a web address, an .html file or a saved snapshot (.json, .json.gz)."""
    from pagedigest.budgets import SMALLEST_BUDGET, Budget, PageShare
    from pagedigest.evaluation.systems import default_parts
    from pagedigest.fence import fenced
    from pagedigest.selection import HybridSelector, LLMSelector
    from pagedigest.session import PageDigest
    from pagedigest.tokens import default_counter
    from region4web.axtree import AXTree
    from region4web.inputs import read_page
    from region4web.render import plain_text

    parts = default_parts(segmenter, abstractor, _language_model(model, needed=selector == "llm"))
    chooser = HybridSelector() if parts.model is None else LLMSelector(parts.model)
    tree = AXTree.from_snapshot(read_page(page, timeout_s=timeout_s))
    counter = default_counter()
    notes = [f"NOTE {plain_text(note)[:200]}" for note in tree.notes]

    def around(text: str) -> str:
        whole = "\n".join([*notes, text])
        return fenced(whole) if with_fence else whole

    room: Budget = PageShare()
    if budget_tokens is not None:
        if notes and budget_tokens - counter.count(around("")) < SMALLEST_BUDGET:
            notes.clear()
        room = budget_tokens - counter.count(around("\n"))
    session = PageDigest(parts.segmenter, parts.abstractor, chooser, budget_tokens=room).start(task)
    observation = session.observe(tree)
    text = around(observation.text)
    if not as_json:
        click.echo(text)
        return
    region_map = session.page.region_map
    opened = set(observation.trace["open"])
    usage = observation.usage
    click.echo(
        json.dumps(
            {
                "text": text,
                "tokens": counter.count(text),
                "full_tokens": usage.full_tokens,
                "shown": list(observation.shown),
                "regions": [
                    {
                        "id": region.key,
                        "root": tree.nodes[region.root].id,
                        "size": len(region),
                        "purpose": abstraction.purpose,
                        "state": abstraction.state,
                        "open": region.key in opened,
                    }
                    for region, abstraction in zip(region_map.partition.regions, region_map.abstractions, strict=True)
                ],
                "usage": {
                    "counter": observation.trace["counter"],
                    "selection": observation.trace["selection"],
                    "auxiliary_tokens": {purpose: list(pair) for purpose, pair in usage.auxiliary_tokens.items()},
                    "ms": dict(usage.ms),
                    "counts": dict(usage.counts),
                },
            },
            ensure_ascii=True,
        )
    )


class _Length(click.ParamType[int | str]):
    """A number of tokens, or `natural`."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return "natural" if value == "natural" else _BUDGET.convert(value, param, ctx)


@commands.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--modules",
    "names",
    metavar="A,B,...",
    default="pagedigest",
    show_default=True,
    help="Observation methods, by name; llm-free: all without a model.",
)
@click.option(
    "--budget",
    "budgets",
    metavar="N",
    type=_Length(),
    multiple=True,
    help="Tokens that every method is cut or grown to, or 'natural'; may be given several times. Without it: natural length.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Language model of the methods that ask one: openai:MODEL@BASE_URL, transformers:FOLDER or recorded:FILE.",
)
@click.option("--record", type=click.Path(path_type=Path), help="Keep the model's answers in this file, and answer from it what it holds.")
@click.option(
    "--answer-tokens", metavar="N", type=_BUDGET, help="Most tokens of one answer of the model; each method's own limit by default."
)
@segmenter_option
@abstractor_option
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that share the work.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option(
    "--out",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write tables, CSV, JSON and the plot here, and go on from what an interrupted call left here.",
)
@click.option("--csv", "csv_path", type=click.Path(path_type=Path), help="Write one row a method and step here.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="Write recall against tokens here (.png, .pdf, .svg).")
@json_option
def replay(
    files: tuple[Path, ...],
    names: str,
    budgets: tuple[int | str, ...],
    model: str | None,
    record: Path | None,
    answer_tokens: int | None,
    segmenter: str,
    abstractor: str,
    workers: int,
    seed: int,
    folder: Path | None,
    csv_path: Path | None,
    plot_path: Path | None,
    as_json: bool,
) -> None:
    """Show methods recorded steps; count how often the needed element is shown, and the tokens. FILE is JSON lines, plain or gzipped."""
    from tqdm import tqdm

    from pagedigest.evaluation.comparison import Comparison, compare
    from pagedigest.evaluation.held_out import HeldOutSelector
    from pagedigest.evaluation.report import replay_json, results_csv, summary_table, write_plot
    from pagedigest.evaluation.steps import count_steps
    from pagedigest.evaluation.systems import LLM_FREE
    from pagedigest.evaluation.tables import write_folder

    asked = [name.strip() for name in names.split(",") if name.strip()]
    wanted = list(dict.fromkeys(name for given in asked for name in (LLM_FREE if given == "llm-free" else (given,))))
    if "pagedigest_held_out" not in asked and "pagedigest_held_out" in wanted and not HeldOutSelector().available:
        wanted.remove("pagedigest_held_out")
        click.echo("pagedigest_held_out is left out: no rankers of folds beside the weights (python -m training.train_selection)", err=True)
    if not wanted:
        raise click.UsageError("--modules needs at least one name")
    if record is not None and model is None:
        raise click.UsageError("--record keeps the answers of --model; name one")
    if answer_tokens is not None and model is None:
        raise click.UsageError("--answer-tokens bounds the answers of --model; name one")
    for path in (csv_path, plot_path):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: its folder does not exist; make it first")
    total = count_steps(files)
    if not total:
        raise ValueError(f"{', '.join(map(str, files))}: no steps")
    lengths = [None if length == "natural" else int(length) for length in budgets] or [None]
    comparison = Comparison(
        names=tuple(wanted),
        budgets=tuple(dict.fromkeys(lengths)),
        segmenter=segmenter,
        abstractor=abstractor,
        model=model or "",
        record="" if record is None else str(record),
        answer_tokens=answer_tokens or 0,
    )
    with tqdm(total=total, unit="step", file=sys.stderr, disable=None, leave=False) as progress:
        runs = compare(comparison, files, folder, workers=workers, on_steps=lambda count: progress.update(count) and None)
    if folder is not None:
        write_folder(runs, folder, seed=seed)
    if csv_path is not None:
        csv_path.write_text(results_csv(runs), encoding="utf-8")
    if plot_path is not None:
        write_plot(runs, plot_path, seed=seed)
    click.echo(json.dumps(replay_json(runs, seed=seed)) if as_json else summary_table(runs, seed=seed))


def _language_model(name: str | None, *, needed: bool) -> Any:
    """The model of that name; None without a name. Raises click.UsageError when it is needed."""
    from region4web.language_models import language_model_by_name

    if name is None:
        if needed:
            raise click.UsageError("--selector llm needs --model, as openai:MODEL@BASE_URL")
        return None
    return language_model_by_name(name)


def _add_commands_from(module: str) -> None:
    """Add the commands of a module of this package, where it is there, as its `COMMANDS`."""
    if importlib.util.find_spec(module) is not None:
        for command in importlib.import_module(module).COMMANDS:
            commands.add_command(command)


_add_commands_from("pagedigest.session_cli")
_add_commands_from("pagedigest.live_cli")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    run_command(commands, argv, name="pagedigest")


if __name__ == "__main__":
    main()
