"""How much worse predictions of unseen rows become without a column's information, as a model keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from hgk.storable import expect, storable, vector

# How likely it is, about, that anything is found among columns none of which tells anything.
FALSE_ALARM = 1e-3


def noise_level(many: int, rows: int) -> float:
    """How many of its standard errors the largest of so many means over rows hardly ever exceeds, if the true ones are
    0: Student's quantile, since the errors are measured on these rows.
    """
    return float(stdtrit(max(1, rows - 1), 1 - FALSE_ALARM / max(1, many)))


@storable
@dataclass(frozen=True, eq=False)
class Importance:
    """What permuting columns adds to the loss of unseen rows, divided by the loss of the best constant.

    With the mean squared error 1 is all of the variance of the labels, and an importance is how much of R² is lost. A
    permuted column does not only tell nothing, but misleads, so that importances may exceed 1.

    Attributes
    ----------
    names : tuple of str
        The columns, or groups of columns.
    repeats : ndarray of shape (repeats, columns)
        The increase, permutation by permutation.
    error : ndarray of shape (columns,)
        The standard error of the mean over repeats, from how much rows differ; that the rows are a sample is in it.
    base : float
        The loss of unseen rows with all columns as they are, divided by that of the best constant.
    measure : str
        The loss: "mean squared error", "log-loss", ...
    rows : int
        How many rows the means are over.
    optimism : float
        By how much ``base`` is too small, because the kernel was learned with the rows in view, divided by the number
        of columns: so much a column may seem to matter that only served to bend the kernel to its rows.
    """

    names: tuple[str, ...]
    repeats: np.ndarray
    error: np.ndarray
    base: float
    measure: str
    rows: int
    optimism: float = 0.0

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        repeats, many = parts["repeats"], len(parts["names"])
        fits = repeats.ndim == 2 and len(repeats) > 0 and repeats.shape[1] == many
        expect(fits and vector(repeats.ravel()), "the importances are not one number for each column")
        error = parts["error"]
        expect(vector(error) and error.shape == (many,) and bool((error >= 0).all()), "the importances lack errors")
        expect(parts["rows"] > 0 and parts.get("optimism", 0.0) >= 0, "the importances are of no row, or have no bound")

    @property
    def mean(self) -> np.ndarray:
        """Over the repeats, as it was measured: below 0 where permuting happened to help."""
        return self.repeats.mean(0)

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation over the repeats."""
        return self.repeats.std(0, ddof=1) if len(self.repeats) > 1 else np.zeros(len(self.names))

    @property
    def carries(self) -> np.ndarray:
        """Where the increase is more than noise."""
        return self.mean > noise_level(len(self.names), self.rows) * self.error + self.optimism

    @property
    def shown(self) -> np.ndarray:
        """The mean, and exactly 0 for columns that carry nothing."""
        return np.where(self.carries, self.mean, 0.0)

    @property
    def shares(self) -> np.ndarray:
        """What is shown, such that it sums to 1; all 0 where no column carries anything."""
        total = self.shown.sum()
        return self.shown / total if total > 0 else self.shown

    @property
    def order(self) -> np.ndarray:
        """Columns from the most important one; those that carry nothing by their means."""
        return np.lexsort((-self.mean, -self.shown))

    @property
    def unit(self) -> str:
        """What the numbers are, as a sentence without its end."""
        return f"increase of the {self.measure} of unseen rows, as a share of that of the best constant"

    @property
    def told(self) -> dict[str, Any]:
        """As summaries and the command line tell it, the most important column first."""
        columns = {
            self.names[j]: {
                "importance": float(self.shown[j]),
                "mean": float(self.mean[j]),
                "error": float(self.error[j]),
                "spread": float(self.spread[j]),
            }
            for j in self.order
        }
        return {"unit": self.unit, "rows": self.rows, "repeats": len(self.repeats), "columns": columns}
