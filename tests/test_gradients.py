"""Learning by leave-one-out gradients: the optimiser, what it finds, and whom it trusts."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, make_friedman1

from cases import ARCHITECTURES, random_rows
from hgk import HGKRegressor, StoppedEarlyWarning, inhomogeneous, two_layers
from hgk.criteria import LeaveOneOut
from hgk.kernels import HierarchicalKernel
from hgk.machines import Rows
from hgk.optimisers.adam import HIGHEST, LOWEST, Adam, Run, one_cycle
from hgk.plans import Trial, choose
from hgk.progress import Progress
from hgk.selection import Task


def start(architecture, rows, **settings):
    rng = np.random.default_rng(0)
    kernel = HierarchicalKernel(architecture, architecture.start(rows.spread, rng))
    return Run(Adam(**settings), kernel, rows, rng, Progress(), LeaveOneOut())


@pytest.mark.parametrize("name", ["inhomogeneous", "smooth and rough", "all kinds", "depth 4"])
def test_the_gradient_in_every_parameter_equals_finite_differences(name):
    """θ = log weights, maps and log λ, penalties included; the kernel in double precision for the comparison."""
    rows = random_rows(40, outputs=2, weighted=True)
    run = start(ARCHITECTURES[name], rows, shrink=0.3, map_penalty=0.2)
    for theta, mask in zip(run.theta[run.depth : -1], run.masks[run.depth :], strict=True):
        theta.copy_(torch.from_numpy(np.random.default_rng(1).standard_normal(theta.shape)) * 0.3 * mask)
    run.theta[0] += 0.1 * torch.randn(run.theta[0].shape, generator=torch.Generator().manual_seed(0))

    def J():
        W = run.W
        value = run.criterion(run.kernel.with_weights(W).matrix(rows.X), rows.Y, run.lam, rows.weight).value
        live, theta = run.live[0], run.theta[0] - run.start[0]
        mean = (theta * live).sum(1, keepdim=True) / live.sum(1, keepdim=True)
        value += 0.3 * run.variance * float((((theta - mean) * live) ** 2).sum()) / int(live.sum())
        if len(W) > run.depth:
            P, Q = W[run.depth :]
            value += 0.2 * run.variance * float(((P @ Q.transpose(1, 2)) ** 2).sum()) / (len(P) * P.shape[1])
        return value

    _, gradient = run.gradient(rows)
    masks = [*run.live, *run.masks[run.depth :], torch.tensor(True)]
    for theta, g, mask in zip(run.theta, gradient, masks, strict=True):
        for index in map(tuple, mask.nonzero().tolist()):
            h, value = 1e-4, float(theta[index])
            theta[index] = value + h
            up = J()
            theta[index] = value - h
            down = J()
            theta[index] = value
            # single-precision kernels in the gradient leave about 1e-4
            assert float(g[index]) == pytest.approx((up - down) / (2 * h), rel=5e-3, abs=2e-5)


def test_the_rate_rises_and_falls():
    rates = [one_cycle(i, 100, 0.2) for i in range(100)]
    assert max(rates) == pytest.approx(0.2, rel=0.1)
    assert int(np.argmax(rates)) in range(25, 35)
    assert rates[0] < 0.05
    assert rates[-1] < 1e-3


def test_weights_stay_in_their_bounds_and_absent_ones_stay_away():
    rows = random_rows(60)
    run = start(two_layers(5, 3, 2), rows, steps=30, rate=5.0)
    kernel = run.run()
    assert not kernel.W[0][~kernel.architecture.mask].any()
    for theta, first in zip(run.theta, run.start, strict=False):
        assert bool((theta - first >= LOWEST - 1e-9).all())
        assert bool((theta - first <= HIGHEST + 1e-9).all())


def test_the_criterion_falls_and_a_planted_irrelevant_column_loses_its_weight():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 4))
    rows = Rows(*map(torch.from_numpy, (X, np.sin(3 * X[:, :1]) * X[:, 1:2], np.ones(300))))
    progress = Progress()
    kernel = Adam(steps=60, batch=200, rate=0.2).learn(inhomogeneous(4), rows, 1.0, rng, progress)
    criteria = [event["criterion"] for event in progress.history]
    assert np.mean(criteria[-5:]) < 0.2 * criteria[0]
    v = kernel.W[0][0]
    assert float(v[2:].max()) < 0.2 * float(v[:2].min())


def test_shrinking_pulls_the_weights_together():
    rows = random_rows(100)
    spreads = []
    for shrink in (0.0, 10.0):
        kernel = Adam(steps=40, batch=100, rate=0.2, shrink=shrink).learn(
            inhomogeneous(5), rows, 1.0, np.random.default_rng(0), Progress()
        )
        spreads.append(float(kernel.W[0].log().std()))
    assert spreads[1] < 0.3 * spreads[0]


def test_the_same_seed_gives_the_same_weights():
    rows = random_rows(80)
    one, two = (
        Adam(steps=10, batch=50).learn(two_layers(5, 3), rows, 1.0, np.random.default_rng(1), Progress()) for _ in "ab"
    )
    assert all(torch.equal(a, b) for a, b in zip(one.W, two.W, strict=True))


def test_greedy_averaging_leaves_the_safe_choice_only_for_a_clear_gain():
    rng = np.random.default_rng(0)
    rows = random_rows(200)
    task = Task(rows, np.arange(200) % 5, np.array([0.1]), 1.0)
    noise = [torch.from_numpy(0.3 * rng.standard_normal((200, 1))) for _ in range(3)]

    def trial(name, error):
        return Trial(name, [], 0.1, rows.Y + error, 0.0)

    def names(*trials):
        return [t.name for t in choose(trials, task, [0, 1], Progress())]

    safe, other = trial("safe", noise[0]), trial("other", noise[1])
    assert names(trial("plain", 3 * noise[2]), safe, other) == ["safe", "other"]  # independent errors average out
    assert names(trial("plain", 3 * noise[2]), safe, trial("same", noise[0])) == ["safe"]
    assert names(trial("plain", 3 * noise[2]), safe, trial("best", 0.1 * noise[1])) == ["best"]
    assert names(trial("plain", 0.5 * noise[0]), safe, trial("worse", 2 * noise[0])) == ["plain"]


def test_the_gradients_preset_finds_the_columns_and_reports_its_optimism():
    X, y = make_friedman1(700, n_features=10, noise=0.5, random_state=0)
    model = HGKRegressor("gradients", random_state=0).fit(X[:200], y[:200])
    plain = HGKRegressor("plain", random_state=0).fit(X[:200], y[:200])
    error = [np.mean((m.predict(X[200:]) - y[200:]) ** 2) for m in (model, plain)]
    assert error[0] < 0.6 * error[1]
    assert model.feature_importances_[:5].sum() > 0.9
    candidates = {e["candidate"]: e for e in model.history_ if e["stage"] == "candidate"}
    assert {"plain", "mixed"} <= set(candidates)
    assert candidates["mixed"]["optimism"] == pytest.approx(
        candidates["mixed"]["honest"] - candidates["mixed"]["criterion"]
    )
    assert np.corrcoef(model.loo_predictions_, y[:200])[0, 1] > 0.9


def test_the_gradients_preset_is_not_worse_than_plain_where_there_is_little_to_learn():
    X, y = load_diabetes(return_X_y=True)
    errors = []
    for preset in ("gradients", "plain"):
        folds = np.arange(len(y)) % 3
        t = np.empty(len(y))
        for b in range(3):
            model = HGKRegressor(preset, random_state=0).fit(X[folds != b], y[folds != b])
            t[folds == b] = model.predict(X[folds == b])
        errors.append(np.mean((t - y) ** 2))
    assert errors[0] < 1.05 * errors[1]


def test_stopped_at_once_the_gradients_preset_returns_the_plain_machine_and_says_so():
    X, y = make_friedman1(80, n_features=5, random_state=0)
    with pytest.warns(StoppedEarlyWarning):
        model = HGKRegressor("gradients", callback=lambda event: True, random_state=0).fit(X, y)
    assert model.kernel_.architecture.tied
    assert model.history_[-1]["candidates"] == ["plain"]


def test_groups_become_nodes_of_the_gradients_preset():
    X, y = make_friedman1(150, n_features=6, random_state=0)
    model = HGKRegressor("gradients", groups={"pair": [0, 1]}, random_state=0).fit(X, y)
    owner = model._inputs.encoder.owner
    sets = [{int(owner[f]) for f in c} for c in model.kernel_.architecture.coordinates]
    assert model.kernel_.architecture.tied or sets == [{0, 1}, {2, 3, 4, 5}]
