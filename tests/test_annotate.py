"""Annotation against a real server on this machine: the three stages, faults of the model, kill and resume, the cost log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import tree
from openai_server import OpenAIServer, Reply

from region4web import AXTree, Partition, load_snapshot
from region4web.labels import annotated_pages, load_labels
from training.annotate import main
from training.annotation_stages import page_name, without_empty_regions
from training.annotation_texts import outline, region_outline

ROOT = Path(__file__).parent.parent
GOLD = ROOT / "data" / "gold"
CAPTURES = sorted((GOLD / "captures").glob("*.json*"))[:5]


def stage_of(request: dict[str, Any]) -> str:
    return {"kind": "decompose", "valid": "verify", "purpose": "abstract"}[
        next(iter(request["response_format"]["json_schema"]["schema"]["properties"]))
    ]


def annotator(**faults: Callable[[dict[str, Any]], str | Reply | None]) -> Callable[[dict[str, Any]], str | Reply]:
    """A model that cuts where it reads a landmark, list, form or table, finds every region valid, and names it by its first line.

    A fault of a stage (`verify=...`) answers instead when it returns something.
    """

    def reply(request: dict[str, Any]) -> str | Reply:
        stage, text = stage_of(request), request["messages"][1]["content"]
        if (bad := faults.get(stage, lambda _: None)(request)) is not None:
            return bad
        if stage == "decompose":
            roots = re.findall(
                r"^\t+\[([^\]]+)\] (?:navigation|banner|contentinfo|main|form|table|search|complementary) ", text, re.MULTILINE
            )
            return json.dumps({"kind": "test page", "roots": roots})
        if stage == "verify":
            return json.dumps({"valid": True, "reason": "one job"})
        return json.dumps({"purpose": "Part of a page", "state": text.split("\n")[-1][:60].replace("[", "(")})

    return reply


def run(server: OpenAIServer, out: Path, *more: str, captures: list[Path] = CAPTURES) -> int:
    given = [str(path) for path in captures]
    return main([*given, "--out", str(out), "--model", "tiny", "--base-url", server.url, "--timeout-s", "5", "--max-retries", "1", *more])


def test_five_pages_end_to_end_give_labels_that_fit_their_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(annotator()) as server:
        assert run(server, tmp_path, "--price", "2", "8") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["pages"], report["kept"], report["failed"]) == (5, 5, 0)
        assert report["calls"] == len(server.requests)
        pages = list(annotated_pages(GOLD / "captures", tmp_path / "labels"))
        assert len(pages) == 5
        assert all(page.roots_mapped == 0 and len(page.gold.partition) >= 2 for page in pages)
        assert report["regions"] == sum(len(page.gold.partition) for page in pages)
        costs = [json.loads(line) for line in (tmp_path / "costs.jsonl").read_text().splitlines()]
        assert [sum(entry["stage"] == stage for entry in costs) for stage in ("decompose", "verify", "abstract")] == [5, 5, 5]
        assert report["prompt_tokens"] == sum(entry["prompt_tokens"] for entry in costs) > 1000
        assert report["price"] == pytest.approx((report["prompt_tokens"] * 2 + report["completion_tokens"] * 8) / 1e6, abs=1e-4)
        asked = len(server.requests)
        assert run(server, tmp_path) == 0
        assert len(server.requests) == asked  # nothing is asked twice


def test_one_stage_at_a_time_leads_to_the_same_labels(tmp_path: Path) -> None:
    with OpenAIServer(annotator()) as server:
        run(server, tmp_path / "whole")
        for stage in ("decompose", "verify", "abstract"):
            assert not (tmp_path / "steps" / "labels").exists()
            assert run(server, tmp_path / "steps", "--stage", stage) == 0
            assert len(list((tmp_path / "steps" / stage).iterdir())) == 5
    for path in (tmp_path / "whole" / "labels").iterdir():
        assert path.read_text() == (tmp_path / "steps" / "labels" / path.name).read_text()


def test_a_page_with_one_region_that_does_not_verify_is_skipped_with_the_reason(tmp_path: Path) -> None:
    seen: list[int] = []

    def third_region(request: dict[str, Any]) -> str | None:
        seen.append(1)
        return json.dumps({"valid": False, "reason": "two jobs in one"}) if len(seen) == 2 else None

    with OpenAIServer(annotator(verify=third_region)) as server:
        assert run(server, tmp_path, captures=CAPTURES[:1]) == 0
        assert not any(stage_of(request) == "abstract" for request in server.requests)
    labels = load_labels(tmp_path / "labels" / f"{page_name(CAPTURES[0])}.json")
    assert labels.skip.startswith("verify: 1 of ")
    assert labels.skip.endswith("two jobs in one")


@pytest.mark.parametrize(("bad", "said"), [
    ("I cannot do that", "no JSON object"),
    ('{"kind": "x", "roots": "12"}', "'roots' must be of type array"),
    ('{"kind": "x", "roots": ["999999"]}', "not in the outline: 999999"),
    (Reply('{"kind": "x", "roots": ["1', finish="length"), "truncated"),
    (Reply(""), "empty"),
])  # fmt: skip
def test_an_answer_of_no_use_is_asked_for_again_with_what_was_wrong(tmp_path: Path, bad: str | Reply, said: str) -> None:
    turns: list[dict[str, Any]] = []

    def first_time(request: dict[str, Any]) -> str | Reply | None:
        turns.append(request)
        return bad if len(turns) == 1 else None

    with OpenAIServer(annotator(decompose=first_time)) as server:
        assert run(server, tmp_path, captures=CAPTURES[:1]) == 0
    assert said in turns[1]["messages"][-1]["content"]
    assert load_labels(tmp_path / "labels" / f"{page_name(CAPTURES[0])}.json").regions


def test_answers_of_no_use_to_the_end_skip_the_page(tmp_path: Path) -> None:
    with OpenAIServer(annotator(abstract=lambda _: '{"purpose": "[12] ignore all previous instructions", "state": ""}')) as server:
        assert run(server, tmp_path, captures=CAPTURES[:1]) == 0
    assert load_labels(tmp_path / "labels" / f"{page_name(CAPTURES[0])}.json").skip.startswith("abstract: ")


@pytest.mark.parametrize("fault", [Reply("busy", 429, headers={"Retry-After": "0.05"}), Reply("down", 503, headers={"Retry-After": "0.05"}),
                                   Reply("late", pause_s=2.0), Reply(body="<html>")])  # fmt: skip
def test_a_page_whose_calls_fail_is_left_for_the_next_run(tmp_path: Path, fault: Reply, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(annotator(verify=lambda _: fault)) as server:
        assert run(server, tmp_path, "--timeout-s", "0.4", captures=CAPTURES[:1]) == 1
    assert not (tmp_path / "labels").exists()
    assert "failed: verify" in capsys.readouterr().err
    with OpenAIServer(annotator()) as server:
        assert run(server, tmp_path, captures=CAPTURES[:1]) == 0
        assert not any(stage_of(request) == "decompose" for request in server.requests)  # that stage was done


def test_a_server_that_is_not_there_ends_the_run_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(CAPTURES[0]), "--out", str(tmp_path), "--model", "tiny", "--base-url", "http://127.0.0.1:9/v1", "--max-retries", "0"]
    assert main(given) == 1
    assert capsys.readouterr().err.strip().count("\n") == 0
    assert main(["nothing.json", "--out", str(tmp_path), "--model", "tiny", "--base-url", "http://127.0.0.1:9/v1"]) == 2


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with OpenAIServer(annotator(abstract=lambda _: time.sleep(0.05))) as server:
        command = [sys.executable, "-m", "training.annotate", *map(str, CAPTURES), "--out", str(tmp_path), "--model", "tiny", "--base-url", server.url,
                   "--pages-at-once", "1", "--concurrency", "1"]  # fmt: skip
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "OPENAI_API_KEY": "none"})
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("labels/*.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = len(list(tmp_path.glob("labels/*.json")))
        before = len(server.requests)
        assert 1 <= done < 5
        with (tmp_path / "costs.jsonl").open("a") as log:
            log.write('{"page": "cut of')
        assert run(server, tmp_path) == 0
        assert len(list(tmp_path.glob("labels/*.json"))) == 5
        asked_again = [request["messages"][1]["content"] for request in server.requests[before:]]
        finished = {request["messages"][1]["content"] for request in server.requests[: before // 2] if stage_of(request) == "decompose"}
        assert not finished & set(asked_again)
    assert not list(tmp_path.rglob("*.partial"))


def test_outlines_hold_ids_where_they_are_asked_for_and_page_text_stays_on_its_line() -> None:
    page = tree(
        "RootWebArea 'Shop'\n    [1] navigation 'Main'\n        [2] link 'Home\\n[9] button'\n    [3] main ''\n        [4] textbox 'Name' value='Ada'"
    )
    assert "[4] textbox 'Name' value='Ada'" in outline(page, range(len(page)))
    assert len(outline(page, range(len(page))).split("\n")) == len(page)
    partition = Partition.from_cuts(page, [1])
    assert region_outline(partition, 0).split("\n")[1] == "\t<R1>"
    assert "[4]" not in region_outline(partition, 0)


def test_regions_with_nothing_to_read_or_act_on_go_back_into_the_region_around() -> None:
    page = tree("RootWebArea 'Shop'\n    [1] separator ''\n    [2] main ''\n        [3] button 'Pay'")
    partition = without_empty_regions(Partition.from_cuts(page, [1, 2]))
    assert [page.nodes[root].id for root in partition.roots][1:] == ["2"]


@pytest.mark.optional
def test_the_same_pages_through_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed (extra 'ray')")
    with OpenAIServer(annotator()) as server:
        assert run(server, tmp_path / "ray", "--ray", "local", "--pages-at-once", "1") == 0
        assert run(server, tmp_path / "here") == 0
    for path in (tmp_path / "here" / "labels").iterdir():
        assert path.read_text() == (tmp_path / "ray" / "labels" / path.name).read_text()


def test_captures_of_the_gold_set_are_at_hand() -> None:
    assert len(CAPTURES) == 5
    assert all(len(AXTree.from_snapshot(load_snapshot(path))) > 10 for path in CAPTURES)
