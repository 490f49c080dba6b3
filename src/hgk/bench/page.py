"""Recorded runs as one HTML page that needs nothing else: no server, no network, light and dark, printable.

The tables are plain HTML written here; the figures are drawn by ``page.js``, which gets the numbers as JSON. What all
pages share, and why nothing in the rows becomes markup, is in :mod:`hgk.report.web`.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hgk.bench import published
from hgk.bench.palette import looks
from hgk.bench.published import BEST_MARK, SECOND_MARK
from hgk.bench.summary import Cell, ResultRow, Summary, baseline, plural, summarise
from hgk.bench.tables import (
    MARKS_RULE,
    MISSING_HEAD,
    RANKS_RULE,
    TIMES_HEAD,
    columns,
    failures,
    missing_splits,
    notes,
    ranks_note,
    times_row,
)
from hgk.report.web import assemble, colours, figure, or_none, plain_table, row_head, table, td, text_of, th, write

MARK_CLASS = {BEST_MARK: "best", SECOND_MARK: "second", 0: ""}
MARK_WORD = {BEST_MARK: "best", SECOND_MARK: "second best", 0: ""}


def _error_cell(cell: Cell, mark: int) -> str:
    lost = [f"{len(cell.failed)} failed"] * bool(cell.failed) + [f"{len(cell.missing)} missing"] * bool(cell.missing)
    bad = f'<small class="bad">{", ".join(lost)}</small>' if lost else ""
    if not cell.n:
        return td(f"–{bad}", kind="number")
    spread = f"± {cell.sd:.5f}, " if cell.n > 1 else ""
    text = f"{cell.mean:.5f}<small>{spread}{plural(cell.n, 'split')}</small>{bad}"
    return td(text, cell.mean, f"number {MARK_CLASS[mark]}", MARK_WORD[mark])


def _published_cell(name: str, method: str) -> str:
    if name not in published.ERRORS:
        return td("–", kind="number published")
    error = published.ERRORS[name][method]
    text = f"{error.mean:.5f}<small>± {error.sd:.5f}, {published.SPLITS} splits</small>"
    return td(text, error.mean, f"number published {MARK_CLASS[error.mark]}", MARK_WORD[error.mark])


def _size_cell(text: str) -> str:
    return td(escape(text) or "–", text.split(" ")[0].replace(",", "") or None, "number")


def _errors_table(summary: Summary) -> str:
    heads = columns(summary)
    head = [
        th("set", ""),
        *(th(f"paper: {m}", "number published") if is_published else th(m) for m, is_published in heads),
    ]
    head += [th("training rows"), th("test rows")]

    def line(s: str) -> list[str]:
        found = [
            _published_cell(s, m) if is_published else _error_cell(summary.cells[s, m], summary.marks.get((s, m), 0))
            for m, is_published in heads
        ]
        return [row_head(s), *found, *map(_size_cell, summary.sizes[s])]

    return table("Mean squared errors by set and method", head, map(line, summary.sets))


def _head(summary: Summary) -> str:
    runs = sum(cell.n for cell in summary.cells.values())
    lost = len(failures(summary))
    gaps = sum(len(cell.missing) for cell in summary.cells.values())
    sets = sum(any(summary.cells[s, m].n for m in summary.methods) for s in summary.sets)
    return (
        f'<p class="soft">{plural(len(summary.methods), "method")}, {plural(sets, "set")}, {plural(runs, "run")}; '
        f"{lost} failed, {gaps} missing. Mean squared error of the clipped prediction on the test rows, labels scaled "
        "to [-1, 1]; mean ± standard deviation over random splits.</p>"
    )


def _errors_section(summary: Summary) -> str:
    remarks = "".join(f"<li>{escape(note)}</li>" for note in notes(summary))
    rule = escape(MARKS_RULE.replace("Bold:", "①, bold:").replace("Italics:", "②, italics:"))
    return f"""<h2>Errors</h2>
<p class="controls"><label><input type="checkbox" id="published"> The paper's published numbers</label></p>
{_errors_table(summary)}
<p class="soft">{rule}</p><ul class="soft">{remarks}</ul>"""


def _figures_section() -> str:
    captions = {
        "relative": ("Relative errors", "The paper's Figure 2, left. Left of the line is better than the baseline."),
        "gains": ("Gain", "The paper's Figure 2, middle: on how many sets a method beats all others by more than x %."),
        "lags": ("Lag", "The paper's Figure 2, right: on how many sets a method is behind the best by more than x %."),
    }
    drawn = "".join(figure(key, title, text) for key, (title, text) in captions.items())
    return f"""<h2>Figures</h2>
<fieldset class="controls" id="choice">
<legend>Methods compared</legend></fieldset>
<div class="figures">{drawn}</div>"""


def _ranks_section(summary: Summary) -> str:
    rule = "1 is best. Bars at the right join methods that do not differ significantly."
    return f"""<h2>Average ranks</h2>{figure("ranks", "Critical differences", rule) if summary.ranks else ""}
<p>{escape(ranks_note(summary))}</p><p class="soft">{escape(RANKS_RULE)}</p>"""


def _seconds_section(summary: Summary) -> str:
    body = [times_row(m, summary.times[m]) for m in summary.methods]
    rule = (
        "A point per set; the bar is the median of all runs. Machines and threads are in the table; the paper's "
        "seconds are of its own machines."
    )
    return f"""<h2>Seconds</h2>{figure("seconds", "Seconds of training", rule)}
{plain_table("Seconds by method", TIMES_HEAD, body, numbers=(1, 2, 4))}"""


def _failures_section(summary: Summary) -> str:
    failed = [(s, m, str(split), why) for s, m, split, why in failures(summary)]
    gaps = missing_splits(summary)
    parts = ["<h2>Failed runs</h2>"]
    parts += [
        plain_table("Failed runs", ["set", "method", "split", "reason"], failed, (2,)) if failed else "<p>None.</p>"
    ]
    parts += ["<h2>Missing runs</h2>", '<p class="soft">Runs that some other method has on the same set and split.</p>']
    parts += [plain_table("Missing runs", MISSING_HEAD, gaps, (1,)) if gaps else "<p>None.</p>"]
    return "\n".join(parts)


def _versions_section(summary: Summary) -> str:
    names = list(dict.fromkeys(name for setup, _ in summary.setups for name in setup if name != "where"))
    body = [[setup["where"], str(n), *(setup.get(name, "–") for name in names)] for setup, n in summary.setups]
    return "<h2>Machines and versions</h2>" + plain_table("Machines, versions", ["where", "rows", *names], body, (1,))


def _cell_data(cell: Cell) -> dict[str, Any]:
    return {
        "mean": or_none(cell.mean),
        "sd": or_none(cell.sd),
        "n": cell.n,
        "failed": len(cell.failed),
        "missing": len(cell.missing),
        "seconds": fmean(cell.seconds.values()) if cell.seconds else None,
    }


def _data(summary: Summary) -> dict[str, Any]:
    """What the script draws."""
    found, ranks = looks(summary.methods), summary.ranks
    name, base = baseline(summary)
    times = {m: summary.times[m].seconds for m in summary.methods}
    return {
        "sets": summary.sets,
        "methods": [
            {"name": m, "shape": found[m].shape, "median": median(times[m]) if times[m] else None}
            for m in summary.methods
        ],
        "cells": [[_cell_data(summary.cells[s, m]) for m in summary.methods] for s in summary.sets],
        "baseline": {"name": name, "own": "SVM", "errors": [base.get(s) for s in summary.sets]},
        "ranks": ranks
        and {
            "methods": [summary.methods.index(m) for m in ranks.methods],
            "average": ranks.average,
            "cd": ranks.cd,
            "groups": ranks.groups,
            "sets": len(ranks.sets),
        },
    }


def page(rows: Iterable[ResultRow]) -> str:
    """The page as text.

    Examples
    --------
    >>> from hgk.bench.page import page
    >>> row = dict(set="<b>mine", split=0, method="RF", status="ok", mse=0.375, seconds=2.0)
    >>> text = page([row])
    >>> "<b>mine" in text, "&lt;b&gt;mine" in text
    (False, True)
    """
    summary = summarise(rows)
    body = "\n".join(
        [
            _head(summary),
            _errors_section(summary),
            _figures_section(),
            _ranks_section(summary),
            _seconds_section(summary),
            _failures_section(summary),
            _versions_section(summary),
        ]
    )
    found = looks(summary.methods)
    style = colours({f"m{i}": (look.light, look.dark) for i, look in enumerate(found.values())})
    own_style, script = (text_of(f"page.{kind}", "hgk.bench") for kind in ("css", "js"))
    title = "results of the experiment"
    return assemble(f"hgk: {title}", title.capitalize(), style + own_style, body, _data(summary), script)


def write_page(rows: Iterable[ResultRow], path: str | Path) -> Path:
    """Write :func:`page` to ``path``; its folder is made if it is not there, and a file there is replaced."""
    return write(page(rows), path)
