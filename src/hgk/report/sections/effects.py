"""Partial dependence on the columns that matter most."""

from __future__ import annotations

from typing import Any

from hgk.insight import Effect, effect
from hgk.report.sections.base import Section, choose_output, script_of
from hgk.report.values import cut_name, rounded
from hgk.report.web import figure

# Columns that are shown, and outputs up to which the curves of single rows are.
EFFECTS_SHOWN, OUTPUTS_WITH_CURVES = 6, 10


class EffectsSection(Section):
    """What is predicted as one column moves."""

    title, key = "Effects", "effects"
    draws = (("effect-0", "drawEffects"),)
    script = script_of("effects")

    def compute(self):
        return [_effect(effect(self.subject.estimator, j)) for j in self.subject.order[:EFFECTS_SHOWN]]

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


def _effect(effect: Effect) -> dict[str, Any]:
    curves = list(effect.curves) if len(effect.curves) <= OUTPUTS_WITH_CURVES else []
    return {
        "column": effect.column,
        "name": cut_name(effect.name),
        "grid": rounded(effect.grid),
        "labels": None if effect.labels is None else [cut_name(label) for label in effect.labels],
        "mean": rounded(effect.mean),
        "curves": [rounded(curve) for curve in curves],
        "rows": effect.rows,
    }
