"""The report of a live run: one HTML file with tables, plots and every episode's trace; tables as Markdown and LaTeX.

Enters: a run's folder. Leaves: `report.html`, `report.md`, `report.tex` in it. All text of pages and models is escaped.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pagedigest.evaluation.live import read_episodes, read_traces
from pagedigest.evaluation.live_episode import Episode
from pagedigest.evaluation.live_statistics import Difference, LiveSummary, paired_success, summarise_live

__all__ = ["latex_table", "live_table", "markdown_table", "write_report"]

COLUMNS = (
    "module", "actor", "episodes", "success", "95 % interval", "tokens/step mean", "median", "tokens/task", "of full tree", "view_all", "selections/task",
    "steps", "ms/step", "cost/task", "failed at",
)  # fmt: skip


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


def write_report(folder: Path) -> Path:
    """Write the report of a run. Raises ValueError when the folder holds no episode."""
    from jinja2 import Environment, PackageLoader

    episodes = read_episodes(folder)
    if not episodes:
        raise ValueError(f"{folder}: no episodes; run pagedigest ablate first")
    summaries = summarise_live(episodes)
    rows = live_table(summaries)
    sites = sorted({e.site for e in episodes})
    per_site = [(site, live_table(summarise_live([e for e in episodes if e.site == site]))) for site in sites]
    differences = _differences(episodes, summaries)
    run = json.loads((folder / "run.json").read_text()) if (folder / "run.json").is_file() else {}
    template = Environment(loader=PackageLoader("pagedigest"), autoescape=True).get_template("live_report.html.j2")
    html = template.render(
        title=folder.resolve().name, run=run, columns=COLUMNS, rows=rows, per_site=per_site, differences=differences, plots=_plots(summaries, episodes),
        traces=sorted(read_traces(folder), key=lambda t: (t["job"]["task"], t["job"]["module"], t["job"]["actor"], t["job"]["seed"])),
    )  # fmt: skip
    (folder / "report.html").write_text(html, encoding="utf-8")
    (folder / "report.md").write_text(markdown_table(COLUMNS, rows) + "\n", encoding="utf-8")
    (folder / "report.tex").write_text(latex_table(COLUMNS, rows) + "\n", encoding="utf-8")
    return folder / "report.html"


def _differences(episodes: Sequence[Episode], summaries: Sequence[LiveSummary]) -> list[Difference]:
    """Every module against the first one, actor by actor."""
    found: list[Difference] = []
    for actor in dict.fromkeys(s.actor for s in summaries):
        modules = [s.module for s in summaries if s.actor == actor]
        found.extend(d for other in modules[1:] if (d := paired_success(episodes, other, modules[0], actor)) is not None)
    return found


def _plots(summaries: Sequence[LiveSummary], episodes: Sequence[Episode]) -> list[tuple[str, str]]:
    """(caption, PNG in base64): success against tokens, success by site, what tokens were spent on."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plots = []
    labels = [f"{s.module}\n{s.actor}" for s in summaries]
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for s, label in zip(summaries, labels, strict=True):
        low, high = s.success_interval
        axes.errorbar(s.tokens_task_mean, s.success, yerr=[[max(0.0, s.success - low)], [max(0.0, high - s.success)]], fmt="o", capsize=3)
        axes.annotate(label, (s.tokens_task_mean, s.success), xytext=(6, 4), textcoords="offset points", fontsize=8)
    axes.set(xlabel="tokens a task", ylabel="success (Wilson 95 %)", xscale="log", ylim=(-0.02, 1.05))
    axes.grid(alpha=0.3)
    plots.append(("Success against tokens", _png(figure)))

    sites = sorted({e.site for e in episodes})
    figure, axes = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
    width = 0.8 / max(1, len(summaries))
    for k, s in enumerate(summaries):
        shares = []
        for site in sites:
            ran = [e.success for e in episodes if (e.module, e.actor, e.site) == (s.module, s.actor, site) and e.stage != "infrastructure"]
            shares.append(sum(ran) / len(ran) if ran else 0.0)
        axes.bar([i + k * width for i in range(len(sites))], shares, width, label=labels[k].replace("\n", ", "))
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(sites))], sites)
    axes.set(ylabel="success", ylim=(0, 1.05))
    axes.legend(fontsize=7, ncols=2)
    plots.append(("Success by site", _png(figure)))

    figure, axes = plt.subplots(figsize=(7.5, 0.6 + 0.5 * len(summaries)), layout="constrained")
    left = [0.0] * len(summaries)
    for name, values in (
        ("actor", [s.actor_tokens_task for s in summaries]),
        ("selection", [s.selection_tokens_task for s in summaries]),
        ("other auxiliary calls", [s.other_auxiliary_tokens_task for s in summaries]),
    ):
        axes.barh([label.replace("\n", ", ") for label in labels], values, left=left, label=name)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.set(xlabel="tokens a task")
    axes.legend(fontsize=7)
    axes.invert_yaxis()
    plots.append(("What tokens were spent on", _png(figure)))
    plt.close("all")
    return plots


def _png(figure: Any) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return base64.b64encode(out.getvalue()).decode()
