"""The ablation table: differences are paired by seed, finished models are not trained again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training import ablate_decomposition
from training.ablate_decomposition import ROWS, main, table

GOLD = Path(__file__).parents[1] / "data" / "gold"


def test_differences_are_paired_by_seed() -> None:
    def result(row: int, seed: int, f1: float) -> dict[str, object]:
        return {"row": ROWS[row].name, "seed": seed, "epochs": 2, "region_f1": f1, "region_f1_at_0.45": f1 - 0.1}

    text = table([result(0, 0, 0.8), result(0, 1, 0.9), result(1, 1, 0.89), result(1, 0, 0.77), result(2, 0, 0.5)], 2)
    lines = text.splitlines()
    assert len(lines) == 4  # a single seed has no interval
    assert "| whole recipe | 2 | 0.850 |" in lines[2]
    assert "| without grafts | 2 | 0.830 |" in lines[3]
    assert "| -0.020 | \u00b1 0.127 | 0.730 |" in lines[3]  # of -0.03 and -0.01: t(0.975, 1) = 12.706, times 0.01


def test_what_is_trained_is_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folders = ["--captures", str(GOLD / "captures"), "--labels", str(GOLD / "labels"), "--out", str(tmp_path)]
    given = [*folders, "--seeds", "2", "--folds", "2", "--epochs", "1", "--variations", "0", "--rows", "0", "8"]
    main(given)
    first = capsys.readouterr().out
    assert f"| {ROWS[0].name} | 2 |" in first
    assert f"| {ROWS[8].name} | 2 |" in first
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 4

    def never(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(ablate_decomposition, "train_member", never)
    main(given)
    assert capsys.readouterr().out == first
    assert {json.loads(line)["seed"] for line in (tmp_path / "results.jsonl").read_text().splitlines()} == {0, 1}


def test_one_seed_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--captures", "x", "--labels", "x", "--out", str(tmp_path), "--seeds", "1"])
    assert "at least 2" in capsys.readouterr().err
