"""The pages of the plug-ins: every block is run or read, in the environment that it is for; stand-ins take the place of others' code."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest
from test_webarena_agents import Actor, OccamWrapper, StepWrapper

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "pagedigest" / "integrations"
BROWSER = pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="playwright is not installed (extra 'browser')")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def environment(tmp_path: Path) -> dict[str, str]:
    """With the commands of this Python first, and sessions in a folder of their own."""
    sessions = tmp_path / "s"
    sessions.mkdir(mode=0o700)
    return {
        **os.environ,
        "PAGEDIGEST_SESSIONS": str(sessions),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }


def run_python(code: str, tmp_path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_page_is_linked_and_links_lead_somewhere():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index
        for target in re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8")):
            assert (PAGES / target).is_file(), f"{page.name} -> {target}"


def test_every_block_has_a_language_that_is_run_or_read_here():
    for page in PAGES.glob("*.md"):
        languages = re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[::2]
        assert set(languages) <= {"python", "bash", "json", "toml", "text"}, page.name


@BROWSER
@pytest.mark.browser
def test_a_playwright_page_sync_and_async(tmp_path, chromium):
    plain, asynchronous = blocks("PLAYWRIGHT.md", "python")
    printed = run_python(plain, tmp_path)
    assert "value: 'DHL' -> 'GLS'" in printed
    assert "no element [999999] was shown" in printed
    (tmp_path / "s").rmdir()
    assert "regions open" in run_python(asynchronous, tmp_path)


@BROWSER
@pytest.mark.browser
@pytest.mark.skipif(sys.platform == "win32", reason="browser sessions use Unix sockets")
def test_the_command_line(tmp_path, chromium):
    (script,) = blocks("COMMAND_LINE.md", "bash")
    done = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "value: 'DHL' -> 'GLS'" in done.stdout
    assert done.stdout.endswith("session default closed\n")


def test_the_configurations_start_the_server():
    started = [["pagedigest", "mcp"]]
    for block in blocks("MCP.md", "json"):
        (servers,) = json.loads(block).values()
        started.append([servers["pagedigest"]["command"], *servers["pagedigest"]["args"]])
    (codex,) = blocks("MCP.md", "toml")
    server = tomllib.loads(codex)["mcp_servers"]["pagedigest"]
    started.append([server["command"], *server["args"]])
    assert len(started) == 5
    assert all(command == started[0] for command in started)


@BROWSER
@pytest.mark.browser
def test_a_client_of_the_server(tmp_path, chromium):
    mcp = pytest.importorskip("mcp", reason="the mcp SDK is not installed (extra 'mcp')")
    if not hasattr(mcp, "Client"):
        pytest.skip("the mcp SDK is older than 2.0")
    (client,) = blocks("MCP.md", "python")
    printed = run_python(client, tmp_path)
    assert "'view_region'" in printed
    assert "PAGE Orders" in printed
    assert "True Error executing tool click: no element [999999] was shown" in printed


def test_agentoccam_is_changed_in_place(tmp_path, monkeypatch):
    theirs = types.SimpleNamespace(eval_webarena=types.ModuleType("eval_webarena"), inner=types.ModuleType("AgentOccam.AgentOccam"))
    theirs.eval_webarena.WebArenaEnvironmentWrapper, theirs.inner.Actor = OccamWrapper, Actor
    package = types.ModuleType("AgentOccam")
    package.AgentOccam = theirs.inner
    for name, module in {"eval_webarena": theirs.eval_webarena, "AgentOccam": package, "AgentOccam.AgentOccam": theirs.inner}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AgentOccam/prompts/navigation_specifications").mkdir(parents=True)
    for block in blocks("AGENTOCCAM.md", "python"):
        exec(compile(block, "AGENTOCCAM.md", "exec"), {})
    observed = theirs.eval_webarena.WebArenaEnvironmentWrapper().observation()
    assert observed["text"].startswith("PAGE One Stop Market")
    assert observed["node"] == "tree node"
    assert theirs.inner.Actor().is_valid_action("view_all")
    assert (tmp_path / "AgentOccam/prompts/navigation_specifications/view_all.txt").read_text(encoding="utf-8").startswith("view_all: ")


def test_step_is_changed_in_place(monkeypatch):
    webarena, template = types.ModuleType("webarena"), types.ModuleType("step_fewshot_template")
    webarena.WebArenaEnvironmentWrapper = StepWrapper
    template.shopping_agent = {"instruction": "You act.", "examples": []}
    for name in ("webagents_step", "webagents_step.environment", "webagents_step.prompts", "webagents_step.prompts.webarena"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["webagents_step.environment"].webarena = webarena
    sys.modules["webagents_step.prompts.webarena"].step_fewshot_template = template
    (block,) = blocks("STEP.md", "python")
    namespace: dict = {}
    exec(compile(block, "STEP.md", "exec"), namespace)
    assert "view_all" in namespace["low_level_action_list"]
    assert "view_all [1]" in namespace["action_to_prompt_dict"]["shopping_agent"]["instruction"]
    assert webarena.WebArenaEnvironmentWrapper().observation().startswith("PAGE One Stop Market")


def found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package
        return False


@pytest.mark.optional
@pytest.mark.browser
@pytest.mark.skipif(
    not all(map(found, ("gymnasium", "miniwob", "browsergym.experiments"))),
    reason="BrowserGym, its experiments package and MiniWoB are not installed",
)
def test_browsergym(system_browser, monkeypatch, tmp_path):
    from test_browsergym import miniwob_pages

    monkeypatch.setenv("MINIWOB_URL", f"file://{miniwob_pages()}/")
    whole, own = blocks("BROWSERGYM.md", "python")
    assert "reward 1" in run_python(whole, tmp_path)
    (tmp_path / "s").rmdir()
    assert "view_region" in run_python(own, tmp_path)


@pytest.mark.optional
@pytest.mark.skipif(importlib.util.find_spec("agentlab") is None, reason="agentlab is not installed (it needs an environment of its own)")
def test_agentlab(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTLAB_EXP_ROOT", str(tmp_path))
    for block in blocks("AGENTLAB.md", "python"):
        exec(compile(block, "AGENTLAB.md", "exec"), {})
