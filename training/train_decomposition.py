"""Captures and labels in, decomposition weights out: `python -m training.train_decomposition --help`.

Two variants. `paper` is Region4Web's (focal loss, teacher forcing, epoch by edge F1, threshold by region F1, both on
validation); `best` is ours (context model, variations of pages, ensemble; epochs fixed, threshold on validation).
Pages are split by site; the figures are of test sites that nothing was chosen on. `--all-pages` then trains once more
on everything and writes those weights, with the threshold and the figures of the split run. Leaves in `--out`: config.json, model.safetensors, metrics.json, curves.png, and a checkpoint a member.
Under torchrun (gloo) every process takes its share of each batch; the loss is that of one process.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from tqdm import tqdm

from region4web.edge_model import ContextModel, Ensemble, PaperModel
from region4web.features import FEATURE_NAMES, PAPER_FEATURE_NAMES
from region4web.labels import page_files
from region4web.skeleton import SMALLEST_REGION
from training.decomposition_data import Example, context_example, data_checksum, read_examples, split_by_site, tree_batch
from training.decomposition_scores import choose_and_score, cut_probabilities, cuts_above, score_cuts
from training.paper_sharing import paper_example, shared_logits

__all__ = ["RECIPES", "Recipe", "focal_loss", "main", "train_member"]

log = logging.getLogger("training.train_decomposition")

PAPER_ALPHA, PAPER_GAMMA = 0.75, 2.0


@dataclass(frozen=True)
class Recipe:
    """How one model is trained. `variation_share`: how often a variation of a page stands in for the page."""

    variant: str
    epochs: int
    learning_rate: float
    weight_decay: float
    batch_pages: int
    width: int = 64
    hidden: int = 128
    blocks: int = 3
    dropout: float = 0.3
    input_dropout: float = 0.15
    variation_share: float = 0.5
    loss: str = "cross-entropy"


RECIPES = {
    "best": Recipe("best", epochs=15, learning_rate=2e-3, weight_decay=0.02, batch_pages=8),
    "paper": Recipe("paper", epochs=7, learning_rate=1e-3, weight_decay=0.0, batch_pages=8, variation_share=0.0, loss="focal"),
}


def focal_loss(logits: Tensor, cut: Tensor) -> Tensor:
    """(E,) focal loss with alpha for cuts, 1 - alpha for merges (Region4Web: alpha 0.75, gamma 2)."""
    cross = functional.binary_cross_entropy_with_logits(logits, cut, reduction="none")
    alpha = PAPER_ALPHA * cut + (1 - PAPER_ALPHA) * (1 - cut)
    return alpha * (1 - torch.exp(-cross)) ** PAPER_GAMMA * cross


def cross_entropy(logits: Tensor, cut: Tensor) -> Tensor:
    """(E,) cross-entropy."""
    return functional.binary_cross_entropy_with_logits(logits, cut, reduction="none")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"focal": focal_loss, "cross-entropy": cross_entropy}


def batch_loss(model: nn.Module, data: Data, loss: str) -> tuple[Tensor, Tensor]:
    """Summed loss of a batch and the number of its cuts: the two add up over processes."""
    if isinstance(model, PaperModel):
        values = LOSSES[loss](shared_logits(model, data), data.cut) * data.count
        return values.sum(), (data.cut * data.count).sum()
    batch = tree_batch(data)
    edges = batch.parent != torch.arange(len(batch))
    return LOSSES[loss](model(batch)[edges], data.cut[edges]).sum(), data.cut.sum()


def new_model(recipe: Recipe, train: Sequence[Example]) -> nn.Module:
    """An untrained model; a context model normalises its numbers by the training pages."""
    if recipe.variant == "paper":
        return PaperModel()
    numbers = torch.cat([example.data[0].numbers for example in train])
    model = ContextModel(
        numbers.shape[1],
        width=recipe.width,
        hidden=recipe.hidden,
        blocks=recipe.blocks,
        dropout=recipe.dropout,
        input_dropout=recipe.input_dropout,
    )
    model.mean.copy_(numbers.mean(0))
    model.deviation.copy_(numbers.std(0) + 1e-3)
    return model


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Up over the first tenth, then down on a half cosine."""
    warm = max(1, steps // 10)
    if step < warm:
        return peak * (0.1 + 0.9 * step / warm)
    return peak * (0.001 + 0.999 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm))))


def train_member(
    recipe: Recipe,
    train: Sequence[Example],
    validation: Sequence[Example],
    *,
    seed: int,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> tuple[nn.Module, list[dict[str, float]]]:
    """One trained model and its history, an entry an epoch.

    With validation pages, the paper's variant keeps the epoch of the best edge F1; `best` keeps its last. A checkpoint
    is written after every epoch; resuming gives the weights that an uninterrupted run gives.
    """
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(seed)
    model = new_model(recipe, train)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    history: list[dict[str, float]] = []
    kept: dict[str, Tensor] = {}
    if resume and checkpoint is not None and checkpoint.is_file():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        history, kept = saved["history"], saved["kept"]
        log.info("resumed %s after epoch %d", checkpoint, len(history))
    steps_an_epoch = math.ceil(len(train) / recipe.batch_pages)
    for epoch in range(len(history), recipe.epochs):
        began = time.perf_counter()
        rng = random.Random(f"{seed} {epoch}")
        torch.manual_seed(seed * 100_003 + epoch * 101 + rank)
        order = rng.sample(range(len(train)), len(train))
        chosen = [_pick(train[i], recipe.variation_share, rng) for i in range(len(train))]
        batches = [order[k : k + recipe.batch_pages] for k in range(0, len(order), recipe.batch_pages)]
        shares = [batch[rank::world] for batch in batches]
        loader = iter(DataLoader(chosen, batch_sampler=[share for share in shares if share]))
        model.train()
        total = 0.0
        for step, share in enumerate(
            tqdm(shares, desc=f"seed {seed} epoch {epoch + 1}/{recipe.epochs}", disable=None if rank == 0 else True)
        ):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(epoch * steps_an_epoch + step, recipe.epochs * steps_an_epoch, recipe.learning_rate)
            loss = _step(model, optimizer, next(loader) if share else None, recipe.loss)
            total += loss
        entry = {"loss": total / steps_an_epoch, "seconds": time.perf_counter() - began}
        if validation:
            entry |= _validate(model, validation)
        history.append(entry)
        if recipe.variant == "paper" and validation and entry["edge_f1"] >= max(e["edge_f1"] for e in history):
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        if checkpoint is not None and rank == 0:
            _write_atomically(
                checkpoint, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "history": history, "kept": kept}
            )
        log.info("seed %d epoch %d %s", seed, epoch + 1, {name: round(value, 4) for name, value in entry.items()})
    if kept:
        model.load_state_dict(kept)
    return model.eval(), history


def _pick(example: Example, variation_share: float, rng: random.Random) -> Data:
    if len(example.data) == 1 or rng.random() >= variation_share:
        return example.data[0]
    return rng.choice(example.data[1:])


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, data: Data | None, loss: str) -> float:
    """One update; the loss is the sum over all processes, over one more than the cuts of all processes."""
    optimizer.zero_grad(set_to_none=False)
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    value, cuts = torch.zeros(()), torch.zeros(())
    if data is not None:
        value, cuts = batch_loss(model, data, loss)
        value.backward()  # type: ignore[no-untyped-call]
    sums = torch.stack([value.detach(), cuts])
    gradient = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None])
    if dist.is_initialized():
        dist.all_reduce(sums)
        dist.all_reduce(gradient)
    gradient /= sums[1] + 1
    start = 0
    for parameter in model.parameters():
        parameter.grad = gradient[start : start + parameter.numel()].view_as(parameter).clone()
        start += parameter.numel()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(sums[0] / (sums[1] + 1))


def _write_atomically(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def _validate(model: nn.Module, validation: Sequence[Example]) -> dict[str, float]:
    score = score_cuts(validation, [cut_probabilities(model, example) for example in validation], cuts_above(0.5))
    return {"edge_f1": score.edge_f1, "region_f1": score.region_f1}


def main(argv: Sequence[str] | None = None) -> None:
    """Train, choose, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", required=True, help="folder of captures")
    parser.add_argument("--labels", required=True, help="folder of label files")
    parser.add_argument("--out", required=True, type=Path, help="folder for the weights and what is said of them")
    parser.add_argument("--variant", choices=sorted(RECIPES), default="best")
    parser.add_argument("--seed", type=int, default=0, help="of the weights; member k of an ensemble has seed 1000 * seed + k")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--members", type=int, default=4, help="models in the ensemble (best)")
    parser.add_argument("--variations", type=int, default=2, help="variations of each page (best)")
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--batch-pages", type=int, help="instead of the recipe's")
    parser.add_argument("--dropout", type=float, help="instead of the recipe's")
    parser.add_argument("--pages", type=int, help="use only this many pages, drawn by the split's seed")
    parser.add_argument("--all-pages", action="store_true", help="after measuring, train once more on all pages and write those weights")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch threads")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(args.threads)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("gloo")
    given = {name: getattr(args, name) for name in ("epochs", "batch_pages", "dropout") if getattr(args, name) is not None}
    recipe = Recipe(**(vars(RECIPES[args.variant]) | given))
    began = time.perf_counter()
    examples = _examples(parser, args)
    split = split_by_site(examples, seed=args.split_seed)
    final, histories = _train(args, recipe, split.train, split.validation, "split")
    metrics: dict[str, Any] = {
        "arguments": {name: value for name, value in vars(args).items() if name not in ("captures", "labels", "out")},
        "recipe": vars(recipe),
        "commit": _commit(),
        "data_sha256": data_checksum(args.captures, args.labels),
        "pages": split.sizes(),
        "parameters": sum(p.numel() for p in final.parameters()),
        **choose_and_score(final, split.validation, split.test),
        "split": {side: sorted(example.page.name for example in getattr(split, side)) for side in ("validation", "test")},
        "history": histories,
        "minutes": round((time.perf_counter() - began) / 60, 2),
    }
    first = not dist.is_initialized() or dist.get_rank() == 0
    if first:
        write_weights(args.out, recipe, final, metrics)
        print(
            json.dumps(
                {name: metrics[name] for name in ("threshold", "region_cost", "validation", "test", "pages", "minutes") if name in metrics}
            )
        )
    if args.all_pages:
        final, _ = _train(args, recipe, examples, (), "all")
        metrics["weights"] = "trained on all pages; the figures are those of the same recipe trained without validation and test pages"
        metrics["minutes_with_all_pages"] = round((time.perf_counter() - began) / 60, 2)
        if first:
            write_weights(args.out, recipe, final, metrics)


def _train(
    args: argparse.Namespace, recipe: Recipe, train: Sequence[Example], validation: Sequence[Example], name: str
) -> tuple[Ensemble | PaperModel, list[list[dict[str, float]]]]:
    """The paper's model, or an ensemble. Without validation pages the paper's model stops at its recipe's last epoch."""
    trained = []
    for k in range(args.members if recipe.variant == "best" else 1):
        seed = 1000 * args.seed + k
        trained.append(
            train_member(recipe, train, validation, seed=seed, checkpoint=args.out / f"checkpoint-{name}-{seed}.pt", resume=args.resume)
        )
    models = [model for model, _ in trained]
    histories = [history for _, history in trained]
    if isinstance(models[0], PaperModel):
        return models[0], histories
    return Ensemble([model for model in models if isinstance(model, ContextModel)]), histories


def _examples(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Example]:
    files = page_files(args.captures, args.labels)
    if args.pages is not None:
        if not 0 < args.pages <= len(files):
            parser.error(f"--pages must be between 1 and {len(files)}, found {args.pages}")
        files = sorted(random.Random(args.split_seed).sample(files, args.pages))
    if args.variant == "best":
        return read_examples(files, partial(context_example, variations=args.variations))
    return read_examples(files, paper_example)


def write_weights(out: Path, recipe: Recipe, model: nn.Module, metrics: dict[str, Any]) -> None:
    """A weights folder that `LearnedSegmenter` loads, with its metrics and curves."""
    out.mkdir(parents=True, exist_ok=True)
    best = recipe.variant == "best"
    setting = "region_cost" if best else "threshold"
    config: dict[str, Any] = {"variant": recipe.variant, setting: metrics[setting], "smallest": SMALLEST_REGION if best else 1}
    if isinstance(model, Ensemble):
        config |= {"members": len(model.members), "width": recipe.width, "hidden": recipe.hidden, "blocks": recipe.blocks}
    config["features"] = list(FEATURE_NAMES if best else PAPER_FEATURE_NAMES)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")
    _draw_curves(metrics["history"], out / "curves.png")


def _draw_curves(histories: list[list[dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for k, history in enumerate(histories):
        epochs = range(1, len(history) + 1)
        axes[0].plot(epochs, [entry["loss"] for entry in history], label=f"member {k}")
        if "region_f1" in history[0]:
            axes[1].plot(epochs, [entry["region_f1"] for entry in history], label=f"member {k}")
    axes[0].set(title="training loss", xlabel="epoch")
    axes[1].set(title="validation region F1 at 0.5", xlabel="epoch")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
