"""What is installed: the wheel's files, its extras and commands, the public names, and the scripts' pinned versions."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import pagedigest
import region4web

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("region4web", "pagedigest")


def pinned_versions() -> dict[str, str]:
    lines = (ROOT / "scripts/constraints.txt").read_text(encoding="utf-8").splitlines()
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines if "==" in line)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)],
        check=True,
    )
    with zipfile.ZipFile(next(folder.glob("region4web-*.whl"))) as archive:
        yield archive


def test_the_wheel_holds_every_file_of_the_packages_that_git_tracks(wheel):
    names = set(wheel.namelist())
    tracked = subprocess.run(["git", "ls-files", "--", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    assert set(tracked.stdout.split("\n")) - {""} - names == set()


def test_the_wheel_is_typed_licensed_and_brings_its_data(wheel):
    names = set(wheel.namelist())
    assert {"region4web/py.typed", "pagedigest/py.typed"} <= names
    assert {f"region4web/templates/viewer.{suffix}" for suffix in ("html.j2", "css", "js")} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_ships_weights_for_both_decomposition_variants(wheel):
    names = set(wheel.namelist())
    for variant in ("best", "paper"):
        assert {f"region4web/weights/decomposition/{variant}/{name}" for name in ("config.json", "model.safetensors")} <= names


def test_the_wheel_stays_small(wheel):
    assert sum(info.compress_size for info in wheel.infolist()) < 60_000_000


def test_both_commands_exist():
    for command, target in PROJECT["scripts"].items():
        module, name = target.split(":")
        assert command in PACKAGES
        assert callable(getattr(importlib.import_module(module), name))


def test_the_documented_extras_exist():
    assert set(PROJECT["optional-dependencies"]) >= {"model", "lm", "browser", "agents", "mcp", "train", "all", "dev"}


def test_the_core_is_light():
    heavy = {"torch", "transformers", "playwright", "pandas", "openai", "matplotlib"}
    assert {Requirement(line).name for line in PROJECT["dependencies"]} & heavy == set()


def test_pinned_versions_satisfy_the_open_ranges():
    pinned = pinned_versions()
    assert pinned["torch"] == "2.13.0"
    ranges = PROJECT["dependencies"] + [
        line for name, lines in PROJECT["optional-dependencies"].items() if name not in ("agents", "ray", "webarena") for line in lines
    ]
    for line in ranges:
        requirement = Requirement(line)
        if requirement.name == "region4web":
            continue
        version = pinned.get(requirement.name.lower().replace("_", "-"))
        assert version, f"{requirement.name} is not pinned in scripts/constraints.txt"
        assert requirement.specifier.contains(version), line
        assert "==" not in str(requirement.specifier), f"{line}: keep the range open"


@pytest.mark.parametrize("package", [region4web, pagedigest], ids=PACKAGES)
def test_every_public_name_exists_and_is_listed_once(package):
    modules = [package.__name__, *(info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."))]
    for name in modules:
        if name.split(".")[-1] in ("browsergym", "agentlab", "agentlab_tool_use", "__main__"):
            continue  # need packages that CI does not have
        module = importlib.import_module(name)
        listed = getattr(module, "__all__", [])
        assert len(listed) == len(set(listed)), name
        assert [public for public in listed if not hasattr(module, public)] == [], name


def test_one_version_everywhere():
    assert region4web.__version__ == pagedigest.__version__ == PROJECT["version"]


def test_the_scripts_are_sound_shell():
    for script in (ROOT / "scripts").glob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)


DOCUMENTS = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not any(part.startswith(".") or part in ("runs", "output") for part in path.relative_to(ROOT).parts)
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_files_that_exist(document):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


@pytest.mark.browser
@pytest.mark.parametrize(("document", "first"), [("README.md", "R0 "), ("pagedigest/README.md", "PAGE ")])
def test_the_first_example_of_a_document_runs(monkeypatch, capsys, document, first):
    example = re.search(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)
    assert example
    monkeypatch.chdir(ROOT)
    exec(example[1], {})
    assert capsys.readouterr().out.startswith(first)
