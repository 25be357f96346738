"""How one decomposition model is trained: recipes, losses, batches over processes, checkpoints that resume.

Enters: a `Recipe` and `Example`s. Leaves: a trained model and its history, an entry an epoch. Under torchrun (gloo) every process takes its
share of each batch; the loss is that of one process.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from tqdm import tqdm

from region4web.edge_model import ContextModel, PaperModel
from training.decomposition_data import Example, tree_batch
from training.decomposition_scores import cut_probabilities, cuts_above, score_cuts
from training.paper_sharing import shared_logits

__all__ = ["RECIPES", "Recipe", "focal_loss", "train_member"]

log = logging.getLogger("training.decomposition_training")

PAPER_ALPHA, PAPER_GAMMA = 0.75, 2.0


@dataclass(frozen=True)
class Recipe:
    """How one model is trained.

    `variation_share`: how often something else stands in for a page; `graft_share`: how often that is a graft, where there are any.
    """

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
    variation_share: float = 0.65
    graft_share: float = 0.6
    loss: str = "cross-entropy"


RECIPES = {
    "best": Recipe("best", epochs=22, learning_rate=2e-3, weight_decay=0.02, batch_pages=8),
    "paper": Recipe("paper", epochs=140, learning_rate=1e-3, weight_decay=0.0, batch_pages=8, variation_share=0.0, loss="focal"),
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
        chosen = [_pick(train[i], recipe, rng) for i in range(len(train))]
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


def _pick(example: Example, recipe: Recipe, rng: random.Random) -> Data:
    if rng.random() >= recipe.variation_share:
        return example.data[0]
    if example.grafts and rng.random() < recipe.graft_share:
        return rng.choice(example.grafts)
    return rng.choice(example.data[1:] or example.data)


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
