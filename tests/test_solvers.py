"""Every solver under the same properties, how one is chosen, and one from outside."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, LOSSES, SOLVERS, random_kernel, random_rows
from hgk import HGKRegressor
from hgk.losses import Hinge, LeastSquares, Logistic, Loss
from hgk.solvers import Ask, BoxDual, Cholesky, Krylov, Newton, Solution, Solver, Status, base, choose, register
from hgk.solvers.convex import ConvexProblem
from hgk.solvers.nystrom import JITTER
from reference import machine

CASES = {
    f"{name}, {kind}": (solver, loss)
    for name, solver in SOLVERS.items()
    for kind, loss in LOSSES.items()
    if not solver.missing(loss)
}
each_case = pytest.mark.parametrize(("solver", "loss"), CASES.values(), ids=CASES.keys())
LAM = 1e-2
CLOSE = 1e-4  # of predictions: certified solvers end at a relative gap of 1e-10, the square of this
KERNEL = random_kernel(ARCHITECTURES["depth 2, balanced"])


@dataclass(frozen=True)
class Data:
    """Rows with weights and folds; K of all of them, of rows and centres, and of the centres."""

    K: torch.Tensor
    K_nM: torch.Tensor
    K_MM: torch.Tensor
    Y: torch.Tensor
    s: torch.Tensor
    fold_of: torch.Tensor

    @classmethod
    def of(cls, loss, n=40, outputs=1, weighted=True):
        rows = random_rows(n, outputs=outputs, weighted=weighted)
        Y = (rows.Y - rows.Y.mean()).sign() if loss.signs else rows.Y
        Z = rows.X[::4]
        fold_of = torch.arange(n) % 3
        return cls(KERNEL.matrix(rows.X), KERNEL.matrix(rows.X, Z), KERNEL.matrix(Z), Y, rows.weight, fold_of)

    def rows(self, index):
        K, K_nM = self.K[index][:, index], self.K_nM[index]
        return Data(K, K_nM, self.K_MM, self.Y[index], self.s[index], self.fold_of[index])

    def span(self, solver):
        """The kernel matrix of the function space that the solver works in."""
        if not solver.centres:
            return self.K
        return self.K_nM @ torch.linalg.solve(self.K_MM + JITTER * torch.eye(len(self.K_MM)), self.K_nM.T)


def state_of(solver, data):
    if solver.held_out:
        return solver.prepare(data.K, data.s, fold_of=data.fold_of)
    if solver.centres:
        return solver.prepare(data.K_nM, data.s, centres=data.K_MM)
    return solver.prepare(data.K, data.s)


def predictions(solver, loss, data, lam=LAM):
    """Of all rows; where the solver gives held-out ones, those."""
    state = state_of(solver, data)
    if solver.held_out:
        return solver.solve(state, data.Y, [lam], loss, complete=True).predictions[0]
    return (data.K_nM if solver.centres else data.K) @ solver.solve(state, data.Y, lam, loss).alpha


@each_case
def test_solutions_are_optimal(solver, loss):
    """The duality gap vanishes at α = -C u, u a subderivative at t; held-out predictions are those of refits."""
    data = Data.of(loss)
    t, y, s = predictions(solver, loss, data)[:, 0], data.Y[:, 0], data.s
    if solver.held_out:
        for fold in data.fold_of.unique():
            out, train = (data.fold_of == fold).numpy(), (data.fold_of != fold).numpy()
            K = data.K.numpy()
            alpha = machine(
                K[np.ix_(train, train)], y.numpy()[train, None], float(s[train].sum()) * LAM, s.numpy()[train]
            )
            np.testing.assert_allclose(t[out], (K[np.ix_(out, train)] @ alpha)[:, 0], atol=1e-8)
        return
    problem = ConvexProblem(data.span(solver), y, s, LAM, loss)
    alpha = solver.solve(state_of(solver, data), data.Y, LAM, loss).alpha[:, 0]
    alpha = -problem.C * loss.derivative(y, t) if solver.centres else alpha
    torch.testing.assert_close(problem.K @ alpha, t, rtol=0, atol=1e-8)
    gap, primal = problem.gap(alpha, t)
    assert float(gap / primal) < 1e-9


@each_case
def test_weights_are_repetitions(solver, loss):
    data = Data.of(loss)
    repeat = torch.repeat_interleave(torch.arange(40), data.s.long())
    repeated = data.rows(repeat)
    t = predictions(solver, loss, replace(repeated, s=torch.ones_like(repeated.s)))
    torch.testing.assert_close(t, predictions(solver, loss, data)[repeat], rtol=0, atol=CLOSE)


@each_case
def test_outputs_are_solved_as_if_alone(solver, loss):
    data = Data.of(loss, outputs=3)
    together = predictions(solver, loss, data)
    for k in range(3):
        alone = predictions(solver, loss, replace(data, Y=data.Y[:, [k]]))
        torch.testing.assert_close(together[:, [k]], alone, rtol=0, atol=CLOSE)


@each_case
def test_several_lambda_are_solved_as_if_alone(solver, loss):
    data, lams = Data.of(loss), [1.0, 1e-1, 1e-2]
    state = state_of(solver, data)
    if solver.held_out:
        together = solver.solve(state, data.Y, lams, loss, complete=True).predictions
    else:
        K = data.K_nM if solver.centres else data.K
        together = [K @ one.alpha for one in solver.path(state, data.Y, lams, loss)]
    for lam, t in zip(lams, together, strict=True):
        torch.testing.assert_close(t, predictions(solver, loss, data, lam), rtol=0, atol=CLOSE)


@each_case
def test_a_large_lambda_leaves_the_slope_at_zero(solver, loss):
    """λ f → -(1/2n) Σ s_i L'(y_i, 0) k(x_i, ·)."""
    data, lam = Data.of(loss), 1e7
    K, slope = data.span(solver), data.s[:, None] * loss.derivative(data.Y, torch.zeros_like(data.Y))
    train = data.fold_of != data.fold_of[:, None] if solver.held_out else torch.ones_like(K, dtype=torch.bool)
    expected = -(K * train) @ slope / (2 * (train * data.s).sum(1, keepdim=True))
    torch.testing.assert_close(lam * predictions(solver, loss, data, lam), expected, rtol=1e-5, atol=1e-6)


@each_case
def test_the_order_of_rows_does_not_matter(solver, loss):
    data, order = Data.of(loss), torch.from_numpy(np.random.default_rng(0).permutation(40))
    t = predictions(solver, loss, data.rows(order))
    torch.testing.assert_close(t, predictions(solver, loss, data)[order], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", ["krylov", "path"])
def test_risks_are_those_of_the_clipped_predictions(name):
    data, clip, lams = Data.of(LeastSquares(), outputs=2), 0.3, torch.logspace(0, -4, 5, dtype=torch.float64)
    data = replace(data, fold_of=torch.where(torch.arange(40) % 4 == 0, -1, data.fold_of))
    solver, out = SOLVERS[name], data.fold_of >= 0
    solution = solver.solve(state_of(solver, data), data.Y, lams, clip=clip, complete=True)
    share = data.s[out] / data.s[out].sum()
    assert float(solution.predictions[:, out].abs().max()) <= clip
    expected = ((solution.predictions[:, out] - data.Y[out]) ** 2).sum(2) @ share
    torch.testing.assert_close(solution.risks, expected)
    leave_one_out = solver.solve(solver.prepare(data.K), data.Y, lams[:1], complete=True).predictions[0]
    residuals = Cholesky().loo(Cholesky().prepare(data.K), data.Y, 39 / 40).residuals  # the same c = nλ
    torch.testing.assert_close(data.Y - leave_one_out, residuals, rtol=0, atol=1e-8)


def test_what_is_not_resolved_is_infinite_and_said():
    data = Data.of(LeastSquares(), n=60)
    solution = Krylov(1e-12, max_steps=4).solve(state_of(Krylov(), data), data.Y, [1e-6], complete=True)
    assert solution.status is Status.UNRESOLVED
    assert bool(solution.risks.isinf().all())


# -------------------------------------------------------------------------------------------- the choice


@pytest.fixture
def registry():
    """Leaves the registry as it was."""
    known = list(base._SOLVERS)
    yield
    base._SOLVERS[:] = known


def test_the_first_that_takes_what_is_asked_is_chosen(registry):
    asks = {
        "Cholesky": Ask(),
        "Spectral": Ask(lams=20),
        "Newton": Ask(LeastSquares(2.0, 1.0)),
        "BoxDual": Ask(Hinge()),
        "Nystrom": Ask(centres=True),
        "Krylov": Ask(held_out=True, outputs=3),
        "CholeskyPath": Ask(held_out=True, outputs=4),
    }
    assert {name: type(choose(ask)).__name__ for name, ask in asks.items()} == {name: name for name in asks}
    other, better = Newton(1e-3), Newton(1e-4)
    register(other)
    assert choose(Ask(Logistic())) == Newton()
    register(better, first=True)
    assert choose(Ask(Logistic())) is better


def test_a_precision_is_that_of_iterative_solvers():
    assert BoxDual().to_precision(1e-3, 0.5) == BoxDual(1e-3, floor=0.5)
    assert Newton().to_precision(1e-3, 0.5) == Newton(1e-3)
    assert Newton().to_precision() == Newton()
    solver = Cholesky()
    assert solver.to_precision(1e-3) is solver


def test_what_no_solver_takes_is_said_before_any_work():
    said = (
        "No solver takes the loss LogCosh as asked: BoxDual needs tube, Newton needs curvature; give the loss what one "
        "of them needs, or hgk.solvers.register a solver that takes it."
    )
    with pytest.raises(TypeError) as refused:
        choose(Ask(LogCosh(), certified=True))
    assert str(refused.value) == said
    with pytest.raises(TypeError, match=r"Nystrom gives coefficients, Krylov works on all rows.*ask for what"):
        choose(Ask(held_out=True, centres=True))
    with pytest.raises(TypeError, match=r"Cholesky was given Hinge, which has no quadratic; hgk\.solvers"):
        Cholesky().solve(Cholesky().prepare(torch.eye(2)), torch.ones(2, 1), 0.1, Hinge())


# ------------------------------------------------------------------------------- a solver from outside


@dataclass(frozen=True)
class LogCosh(Loss):
    """log cosh r: neither a box nor, as far as it says, a curvature."""

    lipschitz = 1.0

    def value(self, y, t):
        return (t - y).abs() + torch.nn.functional.softplus(-2 * (t - y).abs()) - np.log(2)

    def derivative(self, y, t):
        return torch.tanh(t - y)

    def domain(self, y):
        return -torch.ones_like(y), torch.ones_like(y)

    def conjugate(self, y, u):
        return u * y + (torch.xlogy(1 + u, 1 + u) + torch.xlogy(1 - u, 1 - u)) / 2


class GradientDescent(Solver):
    """f ← f - η (2λ f + (1/n) Σ s_i L'(y_i, f(x_i)) k(x_i, ·)), η the inverse of a Lipschitz constant."""

    needs = ("derivative", "lipschitz")
    certified = True

    def prepare(self, K, sample_weight=None):
        return K, torch.ones(len(K)).to(K) if sample_weight is None else sample_weight

    def solve(self, state, Y, lam, loss=None, start=None):
        K, s = state
        C, share = (s / (2 * lam * s.sum()))[:, None], (s / s.sum())[:, None]
        alpha = torch.zeros_like(Y) if start is None else start.alpha
        step = 1 / (2 * lam + loss.lipschitz * float(torch.linalg.matrix_norm(share.sqrt() * K * share.sqrt().T, 2)))
        for _ in range(20_000):
            alpha = alpha - step * (2 * lam * alpha + share * loss.derivative(Y, K @ alpha))
            candidate = -C * loss.derivative(Y, K @ alpha)
            gap = (share * loss.young(Y, K @ candidate, -candidate / C)).sum(0)
            if float(gap.max()) < 1e-6:
                break
        return Solution(candidate, stats={"gap": float(gap.max())})


def test_a_loss_and_a_solver_from_outside_are_fitted_by_registering_the_solver_alone(registry):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    model = HGKRegressor("plain", loss=LogCosh(), lam=1e-2, random_state=0)
    with pytest.raises(TypeError, match="No solver takes the loss LogCosh"):
        model.fit(X, y)
    register(GradientDescent())
    model.fit(X, y)
    assert model.machine_.gap_left < 1e-5
    assert model.score(X, y) > 0.8


def test_the_toy_is_right(registry):
    data, solver, loss = Data.of(LogCosh()), GradientDescent(), LogCosh()
    problem = ConvexProblem(data.K, data.Y[:, 0], data.s, LAM, loss)
    alpha = solver.solve(state_of(solver, data), data.Y, LAM, loss).alpha[:, 0]
    gap, primal = problem.gap(alpha, data.K @ alpha)
    assert float(gap / primal) < 1e-4
