"""The house: who may import whom, and where a device may be named."""

import ast
import tomllib
from pathlib import Path

import pytest

import hgk

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hgk"
FILES = sorted(SOURCE.rglob("*.py"))

# Imports go one way: a module may import from those above it in this list.
ORDER = [
    "storable",
    "arrays",
    "kernels",
    "progress",
    "losses",
    "targets",
    "solvers",
    "criteria",
    "machines",
    "search",
    "inputs",
    "optimisers",
    "learners",
    "estimators",
    "insight",
    "storage",
    "report",
    "bench",
    "cli",
    "__main__",
]
SCIKIT_LEARN = {"estimators", "insight", "report", "bench"}


def module(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", [p for p in FILES if p.name != "__init__.py" or p.parent != SOURCE], ids=str)
def test_imports_go_one_way(path):
    place = ORDER.index(module(path))
    for name in imported(path):
        if name.startswith("hgk."):
            assert ORDER.index(name.split(".")[1]) <= place, f"{module(path)} imports {name}"
        if name.split(".")[0] == "sklearn":
            assert module(path) in SCIKIT_LEARN


def names(path):
    """All names and texts of the code; docstrings may say what a user can ask for."""
    tree = ast.parse(path.read_text())
    documented = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef) and n.body]
    docstrings = {id(n.body[0].value) for n in documented if isinstance(n.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_only_arrays_names_a_device():
    others = [p for p in FILES if module(p) != "arrays" and "fused" not in p.parts]
    assert not [p for p in others if any("cuda" in n for n in names(p))]


def test_public_names_exist_and_the_version_is_in_the_changelog():
    assert all(hasattr(hgk, name) for name in hgk.__all__)
    assert f"## {hgk.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_readme_names_the_two_commands_and_the_pins_name_torch():
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "torch>=2.8" in project["dependencies"]
