"""The part that AgentOccam's and SteP's environment wrappers share: digests in `observation()`, checks and views in `step()`.

Enters: an environment class of theirs. Leaves: a subclass whose `observation()` gives an observation module's text.
Their code is not imported; only these attributes are used: `obs`, `url`, `steps`, `max_steps`, `webarena_env`,
`get_objective()`, `step(action)`, `reset()`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pagedigest.integrations.webarena_text import tree_from_webarena_text
from pagedigest.observation import Action, Observation, ObservationModule, ObservationSession
from region4web.errors import SnapshotError

__all__ = ["VIEWS", "VIEW_ALL_MEANING", "digest_environment"]

VIEWS = ("view_all", "view_region", "find")
VIEW_ALL_MEANING = (
    "view_all: To see every region of this page in full, when the page digest lacks what you need. "
    "Regions of the digest that are not open show their purpose only."
)
_VIEW = re.compile(rf"\s*({'|'.join(VIEWS)})\b\s*(?:\[([^\]]*)\]|\(\s*['\"]?([^'\")]*)['\"]?\s*\))?")
_TARGET = re.compile(r"\s*(click|type|hover)\s*\[(\w+)\]")


def digest_environment(base: type[Any], module: ObservationModule, *, replace_text: Callable[[Any, str], Any], raw_text: Callable[[Any], str]) -> type[Any]:  # fmt: skip
    """A subclass of an environment wrapper that observes through `module`.

    `raw_text(environment)` is the whole page text after the base's `observation()` ran; `replace_text(base observation,
    digest)` puts the digest where the base puts its text. A view (`view_all [1]`, `view_region [R4]`, `find [words]`) counts
    as a step and never reaches the browser. An action on an id that was not shown is refused: it takes its step, and the next
    observation starts with a NOTE that says so. A page that cannot be read is shown as the base shows it, with a NOTE.
    """

    class DigestEnvironment(base):  # type: ignore[misc]
        digest_module = module

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._session: ObservationSession | None = None
            self._observed: tuple[Any, str] | None = None
            self._observation: Observation | None = None
            self._last_action: Action | None = None
            self._note = ""
            self.observations: list[Observation] = []
            super().__init__(*args, **kwargs)

        def reset(self) -> Any:
            self._session, self._observed, self._observation, self._last_action, self._note = None, None, None, None, ""
            return super().reset()

        def observation(self) -> Any:
            """The base's observation with the digest as its text. Called again at one step, it gives the same text."""
            given = super().observation()
            text = raw_text(self)
            key = (self.steps, text)
            if self._observed is None or self._observed[0] != key:
                self._observed = (key, self._digest(text, given))
            return replace_text(given, self._observed[1])

        def step(self, action: Any) -> Any:
            said = action if isinstance(action, str) else ""
            view = _VIEW.match(said)
            target = _TARGET.match(said)
            if view is not None:
                argument = (view[2] or view[3] or "").strip()
                call = "view_all()" if view[1] == "view_all" else f"{view[1]}({argument!r})"
                return self._held(Action(call), super().step)
            if target is not None and self._observation is not None and target[2] not in self._observation.shown:
                self._note = f"NOTE [{target[2]}] is not shown in the page digest, so nothing was done; use view_all to see every element"
                return self._held(Action(said, target[2], "not shown"), super().step)
            self._last_action = Action(said, target[2] if target else None)
            return super().step(action)

        def _held(self, action: Action, step: Callable[[Any], Any]) -> Any:
            """Let the base count the step without doing anything in the browser."""
            self._last_action = action
            return step("")

        def _digest(self, text: str, given: Any) -> str:
            note, self._note = self._note, ""
            try:
                tree = tree_from_webarena_text(text, url=str(getattr(self, "url", "") or ""))
            except SnapshotError as error:
                self._observation = None
                shown = given["text"] if isinstance(given, dict) else given
                return f"NOTE the page is shown whole: {error}\n{shown}"
            if self._session is None:
                self._session = module.start(self.get_objective())
            self._observation = self._session.observe(tree, last_action=self._last_action)
            self._last_action = None
            self.observations.append(self._observation)
            return f"{note}\n{self._observation.text}" if note else self._observation.text

    DigestEnvironment.__name__ = f"Digest{base.__name__}"
    return DigestEnvironment
