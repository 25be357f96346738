"""A live run as tables for other tools: `episodes.parquet` and `steps.parquet`, one row an episode and one a step.

Enters: a run's folder. Leaves: the two files in it. The JSON lines and the traces of the run stay what it is resumed from.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagedigest.evaluation.live import read_episodes, read_traces

__all__ = ["write_parquet"]

_STEP_TEXTS = ("url", "observation", "prompt", "reply", "action", "stage", "needed", "hidden_by", "error")
_STEP_NUMBERS = ("shown", "tokens", "full_tokens")
_STEP_MAPPINGS = ("auxiliary", "ms", "counts")


def write_parquet(folder: Path) -> tuple[Path, Path]:
    """Write both tables. Mappings (tokens by purpose, milliseconds by stage) are columns of JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    episodes = []
    for episode in read_episodes(folder):
        row: dict[str, Any] = asdict(episode)
        row["prompt_tokens"], row["completion_tokens"] = row.pop("actor_tokens")
        row["observation_tokens"] = list(row["observation_tokens"])
        for name in ("auxiliary_tokens", "hidden"):
            row[name] = json.dumps(row[name])
        episodes.append(row)
    steps = [
        {
            **{name: trace["job"][name] for name in ("module", "actor", "task", "seed")},
            "step": number,
            **{name: str(step.get(name, "")) for name in _STEP_TEXTS},
            **{name: int(step.get(name, 0)) for name in _STEP_NUMBERS},
            **{name: json.dumps(step.get(name, {})) for name in _STEP_MAPPINGS},
        }
        for trace in read_traces(folder)
        for number, step in enumerate(trace["steps"], 1)
    ]
    paths = folder / "episodes.parquet", folder / "steps.parquet"
    for path, rows in zip(paths, (episodes, steps), strict=True):
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    return paths
