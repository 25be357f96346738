"""The region writer's learning: an adapter on a language model's upper blocks, trained to continue a prompt with a purpose.

Enters: a causal language model, token ids of prompts and answers. Leaves: the adapted model. The lower blocks stay as they
are, so what they make of each sample is computed once and kept in a file (some 120 KB a region). A run is bounded by time,
stores checkpoints and goes on from them.

Symbols: N regions, T tokens, H hidden size.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from region4web.region_writer import ADAPTER_FILE
from training.records import write_whole
from training.timed_trainer import TimedTrainer
from training.train_abstraction import LORA_TARGETS, Row

if TYPE_CHECKING:
    import torch

__all__ = ["Prepared", "Recipe", "Trainer", "distinct_regions", "lower_states"]

BUCKET_BATCHES = 24


@dataclass(frozen=True)
class Recipe:
    """Chosen on validation sites, within the time there was."""

    frozen_blocks: int = 14
    prompt_tokens: int = 110
    guesses: int = 3
    lora_rank: int = 16
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    batch_size: int = 16
    warmup_steps: int = 20


@dataclass(frozen=True)
class Prepared:
    """What the writer is trained on, in page order. `guesses`: of an embedded model that has not seen the region's site; `splits`:
    `further` for regions that are only trained on."""

    digests: tuple[str, ...]
    sites: tuple[str, ...]
    splits: tuple[str, ...]
    purposes: tuple[str, ...]
    guesses: tuple[tuple[str, ...], ...]

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}))

    @classmethod
    def load(cls, path: Path) -> Prepared:
        said = json.loads(path.read_text(encoding="utf-8"))
        guesses = tuple(map(tuple, said["guesses"]))
        return cls(tuple(said["digests"]), tuple(said["sites"]), tuple(said["splits"]), tuple(said["purposes"]), guesses)


class LabelledRows(Protocol):
    """What is learned from, in page order: site, split and purpose of each region."""

    @property
    def sites(self) -> Sequence[str]: ...
    @property
    def splits(self) -> Sequence[str]: ...
    @property
    def purposes(self) -> Sequence[str]: ...


def distinct_regions(prepared: LabelledRows, seed: int, splits: Sequence[str] = ("train", "further")) -> list[int]:
    """Regions of these splits in random order, one for each purpose of a site: repeated headers and footers teach nothing new."""
    order = [i for i, split in enumerate(prepared.splits) if split in splits]
    random.Random(seed).shuffle(order)
    first: dict[tuple[str, str], int] = {}
    for i in order:
        first.setdefault((prepared.sites[i], prepared.purposes[i]), i)
    return list(first.values())


def lower_states(model: Any, rows: Sequence[Row], blocks: int, path: Path, *, batch: int = 24) -> npt.NDArray[np.uint16]:
    """(sum of T, H) states after the first `blocks` of all rows end to end, as the bits of bfloat16; read from `path` where they are there.

    Rows are padded on the right, which a causal model does not see.
    """
    import torch

    lengths = [len(prompt) + len(answer) for prompt, answer in rows]
    starts = np.cumsum([0, *lengths])
    shape = (int(starts[-1]), int(model.config.hidden_size))
    if path.is_file() and (found := np.load(path, mmap_mode="r")).shape == shape:
        return found
    inner = model.model
    layers, norm = inner.layers, inner.norm
    inner.layers, inner.norm = layers[:blocks], torch.nn.Identity()
    partial = path.with_suffix(".partial")
    states = np.lib.format.open_memmap(str(partial), mode="w+", dtype=np.uint16, shape=shape)
    order = sorted(range(len(rows)), key=lambda i: lengths[i])
    with torch.inference_mode():
        for k in tqdm(range(0, len(order), batch), unit="batch", desc="lower blocks", disable=None):
            part = order[k : k + batch]
            width = lengths[part[-1]]
            ids = torch.tensor([[*rows[i][0], *rows[i][1], *[0] * (width - lengths[i])] for i in part])  # (B, T)
            h = inner(input_ids=ids, use_cache=False).last_hidden_state.to(torch.bfloat16)  # (B, T, H)
            for j, i in enumerate(part):
                states[starts[i] : starts[i + 1]] = h[j, : lengths[i]].contiguous().view(torch.uint16).numpy()
    inner.layers, inner.norm = layers, norm
    states.flush()
    partial.replace(path)
    return np.load(path, mmap_mode="r")


class Trainer(TimedTrainer):
    """The base with an adapter on its upper blocks, and the optimiser over float32 copies of the adapter's weights."""

    def __init__(
        self, model: Any, rows: Sequence[Row], states: npt.NDArray[np.uint16], chosen: Sequence[int], recipe: Recipe, seed: int
    ) -> None:
        import torch
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(seed)
        super().__init__(
            chosen,
            [len(prompt) + len(answer) for prompt, answer in rows],
            batch_size=recipe.batch_size,
            bucket_batches=BUCKET_BATCHES,
            warmup_steps=recipe.warmup_steps,
            seed=seed,
        )
        self.rows, self.states, self.recipe, self.rates = rows, states, recipe, (recipe.learning_rate,)
        self.starts = np.cumsum([0, *self.lengths])
        config = LoraConfig(
            r=recipe.lora_rank,
            lora_alpha=2 * recipe.lora_rank,
            lora_dropout=0.0,
            target_modules=LORA_TARGETS,
            layers_to_transform=list(range(recipe.frozen_blocks, model.config.num_hidden_layers)),
            task_type="CAUSAL_LM",
        )
        self.model: Any = get_peft_model(model, config, autocast_adapter_dtype=False)
        self.base: Any = self.model.base_model.model
        self.dtype = next(model.parameters()).dtype
        self.adapter = [p for p in self.model.parameters() if p.requires_grad]
        self.copies = [p.detach().float().clone() for p in self.adapter]
        self.optimizer = torch.optim.AdamW(self.copies, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, betas=(0.9, 0.98))

    def start_from(self, folder: Path) -> None:
        """Take the weights of an adapter that was trained before. Raises ValueError when it is of another recipe or cannot be read."""
        from peft.utils import set_peft_model_state_dict
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            found = set_peft_model_state_dict(self.model, load_file(str(folder / ADAPTER_FILE)))
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{folder}: the adapter cannot be read ({error})") from error
        except RuntimeError as error:  # other sizes
            raise ValueError(f"{folder} holds an adapter of another recipe; train without --start") from error
        if found.unexpected_keys or any("lora_" in name for name in found.missing_keys):
            raise ValueError(f"{folder} holds an adapter of another recipe; train without --start")
        self.take([parameter.detach().float() for parameter in self.adapter])

    def take(self, weights: Sequence[torch.Tensor]) -> None:
        """Make these the adapter's weights."""
        import torch

        with torch.no_grad():
            for copy, given in zip(self.copies, weights, strict=True):
                copy.copy_(given)
        self.spread()

    def upper_states(self, part: Sequence[int]) -> torch.Tensor:
        """(B, T, H) states after the last block."""
        import torch

        width = max(self.lengths[i] for i in part)
        h = torch.zeros(len(part), width, self.states.shape[1], dtype=torch.bfloat16)
        for j, i in enumerate(part):
            own = np.array(self.states[self.starts[i] : self.starts[i + 1]])
            h[j, : self.lengths[i]] = torch.from_numpy(own).view(torch.bfloat16)
        h = h.to(self.dtype)
        positions = torch.arange(width)[None]
        core = self.base.model
        rotary = core.rotary_emb(h, positions)
        for block in core.layers[self.recipe.frozen_blocks :]:
            out = block(h, attention_mask=None, position_embeddings=rotary, position_ids=positions)
            h = out[0] if isinstance(out, tuple) else out
        return h

    def loss(self, part: Sequence[int]) -> torch.Tensor:
        """Mean cross entropy over the answers' tokens."""
        import torch
        import torch.nn.functional as F

        h = self.upper_states(part)
        before = torch.cat([h[j, len(self.rows[i][0]) - 1 : self.lengths[i] - 1] for j, i in enumerate(part)])
        wanted = torch.tensor([token for i in part for token in self.rows[i][1]])
        return F.cross_entropy(self.base.lm_head(self.base.model.norm(before)).float(), wanted)

    def validation_loss(self, part: Sequence[int]) -> float:
        """Mean cross entropy over the answers' tokens of these regions."""
        import torch

        order = sorted(part, key=lambda i: self.lengths[i])
        total = count = 0.0
        with torch.inference_mode():
            for k in range(0, len(order), self.recipe.batch_size):
                batch = order[k : k + self.recipe.batch_size]
                tokens = sum(len(self.rows[i][1]) for i in batch)
                total, count = total + float(self.loss(batch)) * tokens, count + tokens
        return total / max(1.0, count)

    def weights(self) -> list[torch.Tensor]:
        return self.copies

    def step(self, loss: torch.Tensor) -> None:
        """One step of the float32 copies; the model's own weights follow."""
        import torch

        loss.backward()  # type: ignore[no-untyped-call]
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
