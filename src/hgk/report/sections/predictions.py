"""Predictions of training rows by functions that have not seen them."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from hgk.insight.coverage import has_intervals, interval_coverage
from hgk.insight.errors import class_numbers
from hgk.insight.fitted import left_out
from hgk.report.sections.base import Section, Subject, script_of
from hgk.report.values import cut_name, plain, rounded
from hgk.report.web import figure, plain_table
from hgk.targets import label_bounds

# What is shown at most: rows of the scatter plot, classes, points of a ROC curve; bins of equally many rows.
SCATTER_ROWS, CLASSES, CURVE, BINS = 1000, 20, 200, 10


class PredictionsSection(Section):
    """Residuals and intervals of numbers; calibration, ROC curves and confusion of classes."""

    title, key = "Predictions", "predictions"
    draws = (
        ("scatter", "drawScatter"),
        ("residuals", "drawResiduals"),
        ("coverage", "drawCoverage"),
        ("parts", "drawParts"),
        ("calibration", "drawCalibration"),
        ("roc", "drawRoc"),
    )
    script = script_of("predictions")

    def compute(self):
        if self.subject.classes:
            return {"roc": _roc(self.subject), "calibration": _calibration(self.subject)}
        estimator, new = self.subject.estimator, self.subject.new
        coverage = plain(asdict(interval_coverage(estimator, new))) if has_intervals(estimator) else None
        return {**_residuals(self.subject), "coverage": coverage}

    def html(self) -> str:
        judged = self.subject.judged.capitalize()
        if self.subject.classes:
            caption = f"{judged} probabilities against observed frequencies, in ten bins of equal size."
            drawn = figure("calibration", "Calibration", caption)
            caption = f"{judged} probabilities of one class against the others; with the area under the curve."
            drawn += figure("roc", "ROC curves", caption)
            return f'<div class="figures">{drawn}</div>{self._confusion()}'
        drawn = figure("scatter", "Predictions", f"{judged} predictions; at most {SCATTER_ROWS:,} rows.")
        drawn += figure("residuals", "Residuals", f"Residuals of {self.subject.judged} predictions; all rows.")
        return f'<div class="figures">{drawn}</div>{self._intervals()}'

    def _confusion(self) -> str:
        names = [cut_name(str(label)) for label in self.subject.estimator.classes_]
        if len(names) > CLASSES:
            return ""
        rows, k = self.subject.training.rows, len(names)
        cells = class_numbers(rows.Y.numpy()) * k + class_numbers(left_out(self.subject.estimator).numpy())
        counts = np.bincount(cells, weights=rows.weight.numpy(), minlength=k * k).reshape(k, k)
        body = [[name, *(f"{v:g}" for v in line)] for name, line in zip(names, counts, strict=True)]
        table = plain_table("Confusion", ["class", *(f"predicted {n}" for n in names)], body, tuple(range(1, k + 1)))
        return f"<h3>{self.subject.judged.capitalize()} predictions by class</h3>{table}"

    def _intervals(self) -> str:
        covered = self.data["coverage"]
        if covered is None:  # another loss than least squares
            return ""
        first = " They are of the first output." if len(self.subject.outputs) > 1 else ""
        width = (
            "Their width follows a second machine on the size of residuals"
            if covered["spread"]
            else "A machine on the size of residuals was not clearly better than a constant"
        )
        known = label_bounds(self.subject.model.target, self.subject.training.rows)[:1]
        bounds = f" The labels are taken to be {known[0].words}." if any(known) else ""
        about = (
            f"Intervals (predict_interval) for {covered['rows']} training rows, each from all other rows.{first} "
            f"{width}.{bounds} Over all training rows they reach the requested coverage almost by construction; the "
            "fifths show whether they do where predictions are small or large, and where they are narrow or wide."
        )
        drawn = figure("coverage", "Coverage", "Share of labels inside, by the coverage requested.")
        drawn += figure("parts", "Coverage by prediction", f"Fifths of the rows; {covered['asked']:.0%} was requested.")
        return f"""<h3>Intervals</h3><p class="soft">{escape(about)}</p><div class="figures">{drawn}</div><p></p>
{_coverage_table(covered)}<p></p>
{_fifths_table("Coverage by fifth of the predictions", "predictions", covered["parts"])}<p></p>
{_fifths_table("Coverage by fifth of the widths", "widths", covered["by_width"])}"""


def _coverage_table(covered: dict[str, Any]) -> str:
    new = covered["new"] or [None] * len(covered["levels"])
    head = ["requested", "training rows inside", "median width", *(["new rows inside"] if covered["new"] else [])]
    body = [
        [f"{a:.2f}", f"{b:.4f}", "∞" if c is None else f"{c:.5g}", *([] if n is None else [f"{n:.4f}"])]
        for a, b, c, n in zip(covered["levels"], covered["covered"], covered["width"], new, strict=True)
    ]
    return plain_table("Coverage", head, body, tuple(range(len(head))))


def _fifths_table(title: str, what: str, parts: list[dict[str, Any]]) -> str:
    head = [f"{what} from", "to", "rows", "inside", "median width"]
    body = [
        [f"{p['low']:.5g}", f"{p['high']:.5g}", str(p["rows"]), f"{p['covered']:.4f}", f"{p['width']:.5g}"]
        for p in ({**p, **{k: np.inf for k in ("low", "high", "width") if p[k] is None}} for p in parts)
    ]
    return plain_table(title, head, body, tuple(range(len(head))))


# -------------------------------------------------------------------------------------------------------- numbers


def _residuals(subject: Subject) -> dict[str, Any]:
    """Labels, predictions and a histogram of residuals, one of each per output."""
    training, unit = subject.training, subject.model.target.in_unit
    sample = np.sort(np.random.default_rng(0).permutation(len(training.rows))[:SCATTER_ROWS])
    predicted, actual = unit(left_out(subject.estimator).numpy()), unit(training.rows.Y.numpy())
    outputs = []
    for y, t in zip(actual.T, predicted.T, strict=True):
        counts, edges = _histogram(y - t)
        points = dict(zip(("actual", "predicted"), rounded([y[sample], t[sample]]), strict=True))
        outputs.append({**points, "edges": rounded(edges), "counts": counts.tolist()})
    return {"rows": training.first[sample].tolist(), "outputs": outputs}


def _histogram(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thirty bins; one, where numbers are too coarse for more."""
    try:
        return np.histogram(values, bins=30)
    except ValueError:
        return np.array([len(values)]), np.array([values.min(), np.nextafter(values.max(), np.inf)])


# -------------------------------------------------------------------------------------------------------- classes


def left_out_probabilities(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the classes of distinct training rows, and the numbers of their own classes."""
    model = subject.model
    probability = model.calibrated.probabilities(model.leave_one_out())  # type: ignore[attr-defined]
    return probability, class_numbers(subject.training.rows.Y.numpy())


def _roc(subject: Subject) -> list[dict[str, Any]]:
    (probability, truth), weight = left_out_probabilities(subject), subject.training.rows.weight.numpy()
    names = subject.estimator.classes_
    curves = []
    for k in [1] if len(names) == 2 else range(min(CLASSES, len(names))):
        fpr, tpr, _ = roc_curve(truth == k, probability[:, k], sample_weight=weight)
        kept = np.unique(np.linspace(0, len(fpr) - 1, CURVE).astype(int))
        auc = float(roc_auc_score(truth == k, probability[:, k], sample_weight=weight))
        curves.append(
            {"name": cut_name(str(names[k])), "auc": auc, "fpr": rounded(fpr[kept]), "tpr": rounded(tpr[kept])}
        )
    return curves


def _calibration(subject: Subject) -> dict[str, Any]:
    """In bins of equally many rows: the mean probability, how often the class was right, and the number of rows."""
    (probability, truth), weight = left_out_probabilities(subject), subject.training.rows.weight.numpy()
    if probability.shape[1] == 2:
        name = cut_name(str(subject.estimator.classes_[1]))
        predicted, right = probability[:, 1], truth == 1
        labels = {"label": f"predicted probability of {name}", "against": f"share of {name}"}
    else:
        predicted, right = probability.max(1), probability.argmax(1) == truth
        labels = {"label": "probability of the predicted class", "against": "share of right predictions"}
    bins = [part for part in np.array_split(np.argsort(predicted, kind="stable"), BINS) if len(part)]
    mean, share = ([np.average(v[part], weights=weight[part]) for part in bins] for v in (predicted, right))
    return plain({"predicted": mean, "observed": share, "rows": [len(part) for part in bins], **labels})
