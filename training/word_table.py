"""Makes the word table of the decomposition: `python -m training.word_table --help`.

Enters: distilled word vectors (`pagedigest/weights/words.npz`) and annotated pages. Leaves: `words.npz` with the same
words in fewer dimensions: the leading directions over the words of the pages, each word scaled by how rare it is among
pages. Labels are not read.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from region4web.axtree import AXTree
from region4web.labels import page_files
from region4web.name_kinds import letters
from region4web.snapshot import load_snapshot
from region4web.words import SHIPPED_WORDS, WORD_DIMENSIONS

__all__ = ["main"]

LEAST_RARITY, MOST_RARITY = 0.3, 6.0


def main(argv: Sequence[str] | None = None) -> None:
    """Read, reduce, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=Path, default=Path(__file__).parent.parent / "pagedigest" / "weights" / "words.npz")
    parser.add_argument("--captures", required=True)
    parser.add_argument("--labels", required=True)
    parser.add_argument("--out", type=Path, default=SHIPPED_WORDS)
    args = parser.parse_args(argv)
    with np.load(args.words, allow_pickle=False) as arrays:
        encoded = arrays["words"]
        vectors = arrays["vectors"].astype(np.float64)
    words = encoded.tobytes().decode("utf-8").split("\n")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    known = set(words)
    pages_with: Counter[str] = Counter()
    files = page_files(args.captures, args.labels)
    for capture, _ in tqdm(files, desc="pages", disable=None):
        tree = AXTree.from_snapshot(load_snapshot(capture))
        pages_with.update(known.intersection(word for node in tree.nodes for word in letters(node.name)))
    count = np.asarray([pages_with[word] for word in words], dtype=np.float64)
    _, _, directions = np.linalg.svd(np.sqrt(count[count > 0])[:, None] * vectors[count > 0], full_matrices=False)
    rarity = np.log(len(files) / (1 + count)).clip(LEAST_RARITY, MOST_RARITY)
    reduced = vectors @ directions[:WORD_DIMENSIONS].T * rarity[:, None]
    scale = np.abs(reduced).max() / 127
    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(args.out, words=encoded, vectors=np.round(reduced / scale).astype(np.int8), scale=np.float32(scale))
    print(f"{args.out}: {len(words)} words, {WORD_DIMENSIONS} dimensions, {int((count > 0).sum())} of them on these pages")


if __name__ == "__main__":
    main()
