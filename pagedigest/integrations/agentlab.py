"""AgentLab's GenericAgent reading through any observation module; `agentlab_tool_use` has the tool-use agent.

    from pagedigest.integrations.agentlab import DigestAgentArgs, ModuleArgs
    args = DigestAgentArgs(chat_model_args=..., flags=..., module=ModuleArgs("pagedigest", budget_tokens=2000))
    make_study([args, AGENT_4o], "miniwob").run()

Enters: AgentLab's agent arguments. Leaves: arguments that pickle, hash, name each module apart and build models only in the
worker (`make_agent`). Guarded against: MiniWoB's forced HTML, a reset before the module exists, token statistics of the wrong
text, views that break the agent's history. Needs AgentLab, in an environment of its own (AGENTLAB.md here).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pagedigest.integrations.browsergym import DigestObservations, action_set_with_views, is_view
from pagedigest.observation import ObservationModule
from region4web.errors import MissingExtraError

try:
    from agentlab.agents.generic_agent.generic_agent import GenericAgent, GenericAgentArgs
    from bgym import HighLevelActionSetArgs
except ImportError as error:
    raise MissingExtraError("AgentLab is not installed; integrations/AGENTLAB.md has a recipe for an environment of its own") from error

__all__ = ["DigestActionSetArgs", "DigestAgent", "DigestAgentArgs", "Digesting", "ModuleArgs", "agent_name"]

VIEW_LIMIT = 4
"""Inner views that one step may take."""


@dataclass(frozen=True)
class ModuleArgs:
    """Which observation module, as values: picklable, hashable, without a model in it. `model` names the language model
    of a module that asks one (`openai:MODEL@BASE_URL`)."""

    name: str = "pagedigest"
    budget_tokens: int | None = 2000
    segmenter: str = "best"
    abstractor: str = "embedded"
    model: str = ""

    def make(self) -> ObservationModule:
        """Load models and build the module. Raises ValueError for an unknown name."""
        from pagedigest.evaluation.systems import default_parts, system_by_name
        from region4web.language_models import language_model_by_name

        model = language_model_by_name(self.model) if self.model else None
        return system_by_name(self.name, default_parts(self.segmenter, self.abstractor, model), budget_tokens=self.budget_tokens)

    def __str__(self) -> str:
        parts = [self.name, "" if self.budget_tokens is None else str(self.budget_tokens)]
        parts += [value for value, usual in ((self.segmenter, "best"), (self.abstractor, "embedded"), (self.model, "")) if value != usual]
        return "-".join(part for part in parts if part)


@dataclass
class DigestActionSetArgs(HighLevelActionSetArgs):  # type: ignore[misc]
    """A benchmark's action set with the view actions."""

    def make_action_set(self) -> Any:
        settings = {f.name: getattr(self, f.name) for f in fields(HighLevelActionSetArgs) if f.name not in ("subsets",)}
        return action_set_with_views(subsets=self.subsets, **settings)


@dataclass
class DigestAgentArgs(GenericAgentArgs):  # type: ignore[misc]
    """Arguments of a GenericAgent that reads through a module. `inner_views`: a view takes no step of the environment."""

    module: ModuleArgs = field(default_factory=ModuleArgs)
    inner_views: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.agent_name = agent_name("DigestAgent", self.module, self.inner_views, self.chat_model_args)

    def set_benchmark(self, benchmark: Any, demo_mode: Any) -> None:
        html = self.flags.obs.use_html
        super().set_benchmark(benchmark, demo_mode)
        self.flags.obs.use_html = html  # MiniWoB would force the raw page beside the digest
        self.flags.action.action_set = DigestActionSetArgs(**asdict(self.flags.action.action_set))

    def make_agent(self) -> DigestAgent:
        return DigestAgent(self.chat_model_args, self.flags, self.max_retry, self.module.make(), inner_views=self.inner_views)


def agent_name(kind: str, module: ModuleArgs, inner_views: bool, model_args: Any) -> str:
    """Distinct for all that differs: AgentLab's tables and viewer merge what has one name."""
    return f"{kind}-{module}{'' if inner_views else '-env-views'}-{getattr(model_args, 'model_name', '')}".replace("/", "_")


class Digesting:
    """What digesting adds to an AgentLab agent class: the observation, views, statistics. Comes before the agent in the bases."""

    observations: DigestObservations
    inner_views: bool

    def obs_preprocessor(self, obs: dict[str, Any]) -> dict[str, Any]:
        return self.observations.preprocess(super().obs_preprocessor(obs))  # type: ignore[misc]

    def get_action(self, obs: Any) -> tuple[Any, Any]:
        action, info = super().get_action(obs)  # type: ignore[misc]
        tokens, views = self.observations.stats.get("obs_tokens", 0.0), 0
        spent = dict(_numbers(info.stats))
        while self.inner_views and views < VIEW_LIMIT and isinstance(action, str) and is_view(action):
            self._forget_last_turn()
            seen = self.observations.view(action)
            views, tokens = views + 1, tokens + seen.usage.tokens
            action, info = super().get_action({**obs, "axtree_txt": seen.text})  # type: ignore[misc]
            for name, value in _numbers(info.stats):
                spent[name] = spent.get(name, 0) + value
        info.stats = {
            **info.stats,
            **(spent if views else {}),
            **self.observations.stats,
            "obs_inner_views": views,
            "obs_step_tokens": tokens,
        }
        info.html_page = self.observations.html_page(screenshot=obs.get("screenshot")) or info.html_page
        return action, info

    def _forget_last_turn(self) -> None:
        """A view is no step: History asserts that there is one observation more than actions."""
        for name in ("obs_history", "actions", "memories", "thoughts"):
            kept = getattr(self, name, None)
            if isinstance(kept, list) and kept:
                kept.pop()


class DigestAgent(Digesting, GenericAgent):  # type: ignore[misc]
    """GenericAgent whose `axtree_txt` is a module's text."""

    def __init__(self, chat_model_args: Any, flags: Any, max_retry: int, module: ObservationModule, *, inner_views: bool = True) -> None:
        self.observations = DigestObservations(module)  # before the base: it ends by calling reset()
        self.inner_views = inner_views
        super().__init__(chat_model_args, flags, max_retry)

    def reset(self, seed: Any = None) -> None:
        super().reset(seed)
        self.observations.reset()


def _numbers(stats: Any) -> Iterator[tuple[str, float]]:
    for name, value in dict(stats or {}).items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value
