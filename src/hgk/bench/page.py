"""Recorded runs as one HTML page that needs nothing else: no server, no network, light and dark, printable.

The tables are plain HTML written here; figures and sorting are the script of ``page.html``, which gets the numbers as
JSON. All text from rows passes :func:`html.escape`, or is JSON in which <, > and & are written as \\u003c and so on;
the script sets text, never markup. A content security policy in the page forbids every request.
"""

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hgk.bench import published
from hgk.bench.palette import looks
from hgk.bench.published import BEST, SECOND
from hgk.bench.summary import Cell, Row, Summary, baseline, plural, summarise
from hgk.bench.tables import (
    MARKS_RULE,
    MISSING_HEAD,
    RANKS_RULE,
    TIMES_HEAD,
    columns,
    failures,
    missing,
    notes,
    ranks_note,
    times_row,
)

MARK_CLASS = {BEST: "best", SECOND: "second", 0: ""}
MARK_WORD = {BEST: "best", SECOND: "second best", 0: ""}


def _td(text: str, value: object = None, kind: str = "", title: str = "") -> str:
    """A cell; ``text`` is HTML, ``value`` is what it is sorted by."""
    extra = f' title="{escape(title)}"' if title else ""
    sort = "" if value is None else f' data-value="{escape(str(value))}"'
    return f'<td class="{kind}"{sort}{extra}>{text}</td>'


def _th(name: str, kind: str = "number") -> str:
    is_text = "" if kind.startswith("number") else ' data-kind="text"'
    return f'<th scope="col" class="{kind}"{is_text}><button type="button">{escape(name)}</button></th>'


def _row_head(name: str) -> str:
    return f'<th scope="row" data-value="{escape(name)}">{escape(name)}</th>'


def _table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in body)
    name = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table aria-label="{name}">'
        f"<thead><tr>{''.join(head)}</tr></thead><tbody>\n{lines}\n</tbody></table></div>"
    )


def _error_cell(cell: Cell, mark: int) -> str:
    lost = [f"{len(cell.failed)} failed"] * bool(cell.failed) + [f"{len(cell.missing)} missing"] * bool(cell.missing)
    bad = f'<small class="bad">{", ".join(lost)}</small>' if lost else ""
    if not cell.n:
        return _td(f"–{bad}", kind="number")
    spread = f"± {cell.sd:.5f}, " if cell.n > 1 else ""
    text = f"{cell.mean:.5f}<small>{spread}{plural(cell.n, 'split')}</small>{bad}"
    return _td(text, cell.mean, f"number {MARK_CLASS[mark]}", MARK_WORD[mark])


def _published_cell(name: str, method: str) -> str:
    if name not in published.ERRORS:
        return _td("–", kind="number published")
    error = published.ERRORS[name][method]
    text = f"{error.mean:.5f}<small>± {error.sd:.5f}, {published.SPLITS} splits</small>"
    return _td(text, error.mean, f"number published {MARK_CLASS[error.mark]}", MARK_WORD[error.mark])


def _size_cell(text: str) -> str:
    return _td(escape(text) or "–", text.split(" ")[0].replace(",", "") or None, "number")


def _errors_table(summary: Summary) -> str:
    heads = columns(summary)
    head = [
        _th("set", ""),
        *(_th(f"paper: {m}", "number published") if is_published else _th(m) for m, is_published in heads),
    ]
    head += [_th("training rows"), _th("test rows")]

    def line(s: str) -> list[str]:
        found = [
            _published_cell(s, m) if is_published else _error_cell(summary.cells[s, m], summary.marks.get((s, m), 0))
            for m, is_published in heads
        ]
        return [_row_head(s), *found, *map(_size_cell, summary.sizes[s])]

    return _table("Mean squared errors by set and method", head, map(line, summary.sets))


def _plain_table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of text; the columns in ``numbers`` are sorted and aligned as numbers."""
    names = [_th(name, "number" if i in numbers else "") for i, name in enumerate(head)]

    def cell(i: int, text: str) -> str:
        if i == 0:
            return _row_head(text)
        value = text.replace(",", "").replace("–", "") if i in numbers else text
        return _td(escape(text), value or None, "number" if i in numbers else "wrap" if len(text) > 30 else "line")

    return _table(caption, names, [[cell(i, text) for i, text in enumerate(line)] for line in body])


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
    drawn = "".join(
        f'<figure id="{key}"><h3>{title}</h3><figcaption>{text}</figcaption></figure>'
        for key, (title, text) in captions.items()
    )
    return f"""<h2>Figures</h2>
<fieldset class="controls" id="choice">
<legend>Methods compared</legend></fieldset>
<div class="figures">{drawn}</div>"""


def _ranks_section(summary: Summary) -> str:
    figure = """<figure id="ranks"><h3>Critical differences</h3>
<figcaption>1 is best. Bars at the right join methods that do not differ significantly.</figcaption></figure>"""
    return f"""<h2>Average ranks</h2>{figure if summary.ranks else ""}
<p>{escape(ranks_note(summary))}</p><p class="soft">{escape(RANKS_RULE)}</p>"""


def _seconds_section(summary: Summary) -> str:
    body = [times_row(m, summary.times[m]) for m in summary.methods]
    return f"""<h2>Seconds</h2><figure id="seconds"><h3>Seconds of training</h3>
<figcaption>A point per set; the bar is the median of all runs. Machines and threads are in the table; the paper's
seconds are of its own machines.</figcaption></figure>
{_plain_table("Seconds by method", TIMES_HEAD, body, numbers=(1, 2, 4))}"""


def _failures_section(summary: Summary) -> str:
    failed = [(s, m, str(split), why) for s, m, split, why in failures(summary)]
    gaps = missing(summary)
    parts = ["<h2>Failed runs</h2>"]
    parts += [
        _plain_table("Failed runs", ["set", "method", "split", "reason"], failed, (2,)) if failed else "<p>None.</p>"
    ]
    parts += ["<h2>Missing runs</h2>", '<p class="soft">Runs that some other method has on the same set and split.</p>']
    parts += [_plain_table("Missing runs", MISSING_HEAD, gaps, (1,)) if gaps else "<p>None.</p>"]
    return "\n".join(parts)


def _versions_section(summary: Summary) -> str:
    names = list(dict.fromkeys(name for setup, _ in summary.setups for name in setup if name != "where"))
    body = [[setup["where"], str(n), *(setup.get(name, "–") for name in names)] for setup, n in summary.setups]
    return "<h2>Machines and versions</h2>" + _plain_table("Machines, versions", ["where", "rows", *names], body, (1,))


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _or_none(x: float) -> float | None:
    return None if math.isnan(x) else x


def _cell_data(cell: Cell) -> dict[str, Any]:
    return {
        "mean": _or_none(cell.mean),
        "sd": _or_none(cell.sd),
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


def _looks_css(methods: Sequence[str]) -> str:
    found = list(looks(methods).values())
    light = " ".join(f".m{i} {{ --c: {look.light}; }}" for i, look in enumerate(found))
    dark = " ".join(f".m{i} {{ --c: {look.dark}; }}" for i, look in enumerate(found))
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}"


def page(rows: Iterable[Row]) -> str:
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
    template = files("hgk.bench").joinpath("page.html").read_text(encoding="utf-8")
    start, rest = template.split("/* LOOKS */")
    middle, rest = rest.split("<!-- BODY -->")
    before, end = rest.split("/* DATA */")
    return "".join([start, _looks_css(summary.methods), middle, body, before, _json(_data(summary)), end])


def write_page(rows: Iterable[Row], path: str | Path) -> Path:
    """Write :func:`page` to ``path``; its folder is made if it is not there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(rows), encoding="utf-8", errors="replace")
    return path
