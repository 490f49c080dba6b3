"""Exact explanations, from quantities that a fit already has.

A prediction is a sum over training rows. With kernels m of shares p_m (which sum to 1),

    f(x) = Σ_i c_i(x),    c_i(x) = Σ_m p_m α_i^m k_m(x_i, x),

clipped to [-1, 1] and, for regression, y = middle + half · f (a label of few values may come from f by
:mod:`hgk.targets.few_values`). What stands between x and a training row x_i is a sum over the children of each tree's
top node, with weights w_j and kernels k_j:

    -log k_m(x_i, x) = γ⁻² Σ_j 2 w_j² (1 - k_j(x_i, x))

The influence of training row i at x is f(x) - f^(-i)(x), where f^(-i) is trained without row i (of equal rows, without
one of them), the kernel and c = nλ unchanged; it comes from the factor of the machine, without training again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hgk.arrays import require_memory, row_blocks, threads_for
from hgk.estimators import HGKEstimator
from hgk.events import Judged, of_kind
from hgk.kernels import HierarchicalKernel, Sweep
from hgk.model import Model, Training


@dataclass(frozen=True, eq=False)
class Contributions:
    """Predictions as sums over training rows, of which the k largest terms are named.

    Attributes
    ----------
    base : ndarray of shape (n_outputs,)
        The middle of the training labels, with the offset of a quantile's level; 0 for classification.
    value : ndarray of shape (n_samples, n_outputs)
        base + the sum of all contributions: the prediction before clipping (and before quantiles are put in order), or
        the value of the decision function (of pairs of classes, where all are against all). A regression that has taken
        a column for each of few values of the label has an output for each, like classes.
        Where a label of two values has a power, it is the prediction before clipping and before the power.
    rows : ndarray of shape (n_samples, n_outputs, k)
        Which rows of the machine contribute most, in the order of size: indices into ``machine_.X`` (of ``X_fit_``,
        where the machine is exact).
    contribution, similarity : ndarray of shape (n_samples, n_outputs, k)
        Their terms, in the unit of the labels, and their kernel values Σ p_m k_m.
    rest : ndarray of shape (n_samples, n_outputs)
        The sum of all other contributions.
    """

    base: np.ndarray
    value: np.ndarray
    rows: np.ndarray
    contribution: np.ndarray
    similarity: np.ndarray
    rest: np.ndarray


def contributions(model: HGKEstimator, X, k: int | None = 5) -> Contributions:
    """The training rows that matter most for the predictions at ``X``; ``k=None`` takes all of them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import contributions
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HGKRegressor("plain", random_state=0).fit(X, y)
    >>> largest = contributions(model, X[:1])
    >>> total = largest.base + largest.contribution.sum(-1) + largest.rest
    >>> bool(abs(total[0, 0] - model.predict(X[:1])[0]) < 1e-9)
    True
    """
    features, machine = model.features(X), model.machine_
    n, outputs = len(machine.X), machine.outputs
    k = n if k is None else k
    if not (isinstance(k, int) and k >= 1):
        raise ValueError(f"k={k!r} was given; a whole number >= 1 is expected, or None for all rows.")
    k = min(k, n)
    base, scale = model.model_.target.unit()
    shape = len(features), outputs, k
    rows, terms, similar = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape)
    value = np.empty(shape[:2])
    for block in row_blocks(len(features), n * outputs):
        c, mean = machine.similarities(features[block])
        order = c.abs().argsort(dim=-1, descending=True, stable=True)[..., :k]
        rows[block] = order.numpy()
        terms[block] = c.gather(-1, order).numpy()
        similar[block] = mean[:, None, :].expand(-1, outputs, -1).gather(-1, order).numpy()
        value[block] = c.sum(-1).numpy()
    total, terms = base + scale * value, terms * scale[:, None]
    return Contributions(base, total, rows, terms, similar, total - base - terms.sum(-1))


def node_terms(kernel: HierarchicalKernel, x: torch.Tensor, Z: torch.Tensor) -> np.ndarray:
    """γ⁻² 2 w_j² (1 - k_j(x, z)) for the rows z of ``Z`` and the children j of the top node; sums to -log k(x, z).

    At depth 1 there is one node, the top. ``x`` is one row of features, as are those of ``Z``.
    """
    depth = kernel.architecture.depth
    if depth == 1:
        return kernel.exponent(x.reshape(1, -1), Z).T.numpy() * kernel.gamma**-2
    sweep = Sweep(kernel, x.reshape(1, -1), Z)
    _, layers = sweep.kernels((slice(0, 1), slice(0, len(Z))))
    w2 = 2 * kernel.W[depth - 1] ** 2
    return torch.stack([w * (1 - k[0]) for w, k in zip(w2, layers[-1], strict=True)], 1).numpy() * kernel.gamma**-2


def given_rows(model: HGKEstimator) -> np.ndarray:
    """For every row of the machine, the number of a row as it was given to ``fit``: the first of equal ones."""
    training = model.model_.need_training("The numbers of training rows need")
    rows = list({id(machine.X): machine.X for machine in model.machine_.parts_of()}.values())
    return np.concatenate([_numbers_of(X, training) for X in rows])


def _numbers_of(X: torch.Tensor, training: Training) -> np.ndarray:
    """Of all distinct rows, or of some of them, such as centres."""
    if len(X) == len(training.rows):
        return training.first
    known = training.rows.X.to(X.dtype).numpy()
    place = {row.tobytes(): i for i, row in reversed(list(enumerate(known)))}
    return training.first[[place[row.tobytes()] for row in np.ascontiguousarray(X.numpy())]]


def influence(model: HGKEstimator, X=None) -> np.ndarray:
    """f(x) - f^(-i)(x) for every training row i, in the unit of the labels.

    Parameters
    ----------
    model : HGKRegressor or HGKClassifier
        Fitted, and not from a compact file.
    X : array-like, optional
        Where to look; by default every training row is looked at where it stands itself, which shows how much the
        model leans on a row's own label.

    Returns
    -------
    ndarray of shape (n_training,) or (n_samples, n_training), with several outputs one more axis in the end
        Training rows in the order they were given; of equal rows each leaves alone, rows of weight 0 have no influence.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import influence
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HGKRegressor("plain", random_state=0).fit(X, y)
    >>> influence(model).shape, influence(model, X[:3]).shape
    ((442,), (3, 442))
    """
    fitted = model.model_
    training, target = fitted.need_training("Influences need"), fitted.target
    _need_influence(fitted)
    if X is None:
        change = fitted.decoded(training.rows.X) - target.decode(fitted.leave_one_out()).numpy()
    else:
        change = _changes(fitted, model.features(X))
    of_given = training.as_given(change * target.scale, axis=0 if X is None else 1)
    return of_given[..., 0] if target.single else of_given


@dataclass(frozen=True, eq=False)
class Without:
    """Predictions, or probabilities of classes, and what they would be without single training rows.

    Attributes
    ----------
    now : ndarray of shape (n_samples, n_outputs)
    values : ndarray of shape (n_samples, n_distinct, n_outputs)
        Distinct training rows, as in ``X_fit_``; of equal rows one leaves.
    """

    now: np.ndarray
    values: np.ndarray


def predictions_without(model: HGKEstimator, X) -> Without:
    """What predictions would be without each training row, in the unit of predictions; :func:`influence` is of
    decision values, where these are classes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import predictions_without
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HGKRegressor("plain", random_state=0).fit(X, y)
    >>> without = predictions_without(model, X[:1])
    >>> most = abs(without.now[:, None] - without.values)[0, :, 0].argmax()  # the row that it leans on most
    """
    fitted = model.model_
    fitted.need_training("Influences need")
    _need_influence(fitted)
    target, features = fitted.calibrated, model.features(X)
    decoded = fitted.target.decode(fitted.values(features))
    without = torch.from_numpy(decoded.numpy()[:, None] - _changes(fitted, features))
    out = target.responses if target.classes else lambda t: target.in_unit(t.numpy())
    values = out(without.flatten(0, 1)).reshape(*without.shape[:2], -1)
    return Without(out(decoded), values)


def _need_influence(model: Model) -> None:
    if model.machine.held_out is not None:
        raise ValueError(
            "influence was asked of a model with another loss than least squares, for which alone it is exact; fit "
            "with loss='least_squares' and multi_class='ovr'."
        )


def _changes(model: Model, X: torch.Tensor) -> np.ndarray:
    """f(x) - f^(-i)(x), rows x training rows x labels."""
    rows = model.need_training("Influences need").rows
    require_memory(len(X), len(rows), 3 * model.machine.outputs, rows.X.dtype, "Influences of all rows")
    with threads_for(len(rows)):
        _, elsewhere = model.without_one(torch.arange(len(rows)))
        without = elsewhere(X).numpy()
    return (model.decoded(X).T[:, :, None] - without).transpose(1, 2, 0)


def plain_remark(model: HGKEstimator) -> str | None:
    """A sentence where every kernel is the plain Gaussian one, whose shares tell nothing about columns.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import plain_remark
    >>> plain_remark(HGKRegressor("plain").fit(*make_friedman1(30, random_state=0)))
    'the kernel is the plain Gaussian one, which weights all columns alike and tells nothing about them'
    """
    tried = [str(judged.candidate) for judged in of_kind(model.history_, Judged)]
    return remark_on_plain(all(kernel.is_plain for _, kernel, _, _ in model.machine_.terms), tried)


def remark_on_plain(plain: bool, tried: Sequence[str]) -> str | None:
    """The sentence of :func:`plain_remark`, from what a file's summary says."""
    if not plain:
        return None
    if any(kind != "plain" for kind in tried):
        return "the plain Gaussian kernel was as good as any learned one, so the kernel tells nothing about columns"
    return "the kernel is the plain Gaussian one, which weights all columns alike and tells nothing about them"
