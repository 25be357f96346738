"""Replay: what counts as shown, what it costs, how steps are read, how numbers are summed up."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pagedigest.evaluation.replay import replay
from pagedigest.evaluation.report import ReplayRun, replay_json, results_csv, summary_table, write_plot
from pagedigest.evaluation.statistics import StepResult, paired_difference, summarise
from pagedigest.evaluation.steps import count_steps, read_steps
from pagedigest.evaluation.systems import LLM_FREE, SYSTEM_NAMES, Parts, system_by_name
from pagedigest.modules.bm25 import BM25Chunks, bm25_scores
from pagedigest.modules.budgeted import GROWN_HEADER, Budgeted
from pagedigest.modules.embedding import EmbeddingChunks, endpoint_embeddings
from pagedigest.modules.full_tree import FullTree
from pagedigest.modules.interactive_only import InteractiveOnly
from pagedigest.modules.truncation import Truncation
from pagedigest.observation import Action, Observation, Usage
from pagedigest.tokens import UpperEstimateCounter
from region4web.axtree import AXTree
from region4web.errors import LanguageModelError
from region4web.segmenters import segmenter_by_name

COUNTER = UpperEstimateCounter()
TEXT = (
    "RootWebArea 'Shop'\n"
    + "\n".join(f"\t[{k}] link 'Item {k}', url='https://shop.example/{k}'" for k in range(1, 60))
    + "\n\t[90] button 'Pay now'\n\tStaticText 'Thanks'"
)


def step(number: int, target: str | None = "3", *, episode: str = "e1", text: str = TEXT, **more: object) -> dict[str, object]:
    return {
        "source": "ours",
        "episode": episode,
        "step": number,
        "task": "Pay",
        "observation": text,
        "action": f"click('{target}')",
        "target": target,
        "url": "https://shop.example/",
        **more,
    }


def write(path: Path, *steps: dict[str, object]) -> Path:
    path.write_text("\n".join(json.dumps(entry) for entry in steps) + "\n")
    return path


def result(found: bool | None, *, episode: str = "e", number: int = 0, tokens: int = 100) -> StepResult:
    return StepResult("s", "site", "", "other", episode, number, found, False, False, tokens, 400, 7, 2.0, None)


def test_full_tree_shows_everything_and_truncation_the_first_lines(tmp_path: Path) -> None:
    steps = list(read_steps([write(tmp_path / "a.jsonl", step(0), step(1, "90"), step(2, None))]))
    found = replay({"full": FullTree(COUNTER), "cut": Truncation(200, COUNTER)}, steps)
    assert [entry.found for entry in found["full"]] == [True, True, None]
    assert [entry.found for entry in found["cut"]] == [True, False, None]
    assert all(entry.tokens <= 200 for entry in found["cut"])
    assert {entry.full_tokens for entry in found["cut"]} == {found["full"][0].tokens}
    assert [entry.cacheable for entry in found["full"]] == [None, 1.0, 1.0]


def test_an_episode_is_one_session_that_is_told_the_action_before_each_step(tmp_path: Path) -> None:
    seen: list[tuple[str, list[Action | None]]] = []

    def start(task: str) -> SimpleNamespace:
        told: list[Action | None] = []
        seen.append((task, told))
        return SimpleNamespace(observe=lambda tree, *, last_action=None: told.append(last_action) or Observation("", ()))

    path = write(
        tmp_path / "a.jsonl", step(1, "4"), step(0, "3"), step(0, "5", episode="e2", action_error="no such id"), step(1, "6", episode="e2")
    )
    replay({"spy": SimpleNamespace(name="spy", start=start)}, read_steps([path]))
    assert [told for _, told in seen] == [[None, Action("click('3')", "3")], [None, Action("click('5')", "5", "no such id")]]


def test_a_target_that_preprocessing_dropped_counts_by_its_nearest_kept_element_and_is_said(tmp_path: Path) -> None:
    nodes = [
        {
            "nodeId": "1",
            "ignored": False,
            "role": {"value": "RootWebArea"},
            "name": {"value": "p"},
            "backendDOMNodeId": 1,
            "childIds": ["2"],
        },
        {"nodeId": "2", "parentId": "1", "ignored": True, "role": {"value": "none"}, "backendDOMNodeId": 2, "childIds": ["3"]},
        {"nodeId": "3", "parentId": "2", "ignored": False, "role": {"value": "button"}, "name": {"value": "Go"}, "backendDOMNodeId": 3},
    ]
    entry = {"source": "s", "episode": "e", "step": 0, "task": "t", "axtree": nodes, "action": None, "url": "http://x.example/"}
    path = write(tmp_path / "a.jsonl", {**entry, "target": 2}, {**entry, "episode": "f", "target": 77})
    mapped, missing = replay({"full": FullTree(COUNTER)}, read_steps([path]))["full"]
    assert (mapped.found, mapped.mapped, mapped.missing) == (True, True, False)
    assert (missing.found, missing.mapped, missing.missing) == (False, False, True)
    table = summary_table([ReplayRun(None, {"full": [mapped, missing]})])
    assert "targets: 1 mapped to the nearest kept element, 1 not in the tree" in table


def test_steps_are_read_from_gzip_and_captures_beside_the_file(tmp_path: Path) -> None:
    node = {"nodeId": "1", "ignored": False, "role": {"value": "RootWebArea"}, "name": {"value": "page"}, "backendDOMNodeId": 5}
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "p.json").write_text(
        json.dumps({"url": "http://x.example/", "title": "t", "viewport": [9, 9], "nodes": [node], "boxes": {}})
    )
    lines = [json.dumps({"task": "t", "capture": "captures/p.json", "target": 5, "needed": [5], "kind": "direct"}), json.dumps(step(0))]
    path = tmp_path / "steps.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    first, second = read_steps([path])
    assert (first.tree.nodes[0].name, first.target, first.needed, first.kind, first.site) == ("page", "5", ("5",), "direct", "x.example")
    assert second.site == "shop.example"
    assert count_steps([path]) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not valid JSON"),
        ("[1]", "a step is a JSON object, found a list"),
        ('{"observation": "x"}', "needs a 'task'"),
        ('{"task": "t"}', "needs 'observation'"),
        ('{"task": "t", "observation": "no node line"}', "no line of the text is a node line"),
        ('{"task": "t", "capture": "nowhere.json"}', "nowhere.json"),
    ],
)
def test_a_line_that_is_no_step_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(step(0)) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2: .*" + said):
        list(read_steps([path]))


def test_summary_counts_recall_over_steps_with_a_target_only() -> None:
    summary = summarise([result(True, tokens=10), result(False, episode="f", tokens=20), result(None, episode="g", tokens=90)])
    assert (summary.steps, summary.targets, summary.target_recall) == (3, 2, 0.5)
    assert (summary.tokens_mean, summary.tokens_median) == (40.0, 20.0)
    assert summary.aux_tokens_mean == 7
    assert summarise([result(None)]).target_recall is None


def test_intervals_hold_the_mean_and_are_the_same_for_one_seed() -> None:
    rng = np.random.default_rng(1)
    results = [result(bool(rng.random() < 0.7), episode=f"e{k % 40}", number=k) for k in range(200)]
    first, second = summarise(results, seed=3), summarise(results, seed=3)
    assert first == second
    low, high = first.target_recall_interval or (1.0, 0.0)
    assert low < (first.target_recall or 0) < high
    assert 0.05 < high - low < 0.25
    assert summarise([result(True), result(False)]).target_recall_interval is None


def test_paired_differences_are_taken_on_the_same_steps() -> None:
    better = [result(True, episode=f"e{k}", number=k) for k in range(20)]
    worse = [result(k % 2 == 0, episode=f"e{k}", number=k) for k in range(30)]
    found = paired_difference(better, worse)
    assert found is not None
    assert (found.difference, found.steps) == (0.5, 20)
    assert found.interval is not None
    assert found.interval[0] > 0
    assert paired_difference(better, [result(True, episode="other", number=99)]) is None


def test_the_report_has_designs_fields_groups_and_one_row_a_step(tmp_path: Path) -> None:
    results = {"pagedigest": [result(True), result(True, episode="f")], "bm25": [result(False), result(True, episode="f")]}
    runs = [ReplayRun(500, results), ReplayRun(1000, results)]
    report = replay_json(runs)
    assert set(report["modules"]) == {"pagedigest", "bm25"}
    assert {"steps", "target_recall", "tokens_mean", "tokens_median", "aux_tokens_mean", "ms_median"} <= set(report["modules"]["bm25"])
    assert report["runs"][1]["budget"] == 1000
    assert report["runs"][0]["differences"]["pagedigest - bm25"]["difference"] == 0.5
    assert json.loads(json.dumps(report)) == report
    table = list(csv.DictReader(io.StringIO(results_csv(runs))))
    assert len(table) == 8
    assert (table[2]["method"], table[2]["found"], table[2]["budget"]) == ("bm25", "False", "500")
    pytest.importorskip("matplotlib")
    write_plot(runs, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"


def test_bm25_keeps_the_best_chunks_in_page_order_within_the_cap() -> None:
    tree = AXTree.from_text(TEXT)
    observation = BM25Chunks(120, 40, COUNTER).start("pay now for item 17").observe(tree)
    assert {"17", "90"} <= set(observation.shown)
    assert observation.usage.tokens <= 120
    ids = [int(key) for key in observation.shown]
    assert ids == sorted(ids)
    assert "\n...\n" in observation.text
    assert bm25_scores("nothing of this", ["a b", "c"]).tolist() == [0, 0]


def test_embedding_ranks_chunks_by_cosine_of_any_encoder() -> None:
    def embed(texts) -> np.ndarray:  # type: ignore[no-untyped-def]
        return np.asarray([[1.0, 0.0] if "Pay" in text else [0.0, 1.0] for text in texts], dtype=np.float32)

    observation = EmbeddingChunks(60, 40, embed, COUNTER).start("Pay").observe(AXTree.from_text(TEXT))
    assert "90" in observation.shown
    assert observation.usage.tokens <= 60


def test_an_embedding_endpoint_that_is_down_is_said() -> None:
    pytest.importorskip("openai")
    embed = endpoint_embeddings("m", "http://127.0.0.1:9/v1", timeout_s=1.0)
    with pytest.raises(LanguageModelError, match=r"127\.0\.0\.1:9"):
        embed(["x"])


def test_interactive_only_leaves_out_texts_addresses_and_indentation() -> None:
    observation = InteractiveOnly(None, COUNTER).start("x").observe(AXTree.from_text(TEXT))
    assert len(observation.shown) == 60
    assert observation.text.split("\n")[-1] == "[90] button 'Pay now'"
    assert "url" not in observation.text
    assert "Thanks" not in observation.text


def test_any_method_can_be_cut_to_a_budget_and_shows_only_what_is_left() -> None:
    observation = Budgeted(FullTree(COUNTER), 100, COUNTER).start("x").observe(AXTree.from_text(TEXT))
    assert observation.usage.tokens == COUNTER.count(observation.text) <= 100
    assert 0 < len(observation.shown) < 12
    assert all(f"[{key}]" in observation.text for key in observation.shown)
    assert observation.usage.counts["truncated"] == 1


def test_a_method_shorter_than_the_budget_grows_by_controls_from_the_top_and_then_by_texts() -> None:
    says_little = SimpleNamespace(name="little", start=lambda task: SimpleNamespace(observe=lambda tree, *, last_action=None: little))
    little = Observation("[90] button 'Pay now'", ("90",), Usage(tokens=COUNTER.count("[90] button 'Pay now'")))
    tree = AXTree.from_text(TEXT)
    some = Budgeted(says_little, 200, COUNTER).start("x").observe(tree)
    assert some.usage.tokens == COUNTER.count(some.text) <= 200
    assert some.text.startswith(f"[90] button 'Pay now'\n{GROWN_HEADER}\n[1] link 'Item 1'\n[2] link")
    assert some.shown[:3] == ("90", "1", "2")
    assert len(some.shown) == len(set(some.shown)) == some.usage.counts["grown_lines"] + 1 < 40
    every = Budgeted(says_little, 10**5, COUNTER).start("x").observe(tree)
    assert set(every.shown) == {str(k) for k in range(1, 60)} | {"90"}
    assert every.text.endswith("StaticText 'Thanks'")


class PlainPurposes:
    def abstract(self, partition):  # type: ignore[no-untyped-def]
        from region4web.regions import Abstraction

        return tuple(Abstraction(f"Part {k}", "") for k in range(len(partition)))


@pytest.mark.parametrize("name", [name for name in LLM_FREE if name not in ("embedding", "pagedigest_minilm", "pagedigest_held_out")])
def test_every_method_without_a_model_keeps_an_equal_budget(name: str, tmp_path: Path) -> None:
    parts = Parts(segmenter_by_name("landmarks"), PlainPurposes())
    steps = list(read_steps([write(tmp_path / "a.jsonl", step(0, "90"), step(1, "90"))]))
    for entry in replay({name: system_by_name(name, parts, budget_tokens=300)}, steps)[name]:
        assert 0 < entry.tokens <= 300
        assert entry.full_tokens > 900


def test_without_persistence_every_step_is_an_entry_and_without_views_none_is_answered() -> None:
    parts = Parts(segmenter_by_name("landmarks"), PlainPurposes())
    tree = AXTree.from_text(TEXT, url="https://shop.example/")
    forgetful = system_by_name("without_persistence", parts, budget_tokens=400).start("Pay")
    first, second = (forgetful.observe(tree) for _ in range(2))
    assert first.text == second.text
    plain = system_by_name("pagedigest", parts, budget_tokens=400).start("Pay")
    viewless = system_by_name("without_views", parts, budget_tokens=400).start("Pay")
    for session in (plain, viewless):
        session.observe(tree)
    assert "view_region" in plain.observe(tree, last_action=Action("view_region('R0')")).usage.counts
    assert "view_region" not in viewless.observe(tree, last_action=Action("view_region('R0')")).usage.counts


def test_single_elements_are_chosen_without_regions() -> None:
    parts = Parts(segmenter_by_name("landmarks"), PlainPurposes())
    observation = system_by_name("element_level", parts).start("Pay now").observe(AXTree.from_text(TEXT))
    assert "90" in observation.shown
    assert 0 < len(observation.shown) < 60
    assert "1 of 1 regions open" in observation.text


def test_unknown_methods_and_missing_models_are_said() -> None:
    parts = Parts(segmenter_by_name("landmarks"), PlainPurposes())
    with pytest.raises(ValueError, match=r"no observation method 'pagedigets'; use one of pagedigest, "):
        system_by_name("pagedigets", parts)
    for name in set(SYSTEM_NAMES) - set(LLM_FREE):
        with pytest.raises(ValueError, match="--model"):
            system_by_name(name, parts)
    assert system_by_name("interactive-only", parts).name == "interactive_only"
