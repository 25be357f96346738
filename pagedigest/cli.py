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
    help="Most tokens of the digest; without it the chosen regions are printed in full.",
)
@click.option("--selector", type=click.Choice(["hybrid", "llm"]), default="hybrid", show_default=True, help="What chooses regions.")
@click.option(
    "--model", metavar="NAME", help="Language model of --selector llm: openai:MODEL@BASE_URL, transformers:FOLDER or recorded:FILE."
)
@click.option("--segmenter", metavar="NAME", default="best", show_default=True, help="How the page is cut: a name or a weights folder.")
@click.option("--abstractor", metavar="NAME", default="embedded", show_default=True, help="What writes purposes and states.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=15.0,
    show_default=True,
    help="Deadline for capturing a page.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def observe(
    page: str,
    task: str,
    budget_tokens: int | None,
    selector: str,
    model: str | None,
    segmenter: str,
    abstractor: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Print the digest of a page. INPUT is a web address, an .html file or a saved snapshot (.json, .json.gz)."""
    from pagedigest.evaluation.systems import default_parts
    from pagedigest.selection import HybridSelector, LLMSelector
    from pagedigest.session import PageDigest
    from region4web.axtree import AXTree
    from region4web.inputs import read_page

    parts = default_parts(segmenter, abstractor, _language_model(model, needed=selector == "llm"))
    chooser = HybridSelector() if parts.model is None else LLMSelector(parts.model)
    tree = AXTree.from_snapshot(read_page(page, timeout_s=timeout_s))
    session = PageDigest(parts.segmenter, parts.abstractor, chooser, budget_tokens=budget_tokens).start(task)
    observation = session.observe(tree)
    if not as_json:
        click.echo(observation.text)
        return
    region_map = session.page.region_map
    opened = set(observation.trace["open"])
    usage = observation.usage
    click.echo(
        json.dumps(
            {
                "text": observation.text,
                "tokens": usage.tokens,
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


@commands.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--modules", "names", metavar="A,B,...", default="pagedigest", show_default=True, help="Observation methods, by name.")
@click.option(
    "--budget",
    "budgets",
    metavar="N",
    type=_BUDGET,
    multiple=True,
    help="Tokens that every method is cut or grown to; may be given several times. Without it: natural length.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Language model of the methods that ask one: openai:MODEL@BASE_URL, transformers:FOLDER or recorded:FILE.",
)
@click.option("--record", type=click.Path(path_type=Path), help="Keep the model's answers in this file, and answer from it what it holds.")
@click.option("--segmenter", metavar="NAME", default="best", show_default=True, help="How pages are cut: a name or a weights folder.")
@click.option("--abstractor", metavar="NAME", default="embedded", show_default=True, help="What writes purposes and states.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path), help="Write one row a method and step here.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="Write recall against tokens here (.png, .pdf, .svg).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def replay(
    files: tuple[Path, ...],
    names: str,
    budgets: tuple[int, ...],
    model: str | None,
    record: Path | None,
    segmenter: str,
    abstractor: str,
    seed: int,
    csv_path: Path | None,
    plot_path: Path | None,
    as_json: bool,
) -> None:
    """Show methods recorded steps; count how often the needed element is shown, and the tokens. FILE is JSON lines, plain or gzipped."""
    from tqdm import tqdm

    from pagedigest.evaluation.replay import replay as replay_steps
    from pagedigest.evaluation.report import ReplayRun, replay_json, results_csv, summary_table, write_plot
    from pagedigest.evaluation.steps import count_steps, read_steps
    from pagedigest.evaluation.systems import default_parts, system_by_name

    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise click.UsageError("--modules needs at least one name")
    if record is not None and model is None:
        raise click.UsageError("--record keeps the answers of --model; name one")
    for path in (csv_path, plot_path):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: its folder does not exist; make it first")
    total = count_steps(files)
    if not total:
        raise ValueError(f"{', '.join(map(str, files))}: no steps")
    parts = default_parts(segmenter, abstractor, _language_model(model, needed=False, record=record))
    levels: list[int | None] = list(dict.fromkeys(budgets)) or [None]
    systems = {(name, budget): system_by_name(name, parts, budget_tokens=budget) for budget in levels for name in wanted}
    keys = {f"{name}@{budget}": (name, budget) for name, budget in systems}
    with tqdm(total=total, unit="step", file=sys.stderr, disable=None, leave=False) as progress:
        found = replay_steps(
            {key: systems[pair] for key, pair in keys.items()},
            read_steps(files),
            on_episode=lambda episode: progress.update(len(episode)) and None,
        )
    runs = [ReplayRun(budget, {name: found[f"{name}@{budget}"] for name in wanted}) for budget in levels]
    if csv_path is not None:
        csv_path.write_text(results_csv(runs), encoding="utf-8")
    if plot_path is not None:
        write_plot(runs, plot_path, seed=seed)
    click.echo(json.dumps(replay_json(runs, seed=seed)) if as_json else summary_table(runs, seed=seed))


def _language_model(name: str | None, *, needed: bool, record: Path | None = None) -> Any:
    """The model of that name, with its answers kept in `record`; None without a name. Raises click.UsageError when it is needed."""
    from region4web.language_models import RecordedModel, language_model_by_name

    if name is None:
        if needed:
            raise click.UsageError("--selector llm needs --model, as openai:MODEL@BASE_URL")
        return None
    model = language_model_by_name(name)
    return model if record is None else RecordedModel(record, model)


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
