"""A training run that is bounded by time: one loop for the models of this package, with checkpoints, reports and resumption.

Enters: a model's loss of some samples and its step. Leaves: the trained model. The learning rate rises for some steps and
then falls with the clock, to a fiftieth of itself; a run that was killed goes on from its checkpoint with the time that is left.
"""

from __future__ import annotations

import json
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from training.train_abstraction import length_batches

if TYPE_CHECKING:
    import torch

__all__ = ["TimedTrainer", "started_from"]

CHECKPOINT_SECONDS, REPORT_SECONDS = 120, 300
LOWEST_RATE = 0.02
_log = logging.getLogger("training.timed_trainer")


class TimedTrainer(ABC):
    """`chosen`: samples to train on; `lengths`: of all samples; `optimizer` over groups whose rates are `rates`."""

    optimizer: torch.optim.Optimizer
    rates: Sequence[float]

    def __init__(
        self, chosen: Sequence[int], lengths: Sequence[int], *, batch_size: int, bucket_batches: int, warmup_steps: int, seed: int
    ) -> None:
        self.chosen, self.lengths, self.seed = list(chosen), lengths, seed
        self.batch_size, self.bucket_batches, self.warmup_steps = batch_size, bucket_batches, warmup_steps
        self.steps, self.seconds = 0, 0.0
        self.losses: list[tuple[int, float, float]] = []
        """Step, mean loss since the report before, loss on the samples to validate on."""

    @abstractmethod
    def loss(self, part: Sequence[int]) -> torch.Tensor:
        """Of one batch."""

    @abstractmethod
    def validation_loss(self, part: Sequence[int]) -> float: ...

    @abstractmethod
    def step(self, loss: torch.Tensor) -> None:
        """One step of the optimiser down `loss`."""

    @abstractmethod
    def weights(self) -> list[torch.Tensor]:
        """What is trained."""

    @abstractmethod
    def take(self, weights: Sequence[torch.Tensor]) -> None:
        """Make these the weights."""

    def fit(self, seconds: float, checkpoint: Path, validation: Sequence[int] = ()) -> None:
        """Train until `seconds` have been spent, those of earlier runs included. Raises ValueError for another recipe's checkpoint."""
        if checkpoint.is_file():
            self.restore(checkpoint)
        began, spent, saved, reported = time.monotonic(), self.seconds, time.monotonic(), time.monotonic()
        recent: list[float] = []
        progress = tqdm(total=round(seconds), unit="s", disable=None)
        while self.seconds < seconds:
            for part in self.batches(self.steps):
                self.set_rates(seconds)
                loss = self.loss(part)
                self.step(loss)
                recent.append(float(loss.detach()))
                self.steps += 1
                self.seconds = spent + time.monotonic() - began
                progress.update(round(self.seconds) - progress.n)
                over = self.seconds >= seconds
                if over or time.monotonic() - reported > REPORT_SECONDS:
                    held_out = self.validation_loss(validation) if validation else float("nan")
                    self.losses.append((self.steps, float(np.mean(recent)), held_out))
                    recent.clear()
                    reported = time.monotonic()
                    _log.info("step %d: loss %.4f, on validation sites %.4f", *self.losses[-1])
                if over or time.monotonic() - saved > CHECKPOINT_SECONDS:
                    self.store(checkpoint)
                    saved = time.monotonic()
                if over:
                    break
        progress.close()

    def batches(self, seed: int) -> Iterator[list[int]]:
        """All chosen samples once, batches of similar length in random order; after a restart in another one."""
        lengths = [self.lengths[i] for i in self.chosen]
        rng = random.Random(f"{self.seed}/{seed}")
        for part in length_batches(lengths, self.batch_size, rng, bucket_batches=self.bucket_batches):
            yield [self.chosen[k] for k in part]

    def set_rates(self, seconds: float) -> None:
        share = min(1.0, (self.steps + 1) / self.warmup_steps) * max(LOWEST_RATE, 1 - self.seconds / seconds)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * share

    def average_with(self, start: Sequence[torch.Tensor], validation: Sequence[int]) -> dict[str, float]:
        """Take the mean of the present weights and of `start`, those that training went on from, where that says `validation` better.

        Weight averaging of fine-tuned models (Wortsman et al. 2022, "Model soups"). Returns the validation loss of `end` and `mean`.
        """
        end = [weight.detach().clone() for weight in self.weights()]
        losses = {"end": self.validation_loss(validation)}
        self.take([(a + b) / 2 for a, b in zip(start, end, strict=True)])
        losses["mean"] = self.validation_loss(validation)
        if not losses["mean"] < losses["end"]:
            self.take(end)
        return losses

    def store(self, path: Path) -> None:
        import torch

        state: dict[str, Any] = {name: getattr(self, name) for name in ("steps", "seconds", "losses")}
        partial = path.with_suffix(".partial")
        torch.save({**state, "weights": [w.detach() for w in self.weights()], "optimizer": self.optimizer.state_dict()}, partial)
        partial.replace(path)

    def restore(self, path: Path) -> None:
        """Raises ValueError when the checkpoint is of another recipe."""
        import torch

        state: Mapping[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if [tuple(w.shape) for w in state["weights"]] != [tuple(w.shape) for w in self.weights()]:
            raise ValueError(f"{path} is a checkpoint of another recipe; give another --out")
        self.take(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name in ("steps", "seconds", "losses"):
            setattr(self, name, state[name])
        _log.info("going on from step %d of %s", self.steps, path)


def started_from(folder: Path | None, what: str, checksum: str) -> dict[str, Any] | None:
    """Of the weights that a run goes on from: their checksum, called `what`, and their own `training.json`; None where it starts anew."""
    if folder is None:
        return None
    before = folder / "training.json"
    return {what: checksum, "training": json.loads(before.read_text(encoding="utf-8")) if before.is_file() else None}
