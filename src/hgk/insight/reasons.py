"""Reasons for a prediction by column: Shapley values.

For a row x, a background row z and a set S of columns, v_z(S) is the prediction of the row that has the columns of S
from x and the others from z (all features of a column move together, missing cells, too). With d columns,

    φ_j  =  mean over z of  Σ_{S ∌ j} |S|! (d - |S| - 1)! / d!  (v_z(S ∪ j) - v_z(S))         Σ_j φ_j = f(x) - mean f(z)

The sum over all sets is taken where there are few columns. Else every z has a random order of the columns and its
reverse, and φ_j is the mean of what j adds to the columns before it:

    φ_j(z)  =  ½ (v_z(before j and j) - v_z(before j)) + ½ (v_z(after j and j) - v_z(after j))

which is exact for functions without interactions of three columns or more, and sums to f(x) - f(z) for every order.

Of many training rows some are taken as background, spread evenly over the predictions. What the mean prediction m of
all of them and the mean over those taken differ by is made up for by regression on f(z), whose slopes b_j sum to -1:

    φ_j + b_j (m - mean f(z)),      Σ_j φ_j = f(x) - m.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import factorial
from typing import Any

import numpy as np
import torch

from hgk.arrays import blocks
from hgk.estimators import HGKEstimator
from hgk.insight.fitted import cell, column_names, output_names
from hgk.model import Model
from hgk.permutation import SUMMED, without_own

# Columns up to which all sets may be asked for, and up to which they are taken unasked; the background that needs.
MOST_ENUMERATED, ENUMERATED, FEWEST_ENUMERATED = 14, 8, 32
# Pairs of a prediction and a row that f sums over, for one explained row: by all sets, and by orders of the columns.
PAIRS_OF_SETS, PAIRS_OF_ORDERS = 2e7, 5e6
# Background rows, and orders of columns.
FEWEST_BACKGROUND, MOST_BACKGROUND = 10, 100
# Rows that the mean prediction is over, and rows predicted at a time.
ROWS_OF_MEAN, ROWS_AT_A_TIME = 5000, 2**15
LEAST_ODDS = 1e-12
SCALES = ("prediction", "log_odds")


@dataclass(frozen=True, eq=False)
class Reasons:
    """What each column adds to a prediction; names are those of ``shap.Explanation``.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features), or (n_samples, n_features, n_outputs)
        φ. Over columns they sum to the prediction minus ``base_values``.
    base_values : ndarray of shape (n_samples,), or (n_samples, n_outputs)
        The mean prediction.
    data : ndarray of shape (n_samples, n_features)
        The rows as numbers, categories as codes, NaN for missing cells.
    display_data : ndarray of shape (n_samples, n_features)
        The same as texts.
    feature_names, output_names : list of str
    errors : ndarray, as ``values``
        Standard errors, from how much φ differs between background rows and orders of columns; 0 where there is no such
        chance.
    exact : bool
        Whether all sets of columns were tried; then the background alone is a sample, if it is one.
    background : int
        How many background rows there were.
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    display_data: np.ndarray
    feature_names: list[str]
    output_names: list[str]
    errors: np.ndarray
    exact: bool
    background: int

    def to_shap(self) -> Any:
        """A ``shap.Explanation``, as the plots of the package shap take it."""
        try:
            shap = importlib.import_module("shap")
        except ImportError as error:
            raise ImportError(
                "to_shap makes an object of the package shap, which is not installed; pip install shap."
            ) from error
        several = self.values.ndim == 3
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data,
            display_data=self.display_data,
            feature_names=self.feature_names,
            output_names=self.output_names if several else None,
        )


def reasons(
    model: HGKEstimator,
    X: Any = None,
    *,
    rows: Sequence[int] | None = None,
    background: Any = None,
    exact: bool | None = None,
    of: str = "prediction",
    random_state: int = 0,
) -> Reasons:
    """Shapley values of predictions, by column.

    Parameters
    ----------
    model : HGKRegressor, HGKQuantileRegressor or HGKClassifier
        Fitted.
    X : table, optional
        The rows to explain.
    rows : sequence of int, optional
        In place of X: training rows, as they were given to ``fit`` and counted from 0. Each is explained by the
        function that has not seen it.
    background : int or table, optional
        Rows that columns are taken from where they are not those of the explained row: so many training rows, or these
        rows. By default 10 to 100 training rows, such that a hundred explained rows take seconds, or all of fewer. (A
        compact or compressed model has the rows that it sums over in their place.)
    exact : bool, optional
        Whether to try all sets of columns, which are 2 to the power of their number; by default where that takes
        seconds, with up to 8 columns and some thousand rows.
    of : {"prediction", "log_odds"}, default="prediction"
        For classes: the probabilities, or their log-odds.
    random_state : int, default=0

    Returns
    -------
    Reasons
        Of one output, or with one more axis for several; of two classes, of the second.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import reasons
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HGKRegressor("plain", random_state=0).fit(X, y)
    >>> found = reasons(model, X[:2])
    >>> found.values.shape, bool(abs(found.values[0].sum() + found.base_values[0] - model.predict(X[:1])[0]) < 1e-9)
    ((2, 10), True)
    """
    _check(X, rows, exact, of)
    fitted, rng = model.model_, np.random.default_rng(random_state)
    asked = _asked(model, X, rows, of)
    d, summed = asked.table.shape[1], min(SUMMED, len(fitted.machine.X))
    given = _given_background(model, background)
    enumerated = _enumerates(d, summed, None if given is None else len(given.rows), exact)
    behind = given or _of_training(fitted, asked, _many(d, summed, background, enumerated), rng)
    designs = [all_sets(d)] if enumerated else [in_order(rng.permutation(d)) for _ in range(_orders(behind))]
    values, base, errors = _shapley(asked, behind, designs, fitted.inputs.encoder.owner)
    if len(output_names(model)) == 1:
        values, base, errors = values[..., 0], base[..., 0], errors[..., 0]
    texts = [[cell(model, j, x) for j, x in enumerate(row)] for row in asked.table]
    names = list(column_names(model)), output_names(model)
    shown = np.array(texts, dtype=object).reshape(asked.table.shape)
    return Reasons(values, base, asked.table, shown, *names, errors, enumerated, len(behind.rows))


def _check(X: Any, rows: Any, exact: Any, of: str) -> None:
    if (X is None) == (rows is None):
        raise ValueError(
            "Both or none of X and rows were given; give one, a table of rows to explain or numbers of training rows."
        )
    if of not in SCALES:
        raise ValueError(f"of={of!r} was given; {' or '.join(map(repr, SCALES))} is expected.")
    if exact not in (None, True, False):
        raise ValueError(f"exact={exact!r} was given; True, False or None is expected.")


# ---------------------------------------------------------------------------------------------- what is explained

Values = Callable[[torch.Tensor, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows to explain: their cells, their features, and predictions (rows, outputs) of features, given the number of
    the explained row that each is for.
    """

    table: np.ndarray
    features: torch.Tensor
    values: Values
    unseen: bool  # whether every explained row has a function of its own


def _asked(model: HGKEstimator, X: Any, rows: Sequence[int] | None, of: str) -> Asked:
    fitted, out = model.model_, _scale(model, of)
    if rows is None:
        table = model.table(X)
        features = torch.from_numpy(fitted.inputs.encoder(table))
        return Asked(table, features, lambda F, _: out(fitted.values(F)), False)
    training = fitted.need_training("Reasons for training rows need")
    place = _places(rows, training.place)
    index, own = np.unique(place, return_inverse=True)
    without = without_own(fitted, torch.from_numpy(index))

    def values(F: torch.Tensor, number: np.ndarray) -> np.ndarray:
        return out(without(F, torch.from_numpy(own[number])))

    return Asked(training.table[place], training.rows.X[torch.from_numpy(place)], values, True)


def _places(rows: Sequence[int], place: np.ndarray) -> np.ndarray:
    given = np.asarray(rows)
    sound = (
        given.ndim == 1 and given.dtype.kind in "iu" and len(given) > 0 and 0 <= given.min() <= given.max() < len(place)
    )
    if not sound:
        raise ValueError(f"rows={rows!r} was given; numbers of training rows from 0 to {len(place) - 1} are expected.")
    if (place[given] < 0).any():
        raise ValueError("A training row of weight 0 was named, which no function has seen; explain it by X.")
    return place[given]


def _scale(model: HGKEstimator, of: str) -> Callable[[torch.Tensor], np.ndarray]:
    """From a machine's values to what is explained."""
    target = model.model_.calibrated
    if of == "prediction":
        return target.responses
    if not target.classes:
        raise ValueError("of='log_odds' was given to a regression; it is for probabilities of classes.")

    def log_odds(t: torch.Tensor) -> np.ndarray:
        p = np.clip(target.responses(t), LEAST_ODDS, 1 - LEAST_ODDS)
        return np.log(p) - np.log1p(-p)

    return log_odds


# ------------------------------------------------------------------------------------------------ the background


@dataclass(frozen=True, eq=False)
class Background:
    """Features of background rows, their shares, whether they are a sample, and the mean prediction of all that it is
    from, where that is known.
    """

    rows: torch.Tensor
    share: np.ndarray
    sample: bool = False
    mean: np.ndarray | None = None


def _given_background(model: HGKEstimator, background: Any) -> Background | None:
    if background is None or isinstance(background, int | np.integer):
        if isinstance(background, bool) or (background is not None and background < 1):
            raise ValueError(f"background={background!r} was given; a table, or a number of rows >= 1, is expected.")
        return None
    features = model.features(background)
    return Background(features, np.full(len(features), 1 / len(features)))


def _of_training(model: Model, asked: Asked, many: int, rng: np.random.Generator) -> Background:
    """So many training rows, evenly over the predictions; all, if there are no more."""
    if model.training is None:
        X, weight = model.machine.X.double(), torch.ones(len(model.machine.X), dtype=torch.float64)
    else:
        X, weight = model.training.rows.X, model.training.rows.weight
    kept = torch.from_numpy(np.sort(rng.permutation(len(X))[:ROWS_OF_MEAN]))
    X, share = X[kept], (weight[kept] / weight[kept].sum()).numpy()
    if len(X) <= many:
        return Background(X, share)
    # functions that have not seen a row have hardly another order, and a mean of their own
    values = (
        model.calibrated.responses(model.values(X)) if asked.unseen else asked.values(X, np.zeros(len(X), dtype=int))
    )
    order = np.argsort(values @ _direction(values, share), kind="stable")
    places = np.searchsorted(share[order].cumsum(), (np.arange(many) + rng.uniform()) / many, side="right")
    taken = order[np.minimum(places, len(order) - 1)]
    return Background(
        X[torch.from_numpy(taken)], np.full(many, 1 / many), True, None if asked.unseen else share @ values
    )


def _direction(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """In which several outputs differ most."""
    centred = values - share @ values
    return np.linalg.eigh(centred.T @ (share[:, None] * centred))[1][:, -1]


def _enumerates(d: int, summed: int, background: int | None, exact: bool | None) -> bool:
    if exact and d > MOST_ENUMERATED:
        raise ValueError(
            f"exact=True was given for {d} columns, which have 2 to the power of {d} sets; up to {MOST_ENUMERATED} are "
            "expected, so leave exact out."
        )
    if exact is not None:
        return exact
    return d <= 2 or (d <= ENUMERATED and 2**d * (background or FEWEST_ENUMERATED) * summed <= PAIRS_OF_SETS)


def _many(d: int, summed: int, background: int | None, enumerated: bool) -> int:
    if background is not None:
        return int(background)
    fewest, of_row = (FEWEST_ENUMERATED, 2**d) if enumerated else (FEWEST_BACKGROUND, 2 * d)
    pairs = PAIRS_OF_SETS if enumerated else PAIRS_OF_ORDERS
    return int(np.clip(pairs / (of_row * summed), fewest, MOST_BACKGROUND))


def _orders(behind: Background) -> int:
    """One for each background row, several where these are few."""
    return len(behind.rows) * -(-FEWEST_BACKGROUND // len(behind.rows))


# ------------------------------------------------------------------------------------------------ Shapley values


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Sets of columns, the empty one first, that of all last, and φ = weights · v: sets x columns, columns x sets."""

    sets: np.ndarray
    weights: np.ndarray


def all_sets(d: int) -> Coalitions:
    sets = (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(bool)
    size = sets.sum(1)
    of_size = np.array([factorial(k) * factorial(d - k - 1) / factorial(d) for k in range(d)] + [0.0])
    weights = np.where(sets.T, of_size[size - 1], -of_size[size])
    return Coalitions(sets, weights)


def in_order(order: np.ndarray) -> Coalitions:
    """The sets of columns before each in the order, and those after each."""
    d = len(order)
    before = np.argsort(order) < np.arange(d + 1)[:, None]  # the first 0, 1, ..., d
    sets = np.concatenate([before[:-1], ~before[1:-1], before[-1:]])
    weights, last = np.zeros((d, len(sets))), len(sets) - 1
    first = [*range(d), last]  # places of the sets before, and of those after: nothing is before all
    others = [last, *range(d, 2 * d - 1), 0]
    for j, (small, large), (more, fewer) in zip(order, pairwise(first), pairwise(others), strict=True):
        for place, by in ((large, 0.5), (small, -0.5), (more, 0.5), (fewer, -0.5)):
            weights[j, place] += by
    return Coalitions(sets, weights)


def _shapley(
    asked: Asked, behind: Background, designs: Sequence[Coalitions], owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ (rows, columns, outputs), base values (rows, outputs), and standard errors."""
    rounds = max(1, len(designs) // len(behind.rows))
    share = np.tile(behind.share, rounds) / rounds
    of_pair = [designs[b % len(designs)] for b in range(len(share))]
    told = []
    for i in range(len(asked.table)):
        at_x = asked.values(asked.features[i : i + 1], np.array([i]))[0]
        if i == 0 or asked.unseen:
            at_z = np.tile(asked.values(behind.rows, np.full(len(behind.rows), i)), (rounds, 1))
        phi = _of_row(asked, i, behind, of_pair, owner, at_x, at_z)
        told.append(_summed_up(phi, share, at_z, behind.mean, certain=len(designs) == 1 and not behind.sample))
    values, base, errors = (np.stack(part) for part in zip(*told, strict=True))
    return values, base, errors


def _of_row(
    asked: Asked, i: int, behind: Background, designs: Sequence[Coalitions], owner: np.ndarray, at_x, at_z
) -> np.ndarray:
    """φ of one row for every background row, (background, columns, outputs)."""
    x, many = asked.features[i], len(behind.rows)
    sets = np.concatenate([design.sets[1:-1] for design in designs])
    z = torch.from_numpy(np.repeat(np.arange(len(designs)) % many, [len(design.sets) - 2 for design in designs]))
    masks = torch.from_numpy(sets)[:, torch.from_numpy(owner)]
    between = [
        asked.values(torch.where(masks[part], x, behind.rows[z[part]]), np.full(part.stop - part.start, i))
        for part in blocks(len(z), ROWS_AT_A_TIME)
    ]
    ends = np.cumsum([len(design.sets) - 2 for design in designs])[:-1]
    v = np.split(np.concatenate([*between, at_z[:0]]), ends)
    return np.stack(
        [design.weights @ np.concatenate([at_z[b : b + 1], v[b], at_x[None]]) for b, design in enumerate(designs)]
    )


def _summed_up(
    phi: np.ndarray, share: np.ndarray, at_z: np.ndarray, mean: np.ndarray | None, certain: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means over background rows; where these are a sample, moved to the mean prediction of all."""
    base, mean_phi = share @ at_z, np.tensordot(share, phi, 1)
    centred, apart = at_z - base, phi - mean_phi
    if mean is not None:
        variance = share @ centred**2
        slope = np.einsum("b,bk,bjk->jk", share, centred, apart) / np.where(variance > 0, variance, 1.0)
        moved = np.where(variance > 0, mean - base, 0.0)
        mean_phi, base, apart = mean_phi + slope * moved, base + moved, apart - slope * centred[:, None]
    if certain:
        return mean_phi, base, np.zeros_like(mean_phi)
    freedom = max(1.0, 1 / float(share @ share) - (2 if mean is not None else 1))
    return mean_phi, base, np.sqrt(np.tensordot(share, apart**2, 1) / freedom)
