"""Small random language models and a tokenizer trained on the spot: the real architectures at a size that tests can afford."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
TEXTS = (
    "page: Orders\nregion 3 of 14 in main > form: generic\nholds 12 links, 3 buttons\nlink: Home | Orders | Account",
    "Product search form\nSearch field empty; category 'All books' selected",
    "Table of customer orders\n20 orders, the first #1001 by Ada",
    '{"purpose": "Footer links", "state": "Help, Terms, Privacy"}',
)


def tiny_tokenizer() -> Any:
    """A byte-level BPE of 600 entries with Qwen3's chat format: its thinking part is written empty when thinking is off."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = CHATML
    return fast


def tiny_qwen3(tokenizer: Any, *, seed: int = 0) -> Any:
    """Qwen3 with two layers of width 64: its own attention norms, grouped heads, tied embeddings."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, max_position_embeddings=1024, tie_word_embeddings=True, initializer_range=0.6, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def save_tiny_qwen3(folder: Path) -> Path:
    tokenizer = tiny_tokenizer()
    tiny_qwen3(tokenizer).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
