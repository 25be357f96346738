"""What each part of the decomposition is worth: `python -m training.ablate_decomposition --help`.

Enters: captures and labels. Leaves in `--out`: results.jsonl, a line a trained model, and table.md with the mean and the
95% interval over seeds (Student's t) of region F1 on the test sites. Finished lines are not trained again. Single
models, cut at the threshold that is best on validation; the two rows on decoding compare the models of all seeds together.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from tqdm import tqdm

from region4web.edge_model import ContextModel, Ensemble
from region4web.features import FEATURE_NAMES
from region4web.labels import page_files
from training.decomposition_data import Example, context_example, read_examples, split_by_site
from training.decomposition_scores import THRESHOLDS, choose_and_score, cut_probabilities, cuts_above, score_cuts
from training.decomposition_training import RECIPES, Recipe, train_member

__all__ = ["ROWS", "Row", "main"]

WORDS = tuple(name for name in FEATURE_NAMES if name.startswith("word"))
NAMES = tuple(name for name in FEATURE_NAMES if name.endswith(("_names", "_name", "_links")))
ALIKE = tuple(name for name in FEATURE_NAMES if "alike" in name or name.endswith("_at_depth") or name.startswith("same_"))
SHARES = tuple(name for name in FEATURE_NAMES if name.endswith(("_share", "_count", "_of_page", "_names", "_name")) and name not in ALIKE)
PLAIN = ("depth", "size", "children", "named")


@dataclass(frozen=True)
class Row:
    """One line of the table: what is different from the recipe."""

    name: str
    recipe: Recipe
    hidden_features: tuple[str, ...] = ()
    share_of_pages: float = 1.0


BASE = replace(RECIPES["best"], variation_share=0.0)
ROWS = (
    Row("recipe, without variations of pages", BASE),
    Row("with variations of pages", RECIPES["best"]),
    Row("without word vectors", BASE, WORDS),
    Row("without word vectors, kinds of names and links", BASE, WORDS + NAMES),
    Row("without sibling repetition", BASE, ALIKE),
    Row("without content statistics", BASE, SHARES),
    Row("depth, size, child count, name, role only", BASE, tuple(name for name in FEATURE_NAMES if name not in PLAIN)),
    Row("no context (blocks = 0)", replace(BASE, blocks=0)),
    Row("focal loss", replace(BASE, loss="focal")),
    Row("a quarter of the training pages", BASE, (), 0.25),
    Row("half of the training pages", BASE, (), 0.5),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Train what is not yet trained, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", required=True)
    parser.add_argument("--labels", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=RECIPES["best"].epochs)
    parser.add_argument("--rows", nargs="*", type=int, help=f"only these rows, 0 to {len(ROWS) - 1}")
    parser.add_argument("--split-seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.seeds < 2:
        parser.error("--seeds must be at least 2, for an interval")
    logging.basicConfig(level=logging.WARNING)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "results.jsonl"
    results = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    rows = [ROWS[k] for k in (range(len(ROWS)) if args.rows is None else args.rows)]
    todo = [(row, seed) for seed in range(args.seeds) for row in rows]
    done = {(result["row"], result["seed"]) for result in results if result["epochs"] == args.epochs}
    build = partial(context_example, variations=2 if any(row.recipe.variation_share for row in rows) else 0)
    examples = read_examples(page_files(args.captures, args.labels), build)
    split = split_by_site(examples, seed=args.split_seed)
    models: list[ContextModel] = []
    for row, seed in tqdm(todo, desc="models", disable=None):
        if (row.name, seed) in done:
            continue
        train, validation, test = (_hide(side, row.hidden_features) for side in (split.train, split.validation, split.test))
        train = random.Random(seed).sample(train, round(row.share_of_pages * len(train)))
        model, _ = train_member(replace(row.recipe, epochs=args.epochs), train, (), seed=seed)
        if row is ROWS[0] and isinstance(model, ContextModel):
            models.append(model)
        result = {"row": row.name, "seed": seed, "epochs": args.epochs, "region_f1": _region_f1(model, validation, test)}
        results.append(result)
        with path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(result) + "\n")
    decoding = choose_and_score(Ensemble(models), split.validation, split.test) if len(models) == args.seeds else None
    (args.out / "table.md").write_text(_table(results, decoding, args.epochs, args.seeds), encoding="utf-8")
    print((args.out / "table.md").read_text(encoding="utf-8"))


def _hide(examples: Sequence[Example], names: Sequence[str]) -> list[Example]:
    """The examples with these columns of every page set to zero."""
    if not names:
        return list(examples)
    columns = [FEATURE_NAMES.index(name) for name in names]

    def hidden(example: Example) -> Example:
        data = []
        for page in example.data:
            page = page.clone()
            page.numbers[:, columns] = 0
            data.append(page)
        return replace(example, data=tuple(data))

    return [hidden(example) for example in examples]


def _region_f1(model: torch.nn.Module, validation: Sequence[Example], test: Sequence[Example]) -> float:
    seen = [cut_probabilities(model, example) for example in validation]
    threshold = max(THRESHOLDS, key=lambda t: score_cuts(validation, seen, cuts_above(t)).region_f1)
    return score_cuts(test, [cut_probabilities(model, example) for example in test], cuts_above(threshold)).region_f1


def _table(results: list[dict[str, object]], decoding: dict[str, object] | None, epochs: int, seeds: int) -> str:
    lines = [f"| {epochs} epochs, one model, {seeds} seeds | region F1 | 95% interval |", "|---|---|---|"]
    for row in ROWS:
        values = np.asarray(
            [result["region_f1"] for result in results if result["row"] == row.name and result["epochs"] == epochs], dtype=float
        )
        if len(values) >= 2:
            half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
            lines.append(f"| {row.name} | {values.mean():.3f} | \u00b1 {half:.3f} |")
    if decoding is not None:
        for name, key in (
            ("mean of the seeds' models, cut at 0.45", "test_cut_at_mean_of_0.45"),
            ("the seeds' models by consensus", "test"),
        ):
            score = decoding[key]
            assert isinstance(score, dict)
            lines.append(f"| {name} | {score['region_f1']:.3f} | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
