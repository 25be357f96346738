"""The abstractor `smollm2`: how a reading of a region corrects the embedded estimate, and how the reading is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import tree

from region4web import Partition
from region4web.abstraction import EmbeddedAbstractor, packaged_weights
from region4web.abstraction_cache import Cached
from region4web.errors import WeightsError
from region4web.purposes import PurposeModel, load_purpose_model
from region4web.region_encoder import EncoderAbstractor, Head, estimate_basis
from region4web.region_text import region_digest
from training.records import split_of

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
D = 256


@pytest.fixture(scope="module")
def shop() -> Partition:
    page = tree(SHOP, title="Orders / Shop admin")
    return Partition.from_cuts(page, [i for i in range(len(page)) if page.nodes[i].role in ("navigation", "form")])


@pytest.fixture(scope="module")
def purposes() -> PurposeModel:
    return load_purpose_model(packaged_weights())


def head_for(purposes: PurposeModel) -> Head:
    """A head whose phrases lie in a space of D dimensions that the estimate's are some directions of."""
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(D, purposes.phrase_vectors.shape[1])))
    count = 600
    vectors = (purposes.phrase_vectors[:count] @ basis.T).astype(np.float32)
    zeros = np.zeros(4, dtype=np.float32)
    return Head(zeros, zeros + 1, np.zeros((4, D), dtype=np.float32), np.zeros(D, dtype=np.float32), purposes.phrases[:count], vectors)


class Read:
    """An encoder that corrects every region by one vector, and keeps what it was asked."""

    def __init__(self, head: Head, correction: np.ndarray) -> None:
        self.head, self.tokens, self.identity, self.correction = head, 48, "fixed", correction
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        return len(text.split())

    def corrections(self, digests: Sequence[str]) -> np.ndarray:
        self.asked += digests
        return np.tile(self.correction, (len(digests), 1)).astype(np.float32)


def test_a_digest_says_place_and_contents_without_counts(shop: Partition) -> None:
    assert region_digest(shop, 2, count=lambda text: len(text.split())).split("\n") == [
        "Orders / Shop admin",
        "main: form 'Filter'",
        "after Orders",
        "label: Filter",
        "field: Name (required)",
        "button: Apply (disabled)",
    ]


def test_no_correction_leaves_the_embedded_purposes_and_a_large_one_replaces_them(shop: Partition, purposes: PurposeModel) -> None:
    head = head_for(purposes)
    same = EncoderAbstractor(Read(head, np.zeros(D)), purposes).abstract(shop)  # type: ignore[arg-type]
    default = EmbeddedAbstractor().abstract(shop)
    assert [(a.purpose, a.state) for a in same] == [(a.purpose, a.state) for a in default]
    assert {a.source for a in same} == {"smollm2"}
    wanted = int(np.argmax(np.linalg.norm(head.phrase_vectors, axis=1)))
    other = EncoderAbstractor(Read(head, 50 * head.phrase_vectors[wanted]), purposes).abstract(shop)  # type: ignore[arg-type]
    assert len({a.purpose for a in other}) == 1
    assert [a.purpose for a in other] != [a.purpose for a in default]


def test_a_cache_has_only_the_regions_read_that_it_does_not_know(shop: Partition, purposes: PurposeModel, tmp_path: Path) -> None:
    reader = Read(head_for(purposes), np.zeros(D))
    cached = Cached(EncoderAbstractor(reader, purposes), tmp_path / "cache.sqlite")  # type: ignore[arg-type]
    first = cached.abstract(shop)
    page = tree(SHOP.replace("'Apply'", "'Search'"), title="Orders / Shop admin")
    changed = Partition.from_cuts(page, [i for i in range(len(page)) if page.nodes[i].role in ("navigation", "form")])
    reader.asked.clear()
    second = cached.abstract(changed)
    assert len(reader.asked) == 1
    assert "Search" in reader.asked[0]
    assert second[:2] == first[:2]
    cached.close()


def test_a_head_is_read_back_and_a_foreign_or_damaged_one_is_refused(purposes: PurposeModel, tmp_path: Path) -> None:
    head = head_for(purposes)
    head.save(tmp_path)
    back = Head.load(tmp_path)
    assert back.phrases == head.phrases
    lying = back.phrase_vectors @ estimate_basis(purposes, back)
    assert np.abs(lying - purposes.phrase_vectors[: len(lying)]).max() < 0.01
    with pytest.raises(WeightsError, match="share 0 phrases"):
        estimate_basis(purposes, replace(head, phrases=tuple(f"unknown {k}" for k in range(len(head.phrases)))))
    (tmp_path / "head.npz").write_bytes(b"PK")
    with pytest.raises(WeightsError, match=r"head\.npz"):
        Head.load(tmp_path)


def test_the_encoder_learns_what_the_estimate_misses_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="peft is not installed (extra 'train')")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra 'train')")
    import torch
    from tiny_models import save_tiny_qwen3

    from region4web.region_encoder import RegionEncoder, lower_blocks, pooled_states
    from training.encoder_trainer import Prepared, Recipe, Trainer
    from training.train_encoder import arguments, save

    base = save_tiny_qwen3(tmp_path / "base")
    model, tokenizer = lower_blocks(base, 2, dtype=torch.float32)
    rows = [[5, 6, 7], [8, 9, 10, 11, 12]]
    with torch.no_grad():
        both, alone = pooled_states(model, rows), pooled_states(model, rows[:1])
    assert torch.allclose(both[:1], alone, atol=1e-4)  # padding is not seen

    sites = [site for site in (f"s{k}.test" for k in range(40)) if split_of(site) == "train"][:24]
    texts = ["link: Home | Orders | Account" if k % 2 else "Table of customer orders" for k in range(len(sites))]
    labels = np.array([[1.0, 0, 0] if k % 2 else [0, 1.0, 0] for k in range(len(sites))], dtype=np.float32)
    prepared = Prepared(tuple(texts), tuple(sites), tuple(texts), labels, np.zeros_like(labels))
    prepared.save(tmp_path / "prepared.npz")
    prepared = Prepared.load(tmp_path / "prepared.npz")
    recipe = Recipe(blocks=2, frozen_blocks=1, lora_rank=2, batch_size=8, learning_rate=1e-2, head_learning_rate=3e-2, start_regions=8)
    tokens = [tokenizer(text)["input_ids"] for text in texts]
    trainer = Trainer(model, tokens, prepared, recipe, 0)
    trainer.start()
    part = list(range(8))
    wanted = torch.from_numpy(labels[part])

    def error() -> float:
        with torch.no_grad():
            return float((trainer.linear(trainer.scaled(part)) - wanted).square().sum(1).mean())

    before = error()
    for _ in range(30):
        trainer.set_rate(60.0)
        (trainer.linear(trainer.scaled(part)) - wanted).square().sum(1).mean().backward()
        trainer.step()
        trainer.steps += 1
    assert error() < min(0.2, before / 2)
    trainer.store(tmp_path / "checkpoint.pt")
    again = Trainer(lower_blocks(base, 2, dtype=torch.float32)[0], tokens, prepared, recipe, 0)
    again.restore(tmp_path / "checkpoint.pt")
    assert again.steps == 30
    with torch.no_grad():
        assert torch.allclose(again.linear(again.scaled(part)), trainer.linear(trainer.scaled(part)), atol=1e-5)

    out = tmp_path / "out"
    out.mkdir()
    args = arguments().parse_args(["--base", str(base), "--captures", "x", "--labels", "x", "--out", str(out)])
    with torch.no_grad():
        expected = trainer.linear(trainer.scaled(part)).numpy()
    save(trainer.model, trainer.head(("Site links",), np.ones((1, 3), dtype=np.float32)), recipe, args)
    found = RegionEncoder.load(base, out).corrections([texts[i] for i in part])
    assert np.abs(found - expected).max() < 0.02
