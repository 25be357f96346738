"""DESIGN's one direction: who may import whom, and what importing the packages must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REGION4WEB_FLOW = ("errors", "snapshot", "axtree", "regions", "decomposition", "abstraction", "viewer", "cli")
PAGEDIGEST_FLOW = ("tokens", "transition", "selection", "digest", "session", "cli")
HEAVY = ("torch", "transformers", "playwright", "sklearn", "scipy.sparse", "openai", "peft", "mcp", "browsergym", "matplotlib", "pandas")


@cache
def sources(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(path: Path, *, at_import: bool = False) -> frozenset[str]:
    """Dotted names that a module imports, with the names it takes from them; only those that run at import if asked."""
    found: set[str] = set()
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        if at_import and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; name the package"
            found.update({node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)})
        stack.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def names_within(found: frozenset[str], *packages: str) -> list[str]:
    return sorted(name for name in found if any(name == p or name.startswith(f"{p}.") for p in packages))


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("region4web", ("pagedigest", "training", "tests", "scripts", "browsergym", "agentlab")),
        ("pagedigest", ("torch", "training", "tests", "scripts")),
        ("training", ("tests", "scripts")),
    ],
)
def test_a_package_imports_nothing_from_its_right(package: str, forbidden: tuple[str, ...]) -> None:
    wrong = {module: found for module, path in sources(package).items() if (found := names_within(imports(path), *forbidden))}
    assert wrong == {}


@pytest.mark.parametrize("package", ["region4web", "pagedigest", "training"])
def test_modules_import_each_other_in_one_direction(package: str) -> None:
    modules = sources(package)
    needs = {
        module: {name for name in imports(path, at_import=True) if name in modules and name != module} for module, path in modules.items()
    }
    ordered: list[str] = []
    while ready := [module for module in modules if module not in ordered and needs[module] <= {*ordered, package}]:
        ordered += ready
    assert sorted(set(modules) - set(ordered) - {package}) == [], "these modules import each other in a circle, or one of such a circle"


@pytest.mark.parametrize(("package", "flow"), [("region4web", REGION4WEB_FLOW), ("pagedigest", PAGEDIGEST_FLOW)])
def test_no_module_of_the_flow_needs_one_further_on(package: str, flow: tuple[str, ...]) -> None:
    modules = sources(package)

    def reached(module: str) -> set[str]:
        seen, stack = set(), [module]
        while stack:
            for name in imports(modules[stack.pop()], at_import=True):
                if name in modules and name != package and name not in seen:
                    seen.add(name)
                    stack.append(name)
        return seen

    present = [f"{package}.{name}" for name in flow if f"{package}.{name}" in modules]
    for i, module in enumerate(present):
        assert reached(module).isdisjoint(present[i + 1 :]), module


def test_nothing_needs_a_command_and_only_the_live_runner_needs_an_integration() -> None:
    for package in ("region4web", "pagedigest"):
        commands = [module for module in sources(package) if module.endswith("cli")]
        for module, path in sources(package).items():
            if module not in commands:
                assert names_within(imports(path), *commands) == [], module
                if not module.startswith(("pagedigest.integrations", "pagedigest.evaluation")):
                    assert names_within(imports(path), "pagedigest.integrations") == [], module


@pytest.mark.parametrize("package", ["region4web", "pagedigest"])
def test_importing_a_package_loads_nothing_heavy_and_prints_nothing(package: str) -> None:
    code = f"import sys, {package}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_commands_print_their_help_without_loading_a_model() -> None:
    for package in ("region4web", "pagedigest"):
        if f"{package}.cli" not in sources(package):
            continue
        code = (
            f"import sys; from {package}.cli import main; sys.argv = ['{package}', '--help']\n"
            f"try: main()\nexcept SystemExit: pass\n"
            f"print([name for name in ('torch', 'transformers', 'playwright') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.splitlines()[-1] == "[]", package


def test_every_public_name_exists_and_every_module_says_what_it_is() -> None:
    for package in ("region4web", "pagedigest", "training"):
        for module, path in sources(package).items():
            syntax = ast.parse(path.read_text(encoding="utf-8"))
            assert ast.get_docstring(syntax) or not syntax.body, f"{module} has no docstring"
            top = {n.name for n in syntax.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
            for node in syntax.body:
                for part in ast.walk(node) if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ():
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        top.add(part.id)
                    elif isinstance(part, ast.alias):
                        top.add((part.asname or part.name).split(".")[0])
            for node in syntax.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
                    missing = {ast.literal_eval(e) for e in node.value.elts} - top if isinstance(node.value, ast.List) else set()
                    assert missing == set(), f"{module}.__all__"
