"""Recorded runs as tables in Markdown and LaTeX, the paper's published numbers beside ours.

A cell is mean ± standard deviation over splits and, in brackets, the number of splits, with failed and missing runs
where there are any. Bold is best, italics second best, by the rule of :mod:`hgk.bench.summary`; published columns carry
the marks the paper gave them. Every table states its rule and formulas underneath.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from hgk.bench import published
from hgk.bench.published import BEST_MARK, SECOND_MARK
from hgk.bench.summary import SPLITS_FOR_A_TEST, Cell, ResultRow, Summary, Times, plural, summarise

COLUMNS_OF_A_LATEX_TABLE = 4

MARKS_RULE = (
    "Bold: the smallest mean, and all that are not significantly worse (paired t-test over common splits, two-sided, "
    "5 %). Italics: if one is best alone, the smallest of the others, and all that are not significantly worse than "
    "that one. The paper's columns have the paper's marks (30 splits each)."
)
BRACKETS = "In brackets the number of splits."
RANKS_RULE = (
    "Friedman: χ² = (k - 1) N² Σ (R - (k + 1)/2)² / Σ (r - (k + 1)/2)² for N sets, k methods, ranks r, average ranks "
    "R. Nemenyi: two methods differ at 5 % if their average ranks differ by more than CD = q √(k (k + 1)/(6 N))."
)


def columns(summary: Summary) -> list[tuple[str, bool]]:
    """(name, whether published): each of our methods, its published twin beside it, then the other published ones."""
    columns: list[tuple[str, bool]] = []
    for method in summary.methods:
        columns.append((method, False))
        if method in published.TWIN:
            columns.append((published.TWIN[method], True))
    return columns + [(m, True) for m in published.METHODS if (m, True) not in columns]


def error_text(mean: float, sd: float) -> str:
    return f"{mean:.5f}" if math.isnan(sd) else f"{mean:.5f} ± {sd:.5f}"


def counts_text(cell: Cell) -> str:
    """Number of splits, then failed and missing runs if any."""
    parts = [str(cell.n)]
    parts += [f"{len(cell.failed)} failed"] if cell.failed else []
    parts += [f"{len(cell.missing)} missing"] if cell.missing else []
    return ", ".join(parts)


def p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def seconds_text(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}"


def notes(summary: Summary) -> list[str]:
    """What a reader must know of the rows behind the table: who is not in it, and what could not be used."""
    notes = []
    empty = [s for s in summary.sets if not any((s, m) in summary.marks for m in summary.methods)]
    if empty:
        notes.append(f"No result of ours for {', '.join(empty)}.")
    if summary.not_run:
        notes.append(f"Not run: {', '.join(summary.not_run)}.")
    if summary.untested:
        notes.append(
            f"On {', '.join(summary.untested)} some marks are by the means alone: methods with fewer than "
            f"{SPLITS_FOR_A_TEST} splits in common are not tested."
        )
    if summary.superseded:
        notes.append(f"{plural(summary.superseded, 'row')} superseded by a later one for the same run.")
    notes += [f"Damaged {line}." for line in summary.damaged]
    return notes


def ranks_note(summary: Summary) -> str:
    if summary.ranks is None:
        return "No ranks: they need two methods and two sets that both of them have."
    ranks = summary.ranks
    text = (
        f"{len(ranks.methods)} methods on {len(ranks.sets)} sets ({', '.join(ranks.sets)}); Friedman χ² = "
        f"{ranks.chi2:.2f}, p = {p_text(ranks.p)}; Nemenyi CD = {ranks.cd:.2f}."
    )
    left = ", ".join(f"{m} ({plural(n, 'set')})" for m, n in ranks.left_out.items())
    return text + (f" Left out, on fewer than half of the sets: {left}." if left else "")


def failures(summary: Summary) -> list[tuple[str, str, int, str]]:
    """(set, method, split, reason) of every failed run."""
    return [(s, m, split, why) for (s, m), cell in summary.cells.items() for split, why in cell.failed.items()]


def missing_splits(summary: Summary) -> list[tuple[str, str, str]]:
    """(method, number, splits and their sets) of runs that other methods have."""
    lacking = []
    for m in summary.methods:
        by_splits: dict[tuple[int, ...], list[str]] = {}
        for s in summary.sets:
            by_splits.setdefault(summary.cells[s, m].missing, []).append(s)
        parts = [f"{', '.join(map(str, splits))} of {', '.join(sets)}" for splits, sets in by_splits.items() if splits]
        if parts:
            number = sum(len(splits) * len(sets) for splits, sets in by_splits.items())
            lacking.append((m, str(number), "; ".join(parts)))
    return lacking


def times_row(method: str, times: Times) -> list[str]:
    """Method, runs, median, smallest and largest seconds, median of the prediction, published seconds, where."""
    middle = seconds_text(median(times.seconds)) if times.seconds else "–"
    span = f"{seconds_text(min(times.seconds))} to {seconds_text(max(times.seconds))}" if times.seconds else "–"
    predict = seconds_text(median(times.predict)) if times.predict else "–"
    return [method, str(len(times.seconds)), middle, span, predict, published_seconds(method), "; ".join(times.where)]


MISSING_HEAD = ["method", "runs", "splits"]
TIMES_HEAD = ["method", "runs", "median s", "from, to", "predict, median s", "paper, s", "where"]


def published_seconds(method: str) -> str:
    if method not in published.TWIN:
        return ""
    low, high = published.SECONDS[published.TWIN[method]]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


_MARKDOWN = str.maketrans(
    {sign: f"\\{sign}" for sign in "\\`*_[]|#~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"},
)


def _markdown(text: object) -> str:
    """Text that a Markdown table shows as it is."""
    return " ".join(str(text).split()).translate(_MARKDOWN)


def _markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body)]


def _markdown_cell(summary: Summary, name: str, method: str, is_published: bool) -> str:
    sign = {BEST_MARK: "**", SECOND_MARK: "*"}
    if is_published:
        if name not in published.ERRORS:
            return "–"
        error = published.ERRORS[name][method]
        emphasis = sign.get(error.mark, "")
        return f"{emphasis}{error_text(error.mean, error.sd)}{emphasis}"
    cell = summary.cells[name, method]
    emphasis = sign.get(summary.marks.get((name, method), 0), "")
    return f"{emphasis}{error_text(cell.mean, cell.sd)}{emphasis} ({counts_text(cell)})" if cell.n else _empty(cell)


def _empty(cell: Cell) -> str:
    return f"– ({counts_text(cell)})" if cell.failed or cell.missing else "–"


def _markdown_ranks(summary: Summary) -> list[str]:
    lines = ["## Average ranks", ""]
    if summary.ranks:
        pairs = zip(summary.ranks.methods, summary.ranks.average, strict=True)
        body = [[_markdown(m), f"{rank:.2f}"] for m, rank in pairs]
        groups = [", ".join(summary.ranks.methods[a : b + 1]) for a, b in summary.ranks.groups]
        joined = "; ".join(f"{{{group}}}" for group in groups) or "none"
        lines += [*_markdown_table(["method", "average rank"], body), "", _markdown(f"Not different: {joined}."), ""]
    return [*lines, _markdown(ranks_note(summary)), "", _markdown(RANKS_RULE), ""]


def _markdown_failures(summary: Summary) -> list[str]:
    lines: list[str] = []
    if failed := failures(summary):
        body = [[_markdown(s), _markdown(m), str(split), _markdown(why)] for s, m, split, why in failed]
        lines += ["## Failed runs", "", *_markdown_table(["set", "method", "split", "reason"], body), ""]
    if gaps := missing_splits(summary):
        body = [[_markdown(x) for x in gap] for gap in gaps]
        lines += ["## Missing runs", "", *_markdown_table(MISSING_HEAD, body), ""]
    return lines


def table_markdown(rows: Iterable[ResultRow]) -> str:
    """The experiment in Markdown: errors, ranks, seconds, failed and missing runs.

    Examples
    --------
    >>> from hgk.bench.tables import table_markdown
    >>> row = dict(set="magic", split=0, method="RF", status="ok", mse=0.375, seconds=2.0)
    >>> [line for line in table_markdown([row]).splitlines() if line.startswith("| magic")][0][:45]
    '| magic | **0.37500** (1) | **0.37719 ± 0.007'
    """
    summary = summarise(rows)
    heads = columns(summary)
    head = ["set", *(_markdown(f"paper: {m}" if is_published else m) for m, is_published in heads)]
    body = [[_markdown(s), *(_markdown_cell(summary, s, m, p) for m, p in heads)] for s in summary.sets]
    times = [[_markdown(x) for x in times_row(m, summary.times[m])] for m in summary.methods]
    lines = [
        *_markdown_table(head, body),
        "",
        f"{MARKS_RULE} {BRACKETS}",
        "",
        *(f"- {_markdown(note)}" for note in notes(summary)),
        "",
        *_markdown_ranks(summary),
        *["## Seconds", "", *_markdown_table(TIMES_HEAD, times), ""],
        *_markdown_failures(summary),
    ]
    return "\n".join(lines).rstrip() + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "±": r"$\pm$",
    "χ": r"$\chi$",
    "²": r"$^2$",
    "Σ": r"$\Sigma$",
    "√": r"$\surd$",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
} | {sign: "\\" + sign for sign in "#$%&_"}


def _latex(text: object) -> str:
    """Text that LaTeX sets as it is; what plain LaTeX has no letter for becomes a question mark."""
    text = "".join(_LATEX.get(sign, sign) for sign in " ".join(str(text).split()))
    return text.encode("latin-1", "replace").decode("latin-1")


def _latex_emphasis(text: str, mark: int) -> str:
    return {BEST_MARK: rf"\textbf{{{text}}}", SECOND_MARK: rf"\textit{{{text}}}"}.get(mark, text)


def _latex_number(x: float) -> str:
    """As the paper prints it: five digits, no zero before the point."""
    return f"{x:.5f}".removeprefix("0")


def _latex_error(mean: float, sd: float, mark: int) -> str:
    spread = "" if math.isnan(sd) else rf"$\pm${_latex_number(sd)}"
    return _latex_emphasis(_latex_number(mean), mark) + spread


def _latex_cell(summary: Summary, name: str, method: str, is_published: bool) -> str:
    if is_published:
        if name not in published.ERRORS:
            return "--"
        error = published.ERRORS[name][method]
        return _latex_error(error.mean, error.sd, error.mark)
    cell = summary.cells[name, method]
    expected = cell.n + len(cell.failed) + len(cell.missing)
    counts = f" ({cell.n})" if cell.n == expected else f" ({cell.n}/{expected})"
    error_or_dash = _latex_error(cell.mean, cell.sd, summary.marks.get((name, method), 0)) if cell.n else "--"
    return error_or_dash + (counts if expected else "")


def _latex_rank(summary: Summary, method: str, is_published: bool) -> str:
    if summary.ranks is None or is_published or method not in summary.ranks.methods:
        return "--"
    return f"{summary.ranks.average[summary.ranks.methods.index(method)]:.2f}"


def _latex_tabular(summary: Summary, heads: Sequence[tuple[str, bool]]) -> list[str]:
    names = [_latex(f"paper: {m}" if is_published else m) for m, is_published in heads]
    body = [[_latex(s), *(_latex_cell(summary, s, m, p) for m, p in heads)] for s in summary.sets]
    body += [["average rank", *(_latex_rank(summary, m, p) for m, p in heads)]]
    lines = [" & ".join(line) + r" \\" for line in (["set", *names], *body)]
    ruled = [r"\hline", lines[0], r"\hline", *lines[1:-1], r"\hline", lines[-1], r"\hline"]
    return [rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", *ruled, r"\end{tabular}"]


def table_latex(rows: Iterable[ResultRow]) -> str:
    """The table of errors in LaTeX, without packages: one ``table`` for every few methods.

    Examples
    --------
    >>> from hgk.bench.tables import table_latex
    >>> row = dict(set="magic", split=0, method="RF", status="ok", mse=0.375, seconds=2.0)
    >>> [line for line in table_latex([row]).splitlines() if line.startswith("magic")][0][:27]
    'magic & \\\\textbf{.37500} (1)'
    """
    summary = summarise(rows)
    heads = columns(summary)
    blocks = [heads[i : i + COLUMNS_OF_A_LATEX_TABLE] for i in range(0, len(heads), COLUMNS_OF_A_LATEX_TABLE)]
    gaps = sum(len(cell.missing) for cell in summary.cells.values())
    lost = f"{plural(len(failures(summary)), 'run')} failed, {plural(gaps, 'run')} missing."
    brackets = f"{BRACKETS[:-1]}, or of those that ran among those there should be; {lost}"
    full = " ".join([MARKS_RULE, brackets, ranks_note(summary), *notes(summary)])
    lines: list[str] = []
    for i, block in enumerate(blocks):
        caption = _latex(full if i == 0 else "Continued.")
        # In narrow pages a table may be somewhat wider than the text: it stays centred.
        lines += [r"\begin{table}", r"\scriptsize\setlength{\tabcolsep}{2pt}\makebox[\linewidth][c]{%"]
        lines += [*_latex_tabular(summary, block), rf"}}\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"
