"""The rows with the largest errors."""

from __future__ import annotations

import numpy as np

from hgk.insight.errors import class_numbers
from hgk.insight.fitted import cell, is_categorical, left_out
from hgk.report.sections.base import Section
from hgk.report.sections.predictions import left_out_probabilities
from hgk.report.values import cut_name
from hgk.report.web import plain_table

# Rows, and columns of them.
WORST_ROWS, WORST_COLUMNS = 12, 6
# Row numbers, heading, cells, and which of these are numbers.
Lines = tuple[np.ndarray, list[str], list[list[str]], list[int]]


class WorstRowsSection(Section):
    """The training rows with the largest errors when they are left out, with their most important columns."""

    title, key = "Worst rows", "worst"

    def html(self) -> str:
        about = (
            f"The training rows with the largest {self.subject.judged} errors, counted from 0 in the order in which "
            "they were given. Wrong labels, rare kinds of rows and missing columns show up here first."
        )
        rows, head, lines, numbers = self._classes() if self.subject.classes else self._numbers()
        estimator, training, shown = self.subject.estimator, self.subject.training, self.subject.order[:WORST_COLUMNS]
        numbers += [len(head) + p for p, j in enumerate(shown) if not is_categorical(estimator, j)]
        body = [
            [
                str(training.first[i]),
                *map(cut_name, line),
                *(cut_name(cell(estimator, j, training.table[i, j])) for j in shown),
            ]
            for i, line in zip(rows, lines, strict=True)
        ]
        head += [self.subject.columns[j] for j in shown]
        return f'<p class="soft">{about}</p>{plain_table(self.title, head, body, tuple(numbers))}'

    def _classes(self) -> Lines:
        probability, truth = left_out_probabilities(self.subject)
        of_truth = probability[np.arange(len(truth)), truth]
        rows = np.argsort(of_truth, kind="stable")[:WORST_ROWS]
        names, predicted = self.subject.estimator.classes_, class_numbers(left_out(self.subject.estimator).numpy())
        lines = [[str(names[truth[i]]), str(names[predicted[i]]), f"{of_truth[i]:.4f}"] for i in rows]
        return rows, ["row", "class", "predicted", "probability of its class"], lines, [0, 3]

    def _numbers(self) -> Lines:
        t, Y = left_out(self.subject.estimator).numpy(), self.subject.training.rows.Y.numpy()
        rows = np.argsort(-((t - Y) ** 2).sum(1), kind="stable")[:WORST_ROWS]
        target = self.subject.model.target
        actual, predicted = target.in_unit(Y), target.in_unit(t)
        names = [""] if target.single else [f" {k}" for k in range(Y.shape[1])]
        head = ["row", *(f"{what}{name}" for name in names for what in ("label", "predicted", "residual"))]
        lines = [
            [f"{v:.6g}" for a, p in zip(actual[i], predicted[i], strict=True) for v in (a, p, a - p)] for i in rows
        ]
        return rows, head, lines, list(range(len(head)))
