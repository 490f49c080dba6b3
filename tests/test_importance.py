"""Importance of columns: known truths, and the functions without single rows that it rests on."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_friedman1

from hgk import CompactModelError, HGKClassifier, HGKQuantileRegressor, HGKRegressor, load, save
from hgk.importance import Importance, noise_level
from hgk.insight import importance
from hgk.losses import LeastSquares, Pinball
from hgk.machines import Machine, MeanOfMachines, OnCentres, train, train_classes
from hgk.machines.base import COARSE
from hgk.permutation import FoldMachines, best_constant, donors, permutation_importance
from hgk.targets import Classes

FRIEDMAN = 120


def friedman(seed=0, n=FRIEDMAN, **more):
    return make_friedman1(n, n_features=6, noise=0.5, random_state=seed, **more)


def together():
    """The logistic loss of three classes, solved together."""
    X, y = friedman()
    model = HGKClassifier("plain", random_state=0).fit(X, np.digitize(y, [12, 17]))
    rows = model.model_.training.rows
    machine = train_classes(model.machine_.kernel, rows, 1e-3)
    target = Classes(model.model_.target.values, estimates=False)
    model.restore(replace(model.model_, machine=machine, target=target, memo={}), None)
    return model


@pytest.fixture(scope="module")
def models():
    X, y = friedman()
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    return {
        "plain": HGKRegressor("plain", random_state=0).fit(X, y),
        "weights": HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight),
        "outputs": HGKRegressor("plain", random_state=0).fit(X, np.column_stack([y, -(y**2)])),
        "few values": HGKRegressor("plain", random_state=0).fit(X, np.digitize(y, [12, 17])),
        "classes": HGKClassifier("plain", random_state=0).fit(X, np.digitize(y, [12, 17])),
        "two classes": HGKClassifier("plain", random_state=0).fit(X, y > 14),
        "logistic": HGKClassifier("plain", loss="logistic", random_state=0).fit(X, np.digitize(y, [12, 17])),
        "together": together(),
        "hinge": HGKClassifier("plain", loss="hinge", random_state=0).fit(X, y > 14),
        "pairs": HGKClassifier("plain", multi_class="ava", random_state=0).fit(X, np.digitize(y, [12, 17])),
        "pinball": HGKRegressor("plain", loss="pinball", tau=0.8, random_state=0).fit(X, y),
        "quantiles": HGKQuantileRegressor("plain", quantiles=[0.2, 0.5, 0.8], random_state=0).fit(X, y),
    }


NAMES = [
    "plain", "weights", "outputs", "few values", "classes", "two classes", "logistic", "together", "hinge", "pairs",
    "pinball", "quantiles",
]  # fmt: skip


# ------------------------------------------------------------------------------------------------ known truths


@pytest.mark.parametrize("seed", range(4))
def test_friedmans_columns_are_in_order_and_noise_tells_nothing(seed):
    """By construction x3, x0 and x1 matter more than x2 and x4, and x5 to x9 not at all."""
    X, y = make_friedman1(200, noise=1.0, random_state=seed)
    found = HGKRegressor("plain", random_state=0).fit(X, y).importance_
    assert found.mean[[0, 1, 3]].min() > found.mean[[2, 4]].max()
    assert found.mean[:5].min() > found.mean[5:].max()
    assert found.carries.tolist() == [True] * 5 + [False] * 5


def test_a_learned_kernel_gives_noise_nothing():
    X, y = make_friedman1(200, noise=1.0, random_state=12)
    model = HGKRegressor(random_state=12).fit(X, y)
    assert model.importance_.optimism > 0
    assert model.importance_.carries.tolist() == [True] * 5 + [False] * 5
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert (model.feature_importances_[5:] == 0).all()


def test_an_importance_is_the_r2_that_is_lost():
    """For y = 2 a + b, a permuted a adds 2 · 4 var(a) to the squared error, and b 2 var(b)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    y = 2 * X[:, 0] + X[:, 1]
    found = HGKRegressor("plain", random_state=0).fit(X, y).importance_
    for j, slope in enumerate([2, 1, 0]):
        assert found.mean[j] == pytest.approx(2 * slope**2 * X[:, j].var() / y.var(), rel=0.05, abs=1e-3)
    assert found.measure == "mean squared error"
    assert found.base < 1e-3


def test_an_id_tells_nothing():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"id": np.arange(150), "a": rng.standard_normal(150)}).sample(frac=1, random_state=0)
    y = np.sin(2 * X["a"]) + 0.2 * rng.standard_normal(150)
    assert HGKRegressor("plain", random_state=0).fit(X, y).feature_importances_.tolist() == [0, 1]


def test_columns_that_say_the_same_matter_together():
    """Alone, each of three copies matters less than all of them, which matter as much as the column itself."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 200))
    y = a + b + 0.1 * rng.standard_normal(200)
    copies = a + 0.01 * rng.standard_normal((2, 200))
    frame = pd.DataFrame({"a": a, "a2": copies[0], "a3": copies[1], "b": b})
    model = HGKRegressor("plain", random_state=0).fit(frame, y)
    found = importance(model, {"copies": ["a", "a2", 2], "b": ["b"]})
    assert found.names == ("copies", "b")
    alone = model.importance_.mean[:3].max()
    assert found.mean[0] > 2 * alone
    assert abs(found.mean[0] - found.mean[1]) < 4 * np.hypot(*found.error)


def test_categories_and_missing_cells_move_as_whole_columns():
    rng = np.random.default_rng(0)
    town, hole = rng.choice(["Ulm", "Bonn", "Köln"], 200), rng.random(200) < 0.4
    frame = pd.DataFrame({"town": town, "hole": np.where(hole, np.nan, rng.random(200)), "noise": rng.random(200)})
    y = np.select([town == "Ulm", town == "Bonn"], [0.0, 1.0], 2.0) + 2 * hole + 0.1 * rng.standard_normal(200)
    model = HGKRegressor("plain", random_state=0).fit(frame, y)
    assert len(model.model_.inputs.encoder.features) > 3
    assert model.importance_.carries.tolist() == [True, True, False]
    # a row's new category differs with probability 2/3, and then by a squared distance of 2; var = 2/3
    expected = np.mean((np.subtract.outer(y - 2 * hole, y - 2 * hole)) ** 2) / np.var(y)
    assert abs(model.importance_.mean[0] - expected) < 4 * model.importance_.error[0] + 0.05


@pytest.mark.parametrize("name", NAMES)
def test_all_kinds_of_models_find_the_column_of_noise(models, name):
    found = models[name].importance_
    assert found.carries[[0, 1, 3]].all()
    assert not found.carries[5]
    assert models[name].feature_importances_.sum() == pytest.approx(1)
    classes = models[name].model_.target.classes
    assert found.measure == (
        "log-loss" if classes else "pinball loss" if name in ("pinball", "quantiles") else "mean squared error"
    )
    assert 0 < found.base < 1


def test_labels_without_a_pattern_and_constant_columns_have_none():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((100, 2)), np.ones(100)])
    with pytest.warns(UserWarning, match="Constant columns"):
        model = HGKRegressor("plain", random_state=0).fit(X, rng.standard_normal(100))
    assert model.feature_importances_.tolist() == [0, 0, 0]
    assert model.importance_.mean[2] == model.importance_.error[2] == 0


def test_weights_are_repetitions():
    X, y = friedman()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight)
    repeated = HGKRegressor("plain", random_state=0).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    for name in ("mean", "error", "spread"):
        np.testing.assert_allclose(
            getattr(weighted.importance_, name), getattr(repeated.importance_, name), rtol=1e-6, atol=1e-9
        )


# ------------------------------------------------------------------------------------------------ how it is made


def test_the_increase_is_that_of_the_loss_with_cells_of_other_rows(models):
    """From the definition, with predictions by refits without the row."""
    model = models["plain"]
    given = model.model_.training.rows
    fitted = replace(model.model_, machine=train(model.machine_.kernel, given, model.lam_), memo={})  # no folds
    found = permutation_importance(fitted, repeats=2, rows=5, seed=3)
    rng = np.random.default_rng(3)
    index = np.sort(rng.permutation(len(given))[:5])
    lam = model.lam_ * len(given) / (len(given) - 1)  # c = nλ stays
    without = []
    for i in index:
        rest = torch.arange(len(given)) != i
        without.append(train(model.machine_.kernel, given[rest], lam))
    Y = given.Y[index]

    def losses(X):
        t = torch.cat([f(x[None]).clamp(-1, 1) for f, x in zip(without, X, strict=True)])
        return ((Y - t) ** 2).sum(1)

    owner, unit = fitted.inputs.encoder.owner, float(given.Y.var(correction=0))
    for repeat in range(2):
        for j in range(6):
            moved, taken = given.X[index].clone(), donors(given.weight.numpy(), rng)[index]
            moved[:, owner == j] = given.X[taken][:, owner == j]
            expected = float((losses(moved) - losses(given.X[index])).mean()) / unit
            assert found.repeats[repeat, j] == pytest.approx(expected, abs=COARSE)


@pytest.mark.parametrize("weights", [np.ones(50), np.random.default_rng(0).random(50) + 0.1])
def test_no_row_takes_its_own_cells_and_all_give_theirs_by_weight(weights):
    rng, given = np.random.default_rng(0), np.zeros(50)
    for _ in range(400):
        taken = donors(weights, rng)
        assert (taken != np.arange(50)).all()
        if (weights == 1).all():
            assert np.array_equal(np.sort(taken), np.arange(50))
        given += np.bincount(taken, weights, 50) / weights.sum()
    np.testing.assert_allclose(given / 400, weights / weights.sum(), atol=4 * np.sqrt(0.04 / 50 / 400) + 1e-3)


def test_the_best_constant_is_the_mean_or_the_quantile():
    Y, share = torch.randn(200, 1, dtype=torch.float64), torch.full((200,), 1 / 200, dtype=torch.float64)
    assert best_constant(LeastSquares(), Y, share) == pytest.approx(float(Y.var(correction=0)))
    loss, quantile = Pinball(0.3), Y.quantile(0.3)
    assert best_constant(loss, Y, share) == pytest.approx(float(loss.value(Y, quantile.expand_as(Y)).mean()), rel=1e-3)


def test_what_is_within_noise_is_shown_as_none():
    error = np.array([0.1, 0.1, 0.0])
    found = Importance(("a", "b", "c"), np.array([[0.5, 0.2, 0.0], [0.7, 0.4, 0.0]]), error, 0.3, "log-loss", 9)
    assert noise_level(3, 10_000) == pytest.approx(3.4, abs=0.05)
    assert noise_level(3, 10) > 5  # few rows measure their errors badly
    np.testing.assert_allclose(found.mean, [0.6, 0.3, 0.0])
    assert found.shown.tolist() == pytest.approx([0.6, 0, 0])
    assert found.shares.tolist() == [1, 0, 0]
    assert found.order.tolist() == [0, 1, 2]
    assert not replace(found, optimism=0.3).carries.any()
    assert replace(found, repeats=-found.repeats).shares.tolist() == [0, 0, 0]


def without_all(model, index):
    rows = model.columns(model.training.rows)
    return rows, model.machine.without_one(rows, index)[1]


@pytest.mark.parametrize("name", ["plain", "weights", "outputs", "few values", "classes", "two classes", "together"])
@pytest.mark.parametrize("coarse", [False, True])
def test_functions_without_a_rows_own_are_those_without_one(models, name, coarse):
    model = models[name].model_
    index = torch.tensor([3, 17, 50])
    rows, elsewhere = without_all(model, index)
    X, place = rows.X[torch.arange(12)] + 0.01, torch.tensor([0, 1, 2, 2] * 3)
    assert name != "weights" or bool((rows.repetitions > 1).any())
    expected = elsewhere(X)[:, torch.arange(12), place].T
    own = model.machine.without_own(rows, index, coarse)(X, place)
    np.testing.assert_allclose(own.numpy(), expected.numpy(), atol=2e-3 if coarse else 1e-9)
    naive = Machine.without_own(model.machine, rows, index)(X, place)
    np.testing.assert_allclose(naive.numpy(), expected.numpy(), atol=1e-12)


def test_so_are_those_of_folds_on_centres_and_of_means(models):
    model = models["plain"].model_
    rows, machine, index = model.training.rows, model.machine, torch.tensor([3, 17, 50])
    folds = [torch.arange(len(rows)) % 4 != k for k in range(4)]
    parts = [(fold.nonzero()[:, 0], rows.weight[fold]) for fold in folds]
    of_parts = train(machine.kernel, rows, machine.lam, parts)
    centres = OnCentres(machine.kernel, 1e-3, rows.X[::4], torch.zeros(30, 1, dtype=torch.float64))
    mean = MeanOfMachines((machine, of_parts), (1.0, 3.0))
    X, place = rows.X[:9] + 0.01, torch.tensor([0, 1, 2] * 3)
    for tried in (of_parts, centres, mean):
        expected = tried.without_one(rows, index)[1](X)[:, torch.arange(9), place].T
        np.testing.assert_allclose(tried.without_own(rows, index)(X, place).numpy(), expected.numpy(), atol=1e-8)


@pytest.mark.parametrize("name", ["hinge", "pinball", "quantiles", "pairs"])
def test_with_other_losses_they_are_what_was_held_out_and_f_far_away(models, name):
    model, index = models[name].model_, torch.tensor([3, 17, 50])
    rows = model.training.rows
    own = model.machine.without_own(rows, index)
    place = torch.arange(3)
    np.testing.assert_allclose(own(rows.X[index], place).numpy(), model.machine.held_out[index].numpy(), atol=1e-9)
    far = rows.X[index] + 1e3
    np.testing.assert_allclose(own(far, place).numpy(), model.machine(far).numpy(), atol=1e-9)


@pytest.mark.parametrize("name", ["hinge", "pinball", "quantiles", "pairs"])
def test_folds_of_other_losses_are_trained_once_more(models, name):
    """Their mean is the machine, and what they say of rows of their own fold was held out."""
    model = models[name].model_
    folds, rows = FoldMachines.of(model), model.training.rows
    assert (folds.without.sum(1) == 1).all()
    everywhere = torch.arange(len(rows))
    clip = model.machine.clip
    held_out = model.machine.held_out.clamp(-clip, clip)
    np.testing.assert_allclose(folds.values(everywhere, rows.X, everywhere).numpy(), held_out.numpy(), atol=0.02)
    np.testing.assert_allclose(
        folds.alpha.mean(1).numpy(), model.machine.alpha.numpy(), atol=0.02 * folds.alpha.abs().max()
    )


# ------------------------------------------------------------------------------------------------ who keeps it


def test_it_is_computed_once_and_kept_in_files_compact_ones_too(models, tmp_path):
    model = models["plain"]
    assert importance(model) is model.importance_
    for compact in (False, True):
        save(model, tmp_path / "m.hgk", compact=compact, force=True)
        loaded = load(tmp_path / "m.hgk")
        np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
        assert loaded.importance_.names == model.importance_.names
    fresh = HGKRegressor("plain", random_state=0).fit(*friedman())
    save(fresh, tmp_path / "fresh.hgk", compact=True)
    assert fresh.model_.importance is None
    with pytest.raises(CompactModelError, match="The importance of columns needs the training labels"):
        _ = load(tmp_path / "fresh.hgk").feature_importances_


def test_a_compressed_model_keeps_it_where_it_was_known(models):
    model = models["plain"]
    _ = model.importance_
    small = model.compress(0.5)
    np.testing.assert_array_equal(small.feature_importances_, model.feature_importances_)


def test_what_cannot_be_asked_gets_one_sentence(models):
    model = models["plain"]
    with pytest.raises(ValueError, match="repeats=0 was given; a whole number >= 2"):
        importance(model, repeats=0)
    with pytest.raises(ValueError, match=r"rows=1\.5 was given; a whole number >= 2"):
        importance(model, rows=1.5)
    with pytest.raises(ValueError, match="at least one group is expected"):
        importance(model, {"empty": []})
    with pytest.raises(ValueError, match=r"The column 'z' was given"):
        importance(model, {"one": ["z"]})
