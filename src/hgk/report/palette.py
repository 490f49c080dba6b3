"""One look per method, in figures and on the page: a colour, and a shape for those who do not see the colour.

Colours are Okabe and Ito's and Tol's, which differ for the colour-blind; eleven are too many for colours alone, so no
two methods share a shape. On dark ground the dark ones are lightened.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Colours on light and dark ground; ``shape`` as matplotlib names its markers."""

    light: str
    dark: str
    shape: str


LOOKS = {
    "SVM": Look("#5f5f5f", "#b5b5b5", "s"),
    "HKL": Look("#8a5a2b", "#c99b6b", "v"),
    "Ours (paper)": Look("#c88700", "#f0b840", "D"),
    "Ours (default)": Look("#d55e00", "#ff8a3d", "o"),
    "RF": Look("#00855f", "#2cc59b", "^"),
    "DNN": Look("#0072b2", "#5bb0e6", "P"),
    "LightGBM": Look("#2a9fd6", "#8fd3f7", "<"),
    "CatBoost": Look("#b8508a", "#e59ac2", ">"),
    "XGBoost": Look("#882255", "#d0709c", "X"),
    "xRFM": Look("#7d7d1f", "#c5c55a", "h"),
    "RealMLP": Look("#4b2e9b", "#a795f0", "*"),
}
SPARE = (Look("#444444", "#cccccc", "p"), Look("#777777", "#999999", "d"), Look("#222222", "#eeeeee", "8"))


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """The look of each method; those unknown get the spare ones in turn.

    Examples
    --------
    >>> from hgk.report.palette import looks
    >>> looks(["RF", "mine"])["mine"].shape
    'p'
    """
    unknown = [m for m in methods if m not in LOOKS]
    return {m: LOOKS[m] if m in LOOKS else SPARE[unknown.index(m) % len(SPARE)] for m in methods}
