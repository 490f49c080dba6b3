"""The importance of columns."""

from __future__ import annotations

from html import escape

from hgk.report.sections.base import Section, script_of
from hgk.report.values import plain
from hgk.report.web import figure


class ColumnsSection(Section):
    """How much worse predictions of unseen rows become without each column."""

    title, key = "Columns", "importance"
    draws = (("importance", "drawImportance"),)
    script = script_of("columns")

    def compute(self):
        found = self.subject.estimator.importance_
        return plain(
            {
                "order": self.subject.order,
                "shown": found.shown,
                "mean": found.mean,
                "error": found.error,
                "repeats": found.repeats,
                "unit": found.unit,
                "rows": found.rows,
            }
        )

    def html(self) -> str:
        found = self.subject.estimator.importance_
        least = "R²" if found.measure == "mean squared error" else "what the model explains"
        caption = (
            f"{found.unit[:1].upper()}{found.unit[1:]}, when the cells of a column are those of other rows: how much "
            f"of {least} is lost. Over {found.rows:,} training rows, each predicted by a function that has not seen "
            f"it; lines: two standard errors; ticks: {len(found.repeats)} permutations."
        )
        nothing = len(found.names) - int(found.carries.sum())
        said = ""
        if nothing:
            many = "one column" if nothing == 1 else f"{nothing} columns"
            said = f"<p>Predictions of unseen rows rest on {escape(many)} no more than noise would make them.</p>"
        return figure("importance", "Importance of columns", caption) + said
