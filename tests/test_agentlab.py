"""AgentLab: arguments that pickle and hash, and a study of two agents on MiniWoB through to its results table."""

import importlib.util
import pickle
from dataclasses import dataclass

import pytest

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(
        importlib.util.find_spec("agentlab") is None, reason="agentlab is not installed (it needs an environment of its own)"
    ),
]


def test_arguments_pickle_hash_and_tell_modules_apart():
    from pagedigest.integrations.agentlab import DigestAgentArgs, ModuleArgs

    names = set()
    for module in (ModuleArgs(), ModuleArgs(budget_tokens=500), ModuleArgs("full_tree", None), ModuleArgs(segmenter="landmarks")):
        args = DigestAgentArgs(chat_model_args=CheatArgs(), flags=flags(), module=module)
        assert pickle.loads(pickle.dumps(args)).module == module
        assert hash(module) == hash(pickle.loads(pickle.dumps(module)))
        names.add(args.agent_name)
    assert len(names) == 4


def flags():
    from copy import deepcopy

    from agentlab.agents.generic_agent.agent_configs import FLAGS_GPT_4o

    return deepcopy(FLAGS_GPT_4o)


@dataclass
class CheatArgs:
    """AgentLab's own stand-in: clicks the first button of the prompt; solves click-test only."""

    model_name = "test/cheat"
    max_total_tokens = 10240
    max_input_tokens = 8000
    max_new_tokens = 128
    vision_support = False
    temperature = 0

    def make_model(self):
        from agentlab.llm.chat_api import CheatMiniWoBLLM

        return CheatMiniWoBLLM()

    def prepare_server(self):
        pass

    def close_server(self):
        pass


@pytest.mark.slow
@pytest.mark.browser
def test_a_study_of_two_agents_runs_to_its_table(tmp_path, monkeypatch, system_browser):
    from test_browsergym import miniwob_pages

    monkeypatch.setenv("MINIWOB_URL", f"file://{miniwob_pages()}/")
    monkeypatch.setenv("AGENTLAB_EXP_ROOT", str(tmp_path))
    import nltk

    monkeypatch.setattr(
        nltk, "download", lambda *args, **kwargs: True
    )  # an import of WebArena's package fetches data that MiniWoB never reads
    import bgym
    from agentlab.agents.generic_agent.generic_agent import GenericAgentArgs
    from agentlab.experiments.study import make_study

    from pagedigest.integrations.agentlab import DigestAgentArgs, ModuleArgs

    benchmark = bgym.DEFAULT_BENCHMARKS["miniwob"](n_repeats=2).subset_from_list(["miniwob.click-test"])
    agents = [
        GenericAgentArgs(chat_model_args=CheatArgs(), flags=flags()),
        DigestAgentArgs(chat_model_args=CheatArgs(), flags=flags(), module=ModuleArgs(budget_tokens=500)),
    ]
    study = make_study(agents, benchmark)
    study.run(n_jobs=1, parallel_backend="sequential", n_relaunch=1, exp_root=tmp_path)
    results, _, errors = study.get_results()
    assert len(results) >= 2
    assert (results["cum_reward"] == 1.0).all(), errors
    digest = results[results["stats.cum_obs_tokens"].notna()]
    assert len(digest) >= 1
    assert (digest["stats.cum_obs_full_tokens"] > 0).all()
