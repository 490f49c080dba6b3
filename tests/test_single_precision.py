"""Predictions in single precision, where their rounding is a small part of the noise; double precision elsewhere."""

import pickle

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, D, random_kernel
from hgk import HGKRegressor
from hgk.kernels import HierarchicalKernel, MeanKernel
from hgk.kernels.sweeps import processor
from hgk.machines import MeanOfMachines, Rows, base, exact, train

N = base.ROUNDED_FROM


def rows_of(n, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, D))
    y = np.sin(3 * X[:, :1]) + 0.1 * np.random.default_rng(seed + 1).standard_normal((n, 1))
    return Rows(torch.from_numpy(X), torch.from_numpy(y), torch.ones(n, dtype=torch.float64))


def mean_of(*names):
    return MeanKernel.of([random_kernel(ARCHITECTURES[name], seed) for seed, name in enumerate(names)], [1.0, 2.0])


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """As after the first fit or prediction of a process."""
    monkeypatch.setattr(processor, "at_hand", lambda: True)


def test_predictions_differ_by_little_and_not_by_who_else_is_predicted():
    machine, new = train(mean_of("all kinds", "smooth and rough"), rows_of(N), 1e-4), rows_of(50, seed=5).X
    t, exact = machine(new), machine.kernel.multiply(new, machine.X, machine.alpha)
    assert machine.in_single is not None
    assert t.dtype == torch.float64
    assert 0 < float((t - exact).abs().max()) < 10 * base.LARGEST_ROUNDING
    assert torch.equal(machine(new[7:8]), t[7:8])
    assert torch.equal(MeanOfMachines((machine, machine))(new), t)


def test_what_predictions_keep_is_not_pickled():
    rows = rows_of(N)
    model = HGKRegressor("plain", random_state=0, lam=1e-3).fit(rows.X.numpy(), rows.Y.numpy()[:, 0])
    before, t = len(pickle.dumps(model)), model.predict(rows.X.numpy())
    assert model.machine_.in_single is not None
    assert len(pickle.dumps(model)) == before
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(rows.X.numpy()), t)


def test_a_row_too_large_for_single_precision_is_predicted_in_double():
    """0 · ∞ is no number: nodes that do not see a column have weight 0 there."""
    machine = train(random_kernel(ARCHITECTURES["smooth and rough"]), rows_of(N), 1e-4)
    new = rows_of(5, seed=5).X
    new[:, 1] = torch.tensor([2e19, 1e30, 1e39, -1e76, 0.0], dtype=torch.float64)
    assert machine.in_single is not None
    assert bool(machine(new).isfinite().all())
    assert torch.equal(machine(new), machine.kernel.multiply(new, machine.X, machine.alpha))


def test_where_next_to_no_noise_is_assumed_double_precision_is_taken():
    machine, new = train(mean_of("all kinds", "smooth and rough"), rows_of(N), 1e-15), rows_of(50, seed=5).X
    assert machine.in_single is None
    assert torch.equal(machine(new), machine.kernel.multiply(new, machine.X, machine.alpha))


@pytest.mark.parametrize("case", ["few rows", "not compiled yet", "a tree that the loops do not take"])
def test_otherwise_double_precision_is_taken(case, monkeypatch):
    if case == "not compiled yet":
        monkeypatch.setattr(processor, "at_hand", lambda: False)
    name = "depth 4" if case.startswith("a tree") else "smooth and rough"
    machine = train(random_kernel(ARCHITECTURES[name]), rows_of(N - 1 if case == "few rows" else N), 1e-4)
    new = rows_of(50, seed=5).X
    assert torch.equal(machine(new), machine.kernel.multiply(new, machine.X, machine.alpha))


def test_functions_without_single_rows_round_where_the_machine_may(monkeypatch):
    """Where its own kernel matrix may be computed in single precision, so may theirs."""
    rows, index, new = rows_of(400), torch.arange(0, 400, 7), rows_of(30, seed=5).X
    machine = train(mean_of("all kinds", "smooth and rough"), rows, 1e-3)

    def told():
        values, elsewhere = machine.without_one(rows, index)
        return values, elsewhere(new), machine.leave_two_out(rows, index[:9])

    exactly, precisions = told(), set()
    compute = HierarchicalKernel.matrix
    monkeypatch.setattr(exact, "WORTH_IT", 100)
    monkeypatch.setattr(
        HierarchicalKernel, "matrix", lambda self, X, Z=None: precisions.add(X.dtype) or compute(self, X, Z)
    )
    for one, other in zip(told(), exactly, strict=True):
        assert one.dtype == torch.float64
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert precisions == {torch.float32}
