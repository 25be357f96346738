"""The commands of live runs: `pagedigest ablate CONFIG` and `pagedigest report DIR`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

__all__ = ["COMMANDS"]


@click.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--workers", type=click.IntRange(min=1), help="Overrides the configuration's workers.")
@click.option("--json", "as_json", is_flag=True, help="Summaries as one JSON object on stdout.")
def ablate(config: Path, workers: int | None, as_json: bool) -> None:
    """Run modules x actors x tasks x seeds of CONFIG (TOML) in real browsers; goes on where it was interrupted."""
    from dataclasses import replace

    from pagedigest.evaluation.live import load_config, run
    from pagedigest.evaluation.live_report import COLUMNS, live_table, markdown_table, write_report
    from pagedigest.evaluation.live_statistics import summarise_live
    from pagedigest.evaluation.sites import SiteError

    settings = load_config(config)
    if workers is not None:
        settings = replace(settings, workers=workers)
    try:
        summaries = summarise_live(run(settings))
    except SiteError as error:
        raise click.ClickException(str(error)) from error
    report = write_report(settings.out)
    if as_json:
        click.echo(json.dumps({"out": str(settings.out), "report": str(report), "summaries": [asdict(s) for s in summaries]}))
    else:
        click.echo(markdown_table(COLUMNS, live_table(summaries)))
        click.echo(f"report: {report}", err=True)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--curves",
    "curve_files",
    metavar="FILE.json",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Metrics of a training run whose learning curves are drawn too.",
)
@click.option("--json", "as_json", is_flag=True, help="Summaries as one JSON object on stdout.")
def report(folder: Path, curve_files: tuple[Path, ...], as_json: bool) -> None:
    """Write the report of the live run in DIR: report.html with a page an episode, report.md, report.tex, two Parquet files."""
    from pagedigest.evaluation.live import read_episodes
    from pagedigest.evaluation.live_plots import read_history
    from pagedigest.evaluation.live_report import write_report
    from pagedigest.evaluation.live_statistics import summarise_live

    path = write_report(folder, {str(file): read_history(file) for file in curve_files})
    summaries = summarise_live(read_episodes(folder))
    click.echo(json.dumps({"report": str(path), "summaries": [asdict(s) for s in summaries]}) if as_json else str(path))


COMMANDS = [ablate, report]
