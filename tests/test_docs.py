"""The site: every page can be reached, every public name is in the reference, every example and snippet runs, and the
whole builds without a warning and opens from disk without a request to anywhere."""

import ast
import inspect
import os
import re
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import hgk
from browsing import forget
from hgk.bench import store

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"_build", "gallery", "generated"}
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if not MADE & set(p.relative_to(DOCS).parts)]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


# ----------------------------------------------------------------------------------------------- the sources


def toctree(page):
    """The pages that a page lists, as paths without ending."""
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.S):
        for line in block.splitlines():
            if line.strip() and not line.startswith(":"):
                target = re.sub(r".*<(.*)>", r"\1", line.strip())
                yield (page.parent / target).resolve()


def test_every_page_can_be_reached_from_the_first():
    found, queue = set(), [DOCS / "index"]
    while queue:
        page = queue.pop()
        if page in found or page == DOCS / "gallery" / "index":
            continue
        assert page.with_suffix(".md").exists(), f"a toctree lists {page.relative_to(DOCS)}, which is not there"
        found.add(page)
        queue += toctree(page.with_suffix(".md"))
    assert found == {page.with_suffix("") for page in PAGES}


def test_every_recorded_experiment_is_a_page():
    recorded = {path.parent.name for path in ROOT.glob("experiments/*/README.md")}
    pages = {page.stem for page in (DOCS / "experiments").glob("*.md") if "{include} ../../exp" in page.read_text()}
    assert recorded == pages, "a page docs/experiments/NAME.md includes experiments/NAME/README.md; see table1.md"


def referenced():
    """The full names in the reference."""
    module, found = "", set()
    for line in (DOCS / "api" / "index.md").read_text().splitlines():
        if match := re.match(r"\.\. (?:currentmodule|automodule):: (\S+)", line):
            module = match[1]
        elif match := re.match(r"\.\. py:data:: (\S+)", line):
            found.add(match[1])
        elif match := re.match(r"   ([A-Za-z][\w.]*)$", line):
            found.add(f"{module}.{match[1]}")
    return found


def public(name):
    """``__all__``, or what a module defines under a name without underscore."""
    module = import_module(name)
    names = getattr(module, "__all__", None)
    own = [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and inspect.isroutine(value) | inspect.isclass(value) and value.__module__ == name
    ]
    return {f"{name}.{key}" for key in (own if names is None else names)}


@pytest.mark.parametrize(
    "name",
    [
        "hgk",
        "hgk.bench.methods",
        "hgk.report.displays",
        "hgk.insight",
        "hgk.bench.peers.hkl",
        "hgk.losses",
        "hgk.solvers",
    ],
)
def test_every_public_name_is_in_the_reference(name):
    helpers = {"hgk.losses.check_level"}
    assert public(name) - helpers <= referenced()
    assert {"hgk.report.write_report", "hgk.report.report", "hgk.storage.describe"} <= referenced()


def test_every_name_in_the_reference_exists_and_says_what_it_is():
    for name in referenced():
        parts = name.split(".")
        depth = next(k for k in range(len(parts) - 1, 0, -1) if _is_module(".".join(parts[:k])))
        thing = import_module(".".join(parts[:depth]))
        for part in parts[depth:]:
            thing = getattr(thing, part)
        assert isinstance(thing, dict) or inspect.getdoc(thing), f"{name} has no docstring"


def _is_module(name):
    try:
        import_module(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("text", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_first_texts_lead_to_files(text):
    content = (ROOT / text).read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)|(?:src|srcset)=\"([^\"]+)\"", content):
        assert (ROOT / next(filter(None, target))).exists(), target


def test_the_table_of_the_readme_is_what_was_recorded():
    rows = [r for r in store.latest(store.read(ROOT / "experiments/default/rows.jsonl")[0]) if r["status"] == "ok"]
    head, _, *lines = re.findall(r"^\| .*|^\|---.*", (ROOT / "README.md").read_text(), re.M)
    methods = [{"hgk": "Ours (default)", "random forest": "RF"}.get(m, m) for m in head.split(" | ")[1:]]
    methods[-1] = methods[-1].removesuffix(" |")
    assert {line.split(" | ")[0].removeprefix("| ") for line in lines} == {row["set"] for row in rows}
    for line in lines:
        name, *cells = line.strip("| ").split(" | ")
        means = [np.mean([r["mse"] for r in rows if (r["set"], r["method"]) == (name, m)]) for m in methods]
        expected = [f"**{mean:.5f}**" if mean == min(means) else f"{mean:.5f}" for mean in means]
        assert cells == expected, name


def test_pictures_are_small():
    for mode in ("light", "dark"):
        assert 1000 < (DOCS / "_static" / f"hgk-{mode}.svg").stat().st_size < 200_000


# ------------------------------------------------------------------------------------------------- the code


@pytest.fixture
def pyplot(monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    yield plt
    plt.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run_and_draw(path, pyplot, capsys):
    runpy.run_path(str(path))
    assert pyplot.get_fignums()


def test_the_gallery_is_worth_a_look():
    assert len(EXAMPLES) >= 6
    for path in EXAMPLES:
        title, line = ast.get_docstring(ast.parse(path.read_text())).splitlines()[:2]
        assert len(title) == len(line) == line.count("=")


SNIPPETS = [page for page in PAGES if page.parent.name == "howto" or page.stem == "start"]


@pytest.mark.parametrize("page", [p for p in SNIPPETS if "```python" in p.read_text()], ids=lambda page: page.stem)
def test_the_code_of_the_start_and_of_the_how_tos_runs(page, pyplot, capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    exec(compile(code, str(page), "exec"), {"__name__": "page"})


# ------------------------------------------------------------------------------------------------- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without executed examples, built once for all processes of the tests."""
    for package in ("sphinx", "myst_parser", "numpydoc", "sphinx_gallery", "pydata_sphinx_theme", "latex2mathml"):
        pytest.importorskip(package, reason=f"{package} is not installed (extra docs)")
    filelock = pytest.importorskip("filelock", reason="filelock is not installed")
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with filelock.FileLock(base / "site.lock"):
        if not (base / "site.done").exists():
            _build(base)
    return base / "site"


def _build(base):
    """From a copy of the sources: generated pages stay out of the repository."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\n")
    wanted = [f for f in files if f and (ROOT / f).is_file()] or [
        str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and ".venv" not in p.parts
    ]
    for file in wanted:
        if file.split("/")[0] in ("docs", "examples", "experiments", "benchmarks", "src") or "/" not in file:
            copy = base / "copy" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / file).read_bytes())
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0", "-b", "html"]
    done = subprocess.run(
        [*command, str(base / "copy" / "docs"), str(base / "site")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (base / "site.done").touch()


def test_the_site_builds_without_a_warning_and_names_no_other_place(site):
    for page in ("index", "learner", "compare", "experiments/default", "changelog", "api/index", "gallery/index"):
        text = (site / f"{page}.html").read_text()
        fetched = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"(https?:[^\"]*)\"", text)
        assert not fetched, page
    assert len(re.findall(r'<math [^>]*display="block"', (site / "learner.html").read_text())) > 5
    assert 'href="default.html"' in (site / "experiments" / "table1.html").read_text()  # not ../default/README.md
    for name in hgk.__all__:
        assert (site / "api" / "generated" / f"hgk.{name}.html").exists()


@pytest.mark.parametrize("page", ["index", "learner", "compare", "experiments/default", "api/index"])
@pytest.mark.parametrize("width", [1200, 420])
def test_pages_open_from_disk_and_fit_the_window(site, browser, page, width):
    browser.set_window_size(width, 900)
    forget(browser)
    browser.get((site / f"{page}.html").as_uri())
    wide = browser.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 1
    heights = browser.execute_script(
        "return [...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"
    )
    assert all(height > 3 for height in heights)
    requests = browser.get_log("performance")
    assert not [entry for entry in requests if re.search(r'"url":"https?://', entry["message"])]
    assert not [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]  # the theme tells its mode
