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
    "imports",
    "texts",
    "storable",
    "events",
    "progress",
    "arrays",
    "executor",
    "inputs",
    "kernels",
    "losses",
    "logistic",
    "solvers",
    "criteria",
    "machines",
    "targets",
    "spread",
    "search",
    "optimisers",
    "learners",
    "importance",
    "model",
    "intervals",
    "compression",
    "permutation",
    "estimators",
    "storage",
    "insight",
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
    others = [p for p in FILES if module(p) != "arrays" and "compiled" not in p.parts]
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


# ------------------------------------------------------------------------------------------------ what stays small


def counted(path):
    """Functions and classes of a file, with their names."""
    return [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def lines_of(function):
    """But for the docstring."""
    first = function.body[0]
    told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return function.end_lineno - function.lineno + 1 - (first.end_lineno - first.lineno + 1 if told else 0)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_functions_are_short_and_classes_have_few_methods(path):
    for node in counted(path):
        if isinstance(node, ast.FunctionDef):
            assert lines_of(node) <= 40, f"{node.name} has {lines_of(node)} lines"
        else:
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            assert len(methods) <= 20, f"{node.name} has {len(methods)} methods"


def own_names(tree):
    """Names with an underscore that a file defines: attributes, functions, classes, constants."""
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    stored = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    named = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return defined | stored | named


# What can be added is registered under one name in every package; hgk.load and the bench's datasets.load are public.
# A command is named as what it calls.
SHARED_NAMES = {"register", "load", "evaluate", "compare"}


def public_names(path):
    """Classes, functions, constants and type aliases that a file defines and does not mark as its own."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        else:
            defined = []
        yield from (name for name in defined if not name.startswith("_"))


def test_a_public_name_has_one_meaning():
    homes = {}
    for path in FILES:
        for name in set() if path.name == "__init__.py" else set(public_names(path)) - SHARED_NAMES:
            homes.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_module_reaches_for_the_underscore_of_another(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            inside = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os")
            assert inside or node.attr in own_names(tree), f"line {node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hgk"):
            names = [alias.name for alias in node.names if alias.name.startswith("_")]
            assert names in ([], ["__version__"])
