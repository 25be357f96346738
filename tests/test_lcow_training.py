"""LCoW's training loop: matching, rewards, retry with the hint, roll-outs, resume; end to end with a tiny model."""

import json
import re

import pytest

from pagedigest.evaluation.actions import Call, parse_call
from pagedigest.modules.lcow import LCoW
from region4web.axtree import AXTree
from region4web.language_models import ScriptedModel
from training import lcow
from training.lcow import Demonstration, best_contextualisation, judged_match, roll_out, same_action

PAGE = "RootWebArea 'Shop'\n\t[1] textbox 'Search'\n\t[2] button 'Go'\n\t[3] link 'Imprint'"
DEMO = Demonstration("e", 0, "Search for tents", (), PAGE, "fill('1', 'tents')")


def focused(text: str) -> str:
    return f"## Reasoning\nr\n## Focused Observation\n{text}\n[END]"


@pytest.mark.parametrize(
    ("reply", "call"),
    [
        ("I will click.\nclick('12')", Call("click", ("12",))),
        ("click(12)", Call("click", ("12",))),
        ("```python\nfill('a3', \"it's (here)\")\n```", Call("fill", ("a3", "it's (here)"))),
        ("fill(id='4', text='x')", Call("fill", ("4", "x"))),
        ("select_option('5', ['Blue'])", Call("select_option", ("5", "Blue"))),
        ("first click('1') then click('2')", Call("click", ("2",))),
        ("go_back()", Call("go_back", ())),
        ("click()", None),
        ("click('1'", None),
        ("rm('-rf')", None),
        ("click(__import__('os'))", None),
        ("", None),
    ],
)
def test_the_last_whole_call_of_a_reply_is_the_action(reply, call):
    assert parse_call(reply) == call


def test_exact_matching_is_strict_on_elements_and_the_judge_sees_only_free_texts():
    gold = Call("fill", ("1", "tents"))
    assert same_action(Call("fill", ("1", " Tents ")), gold)
    assert not same_action(Call("fill", ("2", "tents")), gold)
    judge = ScriptedModel(lambda messages: "Yes.")
    assert judged_match(judge, "t", Call("fill", ("1", "camping tents")), gold)
    assert not judged_match(judge, "t", Call("fill", ("2", "tents")), gold)
    assert not judged_match(judge, "t", Call("click", ("1",)), gold)
    assert len(judge.prompts) == 1
    assert not judged_match(ScriptedModel(lambda messages: "hard to say"), "t", Call("fill", ("1", "x")), gold)


def test_the_candidate_that_leads_most_actors_to_the_demonstrated_action_wins():
    def actor(messages):
        return "fill('1', 'tents')" if "[1]" in messages[-1]["content"] else "click('3')"

    def stubborn(messages):
        return "click('2')"

    def sample(prompt, count):
        return [focused("[3] link"), focused("[1] textbox"), "no form"][:count]

    candidates = best_contextualisation(DEMO, sample, [ScriptedModel(actor), ScriptedModel(actor), ScriptedModel(stubborn)], same_action, 3)
    assert [c.reward for c in candidates] == [2, 0, 0]
    assert candidates[0].matches == (True, True, False)
    assert not any(c.hinted for c in candidates)


def test_all_zero_leads_to_a_second_round_with_the_demonstrated_action_as_hint():
    def actor(messages):
        return "fill('1', 'tents')" if "hinted page" in messages[-1]["content"] else "noop()"

    def sample(prompt, count):
        return [focused("hinted page [1]" if DEMO.action in prompt[-1]["content"] else "[3] link")] * count

    candidates = best_contextualisation(DEMO, sample, [ScriptedModel(actor)], same_action, 2)
    assert [(c.reward, c.hinted) for c in candidates] == [(1, True), (1, True), (0, False), (0, False)]


class TwoPages:
    """A search box, then a button; reward 1 when both are used in order."""

    def reset(self, task_id):
        self.filled = False
        return "Search for tents", AXTree.from_text(PAGE)

    def step(self, call):
        if call.name == "fill" and call.target == "1":
            self.filled = True
            return AXTree.from_text(PAGE.replace("'Search'", "'Search' value='tents'")), 0.0, False
        return AXTree.from_text(PAGE), float(self.filled and call.target == "2"), True


def test_a_roll_out_records_what_was_seen_and_done_and_its_reward():
    actor = ScriptedModel(["fill('1', 'tents')", "hm", "click('2')"])
    contextualiser = ScriptedModel(lambda messages: focused("[1] textbox, [2] button"))
    steps, reward = roll_out(TwoPages(), "search", LCoW(contextualiser), actor)
    assert reward == 1.0
    assert [s.action for s in steps] == ["fill('1', 'tents')", "click('2')"]
    assert steps[1].history[0] == "fill('1', 'tents')"
    assert "value='tents'" in steps[1].page


def test_a_cut_off_last_line_is_dropped_and_the_run_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"key": "a"}\n{"key": "b')
    assert lcow.read_rows(path) == [{"key": "a"}]
    assert path.read_bytes() == b'{"key": "a"}\n'


def tiny_base(folder):
    """A random two-layer model with a tokenizer of bytes: enough to run the loop, not to learn."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate(alphabet)} | {"<eos>": len(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=4096,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_the_whole_loop_runs_resumes_and_leaves_weights(tmp_path, monkeypatch):
    base = tiny_base(tmp_path / "base")
    steps = tmp_path / "steps.jsonl"
    rows = [
        {
            "source": "own",
            "episode": "e",
            "step": k,
            "task": "Search for tents",
            "observation": PAGE,
            "action": action,
            "target": target,
            "url": "http://shop.example/",
        }
        for k, (action, target) in enumerate([("fill('1', 'tents')", "1"), ("click('2')", "2")])
    ]
    steps.write_text("".join(json.dumps(r) + "\n" for r in rows))

    def actor(messages):  # takes the demonstrated action whatever page it is shown
        return "click('2')" if re.search(r"^1\. fill", messages[-1]["content"], re.MULTILINE) else "fill('1', 'tents')"

    monkeypatch.setattr(lcow, "language_model_by_name", lambda name: ScriptedModel(actor))
    calls = []

    def sample(self, prompt, count):
        calls.append(prompt)
        return [focused("[1] textbox [2] button")] * count

    monkeypatch.setattr(lcow.Sampler, "sample", sample)
    out = tmp_path / "out"
    argv = ["--steps", str(steps), "--base", str(base), "--actor", "scripted", "--samples", "2", "--iterations", "2", "--epochs", "1", "--out", str(out),
            "--lora-rank", "2", "--accumulate", "1", "--answer-tokens", "8"]  # fmt: skip
    assert lcow.main(argv) == 0
    assert (out / "iteration-1" / "weights" / "adapter_model.safetensors").is_file()
    asked = len(calls)
    assert asked == 4
    assert lcow.main(argv) == 0
    assert len(calls) == asked, "a finished run asks nothing again"
    (out / "iteration-1" / "weights" / "lcow.json").unlink()
    kept = (out / "iteration-1" / "contextualisations.jsonl").read_text().splitlines(True)
    (out / "iteration-1" / "contextualisations.jsonl").write_text(kept[0] + kept[1][:20])
    assert lcow.main(argv) == 0
    assert len(calls) == asked + 1, "only the step that was lost is sampled again"


def test_settings_that_do_not_fit_are_refused_in_one_line(capsys):
    with pytest.raises(SystemExit) as stopped:
        lcow.main(["--base", "x", "--actor", "y", "--out", "z"])
    assert stopped.value.code == 2
    assert "--steps" in capsys.readouterr().err
