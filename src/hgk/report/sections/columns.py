"""The importance of columns."""

from __future__ import annotations

from dataclasses import asdict
from html import escape

from hgk.insight import relevance
from hgk.report.sections.base import Section, script_of
from hgk.report.values import plain
from hgk.report.web import figure


class ColumnsSection(Section):
    """How much each column matters, and how far the averaged kernels agree on it."""

    title, key = "Columns", "relevance"
    draws = (("relevance", "drawRelevance"),)
    script = script_of("columns")

    def compute(self):
        return plain({**asdict(relevance(self.subject.estimator)), "order": self.subject.order})

    def html(self) -> str:
        remark = self.subject.plain
        if remark:
            sentence = f"{remark[:1].upper()}{remark[1:]}. The effects of columns on predictions are below."
            return f"<p>{escape(sentence)}</p>"
        caption = "The share of the kernels' exponents that each column carries over pairs of training rows."
        if len(self.data["shares"]) > 1:
            caption += " Ticks: each averaged kernel; line: their standard deviation about the mean."
        return figure("relevance", "Importance of columns", caption)
