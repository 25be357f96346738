"""Tasks, checkers, actors and numbers of live runs, without a browser; with the sites installed also every reference solution."""

import json
import os
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from pagedigest.evaluation import sites
from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.actors import LLMActor, OracleActor, RandomActor
from pagedigest.evaluation.live import RunConfig, load_config, read_episodes, run
from pagedigest.evaluation.live_episode import Episode
from pagedigest.evaluation.live_report import latex_table, markdown_table, write_report
from pagedigest.evaluation.live_statistics import paired_success, summarise_live
from pagedigest.evaluation.tasks import Check, Element, FinalState, SolutionStep, Task, failed_checks, find_element, load_tasks
from pagedigest.observation import Observation
from region4web.axtree import AXTree
from region4web.language_models import ScriptedModel

TASK_FILES = sorted((Path(__file__).parent.parent / "data" / "tasks").glob("*.jsonl"))
PAGE = """RootWebArea 'Orders'
\t[1] table ''
\t\t[2] row ''
\t\t\t[3] cell '1001'
\t\t\t[4] button 'Edit'
\t\t[5] row ''
\t\t\t[6] cell '1002'
\t\t\t[7] button 'Edit'
\t[8] heading 'Change status'
\t[9] button 'Edit order'
\t[10] StaticText 'Total: 12.50'"""


@pytest.fixture
def tree():
    return AXTree.from_text(PAGE, url="http://127.0.0.1/orders")


TOTAL = (Check(answer_all=("12.50",)),)


def task(*steps, checks=TOTAL):
    return Task("t", "shop", "/", "What is the total?", "information", checks, tuple(steps))


@pytest.mark.parametrize(
    ("element", "found"),
    [
        (Element("button", "Edit"), "4"),
        (Element("button", "edit", nth=1), "7"),
        (Element("button", "Edit", row="1002"), "7"),
        (Element("button", "Edit", after="Change status"), "9"),
        (Element("*", "Total"), "10"),
        (Element("button", "Edit", nth=-1), "7"),
        (Element("button", "Edit", nth=9), None),
        (Element("button", "Delete"), None),
        (Element("button", "Edit", after="no such heading"), None),
    ],
)
def test_a_solution_names_elements_by_what_they_say(tree, element, found):
    index = find_element(tree, element)
    assert (None if index is None else tree.nodes[index].id) == found


@pytest.mark.parametrize(
    ("answer", "passes"),
    [("It is £12.50.", True), ("12.50", True), ("112.50", False), ("12.505", False), ("12", False), (None, False), ("12.50, not 13", True)],
)
def test_an_answer_is_checked_by_whole_words_and_numbers(answer, passes):
    assert (not failed_checks(task(SolutionStep("answer")), FinalState("http://x/", "", answer))) is passes


def test_checks_read_the_database_the_address_and_the_page(tmp_path):
    database = tmp_path / "db.sqlite3"
    with sqlite3.connect(database) as connection:
        connection.execute("create table t (name text, n integer)")
        connection.execute("insert into t values ('kettle', 2)")
    final = FinalState("http://x/dashboard/orders/", "Order  saved", None, False, database)
    good = (Check(sql="select name, n from t", equals=(("kettle", 2),)), Check(url="/orders/$"), Check(page="order saved"))
    assert failed_checks(task(SolutionStep("answer"), checks=good), final) == []
    bad = (
        Check(sql="select n from t", equals=((3,),)),
        Check(url="/basket/"),
        Check(page="deleted"),
        Check(infeasible=True),
        Check(answer_none=("x",)),
    )
    assert len(failed_checks(task(SolutionStep("answer"), checks=bad), final)) == 5


def test_every_task_is_well_formed_and_the_set_is_broad():
    tasks = load_tasks(TASK_FILES)
    assert len(tasks) >= 100
    assert {t.kind for t in tasks} == {"information", "navigation", "change", "unachievable"}
    assert {t.site for t in tasks} >= {"shop", "dashboard", "forum"}
    assert all(t.site in sites.SITES for t in tasks)


def test_no_task_passes_before_anything_is_done():
    for t in load_tasks(TASK_FILES):
        if not any(c.sql for c in t.checks):
            assert failed_checks(t, FinalState("http://127.0.0.1" + t.start, "")), t.id


@pytest.mark.parametrize(
    ("line", "reason"),
    [("{", "JSON"), ('{"id": "a"}', "checks"), ('{"id":"a","site":"s","start":"/","intent":"i","kind":"k","checks":[],"solution":[]}', "needs checks"),
     ('{"id":"a","site":"s","start":"/","intent":"i","kind":"k","checks":[{"sqll":"x"}],"solution":[{"answer":"x"}]}', "sqll"),
     ('{"id":"a","site":"s","start":"/","intent":"i","kind":"k","checks":[{"url":"x"}],"solution":[{"tap":"x"}]}', "click")],
)  # fmt: skip
def test_a_bad_task_file_is_refused_with_its_line(tmp_path, line, reason):
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n" + line + "\n")
    with pytest.raises(ValueError, match=r"tasks\.jsonl:2") as error:
        load_tasks([path])
    assert reason in str(error.value)


def test_the_oracle_acts_only_on_what_is_shown_then_asks_then_gives_up(tree):
    session = OracleActor().start(
        task(SolutionStep("click", Element("button", "Edit", row="1002")), SolutionStep("answer", Element("*", "Total"), "12.50")), 0
    )
    hidden, shown = Observation("", ("4",)), Observation("", ("4", "7", "10"))
    assert session.decide(hidden, tree, error="").call == Call("view_all", ())
    assert session.decide(hidden, tree, error="").call == Call("view_all", ("2",))
    assert session.decide(shown, tree, error="").call == Call("click", ("7",))
    assert session.decide(shown, tree, error="").call == Call("send_msg_to_user", ("12.50",))
    stubborn = OracleActor().start(task(SolutionStep("click", Element("button", "Edit"))), 0)
    decisions = [stubborn.decide(Observation("", ()), tree, error="") for _ in range(13)]
    assert decisions[-1].call is None
    assert decisions[-1].stage == "selection"


def test_the_oracle_does_not_answer_from_what_it_has_not_read(tree):
    session = OracleActor().start(task(SolutionStep("answer", Element("*", "Total"), "12.50")), 0)
    assert session.decide(Observation("", ("4",)), tree, error="").call == Call("view_all", ())


def test_a_missing_element_or_a_failed_action_is_the_environments_fault(tree):
    session = OracleActor().start(task(SolutionStep("click", Element("button", "Delete"))), 0)
    assert session.decide(Observation("", ("4",)), tree, error="").stage == "environment"
    session = OracleActor().start(task(SolutionStep("click", Element("button", "Edit"))), 0)
    assert session.decide(Observation("", ("4",)), tree, error="timeout").stage == "environment"


def test_a_model_acts_by_its_last_call_and_hears_of_errors(tree):
    model = ScriptedModel(["Let me see.\nclick('4')", "I do not know", "send_msg_to_user('12.50')"])
    session = LLMActor(model, "scripted").start(task(SolutionStep("answer")), 0)
    observation = Observation("PAGE text", ("4",))
    assert session.decide(observation, tree, error="").call == Call("click", ("4",))
    assert session.decide(observation, tree, error="timeout").call == Call("noop", ())
    assert session.decide(observation, tree, error="").call == Call("send_msg_to_user", ("12.50",))
    assert "click('4')  -> timeout" in model.prompts[1][-1]["content"]
    assert "PAGE text" in model.prompts[0][-1]["content"]


def test_chance_is_seeded(tree):
    observation = Observation("", ("4", "7", "9"))

    def draws(seed):
        session = RandomActor().start(task(SolutionStep("answer")), seed)
        return [str(session.decide(observation, tree, error="").call) for _ in range(8)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def episode(module="a", task_id="t1", success=True, **changed):
    base = Episode(
        module,
        "oracle",
        task_id,
        0,
        "shop",
        success,
        2,
        "" if success else "selection",
        "",
        (100, 300),
        4000,
        (0, 0),
        {"selection": (50, 10)},
        0,
        1,
        20.0,
        3.0,
    )
    return replace(base, **changed)


def test_summaries_count_successes_tokens_and_failures():
    episodes = [
        episode(),
        episode(task_id="t2", success=False, view_all=2),
        episode(task_id="t3", stage="infrastructure", success=False, observation_tokens=()),
    ]
    (summary,) = summarise_live(episodes)
    assert (summary.episodes, summary.not_run, summary.success) == (2, 1, 0.5)
    assert summary.success_interval[0] < 0.5 < summary.success_interval[1]
    assert (summary.tokens_step_mean, summary.tokens_step_median) == (200, 200)
    assert summary.tokens_task_mean == 460
    assert summary.share_of_full == 800 / 8000
    assert summary.view_all_rate == 0.5
    assert summary.failures == {"selection": 1, "infrastructure": 1}


def test_differences_pair_the_same_tasks():
    episodes = [episode("a", f"t{i}", i % 2 == 0) for i in range(10)] + [episode("b", f"t{i}", True) for i in range(8)]
    difference = paired_success(episodes, "b", "a", "oracle")
    assert (difference.tasks, difference.difference) == (8, 0.5)
    assert difference.interval[0] <= 0.5 <= difference.interval[1]
    assert paired_success(episodes, "a", "c", "oracle") is None


def test_the_report_shows_tables_and_escapes_what_pages_say(tmp_path):
    import gzip

    rows = [json.dumps({**vars(episode("a", "t1")), "auxiliary_tokens": {}})]
    (tmp_path / "episodes-0.jsonl").write_text("\n".join(rows) + '\n{"module": "cut off')
    (tmp_path / "traces").mkdir()
    trace = {"job": {"task": "t1", "module": "a", "actor": "oracle", "seed": 0}, "intent": "<b>x</b>", "note": "", "episode": vars(episode()),
             "steps": [{"url": "u", "tokens": 1, "full_tokens": 2, "observation": "</pre><script>alert(1)</script>", "reply": "", "action": "noop()", "stage": ""}]}  # fmt: skip
    (tmp_path / "traces" / "x.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    html = write_report(tmp_path).read_text()
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "| a | oracle | 1 | 1.000 |" in (tmp_path / "report.md").read_text()
    assert len(read_episodes(tmp_path)) == 1
    with pytest.raises(ValueError, match="no episodes"):
        write_report(tmp_path / "traces")


def test_tables_escape_their_own_signs():
    assert markdown_table(("a",), [("x|y",)]).endswith("| x\\|y |")
    assert r"50\% \& more\_" in latex_table(("a",), [("50% & more_",)])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("modules = [", "TOML"),
        ('modules = ["a"]\nbudget = 3', "budget"),
        ('out = "o"', "missing"),
        ('out="o"\ntasks="t"\nmodules=["a"]\nactors=["oracle"]', "list"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(tmp_path, text, reason):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason):
        load_config(path)


def test_sites_are_known_by_name():
    with pytest.raises(ValueError, match="sites are shop"):
        sites.start("shops")
    assert sites.SITES["dashboard"].shared_with == "shop"


INSTALLED = (sites.sites_root() / "shop" / "installed.json").is_file() and (sites.sites_root() / "forum" / "installed.json").is_file()


@pytest.mark.optional
@pytest.mark.browser
@pytest.mark.skipif(not INSTALLED, reason="the test sites are not installed: python scripts/sites.py install shop forum")
@pytest.mark.skipif(not os.environ.get("REGION4WEB_LIVE_TESTS"), reason="takes 15 minutes: set REGION4WEB_LIVE_TESTS=1")
def test_every_reference_solution_passes_its_checker_and_a_killed_run_goes_on(tmp_path):
    config = RunConfig(tmp_path, tuple(TASK_FILES), ("full_tree",), ("oracle",))
    episodes = run(config)
    assert [e.task for e in episodes if not e.success] == []
    path = tmp_path / "episodes-0.jsonl"
    lines = path.read_text().splitlines(True)
    path.write_text("".join(lines[:-2]) + lines[-2][:40])
    again = run(config)
    assert [(e.task, e.success, e.observation_tokens) for e in again] == [(e.task, e.success, e.observation_tokens) for e in episodes]


MINIWOB_INSTALLED = (sites.sites_root() / "miniwob" / "installed.json").is_file()


@pytest.mark.optional
@pytest.mark.browser
@pytest.mark.skipif(not MINIWOB_INSTALLED, reason="the MiniWoB pages are not installed: python scripts/sites.py install miniwob")
def test_a_scripted_actor_rolls_out_on_miniwob_through_lcow():
    from pagedigest.modules.lcow import LCoW
    from training.lcow import roll_out
    from training.miniwob_environment import MiniWoBEnvironment

    def contextualise(messages):
        line = next(line for line in messages[-1]["content"].splitlines() if "button '" in line)
        return f"## Reasoning\nr\n## Focused Observation\n{line.strip()}\n[END]"

    def act(messages):
        key = re.search(r"\[(\w+)\] button", messages[-1]["content"])[1]
        return f"click('{key}')"

    with MiniWoBEnvironment() as environment:
        steps, reward = roll_out(environment, "click-test", LCoW(ScriptedModel(contextualise)), ScriptedModel(act))
        assert (len(steps), reward) == (1, 1.0)
        with pytest.raises(ValueError, match="no task"):
            environment.reset("no-such-task")
