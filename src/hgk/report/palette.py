"""The colours of reports and displays.

They are Okabe and Ito's and Tol's, which differ for the colour-blind. On dark ground the dark ones are lightened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Colour(NamedTuple):
    """On light and on dark ground."""

    light: str
    dark: str


GREY = Colour("#5f5f5f", "#b5b5b5")
BROWN = Colour("#8a5a2b", "#c99b6b")
AMBER = Colour("#c88700", "#f0b840")
VERMILION = Colour("#d55e00", "#ff8a3d")
GREEN = Colour("#00855f", "#2cc59b")
BLUE = Colour("#0072b2", "#5bb0e6")
SKY = Colour("#2a9fd6", "#8fd3f7")
PINK = Colour("#b8508a", "#e59ac2")
WINE = Colour("#882255", "#d0709c")
OLIVE = Colour("#7d7d1f", "#c5c55a")
VIOLET = Colour("#4b2e9b", "#a795f0")

OURS_COLOUR, SVM_COLOUR, FOREST_COLOUR = VERMILION, GREY, GREEN
SERIES = (OURS_COLOUR, GREEN, BLUE, SKY, PINK, WINE, OLIVE, VIOLET)
# Kinds of first-layer nodes by the name that a tree gives them, and colours for those it names otherwise.
NODES = {"smooth": BLUE, "rough": AMBER, "oblique": PINK, "inner": GREY, "top": OURS_COLOUR}
OTHER_NODES = (BROWN, GREEN, VIOLET, OLIVE, WINE, SKY)


def node_colours(kinds: Iterable[str]) -> dict[str, Colour]:
    """The colour of each kind of node.

    Examples
    --------
    >>> from hgk.report.palette import BROWN, node_colours
    >>> node_colours(["smooth", "mine"])["mine"] == BROWN
    True
    """
    kinds = list(dict.fromkeys(kinds))
    others = [kind for kind in kinds if kind not in NODES]
    return {k: NODES[k] if k in NODES else OTHER_NODES[others.index(k) % len(OTHER_NODES)] for k in kinds}
