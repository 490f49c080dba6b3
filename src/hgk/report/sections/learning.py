"""How the weights were learned."""

from __future__ import annotations

from dataclasses import asdict

from hgk.insight import learning_curves
from hgk.report.sections.base import Section, script_of
from hgk.report.values import plain, rounded
from hgk.report.web import figure


class LearningSection(Section):
    """Training curves, and the optimism of the criterion."""

    title, key = "Learning", "learning"
    draws = (("runs", "drawRuns"), ("optimism", "drawOptimism"))
    script = script_of("learning")

    def compute(self):
        learned = learning_curves(self.subject.estimator)
        runs = [
            {**asdict(run), "kind": run.kind, "criterion": rounded(run.criterion), "watched": rounded(run.watched)}
            for run in learned.runs
        ]
        label = "criterion: leave-one-out error on the batch" if learned.kinds else "criterion"
        return plain({"runs": runs, "kinds": [asdict(kind) for kind in learned.kinds], "label": label})

    def html(self) -> str:
        figures = ""
        if self.data["runs"]:
            caption = "What the weights minimise, step by step. Circles: where a run ended."
            if any(run["watched"] for run in self.data["runs"]):
                caption += " Diamonds: the error on rows that no gradient has seen."
            figures += figure("runs", "Training curves", caption)
        if self.data["kinds"]:
            caption = (
                "Hollow: the criterion at the end of the runs; solid: the error on rows set aside. The difference is "
                "the optimism of the criterion. The plain kernel has no weights to learn and no criterion."
                f"{self._of_columns()}"
            )
            figures += figure("optimism", "Optimism of the criterion", caption)
        return f'<div class="figures">{figures}</div>' if figures else "<p>No weights were learned.</p>"

    def _of_columns(self) -> str:
        """What the errors are of, where machines have other columns than the label."""
        target = self.subject.model.target
        if "power" not in target.decoding:
            return ""
        if len(target.columns) > len(target.predictions):
            return " Errors are summed over columns, one for each value of the label."
        return " Errors are of predictions before their power."
