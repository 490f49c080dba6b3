"""Intervals that adapt: the machine on the size of residuals against refits, intervals against their definition,
coverage where the truth is known, and what labels are taken to be bounded by.
"""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch

import hgk
from hgk import HGKClassifier, HGKRegressor, insight
from hgk import intervals as rooms
from hgk.events import BoundsFound, Optimism, last
from hgk.insight import coverage, interval_coverage
from hgk.intervals import adapted, intervals, relative_weights, window
from hgk.kernels import HierarchicalKernel, isotropic, two_layers
from hgk.machines import MeanOfMachines, OnCentres, Rows, train, weighted_quantile
from hgk.model import Model
from hgk.spread import RankPlaces, log_score, spread_of
from hgk.targets import LabelBounds
from hgk.targets.bounds import bounds_of
from test_leaves import in_leaves

# Of sums in another order; of refits, whose systems have a condition of up to 1e6.
ROUNDING, REFITTED = 1e-9, 1e-6
KERNEL = HierarchicalKernel.of(two_layers(3, 2, rng=0), np.full((2, 3), 1.3), np.array([0.9, 0.7]), gamma=0.8)


# --------------------------------------------------------------------------------------------- a machine on residuals


def uneven(n=120, seed=0, repeated=True):
    """Rows, places of their predictions, and residuals that are large where the second feature is."""
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.uniform(-1, 1, (n, 3)))
    count = torch.from_numpy(rng.integers(1, 4, n).astype(float)) if repeated else torch.ones(n, dtype=torch.float64)
    weight = count * torch.from_numpy(rng.uniform(0.5, 2, n)) if repeated else count.clone()
    r = 0.05 * torch.exp(2 * X[:, 1]) * torch.from_numpy(rng.standard_normal(n))
    rows, t = Rows(X, X[:, :1], weight, count), torch.sin(X[:, 0])
    return rows, RankPlaces.of(t, weight)(t), r


def refit(spread, rows, u, r, *left_out):
    """σ, from normal equations with a free offset, without one repetition of each of these rows; c as it was."""
    weight, a = rows.weight.clone(), r.abs().sqrt()
    a = a.clamp_max(10 * float(a.median()))
    for i in left_out:
        weight[i] -= rows.weight[i] / rows.repetitions[i]
    B = spread.half @ spread.half.T
    psi = spread.features(rows.X, u) - spread.mean
    penalty = torch.linalg.inv(B) - psi.T @ (rows.weight[:, None] * psi)  # cI
    columns = torch.cat([torch.ones(len(psi), 1, dtype=torch.float64), psi], 1)
    A = columns.T @ (weight[:, None] * columns)
    A[1:, 1:] += penalty
    theta = torch.linalg.solve(A, columns.T @ (weight * a))
    return lambda X, v: (theta[0] + (spread.features(X, v) - spread.mean) @ theta[1:]).clamp_min(spread.floor) ** 2


@pytest.mark.parametrize("repeated", [False, True])
def test_leaving_rows_out_of_the_spread_is_a_refit(repeated):
    rows, u, r = uneven(repeated=repeated)
    spread = spread_of(rows, u, r, KERNEL)
    torch.testing.assert_close(spread(rows.X, u), refit(spread, rows, u, r)(rows.X, u), rtol=REFITTED, atol=0)
    index = torch.tensor([0, 5, 17, 80])
    some, at, where = rows.X[:7] + 0.1, u[:7], (rows.X[index], u[index])
    without, two = spread.without_one(some, at, *where, index), spread.leave_two_out(*where, index)
    for place, i in enumerate(index.tolist()):
        again = refit(spread, rows, u, r, i)
        own = again(rows.X[i : i + 1], u[i : i + 1])
        torch.testing.assert_close(spread.leave_one_out()[i : i + 1], own, rtol=REFITTED, atol=0)
        torch.testing.assert_close(without[:, place], again(some, at), rtol=REFITTED, atol=0)
        for other, j in enumerate(index.tolist()):
            left = refit(spread, rows, u, r, *{i, j})(rows.X[i : i + 1], u[i : i + 1])
            torch.testing.assert_close(two[place, other][None], left, rtol=REFITTED, atol=0)


def test_rows_that_the_spread_was_not_learned_from_change_nothing(monkeypatch):
    monkeypatch.setattr("hgk.spread.ROWS_OF_SPREAD", 90)
    rows, u, r = uneven()
    spread = spread_of(rows, u, r, KERNEL)
    others = (spread.weight == 0).nonzero()[:, 0]
    assert len(others) == 30
    torch.testing.assert_close(spread.leave_one_out()[others], spread(rows.X[others], u[others]))
    index = torch.cat([others[:2], (spread.weight > 0).nonzero()[:2, 0]])
    here = rows.X[index], u[index]
    without = spread.without_one(*here, *here, index)
    torch.testing.assert_close(without[:, :2], spread(*here)[:, None].repeat(1, 2))
    # of a row that was not learned from, only the other one is left out
    two = spread.leave_two_out(*here, index)
    torch.testing.assert_close(two[:2], without[:2])
    torch.testing.assert_close(two.diagonal(), spread.leave_one_out()[index])


def test_weights_count_relative_to_each_other():
    rows, u, r = uneven()
    one, two = (spread_of(replace(rows, weight=k * rows.weight), u, r, KERNEL) for k in (1, 7))
    torch.testing.assert_close(one(rows.X, u), two(rows.X, u), rtol=REFITTED, atol=0)
    torch.testing.assert_close(one.leave_one_out(), two.leave_one_out(), rtol=REFITTED, atol=0)


def test_the_score_takes_the_true_spread_and_no_factor_matters():
    rng = np.random.default_rng(0)
    truth = torch.from_numpy(np.exp(rng.uniform(-1, 1, 20_000)))
    a = truth * torch.from_numpy(np.abs(rng.standard_normal(20_000)) ** 0.5)
    share = torch.full_like(a, 1 / len(a))
    best = log_score(a, truth, share)
    assert log_score(a, 7 * truth, share) == pytest.approx(best, abs=ROUNDING)
    for other in (torch.ones_like(a), truth**0.8, truth**1.2):
        assert log_score(a, other, share) > best + 0.005


@pytest.mark.parametrize("n", [60, 150])
def test_even_noise_has_no_spread(n):
    """A constant is given up for two standard errors alone: of 10 draws at most one."""
    found = 0
    for seed in range(10):
        rows, u, _ = uneven(n, seed, repeated=False)
        r = 0.1 * torch.from_numpy(np.random.default_rng(100 + seed).standard_normal(n))
        found += spread_of(rows, u, r, KERNEL) is not None
    assert found <= 1


def test_predictions_of_noise_do_not_give_residuals_away():
    """f^(-i)(x_i) falls as y_i grows: of the mean alone its order is that of the residuals, reversed."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        X, y = rng.uniform(-1, 1, (150, 2)), rng.standard_normal(150)
        model = HGKRegressor("plain", random_state=seed).fit(X, y)
        (one,) = adapted(model.model_)
        assert one.spread is None
        np.testing.assert_array_equal(model.predict_interval(X), model.predict_interval(X, method="jackknife+"))
    y, weight = torch.from_numpy(y), torch.ones(150).double()
    left_out = (y.sum() - y) / 149
    assert not rooms.tell_rows_apart(left_out, torch.full_like(y, float(y.mean())), weight)
    assert rooms.tell_rows_apart(left_out + torch.from_numpy(X[:, 0]), y.mean() + torch.from_numpy(X[:, 0]), weight)
    signal = HGKRegressor("plain", random_state=0).fit(X, X[:, 0] + 0.1 * y.numpy())
    assert len(adapted(signal.model_)[0].places.values) > 100


def test_where_nothing_is_to_be_learned_there_is_no_spread():
    rows, u, r = uneven()
    assert spread_of(rows, u, r, KERNEL) is not None
    assert spread_of(rows, u, torch.zeros_like(r), KERNEL) is None
    assert spread_of(rows, u, torch.ones_like(r), KERNEL) is None
    assert rows[:15].size < 40
    assert spread_of(rows[:15], u[:15], r[:15], KERNEL) is None
    same = replace(rows, X=torch.zeros_like(rows.X))
    assert spread_of(same, torch.full_like(u, 0.5), r, KERNEL) is None


def test_one_outlier_leaves_the_spread_of_the_others():
    rows, u, r = uneven(300)
    far = r.clone()
    far[11] = 1e4
    one, two = (spread_of(rows, u, each, KERNEL) for each in (r, far))
    others = torch.arange(len(r)) != 11
    change = (one(rows.X, u) / two(rows.X, u)).log()[others]
    assert float(change.std()) < 0.35  # of a logarithm whose own deviation is 1.1
    assert float(np.corrcoef(two(rows.X, u)[others].log(), 2 * rows.X[others, 1])[0, 1]) > 0.8


# ---------------------------------------------------------------------------------------------------------- places


def test_places_are_shares_of_the_weight_below():
    t = torch.tensor([0.3, -1.0, 0.3, 2.0], dtype=torch.float64)
    places = RankPlaces.of(t, torch.tensor([1.0, 2.0, 3.0, 4.0]).double())
    torch.testing.assert_close(places(t), torch.tensor([0.4, 0.1, 0.4, 0.8]).double())
    torch.testing.assert_close(places.low, torch.tensor([0.2, 0.0, 0.2, 0.6]).double())
    torch.testing.assert_close(places.high, torch.tensor([0.6, 0.2, 0.6, 1.0]).double())
    assert places(torch.tensor([-9.0, 9.0, 1.15]).double()).tolist() == pytest.approx([0.1, 0.8, 0.6])


@pytest.mark.parametrize("share", [0.1, 0.35, 1.0])
def test_a_window_has_its_share_of_the_rows_and_ties_whole(share):
    rng = np.random.default_rng(0)
    t = torch.from_numpy(rng.standard_normal(200)).round(decimals=1)
    weight = torch.from_numpy(rng.uniform(0.5, 2, 200))
    places = RankPlaces.of(t, weight)
    for u in torch.linspace(0, 1, 21, dtype=torch.float64):
        near = places.near(u[None], share)[0]
        assert float((weight * near).sum() / weight.sum()) >= share - ROUNDING
        assert len(set(t[near].tolist()) & set(t[~near].tolist())) == 0
        inside = (t >= t[near].min()) & (t <= t[near].max())
        assert torch.equal(inside, near)  # neighbours in the order of predictions
    assert window(torch.ones(10_000), 0.9) == 0.1
    assert window(torch.ones(1000), 0.9) == pytest.approx(0.25)
    assert window(torch.ones(100), 0.9) == 1


# ------------------------------------------------------------------------------------------------ the definition


def noisy(n, seed=0, columns=3):
    """The mean is a function of the first column, the spread one of the second."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, columns))
    return X, np.sin(3 * X[:, 0]) + 0.1 * np.exp(1.5 * X[:, 1]) * rng.standard_normal(n)


@functools.cache
def plain(n=240, seed=0):
    X, y = noisy(n, seed)
    X, y = np.vstack([X, X[:9]]), np.r_[y, y[:9]]  # some rows twice
    weight = np.random.default_rng(seed).integers(1, 3, len(y)).astype(float)
    return HGKRegressor("plain", random_state=0).fit(X, y, weight)


@functools.cache
def single():
    return HGKRegressor("plain", random_state=0).fit(*noisy(240))


def test_adaptive_intervals_are_quantiles_of_scores_in_a_window():
    model = replace(plain().model_, history=(Optimism(ratio=1.2),), memo={})
    rows, (one,) = model.training.rows, adapted(model)
    assert one.spread is not None
    X = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (6, rows.X.shape[1])))
    index = torch.arange(len(rows))
    values, elsewhere = model.without_one(index)
    sigma = one.spread.without_one(X, one.places(model.values(X)[:, 0]), rows.X, one.u, index)
    e, t = 1.2 * (rows.Y - values).abs()[:, 0] / one.spread.leave_one_out(), elsewhere(X)[0]
    torch.testing.assert_close(e, one.scores)
    u, weight = one.places(model.values(X)[:, 0]), relative_weights(rows)
    for level, found in zip((0.5, 0.9), intervals(model, X, [0.5, 0.9]), strict=True):
        half = window(weight, level) / 2
        for x in range(len(X)):
            middle = float(u[x].clamp(half, 1 - half))
            near = (one.places.low <= middle + half + 1e-9) & (one.places.high >= middle - half - 1e-9)
            assert 25 / (1 - level) - 1 <= float(weight[near].sum()) < float(weight.sum())
            ends = [s * weighted_quantile(e * sigma[x] + s * t[x], weight * near, level) for s in (-1, 1)]
            np.testing.assert_allclose(found[x, 0], model.target.in_unit(np.array(ends)[:, None])[:, 0], rtol=ROUNDING)


def test_with_many_rows_one_function_takes_the_place_of_all(monkeypatch):
    """f ∓ q σ, close to the quantiles of functions without single rows."""
    model, X = replace(plain().model_, memo={}), torch.from_numpy(noisy(50, 7)[0])
    X = torch.cat([X, model.training.rows.X[:3, :3]])
    features = torch.from_numpy(model.inputs.encoder(X.numpy()))
    exact = intervals(model, features, [0.8])[0, :, 0]
    monkeypatch.setattr(rooms, "JACKKNIFE", 50)
    found, (one,) = intervals(model, features, [0.8, 0.9]), adapted(model)
    t, rows = model.values(features)[:, 0], model.training.rows
    u, weight = one.places(t), relative_weights(rows)
    stands = np.linspace(0, 1, 101)
    for level, ends in zip((0.8, 0.9), found, strict=True):
        near = one.places.near(torch.from_numpy(stands), window(weight, level))
        q = [float(weighted_quantile(one.scores[some], weight[some], level)) for some in near]
        half = torch.from_numpy(np.interp(u.numpy(), stands, q)) * one.spread(features, u)
        expected = model.target.in_unit(torch.stack([t - half, t + half]).numpy().T[..., None])[..., 0]
        np.testing.assert_allclose(ends[:, 0], expected, rtol=ROUNDING)
    width = np.diff(exact)[:, 0]
    assert np.abs(found[0, :, 0] - exact).max() < 0.25 * width.max()
    np.testing.assert_allclose(np.diff(found[0, :, 0])[:, 0].mean(), width.mean(), rtol=0.05)


def test_one_width_is_jackknife_plus_as_ever():
    """To the last bit the quantiles of f^(-i) ∓ ρ |r_i|, over all outputs at once."""
    estimator = HGKRegressor("plain", random_state=0)
    X, y = noisy(150)
    model = estimator.fit(X, np.column_stack([y, X[:, 1] + y])).model_
    rows, features = model.training.rows, estimator.features(X[:20])
    values, elsewhere = model.without_one(torch.arange(len(rows)))
    r, t = (rows.Y - values).abs().T[:, None, :], elsewhere(features)
    weight = rows.weight * (rows.size / float(rows.weight.sum()))
    ends = [weighted_quantile(r - t, weight, 0.8).neg(), weighted_quantile(r + t, weight, 0.8)]
    expected = model.target.in_unit(torch.stack(ends, -1).numpy().transpose(1, 2, 0)).transpose(0, 2, 1)
    found = estimator.predict_interval(X[:20], 0.8, method="jackknife+", bounds=None)
    np.testing.assert_array_equal(found, expected)


def test_blocks_and_levels_do_not_matter(monkeypatch):
    model = plain().model_
    features = torch.from_numpy(model.inputs.encoder(noisy(20, 5)[0]))
    whole = intervals(model, features, [0.5, 0.9])
    monkeypatch.setattr(rooms, "BLOCK_OF_PAIRS", 1)
    np.testing.assert_allclose(intervals(model, features, [0.5, 0.9]), whole, rtol=ROUNDING)
    np.testing.assert_allclose(intervals(model, features, [0.9])[0], whole[1], rtol=ROUNDING)


# -------------------------------------------------------------------------------------------------- known truth


def inside(model, X, y, by, parts=4, **how):
    low, high = model.predict_interval(X, **how).T
    held = (low <= y) & (y <= high)
    return held.mean(), [held[part].mean() for part in np.array_split(np.argsort(by), parts)], high - low


def test_intervals_follow_noise_that_the_mean_knows_nothing_of():
    """The spread grows twentyfold with a column that the mean does not depend on; 3000 new rows, two draws of 500."""
    whole, adaptive, constant, ratios = [], [], [], []
    for seed in (0, 1):
        X, y = noisy(3500, seed)
        model = HGKRegressor("plain", random_state=0).fit(X[:500], y[:500])
        new = X[500:], y[500:], X[500:, 1]
        mean, by, width = inside(model, *new)
        whole.append(mean)
        adaptive.append(by)
        ratios.append(width[new[2] > 0.5].mean() / width[new[2] < -0.5].mean())
        constant.append(inside(model, *new, method="jackknife+")[1])
    assert abs(np.mean(whole) - 0.9) < 0.025
    assert np.abs(np.mean(adaptive, 0) - 0.9).max() < 0.04
    assert np.mean(constant, 0)[0] > 0.99
    assert np.mean(constant, 0)[-1] < 0.78
    assert min(ratios) > 3  # the truth has 4.5


def test_intervals_follow_the_predictions(monkeypatch):
    """Noise in proportion to the mean; one function for all."""
    monkeypatch.setattr(rooms, "JACKKNIFE", 500)
    monkeypatch.setattr(coverage, "JACKKNIFE", 500)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4200, 2))
    mean = np.exp(1.5 * X[:, 0])
    y = mean * (1 + 0.2 * rng.standard_normal(len(X)))
    model = HGKRegressor("plain", lam=1e-3, random_state=0).fit(X[:1200], y[:1200])
    new = X[1200:], y[1200:], mean[1200:]
    assert np.abs(np.array(inside(model, *new, parts=5)[1]) - 0.9).max() < 0.04
    assert inside(model, *new, parts=5, method="jackknife+")[1][-1] < 0.8
    told = interval_coverage(model)
    assert told.spread
    assert told.rows == 1200
    assert [part.covered for part in told.parts] == pytest.approx([0.9] * 5, abs=0.03)
    assert np.diff([part.width for part in told.parts]).min() > 0
    assert [part.width for part in told.by_width] == sorted(part.width for part in told.by_width)


def test_even_noise_keeps_one_width():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3600, 2))
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))
    model = HGKRegressor("plain", random_state=0).fit(X[:600], y[:600])
    mean, _, width = inside(model, X[600:], y[600:], X[600:, 0])
    *_, constant = inside(model, X[600:], y[600:], X[600:, 0], method="jackknife+")
    assert abs(mean - 0.9) < 0.03
    assert width.std() / width.mean() < 0.15
    assert width.mean() == pytest.approx(constant.mean(), rel=0.08)


def test_intervals_of_training_rows_are_those_of_a_fit_without_the_row():
    """From the closed forms with two rows out: all that is left in is the row's part in centres and places."""
    model = plain()
    X = model.X_fit_
    told = interval_coverage(model, levels=[0.9])
    assert told.spread
    assert abs(told.covered[0] - 0.9) < 0.03
    width = np.diff(model.predict_interval(X, bounds=None))[:, 0]
    assert told.width[0] == pytest.approx(np.median(width), rel=0.1)
    constant = interval_coverage(model, levels=[0.9], method="jackknife+")
    assert not constant.spread
    assert (constant.by_width[-1].width / constant.by_width[0].width) < (
        told.by_width[-1].width / told.by_width[0].width
    )


def test_coverage_of_many_rows_agrees_with_that_of_functions_without_two(monkeypatch):
    one = interval_coverage(plain())
    monkeypatch.setattr(coverage, "JACKKNIFE", 50)
    two = interval_coverage(plain())
    np.testing.assert_allclose(one.covered, two.covered, atol=0.03)
    np.testing.assert_allclose(one.width, two.width, rtol=0.1)


# ------------------------------------------------------------------------------------------- machines and labels


WIDE = HierarchicalKernel.of(isotropic(3), [np.ones(3)], gamma=1.0)


def of_machine(machine_of):
    """A model around another machine on the rows of a plain one, each given once."""
    known = single().model_
    rows = known.training.rows
    return Model.of(known.inputs, known.target, machine_of(known, rows), (), replace(known.training, rows=rows))


def centres(known, rows):
    X = rows.X[::4]
    K, L = WIDE.matrix(X), WIDE.matrix(rows.X, X)
    s, c = rows.weight[:, None], 0.01
    alpha = torch.linalg.solve(L.T @ (s * L) + c * K, L.T @ (s * rows.Y))
    return OnCentres(WIDE, c / float(rows.weight.sum()), X, alpha)


def mean(known, rows):
    kernels = (WIDE, WIDE.with_gamma(1.5))
    return MeanOfMachines(tuple(train(k, rows, 0.01 / 240) for k in kernels), (1.0, 2.0))


def leaves(known, rows):
    found = in_leaves(Rows(torch.nn.functional.pad(rows.X, (0, 1)), rows.Y, rows.weight, rows.count), size=80)
    kernel, parts = WIDE, found.partition
    narrow = replace(parts, directions=parts.directions[:, : rows.X.shape[1]])
    machine = replace(
        found,
        kernel=kernel,
        X=rows.X,
        partition=narrow,
        W=(),
        gammas=kernel.gamma * found.gammas / 0.8,
        cs=0.2 * found.cs,
    )
    alpha = torch.zeros_like(rows.Y)
    for leaf in range(len(narrow)):
        mine = rows[narrow.rows(leaf)]
        own = train(machine.kernel_of(leaf), mine, float(machine.cs[leaf]) / float(mine.weight.sum()))
        alpha[narrow.rows(leaf)] = own.alpha
    return replace(machine, alpha=alpha)


def parts(known, rows):
    halves = [torch.arange(k, len(rows), 2) for k in (0, 1)]
    return train(WIDE, rows, 0.01 / 240, [(half, rows.weight[half]) for half in halves])


@pytest.mark.parametrize("machine_of", [centres, mean, leaves, parts])
@pytest.mark.parametrize("most", [2000, 50])
def test_every_machine_has_intervals_that_follow_the_noise(machine_of, most, monkeypatch):
    monkeypatch.setattr(rooms, "JACKKNIFE", most)
    model = of_machine(machine_of)
    X, y = noisy(1500, 4)
    features = torch.from_numpy(model.inputs.encoder(X))
    low, high = intervals(model, features, [0.9])[0, :, 0].T
    held = (low <= y) & (y <= high)
    assert 0.84 < held.mean() < 0.97
    wide = np.array_split(np.argsort(X[:, 1]), 4)
    assert (high - low)[wide[-1]].mean() > 1.5 * (high - low)[wide[0]].mean()


def test_several_outputs_have_a_spread_each():
    X, y = noisy(400)
    rng = np.random.default_rng(1)
    other = X[:, 0] + 0.1 * np.exp(-1.5 * X[:, 1]) * rng.standard_normal(400)
    model = HGKRegressor("plain", random_state=0).fit(X, np.column_stack([y, 5 + 10 * other]))
    one, two = np.diff(model.predict_interval(noisy(500, 3)[0]), axis=2)[..., 0].T
    wide = noisy(500, 3)[0][:, 1] > 0.5
    narrow = noisy(500, 3)[0][:, 1] < -0.5
    assert one[wide].mean() > 2 * one[narrow].mean()
    assert two[narrow].mean() > 2 * two[wide].mean()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.arange(20.0)[:, None], np.arange(20.0) % 3),  # few rows
        (np.arange(60.0)[:, None] % 2, np.tile([0.5, 1.7, 2.1], 20)),  # two different rows
        (np.repeat(np.arange(60.0), 2)[:, None], np.repeat(np.linspace(0.1, 7, 60), 2)),  # no noise, all twice
        (np.arange(60.0)[:, None], np.full(60, 3.3)),  # one label
        (np.arange(60.0)[:, None], np.r_[np.linspace(0, 1.5, 59), 1e9]),  # an outlier
        (np.random.default_rng(0).uniform(size=(80, 2)), np.arange(80) % 2),  # two values
    ],
)
def test_odd_tables_have_intervals(X, y):
    model = HGKRegressor("plain", random_state=0).fit(X, y)
    for method in ("adaptive", "jackknife+"):
        low, high = model.predict_interval(X, 0.8, method=method).T
        assert np.isfinite([low, high]).all()
        assert (low <= high).all()
        assert ((low <= y) & (y <= high)).mean() >= 0.65


def test_intervals_are_those_of_the_file_to_the_last_bit(tmp_path, monkeypatch):
    model, X = plain(), noisy(30, 9)[0]
    for most in (2000, 50):
        monkeypatch.setattr(rooms, "JACKKNIFE", most)
        hgk.save(model, tmp_path / "model.hgk")
        again = hgk.load(tmp_path / "model.hgk")
        for how in ({}, {"coverage": 0.5}, {"method": "jackknife+"}, {"bounds": (-1, 1)}):
            np.testing.assert_array_equal(again.predict_interval(X, **how), model.predict_interval(X, **how))
        assert adapted(again.model_)[0].spread is not None


def test_a_second_call_factors_nothing(monkeypatch):
    monkeypatch.setattr(rooms, "JACKKNIFE", 50)
    model = replace(plain().model_, memo={})
    features = torch.from_numpy(model.inputs.encoder(noisy(5, 9)[0]))
    first = intervals(model, features, [0.9])

    def never(*_):
        raise AssertionError("a machine was factored again")

    monkeypatch.setattr(type(model.machine), "without_one", never)
    monkeypatch.setattr(type(model.machine), "leave_one_out", never)
    np.testing.assert_array_equal(intervals(model, features, [0.9]), first)


# ------------------------------------------------------------------------------------------------------- bounds


def counted(*pairs):
    return np.repeat([float(value) for value, _ in pairs], [times for _, times in pairs])


RNG = np.random.default_rng(0)
INFINITE = float("inf")


@pytest.mark.parametrize(
    ("y", "low", "high"),
    [
        (RNG.poisson(3, 500), 0, INFINITE),  # counts
        (RNG.poisson(50, 30), 0, INFINITE),  # counts far from 0
        (RNG.normal(size=500), -INFINITE, INFINITE),
        (RNG.exponential(size=500), -INFINITE, INFINITE),  # positive so far
        (np.round(RNG.normal(0, 9, 500)), -INFINITE, INFINITE),  # degrees
        (RNG.uniform(0.001, 0.999, 500), 0, 1),  # shares
        (RNG.uniform(0.2, 0.7, 500), -INFINITE, INFINITE),  # in [0, 1], but far from its ends
        (RNG.uniform(0, 100, 500), -INFINITE, INFINITE),
        (np.r_[np.zeros(100), RNG.exponential(size=400)], 0, INFINITE),  # many without rain
        (np.minimum(RNG.exponential(size=500), 1.5), -INFINITE, 1.5),  # cut off
        (counted((1, 90), (2, 40), (3, 60), (4, 150), (5, 160)), 1, 5),  # stars
        (counted((3, 20), (4, 163), (5, 1457), (6, 2198), (7, 880), (8, 175), (9, 5)), 0, INFINITE),  # points of wines
        (counted((0, 250), (1, 250)), 0, 1),
        (counted((0, 900), (1, 90), (2, 9)), 0, INFINITE),
        (np.repeat(RNG.normal(size=40), 12), -INFINITE, INFINITE),  # patients, twelve rows each
        (np.full(50, 3.0), -INFINITE, INFINITE),
        (np.r_[1e300, -1e300, 0.5], -INFINITE, INFINITE),
    ],
)
def test_what_labels_are_bounded_by(y, low, high):
    found = bounds_of(y.astype(float))
    assert (found.low, found.high) == (low, high)
    assert bool(found) == (low > -INFINITE or high < INFINITE)
    assert bool(found.why) == bool(found)


def test_counts_are_never_negative_unless_asked():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 2))
    y = rng.poisson(np.exp(2 * X[:, 0] - 0.5))
    model = HGKRegressor("plain", random_state=0).fit(X[:300], y[:300])
    told = last(model.history_, BoundsFound)
    assert (told.low, told.high) == ((0.0,), (None,))
    assert told.words == ("not below 0 (whole numbers, none negative)",)
    free, low = (model.predict_interval(X[300:], bounds=b)[:, 0] for b in (None, "auto"))
    assert free.min() < 0
    assert low.min() == 0
    np.testing.assert_array_equal(low, np.maximum(free, 0))
    ends = model.predict_interval(X[300:], bounds=(0.5, 2))
    assert ends.min() == 0.5
    assert ends.max() == 2
    high = model.predict_interval(X[300:], bounds=(None, 2))
    assert high[:, 0].min() == free.min()
    assert high[:, 1].max() == 2
    rare = model.predict_interval(X[300:], 0.999, method="jackknife+")  # 300 rows cannot promise that
    assert (rare[:, 0] == 0).all()
    assert np.isinf(rare[:, 1]).all()


def test_a_pile_is_inside_the_bounds_that_it_makes():
    """Labels at the bound are held to the last bit, though they were scaled and scaled back."""
    rng = np.random.default_rng(0)
    X, cap = rng.uniform(-1, 1, (400, 1)), 1 / 3
    y = np.minimum(np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(400), cap)
    model = HGKRegressor("plain", random_state=0).fit(X, y)
    ends = model.predict_interval(X)
    capped = y == cap
    assert capped.sum() > 50
    assert (ends[capped, 1] >= cap).mean() > 0.9
    assert ends[:, 1].max() == pytest.approx(cap, rel=1e-12)


def test_bounds_are_found_row_by_row_and_for_least_squares_alone():
    X = np.random.default_rng(0).uniform(size=(30, 2))
    y = np.random.default_rng(1).normal(size=30)
    repeated = np.tile(np.arange(30), 20)
    model = HGKRegressor("plain", random_state=0).fit(X[repeated], y[repeated])  # 20 rows have the largest label
    assert last(model.history_, BoundsFound) is None
    counts = np.arange(30)
    assert last(HGKRegressor("plain", random_state=0).fit(X, counts).history_, BoundsFound) is not None
    pinball = HGKRegressor("plain", loss="pinball", lam=1e-2, random_state=0).fit(X, counts)
    assert last(pinball.history_, BoundsFound) is None
    assert last(HGKClassifier("plain", random_state=0).fit(X, counts % 2).history_, BoundsFound) is None


def test_bounds_in_words():
    assert LabelBounds().words == "none"
    assert LabelBounds(1.0, 5.0, "a scale").words == "not below 1 and not above 5 (a scale)"
    assert not LabelBounds()


def test_what_cannot_be_asked_for():
    model, X = plain(), noisy(2)[0]
    for method in ("constant", None, 3):
        with pytest.raises(ValueError, match=r"was given; one of 'adaptive', 'jackknife\+' is expected"):
            model.predict_interval(X, method=method)
    for bounds in ("none", (1, 0), (0, 0), (0,), (0, "1"), (float("nan"), 1), 3, {"low": 0}):
        with pytest.raises(ValueError, match="None or a pair"):
            model.predict_interval(X, bounds=bounds)
    assert insight.interval_coverage is interval_coverage
