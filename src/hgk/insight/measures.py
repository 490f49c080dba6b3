"""Scores of predictions, each with its standard error over the rows.

With weights w_i and W = Σ w_i every score A is a smooth function of means over the rows, so that to first order
A - E A = Σ_i ψ_i with the influence ψ_i of row i, and

    standard error = √( m / (m - 1) · Σ ψ_i² ),     m rows of positive weight

    mean of s          A = Σ w_i s_i / W                        ψ_i = w_i (s_i - A) / W
    RMSE               A = √MSE                                 ψ_i = w_i (r_i² - MSE) / (2 A W)
    R²                 A = 1 - MSE / V,  V the variance of y    ψ_i = w_i ((1 - A) (y_i - ȳ)² - r_i²) / (V W)
    AUC                A = P(p⁺ > p⁻) + ½ P(p⁺ = p⁻)            ψ_i = w_i (P(p_i > p⁻) - A) / W⁺, and so for y_i = -
    calibration error  A = Σ_b |Σ_b w_i (p_i - o_i)| / W        ψ_i = w_i (± (p_i - o_i) - A) / W, ± as in bin b

For a mean without weights this is the sample's deviation over √m, for the AUC nearly DeLong's (1988). Rows count as
independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hgk.permutation import LEAST_PROBABILITY

# Of equally many rows, of a calibration error.
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Measure:
    """A score, and its standard error over the rows; None where these are too few, or the score is not finite.

    ``output`` is the name of the output or level that it is of; "" where there is one, or for all together.
    """

    name: str
    value: float
    error: float | None = None
    output: str = ""


def _of(name: str, value: float, influence: np.ndarray, weight: np.ndarray) -> Measure:
    rows = int((weight > 0).sum())
    error = math.sqrt(rows / (rows - 1) * float(influence @ influence)) if rows > 1 else math.nan
    return Measure(name, float(value), error if math.isfinite(error) else None)


def mean_measure(name: str, scores: np.ndarray, weight: np.ndarray) -> Measure:
    """The mean of a score of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.insight.measures import mean_measure
    >>> mean_measure("mae", np.array([1.0, 3.0]), np.ones(2))
    Measure(name='mae', value=2.0, error=1.0, output='')
    """
    share = weight / weight.sum()
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(weight @ scores / weight.sum())
        return _of(name, mean, share * (scores - mean), weight)


def number_measures(y: np.ndarray, t: np.ndarray, weight: np.ndarray) -> list[Measure]:
    """RMSE, MAE and R² of predictions t; R² is nan where all labels are the same."""
    share = weight / weight.sum()
    with np.errstate(all="ignore"):  # squares of the largest floats; a constant label
        r, apart = (y - t) ** 2, (y - share @ y) ** 2
        mse, variance = float(share @ r), float(share @ apart)
        rmse = math.sqrt(mse)
        r2 = 1 - np.float64(mse) / variance if y.min() < y.max() else np.nan
        slope = share * (r - mse) / (2 * rmse) if rmse > 0 else np.zeros(len(r))
        return [
            _of("rmse", rmse, slope, weight),
            mean_measure("mae", np.abs(y - t), weight),
            _of("r2", r2, share * ((1 - r2) * apart - r) / np.float64(variance), weight),
        ]


def pinball_losses(y: np.ndarray, t: np.ndarray, level: float) -> np.ndarray:
    """τ (y - t)₊ + (1 - τ) (t - y)₊ of every row."""
    return np.maximum(level * (y - t), (level - 1) * (y - t))


# -------------------------------------------------------------------------------------------------------- classes


def class_measures(truth: np.ndarray, p: np.ndarray, weight: np.ndarray) -> list[Measure]:
    """Log-loss, AUC (of several classes the mean of each against the rest) and calibration error.

    ``truth`` are numbers of classes, ``p`` their probabilities. The AUC is left out where there is one class alone.
    """
    of_truth = np.clip(p[np.arange(len(truth)), truth], LEAST_PROBABILITY, None)
    area = _area(truth, p, weight)
    return [
        mean_measure("log_loss", -np.log(of_truth), weight),
        *([] if area is None else [area]),
        calibration_error(truth, p, weight),
    ]


def _area(truth: np.ndarray, p: np.ndarray, weight: np.ndarray) -> Measure | None:
    told = [_one_area(truth == k, p[:, k], weight) for k in ([1] if p.shape[1] == 2 else range(p.shape[1]))]
    areas, influences = zip(*(one for one in told if one is not None), strict=True) if any(told) else ((), ())
    return _of("auc", np.mean(areas), np.mean(influences, axis=0), weight) if areas else None


def _one_area(positive: np.ndarray, p: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray] | None:
    """The area, and the influence of every row; None without rows of both kinds."""
    up, down = np.where(positive, weight, 0.0), np.where(positive, 0.0, weight)
    if not (up.sum() > 0 and down.sum() > 0):
        return None
    beats = _share_below(p, down)  # of the others, at every row
    loses = 1 - _share_below(p, up)
    area = float(up @ beats / up.sum())
    return area, up * (beats - area) / up.sum() + down * (loses - area) / down.sum()


def _share_below(p: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The share of the weight at smaller numbers, and half of that at equal ones."""
    values, place = np.unique(p, return_inverse=True)
    mass = np.bincount(place, weights=weight, minlength=len(values))
    return ((np.cumsum(mass) - mass / 2) / mass.sum())[place]


def told_and_right(truth: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of two classes the probability of the second; of several that of the predicted one; and whether it was right."""
    return (p[:, 1], truth == 1) if p.shape[1] == 2 else (p.max(1), p.argmax(1) == truth)


def calibration_bins(truth: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
    """Rows with similar probabilities, equally many in each bin."""
    order = np.argsort(told_and_right(truth, p)[0], kind="stable")
    return [part for part in np.array_split(order, CALIBRATION_BINS) if len(part)]


def calibration_error(truth: np.ndarray, p: np.ndarray, weight: np.ndarray) -> Measure:
    """How far probabilities are from frequencies, on average over ten bins of equally many rows."""
    told, right = told_and_right(truth, p)
    share, gap, sign = weight / weight.sum(), told - right, np.zeros(len(p))
    for part in calibration_bins(truth, p):
        sign[part] = np.sign(share[part] @ gap[part])
    return mean_measure("calibration", sign * gap, weight)


def calibration_by_chance(truth: np.ndarray, p: np.ndarray, weight: np.ndarray) -> float:
    """The calibration error that perfect probabilities have on so few rows: Σ_b √(2/π · Σ_b w_i² p_i (1 - p_i)) / W."""
    told, share = told_and_right(truth, p)[0], weight / weight.sum()
    spread = share**2 * told * (1 - told)
    return sum(math.sqrt(2 / math.pi * max(0.0, float(spread[part].sum()))) for part in calibration_bins(truth, p))
