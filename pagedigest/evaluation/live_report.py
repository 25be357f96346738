"""The report of a live run: one HTML file with tables and plots, a page an episode with its steps, tables for papers and other tools.

Enters: a run's folder. Leaves in it: `report.html`, `episodes/`, `report.md`, `report.tex`, two Parquet files. All text of pages and models
is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pagedigest.evaluation.attribution import STAGES
from pagedigest.evaluation.live import read_episodes, read_traces, trace_path
from pagedigest.evaluation.live_episode import Episode, Job
from pagedigest.evaluation.live_export import write_parquet
from pagedigest.evaluation.live_plots import History, learning_curves, live_plots
from pagedigest.evaluation.live_statistics import Difference, LiveSummary, paired_success, summarise_live

__all__ = ["latex_table", "live_table", "markdown_table", "stage_table", "write_report"]

COLUMNS = (
    "module", "actor", "episodes", "success", "95 % interval", "tokens/step mean", "median", "tokens/task", "of full tree", "view_all", "selections/task",
    "steps", "ms/step", "cost/task", "failed at",
)  # fmt: skip
STAGE_COLUMNS = ("module", "actor", *STAGES)


def live_table(summaries: Sequence[LiveSummary]) -> list[tuple[str, ...]]:
    """Rows of the main table, as texts in the order of `COLUMNS`."""
    return [
        (
            s.module,
            s.actor,
            str(s.episodes) + (f" (+{s.not_run} not run)" if s.not_run else ""),
            f"{s.success:.3f}",
            f"{s.success_interval[0]:.3f} to {s.success_interval[1]:.3f}",
            f"{s.tokens_step_mean:,.0f}",
            f"{s.tokens_step_median:,.0f}",
            f"{s.tokens_task_mean:,.0f}",
            f"{s.share_of_full:.0%}",
            f"{s.view_all_rate:.0%}",
            f"{s.selections_task:.1f}",
            f"{s.steps_mean:.1f}",
            f"{s.observe_ms_step:,.0f}",
            f"{s.cost_task:.4f}",
            ", ".join(f"{stage} {count}" for stage, count in sorted(s.failures.items())),
        )
        for s in summaries
    ]


def stage_table(summaries: Sequence[LiveSummary]) -> list[tuple[str, ...]]:
    """Per module and actor, as `failed / hidden`: episodes that failed at a stage, and elements of reference solutions that it hid at first."""
    rows = []
    for s in summaries:
        cells = [
            f"{s.failures.get(stage, 0)} / {s.hidden[stage]}" if stage in s.hidden else str(s.failures.get(stage, 0)) for stage in STAGES
        ]
        rows.append((s.module, s.actor, *cells))
    return rows


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (columns, *rows)]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in LaTeX (booktabs)."""

    def cell(text: str) -> str:
        return "".join({"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "$": r"\$", "\\": r"\textbackslash{}"}.get(c, c) for c in text)

    body = [" & ".join(map(cell, row)) + r" \\" for row in (columns, *rows)]
    return "\n".join(
        [r"\begin{tabular}{" + "l" * len(columns) + "}", r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}"]
    )


def write_report(folder: Path, curves: Mapping[str, History] | None = None) -> Path:
    """Write the report of a run, `curves` being histories of training runs by name. Raises ValueError when the folder holds no episode."""
    from jinja2 import Environment, PackageLoader

    episodes = read_episodes(folder)
    if not episodes:
        raise ValueError(f"{folder}: no episodes; run pagedigest ablate first")
    summaries = summarise_live(episodes)
    rows = live_table(summaries)
    sites = sorted({e.site for e in episodes})
    per_site = [(site, live_table(summarise_live([e for e in episodes if e.site == site]))) for site in sites]
    run = json.loads((folder / "run.json").read_text()) if (folder / "run.json").is_file() else {}
    templates = Environment(loader=PackageLoader("pagedigest"), autoescape=True)
    listed = _write_episode_pages(folder, templates)
    html = templates.get_template("live_report.html.j2").render(
        title=folder.resolve().name, run=run, columns=COLUMNS, rows=rows, per_site=per_site, differences=_differences(episodes, summaries),
        stage_columns=STAGE_COLUMNS, stages=stage_table(summaries), plots=live_plots(summaries, episodes) + learning_curves(curves or {}), listed=listed,
    )  # fmt: skip
    (folder / "report.html").write_text(html, encoding="utf-8")
    (folder / "report.md").write_text(
        markdown_table(COLUMNS, rows) + "\n\n" + markdown_table(STAGE_COLUMNS, stage_table(summaries)) + "\n", encoding="utf-8"
    )
    (folder / "report.tex").write_text(latex_table(COLUMNS, rows) + "\n", encoding="utf-8")
    write_parquet(folder)
    return folder / "report.html"


def _write_episode_pages(folder: Path, templates: Any) -> list[dict[str, Any]]:
    """One page an episode in `episodes/`; what the report lists of each, in order."""
    pages = folder / "episodes"
    pages.mkdir(exist_ok=True)
    template = templates.get_template("live_episode.html.j2")
    listed = []
    for trace in read_traces(folder):
        job = Job(**trace["job"])
        name = trace_path(pages, job).name.removesuffix(".json.gz") + ".html"
        (pages / name).write_text(template.render(t=trace), encoding="utf-8")
        listed.append({"job": trace["job"], "episode": trace["episode"], "steps": len(trace["steps"]), "page": f"episodes/{name}"})
    return sorted(listed, key=lambda entry: tuple(str(entry["job"][k]) for k in ("task", "module", "actor", "seed")))


def _differences(episodes: Sequence[Episode], summaries: Sequence[LiveSummary]) -> list[Difference]:
    """Every module against the first one, actor by actor."""
    found: list[Difference] = []
    for actor in dict.fromkeys(s.actor for s in summaries):
        modules = [s.module for s in summaries if s.actor == actor]
        found.extend(d for other in modules[1:] if (d := paired_success(episodes, other, modules[0], actor)) is not None)
    return found
