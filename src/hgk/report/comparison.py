"""hgk compared with other methods as one HTML page."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from hgk.insight.comparison import Comparison, MethodScores
from hgk.report.palette import GREY, OURS_COLOUR
from hgk.report.values import cut_name, or_dash, plain
from hgk.report.web import assemble, colours, figure, or_none, plain_table, text_of, write


def write_comparison(comparison: Comparison, path: str | Path, title: str | None = None) -> Path:
    """Write a page about methods compared by :func:`hgk.insight.compare`.

    Parameters
    ----------
    comparison : Comparison
    path : str or Path
        The file to write; its folder is made if it is not there, and a file that is there is replaced.
    title : str, optional
        The heading.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk.insight import compare
    >>> from hgk.report import write_comparison
    >>> told = compare(*make_friedman1(60, random_state=0), methods=["plain SVM", "random forest"], folds=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_comparison(told, f"{folder}/compare.html", title="Friedman")
    ...     "random forest" in path.read_text(encoding="utf-8")
    True
    """
    name = title or f"hgk compared with other methods on {comparison.rows:,} rows"
    about = {"task": comparison.task, "judged": "test", "columns": [], "outputs": []}
    data = {"about": about, "methods": _drawn(comparison)}
    style = colours({"ours": OURS_COLOUR, "grey": GREY}) + text_of("report.css")
    script = text_of("comparison.js", "hgk.report")
    script = f'{text_of("report.js")}\n{script}\nstart([["methods", drawMethods, "methods"]]);\n'
    return write(assemble(name, name, style, _html(comparison), data, script), path)


def _drawn(comparison: Comparison) -> dict:
    methods = [
        {
            "name": cut_name(r.name),
            "mean": r.mean,
            "error": r.standard_error,
            "scores": r.scores,
            "seconds": float(np.mean(r.seconds)) if r.seconds else None,
        }
        for r in comparison.results
    ]
    return plain({"methods": methods, "words": comparison.metric_words})


def _html(comparison: Comparison) -> str:
    def line(r: MethodScores) -> list[str]:
        seconds = f"{np.mean(r.seconds):.3g}" if r.seconds else "–"
        score, error = or_dash(or_none(r.mean), ".4g"), or_dash(or_none(r.standard_error), ".2g")
        return [cut_name(r.name), score, error, seconds, r.failed or r.label]

    head = ["method", comparison.metric_words, "standard error", "seconds a fold", "about"]
    left = f", {comparison.without_label} rows without a label left out" if comparison.without_label else ""
    about = (
        f"{comparison.rows:,} rows, {comparison.folds} folds{left}; the same folds for all methods. "
        "The standard error is that of the mean over the folds; whether methods differ is judged by their differences "
        "on each fold, with allowance for the rows that folds share (Nadeau and Bengio, 2003). Boosting chooses its "
        "number of trees by early stopping; nothing else was tuned, of no method. Categories are given as such to all "
        "but the forest, which orders them; missing cells as missing."
    )
    remarks = "".join(f'<p class="soft">{escape(remark)}</p>' for remark in comparison.remarks)
    caption = "Diamonds are means, lines two standard errors to either side, dots single folds."
    drawn = figure("methods", "Scores", caption) if any(np.isfinite(r.mean) for r in comparison.results) else ""
    table = plain_table("Methods", head, map(line, comparison.results), (1, 2, 3))
    return f'<p class="lead">{escape(comparison.sentence)}</p>{remarks}{drawn}<p></p>{table}<p class="soft">{about}</p>'
