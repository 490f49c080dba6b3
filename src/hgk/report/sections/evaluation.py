"""Scores on test rows, compared with what the fit had promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from hgk.insight.evaluation import Assessment
from hgk.insight.measures import Measure, calibration_bins, told_and_right
from hgk.report.sections.base import Section, choice, script_of
from hgk.report.values import cut_name, or_dash, plain, rounded
from hgk.report.web import figure, or_none, plain_table

# What is shown at most: points, classes, points of a ROC curve, rows with the largest errors.
POINTS, MOST_CURVES, ROC_POINTS, LISTED = 1000, 20, 200, 12


class EvaluationSection(Section):
    """Scores of rows that were given for a test, what was promised, and the rows with the largest errors."""

    title, key = "Test rows", "evaluation"
    draws = (
        ("test-scatter", "drawTestScatter"),
        ("test-residuals", "drawTestResiduals"),
        ("test-calibration", "drawTestCalibration"),
        ("test-roc", "drawTestRoc"),
        ("test-levels", "drawTestLevels"),
    )
    script = script_of("evaluation")

    @classmethod
    def applies(cls, subject) -> bool:
        return subject.evaluation is not None

    @property
    def told(self) -> Assessment:
        assert self.subject.evaluation is not None
        return self.subject.evaluation

    def compute(self):
        return {"regression": _points, "quantiles": _levels, "classification": _curves}[self.told.task](self.told)

    def lead(self) -> str:
        return self.told.sentence

    def html(self) -> str:
        remarks = "".join(f'<p class="soft">{escape(remark)}</p>' for remark in self.told.remarks)
        drawn, names = self._figures(), [output["name"] for output in self.data.get("outputs", [])]
        chosen = choice("test-output", "Output", dict(zip(map(str, range(len(names))), names, strict=True)))
        chosen = f'<div class="controls">{chosen}</div>' if len(names) > 1 else ""
        return (
            f"<p>{escape(self.told.sentence)}</p>{remarks}{scores_table(self.told)}"
            f'<p></p>{chosen}<div class="figures">{drawn}</div>{_confusion(self.told)}{_worst(self.told)}'
        )

    def _figures(self) -> str:
        if self.told.task == "regression":
            drawn = figure("test-scatter", "Test predictions", f"At most {POINTS:,} of the test rows.")
            return drawn + figure("test-residuals", "Test residuals", "Label − prediction, by prediction.")
        if self.told.task == "quantiles":
            caption = "Share of labels below each quantile, by its level; lines are two standard errors."
            return figure("test-levels", "Levels", caption)
        drawn = figure(
            "test-calibration", "Test calibration", "Probabilities against frequencies, in bins of equal size."
        )
        if self.data["roc"]:
            drawn += figure("test-roc", "Test ROC curves", "Of one class against the others; with the area under it.")
        return drawn


def scores_table(told: Assessment) -> str:
    """One line for each score: its value, its standard error, and what was promised."""

    def line(m: Measure) -> list[str]:
        said = [cut_name(told.words(m)), or_dash(or_none(m.value), ".4g"), or_dash(m.error, ".2g")]
        p = told.promised
        return said + (
            [f"{p.value:.4g}", p.basis] if p is not None and (m.name, m.output) == (p.name, "") else ["–", "–"]
        )

    head = ["score", "value", "standard error", "promised", "by"]
    return plain_table("Scores", head, map(line, told.measures), (1, 2, 3))


def _confusion(told: Assessment) -> str:
    if told.confusion is None or len(told.classes) > MOST_CURVES:
        return ""
    names = [cut_name(name) for name in told.classes]
    known = names[: told.confusion.shape[1]]
    body = [[name, *(f"{v:g}" for v in counts)] for name, counts in zip(names, told.confusion, strict=True)]
    table = plain_table("Test confusion", ["class", *(f"predicted {n}" for n in known)], body, range(1, len(known) + 1))
    return f"<h3>Test rows by class</h3>{table}"


def _worst(told: Assessment) -> str:
    about = "The test rows with the largest errors, counted from 0 in the order in which they were given."
    head, body, numbers = _worst_classes(told) if told.task == "classification" else _worst_numbers(told)
    return f'<h3>Worst test rows</h3><p class="soft">{about}</p>{plain_table("Worst test rows", head, body, numbers)}'


def _worst_classes(told: Assessment) -> tuple[list[str], list[list[str]], Sequence[int]]:
    assert told.probability is not None
    truth = told.y[:, 0]
    of_truth = np.where(truth >= 0, told.probability[np.arange(len(truth)), np.maximum(truth, 0)], 0.0)
    names = [cut_name(name) for name in told.classes]

    def line(i: int) -> list[str]:
        own = names[truth[i]] if truth[i] >= 0 else "unknown"
        return [str(told.place[i]), own, names[told.predicted[i, 0]], f"{of_truth[i]:.4f}"]

    rows = np.argsort(of_truth, kind="stable")[:LISTED]
    return ["row", "class", "predicted", "probability of its class"], [line(i) for i in rows], (0, 3)


def _worst_numbers(told: Assessment) -> tuple[list[str], list[list[str]], Sequence[int]]:
    middle = told.predicted if told.task == "regression" else _middle(told)
    r = told.y - middle
    rows = np.argsort(-(r**2).sum(1), kind="stable")[:LISTED]
    names = [cut_name(m.output) for m in told.measures if m.name == "rmse"] or [""]
    head = ["row", *(f"{what} {name}".strip() for name in names for what in ("label", "predicted", "residual"))]
    cells = np.stack([told.y, middle, r], -1).reshape(len(r), -1)
    return head, [[str(told.place[i]), *(f"{v:.6g}" for v in cells[i])] for i in rows], range(len(head))


def _middle(told: Assessment) -> np.ndarray:
    """The quantile in the middle of the levels."""
    return told.predicted[:, [told.predicted.shape[1] // 2]]


# -------------------------------------------------------------------------------------------------------- figures


def _points(told: Assessment) -> dict[str, Any]:
    sample = np.sort(np.random.default_rng(0).permutation(told.rows)[:POINTS])
    names = [m.output for m in told.measures if m.name == "rmse"]
    outputs = [
        dict(zip(("actual", "predicted"), rounded([y[sample], t[sample]]), strict=True)) | {"name": cut_name(name)}
        for y, t, name in zip(told.y.T, told.predicted.T, names, strict=True)
    ]
    return {"rows": told.place[sample].tolist(), "outputs": outputs}


def _levels(told: Assessment) -> dict[str, Any]:
    below = [m for m in told.measures if m.name == "below"]
    levels = [float(m.output.removeprefix("quantile ")) for m in below]
    return plain({"levels": levels, "below": [m.value for m in below], "errors": [m.error or 0.0 for m in below]})


def _curves(told: Assessment) -> dict[str, Any]:
    assert told.probability is not None
    truth, names = told.y[:, 0], [cut_name(name) for name in told.classes]
    known = truth >= 0
    truth, p = truth[known], told.probability[known]
    roc = []
    for k in [1] if p.shape[1] == 2 else range(min(MOST_CURVES, p.shape[1])):
        if 0 < (truth == k).sum() < len(truth):
            fpr, tpr, _ = roc_curve(truth == k, p[:, k])
            kept = np.unique(np.linspace(0, len(fpr) - 1, ROC_POINTS).astype(int))
            area = float(np.trapezoid(tpr, fpr))
            roc.append({"name": names[k], "auc": area, "fpr": rounded(fpr[kept]), "tpr": rounded(tpr[kept])})
    return {"roc": roc, "calibration": _bins(truth, p, names)}


def _bins(truth: np.ndarray, p: np.ndarray, names: list[str]) -> dict[str, Any]:
    (told, right), parts = told_and_right(truth, p), calibration_bins(truth, p)
    two = p.shape[1] == 2
    label = f"predicted probability of {names[1]}" if two else "probability of the predicted class"
    against = f"share of {names[1]}" if two else "share of right predictions"
    errors = [math.sqrt(right[part].mean() * (1 - right[part].mean()) / len(part)) for part in parts]
    mean, share = ([v[part].mean() for part in parts] for v in (told, right))
    counts = [len(part) for part in parts]
    return plain(
        {"predicted": mean, "observed": share, "errors": errors, "rows": counts, "label": label, "against": against}
    )
