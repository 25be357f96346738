"""Numbers of a replay: recall, tokens, their bootstrap intervals, and paired differences between methods.

Enters: `StepResult`s. Leaves: `Summary`s. Intervals resample whole episodes, because steps of one episode are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["PairedDifference", "StepResult", "Summary", "paired_difference", "summarise"]

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class StepResult:
    """What one method gave at one step. `found` None: the step has no target.

    `kind` is the step file's own, `page_kind` what the page is by its roles. `cacheable` is the part of the text that repeats
    the start of the step before it in its episode, None at the first; `mapped`: the target was dropped by preprocessing and
    its nearest kept element counts; `needed_open` whether a needed region is open, None when not known.
    """

    source: str
    site: str
    kind: str
    page_kind: str
    episode: str
    step: int
    found: bool | None
    mapped: bool
    missing: bool
    tokens: int
    full_tokens: int
    auxiliary_tokens: int
    ms: float
    cacheable: float | None
    needed_open: bool | None = None
    fallbacks: int = 0


@dataclass(frozen=True)
class Summary:
    """Means and medians over steps; `*_interval` 95 % bootstrap over episodes, None with fewer than two episodes."""

    steps: int
    targets: int
    target_recall: float | None
    target_recall_interval: tuple[float, float] | None
    tokens_mean: float
    tokens_mean_interval: tuple[float, float] | None
    tokens_median: float
    tokens_p90: float
    full_tokens_mean: float
    aux_tokens_mean: float
    cacheable_mean: float | None
    needed_open: float | None
    ms_median: float
    targets_mapped: int
    targets_missing: int
    fallbacks: int


@dataclass(frozen=True)
class PairedDifference:
    """Recall of the first method less that of the second on the same steps, and its 95 % interval."""

    difference: float
    interval: tuple[float, float] | None
    steps: int


def summarise(results: Sequence[StepResult], *, seed: int | None = 0) -> Summary:
    """`seed` None: without intervals. Raises ValueError when there is nothing to sum up."""
    if not results:
        raise ValueError("no steps to summarise")
    found = [result for result in results if result.found is not None]
    tokens = np.asarray([result.tokens for result in results], dtype=float)
    cacheable = [result.cacheable for result in results if result.cacheable is not None]
    opened = [result.needed_open for result in results if result.needed_open is not None]
    return Summary(
        steps=len(results),
        targets=len(found),
        target_recall=float(np.mean([bool(result.found) for result in found])) if found else None,
        target_recall_interval=_interval([(result.episode, float(bool(result.found))) for result in found], seed),
        tokens_mean=float(tokens.mean()),
        tokens_mean_interval=_interval([(result.episode, float(result.tokens)) for result in results], seed),
        tokens_median=float(np.median(tokens)),
        tokens_p90=float(np.percentile(tokens, 90)),
        full_tokens_mean=float(np.mean([result.full_tokens for result in results])),
        aux_tokens_mean=float(np.mean([result.auxiliary_tokens for result in results])),
        cacheable_mean=float(np.mean(cacheable)) if cacheable else None,
        needed_open=float(np.mean(opened)) if opened else None,
        ms_median=float(np.median([result.ms for result in results])),
        targets_mapped=sum(result.mapped for result in results),
        targets_missing=sum(result.missing for result in results),
        fallbacks=sum(result.fallbacks for result in results),
    )


def paired_difference(first: Sequence[StepResult], second: Sequence[StepResult], *, seed: int | None = 0) -> PairedDifference | None:
    """None when the two have no step with a target in common."""
    other = {(result.source, result.episode, result.step): result.found for result in second if result.found is not None}
    pairs = [
        (result.episode, float(bool(result.found)) - float(bool(other[key])))
        for result in first
        if result.found is not None and (key := (result.source, result.episode, result.step)) in other
    ]
    if not pairs:
        return None
    return PairedDifference(float(np.mean([value for _, value in pairs])), _interval(pairs, seed), len(pairs))


def _interval(values: Sequence[tuple[str, float]], seed: int | None) -> tuple[float, float] | None:
    """Percentile interval of the mean, episodes resampled."""
    if seed is None:
        return None
    from scipy.stats import bootstrap

    sums: dict[str, list[float]] = {}
    for episode, value in values:
        entry = sums.setdefault(episode, [0.0, 0.0])
        entry[0] += value
        entry[1] += 1
    if len(sums) < 2:
        return None
    total, count = (np.asarray(column, dtype=float) for column in zip(*sums.values(), strict=True))
    mean: Callable[..., npt.NDArray[np.floating]] = lambda t, c, axis=-1: t.sum(axis=axis) / c.sum(axis=axis)  # noqa: E731
    found = bootstrap(
        (total, count),
        mean,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
