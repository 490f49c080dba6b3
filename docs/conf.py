"""The site: ``make docs``, or ``sphinx-build -W docs docs/_build/html``.

``-D plot_gallery=0`` leaves the examples unexecuted. Nothing is fetched: no other project's inventory, no script, no
font; the pages open from disk.
"""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS), str(DOCS / "_ext"), str(ROOT / "src")]
os.environ.setdefault("MPLBACKEND", "agg")

import hgk  # noqa: E402

project, author, copyright = "hgk", "the authors of hgk", "the authors of hgk"
version = release = hgk.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "repository",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_ext", "_static", "_templates"]
templates_path = ["_templates"]
highlight_language = "none"  # what is indented is shell or formula; Python says so

# ------------------------------------------------------------------------------------------------ Markdown

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # an included README may begin with its second level

repository_pages = {
    str(ROOT / "CHANGELOG.md"): "changelog",
    str(ROOT / "CONTRIBUTING.md"): "contributing",
    **{str(path): f"experiments/{path.parent.name}" for path in sorted(ROOT.glob("experiments/*/README.md"))},
}
html_math_renderer = "mathml"

# ------------------------------------------------------------------------------------------------ reference

autosummary_generate = True
autodoc_default_options = {
    "exclude-members": "get_metadata_routing, set_fit_request, set_predict_request, set_score_request"
}
autodoc_typehints = "none"  # the docstrings say it
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def as_it_stands(app, what, name, obj, options, lines):
    """Docstrings are written for people: what is indented before the first section is a formula or pseudocode, line by
    line; a bar is an absolute value and not the name of a substitution."""
    rules = [i for i, line in enumerate(lines) if set(line.strip()) == {"-"}]
    first = rules[0] - 1 if rules else len(lines)
    lines[:] = literal_blocks(lines[:first]) + [without_substitutions(line) for line in lines[first:]]


def literal_blocks(lines):
    found, inside = [], False
    for before, line in zip(["", *lines], lines, strict=False):
        indented = line.startswith("    ")
        if indented and not inside and not before.strip():
            found += ["::", ""]
        inside = indented or (inside and not line.strip())
        found.append(line if inside else without_substitutions(line))
    return found


def without_substitutions(line):
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = line.split("``")  # every second one is code
    return "``".join(part.replace("|", r"\|") if i % 2 == 0 else part for i, part in enumerate(parts))


def redraw(app):
    """The first page's picture, from what is recorded now."""
    import picture

    picture.main()


def setup(app):
    app.connect("builder-inited", redraw)
    app.connect("autodoc-process-docstring", as_it_stands, priority=100)


# -------------------------------------------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": "True",
}

# ----------------------------------------------------------------------------------------------------- look

html_theme = "pydata_sphinx_theme"
html_title = "hgk"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("start", "compare", "cli", "report", "changelog", "contributing")}  # no section
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "compare": [], "experiments/default": []},  # room for tables
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
