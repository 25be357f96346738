"""Fine-tune a language model to write a region's purpose and state: `python -m training.train_abstraction`.

Enters: captures and labels, a base model (hub id or folder; `smollm2` is the packaged SmolLM2-135M). Leaves in --out: a
LoRA adapter (fp16) or a whole model, `region4web.json` (how it wants to be asked: `--abstractor qwen3:BASE+OUT` reads it)
and `training.json` (arguments, git commit, data checksum, losses, validation by generation). Loss is on the answer only.

The paper's recipe (Region4Web: full fine-tune, bf16, AdamW, lr 5e-6, effective batch 48, 8,192 tokens, 90 epochs):
    accelerate launch -m training.train_abstraction --base Qwen/Qwen3-0.6B --captures DIR --labels DIR --out OUT \\
        --form full --lora-rank 0 --learning-rate 5e-6 --epochs 90 --batch-size 6 --accumulate 8 --max-tokens 8192 --region-tokens 7800
    (--batch-size x --accumulate x devices = 48; on 8 devices --accumulate 1)
On one CPU core: --base smollm2 --form brief --lora-rank 16 --learning-rate 5e-4 --batch-size 16 --region-tokens 200
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagedigest.evaluation.provenance import git_commit
from region4web.generative import ANSWER_TOKENS, BRIEF, FORM_FILE, FULL, UNTRAINED, PromptForm, reply_fault
from region4web.labels import annotated_pages, page_files
from region4web.language_models import LanguageModel, TransformersModel, multiplies_in_bf16
from region4web.regions import Abstraction
from training.records import Sample, data_checksum, load_samples, save_samples, split_of, training_samples

if TYPE_CHECKING:
    import torch

Row = tuple[list[int], list[int]]
"""Token ids of a prompt and of its answer."""
FORMS = {form.name: form for form in (BRIEF, FULL, UNTRAINED)}
LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
IGNORED = -100
BUCKET_BATCHES = 50
LOG_STEPS = 10
PAD_TO = 8
"""Widths are multiples of this: kernels are chosen, and on some CPUs compiled, for each new shape."""
_log = logging.getLogger("training.train_abstraction")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.train_abstraction", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="Qwen/Qwen3-0.6B", help="hub id, folder, or smollm2")
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--form", choices=sorted(FORMS), default="full", help="full: the rules and JSON; brief: two lines, for a small model"
    )
    parser.add_argument("--lora-rank", type=int, default=16, help="0: full fine-tuning")
    parser.add_argument(
        "--lora-layers",
        type=int,
        default=0,
        help="adapt only the last layers, that many; 0: all. Saves time and memory of the backward pass",
    )
    parser.add_argument("--lora-alpha", type=int, default=32)
    parser.add_argument(
        "--precision", choices=("auto", "bf16", "fp32"), default="auto", help="auto: bf16 where the hardware multiplies in it"
    )
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--warmup", type=float, default=0.03, help="share of the steps")
    parser.add_argument("--epochs", type=float, default=1.0, help="0: only evaluate the base")
    parser.add_argument("--batch-size", type=int, default=8, help="samples a device and forward pass")
    parser.add_argument("--accumulate", type=int, default=1, help="forward passes a step")
    parser.add_argument("--max-tokens", type=int, default=2048, help="prompt and answer; longer samples are left out and counted")
    parser.add_argument("--region-tokens", type=int, default=1500, help="budget of a region's text")
    parser.add_argument("--max-samples", type=int, default=0, help="0: all training samples")
    parser.add_argument("--validation-samples", type=int, default=160)
    parser.add_argument("--validation-split", choices=("validation", "test"), default="validation")
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    import torch
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    set_seed(args.seed)
    bf16 = args.precision == "bf16" or (args.precision == "auto" and multiplies_in_bf16())
    # A LoRA base is frozen, so it can be bf16 itself; weights that learn stay float32 and are multiplied in bf16.
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=args.accumulate,
        mixed_precision="bf16" if bf16 and not args.lora_rank else "no",
    )
    logging.basicConfig(level=logging.INFO if accelerator.is_main_process else logging.ERROR, format="%(asctime)s %(message)s")
    model, tokenizer = load_base(args.base, dtype=torch.bfloat16 if bf16 and args.lora_rank else torch.float32)
    form = FORMS[args.form]
    asked = TransformersModel(model, tokenizer, name=args.base)
    with accelerator.main_process_first():
        samples = samples_of(args, lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]))
    train, validation = split_samples(samples, args)
    rows = [row for sample in train if len((row := encode(asked, form, sample))[0]) + len(row[1]) <= args.max_tokens]
    _log.info(
        "%d training samples (%d too long, left out), %d %s samples",
        len(rows),
        len(train) - len(rows),
        len(validation),
        args.validation_split,
    )
    if args.lora_rank and args.epochs:
        model = with_lora(model, args)
    losses = fit(model, rows, args, accelerator, pad=asked.pad_token_id) if args.epochs else []
    if not accelerator.is_main_process:
        return 0
    trained = accelerator.unwrap_model(model)
    asked.model = trained.eval()
    scores = generation_scores(asked, form, validation)
    _log.info("%s", scores)
    if args.epochs:
        save(trained, tokenizer, args)
    write_run(args, losses, scores, train=len(rows), validation=len(validation))
    return 0


def load_base(base: str, *, dtype: torch.dtype) -> tuple[Any, Any]:
    """Model and tokenizer of a hub id or folder; `smollm2` from the packaged file."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if base == "smollm2":
        from region4web.smollm2 import smollm2_folder

        base = str(smollm2_folder())
    return AutoModelForCausalLM.from_pretrained(base, dtype=dtype), AutoTokenizer.from_pretrained(base)


def samples_of(args: argparse.Namespace, count: Callable[[str], int]) -> list[Sample]:
    """All labelled regions; kept in --out so that a resumed run need not read the pages again."""
    from tqdm import tqdm

    files = page_files(args.captures, args.labels)
    path = args.out / f"samples-{data_checksum(label for _, label in files)[:12]}-{args.region_tokens}.jsonl"
    if not path.is_file():
        pages = tqdm(annotated_pages(args.captures, args.labels), total=len(files), desc="pages", disable=None)
        save_samples(list(training_samples(pages, budget=args.region_tokens, count=count)), path)
    return load_samples(path)


def split_samples(samples: Sequence[Sample], args: argparse.Namespace) -> tuple[list[Sample], list[Sample]]:
    """Training samples, and those to validate on: other sites, spread over them by a seeded shuffle."""
    rng = random.Random(args.seed)
    train = [sample for sample in samples if split_of(sample.site) == "train"]
    held_out = [sample for sample in samples if split_of(sample.site) == args.validation_split]
    rng.shuffle(train)
    rng.shuffle(held_out)
    return train[: args.max_samples or None], held_out[: args.validation_samples]


def encode(asked: TransformersModel, form: PromptForm, sample: Sample) -> Row:
    """The prompt exactly as it will be asked, and the answer with its end mark."""
    prompt = asked.encode(form.prompt(sample.text), schema=form.schema)
    answer = asked.tokenizer(form.answer(Abstraction(sample.purpose, sample.state)), add_special_tokens=False)["input_ids"]
    return prompt, [*answer, asked.tokenizer.eos_token_id]


def with_lora(model: Any, args: argparse.Namespace) -> Any:
    from peft import LoraConfig, get_peft_model

    layers = model.config.num_hidden_layers
    chosen = list(range(max(0, layers - args.lora_layers), layers)) if args.lora_layers else None
    config = LoraConfig(
        r=args.lora_rank,
        lora_alpha=args.lora_alpha,
        lora_dropout=0.0,
        target_modules=LORA_TARGETS,
        layers_to_transform=chosen,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def length_batches(lengths: Sequence[int], batch_size: int, rng: random.Random, *, bucket_batches: int = BUCKET_BATCHES) -> list[list[int]]:
    """Every index once, in batches of similar length, in random order: sorting all would show short samples first."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    for start in range(0, len(order), batch_size * bucket_batches):
        bucket = sorted(order[start : start + batch_size * bucket_batches], key=lambda i: lengths[i])
        batches += [bucket[k : k + batch_size] for k in range(0, len(bucket), batch_size)]
    rng.shuffle(batches)
    return batches


def collate(rows: Sequence[Row], pad: int, device: Any) -> dict[str, Any]:
    """Prompts padded on the left and answers on the right, so that all answers start at one position.

    B rows, P longest prompt, A longest answer; only the last A + 1 positions need logits, which with a vocabulary of
    50,000 to 150,000 saves most of the memory.
    """
    import torch

    p, a = (-(-max(len(row[k]) for row in rows) // PAD_TO) * PAD_TO for k in (0, 1))
    ids = torch.full((len(rows), p + a), pad, dtype=torch.long)  # (B, P + A)
    mask = torch.zeros((len(rows), p + a), dtype=torch.long)  # (B, P + A)
    labels = torch.full((len(rows), a), IGNORED, dtype=torch.long)  # (B, A)
    for b, (prompt, answer) in enumerate(rows):
        ids[b, p - len(prompt) : p + len(answer)] = torch.tensor([*prompt, *answer])
        mask[b, p - len(prompt) : p + len(answer)] = 1
        labels[b, : len(answer)] = torch.tensor(answer)
    positions = (mask.cumsum(1) - 1).clamp(min=0)  # (B, P + A)
    return {
        "input_ids": ids.to(device),
        "attention_mask": mask.to(device),
        "position_ids": positions.to(device),
        "labels": labels.to(device),
    }


def answer_loss(model: Any, batch: dict[str, Any]) -> torch.Tensor:
    """Mean cross entropy over the answers' tokens."""
    import torch.nn.functional as F

    labels = batch["labels"]
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    logits = model(**inputs, logits_to_keep=labels.shape[1] + 1, use_cache=False).logits  # (B, A + 1, V)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)


def fit(model: Any, rows: Sequence[Row], args: argparse.Namespace, accelerator: Any, *, pad: int) -> list[float]:
    """Train in place; mean loss of every LOG_STEPS steps. Goes on from the last checkpoint in --out."""
    import torch
    from tqdm import tqdm

    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=args.learning_rate, weight_decay=args.weight_decay)
    per_epoch = math.ceil(len(rows) / (args.batch_size * args.accumulate * accelerator.num_processes))
    total = max(1, round(per_epoch * args.epochs))
    warmup = max(1, round(total * args.warmup))
    # stepped by hand, once an optimizer step: accelerate's wrapper would step once a device
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / warmup, max(0.0, (total - s) / max(1, total - warmup))))
    checkpoint = args.out / "checkpoint.pt"
    step, losses = restore(checkpoint, model, optimizer, schedule, accelerator)
    # Its input is a slice of positions; multiplied as such, the vocabulary's matrix would be copied for every sample.
    model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(), *inputs[1:]))
    wrapped, optimizer = accelerator.prepare(model, optimizer)
    wrapped.train()
    saved = time.monotonic()
    recent: list[float] = []
    progress = tqdm(total=total, initial=step, desc="steps", disable=None if accelerator.is_main_process else True)
    while step < total:
        epoch, skipped = divmod(step, per_epoch)
        batches = length_batches([len(p) + len(a) for p, a in rows], args.batch_size, random.Random(f"{args.seed}/{epoch}"))
        share = device_share(batches, accelerator.process_index, accelerator.num_processes, per_epoch * args.accumulate)
        for k in range(skipped * args.accumulate, len(share)):
            with accelerator.accumulate(wrapped):
                loss = answer_loss(wrapped, collate([rows[i] for i in share[k]], pad, accelerator.device))
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(weights, 1.0)
                optimizer.step()
                optimizer.zero_grad()
            recent.append(float(loss.detach()))
            if (k + 1) % args.accumulate:
                continue
            step += 1
            schedule.step()
            progress.update()
            if step % LOG_STEPS == 0:
                losses.append(sum(recent) / len(recent))
                recent.clear()
                _log.info("step %d of %d: loss %.4f", step, total, losses[-1])
            if accelerator.is_main_process and time.monotonic() - saved > args.checkpoint_minutes * 60:
                write_checkpoint(checkpoint, accelerator.unwrap_model(wrapped), optimizer, schedule, step, losses)
                saved = time.monotonic()
            if step >= total:
                break
    progress.close()
    if accelerator.is_main_process:
        write_checkpoint(checkpoint, accelerator.unwrap_model(wrapped), optimizer, schedule, step, losses)
    return losses


def device_share(batches: list[list[int]], process: int, processes: int, length: int) -> list[list[int]]:
    """One device's batches, `length` of them on every device: what is missing is taken from the front again."""
    share = batches[process::processes] or batches
    return [share[k % len(share)] for k in range(length)]


def write_checkpoint(path: Path, model: Any, optimizer: Any, schedule: Any, step: int, losses: list[float]) -> None:
    """Only weights that learn: a LoRA checkpoint is some tens of megabytes."""
    import torch

    trainable = {name: parameter.detach().cpu() for name, parameter in model.named_parameters() if parameter.requires_grad}
    state = {"weights": trainable, "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "step": step, "losses": losses}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    torch.save(state, partial)
    partial.replace(path)


def restore(path: Path, model: Any, optimizer: Any, schedule: Any, accelerator: Any) -> tuple[int, list[float]]:
    """Step and losses of the checkpoint, 0 and none without one. Raises ValueError when it is of another model."""
    import torch

    if not path.is_file():
        return 0, []
    state = torch.load(path, map_location="cpu", weights_only=True)
    own = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if own.keys() != state["weights"].keys():
        raise ValueError(f"{path} is a checkpoint of another model or rank; give another --out")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(state["weights"][name])
    model.to(accelerator.device)
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    _log.info("going on from step %d of %s", state["step"], path)
    return int(state["step"]), list(state["losses"])


def generation_scores(model: LanguageModel, form: PromptForm, samples: Sequence[Sample]) -> dict[str, float]:
    """What the model writes against the labels: mean cosine of MiniLM embeddings (a bad reply counts 0), share of good replies."""
    from region4web.similarity import cosine_similarities, similarity_available

    started = time.monotonic()
    replies = model.complete([form.prompt(sample.text) for sample in samples], max_tokens=ANSWER_TOKENS, schema=form.schema)
    seconds = time.monotonic() - started
    read = [None if reply.error else form.read(reply.text) for reply in replies]
    good = [answer is not None and not reply_fault(*answer) for answer in read]
    scores = {
        "regions": float(len(samples)),
        "good_replies": sum(good) / max(1, len(good)),
        "seconds_per_region": seconds / max(1, len(samples)),
    }
    if not samples or not similarity_available():
        return scores
    answers = [answer if ok and answer is not None else ("", "") for answer, ok in zip(read, good, strict=True)]
    for k, kind in enumerate(("purpose", "state")):
        cosines = cosine_similarities([answer[k] for answer in answers], [getattr(sample, kind) for sample in samples])
        scores[f"{kind}_similarity"] = float((cosines * good).mean())
    return scores


def save(model: Any, tokenizer: Any, args: argparse.Namespace) -> None:
    """Adapter in fp16, or the whole model in bf16, with the file that says how to ask it."""
    import torch

    if args.lora_rank:
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter.data = parameter.data.to(torch.float16)
        model.peft_config["default"].base_model_name_or_path = args.base  # not the folder of this machine that it was read from
        model.save_pretrained(str(args.out))
        (args.out / "README.md").unlink(missing_ok=True)  # peft's empty form of a model card
    else:
        model.to(torch.bfloat16).save_pretrained(str(args.out))
        tokenizer.save_pretrained(str(args.out))
    (args.out / FORM_FILE).write_text(json.dumps({"form": args.form, "budget_tokens": args.region_tokens}) + "\n", encoding="utf-8")


def write_run(args: argparse.Namespace, losses: list[float], scores: dict[str, float], *, train: int, validation: int) -> None:
    files = page_files(args.captures, args.labels)
    run = {
        "arguments": {
            name: str(value) if isinstance(value, Path) else value
            for name, value in vars(args).items()
            if name not in ("captures", "labels", "out")
        },
        "git_commit": git_commit() or "unknown",
        "data_sha256": data_checksum(label for _, label in files),
        "pages": len(files),
        "training_samples": train,
        "validation_samples": validation,
        "losses": [round(loss, 4) for loss in losses],
        "scores": {name: round(value, 4) for name, value in scores.items()},
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "training.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
