"""Rows that were given several times: everything is as if each repetition were a row of its own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor
from hgk.arrays import memory
from hgk.criteria import LeaveOneOut
from hgk.estimators.preparation import task_of as prepared_task
from hgk.kernels import MeanKernel
from hgk.losses import Hinge
from hgk.machines import Rows, train, train_on_centres
from hgk.progress import Progress
from hgk.search import Choice, Convex, divide, fold_numbers
from hgk.solvers.base import SQUARED
from tasks import numbers, task_of

N, LAM = 14, 0.02


def counted(outputs=2, unit=1.0, seed=0):
    """Rows with counts of 1, 2 and 3, each repetition of weight ``unit``; and the same with all repetitions apart."""
    rows = random_rows(N, outputs=outputs, seed=seed)
    count = torch.arange(N).remainder(3).double() + 1
    merged = Rows(rows.X, rows.Y, unit * count, count)
    apart = torch.arange(N).repeat_interleave(count.long())
    return merged, Rows(rows.X[apart], rows.Y[apart], torch.full((len(apart),), unit, dtype=torch.float64)), apart


def kernels():
    return [random_kernel(ARCHITECTURES[name], seed) for seed, name in enumerate(("all kinds", "smooth and rough"))]


def without(kernel, rows, left, lam=LAM):
    """The function trained, at the same c, without some rows."""
    keep = torch.tensor([i for i in range(len(rows)) if i not in left])
    c = float(rows.weight.sum()) * lam
    A = kernel.matrix(rows.X[keep]) + c * torch.diag(1 / rows.weight[keep])
    alpha = torch.linalg.solve(A, rows.Y[keep])
    return lambda X: kernel.matrix(X, rows.X[keep]) @ alpha


# ------------------------------------------------------------------------------------------------- the criterion


@pytest.mark.parametrize("unit", [1.0, 0.3])
def test_leave_one_out_leaves_one_repetition(unit):
    merged, apart, _ = counted(unit=unit)
    kernel = kernels()[0]
    own = LeaveOneOut()(kernel.matrix(merged.X), merged.Y, LAM, merged.weight, merged.count).value.item()
    residuals = torch.stack(
        [apart.Y[i] - without(kernel, apart, [i])(apart.X[i : i + 1])[0] for i in range(len(apart))]
    )
    assert own == pytest.approx(float((residuals**2).sum(1).mean()), rel=1e-9)


def test_the_gradient_of_the_criterion_equals_finite_differences():
    merged, *_ = counted()
    K, h = kernels()[0].matrix(merged.X), 1e-6

    def value(K, lam):
        return LeaveOneOut()(K, merged.Y, lam, merged.weight, merged.count).value.item()

    found = LeaveOneOut()(K, merged.Y, LAM, merged.weight, merged.count)
    for i, j in [(0, 0), (2, 2), (1, 5), (4, 11)]:
        E = torch.zeros_like(K)
        E[i, j] = E[j, i] = 1.0
        slope = (value(K + h * E, LAM) - value(K - h * E, LAM)) / (2 * h)
        assert float((found.dK * E).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-9)
    slope = (value(K, LAM * np.exp(h)) - value(K, LAM * np.exp(-h))) / (2 * h)
    assert found.dlog_lam.item() == pytest.approx(slope, rel=1e-5)


# -------------------------------------------------------------------------------------------------- the machines


def exact(rows):
    return train(kernels()[0], rows, LAM), kernels()[0]


def on_mean(rows):
    mean = MeanKernel(tuple(kernels()), (0.25, 0.75))
    return train(mean, rows, LAM), mean


def values_and_elsewhere(machine, rows, X, index):
    """f^(-i)(x_i), and f^(-i) at X."""
    own, elsewhere = machine.without_one(rows, index)
    return own, elsewhere(X)


@pytest.mark.parametrize("machine_on", [exact, on_mean])
def test_machines_without_one_and_without_two_repetitions_equal_refits(machine_on):
    merged, apart, origin = counted(unit=0.5)
    machine, kernel = machine_on(merged)
    X, some = random_rows(5, seed=9).X, torch.tensor([0, 1, 2, 5, 9])
    own, elsewhere = values_and_elsewhere(machine, merged, X, some)
    two = machine.leave_two_out(merged, some)
    first = [int((origin == i).nonzero()[0]) for i in some]
    for a, i in enumerate(first):
        f = without(kernel, apart, [i])
        torch.testing.assert_close(own[a], f(apart.X[i : i + 1])[0])
        torch.testing.assert_close(elsewhere[:, :, a], f(X).T)
        for b, j in enumerate(first):
            if i != j:
                torch.testing.assert_close(two[:, a, b], without(kernel, apart, [i, j])(apart.X[i : i + 1])[0])


def test_a_machine_on_centres_without_one_repetition_equals_that_of_single_rows():
    merged, apart, origin = counted()
    kernel, centres, none = kernels()[0], torch.arange(6), torch.zeros(0, dtype=torch.int64)
    one = train_on_centres(kernel, merged, [LAM], centres, none, 1.0, Progress())
    first = torch.stack([(origin == i).nonzero()[0, 0] for i in range(N)])
    two = train_on_centres(kernel, apart, [LAM], first[:6], none, 1.0, Progress())
    X, some = random_rows(5, seed=9).X, torch.arange(N)
    merged_values, apart_values = values_and_elsewhere(one, merged, X, some), values_and_elsewhere(two, apart, X, first)
    for mine, other in zip(merged_values, apart_values, strict=True):
        torch.testing.assert_close(mine, other)
    different = ~torch.eye(N, dtype=torch.bool)
    mine, other = one.leave_two_out(merged, some), two.leave_two_out(apart, first)
    torch.testing.assert_close(mine[:, different], other[:, different])


def divided(rows, folds=3, seed=0):
    pieces = divide(rows.count.numpy(), folds, np.random.default_rng(seed))
    task = task_of(pieces.of(rows), [LAM], distinct=rows, origin=torch.from_numpy(pieces.origin))
    return replace(task, fold_of=pieces.fold_of)


def test_fold_machines_on_distinct_rows_are_those_on_pieces():
    merged, *_ = counted()
    task, kernel = divided(merged), kernels()[0]
    own = train(kernel, task.whole, LAM, [task.part(b) for b in task.folds])
    parts = [task.training_part(b) for b in task.folds]
    pieces = train(kernel, task.rows, LAM, [(part, task.rows.weight[part]) for part in parts])
    X, some = random_rows(5, seed=9).X, torch.arange(N)
    torch.testing.assert_close(own(X), pieces(X))
    # leave-one-out: the mean over the repetitions of a row, wherever they are held out
    mine, there = values_and_elsewhere(own, merged, X, some)
    values, elsewhere = values_and_elsewhere(pieces, task.rows, X, torch.arange(len(task.rows)))
    for i in range(N):
        at = task.origin == i
        share = task.rows.count[at] / task.rows.count[at].sum()
        torch.testing.assert_close(mine[i], share @ values[at])
        torch.testing.assert_close(there[:, :, i], elsewhere[:, :, at] @ share)
    # leave-two-out: the mean over pairs of repetitions of two rows
    two, pairs = own.leave_two_out(merged, some), pieces.leave_two_out(task.rows, torch.arange(len(task.rows)))
    torch.testing.assert_close(two.diagonal(dim1=1, dim2=2).T, mine)
    for i, j in [(0, 1), (2, 5), (5, 2), (8, 11)]:
        at = [task.origin == k for k in (i, j)]
        shares = [task.rows.count[a] / task.rows.count[a].sum() for a in at]
        torch.testing.assert_close(two[:, i, j], pairs[:, at[0]][:, :, at[1]] @ shares[1] @ shares[0])


def test_a_machine_of_a_loss_on_pieces_is_gathered_on_distinct_rows():
    merged, *_ = counted(outputs=1)
    merged = Rows(merged.X, merged.Y.sign(), merged.weight, merged.count)
    task = divided(merged)
    choice = Choice(1.0, (LAM,), 0.0)
    chosen = [(kernels()[0], 1.0)]
    machine = Convex(Hinge()).mean_machine(chosen, task.rows, task.fold_of, choice, Progress(), {0: [0]})
    values = torch.randn(machine.held_out.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    machine = replace(machine, held_out=values)  # those of pieces of one row may be equal, on the hinge's edge
    found, X = task.gathered(machine), random_rows(5, seed=9).X
    torch.testing.assert_close(found(X), machine(X))
    assert torch.equal(found.X, merged.X)
    for i in range(N):
        at = task.origin == i
        apart = at & (machine.aside > 0)
        speak = apart if apart.any() else at
        share = task.rows.weight[speak] / task.rows.weight[speak].sum()
        torch.testing.assert_close(found.held_out[i], share @ machine.held_out[speak])
        assert float(found.aside[i]) == pytest.approx(float(task.rows.weight[apart].sum() / merged.weight[i]))


# ------------------------------------------------------------------------------------------------------ folds


def test_folds_divide_repetitions_at_random_and_strata_evenly():
    rng = np.random.default_rng(0)
    count, strata = rng.integers(1, 30, 40).astype(float), rng.integers(0, 3, 40)
    pieces = divide(count, 5, rng, strata)
    held = np.zeros((40, 5))
    held[pieces.origin, pieces.fold_of] = pieces.share * count[pieces.origin]
    np.testing.assert_allclose(held.sum(1), count)
    np.testing.assert_allclose(held, held.round(), atol=1e-9)
    for rows in (np.full(40, True), *(strata == s for s in range(3))):
        assert np.ptp(held[rows].sum(0)) < 1 + 1e-9
    # of every row as many as chance has it: hypergeometric, nearly the variance of a binomial
    expected = count[:, None] * 0.2 * 0.8 * (count.sum() - count[:, None]) / (count.sum() - 1)
    assert ((held - count[:, None] / 5) ** 2 / expected).mean() == pytest.approx(1, abs=0.35)
    capped = divide(count, 5, rng, most=2)
    assert np.bincount(capped.origin).max() == 2
    np.testing.assert_allclose(np.bincount(capped.origin, weights=capped.share), 1)


def test_rows_given_once_are_dealt_out_one_by_one():
    pieces = divide(np.ones(13), 5, np.random.default_rng(3))
    assert np.array_equal(pieces.origin, np.arange(13))
    assert np.array_equal(pieces.fold_of, fold_numbers(13, 5, np.random.default_rng(3)))
    assert sorted(np.bincount(pieces.fold_of)) == [2, 2, 3, 3, 3]


# -------------------------------------------------------------------------------------------------- estimators


def noisy(n=120, levels=4, seed=0):
    """Few distinct rows, noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n, 2)).astype(float)
    return X, X[:, 0] - X[:, 1] + rng.integers(-1, 2, n), rng


ESTIMATORS = {
    "default regressor": HGKRegressor(random_state=0),
    "plain regressor": HGKRegressor("plain", random_state=0),
    "algorithm 1": HGKRegressor("algorithm1", random_state=0),
    "absolute loss": HGKRegressor("plain", loss="epsilon_insensitive", random_state=0),
    "default classifier": HGKClassifier(random_state=0),
    "logistic": HGKClassifier(loss="logistic", random_state=0),
    "hinge, pairs": HGKClassifier("plain", loss="hinge", multi_class="ava", random_state=0),
    "balanced": HGKClassifier("plain", class_weight="balanced", random_state=0),
    "quantiles": HGKQuantileRegressor("plain", quantiles=[0.2, 0.8], random_state=0),
}


@pytest.mark.parametrize("model", ESTIMATORS.values(), ids=ESTIMATORS)
def test_a_whole_weight_is_a_repetition_and_the_order_is_irrelevant(model):
    X, y, rng = noisy()
    y = np.clip(y, -1, 1)
    weight = rng.integers(0, 4, len(y))
    order = rng.permutation(int(weight.sum()))
    repeated = np.repeat(np.arange(len(y)), weight)[order]

    one, two = clone(model).fit(X, y, sample_weight=weight), clone(model).fit(X[repeated], y[repeated])
    said = "predict_proba" if isinstance(model, HGKClassifier) else "predict"
    np.testing.assert_allclose(getattr(one, said)(X), getattr(two, said)(X), atol=1e-8)
    np.testing.assert_allclose(one.loo_predictions_[repeated], two.loo_predictions_, atol=1e-8)
    if isinstance(model, HGKRegressor) and model.loss == "least_squares":
        np.testing.assert_allclose(one.predict_interval(X[:9], 0.7), two.predict_interval(X[:9], 0.7), atol=1e-8)


def test_lambda_counts_rows_as_they_were_given():
    X, y, _ = noisy(500)
    model = HGKRegressor("plain", random_state=0).fit(X, y)
    rows = model.model_.training.rows
    assert len(rows) < 100
    assert rows.size == rows.given == 500
    relative = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=np.full(500, 0.37))
    rows = relative.model_.training.rows
    assert rows.size == pytest.approx(500)  # other weights are relative
    assert rows.given == 500
    np.testing.assert_allclose(relative.predict(X), model.predict(X), atol=0.05)


def same_and_different(n=60, d=3):
    """Every third x twice, every fifth a third time, in any order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X = np.concatenate([X, X[::3], X[::5]])[rng.permutation(n + 20 + 12)]
    return Rows(torch.from_numpy(X), torch.zeros(len(X), 1), torch.ones(len(X), dtype=torch.float64))


def test_rows_of_one_x_have_one_number():
    rows = same_and_different()
    X = rows.X.numpy()
    equal = (X[:, None] == X[None]).all(2)
    assert np.array_equal(rows.same_x[:, None] == rows.same_x[None], equal)
    assert rows[torch.arange(92)[np.unique(rows.same_x, return_index=True)[1]]].same_x is None


def test_a_sample_has_all_rows_of_an_x_or_none_and_every_row_as_often():
    rows, rng, often = same_and_different(), np.random.default_rng(1), np.zeros(92)
    for _ in range(3000):
        drawn = rows.sample.draw(rng, 30)
        assert len(drawn) == len(set(drawn.tolist())) == 30
        often[drawn] += 1
        numbers, counts = np.unique(rows.same_x[drawn], return_counts=True)
        whole = counts == np.bincount(rows.same_x)[numbers]
        assert (~whole).sum() <= 1  # the last
    share = often / 3000
    assert np.abs(share - 30 / 92).max() < 0.06
    everything = rows.sample.draw(rng, 92)
    assert sorted(everything.tolist()) == list(range(92))


def test_where_all_x_differ_a_sample_is_any_rows():
    rows = same_and_different()
    rows = rows[torch.from_numpy(np.unique(rows.same_x, return_index=True)[1])]
    drawn = rows.sample.draw(np.random.default_rng(3), 20)
    assert np.array_equal(drawn, np.random.default_rng(3).choice(60, 20, replace=False))


def test_repetitions_are_divided_beyond_the_rows_of_one_kernel_matrix_too(monkeypatch):
    """Held together, rows set aside would be new x throughout, and new rows of the same table are not."""
    monkeypatch.setattr(memory, "EXACT", 100)
    rng = np.random.default_rng(0)
    rows = Rows(
        torch.from_numpy(rng.standard_normal((300, 2))),
        torch.from_numpy(rng.standard_normal((300, 1))),
        torch.full((300,), 4.0, dtype=torch.float64),
        torch.full((300,), 4.0, dtype=torch.float64),
    )
    task = prepared_task(rows, numbers(), SQUARED, (), None, rng)
    folds_of_x = [set(task.fold_of[task.origin.numpy() == i]) for i in range(300)]
    assert np.mean([len(folds) for folds in folds_of_x]) > 2.5
    assert float(task.rows.repetitions.sum()) == 1200


def test_few_different_x_are_not_drawn_one_at_a_time():
    """With all rows of an x together a batch would be one x, in which no column differs."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.integers(0, 2, (3000, 3)).astype(float))
    rows = Rows(X, torch.zeros(3000, 1), torch.ones(3000, dtype=torch.float64))
    assert len(np.unique(rows.same_x[rows.sample.draw(rng, 201)])) == 8
