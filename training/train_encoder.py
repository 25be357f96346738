"""Train the region encoder of the abstractor `smollm2`: `python -m training.train_encoder --captures DIR --labels DIR --out OUT`.

Enters: captures, labels, a base model (`smollm2`, or a folder). Leaves in --out: a LoRA adapter (fp16), `head.npz`,
`encoder.json` and `training.json` (recipe, commit, checksum of the data, split, figures). The encoder learns what the
embedded model's estimate misses: its target is the sentence embedding of a label minus the estimate of an embedded model
that was trained without the region's site (four folds of training sites). Time is what is given: --minutes; the learning
rate falls with the clock, and a run that was killed goes on from its checkpoint with the minutes that are left.

Symbols: N regions, H hidden size, D dimensions of the sentence embedding.
"""

from __future__ import annotations

import argparse
import json
import logging
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from pagedigest.evaluation.provenance import git_commit
from region4web.evaluation import evaluate_abstractor
from region4web.labels import AnnotatedPage, annotated_pages, page_files
from region4web.purposes import PurposeModel, load_purpose_model, save_purpose_model
from region4web.region_encoder import (
    ENCODER_FILE,
    EncoderAbstractor,
    Head,
    RegionEncoder,
    estimate_basis,
    lower_blocks,
)
from region4web.region_text import region_digest
from region4web.regions import Abstractor
from training.encoder_trainer import Prepared, Recipe, Trainer
from training.records import data_checksum, split_of
from training.train_abstraction import multiplies_in_bf16
from training.train_embedded_abstraction import (
    Embeddings,
    Region,
    labelled_regions,
    train_purpose_model,
    word_strings,
)
from training.train_embedded_abstraction import (
    Recipe as EmbeddedRecipe,
)

FloatArray = npt.NDArray[np.float32]
HEAD_PHRASES = 1500
FOLDS = 4
_log = logging.getLogger("training.train_encoder")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.train_encoder", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="smollm2", help="folder of a causal language model, or smollm2")
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0, help="time to train the encoder, on top of preparing and measuring")
    parser.add_argument("--report", choices=("validation", "test"), default="test", help="sites that the figures are of")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    recipe = Recipe()
    base = base_folder(args.base)
    files = page_files(args.captures, args.labels)
    data = data_checksum(path for pair in files for path in pair)
    args.out.mkdir(parents=True, exist_ok=True)
    work = args.out / f"work-{data[:12]}"
    pages = list(tqdm(annotated_pages(args.captures, args.labels), total=len(files), unit="page", disable=None))
    embeddings = Embeddings()
    model, tokenizer = lower_blocks(base, recipe.blocks, dtype=_dtype())
    if not (work / "prepared.npz").is_file():
        work.mkdir(exist_ok=True)
        prepare(pages, embeddings, lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]), work)
    prepared, embedded = Prepared.load(work / "prepared.npz"), load_purpose_model(work / "embedded")
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"][: recipe.tokens] for text in prepared.digests]
    trainer = Trainer(model, rows, prepared, recipe, args.seed)
    trainer.fit(args.minutes * 60, work / "checkpoint.pt")
    phrases = list(embedded.phrases[:HEAD_PHRASES])
    head = trainer.head(tuple(phrases), embeddings.of(phrases))
    save(trainer.model, head, recipe, args)
    figures = measure(base, args.out, work / "embedded", [page for page in pages if split_of(page.site) == args.report], args.report)
    _log.info("%s", figures)
    write_run(args, recipe, figures, data, trainer)
    return 0


def base_folder(name: str) -> str:
    if name != "smollm2":
        return name
    from region4web.smollm2 import smollm2_folder

    return str(smollm2_folder())


def prepare(pages: Sequence[AnnotatedPage], embeddings: Embeddings, count: Any, work: Path) -> None:
    """Digests, labels and out-of-fold estimates in `work`, and there also an embedded model of the training sites."""
    regions, strings = labelled_regions(pages), word_strings(pages)
    digests = [
        region_digest(page.gold.partition, region.number, count=count)
        for page in tqdm(pages, unit="page", desc="digests", disable=None)
        for region, label in zip(page.gold.partition.regions, page.gold.abstractions, strict=True)
        if label.purpose
    ]
    labels = embeddings.of([region.purpose for region in regions])
    training = [i for i, region in enumerate(regions) if split_of(region.site) == "train"]
    whole = train_purpose_model([regions[i] for i in training], strings, EmbeddedRecipe(), embeddings)
    save_purpose_model(whole, work / "embedded")
    estimates = lifted(whole, regions, embeddings)
    fold = {site: zlib.crc32(f"oof{site}".encode()) % FOLDS for site in {region.site for region in regions}}
    for k in tqdm(range(FOLDS), unit="fold", disable=None):
        inside = [i for i in training if fold[regions[i].site] == k]
        if inside and len(inside) < len(training):
            others = [regions[i] for i in training if fold[regions[i].site] != k]
            model = train_purpose_model(others, strings, EmbeddedRecipe(), embeddings)
            estimates[inside] = lifted(model, [regions[i] for i in inside], embeddings)
    sites, purposes = tuple(region.site for region in regions), tuple(region.purpose for region in regions)
    Prepared(tuple(digests), sites, purposes, labels, estimates).save(work / "prepared.npz")


def lifted(model: PurposeModel, regions: Sequence[Region], embeddings: Embeddings) -> FloatArray:
    """(N, D) the model's estimates in the space of sentence embeddings."""
    phrases = list(model.phrases[:HEAD_PHRASES])
    nothing = np.zeros(0, dtype=np.float32)
    basis = estimate_basis(model, Head(nothing, nothing, nothing, nothing, tuple(phrases), embeddings.of(phrases)))
    return np.asarray(model.estimates([region.features for region in regions]) @ basis.T, dtype=np.float32)


def save(model: Any, head: Head, recipe: Recipe, args: argparse.Namespace) -> None:
    """The adapter in fp16, the head, and how much of the model and of a digest they want."""
    import torch

    for parameter in (p for p in model.parameters() if p.requires_grad):
        parameter.data = parameter.data.to(torch.float16)
    model.peft_config["default"].base_model_name_or_path = args.base  # not the folder of this machine that it was read from
    model.save_pretrained(str(args.out))
    (args.out / "README.md").unlink(missing_ok=True)  # peft's empty form of a model card
    head.save(args.out)
    (args.out / ENCODER_FILE).write_text(json.dumps({"blocks": recipe.blocks, "tokens": recipe.tokens}) + "\n", encoding="utf-8")


def measure(base: str, folder: Path, embedded: Path, pages: Sequence[AnnotatedPage], sites: str) -> dict[str, Any]:
    """Figures of the saved encoder over an embedded model that saw training sites only, and of that model alone."""
    from region4web.abstraction import EmbeddedAbstractor, RoleNameAbstractor

    encoder = EncoderAbstractor(RegionEncoder.load(base, folder), load_purpose_model(embedded))
    abstractors: dict[str, Abstractor] = {"encoder": encoder, "embedded": EmbeddedAbstractor(embedded), "role-name": RoleNameAbstractor()}
    found: dict[str, Any] = {"sites": sites, "pages": len(pages), "partitions": "labelled"}
    for name, abstractor in abstractors.items():
        found[name] = evaluate_abstractor(tqdm(pages, unit="page", desc=name, disable=None), None, abstractor)
    return found


def write_run(args: argparse.Namespace, recipe: Recipe, figures: dict[str, Any], data: str, trainer: Trainer) -> None:
    splits = Counter(split_of(site) for site in trainer.prepared.sites)
    run = {
        "recipe": asdict(recipe),
        "arguments": {"base": args.base, "minutes": args.minutes, "seed": args.seed, "report": args.report},
        "commit": git_commit(),
        "data": data,
        "regions": dict(splits),
        "distinct_training_regions": len(trainer.chosen),
        "steps": trainer.steps,
        "seconds": round(trainer.seconds),
        "squared_error_with_and_without": [[round(a, 4), round(b, 4)] for a, b in trainer.losses],
        "figures": figures,
    }
    (args.out / "training.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


def _dtype() -> Any:
    import torch

    return torch.bfloat16 if multiplies_in_bf16() else torch.float32


if __name__ == "__main__":
    raise SystemExit(main())
