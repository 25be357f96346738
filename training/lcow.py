"""LCoW's iterative training of a contextualiser (arXiv 2503.10689, section 3.2): `python -m training.lcow`.

Enters: demonstrations (recorded steps, or roll-outs of an environment), a base model, K actor models. Leaves per
iteration in --out/iteration-<i>: trajectories.jsonl, contextualisations.jsonl (every candidate with its reward) and the
fine-tuned weights. Each step is written when it is done, so an interrupted run goes on where it stopped.

    python -m training.lcow --steps demos.jsonl --base smollm2 --actor openai:MODEL@URL --samples 3 --iterations 1 --out runs/lcow
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pagedigest.evaluation.actions import Call, action_set_text, parse_call
from pagedigest.modules.lcow import LCoW, contextualisation_prompt, parse_contextualisation
from pagedigest.observation import Action, ObservationModule
from region4web.axtree import AXTree
from region4web.language_models import LanguageModel, language_model_by_name

__all__ = [
    "Candidate",
    "Demonstration",
    "Environment",
    "action_matching_reward",
    "best_contextualisation",
    "judged_match",
    "roll_out",
    "same_action",
]

OPEN_ACTIONS = frozenset({"fill", "send_msg_to_user", "report_infeasible"})
"""Actions with a free text, which a judge may call the same where the letters differ."""
_log = logging.getLogger("training.lcow")


class Environment(Protocol):
    """Where roll-outs happen. `reset` opens a task; `step` acts and says the reward, 1.0 for success, and whether it is over."""

    def reset(self, task_id: str) -> tuple[str, AXTree]: ...

    def step(self, call: Call) -> tuple[AXTree, float, bool]: ...


@dataclass(frozen=True)
class Demonstration:
    """One step of a successful episode: what was seen and what was done."""

    episode: str
    step: int
    task: str
    history: tuple[str, ...]
    page: str
    action: str

    @property
    def key(self) -> str:
        return f"{self.episode}#{self.step}"


@dataclass(frozen=True)
class Candidate:
    """One sampled contextualisation; `matches[k]` is whether actor k then took the demonstrated action."""

    reply: str
    actions: tuple[str, ...] = ()
    matches: tuple[bool, ...] = ()
    hinted: bool = False
    reward: int = field(default=0)


def same_action(predicted: Call | None, demonstrated: Call | None) -> bool:
    """Exact matching: the same action on the same element with the same arguments, letter case and blanks aside."""
    if predicted is None or demonstrated is None or predicted.name != demonstrated.name:
        return False
    return [a.strip().casefold() for a in predicted.arguments] == [a.strip().casefold() for a in demonstrated.arguments]


def judged_match(judge: LanguageModel, task: str, predicted: Call | None, demonstrated: Call | None) -> bool:
    """Exact matching, else a model's judgement where the actions differ only in a free text. An unclear judgement is no match."""
    if same_action(predicted, demonstrated):
        return True
    if predicted is None or demonstrated is None or predicted.name != demonstrated.name or predicted.name not in OPEN_ACTIONS:
        return False
    if predicted.target != demonstrated.target:
        return False
    prompt = (
        f"Task: {task}\nAction A: {demonstrated}\nAction B: {predicted}\n"
        "Do both actions have the same effect for this task? Answer with one word, yes or no."
    )
    answer = judge.complete([prompt], max_tokens=8)[0]
    return not answer.error and answer.text.strip().casefold().startswith("yes")


def action_prompt(task: str, history: Sequence[str], observation: str) -> list[dict[str, str]]:
    """What an actor is asked, given a contextualised page."""
    steps = "\n".join(f"{i}. {step}" for i, step in enumerate(history, 1)) or "none"
    system = f"You are a web agent. Answer with exactly one action.\nActions:\n{action_set_text()}"
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": f"Task:\n{task}\n\nActions so far:\n{steps}\n\nPage:\n{observation}"},
    ]


def action_matching_reward(
    candidate: str, demonstration: Demonstration, actors: Sequence[LanguageModel], match: Callable[[Call | None, Call | None], bool]
) -> Candidate:
    """How many of the K actors, shown this contextualisation, take the demonstrated action (equation of section 3.2)."""
    focused = parse_contextualisation(candidate)
    if focused is None:
        return Candidate(candidate)
    gold = parse_call(demonstration.action)
    prompt = action_prompt(demonstration.task, demonstration.history, focused)
    replies = [actor.complete([prompt], max_tokens=300)[0].text for actor in actors]
    calls = [parse_call(reply) for reply in replies]
    matches = tuple(match(call, gold) for call in calls)
    return Candidate(candidate, tuple(str(call) if call else "" for call in calls), matches, reward=sum(matches))


def best_contextualisation(
    demonstration: Demonstration,
    sample: Callable[[list[dict[str, str]], int], list[str]],
    actors: Sequence[LanguageModel],
    match: Callable[[Call | None, Call | None], bool],
    samples: int,
) -> list[Candidate]:
    """N candidates with rewards, best first; all 0 leads to N more that were hinted the demonstrated action.

    The first of equally good ones wins, so the result does not depend on order beyond sampling.
    """
    task, history, page = demonstration.task, demonstration.history, demonstration.page
    candidates = [
        action_matching_reward(r, demonstration, actors, match) for r in sample(contextualisation_prompt(task, history, page), samples)
    ]
    if max((c.reward for c in candidates), default=0) == 0:
        prompt = contextualisation_prompt(task, history, page, gold_action=demonstration.action)
        for reply in sample(prompt, samples):
            scored = action_matching_reward(reply, demonstration, actors, match)
            candidates.append(Candidate(scored.reply, scored.actions, scored.matches, True, scored.reward))
    return sorted(candidates, key=lambda c: -c.reward)


def roll_out(
    environment: Environment, task_id: str, module: ObservationModule, actor: LanguageModel, max_steps: int = 30
) -> tuple[list[Demonstration], float]:
    """One episode of the actor reading through `module`; its steps and the terminal reward."""
    from region4web.render import render_tree

    task, tree = environment.reset(task_id)
    session = module.start(task)
    history: list[str] = []
    steps: list[Demonstration] = []
    last: Action | None = None
    reward = 0.0
    for number in range(max_steps):
        observation = session.observe(tree, last_action=last)
        reply = actor.complete([action_prompt(task, history, observation.text)], max_tokens=300)[0].text
        call = parse_call(reply)
        if call is None:
            last = Action(reply[:80], error="no action was understood")
            history.append(f"{reply[:80]!r} (no action was understood)")
            continue
        steps.append(Demonstration(task_id, number, task, tuple(history), render_tree(tree), str(call)))
        tree, reward, done = environment.step(call)
        history.append(str(call))
        last = Action(str(call), call.target)
        if done:
            break
    return steps, reward


def recorded_demonstrations(files: Sequence[Path]) -> Iterator[Demonstration]:
    """Steps of recorded episodes (DESIGN's steps format) whose action is a call of the action set."""
    from pagedigest.evaluation.steps import read_steps
    from region4web.render import render_tree

    history: dict[str, list[str]] = {}
    for step in read_steps(files):
        past = history.setdefault(step.episode, [])
        call = parse_call(step.action) if step.action else None
        if call is not None:
            yield Demonstration(step.episode, step.step, step.task, tuple(past), render_tree(step.tree), str(call))
            past.append(str(call))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.lcow", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=Path, nargs="+", help="recorded successful steps, used as the trajectories of every iteration")
    parser.add_argument("--miniwob", nargs="+", help="MiniWoB tasks to roll out on, such as click-button; needs the miniwob site")
    parser.add_argument("--base", required=True, help="contextualiser to start from: smollm2, a folder or a hub id")
    parser.add_argument("--actor", action="append", required=True, help="actor model by name, repeatable; the first one also rolls out")
    parser.add_argument("--judge", default="", help="model that judges free texts; exact matching without")
    parser.add_argument("--samples", type=int, default=3, help="candidates a step (N)")
    parser.add_argument("--iterations", type=int, default=1, help="iterations (M)")
    parser.add_argument("--max-steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--lora-rank", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=4096, help="prompt and answer; longer samples are left out and counted")
    parser.add_argument("--answer-tokens", type=int, default=400)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = arguments()
    args = parser.parse_args(argv)
    if bool(args.steps) == bool(args.miniwob):
        parser.error("give either --steps with recorded episodes or --miniwob with task names")
    if args.samples < 1 or args.iterations < 1:
        parser.error("--samples and --iterations must be at least 1")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    actors = [language_model_by_name(name) for name in args.actor]
    judge = language_model_by_name(args.judge) if args.judge else None
    weights = args.base
    for iteration in range(args.iterations):
        folder = args.out / f"iteration-{iteration}"
        folder.mkdir(parents=True, exist_ok=True)
        weights = run_iteration(args, folder, weights, actors, judge, seed=args.seed + iteration)
    print(json.dumps({"weights": str(weights), "iterations": args.iterations}))
    return 0


def run_iteration(
    args: argparse.Namespace, folder: Path, weights: str | Path, actors: Sequence[LanguageModel], judge: LanguageModel | None, *, seed: int
) -> Path:
    """Roll-outs, sampling, fine-tuning. Each part is skipped when its file is whole."""
    trained = folder / "weights"
    if (trained / "lcow.json").is_file():
        _log.info("%s: done already", folder.name)
        return trained
    sampler = Sampler(str(args.base), weights if str(weights) != str(args.base) else None, args, seed)
    demonstrations = collect(args, folder, sampler, actors[0])
    if not demonstrations:
        sys.exit("lcow: no successful episode to learn from; give easier tasks, a better actor, or --steps with demonstrations")

    def match(predicted: Call | None, gold: Call | None, task: str) -> bool:
        return same_action(predicted, gold) if judge is None else judged_match(judge, task, predicted, gold)

    from tqdm import tqdm

    path = folder / "contextualisations.jsonl"
    done = {row["key"]: row for row in read_rows(path)}
    with path.open("a", encoding="utf-8") as out:
        for d in tqdm(demonstrations, desc=f"{folder.name} sampling", disable=None):
            if d.key in done:
                continue
            best = best_contextualisation(d, sampler.sample, actors, lambda p, g, task=d.task: match(p, g, task), args.samples)  # type: ignore[misc]
            row = {
                "key": d.key,
                "task": d.task,
                "history": d.history,
                "page": d.page,
                "action": d.action,
                "candidates": [asdict(c) for c in best],
            }
            done[d.key] = row
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            out.flush()
    rows = [row for row in done.values() if row["candidates"] and row["candidates"][0]["reward"] > 0]
    _log.info(
        "%s: %d of %d steps have a contextualisation that leads an actor to the demonstrated action", folder.name, len(rows), len(done)
    )
    if not rows:
        sys.exit("lcow: no candidate led any actor to the demonstrated action; raise --samples or use a stronger base or actor")
    sampler.fine_tune(rows, trained)
    rewards = [row["candidates"][0]["reward"] for row in done.values()]
    summary = {
        "steps": len(done),
        "learned": len(rows),
        "mean_best_reward": sum(rewards) / len(rewards),
        "actors": args.actor,
        "samples": args.samples,
    }
    (trained / "lcow.json").write_text(json.dumps(summary) + "\n", encoding="utf-8")
    return trained


def collect(args: argparse.Namespace, folder: Path, sampler: Sampler, actor: LanguageModel) -> list[Demonstration]:
    """Step 1: the trajectories to learn from, recorded or rolled out with the current contextualiser."""
    path = folder / "trajectories.jsonl"
    finished = folder / "trajectories.done"
    if finished.is_file():
        return [Demonstration(**{**row, "history": tuple(row["history"])}) for row in read_rows(path)]
    demonstrations: list[Demonstration] = []
    if args.steps:
        demonstrations = list(recorded_demonstrations(args.steps))
    else:
        from training.miniwob_environment import MiniWoBEnvironment

        with MiniWoBEnvironment() as environment:
            for task_id in args.miniwob:
                steps, reward = roll_out(environment, task_id, LCoW(sampler, label="training"), actor, args.max_steps)
                _log.info("roll-out %s: reward %.2f in %d steps", task_id, reward, len(steps))
                if reward == 1.0:
                    demonstrations.extend(steps)
    path.write_text("".join(json.dumps(asdict(d), ensure_ascii=False) + "\n" for d in demonstrations), encoding="utf-8")
    finished.write_text("")
    return demonstrations


class Sampler:
    """The contextualiser under training: samples with temperature, answers greedily as a LanguageModel, and is fine-tuned."""

    def __init__(self, base: str, adapter: str | Path | None, args: argparse.Namespace, seed: int) -> None:
        import torch

        from region4web.language_models import TransformersModel
        from training.train_abstraction import load_base

        self.args, self.seed = args, seed
        model, tokenizer = load_base(base, dtype=torch.float32)
        if adapter is not None:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(adapter), is_trainable=True)
        self.asked = TransformersModel(model, tokenizer, name=base)

    def complete(self, prompts: Sequence[Any], *, max_tokens: int, schema: Any = None) -> list[Any]:
        return self.asked.complete(prompts, max_tokens=min(max_tokens, self.args.answer_tokens), schema=schema)

    def sample(self, prompt: list[dict[str, str]], count: int) -> list[str]:
        """`count` answers drawn at --temperature; none when the prompt is longer than --max-tokens."""
        import torch

        ids = self.asked.encode(prompt)
        if len(ids) + self.args.answer_tokens > self.args.max_tokens:
            _log.info("a page of %d tokens does not fit in --max-tokens %d and is left out", len(ids), self.args.max_tokens)
            return []
        torch.manual_seed(self.seed)
        rows = torch.tensor([ids] * count)
        with torch.inference_mode():
            output = self.asked.model.generate(
                input_ids=rows, attention_mask=torch.ones_like(rows), max_new_tokens=self.args.answer_tokens, do_sample=True,
                temperature=self.args.temperature, pad_token_id=self.asked.pad_token_id,
            )  # fmt: skip
        return [self.asked.tokenizer.decode(row[len(ids) :], skip_special_tokens=True) for row in output]

    def fine_tune(self, rows: Sequence[dict[str, Any]], out: Path) -> None:
        """Step 3: supervised fine-tuning on the best contextualisation of each step, by train_abstraction's trainer."""
        from accelerate import Accelerator

        from training.train_abstraction import arguments as arguments_of_trainer
        from training.train_abstraction import fit, with_lora

        pairs = []
        for row in rows:
            prompt = self.asked.encode(contextualisation_prompt(row["task"], row["history"], row["page"]))
            answer = self.asked.tokenizer(row["candidates"][0]["reply"], add_special_tokens=False)["input_ids"]
            if len(prompt) + len(answer) < self.args.max_tokens:
                pairs.append((prompt, [*answer, self.asked.tokenizer.eos_token_id]))
        _log.info("fine-tuning on %d steps (%d too long, left out)", len(pairs), len(rows) - len(pairs))
        out.mkdir(parents=True, exist_ok=True)
        settings = arguments_of_trainer().parse_args(["--captures", "-", "--labels", "-", "--out", str(out)])
        for name in ("learning_rate", "epochs", "batch_size", "accumulate", "lora_rank", "seed"):
            setattr(settings, name, getattr(self.args, name))
        settings.lora_alpha = 2 * self.args.lora_rank
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=self.args.accumulate)
        model = self.asked.model if hasattr(self.asked.model, "peft_config") else with_lora(self.asked.model, settings)
        fit(model, pairs, settings, accelerator, pad=self.asked.pad_token_id)
        accelerator.unwrap_model(model).save_pretrained(str(out))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; a last line cut off by an interruption is dropped, and dropped from the file."""
    if not path.is_file():
        return []
    rows, whole = [], 0
    with path.open("rb") as lines:
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
            whole += len(line)
    if whole < path.stat().st_size:
        with path.open("ab") as out:
            out.truncate(whole)
    return rows


if __name__ == "__main__":
    sys.exit(main())
