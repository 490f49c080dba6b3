"""Held-out risks from shared Krylov spaces against refits of every fold for every λ."""

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk.kernels import HierarchicalKernel, isotropic
from hgk.machines import Rows
from hgk.search import fold_numbers, grids, lam_grid, search
from hgk.solvers import krylov
from reference import fold_risks, machine

KERNEL = random_kernel(ARCHITECTURES["depth 2, balanced"])
LAMS = np.geomspace(0.1, 1e-6, 6)


def brute_force(K, rows, fold_of, lams):
    K, Y, s = K.numpy(), rows.Y.numpy(), rows.weight.numpy()
    t = np.full((len(lams), *Y.shape), np.nan)
    for i, lam in enumerate(lams):
        for b in range(fold_of.max() + 1):
            B, T = np.flatnonzero(fold_of == b), np.flatnonzero(fold_of != b)
            alpha = machine(K[np.ix_(T, T)], Y[T], s[T].sum() * lam, s[T])
            t[i, B] = K[np.ix_(B, T)] @ alpha
    return t


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("never", [False, True], ids=["all rows held out", "some rows never held out"])
def test_equals_refits(outputs, weighted, never):
    rows = random_rows(61, outputs=outputs, weighted=weighted)
    fold_of = fold_numbers(61, 4, np.random.default_rng(0))
    if never:
        fold_of[fold_of == 3] = -1
    K = torch.stack([KERNEL.with_gamma(g).matrix(rows.X) for g in (0.3, 1.0, 8.0)])
    found = fold_risks(
        K, rows.Y, torch.from_numpy(fold_of), torch.from_numpy(LAMS), rows.weight, clip=0.5, tol=1e-9, complete=True
    )
    assert bool(found.resolved.all())
    out = fold_of >= 0
    share = rows.weight.numpy()[out] / rows.weight.numpy()[out].sum()
    for g in range(3):
        t = brute_force(K[g], rows, fold_of, LAMS)
        np.testing.assert_allclose(found.predictions[g].numpy()[:, out], np.clip(t[:, out], -0.5, 0.5), atol=1e-6)
        risks = ((np.clip(t[:, out], -0.5, 0.5) - rows.Y.numpy()[out]) ** 2).sum(2) @ share
        np.testing.assert_allclose(found.risks[g], risks, rtol=1e-5)


def test_an_exhausted_krylov_space_stops_adding():
    """Rank two: after two steps there is nothing left to find, and rounding must not find it."""
    rows = random_rows(40)
    F = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 2)))
    fold_of = torch.arange(40) % 5
    found = fold_risks((F @ F.T)[None], rows.Y, fold_of, torch.from_numpy(LAMS), complete=True)
    expected = brute_force(F @ F.T, rows, fold_of.numpy(), LAMS)
    np.testing.assert_allclose(found.predictions[0], expected, atol=1e-8)
    assert found.steps < 40


def test_folds_exhausted_at_different_steps_in_single_precision():
    """Fold 0 trains on three distinct points, fold 1 on six; two outputs, one of them nearly zero."""
    rng = np.random.default_rng(0)
    base = rng.uniform(-1, 1, (9, 2))
    X = np.vstack([base[:3].repeat(5, 0), base[3:].repeat(5, 0)])
    fold_of = np.repeat([1, 0], [15, 30])
    kernel = HierarchicalKernel(isotropic(2), isotropic(2).start(np.ones(2), rng), gamma=0.5)
    Y = np.column_stack([np.sin(3 * X[:, 0]), 1e-3 * X[:, 1]])
    rows = Rows(*map(torch.from_numpy, (X, Y, np.ones(45))))
    K = kernel.matrix(rows.X)
    expected = brute_force(K, rows, fold_of, LAMS[:4])
    found = fold_risks(
        K.float()[None], rows.Y.float(), torch.from_numpy(fold_of), torch.from_numpy(LAMS[:4]), complete=True
    )
    np.testing.assert_allclose(found.predictions[0], expected, atol=1e-4)


def test_a_width_that_overtakes_late_is_not_given_up(monkeypatch):
    """Labels without noise: the best width needs many more steps than those that are good at once."""
    monkeypatch.setattr(grids, "STACK", 1)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 4))
    y = np.sin(2 * X).sum(1, keepdims=True) / 4
    rows = Rows(*map(torch.from_numpy, (X, y, np.ones(400))))
    kernel = HierarchicalKernel(isotropic(4), isotropic(4).start(np.ones(4), rng))
    fold_of = fold_numbers(400, 5, rng)
    quick = search(kernel, rows, fold_of, lam_grid(400), 1.0)
    complete = search(kernel, rows, fold_of, lam_grid(400), 1.0, dtype=torch.float64, complete=True)
    assert quick.best[0] == complete.best[0]
    assert quick.risk < 2 * complete.risk + 1e-7


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_early_stopping_in_single_precision_chooses_as_well_as_the_complete_double_precision_grid(noise):
    rng = np.random.default_rng(1)
    rows = random_rows(500, d=3, seed=2)
    rows.Y.copy_(torch.from_numpy(np.sin(3 * rows.X.numpy()[:, :1]) + noise * rng.standard_normal((500, 1))))
    kernel = HierarchicalKernel(isotropic(3), isotropic(3).start(np.ones(3), rng))
    fold_of, lams = fold_numbers(500, 5, rng), lam_grid(500)
    quick = search(kernel, rows, fold_of, lams, 1.0)
    complete = search(kernel, rows, fold_of, lams, 1.0, dtype=torch.float64, complete=True)
    assert complete.resolved.all()
    assert quick.resolved[quick.best]
    assert quick.products < complete.products
    # within the risk's own sampling error √(2/500), and most of the time equal
    assert complete.risks[quick.best] <= complete.risk * 1.05 + 1e-6
    np.testing.assert_allclose(quick.risk, complete.risks[quick.best], rtol=0.02, atol=1e-5)


@pytest.mark.parametrize("steps", [3, 15, 60])
def test_steps_in_place_are_the_same_steps(steps, monkeypatch):
    """What an accelerator records; its basis is enlarged after 10 steps, and twice again."""
    rows = random_rows(400, outputs=2, weighted=True)
    S = random_kernel(ARCHITECTURES["all kinds"]).exponent(rows.X)
    K = torch.stack([torch.exp(-S / 4), torch.exp(-S)])
    folds = torch.from_numpy(fold_numbers(400, 3, np.random.default_rng(0)))
    lams = torch.tensor([1e-1, 1e-4, 1e-8], dtype=torch.float64)
    asked = (K, rows.Y, folds, lams, rows.weight, 1.0, 0.0, steps, True)
    expected = fold_risks(*asked)
    monkeypatch.setattr(krylov, "accelerated", lambda x: True)
    monkeypatch.setattr(krylov, "FIRST_ROOM", 10)
    found = fold_risks(*asked)
    assert found.steps == expected.steps == steps
    torch.testing.assert_close(found.predictions, expected.predictions, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.risks, expected.risks, rtol=1e-6, atol=1e-9)
