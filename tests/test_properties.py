"""Whatever is given: a finite prediction in the range of the labels, or one sentence."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

import hgk
from hgk import HierarchicalKernel
from hgk.bench.peers.hkl import HKLRegressor
from hgk.inputs import Encoder, Inputs, Reader, merge_rows, split
from strategies import attempted, columns, examples, frames, model_of, tables, targets, weights

PRESETS = ["plain", "default"]


def within(t, y):
    """Finite, and between the smallest and the largest label, give or take rounding."""
    y = np.asarray(y, dtype=float)
    low, high = y.min(), y.max()
    slack = 4 * np.finfo(float).eps * max(abs(low), abs(high))
    with np.errstate(over="ignore"):
        return np.isfinite(t).all() and (t >= low - slack).all() and (t <= high + slack).all()


@pytest.mark.parametrize("preset", PRESETS)
@examples(25)
@given(data=st.data())
def test_any_numbers_give_predictions_in_the_range_of_the_labels_or_a_sentence(preset, data):
    X = data.draw(tables(least=1))
    y, weight = data.draw(targets(len(X))), data.draw(weights(len(X)))
    model = attempted(lambda: model_of(preset).fit(X, y, weight))
    if model is not None:
        kept = np.ones(len(X), dtype=bool) if weight is None else weight > 1e-12 * np.max(weight)
        assert within(attempted(lambda: model.predict(X)), y[kept])
        bounds = attempted(lambda: model.predict_interval(X, 0.8))
        assert not np.isnan(bounds).any()
        assert (bounds[:, 0] <= bounds[:, 1]).all()
        assert within(attempted(lambda: model.loo_predictions_), y[kept])
        assert model.exponent_shares_.sum() <= 1 + 1e-9


@pytest.mark.parametrize("preset", PRESETS)
@examples(15)
@given(data=st.data())
def test_any_table_gives_known_classes_and_probabilities_or_a_sentence(preset, data):
    X = data.draw(st.one_of(tables(), frames()))
    labels = st.sampled_from([np.array(["no", "yes", "perhaps"]), np.array([-1, 2**40, 7]), np.array([0.0, 1.0, 2.0])])
    y = data.draw(labels)[data.draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X)))]
    weight = data.draw(weights(len(X)))
    model = attempted(lambda: model_of(preset, classifier=True).fit(X, y, weight))
    if model is not None:
        assert np.isin(attempted(lambda: model.predict(X)), y).all()
        p = attempted(lambda: model.predict_proba(X))
        assert np.isfinite(p).all()
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(1), 1)


@pytest.mark.parametrize("preset", PRESETS)
@examples(15)
@given(data=st.data())
def test_any_frame_gives_predictions_in_the_range_of_the_labels_or_a_sentence(preset, data):
    X = data.draw(frames())
    y = data.draw(targets(len(X)))
    model = attempted(lambda: model_of(preset).fit(X, y))
    if model is not None:
        assert within(attempted(lambda: model.predict(X)), y)


@pytest.mark.parametrize("preset", PRESETS)
@examples(10)
@given(data=st.data())
def test_any_other_table_at_prediction_gives_predictions_or_a_sentence(preset, data):
    X, other = data.draw(frames(least=3)), data.draw(st.one_of(frames(least=1), tables(least=1)))
    y = np.arange(len(X), dtype=float)
    model = attempted(lambda: model_of(preset).fit(X, y))
    if model is not None and not hasattr(other, "columns"):
        t = attempted(lambda: model.predict(other))
        assert t is None or within(t, y)
    elif model is not None and other.shape[1] >= X.shape[1]:
        # the same names, other types of columns
        other = other[list(other.columns[: X.shape[1]])]
        other.columns = X.columns
        t = attempted(lambda: model.predict(other))
        assert t is None or within(t, y)


@examples(15)
@given(data=st.data())
def test_hierarchical_kernel_learning_takes_any_numbers_too(data):
    X = data.draw(tables(least=1, most=10, widest=3))
    y = data.draw(targets(len(X)))
    model = attempted(lambda: HKLRegressor(lam=1e-3, max_nodes=8, random_state=0).fit(X, y))
    if model is not None:
        assert within(attempted(lambda: model.predict(X)), y)


# -------------------------------------------------------------------------------------------------- equivariance


@st.composite
def ordinary(draw):
    """Rows without extremes: few values, so that ties and copies are common, or many."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    n, d = draw(st.integers(6, 24)), draw(st.integers(1, 4))
    X = rng.standard_normal((n, d)) if draw(st.booleans()) else rng.integers(0, 3, (n, d)).astype(float)
    return X, np.sin(X.sum(1)) + 0.1 * rng.standard_normal(n), rng


def fitted(preset, X, y, weight=None):
    return attempted(lambda: model_of(preset).fit(X, y, weight))


@pytest.mark.parametrize("preset", PRESETS)
@examples(8)
@given(rows=ordinary())
def test_the_order_of_rows_does_not_matter(preset, rows):
    X, y, rng = rows
    order = rng.permutation(len(X))
    one, other = fitted(preset, X, y), fitted(preset, X[order], y[order])
    assert np.array_equal(one.predict(X), other.predict(X))
    assert np.array_equal(one.loo_predictions_[order], other.loo_predictions_)


@pytest.mark.parametrize("preset", PRESETS)
@examples(8)
@given(rows=ordinary())
def test_whole_weights_are_repetitions_and_of_others_only_the_ratios_count(preset, rows):
    X, y, rng = rows
    weight = rng.integers(0, 4, len(X))
    weight[:3] = 1
    one, other = fitted(preset, X, y, weight), fitted(preset, np.repeat(X, weight, 0), np.repeat(y, weight))
    assert np.array_equal(one.predict(X), other.predict(X))
    relative = 0.75 * weight
    expected = fitted(preset, X, y, relative).predict(X)
    for unit in (2.0**-1060, 2.0**1000):
        assert np.array_equal(fitted(preset, X, y, relative * unit).predict(X), expected)


@pytest.mark.parametrize("preset", PRESETS)
@examples(8)
@given(rows=ordinary(), power=st.integers(-900, 900))
def test_the_unit_of_the_labels_does_not_matter(preset, rows, power):
    """Exactly so for powers of two; nearly so for other factors and for shifts."""
    X, y, _ = rows
    t = fitted(preset, X, y).predict(X)
    assert np.array_equal(fitted(preset, X, y * 2.0**power).predict(X), t * 2.0**power)
    np.testing.assert_allclose(fitted("plain", X, 3 * y + 7).predict(X), 3 * fitted("plain", X, y).predict(X) + 7, 1e-6)


@pytest.mark.parametrize("preset", PRESETS)
@examples(8)
@given(rows=ordinary(), power=st.integers(-900, 900))
def test_the_units_of_the_columns_do_not_matter(preset, rows, power):
    X, y, _ = rows
    t = fitted(preset, X, y).predict(X)
    assert np.array_equal(fitted(preset, X * 2.0**power, y).predict(X * 2.0**power), t)
    np.testing.assert_allclose(fitted("plain", 3 * X + 7, y).predict(3 * X + 7), fitted("plain", X, y).predict(X), 1e-5)


@pytest.mark.parametrize("preset", PRESETS)
@examples(6)
@given(rows=ordinary(), layout=st.sampled_from([np.asfortranarray, pd.DataFrame, lambda X: X.astype(object)]))
def test_the_layout_and_the_container_do_not_matter(preset, rows, layout):
    X, y, _ = rows
    model = model_of(preset)
    t = attempted(lambda: clone(model).fit(X, y).predict(X))
    other = layout(X)
    if hasattr(other, "columns"):
        other.columns = [f"c{j}" for j in range(X.shape[1])]
    again = attempted(lambda: clone(model).fit(other, y))
    assert np.array_equal(again.predict(other), t)
    assert np.array_equal(pickle.loads(pickle.dumps(again)).predict(other), t)
    assert np.array_equal(attempted(lambda: clone(again).fit(other, y)).predict(other), t)


# --------------------------------------------------------------------------------------------- files and parts


@pytest.mark.parametrize("classifier", [False, True])
@examples(12)
@given(data=st.data())
def test_any_model_comes_back_from_its_file_bit_by_bit(classifier, data, tmp_path_factory):
    X = data.draw(st.one_of(frames(), tables()))
    y = np.arange(len(X)) % 2 if classifier else data.draw(targets(len(X)))
    model = attempted(lambda: model_of("plain", classifier).fit(X, y, data.draw(weights(len(X)))))
    if model is not None:
        path = tmp_path_factory.getbasetemp() / f"any-{classifier}.hgk"
        if attempted(lambda: hgk.save(model, path) or True):
            back = hgk.load(path)
            assert np.array_equal(back.predict(X), model.predict(X))
            assert np.array_equal(back.loo_predictions_, model.loo_predictions_)


@examples(40)
@given(data=st.data())
def test_any_numbers_give_a_kernel_matrix_or_a_sentence(data):
    X = data.draw(tables(least=1))
    trees = [hgk.isotropic(X.shape[1]), hgk.inhomogeneous(X.shape[1]), hgk.two_layers(X.shape[1], 2)]
    tree = data.draw(st.sampled_from(trees))
    W = [data.draw(hnp.arrays(float, tuple(m.shape), elements=st.floats(0, 1e3))) for m in tree.free()]
    kernel = HierarchicalKernel.of(tree, *W, gamma=data.draw(st.floats(1e-3, 1e3)))
    K = attempted(lambda: kernel(X))
    if K is not None:
        assert ((K >= 0) & (K <= 1)).all()
        assert (np.diag(K) == 1).all()
        assert np.array_equal(K, K.T)


@examples(40)
@given(data=st.data())
def test_features_are_finite_and_about_one_and_keep_the_order(data):
    x = np.asarray(data.draw(columns(data.draw(st.integers(1, 20)))), dtype=float)
    weight = np.ones(len(x))
    reader = Reader.of([x], ["x"])
    encoder = Encoder.of(x[:, None], weight, reader, steps=data.draw(st.booleans()))
    F = encoder(x[:, None])
    assert np.isfinite(F).all()
    assert np.abs(F).max() <= 1 + 1e9
    order = np.argsort(x[~np.isnan(x)], kind="stable")
    for feature, kind in zip(F.T, (f.kind for f in encoder.features), strict=True):
        assert kind == "missing" or (np.diff(feature[~np.isnan(x)][order]) >= 0).all()


@examples(40)
@given(X=tables(least=1))
def test_merging_keeps_every_row_and_all_weight(X):
    X = X.astype(float)
    y, weight = np.zeros((len(X), 1)), np.arange(1.0, len(X) + 1)
    merged = merge_rows(X, y, weight)
    np.testing.assert_array_equal(merged.X[merged.place], X)
    assert merged.weight.sum() == weight.sum()
    assert len(np.unique(np.nan_to_num(merged.X, nan=1.7e308), axis=0)) == len(merged.X)


@examples(40)
@given(X=frames(least=1))
def test_any_frame_is_read_into_finite_features(X):
    def features():
        columns, names = split(X)
        reader = Reader.of(columns, names)
        table = reader(columns)
        return Inputs(Encoder.of(table, np.ones(len(X)), reader).columns)(X)

    F = attempted(features)
    assert F is None or (len(F) == len(X) and np.isfinite(F).all())
