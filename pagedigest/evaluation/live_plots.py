"""The plots of a live run, as pictures to embed: success against tokens, success by site, what tokens were spent on, learning curves.

Enters: summaries, episodes, histories of training runs. Leaves: pairs of caption and PNG in base64.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pagedigest.evaluation.live_episode import Episode
from pagedigest.evaluation.live_statistics import LiveSummary

__all__ = ["History", "learning_curves", "live_plots", "read_history"]

History = Sequence[Sequence[Mapping[str, float]]]
"""Training runs (seeds, members), each a sequence of epochs, each a mapping of a metric's name to its value."""

_NOT_DRAWN = frozenset({"seconds", "epoch", "step"})


def read_history(path: Path) -> History:
    """The key `history` of a training run's JSON file. Raises ValueError that names the file and what it lacks."""
    try:
        history = json.loads(path.read_text(encoding="utf-8"))["history"]
        return [[{str(k): float(v) for k, v in epoch.items()} for epoch in run] for run in history]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: no learning curves: needs a key history with a list of runs, each a list of epochs of numbers"
        ) from error


def live_plots(summaries: Sequence[LiveSummary], episodes: Sequence[Episode]) -> list[tuple[str, str]]:
    """The three plots of a run's tables."""
    plt = _pyplot()
    labels = [f"{s.module}, {s.actor}" for s in summaries]
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for number, s in enumerate(summaries):
        low, high = s.success_interval
        axes.errorbar(
            s.tokens_task_mean,
            s.success,
            yerr=[[max(0.0, s.success - low)], [max(0.0, high - s.success)]],
            fmt="o^sDvPX*"[number // 10 % 8],
            color=f"C{number % 10}",
            capsize=3,
            label=labels[number],
        )
    axes.set(xlabel="tokens a task", ylabel="success (Wilson 95 %)", xscale="log", ylim=(-0.02, 1.05))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(1.0, 0.0))
    plots = [("Success against tokens", _png(figure))]

    sites = sorted({e.site for e in episodes})
    figure, axes = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
    width = 0.8 / max(1, len(summaries))
    for k, s in enumerate(summaries):
        shares = []
        for site in sites:
            ran = [e.success for e in episodes if (e.module, e.actor, e.site) == (s.module, s.actor, site) and e.stage != "infrastructure"]
            shares.append(sum(ran) / len(ran) if ran else 0.0)
        axes.bar([i + k * width for i in range(len(sites))], shares, width, label=labels[k])
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(sites))], sites)
    axes.set(ylabel="success", ylim=(0, 1.05))
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(1.0, 0.0))
    plots.append(("Success by site", _png(figure)))

    figure, axes = plt.subplots(figsize=(7.5, 1.0 + 0.4 * len(summaries)), layout="constrained")
    left = [0.0] * len(summaries)
    for name, values in (
        ("actor", [s.actor_tokens_task - s.view_all_tokens_task for s in summaries]),
        ("view_all", [s.view_all_tokens_task for s in summaries]),
        ("selection", [s.selection_tokens_task for s in summaries]),
        ("other auxiliary calls", [s.other_auxiliary_tokens_task for s in summaries]),
    ):
        axes.barh(labels, values, left=left, label=name)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.set(xlabel="tokens a task")
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(1.0, 0.0))
    axes.invert_yaxis()
    plots.append(("What tokens were spent on", _png(figure)))
    plt.close("all")
    return plots


def learning_curves(histories: Mapping[str, History]) -> list[tuple[str, str]]:
    """One plot a training run: each metric by epoch, its mean over the runs and the range between them."""
    plt = _pyplot()
    plots = []
    for name, history in histories.items():
        metrics = [m for m in dict.fromkeys(k for run in history for epoch in run for k in epoch) if m not in _NOT_DRAWN]
        figure, panels = plt.subplots(
            1, max(1, len(metrics)), figsize=(3.6 * max(1, len(metrics)), 2.8), layout="constrained", squeeze=False
        )
        for axes, metric in zip(panels[0], metrics, strict=False):
            epochs = range(1, max(len(run) for run in history) + 1)
            values = [[run[e - 1][metric] for run in history if len(run) >= e and metric in run[e - 1]] for e in epochs]
            drawn = [(e, v) for e, v in zip(epochs, values, strict=True) if v]
            axes.plot([e for e, _ in drawn], [sum(v) / len(v) for _, v in drawn])
            axes.fill_between([e for e, _ in drawn], [min(v) for _, v in drawn], [max(v) for _, v in drawn], alpha=0.25)
            axes.set(xlabel="epoch", title=metric)
            axes.grid(alpha=0.3)
        plots.append((f"Learning curves of {name} ({len(history)} runs: mean and range)", _png(figure)))
    plt.close("all")
    return plots


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _png(figure: Any) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return base64.b64encode(out.getvalue()).decode()
