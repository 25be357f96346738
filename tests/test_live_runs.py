"""Tasks, checkers, actors and numbers of live runs, without a browser; with the sites installed also every reference solution."""

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from pagedigest.evaluation import site_recipes, sites
from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.actors import LLMActor, OracleActor, RandomActor
from pagedigest.evaluation.attribution import SolutionProgress, hiding_stage
from pagedigest.evaluation.live import RunConfig, load_config, read_episodes, run
from pagedigest.evaluation.live_episode import Episode, run_episode
from pagedigest.evaluation.live_plots import read_history
from pagedigest.evaluation.live_report import STAGE_COLUMNS, latex_table, markdown_table, stage_table, write_report
from pagedigest.evaluation.live_statistics import paired_success, summarise_live
from pagedigest.evaluation.recorded import Recorded, Recorder, Recording
from pagedigest.evaluation.tasks import Check, Element, FinalState, SolutionStep, Task, failed_checks, find_element, load_tasks
from pagedigest.modules.full_tree import FullTree
from pagedigest.observation import Observation
from pagedigest.selection import Nothing
from pagedigest.session import PageDigest
from region4web.abstraction import abstractor_by_name
from region4web.axtree import AXTree
from region4web.language_models import ScriptedModel
from region4web.regions import Abstraction, RegionMap
from region4web.segmenters import segmenter_by_name

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
    assert {t.site for t in tasks} == {"shop", "dashboard", "forum", "tracker", "wiki"}
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


def test_an_episode_that_never_ran_gives_way_to_one_that_did(tmp_path):
    rows = [
        episode(stage="infrastructure", success=False),
        episode(),
        episode(task_id="t2"),
        episode(stage="infrastructure", success=False),
    ]
    (tmp_path / "episodes-0.jsonl").write_text("\n".join(json.dumps(vars(r)) for r in rows))
    assert [(e.task, e.success) for e in read_episodes(tmp_path)] == [("t1", True), ("t2", True)]


def test_the_table_of_stages_tells_failures_and_what_was_hidden_at_first():
    (summary,) = summarise_live([episode(hidden={"selection": 2}), episode(task_id="t2", success=False, hidden={"transition": 1})])
    row = dict(zip(STAGE_COLUMNS, stage_table([summary])[0], strict=True))
    assert (row["selection"], row["transition"], row["decomposition"]) == ("1 / 2", "0 / 1", "0")


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
    curves = {"decomposition": [[{"loss": 2.0, "region_f1": 0.5}, {"loss": 1.0, "region_f1": 0.7}]]}
    html = write_report(tmp_path, curves).read_text()
    assert "Learning curves of decomposition (1 runs: mean and range)" in html
    page = tmp_path / re.search(r'href="(episodes/\w+\.html)">t1', html)[1]
    assert "<script>alert(1)" not in page.read_text()
    assert "&lt;script&gt;alert(1)" in page.read_text()
    assert "| a | oracle | 1 | 1.000 |" in (tmp_path / "report.md").read_text()
    steps = pyarrow.parquet.read_table(tmp_path / "steps.parquet").to_pylist()
    assert [(s["task"], s["step"], s["tokens"], s["action"]) for s in steps] == [("t1", 1, 1, "noop()")]
    assert pyarrow.parquet.read_table(tmp_path / "episodes.parquet").num_rows == 1
    assert len(read_episodes(tmp_path)) == 1
    with pytest.raises(ValueError, match="no episodes"):
        write_report(tmp_path / "traces")


def test_learning_curves_need_a_history(tmp_path):
    path = tmp_path / "metrics.json"
    path.write_text('{"history": [[{"loss": 1}]]}')
    assert read_history(path) == [[{"loss": 1.0}]]
    path.write_text('{"losses": []}')
    with pytest.raises(ValueError, match=r"metrics\.json: no learning curves"):
        read_history(path)


class Page:
    """An environment of two pages: the button leads to the second, where the answer stands."""

    def __init__(self, task):
        self.task, self.over, self.tree = task, False, AXTree.from_text(PAGE, url="http://127.0.0.1/a")

    def act(self, call):
        self.tree = AXTree.from_text(
            "RootWebArea 'Order'\n\t[1] heading 'Order'\n\t[2] StaticText 'Total: 12.50'", url="http://127.0.0.1/b"
        )
        self.over = call.name == "send_msg_to_user"
        return ""

    def failures(self):
        return []

    def close(self):
        pass


BUTTON_THEN_TOTAL = task(
    SolutionStep("click", Element("button", "Edit", row="1002")), SolutionStep("answer", Element("*", "Total"), "12.50")
)


def test_a_recording_shows_the_same_pages_and_gives_the_same_episode(tmp_path):
    recorder, steps = Recorder(Page(BUTTON_THEN_TOTAL)), []
    live = run_episode(recorder, FullTree(), OracleActor(), seed=0, max_steps=9, trace=steps)
    recorder.recording().write(tmp_path / "t.pickle.gz")
    again_steps = []
    again = run_episode(
        Recorded(Recording.read(tmp_path / "t.pickle.gz")), FullTree(), OracleActor(), seed=0, max_steps=9, trace=again_steps
    )
    assert live.success
    assert [s["observation"] for s in again_steps] == [s["observation"] for s in steps]
    assert replace(again, seconds=0, observe_ms=0) == replace(live, seconds=0, observe_ms=0)
    (tmp_path / "t.pickle.gz").write_bytes(b"no recording")
    with pytest.raises(ValueError, match=r"t\.pickle\.gz: no recording"):
        Recording.read(tmp_path / "t.pickle.gz")


def test_a_recording_refuses_another_way():
    recorder = Recorder(Page(BUTTON_THEN_TOTAL))
    run_episode(recorder, FullTree(), OracleActor(), seed=0, max_steps=9, trace=[])
    other = Recorded(recorder.recording())
    assert "goes on with click('7')" in other.act(Call("click", ("4",)))
    assert other.failures() == ["the reference solution was not followed to its end"]


@pytest.mark.browser
def test_a_killed_run_goes_on_and_two_workers_give_the_table_of_one(tmp_path):
    lines = [
        {"id": f"t{i}", "site": "shop", "start": "/", "intent": "What is the total?", "kind": "information", "checks": [{"answer_all": ["12.50"]}],
         "solution": [{"click": {"role": "button", "name": "Edit", "nth": i % 2}}, {"answer": "12.50", "evidence": {"role": "*", "name": "Total"}}]}
        for i in range(4)
    ]  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for t in load_tasks([tmp_path / "tasks.jsonl"]):
        recorder = Recorder(Page(t))
        run_episode(recorder, FullTree(), OracleActor(), seed=0, max_steps=9, trace=[])
        recorder.recording().write(tmp_path / "pages" / f"{t.id}.pickle.gz")
    one = RunConfig(
        tmp_path / "one",
        (tmp_path / "tasks.jsonl",),
        ("full_tree", "truncation@20"),
        ("oracle",),
        recordings=tmp_path / "pages",
        segmenter="whole-page",
        abstractor="role-name",
    )

    def table(episodes):
        return [replace(e, seconds=0, observe_ms=0) for e in episodes]

    whole = table(run(one))
    assert [e.success for e in whole] == [True] * 4 + [False] * 4
    written = tmp_path / "one" / "episodes-0.jsonl"
    text = written.read_text()
    written.write_text(text[: len(text) // 2])
    assert table(run(one)) == whole
    assert table(run(replace(one, out=tmp_path / "two", workers=2))) == whole


def test_what_hid_the_needed_element_is_told_by_stage(tree):
    step = (SolutionStep("click", Element("button", "Edit", row="1002")),)
    module = PageDigest(segmenter_by_name("whole-page"), abstractor_by_name("role-name"), Nothing())
    session = module.start("")
    observation = session.observe(tree)
    assert hiding_stage(session, observation, tree, "7") == "selection"
    assert hiding_stage(session, replace(observation, trace={"open": ("R0",)}), tree, "7") == "decomposition"
    grown = AXTree.from_text(PAGE + "\n\t[11] button 'New'", url=tree.url)
    assert hiding_stage(session, session.observe(grown), grown, "11") == "transition"
    episode = run_episode(Page(task(*step)), module, OracleActor(), seed=0, max_steps=2, trace=[])
    assert (episode.success, episode.hidden) == (False, {"selection": 1})


def test_a_purpose_that_shares_no_word_with_the_element_is_to_blame_when_a_model_read_only_purposes(tree):
    session = PageDigest(segmenter_by_name("whole-page"), abstractor_by_name("role-name"), Nothing()).start("")
    observation = session.observe(tree)
    page = session.page
    page.selection = replace(page.selection, source="llm")
    page.region_map = RegionMap(page.region_map.partition, (Abstraction("List of orders", "2 orders", "test"),))
    assert hiding_stage(session, observation, tree, "7") == "abstraction"
    assert hiding_stage(session, observation, tree, "10") == "abstraction"
    page.region_map = RegionMap(page.region_map.partition, (Abstraction("List of orders to edit", "2 orders", "test"),))
    assert hiding_stage(session, observation, tree, "7") == "selection"


def test_progress_along_the_solution_follows_what_is_done(tree):
    progress = SolutionProgress(
        task(SolutionStep("click", Element("button", "Edit", row="1002")), SolutionStep("answer", Element("*", "Total")))
    )
    assert progress.needed(tree) == "7"
    progress.act(Call("click", ("4",)), "7")
    assert progress.needed(tree) == "7"
    progress.act(Call("click", ("7",)), "7")
    assert progress.needed(tree) == "10"


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


@pytest.mark.parametrize(
    ("programs", "user", "reason"),
    [((), 0, "this system has no apt-get"), (("apt-get",), 1000, "run as root: apt-get install --no-install-recommends no-such-package-1 no-such-package-2")],
)  # fmt: skip
def test_a_site_of_debian_packages_says_what_it_needs(tmp_path, monkeypatch, programs, user, reason):
    packages = ("no-such-package-1", "no-such-package-2")
    monkeypatch.setattr(site_recipes.shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
    monkeypatch.setattr(site_recipes.os, "geteuid", lambda: user)
    with pytest.raises(sites.SiteError, match=reason):
        site_recipes._debian_packages("tracker", packages, tmp_path)


def test_a_site_installed_from_other_seeds_is_known(tmp_path, monkeypatch):
    (tmp_path / "forum").mkdir()
    (tmp_path / "texts.py").write_text("A")
    (tmp_path / "forum" / "seed.py").write_text("B")
    monkeypatch.setattr(site_recipes, "SITE_DATA", tmp_path)
    before = site_recipes.recipe_checksum("forum")
    assert site_recipes.recipe_checksum("forum") == before
    (tmp_path / "texts.py").write_text("C")
    assert site_recipes.recipe_checksum("forum") != before


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
