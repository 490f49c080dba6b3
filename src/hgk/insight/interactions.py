"""How far the joint effect of two columns is from the sum of theirs.

With rows z of a background and x_ab, the row z with the cells of the columns a and b from x, and so on, the part of f
that a and b have only together is

    h_ab(x) = mean over z of  f(x_ab) - f(x_a) - f(x_b) + f(z),

which is 0 for f = g(without a) + h(without b). It is the difference of partial dependences in

    H²_ab = Σ_i h_ab(x_i)² / Σ_i f_ab(x_i)²,      f_ab(x) = mean over z of f(x_ab), both centred

(Friedman and Popescu, 2008). H says how much of the joint effect is interaction, however little that effect is. How
much the interaction matters is what predictions of unseen rows lose without it,

    Σ_i s_i (L(y_i, f(x_i) - h_ab(x_i)) - L(y_i, f(x_i))) / Σ_i s_i min_t L(y_i, t),

where f stands for f^(-i), which has not seen row i, all along: the unit is that of importances, and a function that was
bent to the noise of its rows shows nothing. Effects of classes add up in logarithms of probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch

from hgk.estimators import HGKEstimator
from hgk.importance import noise_level
from hgk.insight.fitted import column_indices, column_names
from hgk.permutation import FEWEST_ROWS, PERMUTED, PERMUTED_PAIRS, SUMMED, Scored, Unseen

# Columns among which interactions are looked for, and background rows for each row.
MOST_COLUMNS, BACKGROUND = 8, 10
# Interactions that matter less than this are none.
NEGLIGIBLE = 1e-3


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions of pairs of columns.

    Attributes
    ----------
    columns : list of int
        The columns that were looked at, by number, and ``names``.
    names : list of str
    pairs : list of (int, int)
        All pairs of them, by number, the smaller one first.
    mean, error : ndarray of shape (pairs,)
        What predictions of unseen rows lose without the interaction, in the unit of importances; standard errors.
    H : ndarray of shape (pairs,)
        The share of the joint effect, 0 to 1 but for chance.
    measure : str
    rows : int
    """

    columns: list[int]
    names: list[str]
    pairs: list[tuple[int, int]]
    mean: np.ndarray
    error: np.ndarray
    H: np.ndarray
    measure: str
    rows: int

    @property
    def carries(self) -> np.ndarray:
        """Where the loss is more than noise, and more than a thousandth of the loss of the best constant: no function
        that was learned adds up exactly.
        """
        return self.mean > np.maximum(noise_level(len(self.pairs), self.rows) * self.error, NEGLIGIBLE)

    @property
    def shown(self) -> np.ndarray:
        """The mean, and exactly 0 where it is within noise."""
        return np.where(self.carries, self.mean, 0.0)

    @property
    def order(self) -> np.ndarray:
        """Pairs from the strongest one; those within noise by their means."""
        return np.lexsort((-self.mean, -self.shown))

    @property
    def strongest(self) -> list[tuple[int, int]]:
        """The pairs that interact, the strongest first."""
        return [self.pairs[p] for p in self.order if self.carries[p]]


def interactions(
    model: HGKEstimator, columns: Sequence[int | str] | None = None, *, rows: int | None = None, random_state: int = 0
) -> Interactions:
    """The interactions among some columns, from predictions of unseen rows.

    Parameters
    ----------
    model : HGKRegressor, HGKQuantileRegressor or HGKClassifier
        Fitted, and not compressed or from a compact file.
    columns : sequence of int or str, optional
        By default the most important ones, eight at most.
    rows : int, optional
        Training rows that are predicted, at most; by default so many that it takes seconds.
    random_state : int, default=0

    Returns
    -------
    Interactions

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import interactions
    >>> model = HGKRegressor("plain", random_state=0).fit(*make_friedman1(200, random_state=0))
    >>> interactions(model).strongest
    [(0, 1)]
    """
    fitted = model.model_
    fitted.need_training("Interactions need")
    if columns is None:
        found = model.importance_
        asked = [int(j) for j in found.order if found.carries[j]][:MOST_COLUMNS]
    else:
        asked = list(dict.fromkeys(column_indices(model, columns)))
    names = [column_names(model)[j] for j in asked]
    pairs = list(combinations(range(len(asked)), 2))
    judge = Scored.of(fitted)
    if not pairs:
        nothing = np.zeros(0)
        return Interactions(asked, names, [], nothing, nothing, nothing, judge.measure, 0)
    rng = np.random.default_rng(random_state)
    unseen = Unseen.of(fitted, rows or _rows(len(fitted.machine.X), len(asked) + len(pairs)), rng)
    told = _Joint.of(model, judge, unseen, asked, rng)
    unit = judge.of_best_constant or 1.0
    mean, error, H = (
        np.array(part) for part in zip(*(told.strength(judge, unseen, a, b) for a, b in pairs), strict=True)
    )
    numbered = [(min(asked[a], asked[b]), max(asked[a], asked[b])) for a, b in pairs]
    return Interactions(asked, names, numbered, mean / unit, error / unit, H, judge.measure, len(unseen.index))


def _rows(summed: int, parts: int) -> int:
    return max(FEWEST_ROWS, int(min(PERMUTED, PERMUTED_PAIRS / min(summed, SUMMED)) / (BACKGROUND * parts)))


@dataclass(frozen=True, eq=False)
class _Joint:
    """Means over the background of scores with no cell of the row, with those of one column, of two; and at the row."""

    at_row: torch.Tensor
    none: torch.Tensor
    one: list[torch.Tensor]
    two: dict[tuple[int, int], torch.Tensor]

    @classmethod
    def of(
        cls, model: HGKEstimator, judge: Scored, unseen: Unseen, asked: list[int], rng: np.random.Generator
    ) -> _Joint:
        given, owner = model.model_.training.rows, model.model_.inputs.encoder.owner  # type: ignore[union-attr]
        weight, X = given.weight.numpy(), unseen.rows.X
        drawn = rng.choice(len(given), BACKGROUND, p=weight / weight.sum())
        Z = given.X[torch.from_numpy(drawn)][:, None].expand(-1, len(X), -1)

        def mean(columns: Sequence[int]) -> torch.Tensor:
            from_row = torch.from_numpy(np.isin(owner, [asked[a] for a in columns]))
            scores = judge.scores(unseen.at(torch.where(from_row, X, Z)).flatten(0, 1))
            return scores.reshape(BACKGROUND, len(X), -1).mean(0)

        one = [mean([a]) for a in range(len(asked))]
        two = {pair: mean(pair) for pair in combinations(range(len(asked)), 2)}
        return cls(judge.scores(unseen.at(X)), mean([]), one, two)

    def strength(self, judge: Scored, unseen: Unseen, a: int, b: int) -> tuple[float, float, float]:
        """The loss without the interaction, its standard error, and H."""
        share = (unseen.rows.weight / unseen.rows.weight.sum())[:, None]

        def centred(values: torch.Tensor) -> torch.Tensor:
            return values - (share * values).sum(0)

        h = centred(self.two[a, b] - self.one[a] - self.one[b] + self.none)
        joint = float((share * centred(self.two[a, b]) ** 2).sum())
        H = (float((share * h**2).sum()) / joint) ** 0.5 if joint > 0 else 0.0
        Y = unseen.rows.Y
        return *unseen.rows.mean(judge.losses(Y, self.at_row - h) - judge.losses(Y, self.at_row)), H
