"""A comparison in a folder: one line an episode, method and budget; resumed, shared, refused when it does not fit; its tables."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from openai_server import OpenAIServer

from pagedigest.cli import commands
from pagedigest.evaluation import comparison as comparing
from pagedigest.evaluation.comparison import Comparison, compare
from pagedigest.evaluation.held_out import HeldOutSelector, fold_folder, site_key
from pagedigest.evaluation.replay import episode_results, episodes, replay
from pagedigest.evaluation.sharing import Spared, shared
from pagedigest.evaluation.steps import read_steps
from pagedigest.evaluation.systems import Parts, default_parts, system_by_name
from pagedigest.evaluation.tables import recall_table, recall_tables
from pagedigest.evaluation.vectors import RecordedVectors
from pagedigest.ranker import load_ranker
from region4web.errors import WeightsError
from region4web.segmenters import segmenter_by_name

NAMES = ("pagedigest", "bm25", "interactive_only", "webshell_map")
LINKS = "".join(f"\n\t\t[{k}] link 'Item {k}', url='https://shop.example/{k}'" for k in range(10, 80))


def page(title: str) -> str:
    return f"RootWebArea '{title}'\n\t[1] main ''{LINKS}\n\t[90] button 'Pay now'\n\tStaticText 'Thanks'"


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    rows = [
        {"source": source, "episode": f"e{e}", "step": s, "task": "Pay for item 17", "observation": page(f"Shop {e}"), "action": "click('17')",
         "target": "17" if s else "90", "url": f"https://shop{e}.example/"}
        for source in ("a", "b") for e in range(3) for s in range(2)
    ]  # fmt: skip
    path = tmp_path / "steps.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def without_time(runs):  # type: ignore[no-untyped-def]
    return [[(run.budget_tokens, name, [(r.episode, r.step, r.found, r.tokens, r.cacheable) for r in found])
             for name, found in run.results.items()] for run in runs]  # fmt: skip


def test_shared_work_changes_no_result_and_its_time_is_counted(steps: Path) -> None:
    plain, spared = default_parts(), Spared()
    together = shared(plain, spared)
    budgets = (300, 600, None)
    read = list(read_steps([steps]))
    for name in NAMES:
        for budget in budgets:
            module = system_by_name(name, together, budget_tokens=budget)
            ours = [result for episode in episodes(read) for result in episode_results(module, episode, spared)]
            theirs = replay({name: system_by_name(name, plain, budget_tokens=budget)}, read)[name]
            assert [(r.found, r.tokens, r.cacheable) for r in ours] == [(r.found, r.tokens, r.cacheable) for r in theirs]
    assert spared.ms > 0
    again = episode_results(system_by_name("pagedigest", together, budget_tokens=300), next(episodes(read)), spared)
    assert again[0].ms > 1  # cutting, describing and choosing were spared, and count all the same


def test_a_comparison_goes_on_where_it_was_and_takes_more_methods(steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    once = compare(Comparison(NAMES[:2], (300, None)), [steps], out)
    lines = (out / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 6 * 2 * 2
    (out / "results.jsonl").write_bytes(b"".join(lines[:9]) + lines[9][:20])
    worked: list[str] = []
    real = comparing.episode_results
    monkeypatch.setattr(comparing, "episode_results", lambda module, *rest: worked.append(module.name) or real(module, *rest))
    assert without_time(compare(Comparison(NAMES[:2], (300, None)), [steps], out)) == without_time(once)
    assert 0 < len(worked) <= 24
    worked.clear()
    more = compare(Comparison(NAMES, (300, None)), [steps], out)
    assert set(worked) == {"interactive_only", "webshell without persistence"}
    assert without_time(more)[0][:2] == without_time(once)[0]


def test_processes_give_what_one_process_gives(steps: Path, tmp_path: Path) -> None:
    one = compare(Comparison(NAMES, (300,)), [steps], None)
    two = compare(Comparison(NAMES, (300,)), [steps], tmp_path / "out", workers=2)
    assert without_time(one) == without_time(two)


def test_results_of_other_steps_are_refused(steps: Path, tmp_path: Path) -> None:
    compare(Comparison(("bm25",), (300,)), [steps], tmp_path / "out")
    steps.write_text(steps.read_text().replace("Pay for", "Buy"))
    with pytest.raises(ValueError, match="results of other steps; name another folder"):
        compare(Comparison(("bm25",), (300,)), [steps], tmp_path / "out")


def test_recorded_vectors_ask_the_encoder_once_and_come_back_the_same(tmp_path: Path) -> None:
    asked: list[str] = []

    def embed(texts):  # type: ignore[no-untyped-def]
        asked.extend(texts)
        return np.asarray([[len(text) / 7, 1 / 3] for text in texts], dtype=np.float32)

    spared = Spared()
    first = RecordedVectors(tmp_path / "v.sqlite", embed, spared)(["a", "bb", "a"])
    assert asked == ["a", "bb"]
    assert spared.ms == 0
    second = RecordedVectors(tmp_path / "v.sqlite", embed, spared)(["bb", "a", "ccc"])
    assert asked == ["a", "bb", "ccc"]
    assert spared.ms > 0
    assert (second[:2] == first[[1, 0]]).all()


def test_an_llm_method_asks_once_for_all_budgets_and_is_cut_or_grown_to_each(steps: Path, tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="openai is not installed (extra 'lm')")
    with OpenAIServer(lambda request: "<answer>[(2, 9)]</answer>") as server:
        comparison = Comparison(("focus_agent",), (100, 600, None), model=f"openai:tiny@{server.url}", answer_tokens=30)
        cut, grown, natural = (run.results["focus_agent"] for run in compare(comparison, [steps], None))
        assert len(server.requests) < 3 * 12
        assert {request["max_tokens"] for request in server.requests} == {30}
    assert all(result.tokens <= 100 for result in cut)
    assert all(100 < natural[0].tokens < result.tokens <= 600 for result in grown)
    assert all(result.auxiliary_tokens > 0 for result in (*cut, *grown, *natural))


def test_recorded_answers_repeat_the_comparison_without_a_model(steps: Path, tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="openai is not installed (extra 'lm')")
    record = str(tmp_path / "answers.jsonl")
    reply = "## Reasoning\npay\n## Focused Observation\n[90] button 'Pay now'\n[END]"
    with OpenAIServer(lambda request: reply) as server:
        asked = compare(Comparison(("lcow",), (100, None), model=f"openai:tiny@{server.url}", record=record), [steps], None)
        calls = len(server.requests)
    again = compare(Comparison(("lcow",), (100, None), model=f"recorded:{record}"), [steps], None)
    assert calls == len(Path(record).read_text().splitlines()) > 0
    assert without_time(again) == without_time(asked)
    assert all(result.fallbacks == 0 for run in again for result in run.results["lcow"])
    with OpenAIServer(lambda request: "I cannot do that") as server:
        (useless,) = compare(Comparison(("lcow",), (None,), model=f"openai:tiny@{server.url}"), [steps], None)
    assert all(result.fallbacks == 1 for result in useless.results["lcow"])


def test_one_command_writes_every_table(steps: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    command = ["replay", str(steps), "--modules", ",".join(NAMES), "--budget", "300", "--budget", "natural", "--out", str(out)]
    result = CliRunner().invoke(commands, command, catch_exceptions=False)
    assert result.exit_code == 0
    tables = (out / "tables.md").read_text()
    assert "| method | 300 | natural length | its tokens |" in tables
    assert "source b: 6 steps of 3 episodes" in tables
    assert "Recall of pagedigest less that of each method" in tables
    assert (out / "tables.tex").read_text().count("\\begin{table}") == tables.count("\n| --- |")
    assert "interactive\\_only" in (out / "tables.tex").read_text()
    rows = list(csv.DictReader((out / "groups.csv").open()))
    assert {row["group"] for row in rows} == {"all", "source", "kind", "page_kind", "site"}
    assert {row["part"] for row in rows if row["group"] == "site"} == {f"shop{k}.example" for k in range(3)}
    with gzip.open(out / "steps.csv.gz", "rt") as stream:
        assert sum(1 for _ in csv.DictReader(stream)) == 12 * len(NAMES) * 2
    assert json.loads((out / "comparison.json").read_text())["runs"][1]["budget"] is None
    assert (out / "recall_against_tokens.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(("more", "said"), [
    (["--modules", "bm25", "--budget", "many"], "many"),
    (["--modules", "lcow"], "--model"),
    (["--modules", "bm25", "--answer-tokens", "9"], "bounds the answers of --model"),
    (["--modules", "bm25", "--model", "recorded:x", "--record", "y", "--workers", "2"], "leave out --workers or --record"),
])  # fmt: skip
def test_what_does_not_go_together_is_said(steps: Path, more: list[str], said: str) -> None:
    result = CliRunner().invoke(commands, ["replay", str(steps), *more])
    assert result.exit_code != 0
    assert said in (result.output or "") + str(result.exception)


def test_tables_count_steps_by_source(steps: Path) -> None:
    runs = compare(Comparison(("full_tree", "truncation"), (None, 100)), [steps], None)
    table = recall_table(runs, "x", intervals=False)
    assert table.header == ("method", "natural length", "its tokens", "100")
    assert table.rows[0][1] == "1.000"
    assert table.rows[1][3] == "0.000"
    assert [t.caption.split(":")[0] for t in recall_tables(runs)] == ["All 12 steps of 6 episodes", "source a", "source b"]


def test_a_ranker_that_was_trained_without_the_site_is_taken(tmp_path: Path) -> None:
    ranker = load_ranker()
    for fold in range(2):
        ranker.save(fold_folder(tmp_path, fold), {"fold": fold})
    (tmp_path / "sites.json").write_text(json.dumps({"shop.example": 1, "127.0.0.1:8001": 0}))
    selector = HeldOutSelector(tmp_path)
    assert selector.available
    assert selector.ranker("https://shop.example:99/x") is load_ranker(fold_folder(tmp_path, 1))
    assert selector.ranker("https://unseen.example/") is load_ranker(fold_folder(tmp_path, 0))
    assert site_key("http://127.0.0.1:8001/a") == "127.0.0.1:8001"
    with pytest.raises(WeightsError, match="train_selection"):
        HeldOutSelector(tmp_path / "nowhere").ranker("https://shop.example/")
    parts = Parts(segmenter_by_name("landmarks"), default_parts().abstractor, held_out=selector)
    observation = system_by_name("pagedigest_held_out", parts, budget_tokens=300).start("Pay now")
    assert observation is not None
