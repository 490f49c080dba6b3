"""Interactions of columns."""

from __future__ import annotations

from typing import Any

from hgk.insight import JointEffect, interactions, joint_effect
from hgk.report.sections.base import Section, script_of
from hgk.report.values import cut_name, plain, rounded
from hgk.report.web import figure

# Pairs in the figure, and pairs that have a picture.
PAIRS_LISTED, PICTURES = 10, 3


class InteractionsSection(Section):
    """What two columns do only together."""

    title, key = "Interactions", "interactions"
    draws = (("interactions", "drawInteractions"), ("joint-0", "drawJoints"))
    script = script_of("interactions")

    def compute(self):
        found, names = interactions(self.subject.estimator), self.subject.columns
        self.found = found
        pairs = [
            {
                "name": f"{names[found.pairs[p][0]]} and {names[found.pairs[p][1]]}",
                "shown": found.shown[p],
                "mean": found.mean[p],
                "error": found.error[p],
                "H": found.H[p],
            }
            for p in found.order[:PAIRS_LISTED]
        ]
        joint = [_joint(joint_effect(self.subject.estimator, a, b)) for a, b in found.strongest[:PICTURES]]
        return {"pairs": plain(pairs), "joint": joint}

    def html(self) -> str:
        among = len(self.found.columns)
        if among < 2:
            return '<p class="soft">Fewer than two columns matter, so that none can interact.</p>'
        if not self.data["joint"]:
            return (
                f'<p class="soft">None of the interactions of two among the {among} most important columns is more '
                "than noise: their effects add up.</p>"
            )
        caption = (
            f"Among the {among} most important columns: what predictions of unseen rows lose without that which two "
            "columns do only together, in the unit of importances; lines: two standard errors. H is the share of the "
            "joint effect of two columns that is interaction (Friedman and Popescu)."
        )
        drawn = figure("interactions", "Interactions", caption)
        drawn += "".join(
            figure(f"joint-{i}", f"{joint['names'][0]} and {joint['names'][1]}", f"over {joint['rows']} rows")
            for i, joint in enumerate(self.data["joint"])
        )
        about = "The average prediction as both columns change and the others stay as they are: the darker, the larger."
        return f'<div class="figures">{drawn}</div><p class="soft">{about}</p>'


def _joint(joint: JointEffect) -> dict[str, Any]:
    return {
        "names": [cut_name(name) for name in joint.names],
        "grids": [rounded(grid) for grid in joint.grids],
        "labels": [None if labels is None else [cut_name(label) for label in labels] for labels in joint.labels],
        "mean": [rounded(mean) for mean in joint.mean],
        "rows": joint.rows,
    }
