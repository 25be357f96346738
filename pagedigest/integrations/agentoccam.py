"""AgentOccam with any observation module: a drop-in subclass of its environment wrapper.

    import eval_webarena
    from pagedigest.integrations.agentoccam import actor_with_views, digest_environment_class
    from pagedigest.integrations.playwright import packaged_digest

    module = packaged_digest(budget_tokens=2000)
    eval_webarena.WebArenaEnvironmentWrapper = digest_environment_class(eval_webarena.WebArenaEnvironmentWrapper, module)

Enters: AgentOccam's `WebArenaEnvironmentWrapper` (its code is not imported here). Leaves: a subclass whose observation
text is the module's; image and node tree stay, so history highlighting goes on working. README.md here names the edits for `view_all`.
"""

from __future__ import annotations

from typing import Any

from pagedigest.integrations.webarena_agents import VIEW_ALL_MEANING, VIEWS, digest_environment
from pagedigest.observation import ObservationModule

__all__ = ["NAVIGATION_SPECIFICATION", "actor_with_views", "digest_environment_class"]

NAVIGATION_SPECIFICATION = VIEW_ALL_MEANING
"""Text of `AgentOccam/prompts/navigation_specifications/view_all.txt`."""


def digest_environment_class(base: type[Any], module: ObservationModule) -> type[Any]:
    """Subclass `WebArenaEnvironmentWrapper`. Works with `env.prune` on (dict observations) and off (texts)."""

    def replace_text(given: Any, digest: str) -> Any:
        return {**given, "text": digest} if isinstance(given, dict) else digest

    def raw_text(environment: Any) -> str:
        text = environment.obs["text"]
        return str(text[0]) if isinstance(text, (tuple, list)) else str(text)

    return digest_environment(base, module, replace_text=replace_text, raw_text=raw_text)


def actor_with_views(base: type[Any]) -> type[Any]:
    """Subclass AgentOccam's `Actor`: views are valid actions, and an id counts as shown only as a whole (`[7]`, not the 7 of `[1727]`)."""

    class ViewingActor(base):  # type: ignore[misc]
        def is_valid_action(self, action_str: str) -> Any:
            name = action_str.split("[")[0].split("(")[0].strip()
            if name in VIEWS:
                return True
            if name in ("click", "type") and "[" in action_str:
                element_id = action_str.split("[", 1)[1].split("]", 1)[0].strip()
                if f"[{element_id}]" not in self.get_observation_text():
                    return False
            return super().is_valid_action(action_str)

    ViewingActor.__name__ = f"Viewing{base.__name__}"
    return ViewingActor
