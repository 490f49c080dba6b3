"""A fitted model as one HTML page that needs nothing else: no server, no network, light and dark, printable.

    write_report(model, "report.html")

A page is a list of sections (:mod:`hgk.report.sections`), each with its HTML, its numbers as JSON and the script that
draws them. The numbers are those of :mod:`hgk.insight`. Errors, residuals, calibration and coverage rest on rows set
aside or on leave-one-out values, never on rows the function was trained with. How a page is kept harmless is said in
:mod:`hgk.report.web`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from hgk.insight import Assessment, evaluate, new_rows
from hgk.insight.fitted import Estimator, require_model
from hgk.report.palette import FOREST_COLOUR, GREY, OURS_COLOUR, SERIES, SVM_COLOUR
from hgk.report.sections import SHARED, EvaluationSection, Section, Subject, registered
from hgk.report.web import as_json, assemble, colours, text_of, write


def write_report(model: Estimator, path: str | Path, X: Any = None, y: Any = None, title: str | None = None) -> Path:
    """Write a page about a fitted model.

    Parameters
    ----------
    model : HGKRegressor or HGKClassifier
        Fitted. The page is about the rows it was trained on, which it holds.
    path : str or Path
        The file to write; its folder is made if it is not there, and a file that is there is replaced.
    X, y : table and labels, optional
        Rows that the fit has not seen, such as a test set; the errors on them are shown, too. Training rows among
        them are recognised and left out.
    title : str, optional
        The heading.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report import write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HGKClassifier("plain").fit(X[::3], y[::3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(model, f"{folder}/iris.html", X[1::3], y[1::3], title="Irises")
    ...     "<h1>Irises</h1>" in path.read_text(encoding="utf-8")
    True
    """
    return write(report(model, X, y, title), path)


def report(model: Estimator, X: Any = None, y: Any = None, title: str | None = None) -> str:
    """The page as text; see :func:`write_report`."""
    require_model(model)
    training = model.model_.need_training("A report needs")
    if (X is None) != (y is None):
        raise ValueError("Of X and y one was given; rows that the fit has not seen need both.")
    subject = Subject(model) if X is None else Subject(model, new_rows(model, X, y), evaluate(model, X, y))
    sections = [section(subject) for section in registered() if section.applies(subject)]
    rows, columns = len(training.place), len(subject.columns)
    name = title or f"{type(model).__name__} on {rows:,} rows and {columns:,} columns"
    return assemble(name, name, _style(sections), _body(sections), _data(subject, sections), _script(sections))


def write_evaluation(evaluation: Assessment, path: str | Path, title: str | None = None) -> Path:
    """Write a page about the scores of a model on test rows, as :func:`hgk.insight.evaluate` returns them.

    Parameters
    ----------
    evaluation : Assessment
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
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.insight import evaluate
    >>> from hgk.report import write_evaluation
    >>> X, y = load_iris(return_X_y=True)
    >>> told = evaluate(HGKClassifier("plain").fit(X[::3], y[::3]), X[1::3], y[1::3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_evaluation(told, f"{folder}/test.html", title="Irises")
    ...     "log-loss" in path.read_text(encoding="utf-8")
    True
    """
    section = EvaluationSection(_Told(evaluation))  # type: ignore[arg-type]
    name = title or f"{evaluation.rows:,} test rows"
    about = {"task": evaluation.task, "judged": "test", "columns": [], "outputs": []}
    data = {SHARED: about, section.key: section.data}
    return write(assemble(name, name, _style([section]), section.html(), data, _script([section])), path)


@dataclass(frozen=True)
class _Told:
    """What a page of scores alone is about."""

    evaluation: Assessment


def _data(subject: Subject, sections: Sequence[Section]) -> dict[str, Any]:
    """What the scripts draw, as plain numbers and text."""
    about = {
        "task": "classification" if subject.classes else "regression",
        "judged": subject.judged,
        "columns": subject.columns,
        "outputs": subject.outputs,
    }
    return {SHARED: about, **{section.key: section.data for section in sections if section.data is not None}}


def _body(sections: Sequence[Section]) -> str:
    lead = " ".join(filter(None, (section.lead() for section in sections)))
    links = "".join(f'<li><a href="#part-{s.key}">{escape(s.title)}</a></li>' for s in sections)
    parts = "".join(f'<section id="part-{s.key}"><h2>{escape(s.title)}</h2>\n{s.html()}</section>\n' for s in sections)
    return f'<p class="lead">{escape(lead)}</p><nav aria-label="Parts"><ul>{links}</ul></nav>\n{parts}'


def _style(sections: Sequence[Section]) -> str:
    looks = {"ours": OURS_COLOUR, "svm": SVM_COLOUR, "forest": FOREST_COLOUR, "grey": GREY}
    looks |= {f"k{i}": colour for i, colour in enumerate(SERIES)}
    return colours(looks) + "".join(section.style() for section in sections) + text_of("report.css")


def _script(sections: Sequence[Section]) -> str:
    """What scripts share, the sections' own, and who draws which figure from which data."""
    figures = ", ".join(
        f"[{as_json(figure)}, {function}, {as_json(section.key)}]"
        for section in sections
        for figure, function in section.draws
    )
    scripts = "\n".join(dict.fromkeys(section.script for section in sections))
    return f"{text_of('report.js')}\n{scripts}\nstart([{figures}]);\n"
