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
import math
import random
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from region4web.evaluation import evaluate_abstractor
from region4web.labels import AnnotatedPage, annotated_pages, page_files
from region4web.purposes import PurposeModel, load_purpose_model, save_purpose_model
from region4web.region_encoder import (
    CLIP,
    ENCODER_FILE,
    EncoderAbstractor,
    Head,
    RegionEncoder,
    estimate_basis,
    lower_blocks,
    pooled_states,
)
from region4web.region_text import region_digest
from training.records import data_checksum, split_of
from training.train_abstraction import LORA_TARGETS, multiplies_in_bf16
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

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float32]
HEAD_PHRASES = 1500
FOLDS = 4
_log = logging.getLogger("training.train_encoder")


@dataclass(frozen=True)
class Recipe:
    """Chosen on validation sites, within the time there was."""

    blocks: int = 8
    frozen_blocks: int = 2
    tokens: int = 48
    lora_rank: int = 16
    learning_rate: float = 1e-3
    head_learning_rate: float = 1e-3
    batch_size: int = 16
    warmup_steps: int = 15
    start_regions: int = 384
    """Regions whose states, before training, give the head's scales and its first weights."""
    start_penalty: float = 6.0


@dataclass(frozen=True)
class Prepared:
    """What the encoder is trained on, in page order."""

    digests: tuple[str, ...]
    sites: tuple[str, ...]
    purposes: tuple[str, ...]
    labels: FloatArray
    """(N, D) sentence embeddings of the labelled purposes."""
    estimates: FloatArray
    """(N, D) estimates of an embedded model that has not seen the region's site."""

    def save(self, path: Path) -> None:
        texts = json.dumps({"digests": self.digests, "sites": self.sites, "purposes": self.purposes})
        np.savez(path, texts=np.array(texts), labels=self.labels, estimates=self.estimates)

    @classmethod
    def load(cls, path: Path) -> Prepared:
        with np.load(path, allow_pickle=False) as data:
            texts = json.loads(str(data["texts"]))
            return cls(*(tuple(texts[name]) for name in ("digests", "sites", "purposes")), data["labels"], data["estimates"])


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


def distinct_regions(prepared: Prepared, seed: int) -> list[int]:
    """Training regions in random order, one for each purpose of a site: repeated headers and footers teach nothing new."""
    order = [i for i, site in enumerate(prepared.sites) if split_of(site) == "train"]
    random.Random(seed).shuffle(order)
    first: dict[tuple[str, str], int] = {}
    for i in order:
        first.setdefault((prepared.sites[i], prepared.purposes[i]), i)
    return list(first.values())


class Trainer:
    """The base with its adapter, the head, and the optimiser over float32 copies of the adapter's weights."""

    def __init__(self, model: Any, rows: Sequence[Sequence[int]], prepared: Prepared, recipe: Recipe, seed: int) -> None:
        import torch
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(seed)
        self.rows, self.prepared, self.recipe, self.seed = rows, prepared, recipe, seed
        self.chosen = distinct_regions(prepared, seed)
        adapted = list(range(recipe.frozen_blocks, recipe.blocks))
        config = LoraConfig(
            r=recipe.lora_rank,
            lora_alpha=2 * recipe.lora_rank,
            lora_dropout=0.0,
            target_modules=LORA_TARGETS,
            layers_to_transform=adapted,
            task_type="CAUSAL_LM",
        )
        self.model: Any = get_peft_model(model, config, autocast_adapter_dtype=False)
        self.adapter = [p for p in self.model.parameters() if p.requires_grad]
        self.copies = [p.detach().float().clone() for p in self.adapter]
        size, dimensions = int(model.config.hidden_size), prepared.labels.shape[1]
        self.mean, self.scale = torch.zeros(size), torch.ones(size)
        self.linear = torch.nn.Linear(size, dimensions)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.optimizer = torch.optim.AdamW(
            [
                {"params": self.copies, "rate": recipe.learning_rate, "weight_decay": 0.0},
                {"params": list(self.linear.parameters()), "rate": recipe.head_learning_rate, "weight_decay": 0.01},
            ],
            betas=(0.9, 0.98),
        )
        self.steps, self.seconds = 0, 0.0
        self.losses: list[tuple[float, float]] = []
        """Squared error with and without the correction, mean over batches between two reports."""

    def scaled(self, part: Sequence[int]) -> torch.Tensor:
        states = pooled_states(self.model, [self.rows[i] for i in part])
        return ((states - self.mean) / self.scale).clamp(-CLIP, CLIP) / math.sqrt(len(self.mean))

    def start(self) -> None:
        """Scales, and a ridge regression as the head's first weights."""
        import torch

        part = self.chosen[: self.recipe.start_regions]
        with torch.no_grad():
            states = torch.cat([pooled_states(self.model, [self.rows[i] for i in part[k : k + 16]]) for k in range(0, len(part), 16)])
            self.mean, self.scale = states.mean(0), states.std(0) + 1e-4
            x = ((states - self.mean) / self.scale).clamp(-CLIP, CLIP) / math.sqrt(len(self.mean))
            y = torch.from_numpy(self.prepared.labels[part] - self.prepared.estimates[part])
            kernel = x @ x.T + self.recipe.start_penalty * torch.eye(len(part))
            self.linear.weight.copy_((x.T @ torch.linalg.solve(kernel, y)).T)

    def fit(self, seconds: float, checkpoint: Path) -> None:
        """Train until `seconds` have been spent, those of earlier runs included."""
        import torch

        if checkpoint.is_file():
            self.restore(checkpoint)
        else:
            self.start()
        began, spent, saved = time.monotonic(), self.seconds, time.monotonic()
        labels, estimates = torch.from_numpy(self.prepared.labels), torch.from_numpy(self.prepared.estimates)
        recent: list[tuple[float, float]] = []
        progress = tqdm(total=round(seconds), unit="s", disable=None)
        while self.seconds < seconds:
            for part in self.batches(self.steps):
                self.set_rate(seconds)
                wanted = labels[part] - estimates[part]
                loss = (self.linear(self.scaled(part)) - wanted).square().sum(1).mean()
                loss.backward()
                self.step()
                recent.append((float(loss.detach()), float(wanted.square().sum(1).mean())))
                self.steps += 1
                self.seconds = spent + time.monotonic() - began
                progress.update(round(self.seconds) - progress.n)
                if self.steps % 20 == 0:
                    self.losses.append((float(np.mean([a for a, _ in recent])), float(np.mean([b for _, b in recent]))))
                    recent.clear()
                    _log.info("step %d: squared error %.4f, without the encoder %.4f", self.steps, *self.losses[-1])
                if time.monotonic() - saved > 120 or self.seconds >= seconds:
                    self.store(checkpoint)
                    saved = time.monotonic()
                if self.seconds >= seconds:
                    break
        progress.close()

    def batches(self, seed: int) -> Iterator[list[int]]:
        """All chosen regions once, batches of similar length in random order; after a restart in another one."""
        size, rng = self.recipe.batch_size, random.Random(f"{self.seed}/{seed}")
        order = self.chosen[:]
        rng.shuffle(order)
        for start in range(0, len(order), 16 * size):
            bucket = sorted(order[start : start + 16 * size], key=lambda i: len(self.rows[i]))
            parts = [bucket[k : k + size] for k in range(0, len(bucket), size)]
            rng.shuffle(parts)
            yield from parts

    def set_rate(self, seconds: float) -> None:
        share = min(1.0, (self.steps + 1) / self.recipe.warmup_steps) * max(0.03, 1 - self.seconds / seconds)
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * share

    def step(self) -> None:
        """One step of the float32 copies; the model's own weights follow."""
        import torch

        for parameter, copy in zip(self.adapter, self.copies, strict=True):
            copy.grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.copies, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.spread()

    def spread(self) -> None:
        import torch

        with torch.no_grad():
            for parameter, copy in zip(self.adapter, self.copies, strict=True):
                parameter.copy_(copy)

    def store(self, path: Path) -> None:
        import torch

        state = {name: getattr(self, name) for name in ("copies", "mean", "scale", "steps", "seconds", "losses")}
        partial = path.with_suffix(".partial")
        torch.save({**state, "linear": self.linear.state_dict(), "optimizer": self.optimizer.state_dict()}, partial)
        partial.replace(path)

    def restore(self, path: Path) -> None:
        import torch

        state = torch.load(path, map_location="cpu", weights_only=True)
        with torch.no_grad():
            for copy, stored in zip(self.copies, state["copies"], strict=True):
                copy.copy_(stored)
        self.linear.load_state_dict(state["linear"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name in ("mean", "scale", "steps", "seconds", "losses"):
            setattr(self, name, state[name])
        self.spread()
        _log.info("going on from step %d of %s", self.steps, path)

    def head(self, phrases: tuple[str, ...], vectors: FloatArray) -> Head:
        weights, bias = self.linear.weight.detach().numpy().T.copy(), self.linear.bias.detach().numpy()
        return Head(self.mean.numpy(), self.scale.numpy(), weights, bias, phrases, vectors)


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
    abstractors = {"encoder": encoder, "embedded": EmbeddedAbstractor(embedded), "role-name": RoleNameAbstractor()}
    found: dict[str, Any] = {"sites": sites, "pages": len(pages), "partitions": "labelled"}
    for name, abstractor in abstractors.items():
        found[name] = evaluate_abstractor(tqdm(pages, unit="page", desc=name, disable=None), None, abstractor)
    return found


def write_run(args: argparse.Namespace, recipe: Recipe, figures: dict[str, Any], data: str, trainer: Trainer) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    ).stdout.strip()
    splits = Counter(split_of(site) for site in trainer.prepared.sites)
    run = {
        "recipe": asdict(recipe),
        "arguments": {"base": args.base, "minutes": args.minutes, "seed": args.seed, "report": args.report},
        "commit": commit or "unknown",
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
