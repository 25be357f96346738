"""Captures and labels in, weights of the embedded abstractor out: `python -m training.train_embedded_abstraction --help`.

A ridge regression (in its dual form, one Cholesky factorisation) from features of a region to the sentence embedding of
its labelled purpose; then everything is reduced to the directions in which estimates differ, and written as int8. The
split by site is `training.records.split_of`'s: the recipe was chosen on validation sites and by five folds of training and
validation sites, the figures printed are of test sites with a model of the others. `--all-pages` then trains once more on everything and writes those weights. Needs the `train` extra.

Symbols: N labelled regions, F features, W words, V voices, D dimensions of a word, K phrases.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse
from tqdm import tqdm

from pagedigest.evaluation.provenance import git_commit
from region4web.abstraction import EmbeddedAbstractor
from region4web.contents import Unit, units_of_regions
from region4web.evaluation import evaluate_abstractor
from region4web.labels import AnnotatedPage, annotated_pages, page_files
from region4web.purposes import HashWeights, PurposeModel, save_purpose_model, stems, voice_meanings
from region4web.region_features import BLOCKS, VOICES, RegionFeatures, region_features, tokenize, word_hash
from region4web.similarity import sentence_embeddings
from region4web.states import gives_orders
from training.records import data_checksum, split_of

__all__ = ["Recipe", "main", "train_purpose_model"]

log = logging.getLogger("training.train_embedded_abstraction")

FloatArray = npt.NDArray[np.float32]
NO_TOPICS = frozenset(
    "the an and of to for in on with or by at from is are your you our we my us it this that as be all get see click delete ignore send transfer let make know"
    " how what why who when where more now new free best top latest please enter type open press buy pay call go come take give do don not no yes must should".split()
)
"""Words that join or command, and say nothing of a topic."""
COMMON_STEMS = frozenset("the and of to for in on with or by at from is are your our thi this that as all list link page site".split())
"""Stems whose being said by a region and a phrase means nothing."""
KERNEL_ROWS = 1024
"""Rows of the kernel that are sparse at a time."""
PACKAGED = Path(__file__).parent.parent / "region4web" / "weights" / "abstraction"


@dataclass(frozen=True)
class Recipe:
    """Chosen on validation sites. `block_weights` in the order of BLOCKS, `voice_weight` for each of VOICES."""

    block_weights: tuple[float, ...] = (0.5, 1.3, 0.7, 1.3, 0.4, 0.2)
    voice_weight: float = 1.0
    penalty: float = 8.0
    own_part: float = 1.0
    """What two labelled regions of the annotated pages are alike beyond what regions of any pages are."""
    further_penalty: float = 10.0
    """Penalty of regions of further pages, whose labels count for less."""
    smallest_sites: int = 8
    """Features and words seen on fewer sites are left out."""
    word_size: int = 96
    estimate_size: int = 160
    phrase_count: int = 20_000
    topic_below: float = 0.48
    """Expected similarity of a phrase below which a topic is added to it."""
    shared_part: float = 0.5
    word_score: float = 0.004
    """What a word that a region says adds to a phrase that has it, times how rare the word is among labels (log N / n)."""


NO_FURTHER, ALL_ALIKE = "without further pages", "further pages as if they were annotated ones"
ABLATION = {
    "whole recipe": Recipe(),
    "without topics of headings": replace(Recipe(), topic_below=-1.0),
    "without meanings of words": replace(Recipe(), voice_weight=0.0),
    "all blocks weighted alike": replace(Recipe(), block_weights=(1.0,) * len(BLOCKS)),
    "without context and page": replace(Recipe(), block_weights=(0.5, 1.3, 0.7, 1.3, 0.0, 0.0)),
    "without structure": replace(Recipe(), block_weights=(0.5, 1.3, 0.7, 0.0, 0.4, 0.2)),
    "without addresses": replace(Recipe(), block_weights=(0.5, 1.3, 0.0, 1.3, 0.4, 0.2)),
    "64 dimensions of the estimate": replace(Recipe(), estimate_size=64),
    "nothing taken off estimates": replace(Recipe(), shared_part=0.0),
    "without words that the region says": replace(Recipe(), word_score=0.0),
    "1,000 phrases": replace(Recipe(), phrase_count=1000),
    ALL_ALIKE: replace(Recipe(), own_part=0.0, further_penalty=Recipe.penalty),
    NO_FURTHER: Recipe(),
}
"""What each piece is worth, on validation sites."""


@dataclass(frozen=True)
class Region:
    """One labelled region as it is trained on."""

    site: str
    features: RegionFeatures
    units: tuple[Unit, ...]
    purpose: str


def labelled_regions(pages: Iterable[AnnotatedPage]) -> list[Region]:
    """Every region that has a purpose, in page order."""
    found = []
    for page in pages:
        partition = page.gold.partition
        units = list(units_of_regions(partition))
        for features, own, label in zip(region_features(partition, units), units, page.gold.abstractions, strict=True):
            if label.purpose:
                found.append(Region(page.site, features, tuple(own), label.purpose))
    return found


class Embeddings:
    """Sentence embeddings, each text embedded once a run."""

    def __init__(self) -> None:
        self.known: dict[str, FloatArray] = {}

    def of(self, texts: Sequence[str]) -> FloatArray:
        """(n, 384) unit rows."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        for start in tqdm(range(0, len(new), 512), unit="512 texts", disable=None if len(new) > 512 else True):
            part = new[start : start + 512]
            self.known.update(zip(part, sentence_embeddings(part), strict=True))
        return np.stack([self.known[text] for text in texts])


def add_further_pages(parser: argparse.ArgumentParser) -> None:
    """The option `--further`."""
    parser.add_argument(
        "--further",
        type=Path,
        nargs=2,
        action="append",
        default=[],
        metavar=("CAPTURES", "LABELS"),
        help="folders of pages that are only trained on, never measured on, whatever their site (repeatable)",
    )


def further_pages(folders: Iterable[tuple[Path, Path]], pages: Iterable[AnnotatedPage]) -> list[AnnotatedPage]:
    """Labelled pages of all `folders` (captures, labels), without those of a site that validation or test `pages` are of."""
    kept_apart = {page.site for page in pages if split_of(page.site) != "train"}
    found = [page for captures, labels in folders for page in tqdm(annotated_pages(captures, labels), unit="page", disable=None)]
    used = [page for page in found if page.site not in kept_apart]
    if len(used) < len(found):
        log.info("%d further pages left out: their sites are of validation or test pages", len(found) - len(used))
    return used


def further_files(folders: Iterable[tuple[Path, Path]]) -> list[tuple[Path, Path]]:
    """Capture and label file of each labelled page of all `folders`."""
    return [pair for captures, labels in folders for pair in page_files(captures, labels)]


def known_hashes(counts: Sequence[Counter[int]], sites: Sequence[str], smallest_sites: int) -> HashWeights:
    """Hashes that occur on enough sites, with idf by sites."""
    seen: dict[int, set[str]] = defaultdict(set)
    for counter, site in zip(counts, sites, strict=True):
        for key in counter:
            seen[key].add(site)
    total = len(set(sites))
    keys = sorted(key for key, where in seen.items() if len(where) >= smallest_sites)
    idf = [math.log(1 + total / len(seen[key])) for key in keys]
    return HashWeights(np.array(keys, dtype=np.uint32), np.array(idf, dtype=np.float32))


def word_strings(pages: Iterable[AnnotatedPage]) -> dict[int, str]:
    """The word of each hash, for words of plain letters that pages say."""
    found: dict[int, str] = {}
    for page in pages:
        for node in page.tree.nodes:
            for token in tokenize(node.name[:200]):
                if len(token) > 1 and token.isascii() and token.isalpha():
                    found.setdefault(word_hash(token), token)
    return found


def word_vectors(vectors: FloatArray, size: int) -> FloatArray:
    """(W, size) from embeddings (W, 384) of single words: without what they share, in the directions that differ most."""
    vectors = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    return np.asarray(vectors @ directions[:, ::-1][:, :size], dtype=np.float32)


def phrases_of(regions: Sequence[Region], limit: int) -> list[str]:
    """Purposes that may be said of any page: lines whose every word is in labels of two sites; frequent ones first."""
    sites: dict[str, set[str]] = defaultdict(set)
    for region in regions:
        for word in _words(region.purpose):
            sites[word].add(region.site)
    counts = Counter(region.purpose for region in regions)
    fit = [
        p
        for p in counts
        if len(p.split()) <= 12 and not gives_orders(p) and not re.search(r"\d", p) and all(len(sites[w]) > 1 for w in _words(p))
    ]
    return sorted(fit, key=lambda p: (-counts[p], p))[:limit]


def topic_vocabulary(regions: Sequence[Region]) -> frozenset[str]:
    """Words of purposes of two sites: what a heading's words may be repeated of, so that no page can speak through a purpose."""
    sites: dict[str, set[str]] = defaultdict(set)
    for region in regions:
        for word in re.findall(r"[a-z]+", region.purpose.lower()):
            sites[word].add(region.site)
    return frozenset(word for word, where in sites.items() if len(where) > 1 and len(word) > 2 and word not in NO_TOPICS)


def word_scores(regions: Sequence[Region], phrases: Sequence[str], score: float) -> dict[str, float]:
    """What each stem of `phrases` is worth when a region says it."""
    labels = Counter(stem for region in regions for stem in stems(region.purpose))
    wanted = sorted(set().union(*map(stems, phrases)) - COMMON_STEMS)
    return {stem: score * math.log(len(regions) / (1 + labels[stem])) for stem in wanted}


def train_purpose_model(
    regions: Sequence[Region], strings: Mapping[int, str], recipe: Recipe, embeddings: Embeddings, further: Sequence[Region] = ()
) -> PurposeModel:
    """Fit the model on `regions`, and on `further` ones that may be of other kinds of pages. `strings` gives the word of a hash.

    A weight is the sum of one that all regions share and one of `regions` alone (Daume III 2007, "Frustratingly easy domain
    adaptation"), so that further pages help without pulling the model towards themselves. Raises ValueError when there is
    nothing to fit.
    """
    if not regions:
        raise ValueError("no labelled regions to train on")
    count = len(regions)
    regions = [*regions, *further]
    sites = [region.site for region in regions]
    blocks = tuple(known_hashes([r.features.blocks[b] for r in regions], sites, recipe.smallest_sites) for b in range(len(BLOCKS)))
    said = [sum(region.features.voices, Counter()) for region in regions]
    words = known_hashes([Counter({key: 1 for key in counter if key in strings}) for counter in said], sites, recipe.smallest_sites)
    meanings = word_vectors(embeddings.of([strings[int(key)] for key in words.hashes]), recipe.word_size)
    x = scipy.sparse.hstack(
        [
            block.matrix([r.features.blocks[b] for r in regions], unit_rows=True) * math.sqrt(weight)
            for b, (block, weight) in enumerate(zip(blocks, recipe.block_weights, strict=True))
        ]
    ).tocsr()  # (N, F)
    voices = [voice_meanings(words, meanings, [r.features.voices[v] for r in regions]) for v in range(len(VOICES))]
    z = np.concatenate(voices, axis=1) * math.sqrt(recipe.voice_weight)  # (N, V * D)
    purposes = embeddings.of([region.purpose for region in regions])  # (N, 384)
    mean = purposes.mean(axis=0)
    kernel = z @ z.T  # (N, N)
    for start in range(0, len(kernel), KERNEL_ROWS):
        kernel[start : start + KERNEL_ROWS] += (x[start : start + KERNEL_ROWS] @ x.T).toarray()
    own = 1 + recipe.own_part if further else 1.0
    kernel[:count, :count] *= own
    kernel[np.diag_indices(len(kernel))] += np.repeat(np.float32([recipe.penalty, recipe.further_penalty]), [count, len(further)])
    dual = scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(kernel, overwrite_a=True, check_finite=False), purposes - mean, check_finite=False
    )
    dual[:count] *= own
    feature_weights, voice_weights = x.T @ dual, z.T @ dual  # (F, 384), (V * D, 384)

    fitted = x @ feature_weights + z @ voice_weights
    _, directions = np.linalg.eigh(fitted.T @ fitted)
    basis, _ = np.linalg.qr(np.column_stack([mean, directions[:, ::-1][:, : recipe.estimate_size]]))  # (384, L)
    phrases = phrases_of(regions, recipe.phrase_count)
    sizes = [len(block) for block in blocks]
    projections = [
        (part @ basis * math.sqrt(weight)).astype(np.float32)
        for part, weight in zip(np.split(feature_weights, np.cumsum(sizes)[:-1]), recipe.block_weights, strict=True)
    ]
    return PurposeModel(
        blocks=blocks,
        projections=tuple(projections),
        words=words,
        meanings=meanings,
        voice_projections=tuple(
            (part @ basis * math.sqrt(recipe.voice_weight)).astype(np.float32) for part in np.split(voice_weights, len(VOICES))
        ),
        offset=(mean @ basis).astype(np.float32),
        phrase_vectors=(embeddings.of(phrases) @ basis).astype(np.float32),
        phrases=tuple(phrases),
        topics=topic_vocabulary(regions),
        topic_below=recipe.topic_below,
        shared_part=recipe.shared_part,
        word_scores=word_scores(regions, phrases, recipe.word_score),
        basis=basis.astype(np.float32),
    )


def ablation(
    regions: Sequence[Region], strings: Mapping[int, str], embeddings: Embeddings, further: Sequence[Region] = ()
) -> dict[str, float]:
    """Purpose similarity on labelled regions of validation sites, for each variant of the recipe trained on training sites."""
    training = [region for region in regions if split_of(region.site) == "train"]
    validation = [region for region in regions if split_of(region.site) == "validation"]
    labels = embeddings.of([region.purpose for region in validation])
    found = {}
    variants = {name: recipe for name, recipe in ABLATION.items() if further or name not in (NO_FURTHER, ALL_ALIKE)}
    for name, recipe in tqdm(variants.items(), unit="variant", disable=None):
        model = train_purpose_model(training, strings, recipe, embeddings, () if name == NO_FURTHER else further)
        said = model.purposes([region.features for region in validation], [region.units for region in validation])
        found[name] = float(np.einsum("ij,ij->i", embeddings.of(said), labels).mean())
        log.info("%.4f  %s", found[name], name)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training.train_embedded_abstraction", description="Train the embedded abstractor's purposes."
    )
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    add_further_pages(parser)
    parser.add_argument("--out", type=Path, default=PACKAGED, help="folder of the weights (default: the packaged one)")
    parser.add_argument(
        "--all-pages", action="store_true", help="after measuring on test sites, train on all pages and write those weights"
    )
    parser.add_argument("--report", choices=("validation", "test"), default="test", help="sites that the figures are of")
    parser.add_argument("--ablate", action="store_true", help="only measure what each piece is worth, on validation sites; write nothing")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    recipe, started = Recipe(), time.time()

    files = page_files(args.captures, args.labels)
    pages = list(tqdm(annotated_pages(args.captures, args.labels), total=len(files), unit="page", disable=None))
    others = further_pages(args.further, pages)
    regions, further, strings = labelled_regions(pages), labelled_regions(others), word_strings([*pages, *others])
    embeddings = Embeddings()
    if args.ablate:
        print(json.dumps(ablation(regions, strings, embeddings, further), indent=1))
        return 0
    fitted_on = ("train", "validation") if args.report == "test" else ("train",)
    model = train_purpose_model([r for r in regions if split_of(r.site) in fitted_on], strings, recipe, embeddings, further)
    save_purpose_model(model, args.out)
    held_out = [page for page in pages if split_of(page.site) == args.report]
    figures = evaluate_abstractor(tqdm(held_out, unit="page", disable=None), None, EmbeddedAbstractor(args.out))
    figures |= {"pages": len(held_out), "sites": args.report, "partitions": "labelled"}
    log.info(json.dumps(figures))
    if args.all_pages:
        save_purpose_model(train_purpose_model(regions, strings, recipe, embeddings, further), args.out)
    run = {
        "recipe": asdict(recipe),
        "trained_on": "all pages" if args.all_pages else f"{' and '.join(fitted_on)} sites",
        "figures": figures,
        "further": {"pages": len(others), "regions": len(further)},
        "data": data_checksum(path for pair in [*files, *further_files(args.further)] for path in pair),
        "commit": git_commit(),
        "seconds": round(time.time() - started),
    }
    (args.out / "training.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return 0


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


if __name__ == "__main__":
    raise SystemExit(main())
