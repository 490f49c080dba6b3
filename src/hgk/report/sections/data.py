"""The columns of the training rows."""

from __future__ import annotations

import numpy as np

from hgk.insight.fitted import cell, is_categorical, most_important
from hgk.report.sections.base import Section
from hgk.report.values import cut_name
from hgk.report.web import plain_table

# Columns listed, and categories of each.
COLUMNS_LISTED, CATEGORIES_LISTED = 500, 3


class DataSection(Section):
    """One line for each column, the most important first."""

    title, key = "Data", "data"

    def html(self) -> str:
        listed = most_important(self.subject.estimator, COLUMNS_LISTED)
        head = ["column", "kind", "values", "missing, %", "importance", "about"]
        table = plain_table("Columns", head, map(self._line, listed), (2, 3, 4))
        rows, columns = len(self.subject.training.place), len(self.subject.columns)
        rest = f" {columns - len(listed)} less important columns are not listed." if columns > len(listed) else ""
        return f'<p class="soft">{rows:,} rows, {columns:,} columns.{rest}</p>{table}'

    def _line(self, j: int) -> list[str]:
        estimator, x = self.subject.estimator, self.subject.training.table[:, j]
        present = x[~np.isnan(x)]
        missing, importance = f"{100 * np.isnan(x).mean():.1f}", self._importance(j)
        if is_categorical(estimator, j):
            kind, about = "categorical", self._categories(j, present, len(x))
        else:
            kind, about = "numeric", "nothing but missing cells"
            if len(present):
                low, middle, high = (cell(estimator, j, q, 4) for q in np.quantile(present, [0, 0.5, 1]))
                about = f"{low} to {high}, median {middle}"
        return [self.subject.columns[j], kind, str(len(np.unique(present))), missing, importance, about]

    def _importance(self, j: int) -> str:
        shown = self.subject.estimator.importance_.shown[j]
        return f"{shown:.4f}" if shown else "none"

    def _categories(self, j: int, present: np.ndarray, rows: int) -> str:
        """The most frequent ones."""
        counts = np.bincount(present.astype(int), minlength=1)
        frequent = [c for c in np.argsort(-counts, kind="stable")[:CATEGORIES_LISTED] if counts[c]]
        return ", ".join(f"{cut_name(cell(self.subject.estimator, j, c))} ({counts[c] / rows:.0%})" for c in frequent)
