"""AgentLab: arguments that pickle and hash, and studies on MiniWoB through to their results tables."""

import importlib.util
import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(
        importlib.util.find_spec("agentlab") is None, reason="agentlab is not installed (it needs an environment of its own)"
    ),
]


def test_arguments_pickle_hash_and_tell_modules_apart():
    from pagedigest.integrations.agentlab import DigestAgentArgs, ModuleArgs
    from pagedigest.integrations.agentlab_tool_use import DigestToolAgentArgs

    names = set()
    for module in (ModuleArgs(), ModuleArgs(budget_tokens=500), ModuleArgs("full_tree", None), ModuleArgs(segmenter="landmarks")):
        args = DigestAgentArgs(chat_model_args=ScriptedArgs(), flags=flags(), module=module)
        assert pickle.loads(pickle.dumps(args)).module == module
        assert hash(module) == hash(pickle.loads(pickle.dumps(module)))
        names.add(args.agent_name)
        names.add(DigestToolAgentArgs(model_args=ScriptedArgs(), module=module).agent_name)
        names.add(DigestAgentArgs(chat_model_args=ScriptedArgs(), flags=flags(), module=module, inner_views=False).agent_name)
    assert len(names) == 12
    assert "torch" not in pickle.dumps(args).decode("latin-1")


def test_a_tool_agent_that_shows_no_tree_is_refused():
    from pagedigest.integrations.agentlab_tool_use import DigestToolAgentArgs

    config = tool_config()
    config.obs.use_axtree = False
    with pytest.raises(ValueError, match=r"set config\.obs\.use_axtree"):
        DigestToolAgentArgs(model_args=ScriptedArgs(), config=config)


def flags():
    from copy import deepcopy

    from agentlab.agents.generic_agent.agent_configs import FLAGS_GPT_4o

    return deepcopy(FLAGS_GPT_4o)


def wanted_button(prompt):
    """The id of the button that these tasks want, in the newest tree of the prompt; None when it shows no button."""
    buttons = re.findall(r"^\s*\[(\w+)\] button '([^']*)'", prompt.rsplit("AXTree:", 1)[-1], re.MULTILINE)
    return next((key for key, name in buttons if name in ("ONE", "Close")), buttons[0][0] if buttons else None)


@dataclass
class ScriptedArgs:
    """A model for click-test, click-test-2 and click-dialog: reads the tree in the prompt, asks for a view when it shows no button."""

    model_name = "test/scripted"
    max_total_tokens = 10240
    max_input_tokens = 8000
    max_new_tokens = 128
    vision_support = False
    temperature = 0
    api = "openai"

    def make_model(self):
        return Scripted()

    def get_message_builder(self):
        from agentlab.llm.response_api import OpenAIChatCompletionAPIMessageBuilder

        return OpenAIChatCompletionAPIMessageBuilder

    def prepare_server(self):
        pass

    def close_server(self):
        pass


class Scripted:
    """Answers GenericAgent's chats and ToolUseAgent's payloads."""

    def __init__(self):
        self.reset_stats()

    def reset_stats(self):
        from agentlab.llm.tracking import Stats

        self.stats = Stats()

    def get_stats(self):
        return {"n_scripted": 1}

    def __call__(self, asked):
        from agentlab.llm.llm_utils import Discussion
        from agentlab.llm.response_api import LLMOutput, ToolCall, ToolCalls

        if hasattr(asked, "tools"):
            assert {"view_all", "view_region", "find"} <= {tool["name"] for tool in asked.tools}
            key = wanted_button("\n".join(part.get("text", "") for message in asked.messages for part in message.content))
            call = ToolCall("click", {"bid": key}) if key else ToolCall("view_all", {})
            return LLMOutput(action=f"click('{key}')" if key else "view_all()", tool_calls=ToolCalls([call], []))
        key = wanted_button(asked.to_string() if isinstance(asked, Discussion) else str(asked))
        action = f"click('{key}')" if key else "view_all()"
        return {"role": "assistant", "content": f"<action>\n{action}\n</action>"}


def tool_config():
    from agentlab.agents.tool_use_agent.tool_use_agent import GeneralHints, Goal, Obs, PromptConfig, Summarizer, TaskHint

    return PromptConfig(
        goal=Goal(goal_as_system_msg=True),
        obs=Obs(use_screenshot=False, use_axtree=True),
        summarizer=Summarizer(do_summary=False),
        general_hints=GeneralHints(use_hints=False),
        task_hint=TaskHint(use_task_hint=False),
        keep_last_n_obs=None,
        action_subsets=("bid",),
    )


def study_of(agents, tasks, tmp_path, monkeypatch, backend, *, n_jobs=1):
    """Run a study on MiniWoB; its results and errors."""
    from test_browsergym import miniwob_pages

    monkeypatch.setenv("MINIWOB_URL", f"file://{miniwob_pages()}/")
    monkeypatch.setenv("AGENTLAB_EXP_ROOT", str(tmp_path))
    import nltk

    monkeypatch.setattr(
        nltk, "download", lambda *args, **kwargs: True
    )  # an import of WebArena's package fetches data that MiniWoB never reads
    import bgym
    from agentlab.experiments.study import make_study

    benchmark = bgym.DEFAULT_BENCHMARKS["miniwob"](n_repeats=1).subset_from_list([f"miniwob.{task}" for task in tasks])
    study = make_study(agents, benchmark)
    study.run(n_jobs=n_jobs, parallel_backend=backend, n_relaunch=1, exp_root=tmp_path)
    results, _, errors = study.get_results()
    return results.reset_index(), errors


@pytest.mark.slow
@pytest.mark.browser
def test_a_study_of_three_agents_runs_to_its_table_and_shows_its_regions(tmp_path, monkeypatch, system_browser):
    from agentlab.agents.generic_agent.generic_agent import GenericAgentArgs
    from agentlab.experiments.loop import ExpResult

    from pagedigest.integrations.agentlab import DigestAgentArgs, ModuleArgs
    from pagedigest.integrations.agentlab_tool_use import DigestToolAgentArgs

    tasks = ["click-test-2", "click-dialog"]
    agents = [
        GenericAgentArgs(chat_model_args=ScriptedArgs(), flags=flags()),
        DigestAgentArgs(chat_model_args=ScriptedArgs(), flags=flags(), module=ModuleArgs(budget_tokens=500)),
        DigestToolAgentArgs(model_args=ScriptedArgs(), config=tool_config(), module=ModuleArgs("purposes_only", None)),
    ]
    results, errors = study_of(agents, tasks, tmp_path, monkeypatch, "sequential")
    assert len(results) == 6
    assert (results["cum_reward"] == 1.0).all(), errors
    assert results["agent.agent_name"].nunique() == 3
    digests = results[results["stats.cum_obs_tokens"].notna()]
    assert len(digests) == 4
    assert (digests["stats.cum_obs_full_tokens"] > 0).all()
    viewed = digests[digests["agent.agent_name"].str.startswith("DigestToolUse")]
    assert sorted(viewed["stats.cum_obs_inner_views"]) == [0, 1], (
        "purposes name no button, so one view was asked for; a dialog is always shown"
    )
    assert (viewed["n_steps"] == 1).all(), "and the view took no step"
    step = ExpResult(digests["exp_dir"].iloc[0]).get_step_info(0)
    assert "<html" in step.agent_info["html_page"]
    assert step.obs["axtree_txt"].startswith("PAGE ")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("backend", ["joblib", "ray"])
def test_a_study_runs_in_other_processes(tmp_path, monkeypatch, system_browser, backend):
    from pagedigest.integrations.agentlab import DigestAgentArgs, ModuleArgs

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # where workers find the scripted model
    agents = [
        DigestAgentArgs(chat_model_args=ScriptedArgs(), flags=flags(), module=ModuleArgs(name, 500), inner_views=inner)
        for name, inner in (("pagedigest", True), ("purposes_only", False))
    ]
    results, errors = study_of(agents, ["click-test"], tmp_path, monkeypatch, backend, n_jobs=2)
    assert len(results) == 2
    assert (results["cum_reward"] == 1.0).all(), errors
    by_steps = results.sort_values("n_steps")["n_steps"].tolist()
    assert by_steps == [1, 2], "the second asked for a view as a step of the environment"
