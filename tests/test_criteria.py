"""Criteria: values by brute force, ∂J/∂K, ∂J/∂log λ and ∂J/∂W by finite differences."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import hgk
from cases import ARCHITECTURES, CRITERIA, random_kernel, random_rows
from hgk import HGKRegressor
from hgk.criteria import Criterion, HoldOut, KFold, LeaveOneOut, MarginalLikelihood, gram
from hgk.events import Step, of_kind
from hgk.kernels import two_layers
from hgk.optimisers import Adam
from hgk.storable import storable
from hgk.storage.codec import DocumentReader, DocumentWriter
from reference import held_out_residuals, machine

N = 24
each_criterion = pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA.keys())


def problem(outputs=2, architecture="all kinds"):
    rows = random_rows(N, outputs=outputs, weighted=True)
    kernel = random_kernel(ARCHITECTURES[architecture])
    return kernel, rows, kernel.matrix(rows.X)


def by_brute_force(criterion, K, Y, lam, s):
    K, Y, s = K.numpy(), Y.numpy(), s.numpy()
    if isinstance(criterion, HoldOut):
        D1, D2 = criterion.D1.numpy(), criterion.D2.numpy()
        alpha = machine(K[np.ix_(D1, D1)], Y[D1], s[D1].sum() * lam, s[D1])
        return ((Y[D2] - K[np.ix_(D2, D1)] @ alpha) ** 2).sum(1) @ s[D2] / s[D2].sum()
    c = s.sum() * lam
    if isinstance(criterion, MarginalLikelihood):
        A = K + c * np.diag(1 / s)
        fit = sum(y @ np.linalg.solve(A, y) for y in Y.T)
        return (fit + Y.shape[1] * np.linalg.slogdet(A)[1]) / (2 * s.sum())
    folds = [np.array([i]) for i in range(N)] if isinstance(criterion, LeaveOneOut) else criterion.folds
    return sum((held_out_residuals(K, Y, c, s, np.asarray(B)) ** 2).sum(1) @ s[B] for B in folds) / s.sum()


@pytest.mark.parametrize("lam", [1e-3, 0.1])
@each_criterion
def test_value_equals_brute_force(criterion, lam):
    _, rows, K = problem()
    value = criterion(K, rows.Y, lam, rows.weight).value.item()
    assert value == pytest.approx(by_brute_force(criterion, K, rows.Y, lam, rows.weight), rel=1e-9)


@each_criterion
def test_derivative_in_K_equals_finite_differences(criterion):
    _, rows, K = problem()
    found = criterion(K, rows.Y, 0.01, rows.weight)
    torch.testing.assert_close(found.dK, found.dK.T, rtol=0, atol=1e-12)
    rng, h = np.random.default_rng(0), 1e-6
    for _ in range(5):
        E = torch.from_numpy(rng.standard_normal((N, N)))
        E = E + E.T
        up, down = (criterion(K + sign * h * E, rows.Y, 0.01, rows.weight).value.item() for sign in (1, -1))
        assert float((found.dK * E).sum()) == pytest.approx((up - down) / (2 * h), rel=1e-5)


@each_criterion
def test_derivative_in_log_lambda_equals_finite_differences(criterion):
    _, rows, K = problem()
    h = 1e-5
    up, down = (criterion(K, rows.Y, 0.01 * np.exp(sign * h), rows.weight).value.item() for sign in (1, -1))
    assert criterion(K, rows.Y, 0.01, rows.weight).dlog_lam.item() == pytest.approx((up - down) / (2 * h), rel=1e-5)


@pytest.mark.parametrize("architecture", ["depth 2, balanced", "all kinds", "all kinds, depth 3", "depth 4"])
@each_criterion
def test_every_weight_gradient_equals_finite_differences(criterion, architecture):
    kernel, rows, K = problem(architecture=architecture)

    def J(W):
        return criterion(kernel.with_weights(W).matrix(rows.X), rows.Y, 0.01, rows.weight).value.item()

    gradient, h = kernel.backward(criterion(K, rows.Y, 0.01, rows.weight).dK, rows.X), 1e-5
    for layer, mask in enumerate(kernel.architecture.free()):
        for index in map(tuple, mask.nonzero().tolist()):
            up, down = [w.clone() for w in kernel.W], [w.clone() for w in kernel.W]
            up[layer][index] += h
            down[layer][index] -= h
            numeric = (J(tuple(up)) - J(tuple(down))) / (2 * h)
            assert float(gradient[layer][index]) == pytest.approx(numeric, rel=2e-4, abs=1e-8)


def test_k_fold_with_single_rows_is_leave_one_out():
    _, rows, K = problem()
    one = LeaveOneOut()(K, rows.Y, 0.01, rows.weight)
    other = KFold(tuple(torch.tensor([i]) for i in range(N)))(K, rows.Y, 0.01, rows.weight)
    assert one.value.item() == pytest.approx(other.value.item())
    torch.testing.assert_close(one.dK, other.dK)


@pytest.mark.parametrize(("n", "m"), [(1, 3), (24, 24), (128, 5), (300, 41)])
def test_gram_is_the_product_with_the_transpose(n, m):
    A = torch.randn(n, m, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    torch.testing.assert_close(gram(A), A @ A.T, rtol=1e-12, atol=1e-12)


def test_single_precision_gives_the_gradient_of_double():
    """Of the inverse and its products only; below nλ = 10⁻³ all is in double precision."""
    rows = random_rows(200, weighted=True)
    kernel = random_kernel(ARCHITECTURES["all kinds"])
    K = kernel.matrix(rows.X).float()
    for lam in (1e-1, 1e-4, 1e-7):
        single = LeaveOneOut(single=True)(K, rows.Y, lam, rows.weight)
        double = LeaveOneOut()(K, rows.Y, lam, rows.weight)
        exact = float(rows.weight.sum()) * lam < 1e-3
        assert single.dK.dtype == (torch.float64 if exact else torch.float32)
        assert single.value.item() == pytest.approx(double.value.item(), rel=0 if exact else 1e-4)
        error = (single.dK - double.dK).norm() / double.dK.norm()
        assert float(error) < (1e-12 if exact else 1e-3)
        assert single.dlog_lam.item() == pytest.approx(double.dlog_lam.item(), rel=1e-3, abs=1e-9)


@storable
@dataclass(frozen=True)
class Widened(Criterion):
    """Leave-one-out, and a multiple of the mean (1 - K)²."""

    strength: float = 0.1

    def __call__(self, K, Y, lam, s, count=None):
        J, a = LeaveOneOut()(K, Y, lam, s, count), self.strength
        return replace(J, value=J.value + a * ((1 - K) ** 2).mean(), dK=J.dK - 2 * a * (1 - K) / K.numel())


def test_a_criterion_from_outside_is_what_a_fit_minimises_and_a_file_keeps(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3))
    y = np.sin(3 * X[:, 0])

    def fitted(criterion):
        optimiser = Adam(steps=20, batch=60, rate=0.2, criterion=criterion)
        return HGKRegressor(architecture=two_layers(3, 2, 2), optimiser=optimiser, random_state=0).fit(X, y)

    def values(model):
        return [event.criterion for event in of_kind(model.history_, Step)]

    usual, same, widened = map(fitted, (None, Widened(0.0), Widened(10.0)))
    np.testing.assert_allclose(values(same), values(usual), rtol=1e-2)  # but for single precision

    assert max(values(usual)) < 1
    assert values(widened)[0] > 4
    assert values(widened)[-1] < values(widened)[0] - 2  # more than leave-one-out alone could fall
    hgk.save(widened, tmp_path / "model.hgk")
    back = hgk.load(tmp_path / "model.hgk")
    assert back.optimiser.criterion == Widened(10.0)
    np.testing.assert_array_equal(back.predict(X), widened.predict(X))


def _batch():
    _, rows, K = problem()
    return K, rows.Y, 0.01, rows.weight


@each_criterion
def test_criteria_can_be_stored(criterion):
    encoder = DocumentWriter()
    document = encoder(Adam(criterion=criterion))
    back = DocumentReader(encoder.arrays)(document, Adam).criterion
    assert type(back) is type(criterion)
    torch.testing.assert_close(back(*_batch()).dK, criterion(*_batch()).dK, rtol=0, atol=0)
