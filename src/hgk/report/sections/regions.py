"""Where which column matters."""

from __future__ import annotations

from html import escape

from hgk.events import LeavesChosen, last
from hgk.insight import Region, regions
from hgk.report.sections.base import Section, script_of
from hgk.report.values import cut_name, plain
from hgk.report.web import figure

# Columns that are named of a region, and of a split.
NAMED = 4


class RegionsSection(Section):
    """The upper splits of the first partition: sizes, errors, and the columns that matter there."""

    title, key = "Regions", "regions"
    draws = (("regions", "drawRegions"),)
    script = script_of("regions")

    def compute(self):
        return plain([_told(region) for region in regions(self.subject.estimator)])

    def html(self) -> str:
        event = last(self.subject.model.history, LeavesChosen)
        if not self.data:
            reason = "Leaves were not tried." if event is None else f"Leaves were {event.words}."
            return f'<p class="soft">{escape(reason)} The kernel is the same everywhere.</p>'
        sentence = "" if event is None else f"<p>The model is {escape(event.words)}.</p>"
        caption = (
            "Upper splits of the first partition. The wider a box, the more rows it has; the darker, the larger the "
            "leave-one-out error of these rows. Boxes name the columns that matter most in their leaves, and tell "
            "below the pointer which columns the split beneath them combines."
        )
        return sentence + figure("regions", "Where which column matters", caption)


def _told(region: Region) -> dict:
    def leading(columns: dict[str, float]) -> list[list]:
        return [[cut_name(name), share] for name, share in list(columns.items())[:NAMED]]

    return {
        "depth": region.depth,
        "start": region.start,
        "stop": region.stop,
        "leaves": region.leaves,
        "error": region.error,
        "columns": leading(region.columns),
        "mixes": leading(region.mixes),
    }
