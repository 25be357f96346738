"""Train PageDigest's node ranker on recorded steps, and measure it on sites it was not trained on.

Enters: step files (DESIGN "Files") whose targets say which node the next action needs; optionally a folder of labels, whose
regions are then seen beside the predicted ones. Leaves: `selection.npz` and `selection.json` in the output folder, the
latter with arguments, commit, checksums and the out-of-fold recall at several budgets; in `held_out/` the same for each fold,
trained without its sites, and `sites.json`, which says where each site lies. Folds are whole sites.

    python -m training.train_selection STEPS... --labels DIR --out pagedigest/weights
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagedigest.digest import compose_digest
from pagedigest.evaluation.held_out import fold_folder, site_key
from pagedigest.evaluation.provenance import git_commit
from pagedigest.evaluation.replay import episodes
from pagedigest.evaluation.steps import RecordedStep, read_steps
from pagedigest.line_counts import LineCounter
from pagedigest.observation import Action
from pagedigest.ranker import TreeRanker
from pagedigest.relevance import node_features
from pagedigest.selection import HybridSelector, Page
from pagedigest.tokens import default_counter
from pagedigest.words import FloatArray
from region4web.regions import Abstractor, RegionMap, Segmenter
from training.boosting import exported
from training.folds import deal_folds

FOLDS = 5
BUDGETS = (500, 1000, 2000)
NEGATIVES = 150
"""Nodes kept of a page beside the needed one; their weight makes up for the others."""


@dataclass(frozen=True)
class Sample:
    """One step with a target: features of its page under each partition, and what is needed to compose its digest."""

    step: RecordedStep
    target: int
    site: str
    kind: str
    actions: tuple[Action, ...]
    maps: tuple[RegionMap, ...] = field(repr=False)
    features: tuple[FloatArray, ...] = field(repr=False)


def samples(paths: Sequence[Path], segmenter: Segmenter, abstractor: Abstractor, labels: Path | None) -> Iterator[Sample]:
    """Every step with a target that its tree holds. The predicted regions come first, labelled ones, if any, second."""
    last: tuple[int, tuple[RegionMap, ...]] | None = None
    for episode in episodes(read_steps(paths)):
        actions: list[Action] = []
        for step in episode:
            target = None if step.target is None else step.tree.find(step.target)
            if target is not None:
                if last is None or last[0] != id(step.tree):
                    last = id(step.tree), _maps(step, segmenter, abstractor, labels)
                features = tuple(node_features(region_map, step.task, tuple(actions)) for region_map in last[1])
                yield Sample(step, target, site_key(step.tree.url), step.kind or step.source, tuple(actions), last[1], features)
            if (action := step.last_action()) is not None:
                actions.append(action)


def _maps(step: RecordedStep, segmenter: Segmenter, abstractor: Abstractor, labels: Path | None) -> tuple[RegionMap, ...]:
    from region4web.labels import load_labels

    partition = segmenter.segment(step.tree)
    maps = [RegionMap(partition, abstractor.abstract(partition))]
    if labels is not None and step.capture:
        found = labels / f"{Path(step.capture).name.removesuffix('.gz').removesuffix('.json')}.json"
        if found.is_file() and not (page := load_labels(found)).skip:
            maps.append(page.region_map(step.tree)[0])
    return tuple(maps)


def training_rows(chosen: Sequence[Sample], steps_weight: float) -> tuple[FloatArray, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Features, whether each node is the needed one, weights."""
    xs, ys, ws = [], [], []
    for number, sample in enumerate(chosen):
        for k, features in enumerate(sample.features):
            n = len(features)
            kept = np.arange(n)
            if n > NEGATIVES + 20:
                drawn = np.random.default_rng((number, k)).choice(n, NEGATIVES, replace=False)
                kept = np.unique(np.append(drawn, sample.target))
            weight = np.full(len(kept), n / len(kept) / len(sample.features))
            weight[kept == sample.target] = 1.0 / len(sample.features)
            xs.append(features[kept])
            ys.append((kept == sample.target).astype(np.float64))
            ws.append(weight * (1.0 if sample.step.kind else steps_weight))
    return np.concatenate(xs), np.concatenate(ys), np.concatenate(ws)


def fit(chosen: Sequence[Sample], args: argparse.Namespace) -> TreeRanker:
    """Boosted trees on the logistic loss."""
    import lightgbm

    x, y, w = training_rows(chosen, args.steps_weight)
    settings = {
        "objective": "binary", "learning_rate": args.learning_rate, "num_leaves": args.leaves, "max_depth": 6, "min_data_in_leaf": 40, "feature_fraction": 0.4,
        "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 10.0, "verbose": -1, "num_threads": args.threads, "seed": args.seed, "deterministic": True,
    }  # fmt: skip
    return TreeRanker(exported(lightgbm.train(settings, lightgbm.Dataset(x, y, weight=w), args.trees)))


def recall(chosen: Sequence[Sample], ranker: TreeRanker, budgets: Sequence[int]) -> dict[str, dict[int, list[bool]]]:
    """By kind and budget, for each sample whether the digest of its predicted regions shows the target."""
    counter = LineCounter(default_counter())
    selector = HybridSelector(ranker)
    found: dict[str, dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for sample in chosen:
        region_map = sample.maps[0]
        selection = selector.select_by(sample.features[0], Page(region_map, sample.step.task, sample.actions))
        for budget in budgets:
            digest = compose_digest(region_map, selection, counter=counter, budget_tokens=budget, task=sample.step.task, full_tokens=10_000)
            found[sample.kind][budget].append(sample.step.tree.nodes[sample.target].id in digest.shown)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+", type=Path, help="recorded steps with targets")
    parser.add_argument("--labels", type=Path, help="labels of the pages that steps name as captures")
    parser.add_argument("--segmenter", default="best")
    parser.add_argument("--abstractor", default="embedded")
    parser.add_argument("--trees", type=int, default=150)
    parser.add_argument("--leaves", type=int, default=15)
    parser.add_argument("--learning-rate", type=float, default=0.08)
    parser.add_argument(
        "--steps-weight", type=float, default=0.7, help="weight of steps without a kind (recorded runs) against written tasks"
    )
    parser.add_argument("--folds", type=int, default=FOLDS, help="0: train only")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)

    from tqdm import tqdm

    from region4web.abstraction import abstractor_by_name
    from region4web.segmenters import segmenter_by_name

    started = time.time()
    made = tqdm(
        samples(args.steps, segmenter_by_name(args.segmenter), abstractor_by_name(args.abstractor), args.labels),
        desc="features",
        disable=None,
    )
    data = list(made)
    folds = deal_folds([sample.site for sample in data], args.folds) if args.folds else []
    held_out = args.out / "held_out"
    settings = {key: str(value) for key, value in vars(args).items() if key not in ("steps", "labels", "out")}
    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in args.steps}
    commit = git_commit()
    found: dict[str, dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for fold in range(args.folds):
        ranker = fit([sample for sample, k in zip(data, folds, strict=True) if k != fold], args)
        ranker.save(fold_folder(held_out, fold), {"fold": fold, "arguments": settings, "steps": checksums, "commit": commit})
        for kind, by_budget in recall([sample for sample, k in zip(data, folds, strict=True) if k == fold], ranker, BUDGETS).items():
            for budget, hits in by_budget.items():
                found[kind][budget] += hits
        print(f"fold {fold + 1} of {args.folds}, {time.time() - started:.0f} s", file=sys.stderr)
    out_of_fold = {kind: {str(budget): round(float(np.mean(hits)), 4) for budget, hits in by.items()} for kind, by in found.items()}
    description = {
        "arguments": settings,
        "steps": checksums,
        "samples": dict(Counter(sample.kind for sample in data)),
        "sites": len({sample.site for sample in data}),
        "commit": commit,
        "token_counter": default_counter().name,
        "out_of_fold_recall": out_of_fold,
    }
    if folds:
        sites = dict(sorted(zip((sample.site for sample in data), folds, strict=True)))
        (held_out / "sites.json").write_text(json.dumps(sites, indent=1) + "\n", encoding="utf-8")
    fit(data, args).save(args.out, description)
    print(json.dumps(out_of_fold, indent=1))


if __name__ == "__main__":
    main()
