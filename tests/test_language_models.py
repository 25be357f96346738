"""Language models: the same call answered by a server, a local model, a script and a recording."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer, Reply

from region4web.errors import LanguageModelError
from region4web.language_models import (
    Completion,
    RecordedModel,
    ScriptedModel,
    TransformersModel,
    chat,
    language_model_by_name,
)
from region4web.openai_model import OpenAIModel

KEY = "sk-very-secret-key"


def model_at(server: OpenAIServer, **settings: Any) -> OpenAIModel:
    return OpenAIModel("tiny", server.url, KEY, **{"timeout_s": 5.0, "max_retries": 2, **settings})


def test_a_text_is_one_user_message_and_anything_else_must_be_messages() -> None:
    assert chat("hello") == [{"role": "user", "content": "hello"}]
    assert chat([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])[1]["content"] == "u"
    with pytest.raises(ValueError, match="role"):
        chat([{"role": "robot", "content": "x"}])
    with pytest.raises(ValueError, match="at least one"):
        chat([])


def test_a_server_answers_in_the_order_of_the_prompts_with_its_token_counts() -> None:
    with OpenAIServer(lambda request: Reply("echo " + request["messages"][-1]["content"], pause_s=0.05)) as server:
        completions = model_at(server, concurrency=4).complete([f"prompt {k}" for k in range(8)], max_tokens=9)
        assert [c.text for c in completions] == [f"echo prompt {k}" for k in range(8)]
        assert completions[0] == Completion("echo prompt 0", 2, 3)
        assert 2 <= server.most_at_once <= 4
        assert server.requests[0]["max_tokens"] == 9
        assert server.keys[0] == f"Bearer {KEY}"


def test_a_schema_reaches_the_server_as_a_strict_response_format() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False}
    with OpenAIServer(lambda request: '{"x": "1"}') as server:
        model_at(server).complete(["p"], max_tokens=9, schema=schema)
        assert server.requests[0]["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }


def test_too_many_requests_are_tried_again_after_the_pause_the_server_asks_for() -> None:
    turns = count()
    with OpenAIServer(lambda _: Reply("busy", 429, headers={"Retry-After": "0.1"}) if next(turns) < 2 else "done") as server:
        (completion,) = model_at(server).complete(["p"], max_tokens=5)
        assert (completion.text, completion.error) == ("done", "")
        assert len(server.requests) == 3


def test_too_many_requests_for_too_long_are_an_error_of_that_prompt_alone() -> None:
    def reply(request: dict[str, Any]) -> str | Reply:
        return Reply("busy", 429, headers={"Retry-After": "0.05"}) if request["messages"][0]["content"] == "b" else "fine"

    with OpenAIServer(reply) as server:
        a, b = model_at(server).complete(["a", "b"], max_tokens=5)
        assert (a.text, a.error) == ("fine", "")
        assert b.text == ""
        assert b.error.startswith("refused")


@pytest.mark.parametrize(("reply", "error"), [
    (Reply("half an answ", finish="length"), "truncated"),
    (Reply(""), "empty"),
    (Reply("<think>I was still thin", finish="length"), "truncated"),
    (Reply(body="this is no JSON"), "malformed"),
    (Reply(body='{"choices": []}'), "malformed"),
    (Reply(body="[]"), "malformed"),
    (Reply("slow", pause_s=1.5), "timeout"),
    (Reply("bad request", status=400), "refused"),
    (Reply("out of order", status=500), "refused"),
])  # fmt: skip
def test_a_bad_answer_is_named_and_never_raised(reply: Reply, error: str) -> None:
    with OpenAIServer(lambda _: reply) as server:
        (completion,) = model_at(server, timeout_s=0.5, max_retries=0).complete(["p"], max_tokens=5)
    assert completion.error.partition(":")[0] == error
    assert completion.text == ("half an answ" if reply.text.startswith("half") else "")


def test_the_thinking_part_of_an_answer_is_left_out() -> None:
    with OpenAIServer(lambda _: "<think>\nhm\n</think>\n\nblue") as server:
        assert model_at(server).complete(["p"], max_tokens=5)[0].text == "blue"


def test_a_server_that_is_not_there_and_a_refused_key_raise_and_never_show_the_key() -> None:
    dead = OpenAIModel("tiny", "http://127.0.0.1:9/v1", KEY, max_retries=0)
    with pytest.raises(LanguageModelError, match="unreachable"):
        dead.complete(["p"], max_tokens=5)
    assert KEY not in repr(dead)
    with (
        OpenAIServer(lambda _: Reply(f"Incorrect API key provided: {KEY}", status=401)) as server,
        pytest.raises(LanguageModelError) as raised,
    ):
        model_at(server).complete(["p"], max_tokens=5)
    assert KEY not in str(raised.value)
    assert "***" in str(raised.value)


def test_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(LanguageModelError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt-5-mini")


def test_a_script_answers_in_order_or_by_function_and_says_when_it_is_used_up() -> None:
    script = ScriptedModel(["one two", Completion("x", 5, 7)])
    assert script.complete(["a b c", "d"], max_tokens=5) == [Completion("one two", 3, 2), Completion("x", 5, 7)]
    with pytest.raises(LanguageModelError, match="2 replies"):
        script.complete(["e"], max_tokens=5)
    assert ScriptedModel(lambda messages: messages[-1]["content"].upper()).complete(["hi"], max_tokens=5)[0].text == "HI"


def test_a_recording_is_replayed_without_the_model_repeats_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    recorder = RecordedModel(path, ScriptedModel(["first\u2028line", "second", Completion("cut", 1, 1, "truncated: x")]))
    first = recorder.complete(["p", "p"], max_tokens=5)
    recorder.complete(["q"], max_tokens=5)
    replay = RecordedModel(path)
    assert replay.complete(["p"], max_tokens=5) + replay.complete(["p"], max_tokens=5) == first
    with pytest.raises(LanguageModelError, match="no recording"):
        replay.complete(["q"], max_tokens=5)  # a failed call is not recorded
    with pytest.raises(LanguageModelError, match="no recording"):
        replay.complete(["p"], max_tokens=6)
    path.write_text('{"prompt": 1}\n')
    with pytest.raises(LanguageModelError, match="line 1"):
        RecordedModel(path)
    with pytest.raises(LanguageModelError, match="no such file"):
        RecordedModel(tmp_path / "none.jsonl")


def test_a_name_gives_a_model_and_other_names_are_refused(tmp_path: Path) -> None:
    model = language_model_by_name("openai:Qwen3@http://127.0.0.1:9/v1")
    assert isinstance(model, OpenAIModel)
    assert (model.model, model.base_url) == ("Qwen3", "http://127.0.0.1:9/v1")
    for name in ("gpt", "openai:", "openai:@http://x", "recorded:"):
        with pytest.raises(ValueError, match="names no language model"):
            language_model_by_name(name)
    with pytest.raises(LanguageModelError, match="cannot be loaded"):
        language_model_by_name(f"transformers:{tmp_path / 'nothing'}")


@pytest.fixture(scope="module")
def tiny() -> TransformersModel:
    pytest.importorskip("transformers", reason="transformers is not installed (extra 'lm')")
    from tiny_models import tiny_qwen3, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    return TransformersModel(tiny_qwen3(tokenizer), tokenizer, name="tiny-qwen3", batch_tokens=400)


PROMPTS = [
    "Orders",
    "Product search form " * 6,
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Footer links"}],
    "a",
    "b b b",
]


def test_a_local_model_answers_a_batch_exactly_as_one_by_one(tiny: TransformersModel) -> None:
    batched = tiny.complete(PROMPTS, max_tokens=12)
    assert batched == [tiny.complete([prompt], max_tokens=12)[0] for prompt in PROMPTS]
    assert [c.prompt_tokens for c in batched] == [len(tiny.encode(prompt)) for prompt in PROMPTS]
    assert all(c.error.startswith(("truncated", "empty")) or c.completion_tokens <= 12 for c in batched)


def test_a_local_model_counts_the_tokens_it_writes_and_says_when_it_was_stopped(tiny: TransformersModel) -> None:
    (completion,) = tiny.complete(["Orders"], max_tokens=3)
    if completion.error:
        assert completion.error == "truncated: stopped after 3 tokens"
        assert completion.completion_tokens == 3


def test_a_prompt_longer_than_the_context_is_refused_and_not_cut(tiny: TransformersModel) -> None:
    long, short = tiny.complete(["Orders " * 3000, "Orders"], max_tokens=4)
    assert long.error.startswith("overlong prompt")
    assert long.text == ""
    assert short.prompt_tokens > 0


def test_thinking_is_switched_off_and_a_schema_is_told_in_the_prompt(tiny: TransformersModel) -> None:
    text = tiny.tokenizer.decode(tiny.encode("hi", schema={"type": "object"}))
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert '{"type": "object"}' in text


def test_a_model_folder_with_an_adapter_is_loaded_and_a_damaged_one_named(tiny: TransformersModel, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed (extra 'lm')")
    import torch
    from tiny_models import save_tiny_qwen3, tiny_qwen3, tiny_tokenizer

    base = save_tiny_qwen3(tmp_path / "base")
    adapted = peft.get_peft_model(tiny_qwen3(tiny_tokenizer()), peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=1.0)
    adapted.save_pretrained(str(tmp_path / "adapter"))
    plain = TransformersModel.load(base, device="cpu")
    changed = TransformersModel.load(base, adapter=tmp_path / "adapter", device="cpu")
    assert plain.complete(PROMPTS[:2], max_tokens=8) == tiny.complete(PROMPTS[:2], max_tokens=8)
    assert changed.complete(PROMPTS[:2], max_tokens=8) != plain.complete(PROMPTS[:2], max_tokens=8)
    (tmp_path / "base" / "config.json").write_text(json.dumps({"model_type": "none such"}))
    with pytest.raises(LanguageModelError, match="cannot be loaded"):
        TransformersModel.load(base)
