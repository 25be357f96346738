"""Any observation module inside any BrowserGym agent.

    from pagedigest.integrations.browsergym import DigestObservations, action_set_with_views

    observations = DigestObservations(packaged_digest(budget_tokens=2000))
    class MyAgent(Agent):
        action_set = action_set_with_views(subsets=["bid", "chat"])
        def obs_preprocessor(self, obs): return observations.preprocess(obs)

Enters: BrowserGym's observation dict. Leaves: the same dict with the module's text as `axtree_txt` (the one string that
prompts are built from), the whole tree's text as `axtree_full_txt`, and numbers for `AgentInfo.stats`. It never raises on
a page: one that cannot be read is shown whole, counted in the stats and logged.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pagedigest.integrations import browsergym_actions
from pagedigest.integrations.browsergym_actions import find, view_all, view_region
from pagedigest.observation import Action, Observation, ObservationModule, ObservationSession
from region4web.axtree import AXTree
from region4web.errors import MissingExtraError, SnapshotError
from region4web.render import render_tree

__all__ = ["VIEW_ACTIONS", "DigestAgent", "DigestObservations", "action_set_with_views", "goal_text", "is_view", "last_action_of"]

VIEW_ACTIONS: tuple[Callable[..., None], ...] = (view_all, view_region, find)
_CALL = re.compile(r"(\w+)\s*\(")
_TARGET = re.compile(r"\w+\s*\(\s*(?:bid\s*=\s*)?['\"]([^'\"]+)['\"]")
_VIEW_CALL = re.compile(r"\b(?:view_all\s*\([^()]*\)|(?:view_region|find)\s*\((?:[^()'\"]|'[^']*'|\"[^\"]*\")*\))")
_log = logging.getLogger(__name__)


def goal_text(observation: Mapping[str, Any]) -> str:
    """The task as text, from `goal_object` or `goal`; WebArena-Verified's answer format (after a `---` line) left out."""
    parts = observation.get("goal_object") or ()
    text = "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("type") == "text" and "text" in part)
    text = text or str(observation.get("goal") or "")
    return re.split(r"\n\s*---+\s*\n", text, maxsplit=1)[0].strip()


def last_action_of(observation: Mapping[str, Any]) -> Action | None:
    """What was done before, None at the first step. Of several calls in one action a view counts, else the last one."""
    text = str(observation.get("last_action") or "").strip()
    if not text:
        return None
    error = str(observation.get("last_action_error") or "").strip()
    if views := _VIEW_CALL.findall(text):
        return Action(views[-1], error=error)
    calls = [line.strip() for line in text.split("\n") if _CALL.match(line.strip())] or [text]
    target = _TARGET.match(calls[-1])
    return Action(calls[-1], target[1] if target else None, error)


def is_view(action: str) -> bool:
    """Whether an action asks to see more and does nothing else."""
    return _VIEW_CALL.fullmatch(action.strip()) is not None


class DigestObservations:
    """One agent's observations through a module. `reset()` begins another episode; a change of goal does so too."""

    def __init__(self, module: ObservationModule) -> None:
        self.module = module
        self.current: Observation | None = None
        self.stats: dict[str, float] = {}
        """Numbers of the latest step: tokens, full_tokens, obs_ms, auxiliary tokens, counts."""
        self._session: ObservationSession | None = None
        self._goal = ""
        self._tree: AXTree | None = None

    def reset(self) -> None:
        """Forget the episode."""
        self._session, self.current, self._tree, self._goal = None, None, None, ""
        self.stats = {}

    def preprocess(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the observation with `axtree_txt` digested and `axtree_full_txt` beside it."""
        full = observation.get("axtree_txt")
        shown = self.observe(observation)
        given = dict(observation)
        given["axtree_full_txt"] = full if isinstance(full, str) else (render_tree(self._tree) if self._tree is not None else "")
        given["axtree_txt"] = shown.text
        return given

    def observe(self, observation: Mapping[str, Any]) -> Observation:
        """The module's observation of a BrowserGym observation, by its last action."""
        started = time.perf_counter()
        goal = goal_text(observation)
        if self._session is None or goal != self._goal:
            self._session, self._goal = self.module.start(goal), goal
        try:
            self._tree = AXTree.from_browsergym(observation)
            seen = self._session.observe(self._tree, last_action=last_action_of(observation))
        except SnapshotError as error:
            _log.warning("the page is shown whole: %s", error)
            text = str(observation.get("axtree_txt") or "")
            seen = Observation(
                f"NOTE the page is shown whole: {str(error).splitlines()[0]}\n{text}",
                tuple(re.findall(r"^\t*\[(\w+)\] ", text, re.MULTILINE)),
            )
            seen = replace(seen, usage=replace(seen.usage, counts={"unread_pages": 1}))
        return self._keep(seen, started)

    def view(self, call: str) -> Observation:
        """Answer a view (`view_all()`) on the page at hand, without a step of the environment. Raises ValueError before the first page."""
        if self._session is None or self._tree is None:
            raise ValueError("no page yet: observe first")
        started = time.perf_counter()
        return self._keep(self._session.observe(self._tree, last_action=Action(call)), started)

    def _keep(self, seen: Observation, started: float) -> Observation:
        self.current = seen
        self.stats = {
            "obs_tokens": float(seen.usage.tokens),
            "obs_full_tokens": float(seen.usage.full_tokens),
            "obs_ms": 1000 * (time.perf_counter() - started),
            **{f"obs_ms_{stage}": float(ms) for stage, ms in seen.usage.ms.items()},
            **{f"obs_{purpose}_tokens": float(sum(spent)) for purpose, spent in seen.usage.auxiliary_tokens.items()},
            **{f"obs_{name}": float(count) for name, count in seen.usage.counts.items()},
        }
        return seen

    def html_page(self, *, screenshot: Any = None) -> str:
        """The regions of the page at hand as one HTML page, for `AgentInfo.html_page`; '' where the module has no regions."""
        page = getattr(self._session, "page", None) if self._tree is not None else None
        region_map = getattr(page, "region_map", None)
        if region_map is None:
            return ""
        from region4web.viewer import viewer_html

        return viewer_html(region_map, screenshot=_png(screenshot))


def action_set_with_views(subsets: Sequence[str] = ("bid", "chat", "infeas"), **options: Any) -> Any:
    """BrowserGym's `HighLevelActionSet` with the view actions; `options` go to it. Raises MissingExtraError without BrowserGym.

    `to_tool_description` works here too: BrowserGym's own looks custom actions up where they are not.
    """
    try:
        from browsergym.core.action.highlevel import HighLevelActionSet
    except ImportError as error:
        raise MissingExtraError(
            "BrowserGym is not installed; in an environment of its own run: pip install 'region4web[agents]'"
        ) from error

    class ViewingActionSet(HighLevelActionSet):  # type: ignore[misc]
        def to_tool_description(self, *args: Any, **kwargs: Any) -> Any:
            from browsergym.core.action import highlevel

            lent = {name: getattr(browsergym_actions, name) for name in browsergym_actions.__all__ if not hasattr(highlevel, name)}
            for name, function in lent.items():
                setattr(highlevel, name, function)
            try:
                return super().to_tool_description(*args, **kwargs)
            finally:
                for name in lent:
                    delattr(highlevel, name)

    custom = [*options.pop("custom_actions", ()), *VIEW_ACTIONS]
    return ViewingActionSet(subsets=tuple(dict.fromkeys([*subsets, "custom"])), custom_actions=custom, **options)


class DigestAgent:
    """A BrowserGym agent whose policy is a function: `policy(obs) -> action text`, given the digested observation.

    With `inner_views` a view is answered at once and the policy asked again, up to `view_limit` times a step, without a step
    of the environment; without, it is an action like any other. The stats say how often either happened.
    """

    def __init__(self, module: ObservationModule, policy: Callable[[dict[str, Any]], str], *, inner_views: bool = True, view_limit: int = 4, **action_set: Any) -> None:  # fmt: skip
        self.observations = DigestObservations(module)
        self.policy, self.inner_views, self.view_limit = policy, inner_views, view_limit
        self.action_set = action_set_with_views(**action_set)

    def obs_preprocessor(self, obs: dict[str, Any]) -> dict[str, Any]:
        return self.observations.preprocess(obs)

    def get_action(self, obs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        action, views, tokens = self.policy(obs), 0, self.observations.stats.get("obs_tokens", 0.0)
        while self.inner_views and views < self.view_limit and is_view(action):
            seen = self.observations.view(action.strip())
            views += 1
            tokens += seen.usage.tokens
            action = self.policy({**obs, "axtree_txt": seen.text})
        stats = {**self.observations.stats, "obs_inner_views": float(views), "obs_step_tokens": float(tokens)}
        return action, {"stats": stats, "html_page": self.observations.html_page(screenshot=obs.get("screenshot"))}


def _png(screenshot: Any) -> bytes | None:
    """BrowserGym's (H, W, 3) array as a PNG; None without one, or without pillow."""
    if screenshot is None:
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    import io

    out = io.BytesIO()
    Image.fromarray(screenshot).save(out, "PNG")
    return out.getvalue()
