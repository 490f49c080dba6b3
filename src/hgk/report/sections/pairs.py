"""Columns that share nodes."""

from __future__ import annotations

import numpy as np

from hgk.insight import pairs
from hgk.report.sections.base import Section, script_of
from hgk.report.values import or_dash, plain
from hgk.report.web import figure, plain_table

# Columns of the figure, and pairs of the table.
FIGURE_COLUMNS, PAIRS_LISTED = 12, 10


class PairsSection(Section):
    """How much two columns stand in the same first-layer nodes, compared with chance."""

    title, key = "Pairs", "pairs"
    draws = (("pairs", "drawPairs"),)
    script = script_of("pairs")

    def compute(self):
        order = self.subject.order[:FIGURE_COLUMNS]
        share = pairs(self.subject.estimator)[np.ix_(order, order)]
        importance = self.subject.estimator.feature_importances_[order]
        chance = np.outer(importance, importance)
        ratio = np.divide(share, chance, out=np.full_like(share, np.nan), where=chance > 0)
        return plain({"columns": order, "share": share, "ratio": ratio})

    def html(self) -> str:
        if len(self.data["columns"]) < 2:
            return "<p>There is a single column.</p>"
        if self.subject.plain:
            return "<p>All columns are in one node with equal weights: the plain kernel tells nothing about pairs.</p>"
        caption = (
            "How much two columns stand in the same first-layer nodes: the chance to meet both when a node and two of "
            "its columns are drawn by their shares of the exponent."
        )
        drawn = figure("pairs", "Pairs that share nodes", caption)
        return f'<div class="figures">{drawn}<div class="breaking">{self._table()}</div></div>'

    def _table(self) -> str:
        share, ratio = self.data["share"], self.data["ratio"]
        names = [self.subject.columns[j] for j in self.data["columns"]]
        couples = [(a, b) for a in range(len(names)) for b in range(a)]
        largest = sorted(couples, key=lambda couple: -share[couple[0]][couple[1]])[:PAIRS_LISTED]
        body = [
            [f"{names[b]} and {names[a]}", f"{2 * share[a][b]:.4f}", or_dash(ratio[a][b], ".2f")] for a, b in largest
        ]
        return plain_table("Pairs", ["pair", "together", "times chance"], body, (1, 2))
