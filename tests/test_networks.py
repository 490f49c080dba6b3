"""Stacks of networks: against autograd on single ones, against themselves alone, and what early stopping keeps."""

import copy
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.linear_model import RidgeCV
from torch import nn

from hgk.bench import networks
from hgk.bench.methods import METHODS, Effort, dnn
from hgk.bench.networks import (
    NetworkFolds,
    Schedule,
    Stack,
    StackRun,
    choose_networks,
    forward,
    gradient,
    shared,
    train_networks,
)

# Sums of a few dozen terms in double precision; in single precision, after some hundred steps.
EXACT, ROUNDING = {"rtol": 1e-12, "atol": 1e-13}, {"rtol": 1e-3, "atol": 1e-4}
ARCHITECTURES = [(7, 3), (4, 9), (7, 9)]
D = 5


def rows(n=300, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) * X[:, -1] + 0.05 * rng.standard_normal(n)


def started(stack, architectures, dtype=torch.float64):
    starts = [stack.start(widths, np.random.default_rng(i)) for i, widths in enumerate(architectures)]
    return torch.stack(starts).to(dtype)


def single(layers, i, widths):
    """Network i of a stack as a module of its own, without the padding."""
    sizes = (D, *widths, 1)
    linear = [nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(sizes)]
    for module, (W, b) in zip(linear, layers, strict=True):
        module.weight.data = W[i, : module.in_features, : module.out_features].T.clone()
        module.bias.data = b[i, 0, : module.out_features].clone()
    return nn.Sequential(linear[0], *(part for module in linear[1:] for part in (nn.ReLU(), module)))


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 11, D, dtype=torch.float64, generator=generator)
    return x, torch.randn(3, 11, dtype=torch.float64, generator=generator)


def test_a_stack_computes_what_its_networks_compute(batch):
    x, y = batch
    stack = Stack.around(D, ARCHITECTURES)
    theta = started(stack, ARCHITECTURES)
    layers = stack.layers(theta)
    derivatives = stack.layers(torch.zeros_like(theta))
    gradient(layers, x, y, out=derivatives)
    f = forward(layers, x)[-1][..., 0]
    for i, widths in enumerate(ARCHITECTURES):
        network = single(layers, i, widths)
        t = network(x[i])[:, 0]
        ((t - y[i]) ** 2).mean().backward()
        torch.testing.assert_close(f[i], t.detach(), **EXACT)
        for module, (dW, db) in zip(network[::2], derivatives, strict=True):
            found = dW[i, : module.in_features, : module.out_features], db[i, 0, : module.out_features]
            torch.testing.assert_close(found[0].T, module.weight.grad, **EXACT)
            torch.testing.assert_close(found[1], module.bias.grad, **EXACT)


def test_padding_stays_zero_and_changes_nothing(batch):
    x, y = batch
    stack, alone = Stack.around(D, ARCHITECTURES), Stack((D, *ARCHITECTURES[0], 1))
    theta, small = started(stack, ARCHITECTURES), started(alone, ARCHITECTURES[:1])
    for place, start, a, b in ((stack, theta, x, y), (alone, small, x[:1], y[:1])):
        start.grad = torch.zeros_like(start)
        adam = torch.optim.Adam([start], lr=0.01, fused=True)
        for _ in range(20):
            gradient(place.layers(start), a, b, out=place.layers(start.grad))
            adam.step()
    inputs = D
    for (W, b), (V, c), outputs in zip(stack.layers(theta), alone.layers(small), (*ARCHITECTURES[0], 1), strict=True):
        torch.testing.assert_close(W[0, :inputs, :outputs], V[0], **EXACT)
        torch.testing.assert_close(b[0, 0, :outputs], c[0, 0], **EXACT)
        assert not W[0, inputs:].any()
        assert not W[0, :, outputs:].any()
        assert not b[0, 0, outputs:].any()
        inputs = outputs


def test_starts_have_the_variance_that_keeps_relu_layers_at_scale():
    layers = Stack((50, 400, 300, 1)).layers(Stack((50, 400, 300, 1)).start((400, 300), np.random.default_rng(0))[None])
    for (W, b), inputs, gain in zip(layers, (50, 400, 300), (2, 2, 1), strict=True):
        assert float(W.var()) == pytest.approx(gain / inputs, rel=0.25)
        assert float(b.abs().max()) <= inputs**-0.5


def test_folds_hold_out_each_row_at_most_once_and_train_on_all_others():
    X, y = map(torch.from_numpy, rows(23))
    folds = NetworkFolds.cut(X, y, 5, np.random.default_rng(0))
    assert folds.held.shape == (5, 4)
    assert len(np.unique(folds.held)) == 20
    for held, trained in zip(folds.held, folds.trained, strict=True):
        assert sorted([*held, *trained]) == list(range(23))


def prepared(architectures, n=200, k=2):
    X, y = (torch.from_numpy(a).float() for a in rows(n))
    stack = Stack.around(2, architectures)
    folds = NetworkFolds.cut(X, y, k, np.random.default_rng(0))
    theta = torch.stack([stack.start(a, np.random.default_rng(j)) for a in architectures for j in range(k)])
    return stack, theta, np.tile(np.arange(k), len(architectures)), folds


def watched(monkeypatch):
    """The weights and errors of every epoch, as the run goes by."""
    seen, errors = [], StackRun.errors

    def spy(run):
        found = errors(run)
        seen.append((run.networks.copy(), run.theta.clone(), found))
        return found

    monkeypatch.setattr(StackRun, "errors", spy)
    return seen


@pytest.mark.parametrize("patience", [3, 1000])
def test_each_network_keeps_its_best_epoch_and_leaves_after_its_patience(monkeypatch, patience):
    seen = watched(monkeypatch)
    stack, theta, fold, folds = prepared([(10, 10), (30, 30)])
    found = train_networks(
        stack, theta, fold, folds, Schedule(epochs=40, batch=20, rate=0.05, patience=patience), seed=0
    )
    for i in range(len(theta)):
        course = [(w[list(n).index(i)], e[list(n).index(i)]) for n, w, e in seen if i in n]
        best = int(np.argmin([e for _, e in course]))
        assert found.epochs[i] == best + 1
        assert found.errors[i] == course[best][1]
        torch.testing.assert_close(found.theta[i], course[best][0], rtol=0, atol=0)
        assert len(course) == min(40, best + 1 + patience)
    if patience == 3:
        assert len({sum(i in n for n, _, _ in seen) for i in range(len(theta))}) > 1, "all left at once: no test"


def test_those_that_leave_do_not_disturb_the_others(monkeypatch):
    seen = watched(monkeypatch)
    stack, theta, fold, folds = prepared([(10, 10), (30, 30)])
    for patience in (3, 1000):
        train_networks(stack, theta, fold, folds, Schedule(epochs=15, batch=20, rate=0.05, patience=patience), seed=0)
    short, long = seen[:-15], seen[-15:]
    assert any(0 < len(own) < len(theta) for own, _, _ in short), "none left: no test"
    for (own, weights, errors), (_, all_weights, all_errors) in zip(short, long, strict=False):
        torch.testing.assert_close(weights, all_weights[own], **ROUNDING)
        np.testing.assert_allclose(errors, all_errors[own], **ROUNDING)


def test_the_error_is_that_of_clipped_predictions_on_rows_not_trained_on():
    stack, theta, fold, folds = prepared([(10, 10)])
    run = StackRun(stack, 3 * theta, fold, folds, rate=0.1)
    for j, error in enumerate(run.errors()):
        x, y = folds.X[folds.held[j]], folds.y[folds.held[j]]
        f = forward(stack.layers(3 * theta[j : j + 1]), x[None])[-1][0, :, 0]
        assert f.abs().max() > 1
        assert error == pytest.approx(float(((f.clamp(-1, 1) - y) ** 2).mean()), rel=1e-5)


def test_held_out_rows_do_not_move_the_weights(monkeypatch):
    seen = watched(monkeypatch)
    stack, theta, fold, folds = prepared([(10, 10)])
    schedule = Schedule(epochs=3, batch=20)
    train_networks(stack, theta, fold, folds, schedule, seed=0)
    other = copy.deepcopy(folds)
    other.y[other.held[0]] = 1.0
    train_networks(stack, theta, fold, other, schedule, seed=0)
    first, second = seen[2][1], seen[5][1]
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


def test_a_network_does_not_depend_on_its_company():
    X, y = rows()
    schedule = Schedule(epochs=10, batch=40, rate=0.01, patience=4)
    architectures = [(20,), (8, 8), (5,), (12, 20)]
    together = choose_networks(X, y, architectures, schedule, entries=10**6)
    apart = choose_networks(X, y, architectures, schedule, entries=0)
    assert together.candidates.keys() == apart.candidates.keys()
    for widths in architectures:
        assert together.candidates[widths] == pytest.approx(apart.candidates[widths], rel=ROUNDING["rtol"])
    assert together.architecture == apart.architecture
    np.testing.assert_allclose(together.predict(X), apart.predict(X), **ROUNDING)
    assert together.flops > apart.flops


def test_stacks_share_a_depth_and_keep_to_their_size():
    stacks = shared(3, [(10,), (1000, 1000), (20,), (5, 5), (1000,)], k=5, entries=10_000)
    assert stacks == [[(10,), (20,)], [(1000,)], [(5, 5)], [(1000, 1000)]]


def test_the_seed_decides():
    X, y = rows()
    schedule = Schedule(epochs=4, batch=40)
    one, two, other = (choose_networks(X, y, [(10,), (10, 10)], schedule, seed=seed) for seed in (3, 3, 4))
    assert one.candidates == two.candidates
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert not np.array_equal(one.predict(X), other.predict(X))


def test_the_prediction_is_the_mean_of_the_folds_networks():
    X, y = rows(1500)
    found = choose_networks(X, y, [(10,), (6,)], Schedule(epochs=5), k=3, entries=10**6)
    x = torch.from_numpy(X).float()
    each = [forward(found.stack.layers(row[None]), x[None])[-1][0, :, 0].double().numpy() for row in found.theta]
    assert len(each) == len(found.epochs) == 3
    np.testing.assert_allclose(found.predict(X), np.mean(each, axis=0), **ROUNDING)
    assert found.predict(X[:0]).shape == (0,)


def test_the_smallest_error_wins():
    X, y = rows()
    found = choose_networks(X, y, [(1,), (40, 40)], Schedule(epochs=20, batch=20, rate=0.01))
    assert found.candidates[found.architecture] == min(found.candidates.values())
    assert found.architecture == (40, 40)


def test_networks_learn_what_ridge_regression_cannot():
    X, y = rows(1200)
    found = choose_networks(X[:600], y[:600], [(50, 50)], Schedule(epochs=40, batch=32, rate=0.01))
    error = np.mean((found.predict(X[600:]) - y[600:]) ** 2)
    ridge = np.mean((RidgeCV().fit(X[:600], y[:600]).predict(X[600:]) - y[600:]) ** 2)
    assert error < 0.1 * ridge


def test_flops_are_counted_by_the_product():
    stack = Stack((3, 4, 5, 1))
    products = 3 * 4 + 4 * 5 + 5 * 1
    assert stack.forward_flops() == 2 * products
    assert stack.step_flops(10) == 10 * (6 * products - 2 * 3 * 4) + 12 * stack.entries


def test_the_fifteen_architectures_of_the_paper_s_kind(monkeypatch):
    """Up to 1000 relu units per layer; the method gives all fifteen and the full schedule to the search."""
    assert len(set(networks.ARCHITECTURES)) == 15
    assert max(max(a) for a in networks.ARCHITECTURES) == 1000
    asked = {}
    monkeypatch.setattr(dnn, "choose_networks", lambda X, y, *given, **more: asked.update(given=given) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        dnn.DNN().fit(*rows(20), 0, Effort(threads=1))
    assert asked["given"] == (networks.ARCHITECTURES, Schedule())


def test_the_method_chooses_and_says_what():
    X, y = rows(200)
    fitted = METHODS["DNN"].fit(X, y, 0, Effort(threads=1, quick=True))
    assert fitted.predict(X).shape == (200,)
    assert len(fitted.chosen["epochs"]) == 5
    name = "x".join(map(str, fitted.chosen["architecture"]))
    assert fitted.chosen["validation"][name] == min(fitted.chosen["validation"].values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, "one label per row"),
        ({"X": np.full((300, 2), np.nan)}, "missing or infinite"),
        ({"k": 1}, "whole number from 2"),
        ({"k": 301}, "whole number from 2"),
        ({"architectures": []}, "at least one"),
        ({"architectures": [()]}, "at least one layer"),
        ({"architectures": [(3, 0)]}, "at least one unit"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        choose_networks(**({"X": X, "y": y} | change))


def test_bad_schedules_other_columns_and_divergence_are_refused():
    with pytest.raises(ValueError, match="whole numbers >= 1"):
        Schedule(epochs=0)
    with pytest.raises(ValueError, match="finite number > 0"):
        Schedule(rate=np.inf)
    X, y = rows()
    with pytest.raises(ValueError, match="2 columns"):
        choose_networks(X, y, [(3,)], Schedule(epochs=1)).predict(X[:, :1])
    with pytest.raises(ArithmeticError, match="lower the rate"):
        choose_networks(1e30 * X, y, [(3, 3)], Schedule(epochs=2, rate=1e30))


def test_the_networks_need_no_package_beyond_the_library_s_own():
    absent = ["pandas", "polars", "pyarrow", "typer", "dask", "catboost", "lightgbm", "xgboost", "xrfm", "pytabkit"]
    program = f"import sys; sys.modules |= dict.fromkeys({absent}); import hgk.bench.methods.dnn"
    subprocess.run([sys.executable, "-c", program], check=True)
