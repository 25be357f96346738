"""The pages of reference solutions, recorded once and shown again: the oracle takes the same way whatever it reads.

Enters: an environment while the reference solution is followed in it. Leaves: its trees and how it ended, in a file; an environment that
shows them again, so that many methods are compared on the very same pages without a browser.
"""

from __future__ import annotations

import gzip
import pickle
from dataclasses import dataclass
from pathlib import Path

from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.environment import Environment
from pagedigest.evaluation.tasks import Task
from region4web.axtree import AXTree

__all__ = ["Recorded", "Recorder", "Recording"]


@dataclass(frozen=True)
class Recording:
    """One followed solution: the tree before each action, those actions with their errors, what of the task was not done at the end."""

    task: Task
    trees: tuple[AXTree, ...]
    acted: tuple[tuple[Call, str], ...]
    failures: tuple[str, ...]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(gzip.compress(pickle.dumps(self), mtime=0))
        part.rename(path)

    @staticmethod
    def read(path: Path) -> Recording:
        """A recording that this program wrote (pickled: read none that came from elsewhere). Raises ValueError for anything else."""
        try:
            found = pickle.loads(gzip.decompress(path.read_bytes()))
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError) as error:
            raise ValueError(f"{path}: no recording of this version; remove it: {error}") from error
        if not isinstance(found, Recording):
            raise ValueError(f"{path}: no recording; remove it")
        return found


class Recorder:
    """An environment that remembers what happens in another one."""

    def __init__(self, inner: Environment) -> None:
        self._inner = inner
        self._trees: list[AXTree] = []
        self._acted: list[tuple[Call, str]] = []
        self._failures: list[str] | None = None

    @property
    def task(self) -> Task:
        return self._inner.task

    @property
    def tree(self) -> AXTree:
        return self._inner.tree

    @property
    def over(self) -> bool:
        return self._inner.over

    def act(self, call: Call) -> str:
        self._trees.append(self._inner.tree)
        error = self._inner.act(call)
        self._acted.append((call, error))
        return error

    def failures(self) -> list[str]:
        self._failures = self._inner.failures()
        return self._failures

    def close(self) -> None:
        self._inner.close()

    def recording(self) -> Recording:
        """What was recorded. Raises ValueError for an episode that was not brought to its end."""
        if self._failures is None or not self.over:
            raise ValueError(f"{self.task.id}: the reference solution was not followed to its end")
        return Recording(self.task, tuple(self._trees), tuple(self._acted), tuple(self._failures))


class Recorded:
    """An environment that shows a recording: the recorded action leads on, any other is refused."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._at = 0

    @property
    def task(self) -> Task:
        return self._recording.task

    @property
    def tree(self) -> AXTree:
        return self._recording.trees[min(self._at, len(self._recording.trees) - 1)]

    @property
    def over(self) -> bool:
        return self._at == len(self._recording.trees)

    def act(self, call: Call) -> str:
        recorded, error = self._recording.acted[self._at]
        if call != recorded:
            return f"the recording goes on with {recorded}, not with {call}"
        self._at += 1
        return error

    def failures(self) -> list[str]:
        return list(self._recording.failures) if self.over else ["the reference solution was not followed to its end"]

    def close(self) -> None:
        pass
