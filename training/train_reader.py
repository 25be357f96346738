"""Train the region reader of the abstractors `minilm` and `smollm2`: `python -m training.train_reader --captures DIR --labels DIR --out OUT`.

Enters: captures and labels (--further ones are learned from and never measured on). Leaves in --out: what was changed of
all-MiniLM-L6-v2 (low rank, fp16) and a head, `reader.json` and `training.json` (recipe, commit, checksum of the data, losses, figures).
The reader learns from a region's passage what the sentence embedding of its label is, by squared distance, so that it
estimates the mean over labels that fit. Its share beside the embedded model's estimate is chosen on validation sites. Time is
what is given: --minutes; the learning rate falls with the clock, and a run that was killed goes on from its checkpoint.

Symbols: N regions, B of a batch, T tokens, D dimensions of the sentence embedding.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from pagedigest.evaluation.provenance import git_commit
from region4web.contents import units_of_regions
from region4web.evaluation import evaluate_abstractor
from region4web.labels import AnnotatedPage, annotated_pages, page_files
from region4web.language_models import multiplies_in_bf16
from region4web.purposes import PurposeModel, ReadEstimate, load_purpose_model, save_purpose_model
from region4web.region_passages import region_passages
from region4web.region_reader import CHANGES_FILE, READER_FILE, TRAINED, ReaderAbstractor, RegionReader, padded, pooled
from region4web.similarity import bare_model
from training.records import data_checksum, split_of
from training.timed_trainer import TimedTrainer, started_from
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
from training.writer_trainer import distinct_regions

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float32]
BUCKET_BATCHES = 32
SHARES = tuple(k / 20 for k in range(21))
_log = logging.getLogger("training.train_reader")


@dataclass(frozen=True)
class Recipe:
    """Chosen on validation sites, within the time there was."""

    tokens: int = 128
    rank: int = 64
    """Columns by which the change of a matrix is kept."""
    learning_rate: float = 2e-4
    head_rate: float = 1e-3
    weight_decay: float = 0.01
    batch_size: int = 32
    warmup_steps: int = 50


@dataclass(frozen=True)
class Rows:
    """What is learned from, in page order; `targets` (N, D) embeddings of the labels, `splits` `further` for further pages."""

    passages: tuple[str, ...]
    sites: tuple[str, ...]
    splits: tuple[str, ...]
    purposes: tuple[str, ...]
    targets: FloatArray

    def of(self, splits: Sequence[str]) -> list[int]:
        return [i for i, split in enumerate(self.splits) if split in splits]


def rows_of(pages: Sequence[AnnotatedPage], further: Sequence[AnnotatedPage], embeddings: Embeddings) -> Rows:
    passages: list[str] = []
    sites, splits, purposes = [], [], []
    for k, page in enumerate(tqdm([*pages, *further], unit="page", desc="passages", disable=None)):
        partition = page.gold.partition
        own = region_passages(partition, list(units_of_regions(partition)))
        for passage, label in zip(own, page.gold.abstractions, strict=True):
            if label.purpose:
                passages.append(passage)
                sites.append(page.site)
                splits.append(split_of(page.site) if k < len(pages) else "further")
                purposes.append(label.purpose)
    return Rows(tuple(passages), tuple(sites), tuple(splits), tuple(purposes), embeddings.of(purposes))


class Trainer(TimedTrainer):
    """The encoder's blocks, a head, and a part of the head that only annotated pages have (Daume III 2007)."""

    def __init__(self, rows: Rows, chosen: Sequence[int], recipe: Recipe, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        self.rows, self.recipe = rows, recipe
        self.model, tokenizer = bare_model()
        self.ids: list[list[int]] = tokenizer(list(rows.passages), truncation=True, max_length=recipe.tokens)["input_ids"]
        super().__init__(
            chosen,
            [len(row) for row in self.ids],
            batch_size=recipe.batch_size,
            bucket_batches=BUCKET_BATCHES,
            warmup_steps=recipe.warmup_steps,
            seed=seed,
        )
        size = rows.targets.shape[1]
        self.head, self.own = torch.nn.Linear(size, size), torch.nn.Linear(size, size)
        with torch.no_grad():
            torch.nn.init.eye_(self.head.weight)
            for parameter in (self.head.bias, *self.own.parameters()):
                parameter.zero_()
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name.startswith(TRAINED))
        self.trained = {name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        self.before = {name: parameter.detach().clone() for name, parameter in self.trained.items()}
        heads = [*self.head.parameters(), *self.own.parameters()]
        self.rates = (recipe.learning_rate, recipe.head_rate)
        groups = [{"params": list(self.trained.values())}, {"params": heads}]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=recipe.weight_decay, betas=(0.9, 0.98))
        self.half = multiplies_in_bf16()
        self.model.train()

    def weights(self) -> list[torch.Tensor]:
        return [*self.trained.values(), *self.head.parameters(), *self.own.parameters()]

    def take(self, weights: Sequence[torch.Tensor]) -> None:
        import torch

        with torch.no_grad():
            for parameter, given in zip(self.weights(), weights, strict=True):
                parameter.copy_(given)

    def estimates(self, part: Sequence[int]) -> torch.Tensor:
        """(B, D)"""
        import torch

        ids, mask = padded([self.ids[i] for i in part])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.half):
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        vectors = pooled(states.float(), mask)
        annotated = torch.tensor([[float(self.rows.splits[i] != "further")] for i in part])
        found: torch.Tensor = self.head(vectors) + annotated * self.own(vectors)
        return found

    def loss(self, part: Sequence[int]) -> torch.Tensor:
        """Mean squared distance to the labels' embeddings."""
        import torch

        return ((self.estimates(part) - torch.from_numpy(self.rows.targets[list(part)])) ** 2).sum(1).mean()

    def validation_loss(self, part: Sequence[int]) -> float:
        import torch

        order = sorted(part, key=lambda i: self.lengths[i])
        batches = [order[k : k + self.batch_size] for k in range(0, len(order), self.batch_size)]
        self.model.eval()
        with torch.inference_mode():
            total = sum(float(self.loss(batch)) * len(batch) for batch in batches)
        self.model.train()
        return total / max(1, len(order))

    def step(self, loss: torch.Tensor) -> None:
        import torch

        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.weights(), 1.0)
        self.optimizer.step()

    def start_from(self, folder: Path) -> None:
        """Take what a reader that was trained before changed. Raises WeightsError."""
        import torch

        reader = RegionReader.load(folder, half=False)
        found = dict(reader.model.named_parameters())
        zeros = [torch.zeros_like(p) for p in self.own.parameters()]
        head = [torch.from_numpy(reader.head.T.copy()), torch.from_numpy(reader.offset)]
        self.take([*(found[name].detach() for name in self.trained), *head, *zeros])

    def save(self, out: Path, share: float) -> None:
        """What training changed: matrices as products of `rank` columns (fp16), the rest whole, and the head."""
        import torch
        from safetensors.torch import save_file

        found: dict[str, torch.Tensor] = {}
        for name, parameter in self.trained.items():
            change = parameter.detach() - self.before[name]
            if change.ndim == 2:
                up, sizes, down = torch.linalg.svd(change, full_matrices=False)
                rank = min(self.recipe.rank, len(sizes))
                root = sizes[:rank].sqrt()
                found[f"{name}.up"], found[f"{name}.down"] = up[:, :rank] * root, down[:rank] * root[:, None]
            else:
                found[name] = change
        found["head"] = (self.head.weight + self.own.weight).detach().T
        found["offset"] = (self.head.bias + self.own.bias).detach()
        out.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.to(torch.float16).contiguous() for name, tensor in found.items()}, str(out / CHANGES_FILE))
        write_share(out, self.recipe.tokens, share)


def write_share(out: Path, tokens: int, share: float) -> None:
    (out / READER_FILE).write_text(json.dumps({"tokens": tokens, "share": share}) + "\n", encoding="utf-8")


def best_share(
    read: FloatArray, regions: Sequence[Region], model: PurposeModel, labels: FloatArray, embeddings: Embeddings
) -> tuple[float, dict[str, float]]:
    """The reader's share of the estimate that says `regions` best, and purpose similarity by share. `read`, `labels` (N, D)."""
    features, units = [region.features for region in regions], [region.units for region in regions]
    found = {}
    for share in SHARES:
        said = model.purposes(features, units, ReadEstimate(read, share))
        found[share] = float(np.einsum("ij,ij->i", embeddings.of(said), labels).mean())
    return max(found, key=found.__getitem__), {f"{share:g}": round(value, 4) for share, value in found.items()}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.train_reader", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    add_further_pages(parser)
    parser.add_argument("--start", type=Path, help="folder of a reader that was trained before, to go on from")
    parser.add_argument("--embedded", type=Path, help="folder of an embedded model of training sites (default: one is trained in --out)")
    parser.add_argument(
        "--fit-validation",
        action="store_true",
        help="learn from validation sites too; the share is that of --start, figures are of test sites",
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="time to train, on top of preparing and measuring")
    parser.add_argument("--report", choices=("validation", "test"), default="test", help="sites that the figures are of")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments()
    args = parser.parse_args(argv)
    recipe = Recipe()
    if args.fit_validation and (not args.start or args.report == "validation"):
        parser.error("--fit-validation needs --start (its share was chosen on validation sites) and --report test")
    if args.start and args.start.resolve() == args.out.resolve():
        parser.error(f"--start and --out are both {args.out}; give another --out")
    import torch

    torch.set_num_threads(args.threads)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = page_files(args.captures, args.labels)
    data = data_checksum(path for pair in [*files, *further_files(args.further)] for path in pair)
    start = sha256((args.start / CHANGES_FILE).read_bytes()).hexdigest() if args.start else ""
    pages = list(tqdm(annotated_pages(args.captures, args.labels), total=len(files), unit="page", disable=None))
    further = further_pages(args.further, pages)
    embeddings = Embeddings()
    rows = rows_of(pages, further, embeddings)
    told = [data, asdict(recipe), args.seed, len(further), start, args.fit_validation]
    work = args.out / f"work-{sha256(json.dumps(told).encode()).hexdigest()[:12]}"
    work.mkdir(parents=True, exist_ok=True)
    model = embedded_model(args.embedded or work / "embedded", pages, further, embeddings)

    fitted_on = ("train", "further", *(("validation",) if args.fit_validation else ()))
    trainer = Trainer(rows, distinct_regions(rows, args.seed, fitted_on), recipe, args.seed)
    validation = [] if args.fit_validation else rows.of(("validation",))
    if args.start:
        trainer.start_from(args.start)
    before = [weight.detach().clone() for weight in trainer.weights()] if args.start else []
    trainer.fit(args.minutes * 60, work / "checkpoint.pt", validation)
    averaged = trainer.average_with(before, validation) if before and validation else {}

    by_share: dict[str, float] = {}
    if args.fit_validation:
        trainer.save(args.out, json.loads((args.start / READER_FILE).read_text(encoding="utf-8"))["share"])
    else:
        trainer.save(args.out, 0.5)
        read = RegionReader.load(args.out).estimates([rows.passages[i] for i in validation])
        regions = [region for region in labelled_regions(pages) if split_of(region.site) == "validation"]
        share, by_share = best_share(read, regions, model, rows.targets[validation], embeddings)
        write_share(args.out, recipe.tokens, share)
    held_out = [page for page in pages if split_of(page.site) == args.report]
    abstractor = ReaderAbstractor(RegionReader.load(args.out), model)
    figures = evaluate_abstractor(tqdm(held_out, unit="page", disable=None), None, abstractor)
    run = {
        "recipe": asdict(recipe),
        "arguments": {name: getattr(args, name) for name in ("minutes", "seed", "threads", "report", "fit_validation")},
        "commit": git_commit(),
        "data": data,
        "started_from": started_from(args.start, "reader", start),
        "regions": dict(Counter(rows.splits)),
        "distinct_training_regions": len(trainer.chosen),
        "steps": trainer.steps,
        "seconds": round(trainer.seconds),
        "losses": [[step, round(a, 4), round(b, 4)] for step, a, b in trainer.losses],
        "average_with_start": averaged,
        "validation_by_share": by_share,
        "figures": figures | {"sites": args.report, "pages": len(held_out), "partitions": "labelled"},
    }
    _log.info("%s", run["figures"])
    (args.out / "training.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return 0


def embedded_model(folder: Path, pages: Sequence[AnnotatedPage], further: Sequence[AnnotatedPage], embeddings: Embeddings) -> PurposeModel:
    """The embedded model of a folder, trained there on training sites where there is none."""
    if not (folder / "purposes.json").is_file():
        own = [region for region in labelled_regions(pages) if split_of(region.site) == "train"]
        strings = word_strings([*pages, *further])
        save_purpose_model(train_purpose_model(own, strings, EmbeddedRecipe(), embeddings, labelled_regions(further)), folder)
    return load_purpose_model(folder)


if __name__ == "__main__":
    raise SystemExit(main())
