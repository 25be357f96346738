"""What every observation method takes and gives: DESIGN's seam between pages and agents.

An `ObservationModule` is a method with its settings; `start(task)` opens an `ObservationSession` that lives for one
episode and holds all its state. Each step hands the session the current tree and gets an `Observation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from region4web.axtree import AXTree

__all__ = ["Action", "Observation", "ObservationModule", "ObservationSession", "Usage"]


@dataclass(frozen=True)
class Action:
    """What the agent did before this step. `text` as the agent wrote it (`click('41')`), `target` the element's id.

    `error` is what the environment said when the action failed, '' when it did not.
    """

    text: str
    target: str | None = None
    error: str = ""


@dataclass(frozen=True)
class Usage:
    """What one observation cost.

    `tokens` are those of the text given to the actor; `full_tokens` those of the whole tree in the same format;
    `auxiliary_tokens` maps a purpose (`selection`, `retrieval`, `summary`, `embedding`) to (prompt, completion) tokens
    of the language model calls made for it; `ms` milliseconds per stage; `counts` events worth counting (fallbacks,
    cache hits, view_all).
    """

    tokens: int = 0
    full_tokens: int = 0
    auxiliary_tokens: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ms: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """What an agent reads at one step. `shown` are the ids it may act on after reading `text`, in text order."""

    text: str
    shown: tuple[str, ...]
    usage: Usage = field(default_factory=Usage)
    trace: Mapping[str, Any] = field(default_factory=dict, repr=False)


class ObservationSession(Protocol):
    """One episode of one method."""

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation: ...


class ObservationModule(Protocol):
    """A method of observation with its settings."""

    @property
    def name(self) -> str: ...

    def start(self, task: str) -> ObservationSession: ...
