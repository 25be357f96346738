"""Fuzzing with counts: random trees through every law, bytes that atheris finds on both parsers, a real browser's DOM.

    python scripts/fuzz.py laws [--campaign NAME] [--examples 2000] [--seed 0]       hypothesis; seconds to hours
    python scripts/fuzz.py bytes snapshot|text --minutes 5 [--corpus DIR]            atheris (pip install atheris)
    python scripts/fuzz.py dom [--mutations 300] [--seed 0] [--log FILE]             needs Chromium; FILE resumes it
    python scripts/fuzz.py short                                                     what continuous integration runs
    python scripts/fuzz.py nightly                                                   what the counts in the docs come from

Each campaign prints one JSON line: what ran, how much, how long, violations. The first violation ends it with status 1;
hypothesis prints the smallest input that shows it, atheris leaves a `crash-*` file. Laws are those of tests/laws.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

CAMPAIGNS = ("sound", "broken", "text", "transitions", "digests")
TREES_PER_EXAMPLE = {"sound": 1, "broken": 1, "text": 1, "transitions": 2, "digests": 4}
ACTIONS = ("click('3')", "view_all()", "view_region('R1')", "find('Save')", "view_region('R99')", "view_all(", "scroll(0, 300)")


def run_laws(campaign: str, *, examples: int, seed: int) -> dict[str, Any]:
    """Run one campaign; raises what broke. Returns its counts."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import seed as with_seed
    from hypothesis import strategies as st

    check = _check_of(campaign)
    count = 0

    @with_seed(seed)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**64 - 1))
    def case(number: int) -> None:
        nonlocal count
        count += 1
        check(random.Random(number))

    start = time.monotonic()
    case()
    return {
        "campaign": campaign,
        "examples": count,
        "trees": count * TREES_PER_EXAMPLE[campaign],
        "seed": seed,
        "seconds": round(time.monotonic() - start, 1),
        "violations": 0,
    }


def _check_of(campaign: str) -> Callable[[random.Random], None]:
    """What one example does, everything random from its generator: the number that hypothesis prints repeats it."""
    from region4web.render import render_tree
    from tests import laws
    from tests.builders import random_nodes, random_tree

    def sound(random: random.Random) -> None:
        laws.check_tree(random_tree(random))

    def broken(random: random.Random) -> None:
        laws.check_nodes(random_nodes(random))

    def text(random: random.Random) -> None:
        printed = render_tree(random_tree(random))
        for _ in range(random.randint(1, 4)):  # cut, doubled and exchanged pieces
            at, end = sorted(random.randint(0, len(printed)) for _ in range(2))
            printed = (
                printed[:at]
                + random.choice(("", printed[at:end] * 2, "\n", "\t", "'", "\\", "] ", "+3 ", chr(random.randint(0, 0x10FFFF))))
                + printed[end:]
            )
        laws.check_text(printed)

    def transitions(random: random.Random) -> None:
        laws.check_transition(random_tree(random), random_tree(random))

    def digests(random: random.Random) -> None:
        trees = [random_tree(random, 10) for _ in range(TREES_PER_EXAMPLE["digests"])]
        actions = [random.choice(ACTIONS) for _ in range(2)]
        laws.check_digests(trees, actions, budget_tokens=random.choice((None, 120, 200, 500)), layout=random.choice(("in_place", "append")))

    return {"sound": sound, "broken": broken, "text": text, "transitions": transitions, "digests": digests}[campaign]


def run_bytes(target: str, *, minutes: float, corpus: Path) -> None:
    """Coverage-guided bytes on a parser; does not return: libFuzzer ends the process, with status 0 when nothing was found."""
    import atheris

    with atheris.instrument_imports(include=["region4web"]):
        import region4web.flattened
        import region4web.preprocessing  # noqa: F401  (both load late, and would go without instruments)
        from tests import laws

    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in _seeds(target).items():
        (folder / name).write_bytes(seed)

    def one_input(data: bytes) -> None:
        if target == "snapshot":
            laws.check_snapshot_bytes(data)
        else:
            laws.check_text(data.decode("utf-8", "surrogateescape"))

    arguments = [
        "fuzz",
        str(folder),
        f"-max_total_time={int(minutes * 60)}",
        "-max_len=4096",
        "-timeout=20",
        "-rss_limit_mb=4096",
        f"-artifact_prefix={corpus}/",
        "-print_final_stats=1",
    ]

    def json_mutator(data: bytes, longest: int, number: int) -> bytes:
        """A change of the JSON's structure; of the bytes where they are no JSON, and now and then where they are."""
        choice = random.Random(number)
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return bytes(atheris.Mutate(data, longest))
        if choice.random() < 0.2:
            return bytes(atheris.Mutate(data, longest))
        changed = json.dumps(_with_one_change(value, choice)).encode()
        return changed if len(changed) <= longest else data

    mutator = {"custom_mutator": json_mutator} if target == "snapshot" else {}
    atheris.Setup(arguments, one_input, **mutator)
    atheris.Fuzz()


def _with_one_change(value: Any, choice: random.Random) -> Any:
    """The value with one entry somewhere in it replaced, doubled, moved or left out."""
    holders: list[Any] = [[value]]
    stack = [value]
    while stack:
        if isinstance(each := stack.pop(), (dict, list)):
            holders.append(each)
            stack.extend(each.values() if isinstance(each, dict) else each)
    holder = choice.choice(holders)
    if not holder:
        return value
    key = choice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    kind = choice.randrange(4)
    if kind == 0 and holder is not holders[0]:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(json.loads(json.dumps(holder[key])))
    elif kind == 2:
        other = choice.choice(holders)
        holder[key] = json.loads(json.dumps(choice.choice(list(other.values() if isinstance(other, dict) else other) or [None])))
    else:
        holder[key] = choice.choice(
            (
                None,
                True,
                0,
                -1,
                1.5,
                10**30,
                "",
                "1",
                "2",
                "f1",
                "StaticText",
                "RootWebArea",
                "generic",
                "x\n[1] y",
                "\ud800",
                [],
                ["1"],
                {},
                {"value": "v"},
            )
        )
    return holders[0][0]


def _seeds(target: str) -> dict[str, bytes]:
    """Small inputs that reach most of a parser."""
    if target == "text":
        return {
            "page": b"RootWebArea 'Orders', focused, url='http://x/'\n\t[44] banner ''\n\t\t[a3] combobox \"it's\" value='P\\n', expanded=False\n\t+9 [f1:9] slider '' value=0.5\nprose"
        }
    nodes = [
        {
            "nodeId": "1",
            "ignored": False,
            "role": {"value": "RootWebArea"},
            "name": {"value": "Shop"},
            "childIds": ["2", "3"],
            "backendDOMNodeId": 1,
        },
        {
            "nodeId": "2",
            "parentId": "1",
            "role": {"value": "link"},
            "name": {"value": ""},
            "properties": [{"name": "url", "value": {"value": "http://x/a"}}],
            "backendDOMNodeId": 2,
        },
        {
            "nodeId": "3",
            "parentId": "1",
            "role": {"value": "textbox"},
            "value": {"value": "\u2022\u2022"},
            "frame": "f1",
            "childIds": ["4"],
        },
        {"nodeId": "4", "ignored": True, "role": {"value": "none"}, "childIds": []},
    ]
    page = json.dumps(
        {
            "url": "http://x/",
            "title": "t",
            "viewport": [1, 1],
            "nodes": nodes,
            "boxes": {"1": [0, 0, 1, 1]},
            "clickable": ["2"],
            "notes": ["n"],
        }
    ).encode()
    return {"page": page, "page.gz": gzip.compress(page, mtime=0), "small": b'{"nodes":[{}]}'}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    laws_command = commands.add_parser("laws")
    laws_command.add_argument("--campaign", choices=CAMPAIGNS, action="append", help="may be given several times; all by default")
    laws_command.add_argument("--examples", type=int, default=2000)
    laws_command.add_argument("--seed", type=int, default=0)
    bytes_command = commands.add_parser("bytes")
    bytes_command.add_argument("target", choices=("snapshot", "text"))
    bytes_command.add_argument("--minutes", type=float, default=5)
    bytes_command.add_argument("--corpus", type=Path, default=ROOT / "output" / "fuzz")
    dom_command = commands.add_parser("dom")
    dom_command.add_argument("--mutations", type=int, default=300)
    dom_command.add_argument("--seed", type=int, default=0)
    dom_command.add_argument("--log", type=Path, help="finished pages are kept here, and not run again")
    commands.add_parser("short")
    commands.add_parser("nightly")
    options = parser.parse_args(argv)
    if options.command == "bytes":
        run_bytes(options.target, minutes=options.minutes, corpus=options.corpus)
    elif options.command == "dom":
        _run_dom(options.mutations, options.seed, options.log)
    elif options.command == "laws":
        _run_all(options.campaign or CAMPAIGNS, options.examples, options.seed)
    elif options.command == "short":
        _run_all(CAMPAIGNS, 150, 0)
    else:
        _run_all(CAMPAIGNS, 25_000, 1)
        _run_dom(20_000, 1, ROOT / "output" / "fuzz" / "dom-1.jsonl")


def _run_all(campaigns: tuple[str, ...] | list[str], examples: int, seed: int) -> None:
    for campaign in campaigns:
        print(json.dumps(run_laws(campaign, examples=examples, seed=seed)), flush=True)


def _run_dom(mutations: int, seed: int, log: Path | None) -> None:
    from scripts.fuzz_dom import run_dom

    print(json.dumps(run_dom(mutations=mutations, seed=seed, log=log)), flush=True)


if __name__ == "__main__":
    main()
