"""A chat model behind an OpenAI-compatible endpoint, as a `LanguageModel`.

Enters: prompts. Leaves: completions with the server's token counts. Faults of one call are said in its completion;
a server that cannot be reached, knows no such model or refuses the key raises LanguageModelError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from region4web.errors import LanguageModelError, MissingExtraError
from region4web.language_models import THINKING, Completion, Prompt, chat

__all__ = ["OpenAIModel"]


class OpenAIModel:
    """A chat model behind an OpenAI-compatible endpoint (OpenAI, vLLM, llama.cpp, `transformers serve`, ...).

    `base_url` None is OpenAI itself. `api_key` None takes OPENAI_API_KEY; a server of one's own needs none. A call that
    gets 408, 409, 429, 5xx or no answer is tried again up to `max_retries` times with growing pauses, or after the
    pause that the server asks for. `options` are fields added to each request (`temperature`, `seed`, `extra_body`).
    The key is in no repr, log or error text.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        max_retries: int = 4,
        concurrency: int = 8,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, found {concurrency}")
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError("the openai client is not installed; run: pip install 'region4web[lm]'") from error
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else "")
        if not key:
            raise LanguageModelError("no API key: set OPENAI_API_KEY, or give the base URL of a server that needs none")
        self.model, self.base_url, self.concurrency = model, base_url, concurrency
        self._key = key
        self._options = dict(options or {})
        self._client = openai.OpenAI(api_key=key, base_url=base_url, timeout=timeout_s, max_retries=max_retries)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r}, {self.base_url!r}, api_key=***)"

    def complete(self, prompts: Sequence[Prompt], *, max_tokens: int, schema: Mapping[str, Any] | None = None) -> list[Completion]:
        """Up to `concurrency` calls at a time. Raises LanguageModelError when the server cannot be reached at all, knows
        no such model or refuses the key."""
        if not prompts:
            return []
        messages = [chat(prompt) for prompt in prompts]
        with ThreadPoolExecutor(min(self.concurrency, len(messages))) as pool:
            completions = list(pool.map(lambda m: self._answer(m, max_tokens, schema), messages))
        unreached = [c for c in completions if c.error.startswith("unreachable")]
        if len(unreached) == len(completions):
            raise LanguageModelError(f"{self.model} at {self.base_url or 'OpenAI'}: {unreached[0].error}")
        return completions

    def _answer(self, messages: list[dict[str, str]], max_tokens: int, schema: Mapping[str, Any] | None) -> Completion:
        import openai

        # OpenAI's newer models know only the second name, most other servers only the first.
        request: dict[str, Any] = {"max_tokens" if self.base_url else "max_completion_tokens": max_tokens, **self._options}
        if schema is not None:
            request["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}
        try:
            reply = self._client.chat.completions.create(model=self.model, messages=cast(Any, messages), **request)
        except openai.APITimeoutError:
            return Completion("", 0, 0, f"timeout: no answer within {self._client.timeout} s")
        except openai.APIConnectionError as error:
            return Completion("", 0, 0, f"unreachable: {self._masked(error.__cause__ or error)}")
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            raise LanguageModelError(f"{self.model} at {self.base_url or 'OpenAI'}: {self._masked(error)}") from None
        except openai.APIStatusError as error:
            return Completion("", 0, 0, f"refused: {self._masked(error)}")
        except (openai.APIError, ValueError) as error:  # an answer that is not what the protocol says
            return Completion("", 0, 0, f"malformed: {self._masked(error)}")
        return self._completion(reply)

    def _completion(self, reply: Any) -> Completion:
        choices = getattr(reply, "choices", None)
        usage = getattr(reply, "usage", None)
        spent = (int(getattr(usage, "prompt_tokens", 0) or 0), int(getattr(usage, "completion_tokens", 0) or 0))
        if not choices or getattr(choices[0], "message", None) is None:
            return Completion("", *spent, "malformed: the answer holds no message")
        text = THINKING.sub("", choices[0].message.content or "").strip()
        if choices[0].finish_reason == "length":
            return Completion(text, *spent, f"truncated: stopped after {spent[1]} tokens")
        return Completion(text, *spent, "" if text else "empty: the answer holds no text")

    def _masked(self, error: BaseException) -> str:
        text = " ".join(str(error).split())[:300] or type(error).__name__
        return text.replace(self._key, "***") if len(self._key) > 4 else text
