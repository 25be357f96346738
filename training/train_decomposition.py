"""Captures and labels in, decomposition weights out: `python -m training.train_decomposition --help`.

Two variants. `paper` is Region4Web's (focal loss, teacher forcing, epoch by edge F1, threshold by region F1, both on validation
pages; figures of test pages; pages split by site). `best` is ours (context model, varied and grafted pages, ensemble, boosted trees
that judge whole regions) and is cross-validated: sites are dealt into folds, every page is scored by models that saw no page of its
fold, and the shipped weights are then trained on all pages. `--all-pages` trains the paper's model once more on all pages, too.
Leaves in `--out`: config.json, model.safetensors, regions.npz (best), metrics.json, curves.png, and a checkpoint a member.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn

from pagedigest.evaluation.provenance import git_commit
from region4web.edge_model import ContextModel, Ensemble, PaperModel
from region4web.features import FEATURE_NAMES, PAPER_FEATURE_NAMES
from region4web.labels import page_files
from region4web.metrics import PartitionScore
from region4web.region_scores import save_region_trees
from region4web.skeleton import SMALLEST_REGION
from training.decomposition_data import (
    Example,
    context_example,
    data_checksum,
    fold_by_site,
    grafted_in_folds,
    read_examples,
    split_by_site,
)
from training.decomposition_scores import (
    Probabilities,
    by_kind,
    choose_and_score,
    cut_probabilities,
    cuts_above,
    cuts_by_consensus,
    figures,
    score_cuts,
)
from training.decomposition_training import RECIPES, Recipe, train_member
from training.paper_sharing import paper_example
from training.region_trees import candidate_sample, cross_validated, fit_region_trees

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Train, choose, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", required=True, help="folder of captures")
    parser.add_argument("--labels", required=True, help="folder of label files")
    parser.add_argument("--out", required=True, type=Path, help="folder for the weights and what is said of them")
    parser.add_argument("--variant", choices=sorted(RECIPES), default="best")
    parser.add_argument("--seed", type=int, default=0, help="of the weights; member k of an ensemble has seed 1000 * seed + k")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--members", type=int, default=4, help="models in the ensemble (best)")
    parser.add_argument("--folds", type=int, default=5, help="of sites, for cross-validation (best)")
    parser.add_argument("--variations", type=int, default=6, help="variations of each page (best)")
    parser.add_argument("--grafts", type=int, default=6, help="grafted pages of each page (best)")
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--batch-pages", type=int, help="instead of the recipe's")
    parser.add_argument("--dropout", type=float, help="instead of the recipe's")
    parser.add_argument("--pages", type=int, help="use only this many pages, drawn by the split's seed")
    parser.add_argument("--all-pages", action="store_true", help="paper: after measuring, train once more on all pages; best always does")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch threads")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(args.threads)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("gloo")
    given = {name: getattr(args, name) for name in ("epochs", "batch_pages", "dropout") if getattr(args, name) is not None}
    recipe = Recipe(**(vars(RECIPES[args.variant]) | given))
    began = time.perf_counter()
    examples = _examples(parser, args)
    described = {
        "arguments": {name: value for name, value in vars(args).items() if name not in ("captures", "labels", "out")},
        "recipe": vars(recipe),
        "commit": git_commit(),
        "data_sha256": data_checksum(args.captures, args.labels),
    }
    run = _train_best if recipe.variant == "best" else _train_paper
    run(parser, args, recipe, examples, described, began)


def _train_best(
    parser: argparse.ArgumentParser,
    args: argparse.Namespace,
    recipe: Recipe,
    examples: list[Example],
    metrics: dict[str, Any],
    began: float,
) -> None:
    """Cross-validate, train the trees that judge regions, then the shipped members on all pages."""
    try:
        folds = fold_by_site(examples, args.folds, seed=args.split_seed)
    except ValueError as error:
        parser.error(f"--folds: {error}")
    if args.grafts:
        examples = grafted_in_folds(examples, folds, args.grafts, seed=args.seed)
    found: list[Probabilities | None] = [None] * len(examples)
    histories = []
    for fold in range(args.folds):
        train = [example for example, k in zip(examples, folds, strict=True) if k != fold]
        held_out = [example for example, k in zip(examples, folds, strict=True) if k == fold]
        model, history = _train(args, recipe, train, held_out if fold == 0 else (), f"fold-{fold}")
        histories += history[:1] if fold == 0 else []
        for i, example in enumerate(examples):
            if folds[i] == fold:
                found[i] = cut_probabilities(model, example)
    seen = [row for row in found if row is not None]
    samples = [candidate_sample(example, row) for example, row in zip(examples, seen, strict=True)]
    scores, region_cost = cross_validated(samples, folds, seed=args.seed)
    final, history = _train(args, recipe, examples, (), "all")
    if dist.is_initialized() and dist.get_rank() != 0:
        return
    test = {example.page.name for example in split_by_site(examples, seed=args.split_seed).test}
    metrics |= {
        "pages": {"cross-validated": len(examples), "sites": len({example.group for example in examples}), "folds": args.folds},
        "parameters": sum(p.numel() for p in final.parameters()),
        "region_cost": region_cost,
        "cross_validated": figures(sum(scores, PartitionScore())),
        "mean_cut_at_0.45": figures(score_cuts(examples, seen, cuts_above(0.45))),
        "consensus_without_trees": figures(score_cuts(examples, seen, cuts_by_consensus(0.4))),
        "by_fold": [
            {"pages": folds.count(fold)} | figures(sum((s for s, k in zip(scores, folds, strict=True) if k == fold), PartitionScore()))
            for fold in range(args.folds)
        ],
        "by_kind": by_kind(examples, scores),
        "test_pages_of_paper": figures(sum((s for s, e in zip(scores, examples, strict=True) if e.page.name in test), PartitionScore())),
        "weights": "trained on all pages; each page's figure is of the same recipe trained without its fold",
        "history": [*histories, *history],
        "minutes": round((time.perf_counter() - began) / 60, 2),
    }
    write_weights(args.out, recipe, final, metrics)
    save_region_trees(args.out / "regions.npz", fit_region_trees(samples, seed=args.seed))
    print(json.dumps({name: metrics[name] for name in ("region_cost", "cross_validated", "pages", "minutes")}))


def _train_paper(
    parser: argparse.ArgumentParser,
    args: argparse.Namespace,
    recipe: Recipe,
    examples: list[Example],
    metrics: dict[str, Any],
    began: float,
) -> None:
    """Train on one side of a split, choose on the second, measure on the third."""
    try:
        split = split_by_site(examples, seed=args.split_seed)
    except ValueError as error:
        parser.error(str(error))
    final, histories = _train(args, recipe, split.train, split.validation, "split")
    metrics |= {
        "pages": split.sizes(),
        "parameters": sum(p.numel() for p in final.parameters()),
        **choose_and_score(final, split.validation, split.test),
        "split": {side: sorted(example.page.name for example in getattr(split, side)) for side in ("validation", "test")},
        "history": histories,
        "minutes": round((time.perf_counter() - began) / 60, 2),
    }
    first = not dist.is_initialized() or dist.get_rank() == 0
    if first:
        write_weights(args.out, recipe, final, metrics)
        print(json.dumps({name: metrics[name] for name in ("threshold", "validation", "test", "pages", "minutes")}))
    if args.all_pages:
        final, _ = _train(args, recipe, examples, (), "all")
        metrics["weights"] = "trained on all pages; the figures are those of the same recipe trained without validation and test pages"
        metrics["minutes_with_all_pages"] = round((time.perf_counter() - began) / 60, 2)
        if first:
            write_weights(args.out, recipe, final, metrics)


def _train(
    args: argparse.Namespace, recipe: Recipe, train: Sequence[Example], validation: Sequence[Example], name: str
) -> tuple[Ensemble | PaperModel, list[list[dict[str, float]]]]:
    """The paper's model, or an ensemble. Without validation pages the paper's model stops at its recipe's last epoch."""
    trained = []
    for k in range(args.members if recipe.variant == "best" else 1):
        seed = 1000 * args.seed + k
        trained.append(
            train_member(
                recipe,
                train,
                validation if k == 0 else (),
                seed=seed,
                checkpoint=args.out / f"checkpoint-{name}-{seed}.pt",
                resume=args.resume,
            )
        )
    models = [model for model, _ in trained]
    histories = [history for _, history in trained]
    if isinstance(models[0], PaperModel):
        return models[0], histories
    return Ensemble([model for model in models if isinstance(model, ContextModel)]), histories


def _examples(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Example]:
    files = page_files(args.captures, args.labels)
    if args.pages is not None:
        if not 0 < args.pages <= len(files):
            parser.error(f"--pages must be between 1 and {len(files)}, found {args.pages}")
        files = sorted(random.Random(args.split_seed).sample(files, args.pages))
    if args.variant == "best":
        return read_examples(files, partial(context_example, variations=args.variations))
    return read_examples(files, paper_example)


def write_weights(out: Path, recipe: Recipe, model: nn.Module, metrics: dict[str, Any]) -> None:
    """A weights folder that `LearnedSegmenter` loads, with its metrics and curves."""
    out.mkdir(parents=True, exist_ok=True)
    best = recipe.variant == "best"
    setting = "region_cost" if best else "threshold"
    config: dict[str, Any] = {"variant": recipe.variant, setting: metrics[setting], "smallest": SMALLEST_REGION if best else 1}
    if isinstance(model, Ensemble):
        config |= {
            "members": len(model.members),
            "width": recipe.width,
            "hidden": recipe.hidden,
            "blocks": recipe.blocks,
            "region_scores": True,
        }
    config["features"] = list(FEATURE_NAMES if best else PAPER_FEATURE_NAMES)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")
    _draw_curves(metrics["history"], out / "curves.png")


def _draw_curves(histories: list[list[dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for k, history in enumerate(histories):
        epochs = range(1, len(history) + 1)
        axes[0].plot(epochs, [entry["loss"] for entry in history], label=f"member {k}")
        if "region_f1" in history[0]:
            axes[1].plot(epochs, [entry["region_f1"] for entry in history], label=f"member {k}")
    axes[0].set(title="training loss", xlabel="epoch")
    axes[1].set(title="validation region F1 at 0.5", xlabel="epoch")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
