"""Prediction intervals from leave-one-out functions: of a width that adapts to x, or of one width.

With residuals r_i = y_i - f^(-i)(x_i), their size σ (:mod:`hgk.spread`; 1 where a constant is as good), and ρ >= 1, by
which errors of rows that the kernel has not seen are larger, training row i has the score e_i = ρ |r_i| / σ^(-i)(x_i).
The bounds at x are the quantiles, at the level that is asked for,

    of  f^(-i)(x) - e_i σ^(-i)(x)  from above,  and of  f^(-i)(x) + e_i σ^(-i)(x)  from below,      (jackknife+)

over the rows i whose predictions are near that at x, with one more at ∓∞. Near is a window of the rows in the order of
their predictions: at least a tenth of all, and so many that 25 are expected outside of the interval; of up to
25 / (1 - level) rows, all. Where predictions differ by hardly more than leaving out a row moves them, all rows are near
and σ knows nothing of predictions. With more than 2000 rows f and σ take the place of f^(-i) and σ^(-i), which hardly
differ from them, so that no machine is factored again; the quantile of the scores is then linear between 101 places.

Without σ and windows these are jackknife+ intervals (Barber, Candès, Ramdas and Tibshirani, 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hgk.arrays import blocks, device_of, on_device, threads_for
from hgk.machines import Rows, weighted_quantile
from hgk.model import Model
from hgk.spread import RankPlaces, Spread, spread_of
from hgk.targets import LabelBounds, label_bounds

ADAPTIVE, CONSTANT = "adaptive", "jackknife+"
INTERVAL_METHODS = (ADAPTIVE, CONSTANT)
# Rows whose leave-one-out functions make up an interval.
JACKKNIFE = 2000
# The least window, as a share of the rows; rows expected outside, of those in it; places at which it stands.
LEAST_WINDOW, EXPECTED_OUTSIDE, STANDS = 0.1, 25.0, 101
# How far leaving a row out may move its prediction for predictions to tell rows apart, in their standard deviations.
MOVED = 0.25
# Numbers that a block of rows and leave-one-out functions has.
BLOCK_OF_PAIRS = 2**22
# Rows whose σ is computed at a time.
BLOCK_OF_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class Adapted:
    """What makes the intervals of one output adapt.

    Attributes
    ----------
    places : RankPlaces
        Of leave-one-out predictions.
    u : tensor of shape (rows,)
        Those of the training rows.
    spread : Spread or None
    scores : tensor of shape (rows,)
        e_i.
    """

    places: RankPlaces
    u: torch.Tensor
    spread: Spread | None
    scores: torch.Tensor

    @classmethod
    def of(cls, model: Model, output: int, t: torch.Tensor, f: torch.Tensor) -> Adapted:
        """``t`` and ``f`` are decoded predictions of the training rows, left out and not."""
        rows = model.need_training("Intervals need").rows
        told_apart = tell_rows_apart(t[:, output], f[:, output], rows.weight)
        values = t[:, output] if told_apart else torch.zeros_like(t[:, output])
        places, r = RankPlaces.of(values, rows.weight), (rows.Y - t)[:, output]
        u = places(values)
        spread = spread_of(rows, u, r, model.machine.kernel)
        sigma = torch.ones_like(r) if spread is None else spread.leave_one_out()
        return cls(places, u, spread, model.optimism * r.abs() / sigma)

    def sigma(self, X: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(u) if self.spread is None else self.spread(X, u)

    def sizes(self, X: torch.Tensor, u: torch.Tensor, r: torch.Tensor, rows: Rows, index: torch.Tensor) -> torch.Tensor:
        """e_i σ^(-i)(x), (x, i), for training rows i with the enlarged residuals r."""
        if self.spread is None:
            return r
        scores = r / self.spread.leave_one_out()[index]
        return scores * self.spread.without_one(X, u, rows.X[index], self.u[index], index)

    def near(self, u: torch.Tensor, index: torch.Tensor, weight: torch.Tensor, level: float) -> torch.Tensor:
        """The weights of the training rows, 0 of those outside the window around each u."""
        share = window(weight, level)
        return weight if share == 1 else weight * self.places[index].near(u, share)

    def quantiles(self, u: torch.Tensor, weight: torch.Tensor, level: float) -> torch.Tensor:
        """Of the scores in the window around each place."""
        stands = torch.linspace(0, 1, STANDS, dtype=torch.float64)
        near = self.places.near(stands, window(weight, level))
        q = [weighted_quantile(self.scores[some], weight[some], level) for some in near]
        return torch.from_numpy(np.interp(u.numpy(), stands.numpy(), torch.stack(q).numpy()))


def adapted(model: Model) -> list[Adapted]:
    """For each output; computed when first asked for."""
    if "adapted" not in model.memo:
        rows = model.need_training("Intervals need").rows
        t, f = model.target.decode(model.leave_one_out()), model.target.decode(model.values(rows.X))
        with threads_for(len(rows), device_of("cpu")):
            model.memo["adapted"] = [Adapted.of(model, output, t, f) for output in range(t.shape[1])]
    return model.memo["adapted"]


def tell_rows_apart(t: torch.Tensor, f: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether predictions differ from row to row by more than leaving the row out moves them.

    Where they do not, as with noise alone, f^(-i)(x_i) is small because y_i is large, and would give r_i away.
    """
    share = weight / weight.sum()
    return float(share @ (f - t) ** 2) < MOVED**2 * float(share @ (t - share @ t) ** 2)


def window(weight: torch.Tensor, level: float) -> float:
    """The share of the rows in a window; at most 1."""
    return min(1.0, max(LEAST_WINDOW, EXPECTED_OUTSIDE / ((1 - level) * float(weight.sum()))))


def relative_weights(rows: Rows, index: torch.Tensor | slice = slice(None)) -> torch.Tensor:
    """Such that their sum over all rows is the number of repetitions that they amount to."""
    return rows.weight[index] * (rows.size / float(rows.weight.sum()))


# -------------------------------------------------------------------------------------------------------- intervals


def intervals(
    model: Model,
    features: torch.Tensor,
    levels: Sequence[float],
    method: str = ADAPTIVE,
    bounds: Sequence[LabelBounds] = (),
) -> np.ndarray:
    """Intervals at each level, in the unit of the labels and within the ``bounds`` of each: (levels, rows, labels, 2).

    Machines are factored at most once for all.
    """
    rows = model.need_training("Intervals need").rows
    if method == ADAPTIVE and len(rows) > JACKKNIFE:
        found = _of_one_function(model, features, levels)
    else:
        found = _of_functions_without_one(model, features, levels, adapted(model) if method == ADAPTIVE else None)
    return within(model.target.in_unit(found.numpy().swapaxes(2, 3)).swapaxes(2, 3), bounds)


def interval_bounds(model: Model, asked: LabelBounds | None) -> list[LabelBounds]:
    """Those asked for, for every label; None asks for what the training labels tell."""
    rows = model.need_training("Intervals need").rows
    return label_bounds(model.target, rows) if asked is None else [asked] * rows.Y.shape[1]


def within(ends: np.ndarray, bounds: Sequence[LabelBounds]) -> np.ndarray:
    """Both ends of intervals, (..., labels, 2), moved into the bounds of their label, if there are any."""
    if not any(bounds):
        return ends
    low, high = (np.array([getattr(each, end) for each in bounds])[:, None] for end in ("low", "high"))
    return np.clip(ends, low, high)


def _of_one_function(model: Model, features: torch.Tensor, levels: Sequence[float]) -> torch.Tensor:
    """f(x) ∓ q(u) σ(x)."""
    weight = relative_weights(model.need_training("Intervals need").rows)
    t, found = model.target.decode(model.values(features)), []
    with threads_for(len(features), device_of("cpu")):
        for one, predicted in zip(adapted(model), t.T, strict=True):
            u = one.places(predicted)
            parts = [one.sigma(features[block], u[block]) for block in blocks(len(features), BLOCK_OF_ROWS)]
            sigma = torch.cat(parts) if parts else u
            widths = torch.stack([one.quantiles(u, weight, level) * sigma for level in levels])
            found.append(torch.stack([predicted - widths, predicted + widths], -1))
    return torch.stack(found, 2)


def _of_functions_without_one(
    model: Model, features: torch.Tensor, levels: Sequence[float], adaptation: Sequence[Adapted] | None
) -> torch.Tensor:
    """Jackknife+, with σ and windows if there is an adaptation."""
    rows, device = model.need_training("Intervals need").rows, device_of(model.device)
    n, found = len(rows), []
    index = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(n)[:JACKKNIFE]))
    weight = relative_weights(rows, index)
    with threads_for(n, device), on_device(n, device):
        values, elsewhere = model.without_one(index)
        r = model.optimism * (rows.Y[index] - values).abs().T
        # one block of rows at a time: f^(-i)(x) is rows x 2000 x outputs
        for block in blocks(len(features), max(1, BLOCK_OF_PAIRS // (len(index) * model.machine.outputs))):
            X = features[block]
            t, ends = elsewhere(X), []
            for k in range(len(r)):
                sizes, weights = r[k], [weight] * len(levels)
                if adaptation is not None:
                    one = adaptation[k]
                    u = one.places(model.target.decode(model.values(X))[:, k])
                    sizes = one.sizes(X, u, r[k], rows, index)
                    weights = [one.near(u, index, weight, level) for level in levels]
                ends.append(jackknife(t[k], sizes, weights, levels))
            found.append(torch.stack(ends, 2))
    return torch.cat(found, 1)


def jackknife(
    t: torch.Tensor, sizes: torch.Tensor, weights: Sequence[torch.Tensor], levels: Sequence[float]
) -> torch.Tensor:
    """Quantiles of t ∓ sizes over the last axis, at each level with its weights: (levels, rows, 2)."""
    pairs = zip(weights, levels, strict=True)
    ends = [
        (weighted_quantile(sizes - t, weight, level).neg(), weighted_quantile(sizes + t, weight, level))
        for weight, level in pairs
    ]
    return torch.stack([torch.stack(pair, -1) for pair in ends])
