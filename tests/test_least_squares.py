"""The least-squares machine against scikit-learn, against repetition, and against brute-force refits."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from cases import ARCHITECTURES, SOLVERS, random_kernel, random_rows
from hgk.machines import Machine, average, loo_average, train
from hgk.solvers import Cholesky, Status
from reference import held_out_residuals, machine

CLOSE = 1e-8
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS.keys())
lams = pytest.mark.parametrize("lam", [1e-5, 1e-2, 1.0])
KERNEL = random_kernel(ARCHITECTURES["depth 2, balanced"])


def problem(n=40, outputs=2, weighted=False):
    rows = random_rows(n, outputs=outputs, weighted=weighted)
    return KERNEL.matrix(rows.X), rows.Y, rows.weight


@lams
@each_solver
def test_agrees_with_kernel_ridge_at_alpha_n_lambda(solver, lam):
    K, Y, _ = problem()
    expected = KernelRidge(alpha=40 * lam, kernel="precomputed").fit(K.numpy(), Y.numpy()).dual_coef_
    np.testing.assert_allclose(solver.solve(solver.prepare(K), Y, lam).alpha, expected, rtol=1e-6, atol=1e-8)


@lams
@each_solver
def test_solution_minimises_the_regularised_risk(solver, lam):
    """The gradient of λ‖f‖² + (1/n) Σ s (y - f)² in α is 2K(λα - (s/n)(y - Kα)) and vanishes."""
    K, Y, s = problem(weighted=True)
    alpha = solver.solve(solver.prepare(K, s), Y, lam).alpha
    gradient = K @ (lam * alpha - (s / s.sum())[:, None] * (Y - K @ alpha))
    assert float(gradient.abs().max()) < 1e-10


@each_solver
def test_integer_weights_are_repetitions(solver):
    K, Y, s = problem(weighted=True)
    repeat = torch.repeat_interleave(torch.arange(40), s.long())
    weighted = solver.solve(solver.prepare(K, s), Y, 1e-3).alpha
    repeated = solver.solve(solver.prepare(K[repeat][:, repeat]), Y[repeat], 1e-3).alpha
    f = K[:, repeat] @ repeated
    torch.testing.assert_close(K @ weighted, f, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
@lams
@each_solver
def test_leave_one_out_equals_refits(solver, lam, weighted):
    K, Y, s = problem(weighted=weighted)
    found = solver.loo(solver.prepare(K, s), Y, lam)
    residuals = found.residuals
    torch.testing.assert_close(found.alpha, solver.solve(solver.prepare(K, s), Y, lam).alpha)
    brute = [
        held_out_residuals(K.numpy(), Y.numpy(), float(s.sum()) * lam, s.numpy(), np.array([i]))[0] for i in range(40)
    ]
    np.testing.assert_allclose(residuals, brute, atol=CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
@each_solver
def test_k_fold_equals_refits_and_marks_rows_in_no_fold(solver, weighted):
    K, Y, s = problem(weighted=weighted)
    folds = [torch.arange(0, 13), torch.tensor([20, 15, 39]), torch.tensor([14])]
    residuals = solver.kfold(solver.prepare(K, s), Y, 1e-3, folds).residuals
    for B in folds:
        brute = held_out_residuals(K.numpy(), Y.numpy(), float(s.sum()) * 1e-3, s.numpy(), B.numpy())
        np.testing.assert_allclose(residuals[B], brute, atol=CLOSE)
    assert bool(residuals[13].isnan().all())


@each_solver
def test_a_singular_matrix_is_solved_and_what_was_added_is_reported(solver):
    rows = random_rows(20)
    X = torch.cat([rows.X, rows.X])  # every row twice: rank 20 of 40
    Y = torch.cat([rows.Y, rows.Y])
    solution = solver.solve(solver.prepare(KERNEL.matrix(X)), Y, 0.0)
    assert solution.status is Status.RIDGE_ADDED
    assert 0 < solution.stats["ridge_added"] < 1e-6
    torch.testing.assert_close(KERNEL.matrix(X) @ solution.alpha, Y, rtol=0, atol=1e-4)
    regular = solver.solve(solver.prepare(KERNEL.matrix(X)), Y, 1e-3)
    assert regular.status is Status.SOLVED
    assert regular.stats["ridge_added"] == 0.0


@pytest.mark.parametrize("seed", range(20))
@each_solver
def test_a_pivot_that_is_rounding_counts_as_singular(solver, seed):
    """A row twice with two labels: rounding may let the factorisation pass, with coefficients of 1e15."""
    rows = random_rows(30, seed=seed)
    X, Y = torch.cat([rows.X, rows.X[:1]]), torch.cat([rows.Y, rows.Y[:1] + 1])
    found = solver.solve(solver.prepare(KERNEL.matrix(X)), Y, 0.0)
    assert found.status is Status.RIDGE_ADDED
    assert float(found.alpha.abs().max()) < 1e14
    assert solver.loo(solver.prepare(KERNEL.matrix(X)), Y, 0.0).stats["ridge_added"] > 0


@each_solver
def test_a_tiny_positive_pivot_counts_as_rounding(solver):
    K, Y = torch.diag(torch.tensor([1.0, 1e-17], dtype=torch.float64)), torch.ones(2, 1, dtype=torch.float64)
    found = solver.solve(solver.prepare(K), Y, 0.0)
    assert found.status is Status.RIDGE_ADDED
    assert float(found.alpha.abs().max()) < 1e16


@each_solver
def test_an_indefinite_matrix_is_refused(solver):
    K, Y, _ = problem()
    with pytest.raises(ValueError, match="positive semi-definite"):
        solver.solve(solver.prepare(-K), Y, 1e-3)


def test_negative_lambda_and_weights_of_zero_are_refused():
    K, Y, s = problem()
    with pytest.raises(ValueError, match=r"lam=-0\.1"):
        Cholesky().solve(Cholesky().prepare(K), Y, -0.1)
    with pytest.raises(ValueError, match="Sample weights must be positive"):
        Cholesky().prepare(K, s * 0)


def test_training_a_machine_uses_the_weights():
    rows = random_rows(30, weighted=True)
    K, s = KERNEL.matrix(rows.X).numpy(), rows.weight.numpy()
    expected = machine(K, rows.Y.numpy(), s.sum() * 1e-3, s)
    np.testing.assert_allclose(train(KERNEL, rows, 1e-3).alpha, expected, atol=CLOSE)


def test_averaged_machine_is_the_mean_of_its_parts_and_so_are_its_leave_one_out_predictions():
    rows = random_rows(30, weighted=True)
    parts = [torch.arange(0, 20), torch.arange(10, 30)]
    together = train(KERNEL, rows, 1e-3, parts)
    singles = [train(KERNEL, rows[part], 1e-3) for part in parts]
    X = random_rows(15, seed=7).X
    expected = torch.stack([m(X) for m in singles]).mean(0)
    torch.testing.assert_close(together(X), expected, rtol=0, atol=CLOSE)
    torch.testing.assert_close(average([together], X, 0.2), expected.clamp(-0.2, 0.2), rtol=0, atol=CLOSE)

    loo = loo_average([together], rows, 1.0)
    torch.testing.assert_close(loo_average([together], rows, 0.1), loo.clamp(-0.1, 0.1))
    assert bool((loo.abs() > 0.1).any())
    for i in (3, 15, 27):  # in the first part, in both, in the second
        t = []
        for part in parts:
            c = float(rows.weight[part].sum()) * 1e-3
            rest = part[part != i]
            A = KERNEL.matrix(rows.X[rest]) + c * torch.diag(1 / rows.weight[rest])
            t.append(KERNEL.matrix(rows.X[i : i + 1], rows.X[rest]) @ torch.linalg.solve(A, rows.Y[rest]))
        assert float(loo[i]) == pytest.approx(float(torch.stack(t).mean().clamp(-1, 1)), abs=CLOSE)
    assert isinstance(together, Machine)
