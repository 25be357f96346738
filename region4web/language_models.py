"""Language models behind one call: prompts in, completions with their token counts out.

A prompt is a text (one user message) or a sequence of chat messages `{"role": "system"|"user"|"assistant", "content"}`.
`complete` answers a batch, one `Completion` a prompt, in order. What goes wrong with one prompt is said in its
`Completion.error`; what goes wrong with the model (not to be loaded, not to be reached, key refused) raises
LanguageModelError. Nothing here knows pages. Torch, transformers and openai are imported at first use.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from region4web.errors import LanguageModelError, MissingExtraError

if TYPE_CHECKING:
    import torch

__all__ = [
    "Completion",
    "LanguageModel",
    "Message",
    "Prompt",
    "RecordedModel",
    "ScriptedModel",
    "TransformersModel",
    "chat",
    "language_model_by_name",
    "multiplies_in_bf16",
]

Message = Mapping[str, str]
logger = logging.getLogger(__name__)

Prompt = str | Sequence[Message]
"""A text stands for one user message."""

_ROLES = ("system", "user", "assistant")
THINKING = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)\s*", re.DOTALL)
"""The part of an answer that some models write first."""


@dataclass(frozen=True)
class Completion:
    """A model's answer to one prompt, without the thinking part that some models write first.

    `error` is '' for a whole answer, else why it is none: "truncated: ..." (the text is the part that was written),
    "timeout: ...", "refused: ...", "overlong prompt: ..." (the text is empty).
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    error: str = ""

    def __post_init__(self) -> None:
        if self.prompt_tokens < 0 or self.completion_tokens < 0:
            raise ValueError(f"token counts cannot be negative, found {self.prompt_tokens} and {self.completion_tokens}")


class LanguageModel(Protocol):
    """Answers a batch of prompts.

    `schema` is a JSON schema that each answer should follow. A server is told to decode under it; a model that cannot
    is told it in the prompt. The caller checks the answer in any case.
    """

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]: ...


def chat(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat messages. Raises ValueError when it is none."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages = [dict(message) for message in prompt]
    for message in messages:
        if message.get("role") not in _ROLES or not isinstance(message.get("content"), str):
            raise ValueError(f"a chat message needs a role of {', '.join(_ROLES)} and a text as content, found {message!r:.80}")
    if not messages:
        raise ValueError("a prompt needs at least one message")
    return messages


def language_model_by_name(name: str) -> LanguageModel:
    """`openai:MODEL@BASE_URL` (`openai:MODEL` for OpenAI itself), `transformers:FOLDER_OR_HUB_ID[+ADAPTER_FOLDER]`, `recorded:FILE.jsonl`.

    Raises ValueError for a name of another form, LanguageModelError when the model cannot be loaded.
    """
    kind, _, rest = name.partition(":")
    if kind == "openai" and rest:
        model, _, base_url = rest.partition("@")
        if model:
            from region4web.openai_model import OpenAIModel

            return OpenAIModel(model, base_url or None, options={"temperature": 0} if base_url else {})
    elif kind == "transformers" and rest:
        folder, _, adapter = rest.partition("+")
        return TransformersModel.load(folder, adapter=adapter or None)
    elif kind == "recorded" and rest:
        return RecordedModel(rest)
    raise ValueError(f"{name!r} names no language model; write openai:MODEL@BASE_URL, transformers:FOLDER_OR_HUB_ID or recorded:FILE.jsonl")


def multiplies_in_bf16() -> bool:
    """Whether this machine has an accelerator, or a CPU that multiplies bf16 numbers natively."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    checks = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return any(check() for check in checks if check is not None)


class TransformersModel:
    """A local causal language model, greedy decoding, left-padded batches of prompts of similar length.

    `batch_tokens` bounds rows x (longest prompt + max_tokens) of a batch. `adapter` names what `load` put on top.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "", adapter: str = "", batch_tokens: int = 8192) -> None:
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, found {batch_tokens}")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name, self.adapter, self.batch_tokens = name or type(model).__name__, adapter, batch_tokens
        self.pad_token_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def __repr__(self) -> str:
        return f"TransformersModel({self.name!r}, adapter={self.adapter!r})"

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str],
        *,
        adapter: str | os.PathLike[str] | None = None,
        device: str = "",
        bf16: bool = False,
        batch_tokens: int = 8192,
    ) -> TransformersModel:
        """Load a folder or a hub id, with a peft adapter's folder on top.

        `device` '' takes an accelerator where there is one; weights are bf16 there and float32 on a CPU,
        with `bf16` also on a CPU that multiplies in it.
        """
        try:
            import torch
            import transformers
            from safetensors import SafetensorError
            from transformers import AutoModelForCausalLM, AutoTokenizer

            if adapter is not None:
                from peft import PeftModel
        except ImportError as error:
            raise MissingExtraError(f"{error.name or 'transformers'} is not installed; run: pip install 'region4web[lm]'") from error
        if not sys.stderr.isatty():
            transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        device = device or ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
        dtype = torch.bfloat16 if device != "cpu" or (bf16 and multiplies_in_bf16()) else torch.float32
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(source))
            model: Any = AutoModelForCausalLM.from_pretrained(str(source), dtype=dtype)
            if adapter is not None:
                model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            what = f"{source} with adapter {adapter}" if adapter is not None else str(source)
            raise LanguageModelError(f"{what} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
        return cls(model.to(device), tokenizer, name=str(source), adapter=str(adapter or ""), batch_tokens=batch_tokens)

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]:
        """A prompt longer than the model's context gets an error and is never cut."""
        ids = [self.encode(prompt, schema=schema) for prompt in prompts]
        limit = int(getattr(self.model.config, "max_position_embeddings", 0) or 1 << 30) - max_tokens
        completions: dict[int, Completion] = {
            i: Completion("", len(row), 0, f"overlong prompt: {len(row)} tokens, {max(0, limit)} fit")
            for i, row in enumerate(ids)
            if len(row) > limit
        }
        for batch in _length_batches([(i, len(row)) for i, row in enumerate(ids) if len(row) <= limit], max_tokens, self.batch_tokens):
            completions.update(zip(batch, self._generate([ids[i] for i in batch], max_tokens), strict=True))
        return [completions[i] for i in range(len(ids))]

    def encode(self, prompt: Prompt, *, schema: Mapping[str, Any] | None = None) -> list[int]:
        """Token ids of the prompt in the model's chat format, up to where its answer starts."""
        messages = chat(prompt)
        if schema is not None:
            told = f"Answer with one JSON object that follows this JSON schema, and nothing else:\n{json.dumps(schema)}"
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n\n{told}"}
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages) + "\n"
            return list(self.tokenizer(text)["input_ids"])
        # enable_thinking is read by the templates of models that think (Qwen3) and ignored by the others
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _generate(self, rows: list[list[int]], max_tokens: int) -> list[Completion]:
        import torch

        width = max(map(len, rows))
        device = self.model.device
        input_ids = torch.tensor([[self.pad_token_id] * (width - len(row)) + row for row in rows], device=device)  # (B, T)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)  # (B, T)
        with torch.inference_mode():
            output: torch.Tensor = self.model.generate(
                input_ids=input_ids, attention_mask=mask, max_new_tokens=max_tokens, do_sample=False, num_beams=1,
                temperature=None, top_p=None, top_k=None, pad_token_id=self.pad_token_id,
            )  # fmt: skip
        stops = self._stops()
        return [self._completion(len(row), new, stops) for row, new in zip(rows, output[:, width:].tolist(), strict=True)]

    def _completion(self, prompt_tokens: int, new: list[int], stops: frozenset[int]) -> Completion:
        end = next((k for k, token in enumerate(new) if token in stops), None)
        written = len(new) if end is None else end + 1
        text = THINKING.sub("", self.tokenizer.decode(new[:end], skip_special_tokens=True)).strip()
        if end is None:
            return Completion(text, prompt_tokens, written, f"truncated: stopped after {written} tokens")
        return Completion(text, prompt_tokens, written, "" if text else "empty: the answer holds no text")

    def _stops(self) -> frozenset[int]:
        ends = self.model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return frozenset(t for t in (*ends, self.tokenizer.eos_token_id) if t is not None)


class ScriptedModel:
    """Answers from a list, in order, or from a function of the chat messages: for tests, demonstrations and dry runs.

    A reply is a text or a whole `Completion`. `prompts` holds what was asked. Tokens are counted by `count`, words by
    default. Raises LanguageModelError when the list is used up.
    """

    def __init__(
        self,
        replies: Sequence[str | Completion] | Callable[[list[dict[str, str]]], str | Completion],
        *,
        count: Callable[[str], int] = lambda text: len(text.split()),
    ) -> None:
        self._replies = replies
        self._count = count
        self.prompts: list[list[dict[str, str]]] = []

    def __repr__(self) -> str:
        return f"ScriptedModel(answered={len(self.prompts)})"

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]:
        return [self._answer(chat(prompt)) for prompt in prompts]

    def _answer(self, messages: list[dict[str, str]]) -> Completion:
        if callable(self._replies):
            reply = self._replies(messages)
        elif len(self.prompts) < len(self._replies):
            reply = self._replies[len(self.prompts)]
        else:
            raise LanguageModelError(
                f"the script holds {len(self._replies)} replies and one more was asked for: {messages[-1]['content']!r:.80}"
            )
        self.prompts.append(messages)
        if isinstance(reply, Completion):
            return reply
        return Completion(reply, sum(self._count(message["content"]) for message in messages), self._count(reply))


class RecordedModel:
    """Answers from a file of recorded calls; asks `model` for what is not in it, and records that.

    File: JSON lines `{"prompt": [message, ...], "max_tokens", "schema", "completion": {"text", "prompt_tokens",
    "completion_tokens", "error"}}`. A prompt asked again (sampling) gets the next of its recordings. Without a model, a
    prompt that is not recorded raises LanguageModelError. Failed calls are not recorded.
    """

    def __init__(self, path: str | os.PathLike[str], model: LanguageModel | None = None) -> None:
        self.path = Path(path)
        self._model = model
        self._lock = threading.Lock()
        self._recorded: dict[str, list[Completion]] = {}
        self._asked: dict[str, int] = {}
        self._whole_bytes: int | None = None
        """Length of the file without a last line that was cut off; None when there is none."""
        if self.path.exists():
            self._read()
        elif model is None:
            raise LanguageModelError(f"{self.path}: no such file of recorded calls, and no model to ask instead")

    def __repr__(self) -> str:
        return f"RecordedModel({str(self.path)!r}, {self._model!r})"

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]:
        calls = [(chat(prompt), _call_key(prompt, max_tokens, schema)) for prompt in prompts]
        found: list[Completion | None] = []
        with self._lock:
            for _, key in calls:
                turn = self._asked.get(key, 0)
                known = self._recorded.get(key, [])
                found.append(known[turn] if turn < len(known) else None)
                self._asked[key] = turn + 1
        missing = [i for i, completion in enumerate(found) if completion is None]
        if missing and self._model is None:
            raise LanguageModelError(f"{self.path}: no recording of the prompt {calls[missing[0]][0][-1]['content']!r:.120}")
        if missing and self._model is not None:
            answers = self._model.complete([calls[i][0] for i in missing], max_tokens=max_tokens, schema=schema)
            for i, answer in zip(missing, answers, strict=True):
                found[i] = answer
            self._append([(calls[i], answer) for i, answer in zip(missing, answers, strict=True) if not answer.error], max_tokens, schema)
        return [completion for completion in found if completion is not None]

    def _append(
        self, answered: list[tuple[tuple[list[dict[str, str]], str], Completion]], max_tokens: int, schema: Mapping[str, Any] | None
    ) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            if self._whole_bytes is not None:
                file.truncate(self._whole_bytes)
                self._whole_bytes = None
            for (messages, key), completion in answered:
                self._recorded.setdefault(key, []).append(completion)
                entry = {"prompt": messages, "max_tokens": max_tokens, "schema": schema, "completion": asdict(completion)}
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def _read(self) -> None:
        raw = self.path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        if whole < len(raw):
            logger.warning("%s: the last call was not written whole and is left out", self.path)
            self._whole_bytes = whole
        for number, line in enumerate(raw[:whole].decode("utf-8").split("\n"), 1):
            if not line:
                continue
            try:
                entry = json.loads(line)
                completion = Completion(**entry["completion"])
                key = _call_key(entry["prompt"], entry["max_tokens"], entry["schema"])
            except (ValueError, KeyError, TypeError) as error:
                raise LanguageModelError(f"{self.path}: line {number} is no recorded call ({error})") from error
            self._recorded.setdefault(key, []).append(completion)


def _call_key(prompt: Prompt, max_tokens: int, schema: Mapping[str, Any] | None) -> str:
    return hashlib.sha256(json.dumps([chat(prompt), max_tokens, schema], sort_keys=True).encode()).hexdigest()


def _length_batches(lengths: list[tuple[int, int]], max_tokens: int, batch_tokens: int) -> list[list[int]]:
    """Indices in batches of similar length, longest first, so that a batch that does not fit in memory shows at once."""
    batches: list[list[int]] = []
    longest = 0
    for i, length in sorted(lengths, key=lambda pair: -pair[1]):
        if not batches or (len(batches[-1]) + 1) * (longest + max_tokens) > batch_tokens:
            batches.append([])
            longest = length
        batches[-1].append(i)
    return batches
