"""The region encoder's learning: an adapter and a linear head, trained on what an estimate misses.

Enters: a model cut down to its lower blocks, token ids of digests, labels and estimates. Leaves: the adapted model and
its head. A run is bounded by time, stores checkpoints and goes on from them.

Symbols: N regions, H hidden size, D dimensions of the sentence embedding.
"""

from __future__ import annotations

import json
import logging
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from region4web.region_encoder import CLIP, Head, pooled_states
from training.records import split_of
from training.train_abstraction import LORA_TARGETS

if TYPE_CHECKING:
    import torch

__all__ = ["Prepared", "Recipe", "Trainer", "distinct_regions"]

FloatArray = npt.NDArray[np.float32]
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
            return cls(tuple(texts["digests"]), tuple(texts["sites"]), tuple(texts["purposes"]), data["labels"], data["estimates"])


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
