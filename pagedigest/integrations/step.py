"""SteP with any observation module: a drop-in subclass of its environment wrapper, and `view_all` as a low-level action.

    from webagents_step.environment import webarena            # sets site addresses of its authors: set yours after this line
    from pagedigest.integrations.step import digest_environment_class, with_view_all
    from pagedigest.integrations.playwright import packaged_digest

    module = packaged_digest(budget_tokens=2000)
    webarena.WebArenaEnvironmentWrapper = digest_environment_class(webarena.WebArenaEnvironmentWrapper, module)
    actions, prompts = with_view_all(config.agent.low_level_action_list, action_to_prompt_dict)

Enters: SteP's `WebArenaEnvironmentWrapper` (its code is not imported here). Leaves: a subclass whose `observation()` is the
module's text. `with_view_all` matters: SteP asks its model without end about an action that no list knows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from pagedigest.integrations.webarena_agents import VIEW_ALL_MEANING, digest_environment
from pagedigest.observation import ObservationModule

__all__ = ["digest_environment_class", "with_view_all"]

VIEW_ALL_INSTRUCTION = VIEW_ALL_MEANING.replace("view_all:", "view_all [1]:", 1)


def digest_environment_class(base: type[Any], module: ObservationModule) -> type[Any]:
    """Subclass SteP's `WebArenaEnvironmentWrapper`; observations are texts."""

    def raw_text(environment: Any) -> str:
        text = environment.obs["text"]
        return str(text[0]) if isinstance(text, (tuple, list)) else str(text)

    return digest_environment(base, module, replace_text=lambda given, digest: digest, raw_text=raw_text)


def with_view_all(
    low_level_actions: Sequence[str], prompts: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Copies of SteP's action list and policy prompts that know `view_all`. Raises ValueError for a prompt without an instruction."""
    actions = list(dict.fromkeys([*low_level_actions, "view_all"]))
    changed: dict[str, dict[str, Any]] = {}
    for name, prompt in prompts.items():
        if not isinstance(prompt.get("instruction"), str):
            raise ValueError(f"the prompt of {name!r} has no 'instruction' text to add view_all to")
        changed[name] = copy.deepcopy(dict(prompt))
        if VIEW_ALL_INSTRUCTION not in prompt["instruction"]:
            changed[name]["instruction"] = f"{prompt['instruction'].rstrip()}\n{VIEW_ALL_INSTRUCTION}\n"
    return actions, changed
