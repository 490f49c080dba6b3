"""One look per method, in figures and on the page: a colour, and a shape for those who do not see the colour.

Eleven are too many for colours alone, so no two methods share a shape.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hgk.report.palette import AMBER, BLUE, BROWN, GREEN, GREY, OLIVE, PINK, SKY, VERMILION, VIOLET, WINE


class Look(NamedTuple):
    """Colours on light and dark ground; ``shape`` as matplotlib names its markers."""

    light: str
    dark: str
    shape: str


LOOKS = {
    "SVM": Look(*GREY, "s"),
    "HKL": Look(*BROWN, "v"),
    "Ours (paper)": Look(*AMBER, "D"),
    "Ours (default)": Look(*VERMILION, "o"),
    "RF": Look(*GREEN, "^"),
    "DNN": Look(*BLUE, "P"),
    "LightGBM": Look(*SKY, "<"),
    "CatBoost": Look(*PINK, ">"),
    "XGBoost": Look(*WINE, "X"),
    "xRFM": Look(*OLIVE, "h"),
    "RealMLP": Look(*VIOLET, "*"),
}
SPARE = (Look("#444444", "#cccccc", "p"), Look("#777777", "#999999", "d"), Look("#222222", "#eeeeee", "8"))


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """The look of each method; those unknown get the spare ones in turn.

    Examples
    --------
    >>> from hgk.bench.palette import looks
    >>> looks(["RF", "mine"])["mine"].shape
    'p'
    """
    unknown = [m for m in methods if m not in LOOKS]
    return {m: LOOKS[m] if m in LOOKS else SPARE[unknown.index(m) % len(SPARE)] for m in methods}
