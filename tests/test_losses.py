"""Losses: derivatives, convexity, Fenchel and Young, known minimisers, labels."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from cases import LOSSES
from hgk import HGKRegressor, losses
from hgk.losses import BoxLoss, EpsilonInsensitive, Expectile, Hinge, LeastSquares, Logistic, Pinball, SmoothLoss

each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
smooth = [name for name, loss in LOSSES.items() if isinstance(loss, SmoothLoss)]
STEP, CLOSE = 1e-6, 1e-7


def labels_and_predictions(loss, n=400, seed=0):
    """Away from kinks and zeros by chance."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n) if loss.signs else rng.uniform(-1, 1, n)
    return torch.from_numpy(y), torch.from_numpy(rng.uniform(-3, 3, n))


def mean_minimiser(loss, y):
    """argmin_t of the mean loss over the labels y, by golden section."""
    low, high = torch.tensor(-5.0).double(), torch.tensor(5.0).double()
    for _ in range(100):
        left, right = low + 0.382 * (high - low), high - 0.382 * (high - low)
        if loss.value(y, left).mean() < loss.value(y, right).mean():
            high = right
        else:
            low = left
    return float(low + high) / 2


@each_loss
def test_derivative_is_the_difference_quotient(loss):
    y, t = labels_and_predictions(loss)
    quotient = (loss.value(y, t + STEP) - loss.value(y, t - STEP)) / (2 * STEP)
    torch.testing.assert_close(loss.derivative(y, t), quotient, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", smooth)
def test_curvature_is_the_difference_quotient_of_the_derivative(name):
    loss = LOSSES[name]
    y, t = labels_and_predictions(loss)
    quotient = (loss.derivative(y, t + STEP) - loss.derivative(y, t - STEP)) / (2 * STEP)
    torch.testing.assert_close(loss.curvature(y, t), quotient, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_loss
def test_the_precision_of_the_labels_is_kept(loss, dtype):
    y, t = (x.to(dtype) for x in labels_and_predictions(loss))
    u = loss.derivative(y, t)
    results = [u, loss.value(y, t), loss.conjugate(y, u), *loss.domain(y)]
    results += [loss.curvature(y, t)] if isinstance(loss, SmoothLoss) else []
    assert {x.dtype for x in results} == {dtype}


@each_loss
def test_losses_are_convex_and_not_negative(loss):
    y, t = labels_and_predictions(loss)
    s = t.flip(0)
    middle = loss.value(y, 0.3 * s + 0.7 * t)
    assert bool((middle <= 0.3 * loss.value(y, s) + 0.7 * loss.value(y, t) + 1e-12).all())
    assert bool((loss.value(y, t) >= 0).all())


@each_loss
def test_a_subderivative_supports_the_loss_from_below(loss):
    """At kinks too."""
    y, s = labels_and_predictions(loss)
    for t in (y, torch.ones_like(y), -torch.ones_like(y), torch.zeros_like(y)):
        tangent = loss.value(y, t) + loss.derivative(y, t) * (s - t)
        assert bool((loss.value(y, s) >= tangent - 1e-12).all())


@each_loss
def test_fenchel_young_with_equality_at_the_subderivative(loss):
    y, t = labels_and_predictions(loss)
    low, high = loss.domain(y)
    u = torch.minimum(torch.maximum(4 * torch.sin(7 * t), low), high)
    assert bool((loss.young(y, t, u) >= -1e-12).all())
    torch.testing.assert_close(loss.young(y, t, loss.derivative(y, t)), torch.zeros_like(t), rtol=0, atol=1e-12)


@each_loss
def test_conjugate_is_the_supremum_and_its_domain_is_where_that_is_finite(loss):
    y, _ = labels_and_predictions(loss, 20)
    t = torch.linspace(-60, 60, 48_001, dtype=torch.float64)[:, None]
    low, high = loss.domain(y)
    for part in (0.1, 0.5, 0.9):
        u = low.clamp_min(-2) + part * (high.clamp_max(2) - low.clamp_min(-2))
        brute = (u * t - loss.value(y, t)).amax(0)
        below = loss.conjugate(y, u) - brute  # by no more than the slope times the step of the grid
        assert bool(((below > -1e-9) & (below < 5e-3)).all())
    for edge, outside in ((low, low - 0.1), (high, high + 0.1)):
        finite = edge.isfinite()
        wide = (outside * 60 * t - loss.value(y, 60 * t)).amax(0)
        assert bool((wide[finite] > 100).all())


@each_loss
def test_clipped_predictions_are_never_worse(loss):
    y, t = labels_and_predictions(loss)
    M = loss.clip(y)
    assert bool((loss.value(y, t.clamp(-M, M)) <= loss.value(y, t)).all())
    if not isinstance(loss, Logistic):  # and M is the smallest such number for these labels, but for a tube
        smaller = M - 0.05 - float(torch.as_tensor(getattr(loss, "tube", 0.0)))
        assert not bool((loss.value(y, y.clamp(-smaller, smaller)) <= loss.value(y, y)).all())


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_minimisers_of_pinball_and_expectile(tau):
    y = torch.from_numpy(np.random.default_rng(1).exponential(size=1001) - 1)
    assert mean_minimiser(Pinball(tau), y) == pytest.approx(float(y.quantile(tau)), abs=2e-3)
    e = mean_minimiser(Expectile(tau), y)
    # its definition: τ E(y - e)₊ = (1 - τ) E(e - y)₊
    assert tau * float((y - e).clamp_min(0).mean()) == pytest.approx(
        (1 - tau) * float((e - y).clamp_min(0).mean()), abs=1e-6
    )


def test_minimisers_for_a_coin_with_probability_p():
    y = torch.tensor([1.0] * 7 + [-1.0] * 3).double()  # p = 0.7
    assert mean_minimiser(Logistic(), y) == pytest.approx(np.log(0.7 / 0.3), abs=1e-6)
    assert mean_minimiser(LOSSES["squared hinge"], y) == pytest.approx(2 * 0.7 - 1, abs=1e-6)
    assert mean_minimiser(LeastSquares(), y) == pytest.approx(2 * 0.7 - 1, abs=1e-6)
    assert mean_minimiser(LeastSquares(3.0, 1.0), y) == pytest.approx((2.1 - 0.3) / 2.4, abs=1e-6)
    assert mean_minimiser(Hinge(), y) == pytest.approx(1.0, abs=1e-6)  # the sign of the more frequent label


def test_levels_may_differ_from_column_to_column():
    y, t = (x.reshape(-1, 2) for x in labels_and_predictions(Pinball()))
    for kind in (Pinball, Expectile, EpsilonInsensitive):
        loss = kind(torch.tensor([0.1, 0.7], dtype=torch.float64))
        for k, level in enumerate((0.1, 0.7)):
            torch.testing.assert_close(loss.value(y, t)[:, k], kind(level).value(y[:, k], t[:, k]))
            assert loss.column(k) == kind(level)


def test_labels_that_a_loss_cannot_take():
    for loss in LOSSES.values():
        if loss.signs:
            with pytest.raises(ValueError, match=r"was given the label 0\.5; it takes -1 and 1"):
                loss.check(torch.tensor([1.0, 0.5]))
        with pytest.raises(ValueError, match=r"takes -1 and 1|not finite"):
            loss.check(torch.tensor([1.0, float("nan")]))
        loss.check(torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize("tau", [0.0, 1.0, -0.2, float("nan"), torch.tensor([0.5, 1.5])])
def test_levels_outside_the_unit_interval(tau):
    for kind in (Pinball, Expectile):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            kind(tau)


def test_other_parameters_out_of_range():
    with pytest.raises(ValueError, match="at least 0"):
        EpsilonInsensitive(-0.1)
    with pytest.raises(ValueError, match="positive and finite"):
        LeastSquares(0.0, 1.0)


def test_every_loss_is_of_one_kind():
    assert all(isinstance(loss, BoxLoss) != isinstance(loss, SmoothLoss) for loss in LOSSES.values())


@pytest.fixture
def registry():
    """Leaves the registry as it was."""
    known = dict(losses._NAMED)
    yield
    losses._NAMED.clear()
    losses._NAMED.update(known)


def test_losses_by_name_are_made_of_the_parameters_they_have():
    given = {"tau": 0.3, "tube": 0.2}
    assert losses.names("numbers") == ["least_squares", "pinball", "expectile", "epsilon_insensitive"]
    made = [losses.named(name, "numbers", **given) for name in losses.names("numbers")]
    assert made == [LeastSquares(), Pinball(0.3), Expectile(0.3), EpsilonInsensitive(0.2)]
    assert [losses.named(name, "classes").signs for name in losses.names("classes")] == [False, False, True, True, True]
    for name, task, said in (
        ("hinge", "numbers", "'hinge' is for HGKClassifier; here use one of 'least_squares', 'pinball'"),
        ("pinball", "classes", "'pinball' is for HGKRegressor; here use one of 'least_squares', 'auto', 'hinge'"),
        ("huber", "numbers", "loss='huber' is unknown; use one of 'least_squares'"),
    ):
        with pytest.raises(ValueError, match=said):
            losses.named(name, task)
    with pytest.raises(TypeError, match=r"tube=True was given; a number in \[0, 1\) is expected"):
        losses.named("pinball", "numbers", tau=0.5, tube=True)


def test_a_loss_from_outside_is_taken_by_its_name(registry):
    @dataclass(frozen=True)
    class Huberised(SmoothLoss):
        """τ-weighted r²/2 up to |r| = 1/5, then linear."""

        tau: float = 0.5
        name, tasks, parameters = "huberised", ("numbers",), ("tau",)

        def _side(self, r):
            return torch.where(r > 0, 1 - self.tau, self.tau)

        def value(self, y, t):
            r = t - y
            return self._side(r) * torch.where(r.abs() < 0.2, r**2 / 2, 0.2 * (r.abs() - 0.1))

        def derivative(self, y, t):
            return self._side(t - y) * (t - y).clamp(-0.2, 0.2)

        def curvature(self, y, t):
            return self._side(t - y) * ((t - y).abs() < 0.2).to(t)

        def domain(self, y):
            return torch.full_like(y, -0.2 * self.tau), torch.full_like(y, 0.2 * (1 - self.tau))

        def conjugate(self, y, u):
            return u * y + u**2 / (2 * self._side(u))

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 1))
    y = X[:, 0] + 0.3 * rng.standard_normal(80)
    with pytest.raises(ValueError, match="loss='huberised' is unknown"):
        HGKRegressor("plain", loss="huberised").fit(X, y)
    assert losses.register(Huberised) is Huberised
    by_name, by_object = (
        HGKRegressor("plain", loss=loss, tau=0.9, lam=1e-2, random_state=0).fit(X, y)
        for loss in ("huberised", Huberised(0.9))
    )
    np.testing.assert_array_equal(by_name.predict(X), by_object.predict(X))
    assert by_name.predict(X).mean() > y.mean()
    with pytest.raises(ValueError, match="'huberised' is for HGKRegressor"):
        losses.named("huberised", "classes")
    Huberised.tasks = ("texts",)
    with pytest.raises(ValueError, match=r"tasks=\('texts',\); a name and some of 'numbers', 'classes' are expected"):
        losses.register(Huberised)
