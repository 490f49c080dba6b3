"""Tables as people have them: scaling, ranks, categories, missing cells, dates."""

import re
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import hgk
from hgk import HGKClassifier, HGKRegressor, HierarchicalKernel, inhomogeneous
from hgk.arrays import threads
from hgk.inputs import (
    STEPS_PER_COLUMN,
    Category,
    Column,
    ColumnSettings,
    Date,
    Encoder,
    Numeric,
    Reader,
    column_remarks,
    merge_rows,
    pieces,
    register,
    split,
)
from hgk.inputs.columns import COLUMN_KINDS
from hgk.inputs.pieces import PIECE
from hgk.inputs.remarks import counting_remarks
from hgk.insight import contributions
from hgk.report import report
from hgk.storable import storable


def numeric(x, weight=None, **options):
    weight = np.ones(len(x)) if weight is None else weight
    return Numeric("x").learned(np.asarray(x, dtype=float), weight, ColumnSettings(**options))


def test_the_scaled_copy_keeps_the_bulk_apart_under_heavy_tails_and_stays_monotone():
    x = np.r_[np.linspace(-1, 1, 99), 1e6]
    u = numeric(x)(np.sort(x))[:, 0]
    assert np.ptp(u[:99]) > 0.5  # the outlier does not squash the others
    assert (np.diff(u) > 0).all()
    by_range = numeric(x, robust=False)(x)[:, 0]
    assert np.ptp(by_range[:99]) < 1e-5
    assert (by_range.min(), by_range.max()) == pytest.approx((-1, 1))


def test_the_rank_copy_is_the_weighted_distribution_function():
    x, weight = np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0])
    ranks = numeric(x, weight)(x)[:, 1]
    np.testing.assert_allclose(ranks, [2 * (2 + 1) / 4 - 1, 2 * 0.5 / 4 - 1, 2 * 1.5 / 4 - 1])
    repeated = np.array([3.0, 3.0, 1.0, 2.0])
    np.testing.assert_allclose(numeric(repeated)(x), numeric(x, weight)(x))
    many = np.random.default_rng(0).lognormal(size=5000)
    knotted = numeric(many)(many)[:, 1]
    exact = 2 * (np.argsort(np.argsort(many)) + 0.5) / 5000 - 1
    np.testing.assert_allclose(knotted, exact, atol=5e-3)


def test_missing_cells_sit_in_the_middle_and_are_marked_only_if_training_had_some():
    column = numeric([1.0, np.nan, 3.0, 5.0])
    features = column(np.array([np.nan, 3.0]))
    assert [kind for _, kind in column.features] == ["scaled", "rank", "missing"]
    np.testing.assert_allclose(features, [[0, 0, 0.5], [0, 0, -0.5]])
    assert numeric([1.0, 2.0, 3.0])(np.array([np.nan])).shape == (1, 2)
    assert np.isfinite(numeric([np.nan, np.nan])(np.array([np.nan, 1.0]))).all()


def test_categories_become_indicators_and_rare_or_unseen_ones_have_none():
    rng = np.random.default_rng(0)
    cells = np.array([f"c{int(v)}" for v in np.minimum(rng.exponential(8, 2000), 60)], dtype=object)
    reader = Reader.of([cells], ["c"])
    column = reader.columns[0].learned(reader([cells])[:, 0], np.ones(2000), ColumnSettings())
    assert len(column.features) == 30
    unseen = column(reader([np.array(["never", None], dtype=object)])[:, 0])
    assert (unseen == -0.5).all()
    two = Category("t", ("a", "b")).learned(np.array([0.0, 1.0, 0.0]), np.ones(3), ColumnSettings())
    assert two.features == (("t=b", "category"),)


def test_merging_treats_missing_cells_as_equal():
    X = np.array([[np.nan, 1.0], [np.nan, 1.0], [0.0, 1.0]])
    merged = merge_rows(X, np.zeros((3, 1)), np.ones(3))
    assert sorted(merged.weight) == [1.0, 2.0]
    assert merged.place[0] == merged.place[1] != merged.place[2]


# ------------------------------------------------------------------------------------------- large tables, naive twins


def merged_by_unique(X, y, weight, count):
    """Distinct rows by ``np.unique``, infinity in place of NaN, which is not equal to itself."""
    kept = np.flatnonzero(weight > 0)
    table = np.column_stack([X, y])[kept]
    distinct, place = np.unique(np.where(np.isnan(table), np.inf, table), axis=0, return_inverse=True)
    everywhere = np.full(len(X), -1)
    everywhere[kept] = place.reshape(-1)
    sums = [np.bincount(everywhere[kept], weights=values[kept]) for values in (weight, count)]
    return np.where(np.isinf(distinct), np.nan, distinct), *sums, everywhere


def tables_to_merge():
    rng = np.random.default_rng(0)
    continuous, coarse = rng.standard_normal((500, 6)), rng.integers(-1, 3, (3000, 5)).astype(float)
    holes = np.where(rng.random((3000, 4)) < 0.3, np.nan, rng.integers(-1, 2, (3000, 4)))
    zeros = np.where(rng.random((400, 3)) < 0.5, -0.0, rng.integers(0, 2, (400, 3)))
    return {
        "all different": continuous,
        "ties in every column": coarse,
        "missing cells": holes,
        "zeros of both signs": zeros,
        "rows many times": continuous[rng.integers(0, 40, 2000)],
        "the last column decides": np.column_stack([np.ones((300, 3)), rng.integers(0, 50, 300)]),
        "one column": coarse[:, :1],
        "one row": continuous[:1],
        "all rows equal": np.ones((50, 3)),
        "nothing but missing cells": np.full((9, 2), np.nan),
    }


@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("name", tables_to_merge())
def test_merged_rows_are_those_of_a_sort_of_whole_rows(name, labels):
    X, rng = tables_to_merge()[name], np.random.default_rng(1)
    y = rng.integers(0, 2, (len(X), labels)).astype(float)
    weight, count = np.append(1.5, rng.integers(0, 4, len(X) - 1) * rng.random(len(X) - 1)), rng.integers(1, 4, len(X))
    merged = merge_rows(X, y, weight, count.astype(float))
    distinct, total, times, place = merged_by_unique(X, y, weight, count)
    np.testing.assert_array_equal(np.column_stack([merged.X, merged.y]), distinct)
    np.testing.assert_array_equal(merged.place, place)
    np.testing.assert_array_equal(merged.weight, total)
    np.testing.assert_array_equal(merged.count, times)
    np.testing.assert_array_equal(merge_rows(X, y, weight).count, np.bincount(place[place >= 0]))


def test_of_equal_rows_the_first_is_kept():
    X, weight = np.array([[1.0, 2.0], [0.0, 1.0], [-0.0, 1.0], [-0.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0, 1, 1, 1])
    merged = merge_rows(X, np.zeros((5, 1)), weight)
    assert merged.place.tolist() == [2, -1, 1, 0, 0]
    assert np.signbit(merged.X[:, 0]).tolist() == [True, True, False]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", tables_to_merge())
def test_a_column_learns_the_weighted_distribution_of_its_different_numbers(name, weighted):
    x = tables_to_merge()[name][:, -1]
    weight = np.random.default_rng(2).random(len(x)) if weighted else np.full(len(x), 0.3)
    values, place = np.unique(x[~np.isnan(x)], return_inverse=True)
    mass = np.bincount(place, weights=weight[~np.isnan(x)], minlength=len(values))
    column = numeric(x, weight)
    if len(values) > 1:
        np.testing.assert_array_equal(column.knots, values)
        np.testing.assert_allclose(column.heights, 2 * (np.cumsum(mass) - mass / 2) / mass.sum() - 1, atol=1e-14)
    else:
        assert (column.half, len(column.knots)) == (0, 1)
    assert column.missing == np.isnan(x).any()


def many_rows(rows=PIECE + 5000, seed=0):
    """Numbers, some missing, and categories, as the reader gives them; with the reader."""
    rng = np.random.default_rng(seed)
    texts = rng.choice(np.array(["a", "b", "c", None], dtype=object), rows)
    columns = [rng.standard_normal(rows), rng.standard_t(2, rows), np.where(rng.random(rows) < 0.1, np.nan, 1.0), texts]
    columns[0][::7] = np.nan
    reader = Reader.of(columns, ["x", "tails", "one", "kind"])
    return reader(columns), reader


@pytest.fixture(params=[1, 3])
def counted_threads(request, monkeypatch):
    """Tables as if they were large, prepared by so many threads."""
    monkeypatch.setattr(pieces, "MANY_CELLS", 1)
    monkeypatch.setattr(pieces, "STRETCH", PIECE)
    with threads(request.param):
        yield request.param


@pytest.mark.usefixtures("counted_threads")
def test_a_large_table_in_pieces_gives_the_features_of_its_columns():
    X, reader = many_rows()
    weight = np.random.default_rng(1).random(len(X))
    encoder = Encoder.of(X, weight, reader, steps=True)
    settings = ColumnSettings(steps=STEPS_PER_COLUMN)
    alone = [column.learned(x, weight, settings) for column, x in zip(reader.columns, X.T, strict=True)]
    features = np.column_stack([column(x) for column, x in zip(alone, X.T, strict=True)])
    np.testing.assert_array_equal(encoder(X), features)
    assert features.shape[1] == len(encoder.features) > 2 * STEPS_PER_COLUMN
    present = ~np.isnan(X[:, 0])
    rank = np.interp(X[present, 0], encoder.columns[0].knots, encoder.columns[0].heights)
    np.testing.assert_array_equal(encoder(X)[present, 1], rank)


@pytest.mark.usefixtures("counted_threads")
def test_a_large_table_is_read_and_merged_in_pieces():
    X, reader = many_rows()
    np.testing.assert_array_equal(Reader(reader.columns[:3])(list(X[:, :3].T)), X[:, :3])
    merged = merge_rows(X[:, 1:], X[:, :1], np.ones(len(X)))
    assert len(merged.X) > PIECE
    np.testing.assert_array_equal(np.column_stack([merged.y, merged.X])[merged.place], X)


def test_a_kind_of_column_from_outside_gets_a_large_column_as_a_whole():
    class Share(Numeric):
        """Each number's share of all that are given."""

        by_cell = False

        def __call__(self, x):
            return (x / x.sum())[:, None]

    x = np.arange(1.0, PIECE + 10)
    np.testing.assert_array_equal(Encoder((Share("x"),))(x[:, None])[:, 0], x / x.sum())


def test_infinity_in_a_late_piece_is_refused_with_the_first_column_that_has_it():
    X = np.ones((2 * PIECE, 3))
    X[-1, 1] = X[5, 2] = np.inf
    with pytest.raises(ValueError, match="Column 'x1' contains infinity"):
        HGKRegressor().fit(X, X[:, 0])


def test_remarks_on_columns_look_beyond_a_glance():
    X = np.zeros((5000, 5))
    X[::2, 1:3], X[1::2, 3], X[::2, 4] = 1, np.nan, 1
    assert column_remarks(X, "abcde") == [
        "Constant columns cannot help and get weight 0: a. Remove them to silence this.",
        "Some columns repeat others, so that importance is divided among the copies arbitrarily: c, e. Remove them to "
        "silence this.",
    ]
    X[4999, 0], X[4999, 4] = 1, 2
    (copies,) = column_remarks(X, "abcde")
    assert "arbitrarily: c. Remove" in copies
    count = np.arange(5000.0)
    assert len(counting_remarks([count, count, X[:, 0]], ["a", "b", "c"])) == 2
    count[4000] += 1
    assert not counting_remarks([count, X[:, 0]], ["a", "b"])


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.lognormal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "grade": pd.Categorical(rng.choice(["a", "b"], n)),
            "flag": rng.random(n) < 0.5,
            "age": rng.uniform(0, 90, n),
        }
    )
    y = (table.colour == "red") * 2.0 + np.log(table["size"]) * table.flag + 0.05 * rng.standard_normal(n)
    table.loc[rng.random(n) < 0.1, "age"] = np.nan
    table.loc[rng.random(n) < 0.05, "colour"] = None
    return table, y.to_numpy()


@pytest.mark.parametrize("preset", ["plain", "algorithm1", "default"])
def test_mixed_frames_are_fitted_and_predicted(preset):
    table, y = frame()
    model = HGKRegressor(preset, random_state=0).fit(table[:200], y[:200])
    assert model.score(table[200:], y[200:]) > (0.85 if preset == "default" else 0.5)
    assert model.exponent_shares_.shape == (5,)
    assert model.exponent_shares_.sum() == pytest.approx(1)
    assert "colour=red" in str(model.kernel_)
    odd = table[:3].copy()
    odd["colour"] = ["purple", None, "red"]
    assert np.isfinite(model.predict(odd)).all()
    np.testing.assert_allclose(model.kernel_(table[:5]).diagonal(), 1)


def test_polars_and_pandas_give_the_same_model():
    table, y = frame()
    one = HGKRegressor("plain", random_state=0).fit(table, y).predict(table)
    polars = pl.DataFrame({name: table[name].to_list() for name in table}, strict=False)
    polars = polars.with_columns(pl.col("age").fill_nan(None))
    np.testing.assert_allclose(HGKRegressor("plain", random_state=0).fit(polars, y).predict(polars), one, atol=1e-7)


def test_missing_cells_need_no_imputer_and_can_carry_the_signal():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    gone = rng.random(200) < 0.4
    X[gone, 0] = np.nan
    model = HGKClassifier(random_state=0).fit(X[:120], gone[:120])
    assert model.score(X[120:], gone[120:]) == 1.0


@pytest.mark.parametrize(
    ("table", "error", "sentence"),
    [
        (pd.DataFrame({"a": ["x", "y"] * 10, "b": [np.inf] * 20}), ValueError, "Column 'b' contains infinity"),
        (pd.DataFrame({"a": [{"k": 1}] * 20}), TypeError, "string or a number"),
        (pd.DataFrame({"a": ["x"], "b": [1.0]}), ValueError, "1 sample"),
        (pd.DataFrame({"d": pd.to_timedelta(np.arange(20), "h")}), ValueError, "holds times of day, durations"),
    ],
)
def test_bad_tables_get_a_sentence(table, error, sentence):
    with pytest.raises(error, match=sentence):
        HGKRegressor("plain").fit(table, np.arange(len(table), dtype=float))


def test_text_in_a_numeric_column_at_predict_gets_a_sentence():
    table, y = frame(60)
    model = HGKRegressor("plain", random_state=0).fit(table, y)
    with pytest.raises(ValueError, match="Column 'age' holds text such as 'old'"):
        model.predict(table.assign(age="old"))


def test_a_numeric_column_without_any_cell_at_predict_is_missing():
    table, y = frame(60)
    model = HGKRegressor("plain", random_state=0).fit(table, y)
    nothing = table.assign(age=np.array([None] * len(table), dtype=object))
    np.testing.assert_array_equal(model.predict(nothing), model.predict(table.assign(age=np.nan)))


def test_missing_cells_and_a_kernel_made_by_hand_contradict():
    kernel = HierarchicalKernel.of(inhomogeneous(2), [[1.0, 1.0]])
    X = np.random.default_rng(0).uniform(size=(20, 2))
    HGKRegressor(kernel=kernel, random_state=0).fit(X, X[:, 0])
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="'x1' has missing cells"):
        HGKRegressor(kernel=kernel).fit(X, X[:, 0])


def test_the_identity_encoder_changes_nothing():
    columns, names = split(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(
        Encoder.identity(Reader.of(columns, names))(np.arange(6.0).reshape(3, 2)), np.arange(6.0).reshape(3, 2)
    )


def test_a_column_whose_range_has_no_reciprocal_counts_as_constant():
    x = 1e-309 * np.arange(30.0)
    encoder = Encoder.of(x[:, None], np.ones(30), Reader.of([x], ["x"]), ranks=True, robust=True, steps=True)
    assert np.array_equal(encoder(x[:, None]), np.zeros((30, 1)))


def test_integer_categories_are_categories_and_are_found_again_as_numbers():
    """Their order says nothing: 1 and 3 are alike here, 2 is not."""
    codes = np.arange(60) % 3 + 1
    y = np.where(codes == 2, 1.0, 0.0) + 0.001 * np.arange(60) / 60
    table = pd.DataFrame({"code": pd.Categorical(codes), "x": np.arange(60.0) / 7})
    model = HGKRegressor("plain", random_state=0).fit(table, y)
    assert model.model_.inputs.reader.levels[0] == ("1", "2", "3")
    for same in (codes, codes.astype(float), codes.astype(str), pd.Categorical(codes)):
        np.testing.assert_array_equal(model.predict(table.assign(code=same)), model.predict(table))
    holes = pd.Categorical(np.where(codes == 3, np.nan, codes))
    assert HGKRegressor("plain").fit(table.assign(code=holes), y).model_.inputs.reader.levels[0] == ("1", "2")


def test_numbers_in_a_column_of_texts_are_those_texts():
    table, y = pd.DataFrame({"code": ["7", "A", "7", "B"] * 10, "x": np.arange(40.0) / 7}), np.arange(40.0)
    model = HGKRegressor("plain", random_state=0).fit(table, y)
    expected = model.predict(table.assign(code="7"))
    np.testing.assert_array_equal(model.predict(table.assign(code=7)), expected)
    assert not np.array_equal(model.predict(table.assign(code=8)), expected)


def test_masked_cells_are_missing_and_masked_labels_are_refused():
    X = np.random.default_rng(0).uniform(size=(30, 2))
    masked = np.ma.masked_array(X, mask=X > 0.8)
    model = HGKRegressor("plain", random_state=0).fit(masked, X[:, 0])
    expected = HGKRegressor("plain", random_state=0).fit(np.where(X > 0.8, np.nan, X), X[:, 0])
    np.testing.assert_array_equal(model.predict(masked), expected.predict(np.where(X > 0.8, np.nan, X)))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(X, masked[:, 0])


def test_arrays_of_texts_and_numbers_are_read_column_by_column():
    rows = [["Rom", 1.5], ["Ulm", 2.5], ["Rom", 3.5], ["Bari", 4.5]] * 6
    y = np.arange(24.0)
    frame = pd.DataFrame(rows, columns=["town", "size"])
    expected = HGKRegressor("plain", random_state=0).fit(frame, y).predict(frame)
    for same in (rows, np.array(rows, dtype=object)):
        np.testing.assert_array_equal(HGKRegressor("plain", random_state=0).fit(same, y).predict(same), expected)


def test_the_cell_that_is_no_number_is_named():
    reader = Reader.of([np.arange(3.0)], ["area"])
    for cells, bad in (
        (["137,29", "80,5", "large", "n/a"], "'large' (row 2,"),
        (["1.5", "137,29"], "'137,29' (row 1,"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"Column 'area' holds text such as {bad}")):
            reader([np.array(cells, dtype=object)])


# --------------------------------------------------------------------------------------- a kind of column from outside

YEAR = 365.25


@storable
@dataclass(frozen=True)
class Days(Column):
    """Dates: the days since 2000, scaled, and the day of the year on a circle."""

    since: Numeric | None = None

    @classmethod
    def takes(cls, cells):
        return cells.values.dtype.kind == "M"

    def read(self, cells):
        days = (cells - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
        return np.where(np.isnat(cells), np.nan, days)

    def learned(self, x, weight, settings):
        return replace(self, since=Numeric(self.name).learned(x, weight, replace(settings, ranks=False, steps=0)))

    @property
    def features(self):
        return (*self.since.features, (f"{self.name} (sine)", "scaled"), (f"{self.name} (cosine)", "scaled"))

    def __call__(self, x):
        angle = 2 * np.pi * np.nan_to_num(x) / YEAR
        return np.column_stack([self.since(x), np.sin(angle), np.cos(angle)])

    def shown(self, x):
        return None if np.isnan(x) else str(np.datetime64("2000-01-01") + np.timedelta64(int(x), "D"))

    def taken_for(self):
        return {"kind": "date", "words": "date, with its season"}


@pytest.fixture
def dates():
    register(Days, before=Date)
    yield
    COLUMN_KINDS.remove(Days)


def seasons(n=300):
    """Labels that follow the seasons, and a column that says nothing."""
    rng = np.random.default_rng(0)
    day = np.datetime64("2015-01-01") + rng.integers(0, 8 * 365, n).astype("timedelta64[D]")
    table = pd.DataFrame({"day": day.astype("datetime64[us]"), "other": rng.uniform(size=n)})
    angle = 2 * np.pi * ((day - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")) / YEAR
    return table, np.sin(angle) + 0.05 * rng.standard_normal(n)


@pytest.mark.usefixtures("dates")
@pytest.mark.parametrize("preset", ["plain", "default"])
def test_a_kind_of_column_from_outside_is_fitted_saved_explained_and_reported(preset, tmp_path):
    table, y = seasons()
    model = HGKRegressor(preset, random_state=0).fit(table[:200], y[:200])
    assert model.score(table[200:], y[200:]) > 0.9
    assert [kind.kind for kind in model.model_.inputs.encoder.features[:3]] == ["scaled"] * 3
    assert preset == "plain" or model.exponent_shares_[0] > 0.6
    hgk.save(model, tmp_path / "model.hgk")
    loaded = hgk.load(tmp_path / "model.hgk")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert isinstance(loaded.model_.inputs.columns[0], Days)
    assert loaded.model_.inputs.taken_for()[0] == {"column": "day", "kind": "date", "words": "date, with its season"}
    parts = contributions(loaded, table[:2])
    np.testing.assert_allclose(parts.value[:, 0], model.predict(table[:2]), rtol=1e-6)
    assert f"{table['day'][:200].min().date()} to 20" in report(loaded, table[200:], y[200:])


@pytest.mark.usefixtures("dates")
def test_dates_of_pandas_polars_and_python_are_the_same_column():
    table, y = seasons(60)
    table.loc[3, "day"] = None
    model = HGKRegressor("plain", random_state=0).fit(table, y)
    expected = model.predict(table)
    assert "day missing" in str(model.kernel_)
    python = [None if pd.isna(v) else v.date() for v in table["day"]]
    for same in (
        table["day"].dt.tz_localize("UTC"),
        pd.Series(python, dtype=object),
        table["day"].astype("datetime64[s]"),
    ):
        np.testing.assert_array_equal(model.predict(table.assign(day=same)), expected)
    polars = pl.DataFrame({"day": python, "other": table["other"].to_numpy()})
    np.testing.assert_array_equal(model.predict(polars), expected)


@pytest.mark.usefixtures("dates")
def test_dates_where_numbers_or_texts_were_learned_are_refused():
    table, y = seasons(60)
    for column in (np.arange(60.0), ["a", "b"] * 30):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HGKRegressor("plain").fit(table.assign(day=column), y)
        with pytest.raises(ValueError, match="'day' holds dates"):
            model.predict(table)


def test_a_kind_that_files_cannot_hold_is_refused():
    with pytest.raises(
        TypeError, match=r"Loose was registered, which model files cannot hold; declare it by hgk\.stor"
    ):
        register(type("Loose", (Days,), {}))
    assert [kind.__name__ for kind in COLUMN_KINDS] == ["Numeric", "Date", "Category"]


def test_what_is_shown_is_what_was_read():
    columns = [np.array([1.5, np.nan]), np.array(["b", "a"], dtype=object)]
    reader = Reader.of(columns, ["x", "c"])
    codes = reader(columns)
    assert [[reader.shown(j, code) for j, code in enumerate(row)] for row in codes] == [[1.5, "b"], [None, "a"]]
    assert reader.shown(1, -1.0) is None
    assert [reader.is_categorical(j) for j in range(2)] == [False, True]
