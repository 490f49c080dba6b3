"""The error, compared with other methods."""

from __future__ import annotations

from dataclasses import asdict
from html import escape

from hgk.events import ASIDE
from hgk.insight import Score, in_words, scores
from hgk.insight.errors import LOO, NEW, PLAIN_SVM, RANDOM_FOREST
from hgk.report.sections.base import Section, script_of
from hgk.report.values import or_dash, plain
from hgk.report.web import figure, plain_table


class ErrorSection(Section):
    """The model's errors, and those of a plain Gaussian SVM and a random forest."""

    title, key = "Error", "errors"
    draws = (("errors", "drawErrors"),)
    script = script_of("error")

    def compute(self):
        self.scores = scores(self.subject.estimator, self.subject.new)
        return [plain(asdict(score)) for score in self.scores]

    def lead(self) -> str:
        """The most trustworthy error, and how it compares."""
        ours = next((s for s in self.scores if s.basis == NEW), self.scores[0])
        measure = in_words(asdict(ours), self.subject.classes, len(self.subject.outputs))
        sentences = [f"{'On' if ours.basis in (ASIDE, NEW) else 'By'} {ours.basis} this model has {measure}."]
        left = next((s for s in self.scores if s.basis == LOO and s.wrong is not None), None)
        if ours.wrong is None and left is not None:
            sentences.append(f"By {LOO} {left.wrong:.1%} of the classes are wrong.")
        for method in (PLAIN_SVM, RANDOM_FOREST):
            others = [s for s in self.scores if s.method == method]
            other = next((s for s in others if s.basis == ours.basis), others[0] if others else None)
            if other is not None and other.risk > 0:
                sentences.append(_compared(ours, other))
        return " ".join(sentences)

    def html(self) -> str:
        about = (
            "Rows set aside: no gradient has seen them, but kinds of trees and λ were chosen on them. "
            f"{self.subject.judged.capitalize()} predictions leave a row out of the machine, but the kernel was "
            "learned with it, so that the error of a learned kernel is optimistic. Out of bag: each tree predicts the "
            "rows that it was not grown on. The mean squared error is of labels scaled to [-1, 1] and of predictions "
            "clipped there, summed over outputs."
        )
        new = self.subject.new
        if new is not None and new.known:
            given = len(new.X) + new.known
            about += f" Of the {given} rows given for a test, {new.known} were training rows and left out."
        return f"""{figure("errors", "Errors", "Shorter is better.")}
{self._table()}
<p class="soft">{escape(about)}</p>"""

    def _table(self) -> str:
        shown = {"rmse": ("root mean squared error", ".6g"), "wrong": ("wrong classes", ".4f")}
        shown = {name: look for name, look in shown.items() if any(score[name] is not None for score in self.data)}
        head = ["method", "judged by", "mean squared error", "R²", *(title for title, _ in shown.values())]
        body = [
            [score["method"], score["basis"], f"{score['risk']:.6g}", or_dash(score["r2"], ".4f")]
            + [or_dash(score[name], form) for name, (_, form) in shown.items()]
            for score in self.data
        ]
        return plain_table("Errors", head, body, tuple(range(2, len(head))))


def _compared(ours: Score, other: Score) -> str:
    change = 1 - ours.risk / other.risk
    whose = f"that of {'a' if other.method == RANDOM_FOREST else 'the'} {other.method}"
    basis = "" if other.basis == ours.basis else f" ({other.basis})"
    if abs(change) < 0.005:
        return f"Its squared error is about the same as {whose}{basis}."
    return f"Its squared error is {abs(change):.0%} {'lower' if change > 0 else 'higher'} than {whose}{basis}."
