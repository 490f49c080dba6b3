"""What labels can be, as far as the training labels tell.

That no label lies beyond the smallest or the largest says little: of any n numbers one is the smallest. An end of the
range is taken for a bound only where there is a reason:

    whole numbers   all labels are whole numbers and none is negative, as counts are: not below 0
    shares          all labels lie in [0, 1], some are no whole numbers, and both ends come within 0.02: not outside
    a pile          at least 10 different rows, and 1 % of them, have the very smallest label, and they are 10 times as
                    many as have the next one or as a label has in the middle (what was not sold, what was cut off)
    a scale         at most 40 different labels, all whole numbers: had their numbers gone on falling as they fell from
                    the last but one (k' rows) to the last (k rows), k²/k' rows would lie beyond; these are at least 10

Piles and scales are looked for at either end. Rows that were given several times count once. Whatever the reason, a new
row of the same kind lies beyond the range of n training rows with probability 1/(n + 1) at either end, so that a bound
that is none costs hardly any coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hgk.machines.rows import Rows
from hgk.targets.base import Target

# Rows of a pile, as a share of all, and how many times as many as elsewhere.
PILE, SHARE_OF_PILE, TIMES_AS_MANY = 10, 0.01, 10
# Labels of a scale, and rows beyond its end that would have been expected.
VALUES_OF_SCALE, EXPECTED_BEYOND = 40, 10.0
# How near to 0 and 1 shares come.
NEAR = 0.02


@dataclass(frozen=True)
class LabelBounds:
    """What labels are not below and not above, infinite where nothing is known, and why."""

    low: float = -math.inf
    high: float = math.inf
    why: str = ""

    def __bool__(self) -> bool:
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def words(self) -> str:
        """For people.

        Examples
        --------
        >>> from hgk.targets import LabelBounds
        >>> LabelBounds(0.0, why="whole numbers, none negative").words
        'not below 0 (whole numbers, none negative)'
        """
        ends = [f"not below {self.low:.12g}"] if math.isfinite(self.low) else []
        ends += [f"not above {self.high:.12g}"] if math.isfinite(self.high) else []
        return " and ".join(ends) + (f" ({self.why})" if self.why else "") if ends else "none"


def bounds_of(y: np.ndarray) -> LabelBounds:
    """Of one label of the distinct training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.targets.bounds import bounds_of
    >>> bounds_of(np.array([3.0, 1.0, 7.0]))
    LabelBounds(low=0.0, high=inf, why='whole numbers, none negative')
    >>> bool(bounds_of(np.array([0.2, 1.7, 9.3])))
    False
    """
    values, counts = np.unique(y, return_counts=True)
    if len(values) < 2:
        return LabelBounds()
    whole = bool((values == np.rint(values)).all())
    if not whole and values[0] >= 0 and values[-1] <= 1 and values[0] <= NEAR and values[-1] >= 1 - NEAR:
        return LabelBounds(0.0, 1.0, "shares, from 0 to 1")
    reasons: dict[str, None] = {}
    low, high = -math.inf, math.inf
    if whole and values[0] == 0:
        low, reasons["whole numbers, none negative"] = 0.0, None
    elif why := _end(counts, whole):
        low, reasons[f"{why} at the lower end"] = float(values[0]), None
    if why := _end(counts[::-1], whole):
        high, reasons[f"{why} at the upper end"] = float(values[-1]), None
    if whole and values[0] >= 0 and not math.isfinite(low):
        low, reasons["whole numbers, none negative"] = 0.0, None
    return LabelBounds(low, high, "; ".join(reasons))


def _end(counts: np.ndarray, whole: bool) -> str:
    """Why the first value is a bound, given how many rows have each; nothing where it is none."""
    first, following, rows = int(counts[0]), int(counts[1]), int(counts.sum())
    usual = max(following, float(np.median(counts[1:])))
    if first >= max(PILE, SHARE_OF_PILE * rows) and first >= TIMES_AS_MANY * usual:
        return f"{first} of {rows} rows"
    if whole and len(counts) <= VALUES_OF_SCALE and first >= PILE and first**2 / following >= EXPECTED_BEYOND:
        return f"{first} of {rows} rows on a scale of {len(counts)} values"
    return ""


def label_bounds(target: Target, rows: Rows) -> list[LabelBounds]:
    """Of each label of the distinct training rows, where labels are numbers; in their unit."""
    Y = target.in_unit(rows.Y.numpy())
    return [] if target.classes else [_rounded(y, float(np.abs(y).max())) for y in Y.T]


# What scaling and scaling back may change, in units of the largest label.
ROUNDING_OF_LABELS = 8 * np.finfo(float).eps


def _rounded(y: np.ndarray, size: float) -> LabelBounds:
    """Of labels that were scaled and scaled back: with at most 12 digits where these suffice.

    A bound of more digits is widened, so that the labels there are not outside by rounding.
    """
    short = np.array([_short(v) for v in y.tolist()])
    found = bounds_of(np.where(np.abs(short - y) <= ROUNDING_OF_LABELS * size, short, y))
    low = found.low if _short(found.low) == found.low else found.low - ROUNDING_OF_LABELS * size
    high = found.high if _short(found.high) == found.high else found.high + ROUNDING_OF_LABELS * size
    return LabelBounds(low, high, found.why)


def _short(v: float) -> float:
    return float(f"{v:.12g}")
