"""The command `pagedigest`: what it prints, its exit statuses, one line an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedigest.cli import main

NODES = [
    {
        "nodeId": "1",
        "ignored": False,
        "role": {"value": "RootWebArea"},
        "name": {"value": "Shop"},
        "backendDOMNodeId": 1,
        "childIds": ["2", "3", "4"],
    },
    {"nodeId": "2", "parentId": "1", "ignored": False, "role": {"value": "link"}, "name": {"value": "Home"}, "backendDOMNodeId": 2},
    {
        "nodeId": "3",
        "parentId": "1",
        "ignored": False,
        "role": {"value": "searchbox"},
        "name": {"value": "Search products"},
        "backendDOMNodeId": 3,
    },
    {"nodeId": "4", "parentId": "1", "ignored": False, "role": {"value": "button"}, "name": {"value": "Checkout"}, "backendDOMNodeId": 4},
]
RULES = ("--segmenter", "landmarks", "--abstractor", "role-name")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps({"url": "http://shop.example/", "title": "Shop", "viewport": [1280, 720], "nodes": NODES, "boxes": {}}))
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "steps.jsonl"
    step = {
        "source": "ours",
        "episode": "e",
        "step": 0,
        "task": "Pay",
        "axtree": NODES,
        "url": "http://shop.example/",
        "action": "click('4')",
        "target": 4,
    }
    path.write_text("\n".join(json.dumps({**step, "episode": f"e{k}"}) for k in range(3)))
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


def test_observe_prints_a_digest_within_its_budget(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "observe", snapshot, "--task", "go to the checkout", "--budget", "200", "--json", *RULES)
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {"text", "tokens", "full_tokens", "shown", "regions", "usage"}
    assert found["tokens"] <= 200
    assert "4" in found["shown"]
    assert "[4] button 'Checkout'" in found["text"]
    assert found["regions"][0]["id"] == "R0"
    assert found["usage"]["counter"] in ("o200k_base", "upper-estimate")


def test_observe_without_json_prints_the_text_alone(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "observe", snapshot, "--task", "search for a kettle", *RULES)
    assert status == 0
    assert out.startswith("PAGE Shop | http://shop.example/ | ")
    assert "[3] searchbox 'Search products'" in out


def test_replay_prints_designs_object(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "rows.csv"
    argv = ("replay", recording, "--modules", "pagedigest,full-tree,bm25", "--budget", "200", "--csv", table, "--json", *RULES)
    status, out, _ = run(capsys, *argv)
    found = json.loads(out)
    assert status == 0
    assert set(found["modules"]) == {"pagedigest", "full-tree", "bm25"}
    assert found["modules"]["pagedigest"]["steps"] == 3
    assert found["modules"]["pagedigest"]["target_recall"] == 1.0
    assert found["modules"]["pagedigest"]["tokens_mean"] <= 200
    assert len(table.read_text().splitlines()) == 10


def test_replay_at_several_budgets_prints_a_line_each(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "replay", recording, "--modules", "truncation", "--budget", "150", "--budget", "300", *RULES)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["budget", "150", "300"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("observe", "nowhere.json", "--task", "x"), "no such file"),
        (("observe", "{snapshot}"), "--task"),
        (("observe", "{snapshot}", "--task", "x", "--budget", "0"), "--budget"),
        (("observe", "{snapshot}", "--task", "x", "--selector", "llm"), "--model"),
        (("observe", "{snapshot}", "--task", "x", "--segmenter", "nope"), "no segmenter 'nope'"),
        (("replay", "nowhere.jsonl"), "nowhere.jsonl"),
        (("replay", "{recording}", "--modules", "bm26"), "no observation method 'bm26'"),
        (("replay", "{recording}", "--modules", "focus_agent"), "--model"),
        (("replay", "{recording}", "--modules", ","), "--modules"),
        (("replay", "{snapshot}", "--modules", "truncation"), "line 1"),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(
    argv: tuple[str, ...], said: str, snapshot: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *(part.format(snapshot=snapshot, recording=recording) for part in argv))
    assert status == 2
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
