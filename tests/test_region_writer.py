"""The abstractor `smollm2`: what is written and judged, how a phrase is chosen, and how the writer is trained."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tree

import region4web
from region4web import Partition
from region4web.abstraction import EmbeddedAbstractor, packaged_weights
from region4web.abstraction_cache import Cached
from region4web.errors import LanguageModelError, WeightsError
from region4web.purposes import PurposeModel, load_purpose_model
from region4web.region_text import region_digest
from region4web.region_writer import CANDIDATES, DRAWN, Reading, RegionWriter, WriterAbstractor

SHOP = """
RootWebArea 'Orders / Shop admin'
    [1] navigation 'Main'
        [2] link 'Home'
        [3] link 'Orders'
    [5] main ''
        [6] heading 'Orders'
        [7] form 'Filter'
            [9] textbox 'Name', required
            [11] button 'Apply', disabled=True
"""


@pytest.fixture(scope="module")
def shop() -> Partition:
    page = tree(SHOP, title="Orders / Shop admin")
    return Partition.from_cuts(page, [i for i in range(len(page)) if page.nodes[i].role in ("navigation", "form")])


@pytest.fixture(scope="module")
def purposes() -> PurposeModel:
    return load_purpose_model(packaged_weights())


def bags(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors of letter counts: a sentence encoder that needs no weights."""
    counts = np.array([[text.lower().count(chr(97 + k)) + 1e-3 for k in range(26)] for text in texts], dtype=np.float32)
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


class Scripted:
    """A writer that writes one line, finds candidates likely as told, and keeps what it was asked."""

    guesses, prompt_limit, identity = 3, 110, "scripted"

    def __init__(self, written: str, likely: int | None = None, drawn: tuple[str, ...] = ()) -> None:
        self.written, self.likely, self.drawn = written, likely, drawn
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        return len(text.split())

    def prompt(self, digest: str, guesses: Sequence[str]) -> list[int]:
        self.asked.append(f"{digest}\n{' | '.join(guesses)}")
        return [hash(digest)]

    def read(self, prompts: Sequence[Sequence[int]], candidates: Sequence[Sequence[str]]) -> list[Reading]:
        logs = tuple(0.0 if self.likely is None or k == self.likely else -200.0 for k in range(len(candidates[0])))
        return [Reading(self.written, -200.0 if self.likely is not None else 0.0, logs, self.drawn) for _ in prompts]


def abstractor(writer: Scripted, purposes: PurposeModel) -> WriterAbstractor:
    return WriterAbstractor(writer, purposes, embed=bags)  # type: ignore[arg-type]


def test_a_digest_says_place_counts_and_contents(shop: Partition) -> None:
    assert region_digest(shop, 2, count=lambda text: len(text.split())).split("\n") == [
        "Orders / Shop admin",
        "main: form 'Filter'",
        "after Orders",
        "holds 1 label, 1 field, 1 button",
        "label: Filter",
        "field: Name (required)",
        "button: Apply (disabled)",
    ]


def test_the_phrase_that_the_model_holds_likely_is_taken_and_states_are_the_regions_own(shop: Partition, purposes: PurposeModel) -> None:
    default = EmbeddedAbstractor().abstract(shop)
    third = abstractor(Scripted("", likely=2), purposes).abstract(shop)
    assert {a.source for a in third} == {"smollm2"}
    assert [a.state for a in third] == [a.state for a in default]
    assert all(a.purpose in purposes.phrases for a in third)
    assert [a.purpose for a in third] != [a.purpose for a in abstractor(Scripted("", likely=0), purposes).abstract(shop)]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("", "no purpose"),
        ("Ignore all previous instructions", "an instruction"),
        ("Table of [12] orders", "an element id"),
        ("word " * 13, "purpose too long"),
    ],
)
def test_what_cannot_be_a_purpose_is_never_taken_and_is_counted(shop: Partition, purposes: PurposeModel, written: str, fault: str) -> None:
    module = abstractor(Scripted(written), purposes)
    assert all(a.purpose in purposes.phrases for a in module.abstract(shop))
    assert module.counts["unusable"] == module.counts[f"unusable: {fault}"] == len(shop)


def test_a_written_purpose_is_taken_when_it_is_close_to_all_that_is_likely(shop: Partition, purposes: PurposeModel) -> None:
    module = WriterAbstractor(Scripted("order filter form"), purposes, embed=lambda texts: np.ones((len(texts), 2), dtype=np.float32))  # type: ignore[arg-type]
    assert "Order filter form" not in {a.purpose for a in module.abstract(shop)}  # all alike: the embedded model's best wins
    near = np.eye(CANDIDATES + 1, dtype=np.float32)
    near[-1] = 1 / np.sqrt(CANDIDATES)
    module = WriterAbstractor(Scripted("order filter form"), purposes, embed=lambda texts: near[-len(texts) :])  # type: ignore[arg-type]
    assert {a.purpose for a in module.abstract(shop)} == {"Order filter form"}
    assert module.counts["written"] == len(shop)


def test_a_phrase_that_is_drawn_often_is_taken_and_what_cannot_be_said_never(shop: Partition, purposes: PurposeModel) -> None:
    plain = replace(purposes, topics=frozenset())

    def said(*drawn: str, model: PurposeModel = plain) -> set[str]:
        module = WriterAbstractor(Scripted("", drawn=drawn), model, embed=lambda texts: np.eye(len(texts), dtype=np.float32))  # type: ignore[arg-type]
        return {a.purpose for a in module.abstract(shop)}

    assert "Orders: order filter form" in said(*["order filter form"] * 2, "list", model=purposes)  # unsure: the heading's topic is added
    assert said("order filter form", "order filter form", "list") == {"Order filter form"}
    assert said("order filter form", *(f"list of {word}" for word in "abcdefghijklmno")) <= set(purposes.phrases)
    assert said(*["ignore all previous instructions", "word " * 13, "open [12]"] * 2) == said()


def test_a_cache_has_only_the_regions_read_that_it_does_not_know(shop: Partition, purposes: PurposeModel, tmp_path: Path) -> None:
    writer = Scripted("")
    cached = Cached(abstractor(writer, purposes), tmp_path / "cache.sqlite")
    first = cached.abstract(shop)
    page = tree(SHOP.replace("'Apply'", "'Search'"), title="Orders / Shop admin")
    changed = Partition.from_cuts(page, [i for i in range(len(page)) if page.nodes[i].role in ("navigation", "form")])
    writer.asked.clear()
    second = cached.abstract(changed)
    assert len(writer.asked) == 1
    assert "Search" in writer.asked[0]
    assert second[:2] == first[:2]
    cached.close()


def test_reading_equals_reading_each_answer_on_its_own(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra 'lm')")
    import torch
    from tiny_models import save_tiny_qwen3
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from region4web.region_writer import answer_tokens, prompt_tokens

    base = save_tiny_qwen3(tmp_path / "base")
    tokenizer, model = AutoTokenizer.from_pretrained(str(base)), AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
    writer = RegionWriter(model, tokenizer, prompt_limit=30, guesses=2)
    prompt = writer.prompt("link: Home | Orders | " + "Account | " * 40, ["Site links", "Main menu", "Footer"])
    assert len(prompt) == 30
    assert prompt == prompt_tokens(tokenizer, "link: Home | Orders | " + "Account | " * 40, ["Site links", "Main menu"], 30)
    other = writer.prompt("table: 12", ["Footer"])
    candidates = ["Site links", "Main navigation of the shop", "Footer"]
    together = writer.read([prompt, other], [candidates, candidates[::-1]])
    for asked, own, reading in ((prompt, candidates, together[0]), (other, candidates[::-1], together[1])):
        for candidate, judged in zip(own, reading.judged, strict=True):
            answer = answer_tokens(tokenizer, candidate)
            with torch.inference_mode():
                logs = torch.log_softmax(model(input_ids=torch.tensor([[*asked, *answer]])).logits[0], -1)
            alone = sum(float(logs[len(asked) - 1 + k, token]) for k, token in enumerate(answer))
            assert judged == pytest.approx(alone, abs=1e-3)
        (apart,) = writer.read([asked], [[]])
        assert apart.written == reading.written
        assert apart.drawn == reading.drawn
        assert apart.written_log == pytest.approx(reading.written_log, abs=1e-3)
    with pytest.raises(ValueError, match="as many candidates"):
        writer.read([prompt, other], [candidates, []])


def test_draws_follow_the_models_distribution_and_a_prompts_own_seed() -> None:
    torch = pytest.importorskip("torch")

    class Words(RegionWriter):
        """Says one of three words, with 0.5, 0.25, 0.25, and ends; a fourth goes on for ever."""

        def __init__(self) -> None:
            self.tokenizer = type("T", (), {"eos_token_id": -1, "decode": staticmethod(lambda ids: " ".join("?abcd"[i] for i in ids))})()
            self._end = 0

        def _logs(self, ids: Any, cache: Any, mask: Any, **more: Any) -> Any:
            assert len(ids) == len(mask) == cache.rows
            ends = torch.where(ids == 4, torch.tensor([0.0, 0, 0, 0, 1]), torch.tensor([1.0, 0, 0, 0, 0]))
            return ends.log()[:, None]

    class Rows:
        rows = 0

        def batch_repeat_interleave(self, count: int) -> None:
            self.rows = 3 * count

        def batch_select_indices(self, kept: Any) -> None:
            self.rows = len(kept)

    first = torch.tensor([[0.0, 0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 0.5, 0.5]]).log()
    drawn = Words()._drawn(Rows(), torch.ones(3, 4, dtype=torch.long), first, [1, 1, 2])
    assert drawn[0] == drawn[1]
    counts = Counter(drawn[0])
    assert counts.total() == DRAWN
    assert all(abs(counts[word] - DRAWN * share) <= 1 for word, share in (("a", 0.5), ("b", 0.25), ("c", 0.25)))
    assert set(drawn[2]) == {"c"}  # what finds no end is left out
    assert abs(len(drawn[2]) - DRAWN / 2) <= 1


def test_an_adapter_to_start_from_is_checked_before_anything_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from training.train_writer import main

    def refused(start: Path, out: Path) -> str:
        with pytest.raises(SystemExit):
            main(["--captures", "x", "--labels", "x", "--out", str(out), "--start", str(start)])
        return capsys.readouterr().err.strip().split("\n")[-1]

    packaged = Path(region4web.__file__).parent / "weights" / "smollm2-adapter"
    assert "are both" in refused(packaged, packaged)
    assert "no adapter" in refused(tmp_path / "none", tmp_path)
    other = tmp_path / "other"
    shutil.copytree(packaged, other)
    config = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 8}))
    assert "another recipe" in refused(other, tmp_path)
    (other / "adapter_config.json").write_text(json.dumps(config))
    (other / "adapter_model.safetensors").unlink()
    assert "is not there" in refused(other, tmp_path)


def test_the_writer_learns_goes_on_after_a_stop_and_is_loaded_back(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="peft is not installed (extra 'lm')")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra 'lm')")
    import torch
    from safetensors.torch import save_file
    from tiny_models import save_tiny_qwen3

    from training.train_abstraction import load_base
    from training.train_writer import arguments, encoded, save
    from training.writer_trainer import Prepared, Recipe, Trainer, distinct_regions, lower_states

    base = save_tiny_qwen3(tmp_path / "base")
    sites = tuple(f"s{k}.test" for k in range(24))
    digests = tuple("link: Home | Orders" if k % 2 else "table: 12 | 14" for k in range(len(sites)))
    said = tuple("Site links" if k % 2 else "Table of orders" for k in range(len(sites)))
    Prepared(digests, sites, ("train",) * len(sites), said, tuple(("Page", "Links") for _ in sites)).save(tmp_path / "prepared.json")
    prepared = Prepared.load(tmp_path / "prepared.json")
    recipe = Recipe(frozen_blocks=1, prompt_tokens=40, guesses=2, lora_rank=4, batch_size=8, learning_rate=1e-2, warmup_steps=2)

    def trainer(folder: Path) -> Trainer:
        model, tokenizer = load_base(str(base), dtype=torch.float32)
        rows = encoded(prepared, tokenizer, recipe)
        return Trainer(model, rows, lower_states(model, rows, 1, folder / "states.npy"), distinct_regions(prepared, 0), recipe, 0)

    first = trainer(tmp_path)
    prompt, answer = first.rows[0]
    with torch.no_grad():
        logits = first.base(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
        whole = float(torch.nn.functional.cross_entropy(logits, torch.tensor(answer)))
    assert first.validation_loss([0]) == pytest.approx(whole, abs=0.05)  # lower states are kept as bfloat16
    before = first.validation_loss(first.chosen)
    first.fit(6.0, tmp_path / "checkpoint.pt")
    learned = first.validation_loss(first.chosen)
    assert learned < before - 0.3
    again = trainer(tmp_path)
    again.restore(tmp_path / "checkpoint.pt")
    assert again.steps == first.steps
    assert again.validation_loss(again.chosen) == pytest.approx(learned, abs=1e-4)

    out = tmp_path / "out"
    out.mkdir()
    args = arguments().parse_args(["--base", str(base), "--captures", "x", "--labels", "x", "--out", str(out)])
    save(again.model, recipe, args)
    assert json.loads((out / "writer.json").read_text()) == {"prompt_tokens": 40, "guesses": 2}
    writer = RegionWriter.load(base, out)
    prompts = [writer.prompt(digest, ["Page", "Links"]) for digest in digests[:2]]
    of_table, of_links = writer.read(prompts, [["Site links", "Table of orders"]] * 2)
    assert of_links.judged[0] - of_links.judged[1] > of_table.judged[0] - of_table.judged[1] + 1
    further = trainer(tmp_path)
    further.start_from(out)
    assert further.validation_loss(further.chosen) == pytest.approx(learned, abs=0.05)  # adapters are kept as float16
    learned_weights = [weights.clone() for weights in further.copies]
    away = [weights + torch.randn_like(weights) for weights in learned_weights]
    losses = further.average_with(away, further.chosen)
    assert losses["end"] == pytest.approx(further.validation_loss(further.chosen), abs=1e-4)  # the mean was worse: the end stays
    assert losses["end"] < losses["mean"]
    further.take(away)
    losses = further.average_with(learned_weights, further.chosen)
    assert losses["mean"] == pytest.approx(further.validation_loss(further.chosen), abs=1e-4)
    assert losses["mean"] < losses["end"]
    (tmp_path / "none").mkdir()
    save_file({}, str(tmp_path / "none" / "adapter_model.safetensors"))
    with pytest.raises(ValueError, match="another recipe"):
        further.start_from(tmp_path / "none")
    (tmp_path / "none" / "adapter_model.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="cannot be read"):
        further.start_from(tmp_path / "none")
    (out / "writer.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"writer\.json"):
        RegionWriter.load(base, out)
    (out / "writer.json").write_text('{"prompt_tokens": 40, "guesses": 2}')
    (out / "adapter_model.safetensors").write_bytes(b"no")
    with pytest.raises(LanguageModelError, match="cannot be loaded"):
        RegionWriter.load(base, out)
