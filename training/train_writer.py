"""Train the region writer of the abstractor `smollm2`: `python -m training.train_writer --captures DIR --labels DIR --out OUT`.

Enters: captures, labels, a base model (`smollm2`, or a folder). Leaves in --out: a LoRA adapter (fp16), `writer.json` and
`training.json` (recipe, commit, checksum of the data, split, losses, figures). The writer learns to say a region's purpose
from its digest and the embedded model's guesses; in training these come from embedded models that were trained without the
region's site (four folds of training sites), as they will where it is used. Time is what is given: --minutes; the learning
rate falls with the clock, and a run that was killed goes on from its checkpoint with the minutes that are left. --further
pages are learned from and never measured on; --start goes on from an adapter that was trained before, and ends with the mean of
both where that is better on validation sites.

Symbols: N regions, C candidates.
"""

from __future__ import annotations

import argparse
import json
import logging
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pagedigest.evaluation.provenance import git_commit
from region4web.evaluation import evaluate_abstractor
from region4web.labels import AnnotatedPage, annotated_pages, page_files
from region4web.language_models import multiplies_in_bf16
from region4web.purposes import PurposeModel, load_purpose_model, save_purpose_model
from region4web.region_reader import CHANGES_FILE, ReaderAbstractor, RegionReader
from region4web.region_text import region_digest
from region4web.region_writer import ADAPTER_FILE, WRITER_FILE, RegionWriter, WriterAbstractor, answer_tokens, prompt_tokens
from region4web.regions import Abstractor
from training.records import data_checksum, split_of
from training.timed_trainer import started_from
from training.train_abstraction import Row, load_base
from training.train_embedded_abstraction import (
    Embeddings,
    Region,
    add_further_pages,
    further_files,
    further_pages,
    labelled_regions,
    train_purpose_model,
    word_strings,
)
from training.train_embedded_abstraction import Recipe as EmbeddedRecipe
from training.writer_trainer import Prepared, Recipe, Trainer, distinct_regions, lower_states

FOLDS = 4
VALIDATION_REGIONS = 240
_log = logging.getLogger("training.train_writer")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.train_writer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="smollm2", help="folder of a causal language model, or smollm2")
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    add_further_pages(parser)
    parser.add_argument("--start", type=Path, help="folder of an adapter of the same recipe to go on from")
    parser.add_argument("--reader", type=Path, help="folder of training.train_reader, to measure the writer with it beside it")
    parser.add_argument(
        "--measure-only",
        type=Path,
        metavar="EMBEDDED",
        help="train nothing: measure --out as it is beside an embedded model of training sites",
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="time to train the adapter, on top of preparing and measuring")
    parser.add_argument("--report", choices=("validation", "test"), default="test", help="sites that the figures are of")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments()
    args = parser.parse_args(argv)
    recipe = Recipe()
    if args.start and (fault := start_fault(args.start, args.out, recipe)):
        parser.error(fault)
    import torch

    torch.set_num_threads(args.threads)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = page_files(args.captures, args.labels)
    if args.measure_only:
        measure_again(args, [page for page in annotated_pages(args.captures, args.labels) if split_of(page.site) == args.report])
        return 0
    extra = further_files(args.further)
    data = data_checksum(path for pair in [*files, *extra] for path in pair)
    start_sum = sha256((args.start / ADAPTER_FILE).read_bytes()).hexdigest() if args.start else ""
    work = args.out / f"work-{run_key(args, recipe, data, len(extra), start_sum)}"
    work.mkdir(parents=True, exist_ok=True)
    pages = list(tqdm(annotated_pages(args.captures, args.labels), total=len(files), unit="page", disable=None))
    model, tokenizer = load_base(args.base, dtype=torch.bfloat16 if multiplies_in_bf16() else torch.float32)
    if not (work / "prepared.json").is_file():
        further = further_pages(args.further, pages)
        prepare(pages, further, lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]), recipe, work)
    prepared = Prepared.load(work / "prepared.json")
    rows = encoded(prepared, tokenizer, recipe)
    chosen = distinct_regions(prepared, args.seed)
    checked = distinct_regions(prepared, args.seed, ("validation",))[:VALIDATION_REGIONS]
    trainer = Trainer(model, rows, lower_states(model, rows, recipe.frozen_blocks, work / "states.npy"), chosen, recipe, args.seed)
    if args.start:
        try:
            trainer.start_from(args.start)
        except ValueError as error:
            parser.error(str(error))
    start = [weights.clone() for weights in trainer.copies] if args.start else []
    trainer.fit(args.minutes * 60, work / "checkpoint.pt", checked)
    averaged = trainer.average_with(start, checked) if start and checked else {}
    if averaged:
        _log.info("loss on validation sites: %.4f, of the mean with the adapter at the start %.4f", averaged["end"], averaged["mean"])
    save(trainer.model, recipe, args)
    held_out = [page for page in pages if split_of(page.site) == args.report]
    figures = measure(args.base, args.out, work / "embedded", args.reader, held_out, args.report)
    _log.info("%s", figures)
    write_run(args, recipe, start_sum, {"figures": figures, "average_with_start": averaged}, data, trainer, prepared)
    return 0


def run_key(args: argparse.Namespace, recipe: Recipe, data: str, further: int, start: str) -> str:
    """What tells the work of this run from that of others in the same folder. `further` pages, checksum of the adapter at the start."""
    told = [data, asdict(recipe), asdict(EmbeddedRecipe()), args.base, args.seed, further, start]
    return sha256(json.dumps(told).encode()).hexdigest()[:12]


def start_fault(start: Path, out: Path, recipe: Recipe) -> str:
    """Why training cannot go on from the adapter in `start`, '' when it can."""
    if start.resolve() == out.resolve():
        return f"--start and --out are both {out}; give another --out"
    try:
        config, asked = (json.loads((start / name).read_text(encoding="utf-8")) for name in ("adapter_config.json", WRITER_FILE))
        same = (config["r"], config["lora_alpha"], min(config["layers_to_transform"])) == (
            recipe.lora_rank,
            2 * recipe.lora_rank,
            recipe.frozen_blocks,
        ) and (asked["prompt_tokens"], asked["guesses"]) == (recipe.prompt_tokens, recipe.guesses)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"--start {start}: no adapter of training.train_writer ({error})"
    if not (start / ADAPTER_FILE).is_file():
        return f"--start {start}: {ADAPTER_FILE} is not there"
    return "" if same else f"--start {start}: an adapter of another recipe; train without --start"


def prepare(pages: Sequence[AnnotatedPage], further: Sequence[AnnotatedPage], count: Any, recipe: Recipe, work: Path) -> None:
    """Digests, labels and guesses in `work`, and there also an embedded model of the training sites and further pages."""
    regions, others, strings = labelled_regions(pages), labelled_regions(further), word_strings([*pages, *further])
    digests = [
        region_digest(page.gold.partition, region.number, count=count)
        for page in tqdm([*pages, *further], unit="page", desc="digests", disable=None)
        for region, label in zip(page.gold.partition.regions, page.gold.abstractions, strict=True)
        if label.purpose
    ]
    embeddings = Embeddings()
    everything = [*regions, *others]
    splits = (*(split_of(region.site) for region in regions), *("further" for _ in others))
    fold = [zlib.crc32(f"oof{region.site}".encode()) % FOLDS for region in everything]
    training = [i for i, split in enumerate(splits) if split in ("train", "further")]

    def model_of(indices: Sequence[int]) -> PurposeModel:
        own = [everything[i] for i in indices if i < len(regions)]
        return train_purpose_model(own, strings, EmbeddedRecipe(), embeddings, [everything[i] for i in indices if i >= len(regions)])

    whole = model_of(training)
    save_purpose_model(whole, work / "embedded")
    found = guesses(whole, everything, recipe.guesses)
    for k in tqdm(range(FOLDS), unit="fold", disable=None):
        inside = [i for i in training if fold[i] == k]
        outside = [i for i in training if fold[i] != k]
        if inside and any(i < len(regions) for i in outside):
            for i, own in zip(inside, guesses(model_of(outside), [everything[i] for i in inside], recipe.guesses), strict=True):
                found[i] = own
    sites, purposes = zip(*((region.site, region.purpose) for region in everything), strict=True)
    Prepared(tuple(digests), sites, splits, purposes, tuple(found)).save(work / "prepared.json")


def guesses(model: PurposeModel, regions: Sequence[Region], count: int) -> list[tuple[str, ...]]:
    """The model's best phrases for each region, best first."""
    candidates = model.candidates([region.features for region in regions], [region.units for region in regions], count)
    return [tuple(model.phrases[k] for k in row) for row in candidates.at.tolist()]


def encoded(prepared: Prepared, tokenizer: Any, recipe: Recipe) -> list[Row]:
    """Prompts and answers exactly as they will be when the writer is used."""
    return [
        (prompt_tokens(tokenizer, digest, guessed, recipe.prompt_tokens), answer_tokens(tokenizer, purpose))
        for digest, guessed, purpose in zip(prepared.digests, prepared.guesses, prepared.purposes, strict=True)
    ]


def save(model: Any, recipe: Recipe, args: argparse.Namespace) -> None:
    """The adapter in fp16, and how the writer wants to be asked."""
    import torch

    for parameter in (p for p in model.parameters() if p.requires_grad):
        parameter.data = parameter.data.to(torch.float16)
    model.peft_config["default"].base_model_name_or_path = args.base  # not the folder of this machine that it was read from
    model.save_pretrained(str(args.out))
    (args.out / "README.md").unlink(missing_ok=True)  # peft's empty form of a model card
    (args.out / WRITER_FILE).write_text(
        json.dumps({"prompt_tokens": recipe.prompt_tokens, "guesses": recipe.guesses}) + "\n", encoding="utf-8"
    )


def measure(
    base: str, folder: Path, embedded: Path, reader_folder: Path | None, pages: Sequence[AnnotatedPage], sites: str
) -> dict[str, Any]:
    """Figures of the saved writer over an embedded model (and a reader) that saw training sites only, and of these alone."""
    from region4web.abstraction import EmbeddedAbstractor, RoleNameAbstractor

    reader, model = RegionReader.load(reader_folder) if reader_folder else None, load_purpose_model(embedded)
    abstractors: dict[str, Abstractor] = {"writer": WriterAbstractor(RegionWriter.load(base, folder), model, reader=reader)}
    if reader:
        abstractors["reader"] = ReaderAbstractor(reader, model)
    abstractors |= {"embedded": EmbeddedAbstractor(embedded), "role-name": RoleNameAbstractor()}
    found: dict[str, Any] = {"sites": sites, "pages": len(pages), "partitions": "labelled"}
    for name, abstractor in abstractors.items():
        found[name] = evaluate_abstractor(tqdm(pages, unit="page", desc=name, disable=None), None, abstractor)
    return found


def measure_again(args: argparse.Namespace, pages: Sequence[AnnotatedPage]) -> None:
    """Write `measured.json` in --out: figures of the adapter there, and which files they are of."""
    figures = measure(args.base, args.out, args.measure_only, args.reader, pages, args.report)
    _log.info("%s", figures)
    of = {"adapter": args.out / ADAPTER_FILE, "embedded": args.measure_only / "purposes.npz"}
    if args.reader:
        of["reader"] = args.reader / CHANGES_FILE
    sums = {name: sha256(path.read_bytes()).hexdigest() for name, path in of.items()}
    run = {"commit": git_commit(), "threads": args.threads, "sha256": sums, "figures": figures}
    (args.out / "measured.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


def write_run(
    args: argparse.Namespace, recipe: Recipe, start_sum: str, found: dict[str, Any], data: str, trainer: Trainer, prepared: Prepared
) -> None:
    run = {
        "recipe": asdict(recipe),
        "arguments": {name: getattr(args, name) for name in ("base", "minutes", "seed", "threads", "report")},
        "commit": git_commit(),
        "data": data,
        "started_from": started_from(args.start, "adapter", start_sum),
        "regions": dict(Counter(prepared.splits)),
        "distinct_training_regions": len(trainer.chosen),
        "steps": trainer.steps,
        "seconds": round(trainer.seconds),
        "losses": [[step, round(a, 4), round(b, 4)] for step, a, b in trainer.losses],
        **found,
    }
    (args.out / "training.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
