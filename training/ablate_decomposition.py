"""What each part of the decomposition is worth: `python -m training.ablate_decomposition --help`.

Enters: captures and labels. Leaves in `--out`: results.jsonl, a line a trained model, and table.md: region F1 of single models on
sites that they did not see, as mean and 95% interval over seeds (Student's t), and the difference to the whole recipe, paired by seed. Seed k is
tested on fold k of the sites and trained on the others. Finished lines are not trained again. Nothing is tuned: all models are cut by
the same consensus of thresholds, and, beside it, at 0.45.
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
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats
from torch_geometric.data import Data
from tqdm import tqdm

from region4web.features import FEATURE_NAMES
from region4web.labels import page_files
from training.decomposition_data import Example, context_example, fold_by_site, grafted_in_folds, read_examples
from training.decomposition_scores import cut_probabilities, cuts_above, cuts_by_consensus, score_cuts
from training.decomposition_training import RECIPES, Recipe, train_member

__all__ = ["ROWS", "Row", "main", "table"]

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


WHOLE = RECIPES["best"]
ROWS = (
    Row("whole recipe", WHOLE),
    Row("without grafts", replace(WHOLE, graft_share=0.0)),
    Row("without grafts and variations", replace(WHOLE, variation_share=0.0)),
    Row("without word vectors", WHOLE, WORDS),
    Row("without word vectors, kinds of names and links", WHOLE, WORDS + NAMES),
    Row("without sibling repetition", WHOLE, ALIKE),
    Row("without content statistics", WHOLE, SHARES),
    Row("depth, size, child count, name, role only", WHOLE, tuple(name for name in FEATURE_NAMES if name not in PLAIN)),
    Row("no context (blocks = 0)", replace(WHOLE, blocks=0)),
    Row("focal loss", replace(WHOLE, loss="focal")),
    Row("a quarter of the training pages", WHOLE, (), 0.25),
    Row("half of the training pages", WHOLE, (), 0.5),
)
CONSENSUS_COST = 0.4
Result = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Train what is not yet trained, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", required=True)
    parser.add_argument("--labels", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=WHOLE.epochs)
    parser.add_argument("--variations", type=int, default=6, help="variations, and grafts, of each page")
    parser.add_argument("--rows", nargs="*", type=int, help=f"only these rows, 0 to {len(ROWS) - 1}")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    args = parser.parse_args(argv)
    if not 2 <= args.seeds <= args.folds:
        parser.error("--seeds must be at least 2, for an interval, and at most --folds")
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "results.jsonl"
    results: list[Result] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    rows = [ROWS[k] for k in (range(len(ROWS)) if args.rows is None else args.rows)]
    done = {(result["row"], result["seed"]) for result in results if result["epochs"] == args.epochs}
    todo = [(row, seed) for seed in range(args.seeds) for row in rows if (row.name, seed) not in done]
    if todo:
        examples = read_examples(page_files(args.captures, args.labels), partial(context_example, variations=args.variations))
        folds = fold_by_site(examples, args.folds, seed=args.split_seed)
        examples = grafted_in_folds(examples, folds, args.variations, seed=0)
    for row, seed in tqdm(todo, desc="models", disable=None):
        train, test = (
            _hide([e for e, fold in zip(examples, folds, strict=True) if (fold == seed) is side], row.hidden_features)
            for side in (False, True)
        )
        train = random.Random(seed).sample(train, round(row.share_of_pages * len(train)))
        model, _ = train_member(replace(row.recipe, epochs=args.epochs), train, (), seed=seed)
        found = [cut_probabilities(model, example) for example in test]
        result = {
            "row": row.name,
            "seed": seed,
            "epochs": args.epochs,
            "region_f1": score_cuts(test, found, cuts_by_consensus(CONSENSUS_COST)).region_f1,
            "region_f1_at_0.45": score_cuts(test, found, cuts_above(0.45)).region_f1,
        }
        results.append(result)
        with path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(result) + "\n")
    lines_of_table = table([result for result in results if result["epochs"] == args.epochs], args.epochs)
    (args.out / "table.md").write_text(lines_of_table, encoding="utf-8")
    print(lines_of_table)


def table(results: Sequence[Result], epochs: int) -> str:
    """Markdown of all rows with two seeds and more."""
    by_row: dict[str, dict[int, Result]] = {}
    for result in results:
        by_row.setdefault(result["row"], {})[result["seed"]] = result
    whole = by_row.get(ROWS[0].name, {})
    lines = [
        f"| one model, {epochs} epochs | seeds | region F1 | 95% interval | difference, paired | 95% interval | cut at 0.45 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        seeds = sorted(by_row.get(row.name, {}))
        if len(seeds) < 2:
            continue
        values = np.asarray([by_row[row.name][seed]["region_f1"] for seed in seeds])
        plain = np.asarray([by_row[row.name][seed]["region_f1_at_0.45"] for seed in seeds])
        pairs = [seed for seed in seeds if seed in whole]
        difference = " | "
        if row is not ROWS[0] and len(pairs) >= 2:
            paired = np.asarray([by_row[row.name][seed]["region_f1"] - whole[seed]["region_f1"] for seed in pairs])
            difference = f"{paired.mean():+.3f} | \u00b1 {_half(paired):.3f}"
        lines.append(
            f"| {row.name} | {len(seeds)} | {values.mean():.3f} | \u00b1 {_half(values):.3f} | {difference} | {plain.mean():.3f} |"
        )
    return "\n".join(lines) + "\n"


def _half(values: npt.NDArray[np.float64]) -> float:
    """Half the 95% interval of a mean (Student's t)."""
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def _hide(examples: Sequence[Example], names: Sequence[str]) -> list[Example]:
    """The examples with these columns of every page set to zero."""
    if not names:
        return list(examples)
    columns = [FEATURE_NAMES.index(name) for name in names]

    def hidden(example: Example) -> Example:
        def blanked(pages: Sequence[Data]) -> tuple[Data, ...]:
            blank = [page.clone() for page in pages]
            for page in blank:
                page.numbers[:, columns] = 0
            return tuple(blank)

        return replace(example, data=blanked(example.data), grafts=blanked(example.grafts))

    return [hidden(example) for example in examples]


if __name__ == "__main__":
    main()
