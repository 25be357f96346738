"""What a replay found, written: one JSON object, a CSV, a table, a plot of recall against tokens.

Enters: `ReplayRun`s, one a budget. Leaves: text and files. Nothing is computed here but summaries of groups.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pagedigest.evaluation.statistics import StepResult, Summary, paired_difference, summarise
from pagedigest.evaluation.systems import OF_PAGEDIGEST

__all__ = ["GROUPS", "ReplayRun", "references", "replay_json", "results_csv", "summary_table", "write_plot"]

GROUPS: Mapping[str, Callable[[StepResult], str]] = {
    "source": lambda result: result.source,
    "kind": lambda result: result.kind,
    "page_kind": lambda result: result.page_kind,
    "site": lambda result: result.site,
}
REFERENCES = ("pagedigest", "pagedigest_held_out")
"""Methods that the others are compared with, where they are among them; else the first is."""


@dataclass(frozen=True)
class ReplayRun:
    """Results of all methods at one budget (None: natural length)."""

    budget_tokens: int | None
    results: Mapping[str, Sequence[StepResult]]


def replay_json(runs: Sequence[ReplayRun], *, seed: int = 0) -> dict[str, Any]:
    """DESIGN's object for the first run under `modules`; every run under `runs`, with groups and paired differences."""
    return {
        "modules": _modules(runs[0], seed),
        "runs": [
            {
                "budget": run.budget_tokens,
                "modules": _modules(run, seed),
                "groups": _groups(run),
                "differences": _differences(run, seed),
            }
            for run in runs
        ],
    }


def _modules(run: ReplayRun, seed: int) -> dict[str, Any]:
    return {name: _rounded(summarise(results, seed=seed)) for name, results in run.results.items()}


def _rounded(summary: Summary) -> dict[str, Any]:
    def shorter(value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 4)
        return [shorter(part) for part in value] if isinstance(value, tuple) else value

    return {key: shorter(value) for key, value in asdict(summary).items()}


def _groups(run: ReplayRun) -> dict[str, dict[str, dict[str, Any]]]:
    """Recall and tokens by source, kind and site, for groupings that tell steps apart."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for grouping, key in GROUPS.items():
        table: dict[str, dict[str, Any]] = {}
        for name, results in run.results.items():
            parts: dict[str, list[StepResult]] = {}
            for result in results:
                parts.setdefault(key(result), []).append(result)
            for part, members in sorted(parts.items()):
                found = [bool(member.found) for member in members if member.found is not None]
                table.setdefault(part, {})[name] = {
                    "steps": len(members),
                    "target_recall": round(sum(found) / len(found), 4) if found else None,
                    "tokens_mean": round(sum(member.tokens for member in members) / len(members), 1),
                }
        if len(table) > 1:
            out[grouping] = table
    return out


def _differences(run: ReplayRun, seed: int) -> dict[str, Any]:
    """Recall of each reference less that of each other method, on the same steps."""
    out: dict[str, Any] = {}
    for reference in references(run):
        for name, results in run.results.items():
            if name == reference:
                continue
            found = paired_difference(run.results[reference], results, seed=seed)
            if found is not None:
                interval = None if found.interval is None else [round(value, 4) for value in found.interval]
                out[f"{reference} - {name}"] = {"difference": round(found.difference, 4), "interval": interval, "steps": found.steps}
    return out


def references(run: ReplayRun) -> tuple[str, ...]:
    """Names of the methods that the others are compared with."""
    return tuple(name for name in REFERENCES if name in run.results) or (next(iter(run.results)),)


def summary_table(runs: Sequence[ReplayRun], *, seed: int = 0) -> str:
    """One line a budget and method."""
    lines = [
        f"{'budget':>8} {'method':<22} {'steps':>6} {'recall':>7} {'95 % interval':>15} {'tokens':>8} {'median':>8} {'p90':>8} {'aux':>7} {'cache':>6} {'ms':>8}"
    ]
    for run in runs:
        budget = "natural" if run.budget_tokens is None else str(run.budget_tokens)
        for name, results in run.results.items():
            s = summarise(results, seed=seed)
            recall = "-" if s.target_recall is None else f"{s.target_recall:.3f}"
            interval = "-" if s.target_recall_interval is None else f"{s.target_recall_interval[0]:.3f}..{s.target_recall_interval[1]:.3f}"
            cache = "-" if s.cacheable_mean is None else f"{s.cacheable_mean:.2f}"
            lines.append(
                f"{budget:>8} {name:<22} {s.steps:>6} {recall:>7} {interval:>15} {s.tokens_mean:>8.0f} {s.tokens_median:>8.0f} "
                f"{s.tokens_p90:>8.0f} {s.aux_tokens_mean:>7.0f} {cache:>6} {s.ms_median:>8.1f}"
            )
    missing = sum(result.missing for result in next(iter(runs[0].results.values())))
    mapped = sum(result.mapped for result in next(iter(runs[0].results.values())))
    if missing or mapped:
        lines.append(f"targets: {mapped} mapped to the nearest kept element, {missing} not in the tree (counted as not shown)")
    return "\n".join(lines)


def results_csv(runs: Sequence[ReplayRun]) -> str:
    """One row a budget, method and step."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = [field.name for field in fields(StepResult)]
    writer.writerow(["budget", "method", *columns])
    for run in runs:
        for name, results in run.results.items():
            for result in results:
                row = asdict(result)
                writer.writerow(
                    ["" if run.budget_tokens is None else run.budget_tokens, name, *("" if row[c] is None else row[c] for c in columns)]
                )
    return stream.getvalue()


def write_plot(runs: Sequence[ReplayRun], path: Path, *, seed: int = 0) -> None:
    """Recall against mean tokens, a line a method with its intervals, natural lengths as single marks. Needs matplotlib.

    PageDigest with what was taken out of it stands in a panel of its own, beside the other methods.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(runs[0].results)
    own = [name for name in names if name in OF_PAGEDIGEST]
    ablated = [name for name in own if name not in REFERENCES]
    panels = [[name for name in names if name not in ablated], own] if ablated and len(own) < len(names) else [names]
    figure, row = pyplot.subplots(1, len(panels), figsize=(6.2 * len(panels), 4.6), sharey=True, squeeze=False)
    for axes, members in zip(row[0], panels, strict=True):
        for name in members:
            _draw(axes, name, runs, seed)
        axes.set_xscale("log")
        axes.set_xlabel("tokens of the observation, mean over steps")
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    row[0][0].set_ylabel("steps whose needed element is shown")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _draw(axes: Any, name: str, runs: Sequence[ReplayRun], seed: int) -> None:
    points = [(run.budget_tokens, summarise(run.results[name], seed=seed)) for run in runs]
    known = [(budget, summary) for budget, summary in points if summary.target_recall is not None]
    at_budget = [summary for budget, summary in known if budget is not None]
    natural = [summary for budget, summary in known if budget is None]
    (line,) = axes.plot(
        [s.tokens_mean for s in at_budget],
        [s.target_recall for s in at_budget],
        marker="o",
        markersize=4,
        label=name,
        linewidth=2.4 if name in REFERENCES else 1.2,
    )
    for summary in at_budget:
        if summary.target_recall_interval is not None:
            axes.plot([summary.tokens_mean] * 2, summary.target_recall_interval, color=line.get_color(), alpha=0.4)
    axes.plot(
        [s.tokens_mean for s in natural],
        [s.target_recall for s in natural],
        marker="*",
        markersize=10,
        linestyle="",
        color=line.get_color(),
    )
