"""AgentLab's ToolUseAgent reading through any observation module, with the views as tools.

    from pagedigest.integrations.agentlab_tool_use import DigestToolAgentArgs
    args = DigestToolAgentArgs(model_args=..., config=PromptConfig(obs=Obs(use_axtree=True), ...), module=ModuleArgs())

Enters: AgentLab's agent arguments. Leaves: arguments that pickle and build models only in the worker. Apart from `agentlab`
because AgentLab 0.4.2's tool-use agent does not import with anthropic 1.0 or later.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from pagedigest.integrations.agentlab import Digesting, ModuleArgs, agent_name
from pagedigest.integrations.browsergym import DigestObservations, action_set_with_views
from pagedigest.observation import ObservationModule
from region4web.errors import MissingExtraError

try:
    from agentlab.agents.tool_use_agent.tool_use_agent import DEFAULT_PROMPT_CONFIG, ToolUseAgent, ToolUseAgentArgs
except ImportError as error:
    raise MissingExtraError(f"AgentLab's tool-use agent cannot be imported ({error}); run: pip install 'anthropic<1'") from error

__all__ = ["DigestToolAgent", "DigestToolAgentArgs"]


@dataclass
class DigestToolAgentArgs(ToolUseAgentArgs):  # type: ignore[misc]
    """Arguments of a ToolUseAgent that reads through a module; the views are tools. The configuration must show the tree (`use_axtree`)."""

    config: Any = None
    module: ModuleArgs = field(default_factory=ModuleArgs)
    inner_views: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.config = self.config or replace(copy.deepcopy(DEFAULT_PROMPT_CONFIG), action_subsets=("bid",))  # AgentLab's has "coord"
        if not self.config.obs.use_axtree:
            raise ValueError("the module's text stands where the tree does: set config.obs.use_axtree=True")
        self.agent_name = agent_name("DigestToolUse", self.module, self.inner_views, self.model_args)

    def make_agent(self) -> DigestToolAgent:
        actions = self.action_set or action_set_with_views(self.config.action_subsets, multiaction=self.config.multiaction)
        return DigestToolAgent(self.model_args, self.config, actions, self.module.make(), inner_views=self.inner_views)


class DigestToolAgent(Digesting, ToolUseAgent):  # type: ignore[misc]
    """ToolUseAgent whose `axtree_txt` is a module's text."""

    def __init__(self, model_args: Any, config: Any, action_set: Any, module: ObservationModule, *, inner_views: bool = True) -> None:
        self.observations = DigestObservations(module)
        self.inner_views = inner_views
        super().__init__(model_args, config, action_set)
