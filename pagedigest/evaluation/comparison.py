"""A whole comparison in a folder: methods x budgets on recorded steps, in several processes, resumable.

Enters: a `Comparison`, step files, a folder. Leaves: one `ReplayRun` a budget, and in the folder `results.jsonl`, one line an
episode, method and budget, written as soon as it is known. A second call takes up what is there; methods and budgets may be
added; results of other weights, parts or step files are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pagedigest.evaluation.replay import episode_results, episodes
from pagedigest.evaluation.report import ReplayRun
from pagedigest.evaluation.sharing import Spared, shared
from pagedigest.evaluation.statistics import StepResult
from pagedigest.evaluation.steps import RecordedStep, read_steps
from pagedigest.evaluation.systems import Parts, default_parts, system_by_name
from pagedigest.evaluation.vectors import RecordedVectors
from pagedigest.observation import ObservationModule
from pagedigest.selection import HybridSelector
from region4web.language_models import Completion, LanguageModel, Prompt, RecordedModel, language_model_by_name

__all__ = ["Comparison", "compare"]

System = tuple[str, int | None]
"""A method's name and its budget, None for natural length."""
Key = tuple[str, str, int | None]
"""Episode, method, budget."""
BUNDLE_STEPS = 40
"""Steps that go to a process at a time, at least; steps of one page go together."""
WAITING = 3
"""Bundles read ahead for each process."""


@dataclass(frozen=True)
class Comparison:
    """What is compared and with which parts. `model` and `record` as on the command line, '' for none; `answer_tokens` bounds
    every answer of the model, 0: each method's own limit."""

    names: tuple[str, ...]
    budgets: tuple[int | None, ...]
    segmenter: str = "best"
    abstractor: str = "embedded"
    model: str = ""
    record: str = ""
    answer_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.names or not self.budgets:
            raise ValueError("a comparison needs at least one method and one budget")

    @property
    def systems(self) -> tuple[System, ...]:
        return tuple((name, budget) for budget in self.budgets for name in self.names)

    def language_model(self) -> LanguageModel | None:
        """The model of that name, with its answers kept in `record`."""
        if not self.model:
            return None
        model = language_model_by_name(self.model)
        if self.answer_tokens:
            model = _ShortAnswers(model, self.answer_tokens)
        return RecordedModel(self.record, model) if self.record else model


@dataclass(frozen=True)
class _ShortAnswers:
    model: LanguageModel
    answer_tokens: int

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]:
        return self.model.complete(prompts, max_tokens=min(max_tokens, self.answer_tokens), schema=schema)


def compare(
    comparison: Comparison,
    paths: Sequence[str | os.PathLike[str]],
    folder: Path | None,
    *,
    workers: int = 1,
    on_steps: Callable[[int], None] = lambda count: None,
) -> list[ReplayRun]:
    """Runs in the order of the budgets. `folder` None keeps nothing. Raises ValueError for names and files that are wrong."""
    if workers > 1 and comparison.record:
        raise ValueError("recorded answers of a language model are written by one process: leave out --workers or --record")
    builder = _Builder(comparison, None if folder is None else folder / "vectors.sqlite")
    builder.build()  # a name or a missing model is told before anything is written
    store = _Results(None if folder is None else folder / "results.jsonl", _settings(comparison, paths))
    order: dict[str, None] = {}

    def bundles() -> Iterator[tuple[list[list[RecordedStep]], list[System]]]:
        for bundle in _bundles(read_steps(paths)):
            keys = [_episode_key(episode) for episode in bundle]
            order.update(dict.fromkeys(keys))
            missing = [system for system in comparison.systems if not all((key, *system) in store for key in keys)]
            if missing:
                yield bundle, missing
            else:
                on_steps(sum(map(len, bundle)))

    for bundle_size, found in _computed(builder, bundles(), workers):
        for key, results in found.items():
            store.add(key, results)
        on_steps(bundle_size)
    return [ReplayRun(b, {n: [r for e in order for r in store.results[(e, n, b)]] for n in comparison.names}) for b in comparison.budgets]


def _bundles(steps: Iterable[RecordedStep]) -> Iterator[list[list[RecordedStep]]]:
    """Neighbouring episodes; those on one captured page together."""
    bundle: list[list[RecordedStep]] = []
    for _, run in groupby(episodes(steps), key=lambda episode: episode[0].capture or _episode_key(episode)):
        bundle += run
        if sum(map(len, bundle)) >= BUNDLE_STEPS:
            yield bundle
            bundle = []
    if bundle:
        yield bundle


def _episode_key(episode: Sequence[RecordedStep]) -> str:
    return f"{episode[0].source}/{episode[0].episode}"


Found = tuple[int, Mapping[Key, list[StepResult]]]


def _computed(builder: _Builder, bundles: Iterator[tuple[list[list[RecordedStep]], list[System]]], workers: int) -> Iterator[Found]:
    """Results of each bundle, in whatever order they come."""
    if workers == 1:
        for bundle, systems in bundles:
            yield builder.results(bundle, systems)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(builder,)) as pool:
        waiting: set[Future[Found]] = set()
        for bundle, systems in bundles:
            waiting.add(pool.submit(_in_worker, bundle, systems))
            if len(waiting) >= workers * WAITING:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        for future in waiting:
            yield future.result()


class _Builder:
    """Builds the methods in whatever process they run; only its settings are sent there."""

    def __init__(self, comparison: Comparison, vectors: Path | None) -> None:
        self._comparison, self._vectors = comparison, vectors
        self._modules: dict[System, ObservationModule] = {}
        self._spared = Spared()

    def __getstate__(self) -> tuple[Comparison, Path | None]:
        return self._comparison, self._vectors

    def __setstate__(self, state: tuple[Comparison, Path | None]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def build(self) -> None:
        parts = shared(self._parts(), self._spared)
        self._modules = {(name, budget): system_by_name(name, parts, budget_tokens=budget) for name, budget in self._comparison.systems}

    def _parts(self) -> Parts:
        parts = default_parts(self._comparison.segmenter, self._comparison.abstractor, self._comparison.language_model())
        if self._vectors is None:
            return parts
        self._vectors.parent.mkdir(parents=True, exist_ok=True)
        embed = RecordedVectors(self._vectors, parts.embed, self._spared)
        return replace(parts, embed=embed, embedding_selector=HybridSelector(embed=embed))

    def results(self, bundle: Sequence[Sequence[RecordedStep]], systems: Sequence[System]) -> Found:
        """How many steps, and the results by episode and method."""
        if not self._modules:
            self.build()
        found: dict[Key, list[StepResult]] = {}
        for episode in bundle:
            for name, budget in systems:
                found[_episode_key(episode), name, budget] = episode_results(self._modules[name, budget], episode, self._spared)
        return sum(map(len, bundle)), found


_worker: _Builder | None = None
"""This process's methods, where it is one of several."""


def _start_worker(builder: _Builder) -> None:
    global _worker
    _worker = builder


def _in_worker(bundle: list[list[RecordedStep]], systems: list[System]) -> Found:
    assert _worker is not None
    return _worker.results(bundle, systems)


class _Results:
    """Results by key, and in a file. A last line cut off by an interruption is computed again."""

    def __init__(self, path: Path | None, settings: Mapping[str, object]) -> None:
        self.results: dict[Key, list[StepResult]] = {}
        self._path = path
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(json.dumps(settings) + "\n", encoding="utf-8")
        whole = 0
        with path.open("rb") as stream:
            for number, line in enumerate(stream):
                if not line.endswith(b"\n"):
                    break
                if number == 0:
                    _check(path, line, settings)
                else:
                    self._remember(path, number + 1, line)
                whole += len(line)
        os.truncate(path, whole)

    def __contains__(self, key: Key) -> bool:
        return key in self.results

    def _remember(self, path: Path, number: int, line: bytes) -> None:
        try:
            episode, name, budget, rows = json.loads(line)
            self.results[(episode, name, budget)] = [StepResult(*row) for row in rows]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: no line of results ({error}); remove the file") from error

    def add(self, key: Key, results: list[StepResult]) -> None:
        self.results[key] = results
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps([*key, [astuple(result) for result in results]]) + "\n")


def _check(path: Path, line: bytes, settings: Mapping[str, object]) -> None:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}: no file of results ({error}); remove it or name another folder") from error
    other = sorted(key for key in {*settings, *found} if settings.get(key) != found.get(key)) if isinstance(found, dict) else ["all"]
    if other:
        raise ValueError(f"{path} holds results of other {', '.join(other)}; name another folder or remove it")


def _settings(comparison: Comparison, paths: Sequence[str | os.PathLike[str]]) -> dict[str, object]:
    """What results of one folder must have in common."""
    return {
        "segmenter": comparison.segmenter,
        "abstractor": comparison.abstractor,
        "model": comparison.model,
        "answer_tokens": comparison.answer_tokens,
        "weights": _weights_checksum(),
        "steps": {Path(path).name: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths},
    }


def _weights_checksum() -> str:
    digest = hashlib.sha256()
    for package in ("region4web", "pagedigest"):
        root = Path(str(files(package))) / "weights"
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
