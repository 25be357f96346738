"""Purposes by the embedded model and a language model's reading together: the abstractor `smollm2`.

Enters: a partition. Leaves: one abstraction a region. The lower blocks of a language model, with a LoRA adapter, read a
short digest of each region; a linear head turns what they hold into a correction of the embedded model's estimate of
the label's sentence embedding, and the phrase is chosen from the corrected estimate. One pass over some fifty tokens a
region, nothing is written token by token, so no reply can be unusable. States are the embedded default's.

Symbols: R regions, T tokens, H hidden size, D dimensions of the sentence embedding, L of the embedded model's estimate,
K phrases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from region4web.contents import units_of_regions
from region4web.errors import LanguageModelError, MissingExtraError, WeightsError
from region4web.purposes import PurposeModel, load_purpose_model
from region4web.region_features import RegionFeatures, region_features
from region4web.region_text import region_digest
from region4web.regions import Abstraction, Abstractor, Partition
from region4web.states import DETAILED, state_line

if TYPE_CHECKING:
    import torch

__all__ = [
    "ENCODER_FILE",
    "EncoderAbstractor",
    "Head",
    "RegionEncoder",
    "estimate_basis",
    "lower_blocks",
    "pooled_states",
    "smollm2_abstractor",
]

FloatArray = npt.NDArray[np.float32]
ENCODER_FILE = "encoder.json"
HEAD_FILE = "head.npz"
CLIP = 4.0
BATCH = 32
PENALTY = 0.01
"""Of the regression that finds the estimate's directions."""
SMOLLM2_ADAPTER = Path(__file__).parent / "weights" / "smollm2-adapter"


@dataclass(frozen=True)
class Head:
    """`clip((h - mean) / scale) / sqrt(H) @ weights + bias`: a pooled state (H,) to a correction (D,)."""

    mean: FloatArray
    scale: FloatArray
    weights: FloatArray
    bias: FloatArray
    phrases: tuple[str, ...]
    phrase_vectors: FloatArray
    """(K, D) sentence embeddings of phrases that embedded models know: they tell how an estimate's L dimensions lie in the D."""

    def corrections(self, pooled: FloatArray) -> FloatArray:
        """(R, D) from (R, H)."""
        scaled = np.clip((pooled - self.mean) / self.scale, -CLIP, CLIP) / np.sqrt(len(self.mean))
        return np.asarray(scaled @ self.weights + self.bias, dtype=np.float32)

    def save(self, folder: Path) -> None:
        np.savez_compressed(
            folder / HEAD_FILE,
            mean=self.mean,
            scale=self.scale,
            weights=self.weights.astype(np.float16),
            bias=self.bias,
            phrases=np.array(json.dumps(self.phrases)),
            phrase_vectors=self.phrase_vectors.astype(np.float16),
        )

    @classmethod
    def load(cls, folder: Path) -> Head:
        """Raises WeightsError when the file is missing or damaged."""
        try:
            with np.load(folder / HEAD_FILE, allow_pickle=False) as data:
                head = cls(
                    data["mean"],
                    data["scale"],
                    data["weights"].astype(np.float32),
                    data["bias"],
                    tuple(map(str, json.loads(str(data["phrases"])))),
                    data["phrase_vectors"].astype(np.float32),
                )
            if head.weights.shape != (len(head.mean), len(head.bias)) or head.phrase_vectors.shape != (len(head.phrases), len(head.bias)):
                raise ValueError("arrays do not fit together")
        except (OSError, KeyError, ValueError, TypeError, EOFError) as error:
            raise WeightsError(f"{folder / HEAD_FILE} cannot be read ({error}); reinstall region4web or train it anew") from error
        return head


class RegionEncoder:
    """Digests in, corrections of the estimate out. `blocks` and `tokens`: how much of the model and of a digest is used."""

    def __init__(self, model: Any, tokenizer: Any, head: Head, *, tokens: int, identity: str = "") -> None:
        self.model, self.tokenizer, self.head = model.eval(), tokenizer, head
        self.tokens, self.identity = tokens, identity

    @classmethod
    def load(cls, base: str | Path, folder: Path) -> RegionEncoder:
        """The base model's folder and what `training.train_encoder` wrote. Raises WeightsError, LanguageModelError, MissingExtraError."""
        try:
            import torch
            from peft import PeftModel
        except ImportError as error:
            raise MissingExtraError("transformers and peft are not installed; run: pip install 'region4web[lm]'") from error
        try:
            said = json.loads((folder / ENCODER_FILE).read_text(encoding="utf-8"))
            blocks, tokens = int(said["blocks"]), int(said["tokens"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WeightsError(f"{folder / ENCODER_FILE}: must say blocks and tokens ({error}); train it anew") from error
        model, tokenizer = lower_blocks(base, blocks, dtype=torch.float32)
        try:
            adapted: Any = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise LanguageModelError(f"{base} with adapter {folder} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
        checksum = crc32((folder / "adapter_model.safetensors").read_bytes()) ^ crc32((folder / HEAD_FILE).read_bytes())
        return cls(adapted, tokenizer, Head.load(folder), tokens=tokens, identity=f"{checksum:08x}")

    def count(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def corrections(self, digests: Sequence[str]) -> FloatArray:
        """(R, D); digests of similar length share a batch."""
        import torch

        ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"][: self.tokens] for text in digests]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        pooled = np.zeros((len(ids), len(self.head.mean)), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), BATCH):
                part = order[start : start + BATCH]
                pooled[part] = pooled_states(self.model, [ids[i] for i in part]).numpy()
        return self.head.corrections(pooled)


def lower_blocks(base: str | Path, blocks: int, *, dtype: Any) -> tuple[Any, Any]:
    """A causal language model cut down to its first `blocks`, and its tokenizer. Raises LanguageModelError."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(base))
        model: Any = AutoModelForCausalLM.from_pretrained(str(base), dtype=dtype)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise LanguageModelError(f"{base} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
    model.model.layers = model.model.layers[:blocks]
    model.model.norm = torch.nn.Identity()
    model.config.num_hidden_layers = len(model.model.layers)
    return model, tokenizer


def pooled_states(model: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """(R, H) means over each row's tokens. Rows are padded on the right, which a causal model does not see."""
    import torch

    width = max(1, *map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])  # (R, T)
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in rows])[..., None]  # (R, T, 1)
    inner = model.base_model.model if hasattr(model, "peft_config") else model
    states: torch.Tensor = inner.model(input_ids=ids, use_cache=False).last_hidden_state.float()  # (R, T, H)
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1)


def estimate_basis(model: PurposeModel, head: Head) -> FloatArray:
    """(D, L): the directions of the embedded model's estimate, found from phrases that both know. Raises WeightsError."""
    at = {phrase: k for k, phrase in enumerate(model.phrases)}
    known = [(k, at[phrase]) for k, phrase in enumerate(head.phrases) if phrase in at]
    if len(known) < min(model.phrase_vectors.shape):
        raise WeightsError(f"the encoder and the embedded model share {len(known)} phrases, too few; run python -m training.train_encoder")
    first, second = map(list, zip(*known, strict=True))
    vectors = head.phrase_vectors[first].astype(np.float64)
    square = vectors.T @ vectors + PENALTY * np.eye(vectors.shape[1])
    return np.asarray(np.linalg.solve(square, vectors.T @ model.phrase_vectors[second]), dtype=np.float32)


@dataclass(frozen=True)
class CorrectedPurposes(PurposeModel):
    """A purpose model with a correction (R, L) of its estimates of the R regions that it is asked about."""

    correction: FloatArray

    @classmethod
    def of(cls, model: PurposeModel, correction: FloatArray) -> CorrectedPurposes:
        return cls(**{field.name: getattr(model, field.name) for field in fields(model)}, correction=correction)

    def estimates(self, features: Sequence[RegionFeatures]) -> FloatArray:
        return super().estimates(features) + self.correction


class EncoderAbstractor:
    """Purpose from the corrected estimate, state from the region's own content. `counts`: regions asked about and their tokens."""

    def __init__(self, encoder: RegionEncoder, purposes: PurposeModel, *, name: str = "smollm2", identity: str = "") -> None:
        self.encoder, self.purposes, self.name = encoder, purposes, name
        self.identity = f"{name} {encoder.identity} {identity}"
        self.basis = estimate_basis(purposes, encoder.head)
        self.counts: Counter[str] = Counter()

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.abstract_regions(partition, range(len(partition)))

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        """Abstractions of some regions, in the order of `numbers`."""
        if not numbers:
            return ()
        units = list(units_of_regions(partition))
        features = region_features(partition, units)
        digests = [region_digest(partition, number, count=self.encoder.count) for number in numbers]
        self.counts["regions"] += len(digests)
        self.counts["prompt_tokens"] += sum(min(self.encoder.tokens, self.encoder.count(digest)) for digest in digests)
        corrected = CorrectedPurposes.of(self.purposes, self.encoder.corrections(digests) @ self.basis)
        own = [units[number] for number in numbers]
        purposes = corrected.purposes([features[number] for number in numbers], own)
        return tuple(Abstraction(purpose, state_line(unit, DETAILED), self.name) for purpose, unit in zip(purposes, own, strict=True))


def smollm2_abstractor(folder: str = "") -> Abstractor:
    """The abstractor `smollm2`: the packaged encoder, '' for `folder`, or one's own.

    A folder of `training.train_abstraction` gives an abstractor that writes its lines. Raises WeightsError,
    LanguageModelError and MissingExtraError.
    """
    from region4web.abstraction import EmbeddedAbstractor, packaged_weights
    from region4web.generative import language_model_abstractor
    from region4web.smollm2 import smollm2_folder

    adapter = Path(folder) if folder else SMOLLM2_ADAPTER
    if not (adapter / ENCODER_FILE).is_file():
        return language_model_abstractor(f"smollm2:{adapter}")
    encoder = RegionEncoder.load(smollm2_folder(), adapter)
    embedded = EmbeddedAbstractor()
    return EncoderAbstractor(encoder, load_purpose_model(packaged_weights()), identity=embedded.identity)
