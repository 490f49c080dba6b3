"""Tables as people write them, by ``hgk fit`` and ``predict`` and by the estimators: read rightly, or asked about."""

import json
import re
import uuid
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import hgk
from hgk import HGKClassifier, HGKRegressor
from hgk.cli import tables
from hgk.inputs import Category, ColumnSettings, Marks, fewest_rows, numbers, reading, split
from tasks import quickly

pytest.importorskip("safetensors", reason="needs safetensors")
pytest.importorskip("pyarrow", reason="needs pyarrow")

RNG = np.random.default_rng(0)  # of what follows; tests have their own, since they run in any order
N = 120
AMOUNT = np.exp(RNG.uniform(2, 12, N)).round(2)
WHOLE = np.floor(AMOUNT)
OTHER = RNG.uniform(size=N).round(3)
NARROW = "\u202f"

# How a column is written, what it is, and what the note shows of its marks.
WRITTEN = {
    "thousands": ([f"{v:,.0f}" for v in WHOLE], WHOLE, "thousands ',', decimal '.'"),
    "thousands and cents": ([f"{v:,.2f}" for v in AMOUNT], AMOUNT, "thousands ',', decimal '.'"),
    "dollars": ([f"${v:,.2f}" for v in AMOUNT], AMOUNT, "currency '$'"),
    "euros": (
        [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in AMOUNT],
        AMOUNT,
        "thousands '.', decimal ',', currency '€'",
    ),
    "percents": ([f"{100 * v:.1f}%" for v in OTHER], (100 * OTHER).round(1), "88 for 88%"),
    "narrow spaces": (
        [f"{v:,.1f}".replace(",", NARROW).replace(".", ",") for v in AMOUNT],
        np.array([float(f"{v:.1f}") for v in AMOUNT]),
        "thousands ' ', decimal ','",
    ),
    "apostrophes": ([f"{v:,.2f}".replace(",", "'") for v in AMOUNT], AMOUNT, 'thousands "\'"'),
    "accounts": ([f"({v:,.0f})" if v < 9 else f"{v:,.0f}" for v in WHOLE], np.where(WHOLE < 9, -WHOLE, WHOLE), "','"),
    "minus": ([f"−{v:,.2f}" for v in AMOUNT], -AMOUNT, "thousands ','"),
    "question marks": (
        ["?" if i % 9 == 5 else f"{v:.2f}" for i, v in enumerate(AMOUNT)],
        np.where(np.arange(N) % 9 == 5, np.nan, AMOUNT),
        "cells such as '?' count as missing",
    ),
    "dashes": (
        ["--" if i == 7 else f"{v:,.0f}" for i, v in enumerate(WHOLE)],
        np.where(np.arange(N) == 7, np.nan, WHOLE),
        "1 cell such as '--' counts as missing",
    ),
}


def heard(work):
    """What comes back, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return work(), [str(w.message) for w in caught]


def plain(**options):
    return HGKRegressor("plain", random_state=0, **options)


def csv(path, frame, **options):
    frame.to_csv(path, index=False, **options)
    return path


@pytest.mark.parametrize("how", WRITTEN)
def test_numbers_as_people_write_them_are_the_numbers_on_the_command_line_and_in_python(call, tmp_path, how):
    cells, values, said = WRITTEN[how]
    y = np.nan_to_num(np.log(np.abs(values) + 1)) + OTHER
    written = pd.DataFrame({"price": cells, "other": OTHER})
    expected = (
        plain()
        .fit(pd.DataFrame({"price": values, "other": OTHER}), y)
        .predict(pd.DataFrame({"price": values, "other": OTHER}))
    )
    model, found = heard(lambda: plain().fit(written, y))
    assert any("Column 'price' is read as numbers from texts such as" in s and said in s for s in found), found
    np.testing.assert_allclose(model.predict(written), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(written[:1]), expected[:1], rtol=1e-9)  # by the marks that the fit found
    polars = pl.DataFrame({"price": cells, "other": OTHER})
    np.testing.assert_allclose(heard(lambda: plain().fit(polars, y))[0].predict(polars), expected, rtol=1e-9)
    objects = written.to_numpy(dtype=object)
    np.testing.assert_allclose(heard(lambda: plain().fit(objects, y))[0].predict(objects), expected, rtol=1e-9)

    data, out = csv(tmp_path / "t.csv", written.assign(y=y)), tmp_path / "m.hgk"
    code, _, err = call("fit", data, "--target", "y", "--preset", "plain", "--out", out)
    assert code == 0, err
    if how != "question marks":  # in a file a missing cell like any other
        assert said in err
    one = csv(tmp_path / "one.csv", written[:1])
    for table, count in ((data, N), (one, 1)):
        assert call("predict", out, table, "--out", tmp_path / "p.csv")[0] == 0
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected[:count], rtol=1e-9)


@pytest.mark.parametrize("how", ["thousands", "dollars", "euros", "percents", "narrow spaces"])
def test_targets_as_people_write_them_are_the_numbers(call, tmp_path, how):
    cells, values, said = WRITTEN[how]
    X = pd.DataFrame({"a": np.log(np.abs(values)), "b": OTHER})
    expected = plain().fit(X, values).predict(X)
    for y in (cells, np.array(cells), pd.Series(cells), pl.Series(cells)):
        model, found = heard(lambda y=y: plain().fit(X, y))
        np.testing.assert_allclose(model.predict(X), expected)
        assert [said in sentence for sentence in found] == [True]
    with pytest.raises(ValueError, match=r"different numbers written as texts, such as .*so use HGKRegressor"):
        HGKClassifier("plain").fit(X, cells)
    data, out = csv(tmp_path / "t.csv", X.assign(y=cells)), tmp_path / "m.hgk"
    code, _, err = call("fit", data, "--target", "y", "--preset", "plain", "--out", out)
    assert (code, "regression, since 'y'" in err, said in err) == (0, True, True), err
    np.testing.assert_allclose(hgk.load(out).predict(X), expected, rtol=1e-9)


def test_what_a_comma_means_is_asked_where_nothing_decides(call, tmp_path):
    cells = [f"{i},{234 + 3 * i}" for i in range(1, 41)]
    frame, y = pd.DataFrame({"price": cells, "n": np.arange(40) % 7}), np.arange(40.0)
    with pytest.raises(ValueError, match="Column 'price' holds numbers such as '1,237', in which ',' may mark"):
        plain().fit(frame, y)
    with pytest.raises(ValueError, match="y holds numbers such as '1,237', in which"):
        plain().fit(frame[["n"]], cells)
    data, out = csv(tmp_path / "t.csv", frame.assign(y=y.astype(int))), tmp_path / "m.hgk"
    arguments = ["fit", data, "--target", "y", "--task", "regression", "--preset", "plain", "--out", out]
    code, _, err = call(*arguments)
    assert code == 2
    assert "'price' holds numbers such as '1,237'" in err
    assert "give --decimal . or --decimal ,." in err
    assert call(*arguments, "--drop", "price")[0] == 0
    for decimal, first in ((".", 1237), (",", 1.237)):
        given = ["--decimal", decimal] if decimal == "." else ["--decimal", decimal, "--delimiter", ";"]
        csv(data, frame.assign(y=y.astype(int)), sep="," if decimal == "." else ";")
        assert call(*arguments, *given)[0] == 0
        assert hgk.load(out).X_fit_[:, 0].min() == first
        # the model knows: what would be asked about in a table of its own is read as it was
        assert call("predict", out, csv(tmp_path / "n.csv", frame[:1], sep=";"), "--out", tmp_path / "p.csv")[0] == 0
        expected = hgk.load(out).predict(pd.DataFrame({"price": [first], "n": [0]}))
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected)


def test_other_columns_decide_and_that_is_said(tmp_path):
    cells = [f"{i},{234 + 3 * i}" for i in range(1, 41)]
    comma = pd.DataFrame(
        {"price": cells, "size": [f"{i},5" for i in range(40)], "pieces": [f"{i}.000" for i in range(1, 41)]}
    )
    table = tables.read_table(csv(tmp_path / "t.csv", comma, sep=";"))
    assert table.frame["price"][0] == 1.237
    assert table.frame["pieces"].tolist() == [1000.0 * i for i in range(1, 41)]
    assert "decimal ',', as in other columns" in table.of_columns["price"]
    assert "size" not in table.of_columns
    point = pd.DataFrame({"price": cells, "size": [i + 0.5 for i in range(40)]})
    table = tables.read_table(csv(tmp_path / "t.csv", point))
    assert table.frame["price"][0] == 1237
    assert "as in other columns" in table.of_columns["price"]
    model, said = heard(lambda: plain().fit(comma, np.arange(40.0)))
    assert model.X_fit_[0].tolist() == [1.237, 0.5, 1000.0]
    assert sum("as in other columns" in s for s in said) == 2


@pytest.mark.parametrize(
    "cells",
    [
        ["0171 2345678", "+49 171 234567", "030 123456"],
        ["555 123 456", "555 123 457", "555 987 654"],
        ["555-1234", "555-9876"],
        ["02134", "90210", "10001"],
        ["01.02.2024", "13.02.2024"],
        ["2024-01-31", "2024-02-01"],
        ["1.2.3", "1.10.0", "2.0.1"],
        ["192.168.100.200", "10.0.0.1"],
        ["10-20", "20-30"],
        ["A17", "B18"],
        ["12a", "13b"],
        ["True", "False"],
        ["5 kg", "7 kg"],
        ["1/2", "3/4"],
        ["12:30", "13:45"],
        ["(1)", "(2)"],
        ["1, 2", "3, 4"],
        ["<5", ">10"],
        ["1e", "e1"],
        ["unknown", "none"],
    ],
)
def test_what_only_resembles_numbers_is_not_turned_into_numbers(tmp_path, cells):
    column = cells * (30 // len(cells))
    y = np.arange(float(len(column)))
    frame = pd.DataFrame({"c": column, "x": np.sin(y)})
    model, _ = heard(lambda: plain().fit(frame, y))
    kind = type(model.model_.inputs.columns[0]).__name__
    assert kind == ("Date" if "2024" in cells[0] else "Category")
    read = tables.read_table(csv(tmp_path / "t.csv", frame)).frame["c"]
    assert [str(v) for v in read] == column


def test_a_stray_word_among_numbers_is_named_with_its_row(call, tmp_path):
    cells = [f"{v:.2f}" for v in AMOUNT]
    cells[17] = "twelve"
    frame, y = pd.DataFrame({"price": cells, "other": OTHER}), np.log(AMOUNT)
    _, said = heard(lambda: plain().fit(frame, y))
    sentence = "Column 'price' holds 'twelve' (row 17, counted from 0) among 119 numbers and is therefore taken as"
    assert any(s.startswith(sentence) for s in said), said
    data = csv(tmp_path / "t.csv", frame.assign(y=y))
    code, _, err = call("fit", data, "--target", "y", "--preset", "plain", "--out", tmp_path / "m.hgk")
    assert code == 0
    assert err.count("'twelve'") == 1
    code, _, err = call("fit", data, "--target", "price", "--preset", "plain", "--out", tmp_path / "m.hgk")
    assert code == 2
    assert "The target 'price' holds 'twelve' (row 17, counted from 0) among 119 numbers" in err
    with pytest.raises(ValueError, match=re.escape("y holds 'twelve' (row 17, counted from 0) among 119 numbers")):
        plain().fit(frame[["other"]], cells)


@pytest.mark.parametrize(
    ("cells", "unclear"),
    [
        (["88%", "0.5"] * 10, "some of them percents and others not"),
        (["$5", "€6"] * 10, "of several currencies"),
        (["1,234", "5.678"] * 10, "in which ',' may mark"),
        (["1,234", "1863"] * 10, "in which ',' may mark"),
        (["1,234", "0"] * 10, "in which ',' may mark"),
        ([f"{i},{i + 100}" for i in range(1, 200)] + ["1,5"], "in which ',' may mark"),
    ],
)
def test_what_can_be_read_in_two_ways_is_asked_about(cells, unclear):
    with pytest.raises(ValueError, match=unclear):
        plain().fit(pd.DataFrame({"c": cells, "x": np.sin(np.arange(len(cells)))}), np.arange(float(len(cells))))


def test_dots_that_are_likely_between_thousands_are_asked_about(call, tmp_path):
    cells = [f"{v:,.0f}".replace(",", ".") for v in WHOLE]
    frame, y = pd.DataFrame({"price": cells, "n": np.arange(N) % 7}), WHOLE.astype(int)
    with pytest.raises(ValueError, match=r"in which '\.' may mark thousands or decimals; convert it to float, after"):
        plain().fit(frame, y)
    data, out = csv(tmp_path / "t.csv", frame.assign(y=y), sep=";"), tmp_path / "m.hgk"
    arguments = ["fit", data, "--target", "y", "--preset", "plain", "--out", out]
    code, _, err = call(*arguments)
    assert (code, "in which '.' may mark thousands or decimals; give --decimal . or" in err) == (2, True)
    assert call(*arguments, "--decimal", ",")[0] == 0
    assert hgk.load(out).X_fit_[:, 0].max() == WHOLE.max()
    measured = np.append(np.random.default_rng(0).uniform(1, 99, 200).round(3), [5.0, 7.0])
    (tmp_path / "r.csv").write_text("\n".join(["x;y", *(f"{v:g};{i}" for i, v in enumerate(measured))]))
    assert tables.read_table(tmp_path / "r.csv").unclear == {}


MARKS = {"en": ",.", "de": ".,", "fr": " ,", "ch": "'.", "plain": ("", "."), "comma": ("", ",")}


@pytest.mark.parametrize("style", MARKS)
def test_any_numbers_in_any_style_are_themselves_or_asked_about_never_others(style):
    rng = np.random.default_rng(0)
    thousands, decimal = MARKS[style]
    asked = 0
    for _ in range(300):
        digits = int(rng.integers(style == "de", 4))  # whole numbers with dots alone are read as a dot usually is
        values = np.exp(rng.normal(0, 1.5, rng.choice([1, 2, 5, 50]))) * 10.0 ** rng.integers(0, 8)
        values = (values * rng.choice([-1, 1], len(values))).round(digits)
        general = digits == 3 and rng.random() < 0.5
        texts = [f"{v:,.{digits}f}" for v in values]
        texts = [t.rstrip("0").rstrip(".") for t in texts] if general else texts
        swap = str.maketrans({",": thousands, ".": decimal})
        cells = [t.translate(swap) for t in texts]
        found = reading(cells)
        asked += bool(found.unclear)
        if found.marks is not None:
            np.testing.assert_allclose(numbers(cells, found.marks)[0], values, atol=1e-9)
        else:
            assert found.unclear or style == "fr", cells  # a few numbers of one length may be phone numbers
    assert asked < 60


def test_a_few_slips_prove_nothing_and_are_named_where_other_columns_decide():
    cells = [f"{i},{i + 100}" for i in range(1, 200)] + ["1,5"]
    assert reading(cells, ",").marks == Marks(",")
    assert reading(cells, ".").stray == ("1,5", 199, 199)


def test_what_new_rows_write_otherwise_is_refused_and_not_guessed():
    frame = pd.DataFrame({"price": WRITTEN["dollars"][0], "share": WRITTEN["percents"][0], "x": OTHER})
    model, _ = heard(lambda: plain().fit(frame, AMOUNT))
    for column, cell in (("price", "7.984,90"), ("price", "€5"), ("price", "many")):
        with pytest.raises(ValueError, match=f"Column '{column}' holds text such as '{re.escape(cell)}'"):
            model.predict(frame[:3].assign(**{column: cell}))
    assert np.isnan(model.model_.inputs.reader(split(frame[:1].assign(price="n/a"))[0])[0, 0])
    number = plain().fit(frame[["x"]].assign(z=AMOUNT), AMOUNT)
    with pytest.raises(ValueError, match="holds text such as '88%'"):
        number.predict(frame[["x"]].assign(z="88%"))


def test_new_rows_in_another_unit_are_refused_on_the_command_line(call, tmp_path):
    frame = pd.DataFrame({"price": WRITTEN["dollars"][0], "share": OTHER, "y": AMOUNT})
    out = tmp_path / "m.hgk"
    assert call("fit", csv(tmp_path / "t.csv", frame), "--target", "y", "--preset", "plain", "--out", out)[0] == 0
    for column, cells in (("price", ["€5.50", "€6.50"]), ("share", ["88%", "12%"])):
        code, _, err = call("predict", out, csv(tmp_path / "n.csv", frame[:2].assign(**{column: cells})))
        assert code == 2
        assert f"Column '{column}' holds text such as '{cells[0]}' (row 0, counted from 0) but was numeric" in err
    for cells in (["1,234.50", "5"], ["12", "-"], ["$7", "n/a"], [7.5, 8]):
        new = csv(tmp_path / "n.csv", frame[:2].assign(price=cells))
        assert call("predict", out, new, "--out", tmp_path / "p.csv")[0] == 0, cells


def test_a_model_of_a_german_table_asks_about_dots_that_may_mean_two_things(call, tmp_path):
    frame = pd.DataFrame({"a": OTHER + 1, "b": OTHER[::-1], "y": AMOUNT})
    out, data = tmp_path / "m.hgk", csv(tmp_path / "t.csv", frame, sep=";", decimal=",")
    assert call("fit", data, "--target", "y", "--preset", "plain", "--out", out)[0] == 0
    assert call("predict", out, data, "--out", tmp_path / "p.csv")[0] == 0
    expected = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert call("predict", out, csv(tmp_path / "n.csv", frame), "--out", tmp_path / "p.csv")[0] == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected)  # 0.5 proves its own mark
    (tmp_path / "n.csv").write_text("a;b\n1.234;0\n1.567;1\n")
    code, _, err = call("predict", out, tmp_path / "n.csv")
    assert (code, "Column 'a' holds numbers such as '1.234', in which '.' may mark thousands" in err) == (2, True)
    assert call("predict", out, tmp_path / "n.csv", "--decimal", ".")[0] == 0


def test_marks_are_kept_in_the_model_file(tmp_path):
    frame = pd.DataFrame({"price": WRITTEN["euros"][0], "other": OTHER})
    model, _ = heard(lambda: plain().fit(frame, AMOUNT))
    hgk.save(model, tmp_path / "m.hgk")
    loaded = hgk.load(tmp_path / "m.hgk")
    assert loaded.model_.inputs.reader.marks == {"price": Marks(",", ".", "€"), "other": Marks()}
    np.testing.assert_array_equal(loaded.predict(frame[:1]), model.predict(frame[:1]))


def test_many_cells_are_read_by_their_few_shapes():
    cells = [f"${v:,.2f}" for v in np.tile(AMOUNT, 100)]
    found = reading(cells)
    values, bad = numbers(cells, found.marks)
    assert not bad
    np.testing.assert_allclose(values, np.tile(AMOUNT, 100))


def test_categories_stay_categories_even_where_they_are_numbers():
    frame = pd.DataFrame({"c": pd.Categorical([f"{i % 4},5" for i in range(40)]), "x": np.sin(np.arange(40))})
    assert plain().fit(frame, np.arange(40.0)).model_.inputs.reader.levels[0] == ("0,5", "1,5", "2,5", "3,5")


# ---------------------------------------------------------------------------------- whole numbers beyond 2^53


LARGE = [9007199254740992, 9007199254740993]


@pytest.mark.parametrize(
    "as_given",
    [list, np.array, lambda y: np.array(y, dtype=object), pd.Series, lambda y: pd.Series(y, dtype="Int64"), pl.Series],
)
def test_large_classes_stay_apart(tmp_path, as_given):
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = as_given([LARGE[int(v > 0)] for v in x[:, 0]])
    model = HGKClassifier("plain", random_state=0).fit(x, y)
    assert model.classes_.tolist() == LARGE
    assert model.score(x, np.asarray(y, dtype=np.int64)) > 0.9
    hgk.save(model, tmp_path / "m.hgk")
    assert hgk.load(tmp_path / "m.hgk").predict(x).tolist() == model.predict(x).tolist()


@pytest.mark.parametrize("pair", [[2**64, 2**64 + 1], [2**63 + 1, -1, 2**63 + 2]])
def test_classes_that_no_type_tells_apart_are_refused(pair):
    with pytest.raises(ValueError, match="no type of 64 bits tells them all apart; give them as texts"):
        HGKClassifier("plain").fit(np.random.default_rng(0).uniform(size=(30, 2)), (pair * 30)[:30])


@pytest.mark.parametrize("classes", [LARGE, [2**63, 2**63 + 1], [2**70, 2**70 + 1]])
@pytest.mark.parametrize("hole", [False, True])
def test_large_classes_of_a_csv_stay_apart(call, tmp_path, classes, hole):
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2)).round(3)
    rows = [f"{a},{b},{classes[int(a > 0)]}" for a, b in x] + ["0.5,0.5,"] * hole
    (tmp_path / "t.csv").write_text("\n".join(["a,b,id", *rows]))
    arguments = ["--task", "classification", "--preset", "plain", "--out", tmp_path / "m.hgk"]
    code, _, err = call("fit", tmp_path / "t.csv", "--target", "id", *arguments)
    assert code == 0, err
    assert [int(c) for c in hgk.load(tmp_path / "m.hgk").classes_] == classes


def test_large_numbers_that_merge_in_a_column_are_told(call, tmp_path):
    ids = np.array(LARGE * 20)
    frame, y = pd.DataFrame({"id": ids, "x": np.sin(np.arange(40))}), np.arange(40.0)
    sentence = "Column 'id' holds whole numbers beyond 2^53 that differ and become the same float"
    for X in (frame, frame.astype({"id": object}), pl.DataFrame(frame.to_dict("list"))):
        assert any(s.startswith(sentence) for s in heard(lambda X=X: plain().fit(X, y))[1])
    assert any("'x0' holds whole numbers" in s for s in heard(lambda: plain().fit(ids[:, None] + [[0, 5]], y))[1])
    data = csv(tmp_path / "t.csv", frame.assign(y=y))
    assert sentence in call("fit", data, "--target", "y", "--preset", "plain", "--out", tmp_path / "m.hgk")[2]
    spread = frame.assign(id=np.arange(40) ** 2 + 2**54)
    assert any(s.startswith(sentence) for s in heard(lambda: plain().fit(spread, y))[1])
    assert not heard(lambda: plain().fit(frame.assign(id=2**54 * (1 + np.arange(40) % 7)), y))[1]


# ------------------------------------------------------------------------------------------ ids and rare categories


def test_an_id_of_texts_carries_nothing_and_that_is_said(call, tmp_path):
    ids = [str(uuid.UUID(int=int(v))) for v in np.random.default_rng(0).integers(2**62, size=N)]
    frame, y = pd.DataFrame({"key": ids, "x": OTHER}), np.sin(5 * OTHER)
    with quickly():
        model, said = heard(lambda: HGKRegressor(random_state=0).fit(frame, y))
    assert model.exponent_shares_[0] == 0
    assert model.exponent_shares_[1] == pytest.approx(1.0)
    assert sum("Column 'key' has 120 different texts, nearly one for each row" in s for s in said) == 1
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.assign(key="new")))
    hgk.save(model, tmp_path / "m.hgk")
    np.testing.assert_array_equal(hgk.load(tmp_path / "m.hgk").predict(frame), model.predict(frame))
    data = csv(tmp_path / "t.csv", frame.assign(y=y))
    _, _, err = call("fit", data, "--target", "y", "--preset", "plain", "--out", tmp_path / "m.hgk")
    assert err.count("taken for an id, which carries nothing; leave it out with --drop") == 1
    only, said = heard(lambda: plain().fit(frame[["key"]], y))
    assert np.ptp(only.predict(frame[["key"]])) == 0


@pytest.mark.parametrize(("rows", "least"), [(20, 1), (50, 2.5), (100, 5), (10_000, 5)])
def test_a_category_needs_five_rows_or_a_twentieth(rows, least):
    assert fewest_rows(rows) == least


def test_rare_categories_have_no_indicator_by_weight():
    x = np.repeat([0.0, 1.0, 2.0, 3.0], [196, 4, 5, 195])
    four = Category("t", ("a", "b", "c", "d"))
    assert four.learned(x, np.ones(400), ColumnSettings()).codes.tolist() == [0, 2, 3]
    assert four.learned(x, np.where(x == 1, 2.0, 1.0), ColumnSettings()).codes.tolist() == [0, 1, 2, 3]
    assert four.learned(x, np.full(400, 0.01), ColumnSettings()).codes.tolist() == [0, 2, 3]  # how much, not how many
    three = Category("t", ("a", "b", "c")).learned(np.repeat([0.0, 1.0, 2.0], [9, 8, 3]), np.ones(20), ColumnSettings())
    assert three.codes.tolist() == [0, 1, 2]
    two = Category("t", ("a", "b")).learned(np.repeat([0.0, 1.0], [397, 3]), np.ones(400), ColumnSettings())
    assert (two.idle, np.ptp(two(np.array([0.0, 1.0, np.nan, -1.0])))) == ("rare", 0)


def test_codes_with_leading_zeros_stay_codes(call, tmp_path):
    codes = np.array(["00123", "04567", "98765"])[np.arange(60) % 3]
    frame = pd.DataFrame({"zip": codes, "x": np.sin(np.arange(60))})
    y = np.where(codes == "04567", 1.0, 0.0) + 0.01 * frame["x"]
    for X in (frame, pl.DataFrame(frame.to_dict("list")), frame.to_numpy(dtype=object)):
        model, said = heard(lambda X=X: plain().fit(X, y))
        assert model.model_.inputs.reader.levels[0] == ("00123", "04567", "98765")
        assert any("holds codes with leading zeros such as '00123' and is taken as categories" in s for s in said)
    data, out = csv(tmp_path / "t.csv", frame.assign(y=y)), tmp_path / "m.hgk"
    code, _, err = call("fit", data, "--target", "y", "--task", "regression", "--preset", "plain", "--out", out)
    assert (code, err.count("codes with leading zeros")) == (0, 1)
    assert hgk.load(out).model_.inputs.reader.levels[0] == ("00123", "04567", "98765")
    assert call("predict", out, data, "--out", tmp_path / "p.csv")[0] == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], hgk.load(out).predict(frame))
    assert call("fit", data, "--target", "zip", "--preset", "plain", "--out", out)[0] == 0
    assert hgk.load(out).classes_.tolist() == ["00123", "04567", "98765"]


@pytest.mark.parametrize(("name", "start"), [("Unnamed: 0", 0), ("id", 1), ("row", 0), ("Unnamed: 0", 7)])
def test_a_column_that_counts_the_rows_is_told(call, tmp_path, name, start):
    frame, y = pd.DataFrame({name: np.arange(start, start + N), "x": OTHER}), np.sin(5 * OTHER)
    sentence = f"Column '{name}' counts the rows; leave it out"
    assert any(s.startswith(sentence) for s in heard(lambda: plain().fit(frame, y))[1])
    data = csv(tmp_path / "t.csv", frame.assign(y=y))
    assert sentence in call("fit", data, "--target", "y", "--preset", "plain", "--out", tmp_path / "m.hgk")[2]


def test_ordinary_columns_raise_no_alarm(tmp_path):
    n = 200
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "year": 1900 + np.arange(n) // 2,
            "age": rng.integers(18, 90, n),
            "code": rng.integers(1, 8, n),
            "size": rng.normal(size=n),
            "sorted": np.sort(rng.uniform(size=n)),
            "town": rng.choice(["Rom", "Ulm", "Bari"], n),
            "grade": rng.choice(["1", "2", "A"], n),
            "flag": rng.choice([True, False], n),
            "three": rng.uniform(1, 9, n).round(3),
            "phone": rng.integers(10**9, 10**10, n),
        }
    )
    y = rng.normal(size=n)
    assert heard(lambda: plain().fit(frame, y))[1] == []
    table = tables.read_table(csv(tmp_path / "t.csv", frame.assign(y=y)))
    assert (table.notes, table.marks, table.unclear) == ([], {}, {})
    assert heard(lambda: plain().fit(table.frame.drop(columns="y"), table.frame["y"]))[1] == []


def test_info_lists_what_each_column_was_taken_for(call, tmp_path):
    frame = pd.DataFrame(
        {
            "price": WRITTEN["dollars"][0],
            "size": np.where(np.arange(N) % 10 == 3, np.nan, OTHER),
            "town": np.array(["Rom", "Ulm", "Bari"])[np.arange(N) % 3],
            "key": [f"k{i}" for i in range(N)],
            "street": [f"s{i // 2}" for i in range(N)],
        }
    )
    data, out = csv(tmp_path / "t.csv", frame.assign(y=np.log(AMOUNT))), tmp_path / "m.hgk"
    assert call("fit", data, "--target", "y", "--preset", "plain", "--out", out)[0] == 0
    said = call("info", out)[1]
    assert "price: number read from texts (thousands ',', decimal '.', currency '$'); " in said
    assert "size: number, missing cells marked; town: category with 3 levels; key: id with 120 texts; " in said
    assert "street: category with 60 levels, all too rare to count" in said
    found = json.loads(call("info", out, "--json")[1])["summary"]["taken_for"]
    assert [c["kind"] for c in found] == ["number", "number", "category", "id", "category"]
    assert found[0]["marks"] == {"decimal": ".", "thousands": ",", "currency": "$", "percent": False}
    assert [c["missing"] for c in found] == [False, True, False, False, False]
    assert found[2]["levels"] == found[2]["indicators"] == 3


def test_texts_of_infinity_are_refused_and_shares_of_percents_are_remarked_on():
    y, p = np.arange(40.0), [f"{i}%" for i in range(1, 41)]
    frame = pd.DataFrame({"a": y % 7, "p": ["inf", *map(str, range(39))]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError, match="Column 'p' contains a text of infinity"):
            HGKRegressor("plain").fit(frame, y)
        model = HGKRegressor("plain", random_state=0).fit(frame.assign(p=p), y)
    with pytest.warns(UserWarning, match="'p' was fitted on percents, 88 for 88%, and holds numbers up to 1"):
        model.predict(pd.DataFrame({"a": [0.0], "p": [0.5]}))
