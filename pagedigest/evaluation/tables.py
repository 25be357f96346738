"""The tables of a comparison, in a folder: Markdown and LaTeX for papers, CSV for everything, the JSON object, the plot.

Enters: `ReplayRun`s. Leaves: `tables.md`, `tables.tex`, `groups.csv` (every method and budget, for all steps and by source, kind,
page kind and site, with paired differences), `steps.csv.gz` (one row a step), `comparison.json`, `recall_against_tokens.png`.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagedigest.evaluation.report import GROUPS, ReplayRun, references, replay_json, results_csv, write_plot
from pagedigest.evaluation.statistics import StepResult, Summary, paired_difference, summarise

__all__ = ["Table", "cost_table", "difference_table", "recall_table", "recall_tables", "write_folder"]

INTERVAL_EPISODES = 8
"""Groups of fewer episodes get no intervals in `groups.csv`."""


@dataclass(frozen=True)
class Table:
    """A caption, the names of the columns, rows of texts."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [f"**{self.caption}**", "", _row(self.header), _row(("---", *("---:" for _ in self.header[1:])))]
        return "\n".join([*lines, *map(_row, self.rows)])

    def latex(self) -> str:
        body = " \\\\\n".join(" & ".join(map(_escaped, row)) for row in self.rows)
        columns = "l" + "r" * (len(self.header) - 1)
        return (
            f"\\begin{{table}}\n\\caption{{{_escaped(self.caption)}}}\n\\begin{{tabular}}{{{columns}}}\n\\hline\n"
            f"{' & '.join(map(_escaped, self.header))} \\\\\n\\hline\n{body} \\\\\n\\hline\n\\end{{tabular}}\n\\end{{table}}"
        )


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in "_%&#$" else character for character in text)


def recall_table(runs: Sequence[ReplayRun], caption: str, *, seed: int = 0, intervals: bool = True) -> Table:
    """Share of steps whose needed element is shown, a row a method, a column a budget; natural lengths with their tokens."""
    rows = []
    for name in runs[0].results:
        cells = [name]
        for run in runs:
            summary = summarise(run.results[name], seed=seed)
            cells.append(_recall(summary, intervals=intervals))
            if run.budget_tokens is None:
                cells.append(f"{summary.tokens_mean:,.0f}")
        rows.append(tuple(cells))
    header = ["method"]
    for run in runs:
        header += ["natural length", "its tokens"] if run.budget_tokens is None else [f"{run.budget_tokens:,}"]
    return Table(caption, tuple(header), tuple(rows))


def _recall(summary: Summary, *, intervals: bool) -> str:
    if summary.target_recall is None:
        return "-"
    if not intervals or summary.target_recall_interval is None:
        return f"{summary.target_recall:.3f}"
    low, high = summary.target_recall_interval
    return f"{summary.target_recall:.3f} ({low:.3f} to {high:.3f})"


def recall_tables(runs: Sequence[ReplayRun], *, seed: int = 0) -> list[Table]:
    """The recall table of all steps, then one for each source and kind where there are several."""
    tables = [recall_table(runs, f"All {_counted(runs)}: share whose needed element is shown (95 % interval over episodes)", seed=seed)]
    for grouping in ("source", "kind"):
        parts = _parts(runs, GROUPS[grouping])
        if len(parts) > 1:
            for part, members in parts.items():
                if part and any(result.found is not None for result in next(iter(members[0].results.values()))):
                    tables.append(recall_table(members, f"{grouping} {part}: {_counted(members)}", seed=seed))
    return tables


def _counted(runs: Sequence[ReplayRun]) -> str:
    results = next(iter(runs[0].results.values()))
    return f"{sum(result.found is not None for result in results):,} steps of {len({result.episode for result in results}):,} episodes"


def cost_table(runs: Sequence[ReplayRun], *, seed: int = 0) -> Table:
    """What each method costs: tokens of the text and of its own model calls, cacheable share, time."""
    rows = []
    for run in runs:
        for name, results in run.results.items():
            s = summarise(results, seed=seed)
            cacheable = "-" if s.cacheable_mean is None else f"{s.cacheable_mean:.2f}"
            length = "natural" if run.budget_tokens is None else f"{run.budget_tokens:,}"
            rows.append((name, length, f"{s.tokens_mean:,.0f}", f"{s.tokens_median:,.0f}", f"{s.tokens_p90:,.0f}",
                         f"{s.aux_tokens_mean:,.0f}", cacheable, f"{s.ms_median:.1f}", str(s.fallbacks)))  # fmt: skip
    return Table(
        "Cost of a step",
        ("method", "length", "tokens, mean", "median", "p90", "auxiliary tokens", "cacheable", "ms, median", "fallbacks"),
        tuple(rows),
    )


def difference_table(runs: Sequence[ReplayRun], *, seed: int = 0) -> list[Table]:
    """For each reference: its recall less that of every other method on the same steps, with the paired interval."""
    tables = []
    for reference in references(runs[0]):
        rows = []
        for name in runs[0].results:
            if name == reference:
                continue
            cells = [name]
            for run in runs:
                found = paired_difference(run.results[reference], run.results[name], seed=seed)
                if found is None or found.interval is None:
                    cells.append("-" if found is None else f"{found.difference:+.3f}")
                else:
                    cells.append(f"{found.difference:+.3f} ({found.interval[0]:+.3f} to {found.interval[1]:+.3f})")
            rows.append(tuple(cells))
        header = ("less", *("natural length" if run.budget_tokens is None else f"{run.budget_tokens:,}" for run in runs))
        tables.append(
            Table(f"Recall of {reference} less that of each method, same steps (95 % interval over episodes)", header, tuple(rows))
        )
    return tables


def write_folder(runs: Sequence[ReplayRun], folder: Path, *, seed: int = 0) -> None:
    """Write every file. Needs matplotlib for the plot."""
    tables = [*recall_tables(runs, seed=seed), *difference_table(runs, seed=seed), cost_table(runs, seed=seed)]
    (folder / "tables.md").write_text("\n\n".join(table.markdown() for table in tables) + "\n", encoding="utf-8")
    (folder / "tables.tex").write_text("\n\n".join(table.latex() for table in tables) + "\n", encoding="utf-8")
    with (folder / "groups.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, GROUP_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_group_rows(runs, seed))
    with gzip.open(folder / "steps.csv.gz", "wt", encoding="utf-8") as packed:
        packed.write(results_csv(runs))
    (folder / "comparison.json").write_text(json.dumps(replay_json(runs, seed=seed), indent=1) + "\n", encoding="utf-8")
    write_plot(runs, folder / "recall_against_tokens.png", seed=seed)


GROUP_COLUMNS = (
    "group part budget method steps targets recall recall_low recall_high reference difference difference_low difference_high "
    "tokens_mean tokens_median tokens_p90 auxiliary_tokens_mean cacheable_mean ms_median fallbacks"
).split()


def _group_rows(runs: Sequence[ReplayRun], seed: int) -> Iterator[dict[str, object]]:
    groups: Mapping[str, Callable[[StepResult], str]] = {"all": lambda result: "", **GROUPS}
    for group, key in groups.items():
        for part, members in _parts(runs, key).items():
            for run in members:
                reference = references(run)[0]
                many = len({result.episode for result in run.results[reference]}) >= INTERVAL_EPISODES
                for name, results in run.results.items():
                    yield _group_row(group, part, run, name, results, reference, seed if many else None)


def _group_row(
    group: str, part: str, run: ReplayRun, name: str, results: Sequence[StepResult], reference: str, seed: int | None
) -> dict[str, object]:
    """`seed` None: no intervals."""
    s = summarise(results, seed=seed)
    low, high = s.target_recall_interval or (None, None)
    paired = None if name == reference else paired_difference(run.results[reference], results, seed=seed)
    between = (None, None) if paired is None or paired.interval is None else paired.interval
    values = (
        group, part, run.budget_tokens, name, s.steps, s.targets, s.target_recall, low, high, None if paired is None else reference,
        None if paired is None else paired.difference, *between, s.tokens_mean, s.tokens_median, s.tokens_p90, s.aux_tokens_mean,
        s.cacheable_mean, s.ms_median, s.fallbacks,
    )  # fmt: skip
    return {
        column: "" if value is None else round(value, 4) if isinstance(value, float) else value
        for column, value in zip(GROUP_COLUMNS, values, strict=True)
    }


def _parts(runs: Sequence[ReplayRun], key: Callable[[StepResult], str]) -> dict[str, list[ReplayRun]]:
    """The runs of each part of the steps."""
    parts = sorted({key(result) for result in next(iter(runs[0].results.values()))})
    sorted_out = []
    for run in runs:
        by_part: dict[str, dict[str, list[StepResult]]] = {part: {name: [] for name in run.results} for part in parts}
        for name, results in run.results.items():
            for result in results:
                by_part[key(result)][name].append(result)
        sorted_out.append(by_part)
    return {part: [ReplayRun(run.budget_tokens, by_part[part]) for run, by_part in zip(runs, sorted_out, strict=True)] for part in parts}
