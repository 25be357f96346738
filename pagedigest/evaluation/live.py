"""Live runs: modules x actors x tasks x seeds in real browsers on real sites.

Enters: a configuration (TOML). Leaves in its folder: one line an episode in `episodes-<worker>.jsonl`, every step of each
episode in `traces/`. An interrupted run goes on where it stopped; workers share nothing, each has its own browser, servers
and databases. Only faults of the infrastructure are tried again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagedigest.evaluation import sites
from pagedigest.evaluation.actors import Actor, LLMActor, OracleActor, RandomActor
from pagedigest.evaluation.environment import BrowserEnvironment, Environment
from pagedigest.evaluation.live_episode import Episode, Job, run_episode
from pagedigest.evaluation.recorded import Recorded, Recorder, Recording
from pagedigest.evaluation.tasks import Task, load_tasks
from pagedigest.evaluation.webarena import BENCHMARKS, is_webarena, open_webarena, webarena_tasks
from pagedigest.observation import ObservationModule
from region4web.errors import CaptureError, LanguageModelError, MissingExtraError, SnapshotError
from region4web.language_models import language_model_by_name

__all__ = ["RunConfig", "load_config", "read_episodes", "read_traces", "run", "trace_path"]

INFRASTRUCTURE_RETRIES = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunConfig:
    """What to run. `tasks` are task files, or benchmarks as `webarena:0-99`. `modules` are names of `systems`, `NAME@TOKENS` for one held to a budget, `NAME` at its natural length.

    `actors` are `oracle`, `random`, or a language model by name (`openai:MODEL@BASE_URL`); `module_model` serves modules that
    ask one. `recordings` is a folder: the oracle, whose way does not depend on what it reads, goes it once in the browser, and every
    other method is shown the pages recorded then. Prices are per million tokens; `cost_limit` in the same currency stops the run, what is done stays.
    """

    out: Path
    tasks: tuple[Path | str, ...]
    modules: tuple[str, ...]
    actors: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    sites: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    workers: int = 1
    backend: str = "joblib"
    max_steps: int = 30
    module_model: str = ""
    prompt_price: float = 0.0
    completion_price: float = 0.0
    cost_limit: float | None = None
    segmenter: str = "best"
    abstractor: str = "embedded"
    recordings: Path | None = None

    def __post_init__(self) -> None:
        for name in ("tasks", "modules", "actors", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        if self.workers < 1 or self.max_steps < 1:
            raise ValueError("workers and max_steps must be at least 1")
        if self.backend not in ("joblib", "ray", "sequential"):
            raise ValueError(f"backend is joblib, ray or sequential, not {self.backend!r}")


def load_config(path: Path) -> RunConfig:
    """Read a TOML file; relative paths start at its folder. Raises ValueError that names the key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from error
    unknown = set(data) - set(RunConfig.__dataclass_fields__)
    if unknown:
        raise ValueError(f"{path}: unknown key {', '.join(sorted(unknown))}; keys are {', '.join(RunConfig.__dataclass_fields__)}")
    missing = {"out", "tasks", "modules", "actors"} - set(data)
    if missing:
        raise ValueError(f"{path}: the key {', '.join(sorted(missing))} is missing")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    for name in ("tasks", "modules", "actors", "seeds", "sites", "task_ids"):
        if name in values and not isinstance(values[name], tuple):
            raise ValueError(f"{path}: {name} must be a list")
    values["out"] = path.parent / str(values["out"])
    if "recordings" in values:
        values["recordings"] = path.parent / str(values["recordings"])
    values["tasks"] = tuple(str(t) if is_webarena(str(t)) else path.parent / str(t) for t in values["tasks"])
    return RunConfig(**values)


def run(config: RunConfig) -> list[Episode]:
    """Run what is not done yet and give every episode of the run, in the order of the jobs."""
    tasks = _tasks(config)
    jobs = [Job(m, a, t.id, s) for m in config.modules for a in config.actors for s in config.seeds for t in tasks]
    config.out.mkdir(parents=True, exist_ok=True)
    _write_run_file(config, tasks)
    done = {e.key for e in read_episodes(config.out) if e.stage != "infrastructure"}
    todo = [job for job in jobs if job.key not in done]
    workers = min(config.workers, max(1, len(todo)))
    if todo:
        shares = [todo[k::workers] for k in range(workers)]
        if workers == 1 or config.backend == "sequential":
            for k, share in enumerate(shares):
                _run_share(config, k, share)
        elif config.backend == "ray":
            _run_on_ray(config, shares)
        else:
            import joblib

            joblib.Parallel(n_jobs=workers)(joblib.delayed(_run_share)(config, k, share) for k, share in enumerate(shares))
    order = {job.key: i for i, job in enumerate(jobs)}
    episodes = {e.key: e for e in read_episodes(config.out)}
    return [episodes[key] for key in sorted((k for k in episodes if k in order), key=order.__getitem__)]


def read_episodes(folder: Path) -> list[Episode]:
    """Episodes of a run's folder; a line cut off by an interruption is left out, of several of one job the last counts."""
    episodes: dict[str, Episode] = {}
    for path in sorted(folder.glob("episodes-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                data = json.loads(line)
            except ValueError:
                continue
            data["observation_tokens"] = tuple(data["observation_tokens"])
            data["actor_tokens"] = tuple(data["actor_tokens"])
            data["auxiliary_tokens"] = {k: tuple(v) for k, v in data["auxiliary_tokens"].items()}
            episode = Episode(**data)
            if episode.key not in episodes or episode.stage != "infrastructure":
                episodes[episode.key] = episode
    return list(episodes.values())


def _tasks(config: RunConfig) -> list[Task]:
    tasks = load_tasks([source for source in config.tasks if not isinstance(source, str)])
    tasks += [task for source in config.tasks if isinstance(source, str) for task in webarena_tasks(source)]
    unknown = set(config.task_ids) - {t.id for t in tasks}
    if unknown:
        raise ValueError(f"no task is called {', '.join(sorted(unknown))}")
    chosen = [t for t in tasks if (not config.sites or t.site in config.sites) and (not config.task_ids or t.id in config.task_ids)]
    if not chosen:
        raise ValueError("the configuration chooses no task")
    if len({t.site in BENCHMARKS for t in chosen}) > 1:
        raise ValueError("WebArena's tasks and those of local sites need runs of their own: each drives a browser in its own way")
    if "oracle" in config.actors and (unsolved := [t.id for t in chosen if not t.solution]):
        raise ValueError(f"the oracle follows reference solutions and {unsolved[0]} has none; name a language model in actors")
    return chosen


def _run_on_ray(config: RunConfig, shares: Sequence[Sequence[Job]]) -> None:
    """A Ray task a share, on the cluster that RAY_ADDRESS names, else on this machine. A cluster's machines must share the run's folder."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("the backend ray needs Ray; run: pip install 'region4web[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(**({} if os.environ.get("RAY_ADDRESS") else {"num_cpus": len(shares), "include_dashboard": False}))
    try:
        task = ray.remote(num_cpus=1)(_run_share)
        ray.get([task.remote(config, k, share) for k, share in enumerate(shares)])
    finally:
        if started:
            ray.shutdown()


class _LazyBrowser:
    """A browser that starts when a page is first asked for, and anew when it has died: recordings and BrowserGym need none of ours."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._playwright: Any = None
        self._browser: Any = None

    def get(self) -> Any:
        from playwright.sync_api import sync_playwright

        from region4web.browser import launch

        if self._playwright is None:
            self._playwright = self._stack.enter_context(sync_playwright())
        if self._browser is None or not self._browser.is_connected():
            self._browser = launch(self._playwright)
            self._stack.callback(self._browser.close)
        return self._browser


def _run_share(config: RunConfig, worker: int, jobs: Sequence[Job]) -> None:
    from playwright.sync_api import Error
    from tqdm import tqdm

    tasks = {t.id: t for t in _tasks(config)}
    modules = {name: _module(config, name) for name in config.modules}
    actors = {name: _actor(name) for name in config.actors}
    spent = sum(e.cost for e in read_episodes(config.out))
    written = config.out / f"episodes-{worker}.jsonl"
    cut_off = written.is_file() and not written.read_bytes().endswith(b"\n")  # by an interruption; the next line must not join it
    with ExitStack() as stack, written.open("a", encoding="utf-8") as out:
        out.write("\n" * cut_off)
        browser = _LazyBrowser(stack)
        for job in tqdm(jobs, desc=f"episodes (worker {worker})", disable=None):
            if config.cost_limit is not None and spent >= config.cost_limit:
                _log.warning("the cost limit of %s is reached; %d episodes of worker %d are left", config.cost_limit, len(jobs), worker)
                break
            task = tasks[job.task]
            trace: list[dict[str, Any]] = []
            for attempt in range(INFRASTRUCTURE_RETRIES + 1):
                trace.clear()
                try:
                    environment = _environment(config, browser, task, job, worker)
                    episode = run_episode(
                        environment, modules[job.module], actors[job.actor], seed=job.seed, max_steps=config.max_steps, trace=trace
                    )
                    if isinstance(environment, Recorder) and episode.success:
                        environment.recording().write(_recording_path(config, task))
                    break
                except (CaptureError, SnapshotError, Error, sites.SiteError, LanguageModelError) as error:
                    reason = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                    _log.warning("%s: %s (attempt %d)", job.key, reason, attempt + 1)
                    episode = _not_run(job, task, reason)
            named = {**asdict(episode), "module": job.module, "actor": job.actor}
            named["cost"] = round(_cost(config, episode), 6)
            spent += named["cost"]
            _write_trace(config.out / "traces", job, task, named, trace)
            out.write(json.dumps(named, ensure_ascii=False) + "\n")
            out.flush()
        for name in {tasks[job.task].site for job in jobs} & sites.SITES.keys():
            if worker:  # the first worker's servers are those of `scripts/sites.py start`
                sites.stop(name, worker)


def _environment(config: RunConfig, browser: _LazyBrowser, task: Task, job: Job, worker: int) -> Environment:
    """A page in the browser, or where the oracle has been before and the run keeps recordings, what it saw then."""
    recorded = config.recordings is not None and job.actor == "oracle"
    if recorded and (path := _recording_path(config, task)).is_file():
        recording = Recording.read(path)
        if recording.task == task:
            return Recorded(recording)
    if task.site in BENCHMARKS:
        return open_webarena(task)
    site = sites.start(task.site, worker)
    sites.reset(task.site, worker)
    environment = BrowserEnvironment(browser.get(), task, site)
    return Recorder(environment) if recorded else environment


def _recording_path(config: RunConfig, task: Task) -> Path:
    assert config.recordings is not None
    return config.recordings / f"{task.id}.pickle.gz"


def _not_run(job: Job, task: Task, reason: str) -> Episode:
    return Episode(
        job.module, job.actor, job.task, job.seed, task.site, False, 0, "infrastructure", reason, (), 0, (0, 0), {}, 0, 0, 0.0, 0.0
    )


def _cost(config: RunConfig, episode: Episode) -> float:
    prompt = episode.actor_tokens[0] + sum(v[0] for v in episode.auxiliary_tokens.values())
    completion = episode.actor_tokens[1] + sum(v[1] for v in episode.auxiliary_tokens.values())
    return (prompt * config.prompt_price + completion * config.completion_price) / 1e6


def _module(config: RunConfig, name: str) -> ObservationModule:
    from pagedigest.evaluation.systems import default_parts, system_by_name

    model = language_model_by_name(config.module_model) if config.module_model else None
    method, _, budget = name.partition("@")
    if budget and not (budget.isdecimal() and int(budget)):
        raise ValueError(f"{name!r}: write NAME or NAME@TOKENS")
    return system_by_name(method, default_parts(config.segmenter, config.abstractor, model), budget_tokens=int(budget) if budget else None)


def _actor(name: str) -> Actor:
    if name == "oracle":
        return OracleActor()
    if name == "random":
        return RandomActor()
    return LLMActor(language_model_by_name(name), name)


def _write_run_file(config: RunConfig, tasks: Sequence[Task]) -> None:
    from pagedigest.evaluation.provenance import git_commit

    digest = hashlib.sha256(b"".join(repr(task).encode() for task in tasks)).hexdigest()[:16]
    data = {k: (str(v) if isinstance(v, Path) else [str(x) for x in v] if k == "tasks" else v) for k, v in asdict(config).items()}
    (config.out / "run.json").write_text(
        json.dumps({"config": data, "commit": git_commit(), "tasks": len(tasks), "task_checksum": digest}, indent=1, default=str) + "\n"
    )


def trace_path(folder: Path, job: Job) -> Path:
    """Where the steps of a job are kept."""
    return folder / (hashlib.sha256(job.key.encode()).hexdigest()[:16] + ".json.gz")


def _write_trace(folder: Path, job: Job, task: Task, episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    data = {"job": asdict(job), "intent": task.intent, "note": task.note, "episode": dict(episode), "steps": list(steps)}
    trace_path(folder, job).write_bytes(gzip.compress(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), mtime=0))


def read_traces(folder: Path) -> Iterator[dict[str, Any]]:
    """Every episode of a run with its steps."""
    for path in sorted((folder / "traces").glob("*.json.gz")):
        yield json.loads(gzip.decompress(path.read_bytes()))
