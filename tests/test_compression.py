"""A model on fewer rows: the same function, measured on rows that had no say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hgk
from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor
from hgk.compression import compressed
from hgk.events import CompressedTo, last
from hgk.machines import Compressed, Compression, Exact, InLeaves, Rows, train
from hgk.model import CompactModelError
from hgk.storage import describe


def friedman(n, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + noise * rng.standard_normal(n)


@pytest.fixture(scope="module")
def model():
    return HGKRegressor("plain", random_state=0).fit(*friedman(700))


@pytest.fixture(scope="module")
def small(model):
    return model.compress(0.01)


def test_a_tenth_of_the_rows_predict_new_rows_as_well(model, small):
    X, y = friedman(5000, seed=1, noise=0.0)
    before, after = (float(np.mean((m.predict(X) - y) ** 2)) for m in (model, small))
    told = last(small.history_, CompressedTo)
    assert told.kept == len(small.machine_.X) <= 0.25 * len(model.machine_.X)
    # the noise, of variance 1, is a part of the error that the tolerance is of
    assert 1 + after <= 1.02 * (1 + before)
    assert told.after <= 1.01 * told.before


def test_a_larger_tolerance_keeps_fewer_rows(model, small):
    assert len(model.compress(0.1).machine_.X) < len(small.machine_.X)


def test_centres_are_training_rows_and_the_same_each_time(model, small):
    training = {row.tobytes() for row in model.model_.training.rows.X.numpy()}
    assert all(row.tobytes() in training for row in small.machine_.X.numpy())
    assert torch.equal(model.compress(0.01).machine_.alpha, small.machine_.alpha)


def test_the_model_that_was_compressed_stays_as_it_was(model, small):
    assert isinstance(model.machine_, Exact)
    assert len(model.loo_predictions_) == 700
    assert last(model.history_, CompressedTo) is None


def test_what_needs_the_training_rows_says_so(small):
    with pytest.raises(CompactModelError, match="compressed models leave out"):
        small.predict_interval(friedman(3)[0])
    with pytest.raises(CompactModelError):
        small.compress()
    with pytest.raises(ValueError, match="compressed model"):
        small.machine_.leave_two_out(None, None)


def test_a_file_is_smaller_holds_the_centres_alone_and_predicts_the_same_bits(model, small, tmp_path):
    hgk.save(model, tmp_path / "m.hgk")
    hgk.save(small, tmp_path / "s.hgk")
    X = friedman(50, seed=2)[0]
    loaded = hgk.load(tmp_path / "s.hgk")
    assert np.array_equal(loaded.predict(X), small.predict(X))
    assert (tmp_path / "s.hgk").stat().st_size < 0.5 * (tmp_path / "m.hgk").stat().st_size
    assert describe(tmp_path / "s.hgk")["summary"]["compressed"] == last(small.history_, CompressedTo).words
    assert not bool(loaded.model_.training)


def test_on_all_rows_as_centres_the_function_is_met_at_every_row():
    """An identity: with every row a centre, f lies in the span."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.uniform(-1, 1, (60, 2)))
    rows = Rows(X, torch.sin(3 * X[:, :1]), torch.ones(60, dtype=torch.float64))
    machine = train(hgk.HierarchicalKernel.of(hgk.inhomogeneous(2), [[1.5, 1.5]]), rows, 1e-2)
    compression = Compression(machine.kernel, X, machine(X), rows.weight, rng)
    *_, t = compression.blocks(60)
    assert len(compression.index.unique()) == 60
    np.testing.assert_allclose(t, machine(X), atol=1e-4)
    new = torch.from_numpy(rng.uniform(-1, 1, (20, 2)))
    np.testing.assert_allclose(compression.compressed(machine)(new), machine(new), atol=1e-3)


def test_residuals_of_blocks_are_those_of_one_projection():
    """Blocks of L⁻¹ k add up to the least-squares projection on all centres at once."""
    rng = np.random.default_rng(1)
    X = torch.from_numpy(rng.uniform(-1, 1, (200, 2)))
    kernel = hgk.HierarchicalKernel.of(hgk.inhomogeneous(2), [[4.0, 6.0]])
    values = torch.sin(3 * X[:, :1]) * X[:, 1:]
    weight = torch.from_numpy(rng.uniform(0.5, 2, 200)).index_fill(0, torch.arange(20), 0.0)
    compression = Compression(kernel, X, values, weight, rng)
    *_, t = compression.blocks(70)
    assert not set(compression.index.tolist()) & set(range(20))
    K, root = kernel.matrix(X, X[compression.index]).numpy(), weight.sqrt().numpy()[:, None]
    alpha = np.linalg.lstsq(root * K, root * values.numpy(), rcond=1e-8)[0]
    np.testing.assert_allclose(t[20:], (K @ alpha)[20:], atol=3e-4)


@pytest.mark.parametrize("case", ["classes", "two classes", "hinge", "quantiles", "weights and repetitions", "outputs"])
def test_every_kind_of_label(case):
    X, y = friedman(400)
    weight = None
    if case == "quantiles":
        model = HGKQuantileRegressor("plain", quantiles=[0.1, 0.9], random_state=0)
    elif case in ("classes", "two classes", "hinge"):
        y = np.digitize(y, np.quantile(y, [0.3, 0.7] if case == "classes" else [0.5]))
        model = HGKClassifier("plain", loss="hinge" if case == "hinge" else "auto", random_state=0)
    else:
        model, weight = (
            HGKRegressor("plain", random_state=0),
            np.random.default_rng(0).integers(1, 4, 400).astype(float),
        )
        y = np.column_stack([y, -y]) if case == "outputs" else y
    model.fit(X, y) if case == "quantiles" else model.fit(X, y, weight)
    small = model.compress(0.05)
    told = last(small.history_, CompressedTo)
    assert isinstance(small.machine_, Compressed) == (told.kept < 400)
    assert told.kept < 300
    of = "predict_proba" if case in ("classes", "two classes") else "predict"
    before, after = (np.asarray(getattr(m, of)(X), float) for m in (model, small))
    assert np.mean(np.abs(after - before)) < 0.2 * before.std()


@pytest.mark.parametrize("loss", ["hinge", "quantiles"])
def test_what_was_trained_on_all_rows_is_not_flattered_by_them(loss):
    """Other losses have no machine without the rows that have no say; new rows tell what compression cost."""
    X, y = friedman(600)
    new, y_new = friedman(4000, seed=1)
    if loss == "quantiles":
        model = HGKQuantileRegressor("plain", quantiles=[0.2, 0.8], random_state=0).fit(X, y)
    else:
        y, y_new = y > 14, y_new > 14
        model = HGKClassifier("plain", loss="hinge", random_state=0).fit(X, y)
    small = model.compress(0.01)
    errors = []
    for one in (model, small):
        if loss == "hinge":
            errors.append(-np.log(one.predict_proba(new)[np.arange(4000), y_new.astype(int)]).mean())
        else:
            r = y_new[:, None] - one.predict(new)
            errors.append(np.maximum(np.array([0.2, 0.8]) * r, np.array([-0.8, -0.2]) * r).mean())
    assert last(small.history_, CompressedTo).kept < 600
    assert errors[1] < 1.02 * errors[0]


def test_where_half_the_rows_are_not_enough_all_stay():
    """A function as fine as the rows, without noise, has no shorter form."""
    X = np.random.default_rng(0).uniform(-1, 1, (150, 1))
    kernel = hgk.HierarchicalKernel.of(hgk.inhomogeneous(1), [[40.0]])
    model = HGKRegressor(kernel=kernel, lam=1e-8).fit(X, np.sin(60 * X[:, 0]))
    small = model.compress(1e-6)
    assert last(small.history_, CompressedTo).kept == 150
    assert "150 of 150 rows" in last(small.history_, CompressedTo).words
    assert np.array_equal(small.predict(X), model.predict(X))


@pytest.mark.parametrize("tolerance", [0, -0.1, float("nan"), "1%", True])
def test_a_tolerance_that_is_none_is_refused(model, tolerance):
    with pytest.raises(ValueError, match="a number > 0 is expected"):
        model.compress(tolerance)


def test_leaves_are_not_compressed(model):
    with pytest.raises(ValueError, match="a model in leaves looks at one leaf"):
        compressed(replace(model.model_, machine=object.__new__(InLeaves)), 0.01)
