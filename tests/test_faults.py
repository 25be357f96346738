"""What may break around a run: the browser, the model's server, the disk, the cache, the weights, the training itself.

Each gives one clear line, loses nothing that was written, and the next call goes on. Sessions of the command line and of
the MCP server have theirs in test_browser_session.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer

from pagedigest.selection import LLMSelector
from pagedigest.session import PageDigest
from pagedigest.store import PageStore, StoredRegion, StoredState
from pagedigest.tokens import UpperEstimateCounter
from region4web.abstraction import EmbeddedAbstractor, RoleNameAbstractor
from region4web.abstraction_cache import Cached
from region4web.axtree import AXTree
from region4web.capture import capture_live
from region4web.errors import BrowserError, CaptureError, LanguageModelError, WeightsError
from region4web.language_models import RecordedModel, ScriptedModel
from region4web.openai_model import OpenAIModel
from region4web.segmenters import Landmarks
from region4web.snapshot import load_snapshot, save_snapshot
from tests.builders import node, snapshot

ROOT = Path(__file__).parent.parent


def shop() -> AXTree:
    return AXTree.from_snapshot(snapshot(node(1, "RootWebArea", "Shop", [2]), node(2, "main", "", [3]), node(3, "button", "Buy")))


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    assert str(error)
    return str(error)


@contextmanager
def full_disk(room: int = 0) -> Iterator[None]:
    """No file of this process may grow beyond `room` bytes: writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# The browser.


@pytest.mark.browser
def test_a_browser_that_is_killed_is_one_line_and_another_one_goes_on(chromium: Any) -> None:
    other = chromium.browser_type.launch(executable_path=_browser_path(), args=["--no-sandbox", "--disable-gpu"])
    page = other.new_page()
    page.set_content("<button>Buy</button>")
    processes = other.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    os.kill(next(each["id"] for each in processes if each["type"] == "browser"), signal.SIGKILL)
    with pytest.raises(BrowserError, match="the browser stopped or closed the page") as caught:
        capture_live(page, timeout_s=20)
    one_line(caught.value)
    again = chromium.new_page()
    again.set_content("<button>Buy</button>")
    assert "Buy" in [each.name for each in AXTree.from_snapshot(capture_live(again)).nodes]
    again.close()


def _browser_path() -> Path | None:
    from region4web.browser import find_browser

    return find_browser()  # None: Playwright's own


@pytest.mark.browser
def test_a_page_that_crashes_is_one_line_and_another_tab_goes_on(chromium: Any) -> None:
    from playwright.sync_api import Error

    context = chromium.new_context()
    page = context.new_page()
    with pytest.raises(Error):
        page.goto("chrome://crash", timeout=10_000)
    with pytest.raises(CaptureError) as caught:
        capture_live(page, timeout_s=3)
    one_line(caught.value)
    other = context.new_page()
    other.set_content("<button>Buy</button>")
    assert "Buy" in [each.name for each in AXTree.from_snapshot(capture_live(other)).nodes]
    context.close()


# The model's server.


def test_a_server_that_goes_down_in_an_episode_leaves_the_fallback_counted_and_is_asked_again() -> None:
    server = OpenAIServer(lambda _: '{"regions": ["R0"]}')
    with server:
        model = OpenAIModel("small", server.url, "none", max_retries=0, timeout_s=10)
        session = PageDigest(Landmarks(), RoleNameAbstractor(), LLMSelector(model), counter=UpperEstimateCounter()).start("Buy")
        assert "selection_fallbacks" not in session.observe(shop()).usage.counts
    other = AXTree.from_snapshot(snapshot(node(1, "RootWebArea", "Other", [2]), node(2, "button", "Sell"), url="http://other.test/"))
    seen = session.observe(other)
    assert seen.usage.counts["selection_fallbacks"] == 1
    assert "button 'Sell'" in seen.text


def test_a_server_that_is_not_there_is_named_in_one_line() -> None:
    model = OpenAIModel("small", "http://127.0.0.1:9/v1", "none", max_retries=0)
    with pytest.raises(LanguageModelError, match=r"small at http://127\.0\.0\.1:9/v1: unreachable") as caught:
        model.complete(["hello"], max_tokens=5)
    one_line(caught.value)


# The disk.


def test_a_full_disk_leaves_the_old_snapshot_whole_and_no_part_of_the_new(tmp_path: Path) -> None:
    old = snapshot(node(1, "RootWebArea", "Old", []))
    path = save_snapshot(old, tmp_path / "page.json.gz")
    with full_disk(), pytest.raises(OSError, match=r"File too large|No space"):
        save_snapshot(snapshot(node(1, "RootWebArea", "New", [2]), node(2, "button", "Buy")), path)
    assert load_snapshot(path) == old
    assert [each.name for each in tmp_path.iterdir()] == ["page.json.gz"]
    assert save_snapshot(old, path) == path


def test_a_full_disk_leaves_the_states_that_a_store_holds_and_later_ones_are_kept(tmp_path: Path) -> None:
    def state(step: int, size: int = 10) -> StoredState:
        return StoredState(1, step, "http://shop.test/", "Shop", "text", (StoredRegion(0, "Page", f"{step}" * size),))

    path = tmp_path / "pages.sqlite"
    store = PageStore(path)
    store.add(state(1))
    with full_disk(path.stat().st_size), pytest.raises(OSError, match=r"page store cannot be written .*what it held stays") as caught:
        store.add(state(2, 5_000_000))
    one_line(caught.value)
    assert store.addresses() == ("p1.s1",)
    store.add(state(3))
    assert store.addresses() == ("p1.s1", "p1.s3")
    store.close()
    assert PageStore(path).addresses() == ("p1.s1", "p1.s3")


def test_an_answer_that_did_not_fit_on_the_disk_is_asked_for_again_and_the_others_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "answers.jsonl"
    model = RecordedModel(path, ScriptedModel(["one", "two"]))
    model.complete(["first"], max_tokens=5)
    with full_disk(path.stat().st_size + 20), pytest.raises(OSError, match=r"File too large|No space"):
        model.complete(["second"], max_tokens=5)
    assert path.stat().st_size > 20
    again = RecordedModel(path, ScriptedModel(["two again"]))
    assert [each.text for each in again.complete(["first", "second"], max_tokens=5)] == ["one", "two again"]
    assert "was not written whole" in caplog.text
    assert [each.text for each in RecordedModel(path).complete(["first", "second"], max_tokens=5)] == ["one", "two again"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        "region4web.cli segment {page} --segmenter landmarks --abstractor role-name --json",
        "pagedigest.cli observe {page} --task Buy --segmenter landmarks --abstractor role-name",
    ],
)
def test_output_that_cannot_be_written_is_one_line_and_status_1(command: str, tmp_path: Path) -> None:
    page = save_snapshot(snapshot(node(1, "RootWebArea", "Shop", [2]), node(2, "button", "Buy")), tmp_path / "page.json")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", *command.format(page=page).split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


# The cache.


def test_a_cache_that_another_process_holds_is_said_counted_and_used_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("region4web.abstraction_cache.BUSY_TIMEOUT_S", 0.05)
    partition = Landmarks().segment(shop())
    path = tmp_path / "cache.sqlite"
    first = Cached(RoleNameAbstractor(), path)
    first.abstract(partition)
    first.close()
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import sqlite3, sys; db = sqlite3.connect({str(path)!r}, isolation_level=None); db.execute('PRAGMA locking_mode = EXCLUSIVE'); db.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    cached = Cached(RoleNameAbstractor(), path)
    try:
        with sqlite3.connect(path, timeout=0.01) as db, pytest.raises(sqlite3.OperationalError, match="locked"):
            db.execute("INSERT INTO entries SELECT 'x', '', '', '', 0")
        changed = Landmarks().segment(AXTree.from_snapshot(snapshot(node(1, "RootWebArea", "New", [2]), node(2, "button", "Sell"))))
        assert cached.abstract(changed) == RoleNameAbstractor().abstract(changed)
        assert "locked" in caplog.text
        assert "going on without it" in caplog.text
    finally:
        holder.communicate("")
    assert cached.abstract(changed) == RoleNameAbstractor().abstract(changed)
    cached.abstract(changed)
    assert cached.hits >= len(changed)


def test_a_full_disk_does_not_stop_an_abstractor_with_a_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    partition = Landmarks().segment(shop())
    cached = Cached(RoleNameAbstractor(), tmp_path / "cache.sqlite")
    with full_disk(100):
        assert cached.abstract(partition) == RoleNameAbstractor().abstract(partition)
    assert "going on without it" in caplog.text
    assert cached.abstract(partition) == RoleNameAbstractor().abstract(partition)
    cached.abstract(partition)
    assert cached.hits == len(partition)


# The weights.

WEIGHTS = {
    "abstraction": ("region4web/weights/abstraction", ("purposes.json", "purposes.npz")),
    "decomposition": ("region4web/weights/decomposition/best", ("config.json", "model.safetensors")),
    "paper": ("region4web/weights/decomposition/paper", ("config.json", "model.safetensors")),
    "selection": ("pagedigest/weights", ("selection.json", "selection.npz")),
}


def load_weights(kind: str, folder: Path) -> None:
    if kind == "abstraction":
        EmbeddedAbstractor(folder)
    elif kind == "selection":
        from pagedigest.ranker import load_ranker

        load_ranker(folder)
    else:
        pytest.importorskip("torch", reason="torch is not installed (extra 'model')")
        from region4web.decomposition import LearnedSegmenter

        LearnedSegmenter(folder).segment(shop())


@pytest.mark.parametrize(("kind", "file"), [(kind, file) for kind, (_, files) in WEIGHTS.items() for file in files])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_weights_file_that_was_cut_off_is_named_in_one_line(kind: str, file: str, share: float, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(ROOT / WEIGHTS[kind][0], folder)
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(WeightsError, match=r"weights") as caught:
        load_weights(kind, folder)
    assert str(folder) in one_line(caught.value)


# Training.


@pytest.mark.slow
def test_training_that_is_killed_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra 'model')")
    from test_train_decomposition import write_page

    for k in range(8):
        write_page(tmp_path, f"shop-{k}", f"https://www.shop{k // 2}.test/page{k}", 3 + k % 5)
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "from functools import partial\nfrom pathlib import Path\n"
        "from region4web.labels import page_files\n"
        "from training.decomposition_data import context_example, read_examples\n"
        "from training.decomposition_training import RECIPES, Recipe, train_member\n"
        "torch.set_num_threads(1)\nfolder = Path(sys.argv[1])\n"
        "examples = read_examples(page_files(folder / 'captures', folder / 'labels'), partial(context_example, variations=1))\n"
        "recipe = Recipe(**(vars(RECIPES['best']) | {'epochs': 8, 'batch_pages': 2}))\n"
        "model, history = train_member(recipe, examples, (), seed=5, checkpoint=Path(sys.argv[2]), resume=True)\n"
        "assert len(history) == 8\ntorch.save(model.state_dict(), sys.argv[3])\n",
        encoding="utf-8",
    )

    def command(name: str) -> list[str]:
        return [sys.executable, str(script), str(tmp_path), str(tmp_path / f"{name}.checkpoint"), str(tmp_path / f"{name}.pt")]

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command("whole"), env=environment, check=True, timeout=300)
    killed = subprocess.Popen(command("killed"), env=environment)
    while not (tmp_path / "killed.checkpoint").exists():
        assert killed.poll() is None
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    kept = torch.load(tmp_path / "killed.checkpoint", weights_only=True)
    assert 1 <= len(kept["history"]) < 8
    subprocess.run(command("killed"), env=environment, check=True, timeout=300)
    one, two = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("whole", "killed"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())
