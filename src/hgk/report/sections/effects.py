"""Partial dependence on the columns that matter most."""

from __future__ import annotations

from typing import Any

from hgk.inputs.columns import Column, Date
from hgk.insight import Effect, effect
from hgk.report.sections.base import Section, choose_output, script_of
from hgk.report.values import cut_name, rounded
from hgk.report.web import figure

# Columns that are shown, and outputs up to which the curves of single rows are.
EFFECTS_SHOWN, OUTPUTS_WITH_CURVES = 6, 10
SECONDS_OF_YEAR = 365.2425 * 86400


class EffectsSection(Section):
    """What is predicted as one column moves."""

    title, key = "Effects", "effects"
    draws = (("effect-0", "drawEffects"),)
    script = script_of("effects")

    def compute(self):
        subject = self.subject
        carries, columns = subject.estimator.importance_.carries, subject.model.inputs.reader.columns
        leading = [j for j in subject.order if carries[j]] or subject.order[:1]
        return [_effect(effect(subject.estimator, j), columns[j]) for j in leading[:EFFECTS_SHOWN]]

    def html(self) -> str:
        about = (
            "The average prediction over training rows as one column changes and the others stay as they are (partial "
            "dependence), for the columns that matter most; categories in the order of their effects. Thin lines: "
            "individual rows; where they are not parallel, the column interacts with others."
        )
        if not self.subject.classes:
            about += " They are shifted to start where the average does."
        drawn = "".join(
            figure(f"effect-{i}", effect["name"], f"over {effect['rows']} rows") for i, effect in enumerate(self.data)
        )
        return f'{choose_output(self.subject)}<p class="soft">{about}</p><div class="small">{drawn}</div>'


def _effect(effect: Effect, column: Column) -> dict[str, Any]:
    curves = list(effect.curves) if len(effect.curves) <= OUTPUTS_WITH_CURVES else []
    grid, dates = effect.grid, None
    if isinstance(column, Date):  # the axis is in years
        grid, dates = 1970 + grid / SECONDS_OF_YEAR, [column.shown(x) for x in grid]
    return {
        "column": effect.column,
        "name": cut_name(effect.name),
        "grid": rounded(grid),
        "dates": dates,
        "labels": None if effect.labels is None else [cut_name(label) for label in effect.labels],
        "mean": rounded(effect.mean),
        "curves": [rounded(curve) for curve in curves],
        "rows": effect.rows,
    }
