"""WebArena and WebArena-Verified in the live runner: their task files, their environment with a recorded page in its place."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.actors import LLMActor
from pagedigest.evaluation.live import RunConfig, load_config, run
from pagedigest.evaluation.live_episode import run_episode
from pagedigest.evaluation.sites import SiteError
from pagedigest.evaluation.webarena import ADDRESSES, BENCHMARKS, WebArenaEnvironment, is_webarena, open_webarena, webarena_tasks
from pagedigest.modules.full_tree import FullTree
from region4web.language_models import ScriptedModel

ROWS = {
    "webarena": [
        {"sites": ["shopping"], "task_id": 7, "start_url": "__SHOPPING__", "intent": "Buy a kettle", "intent_template_id": 3,
         "eval": {"eval_types": ["program_html"], "reference_answers": None}},
        {"sites": ["gitlab", "reddit"], "task_id": 8, "start_url": "__GITLAB__", "intent": "Who is it?", "intent_template_id": 4,
         "eval": {"eval_types": ["string_match"], "reference_answers": {"fuzzy_match": "N/A"}}},
    ],
    "webarena_verified": [
        {"sites": ["shopping"], "task_id": 7, "start_urls": ["__SHOPPING__"], "intent": "Buy a kettle", "intent_template_id": 3, "revision": 2,
         "eval": [{"evaluator": "AgentResponseEvaluator", "expected": {"task_type": "mutate", "status": "SUCCESS"}}]},
        {"sites": ["map"], "task_id": 9, "start_urls": ["__MAP__"], "intent": "How far?", "intent_template_id": 5, "revision": 1,
         "eval": [{"evaluator": "AgentResponseEvaluator", "expected": {"task_type": "retrieve", "status": "SUCCESS"}}]},
    ],
}  # fmt: skip
GOAL = 'Buy a kettle\n---\nAnswer with JSON: {"task_type": ..., "status": ...}'


def node(key: str, role: str, name: str = "", bid: str = "", children: tuple[str, ...] = ()) -> dict[str, object]:
    shown = {
        "nodeId": key,
        "ignored": False,
        "role": {"value": role},
        "name": {"value": name},
        "childIds": list(children),
        "properties": [],
    }
    return shown | ({"browsergym_id": bid} if bid else {})


class RecordedGym:
    """Stands for BrowserGym's environment: one recorded page, a reward once the kettle is in the basket and the agent has said so."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.closed = False

    def observation(self) -> dict[str, object]:
        nodes = [node("1", "RootWebArea", "Shop", children=("2",)), node("2", "main", "", "12", ("3", "4")), node("3", "StaticText", "Kettle"),
                 node("4", "button", "Add to cart", "14")]  # fmt: skip
        return {"axtree_object": {"nodes": nodes}, "extra_element_properties": {}, "goal": GOAL, "goal_object": ({"type": "text", "text": GOAL},),
                "url": "http://shop.example/", "open_pages_titles": ("Shop",), "active_page_index": [0],
                "last_action": self.done[-1] if self.done else "", "last_action_error": "ValueError: no\nsuch element" if "click('99')" in self.done[-1:] else ""}  # fmt: skip

    def reset(self, seed: int) -> tuple[dict[str, object], dict[str, object]]:
        return self.observation(), {}

    def step(self, action: str) -> tuple[dict[str, object], float, bool, bool, dict[str, object]]:
        self.done.append(action)
        said = action.startswith("send_msg_to_user")
        return self.observation(), float(said and "click('14')" in self.done), said, False, {}

    def close(self) -> None:
        self.closed = True


@pytest.fixture(params=sorted(BENCHMARKS))
def task_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(ROWS[request.param]))
    return request.param, path


def test_tasks_name_the_environment_that_browsergym_registers(task_file: tuple[str, Path]) -> None:
    name, path = task_file
    tasks = webarena_tasks(name, path)
    expected = {
        "webarena": [("browsergym/webarena.7", "change"), ("browsergym/webarena.8", "unachievable")],
        "webarena_verified": [("browsergym/webarena_verified.3.7.2", "change"), ("browsergym/webarena_verified.5.9.1", "information")],
    }[name]
    assert [(t.start, t.kind) for t in tasks] == expected
    assert [t.id for t in webarena_tasks(f"{name}:7", path)] == [f"{name}-7"]
    with pytest.raises(ValueError, match="has no task 5"):
        webarena_tasks(f"{name}:5-7,6", path)


@pytest.mark.parametrize(
    ("source", "named"), [("webarena", True), ("webarena_verified:0-9,12", True), ("webarena.jsonl", False), ("webarena:x", False)]
)
def test_an_entry_of_tasks_is_a_benchmark_or_a_file(source: str, named: bool) -> None:
    assert is_webarena(source) is named


@pytest.mark.optional
@pytest.mark.parametrize(
    ("name", "first"), [("webarena", "browsergym/webarena.0"), ("webarena_verified", "browsergym/webarena_verified.279.0.2")]
)
def test_the_packages_hold_812_tasks(name: str, first: str) -> None:
    distribution, package, _ = BENCHMARKS[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{distribution} is not installed: pip install --no-deps {distribution}")
    tasks = webarena_tasks(name)
    assert (len(tasks), tasks[0].start) == (812, first)
    assert {t.kind for t in tasks} == {"information", "navigation", "change", "unachievable"}


def test_the_runner_drives_the_environment_and_its_evaluator_judges(task_file: tuple[str, Path]) -> None:
    name, path = task_file
    task = webarena_tasks(f"{name}:7", path)[0]
    gym = RecordedGym()
    model = ScriptedModel(["click('14')", "send_msg_to_user('done')"])
    steps: list[dict[str, object]] = []
    episode = run_episode(WebArenaEnvironment(task, gym), FullTree(), LLMActor(model, "scripted"), seed=0, max_steps=5, trace=steps)
    assert (episode.success, episode.steps, episode.site) == (True, 2, name)
    assert gym.done == ["click('14')", "send_msg_to_user('done')"]
    assert gym.closed
    assert "[14] button 'Add to cart'" in str(steps[0]["observation"])


def test_the_answer_format_reaches_the_actor_and_no_method(task_file: tuple[str, Path]) -> None:
    name, path = task_file
    environment = WebArenaEnvironment(webarena_tasks(f"{name}:7", path)[0], RecordedGym())
    assert environment.task.intent == "Buy a kettle"
    model = ScriptedModel(["report_infeasible('no kettle')"])
    episode = run_episode(environment, FullTree(), LLMActor(model, "scripted"), seed=0, max_steps=5, trace=[])
    assert '{"task_type"' in model.prompts[0][-1]["content"]
    assert (episode.success, episode.stage, episode.reason) == (False, "actor", "the benchmark's evaluator gave no reward")


def test_an_error_of_an_action_is_told_in_one_line(task_file: tuple[str, Path]) -> None:
    name, path = task_file
    environment = WebArenaEnvironment(webarena_tasks(f"{name}:7", path)[0], RecordedGym())
    assert environment.act(Call("click", ("99",))) == "ValueError: no such element"


def test_missing_addresses_are_named(monkeypatch: pytest.MonkeyPatch, task_file: tuple[str, Path]) -> None:
    for variable in ADDRESSES:
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.delenv("WA_GITLAB")
    with pytest.raises(SiteError, match="set WA_GITLAB to the addresses"):
        open_webarena(webarena_tasks(f"{task_file[0]}:7", task_file[1])[0])


def test_a_configuration_may_name_a_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, task_file: tuple[str, Path]) -> None:
    from pagedigest.evaluation import webarena

    name, path = task_file
    monkeypatch.setattr(webarena, "_task_file", lambda asked: path)
    for variable in ADDRESSES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "run.toml").write_text(
        f'out = "out"\ntasks = ["{name}:7"]\nmodules = ["full_tree"]\nactors = ["random"]\nabstractor = "role-name"\n'
    )
    config = load_config(tmp_path / "run.toml")
    assert config.tasks == (f"{name}:7",)
    (episode,) = run(config)
    assert (episode.stage, episode.site) == ("infrastructure", name)
    assert "WA_SHOPPING" in episode.reason
    with pytest.raises(ValueError, match="the oracle follows reference solutions"):
        run(replace(config, actors=("oracle",)))
    local = RunConfig(
        tmp_path / "o", (Path(__file__).parent.parent / "data" / "tasks" / "forum.jsonl", f"{name}:7"), ("full_tree",), ("random",)
    )
    with pytest.raises(ValueError, match="runs of their own"):
        run(local)
