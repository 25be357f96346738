"""Observation methods by name, each at its natural length or at a budget.

Enters: a name. Leaves: an `ObservationModule`. Ablations of PageDigest are compositions of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedigest.budgets import PageShare
from pagedigest.modules.ablations import ElementSelection, WithoutPersistence, WithoutViews
from pagedigest.modules.bm25 import BM25Chunks
from pagedigest.modules.embedding import EmbeddingChunks
from pagedigest.modules.full_tree import FullTree
from pagedigest.modules.interactive_only import InteractiveOnly
from pagedigest.modules.truncation import Truncated, Truncation
from pagedigest.observation import ObservationModule
from pagedigest.selection import All, HybridSelector, LLMSelector, Nothing, Selector
from pagedigest.session import PageDigest
from region4web.language_models import LanguageModel
from region4web.regions import Abstractor, Segmenter

__all__ = ["LLM_FREE", "SYSTEM_NAMES", "Parts", "default_parts", "system_by_name"]

NATURAL_RETRIEVAL_TOKENS = 2000
"""Cap of the retrieval baselines where no budget is given (FocusAgent uses 2,000 and 4,000)."""


@dataclass(frozen=True)
class Parts:
    """What PageDigest is composed of. `model` serves the methods that ask a language model; None where there is none."""

    segmenter: Segmenter
    abstractor: Abstractor
    model: LanguageModel | None = None


def default_parts(segmenter: str = "best", abstractor: str = "embedded", model: LanguageModel | None = None) -> Parts:
    """The packaged segmenter and abstractor. Raises ValueError for unknown names, WeightsError, MissingExtraError."""
    from region4web.abstraction import abstractor_by_name
    from region4web.segmenters import segmenter_by_name

    return Parts(segmenter_by_name(segmenter), abstractor_by_name(abstractor), model)


def _digest(parts: Parts, budget: int | None, selector: Selector | None = None, **changed: object) -> ObservationModule:
    """PageDigest; without a budget a share of each page, and no limit where everything or nothing is selected."""
    limit = budget if budget is not None or isinstance(selector, (All, Nothing)) else PageShare()
    return PageDigest(parts.segmenter, parts.abstractor, selector or HybridSelector(), budget_tokens=limit, **changed)  # type: ignore[arg-type]


def _with_embeddings() -> Selector:
    from region4web.similarity import sentence_embeddings

    return HybridSelector(embed=sentence_embeddings)


def _model(parts: Parts, name: str) -> LanguageModel:
    if parts.model is None:
        raise ValueError(f"{name} asks a language model; name one with --model, as openai:MODEL@BASE_URL")
    return parts.model


def _rules(parts: Parts, budget: int | None) -> ObservationModule:
    from region4web.segmenters import segmenter_by_name

    return _digest(Parts(segmenter_by_name("landmarks"), parts.abstractor), budget)


def _role_names(parts: Parts, budget: int | None) -> ObservationModule:
    from region4web.abstraction import abstractor_by_name

    return _digest(Parts(parts.segmenter, abstractor_by_name("role-name")), budget)


def _focus_agent(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.focus_agent import FocusAgent

    return _cut(FocusAgent(_model(parts, "focus_agent")), budget)


def _lcow(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.lcow import LCoW

    return _cut(LCoW(_model(parts, "lcow")), budget)


def _ash(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.ash import ASH

    return _cut(ASH(_model(parts, "ash")), budget)


def _webshell(parts: Parts, budget: int | None) -> ObservationModule:
    from pagedigest.modules.webshell import WebShell

    return _cut(WebShell(), budget)


def _cut(module: ObservationModule, budget: int | None) -> ObservationModule:
    return module if budget is None else Truncated(module, budget)


_SYSTEMS: dict[str, Callable[[Parts, int | None], ObservationModule]] = {
    "pagedigest": lambda parts, budget: _digest(parts, budget),
    "pagedigest_append": lambda parts, budget: _digest(parts, budget, layout="append"),
    "pagedigest_minilm": lambda parts, budget: _digest(parts, budget, _with_embeddings()),
    "pagedigest_llm": lambda parts, budget: _digest(parts, budget, LLMSelector(_model(parts, "pagedigest_llm"))),
    "full_tree": lambda parts, budget: FullTree() if budget is None else Truncation(budget),
    "truncation": lambda parts, budget: Truncation(budget or NATURAL_RETRIEVAL_TOKENS),
    "bm25": lambda parts, budget: BM25Chunks(budget or NATURAL_RETRIEVAL_TOKENS),
    "embedding": lambda parts, budget: EmbeddingChunks(budget or NATURAL_RETRIEVAL_TOKENS),
    "interactive_only": lambda parts, budget: InteractiveOnly(budget),
    "focus_agent": _focus_agent,
    "lcow": _lcow,
    "ash": _ash,
    "webshell": _webshell,
    "without_decomposition": _rules,
    "without_abstraction": _role_names,
    "without_selection": lambda parts, budget: _digest(parts, budget, All()),
    "without_persistence": lambda parts, budget: WithoutPersistence(_digest(parts, budget)),
    "without_views": lambda parts, budget: WithoutViews(_digest(parts, budget)),
    "element_level": lambda parts, budget: ElementSelection(HybridSelector(), budget),
    "purposes_only": lambda parts, budget: _digest(parts, budget, Nothing()),
}
SYSTEM_NAMES = tuple(_SYSTEMS)
LLM_FREE = tuple(name for name in SYSTEM_NAMES if name not in ("pagedigest_llm", "focus_agent", "lcow", "ash"))


def system_by_name(name: str, parts: Parts, *, budget_tokens: int | None = None) -> ObservationModule:
    """A method by name, hyphens as good as underscores. Raises ValueError that lists the names."""
    build = _SYSTEMS.get(name.replace("-", "_"))
    if build is None:
        raise ValueError(f"no observation method {name!r}; use one of {', '.join(SYSTEM_NAMES)}")
    return build(parts, budget_tokens)
