"""Observation methods by name, each at its natural length or at a budget.

Enters: a name. Leaves: an `ObservationModule`. Ablations of PageDigest are compositions of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pagedigest.budgets import PageShare
from pagedigest.evaluation.held_out import HeldOutSelector
from pagedigest.line_counts import LineCounter
from pagedigest.modules.ablations import ElementSelection, WithoutPersistence, WithoutViews
from pagedigest.modules.bm25 import BM25Chunks
from pagedigest.modules.budgeted import Budgeted
from pagedigest.modules.embedding import Embed, EmbeddingChunks
from pagedigest.modules.full_tree import FullTree
from pagedigest.modules.interactive_only import InteractiveOnly
from pagedigest.modules.truncation import Truncation
from pagedigest.observation import ObservationModule
from pagedigest.selection import All, HybridSelector, LLMSelector, Nothing, Selector
from pagedigest.session import PageDigest
from pagedigest.tokens import TokenCounter, default_counter
from region4web.abstraction import abstractor_by_name
from region4web.language_models import LanguageModel
from region4web.regions import Abstractor, Segmenter
from region4web.segmenters import segmenter_by_name

__all__ = ["LLM_FREE", "OTHERS", "SYSTEM_NAMES", "Parts", "default_parts", "system_by_name"]

NATURAL_RETRIEVAL_TOKENS = 2000
"""Cap of the retrieval baselines where no budget is given (FocusAgent uses 2,000 and 4,000)."""


def _packaged_embeddings(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    from region4web.similarity import sentence_embeddings

    return sentence_embeddings(texts)


@dataclass(frozen=True)
class Parts:
    """What methods are composed of. `model` serves those that ask a language model; None where there is none.

    `rules` and `role_names` take the places of segmenter and abstractor in the ablations, `held_out` and
    `embedding_selector` that of the selector in variants.
    """

    segmenter: Segmenter
    abstractor: Abstractor
    model: LanguageModel | None = None
    selector: Selector = field(default_factory=HybridSelector)
    held_out: Selector = field(default_factory=HeldOutSelector)
    embed: Embed = _packaged_embeddings
    embedding_selector: Selector = field(default_factory=lambda: HybridSelector(embed=_packaged_embeddings))
    rules: Segmenter = field(default_factory=lambda: segmenter_by_name("landmarks"))
    role_names: Abstractor = field(default_factory=lambda: abstractor_by_name("role-name"))
    counter: TokenCounter = field(default_factory=lambda: LineCounter(default_counter()))


def default_parts(segmenter: str = "best", abstractor: str = "embedded", model: LanguageModel | None = None) -> Parts:
    """The packaged segmenter and abstractor. Raises ValueError for unknown names, WeightsError, MissingExtraError."""
    return Parts(segmenter_by_name(segmenter), abstractor_by_name(abstractor), model)


def _digest(parts: Parts, budget: int | None, selector: Selector | None = None, **changed: object) -> ObservationModule:
    """PageDigest; without a budget a share of each page, and no limit where everything or nothing is selected."""
    limit = budget if budget is not None or isinstance(selector, (All, Nothing)) else PageShare()
    return PageDigest(parts.segmenter, parts.abstractor, selector or parts.selector, budget_tokens=limit, counter=parts.counter, **changed)  # type: ignore[arg-type]


def _model(parts: Parts, name: str) -> LanguageModel:
    if parts.model is None:
        raise ValueError(f"{name} asks a language model; name one with --model, as openai:MODEL@BASE_URL")
    return parts.model


def _rules(parts: Parts, budget: int | None) -> ObservationModule:
    return _digest(replace(parts, segmenter=parts.rules), budget)


def _role_names(parts: Parts, budget: int | None) -> ObservationModule:
    return _digest(replace(parts, abstractor=parts.role_names), budget)


def _focus_agent(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.focus_agent import FocusAgent

    return _at(FocusAgent(_model(parts, "focus_agent"), counter=parts.counter), budget, parts)


def _lcow(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.lcow import LCoW

    return _at(LCoW(_model(parts, "lcow"), counter=parts.counter), budget, parts)


def _ash(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.ash import ASH

    return _at(ASH(_model(parts, "ash"), counter=parts.counter), budget, parts)


def _webshell(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.webshell import WebShell

    return _at(WebShell(counter=parts.counter), budget, parts)


def _webshell_map(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.webshell import WebShell

    return _at(WithoutPersistence(WebShell(counter=parts.counter)), budget, parts)


def _at(module: ObservationModule, budget: int | None, parts: Parts) -> ObservationModule:
    return module if budget is None else Budgeted(module, budget, parts.counter)


_SYSTEMS: dict[str, Callable[[Parts, int | None], ObservationModule]] = {
    "pagedigest": lambda parts, budget: _digest(parts, budget),
    "pagedigest_held_out": lambda parts, budget: _digest(parts, budget, parts.held_out),
    "pagedigest_append": lambda parts, budget: _digest(parts, budget, layout="append"),
    "pagedigest_minilm": lambda parts, budget: _digest(parts, budget, parts.embedding_selector),
    "pagedigest_llm": lambda parts, budget: _digest(parts, budget, LLMSelector(_model(parts, "pagedigest_llm"), fallback=parts.selector)),
    "full_tree": lambda parts, budget: FullTree(parts.counter) if budget is None else Truncation(budget, parts.counter),
    "truncation": lambda parts, budget: Truncation(budget or NATURAL_RETRIEVAL_TOKENS, parts.counter),
    "bm25": lambda parts, budget: _at(BM25Chunks(budget or NATURAL_RETRIEVAL_TOKENS, counter=parts.counter), budget, parts),
    "embedding": lambda parts, budget: _at(
        EmbeddingChunks(budget or NATURAL_RETRIEVAL_TOKENS, embed=parts.embed, counter=parts.counter), budget, parts
    ),
    "interactive_only": lambda parts, budget: _at(InteractiveOnly(counter=parts.counter), budget, parts),
    "focus_agent": _focus_agent,
    "lcow": _lcow,
    "ash": _ash,
    "webshell": _webshell,
    "webshell_map": _webshell_map,
    "without_decomposition": _rules,
    "without_abstraction": _role_names,
    "without_selection": lambda parts, budget: _digest(parts, budget, All()),
    "without_persistence": lambda parts, budget: WithoutPersistence(_digest(parts, budget)),
    "without_views": lambda parts, budget: WithoutViews(_digest(parts, budget)),
    "element_level": lambda parts, budget: ElementSelection(parts.selector, budget, counter=parts.counter),
    "purposes_only": lambda parts, budget: _digest(parts, budget, Nothing()),
}
SYSTEM_NAMES = tuple(_SYSTEMS)
LLM_FREE = tuple(name for name in SYSTEM_NAMES if name not in ("pagedigest_llm", "focus_agent", "lcow", "ash"))
OF_PAGEDIGEST = tuple(
    name for name in LLM_FREE if name.startswith(("pagedigest", "without_")) or name in ("element_level", "purposes_only")
)
"""PageDigest, its variants, and what is left of it when a part is taken out."""
OTHERS = tuple(name for name in LLM_FREE if name not in OF_PAGEDIGEST)
"""Methods that are not PageDigest, without a language model."""


def system_by_name(name: str, parts: Parts, *, budget_tokens: int | None = None) -> ObservationModule:
    """A method by name, hyphens as good as underscores. Raises ValueError that lists the names."""
    build = _SYSTEMS.get(name.replace("-", "_"))
    if build is None:
        raise ValueError(f"no observation method {name!r}; use one of {', '.join(SYSTEM_NAMES)}")
    return build(parts, budget_tokens)
