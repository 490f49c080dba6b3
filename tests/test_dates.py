"""Dates as columns: texts of many forms, zones, features by brute force, files of all forms, model files; JSON,
encodings, comments and Excel's sheets."""

import datetime
import json
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import hgk
from hgk import HGKRegressor
from hgk.cli import formats, tables
from hgk.inputs import Date, DateForm, Encoder, Reader, split
from hgk.inputs.columns import date as dates_module
from hgk.inputs.dates import date_reading, date_readings, moments
from test_cli import houses

UTC = datetime.UTC


def seconds(*moment):
    return datetime.datetime(*moment, tzinfo=UTC).timestamp()


# -------------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("2024-01-31", "", (2024, 1, 31)),
        ("2024/1/31", "", (2024, 1, 31)),
        ("2024.01.31 ", "", (2024, 1, 31)),
        ("2024-02", "", (2024, 2, 1)),
        ("2024-01-31T12:30", "", (2024, 1, 31, 12, 30)),
        ("2024-01-31 12:30:05.25", "", (2024, 1, 31, 12, 30, 5, 250000)),
        ("2024-01-31T12:30:05,123456789", "", (2024, 1, 31, 12, 30, 5, 123456)),
        ("31.1.2024", "dmy", (2024, 1, 31)),
        ("31/01/24", "dmy", (2024, 1, 31)),
        ("1-31-2024", "mdy", (2024, 1, 31)),
        ("1/2/2024", "dmy", (2024, 2, 1)),
        ("1/2/2024", "mdy", (2024, 1, 2)),
        ("1/2/69", "mdy", (1969, 1, 2)),
        ("1/2/68", "mdy", (2068, 1, 2)),
        ("31 Jan 2024", "", (2024, 1, 31)),
        ("31-JAN-24", "", (2024, 1, 31)),
        ("1st September 2024, 5:07 pm", "", (2024, 9, 1, 17, 7)),
        ("Jan. 31, 2024", "", (2024, 1, 31)),
        ("1/31/2024 12:05 AM", "mdy", (2024, 1, 31, 0, 5)),
        ("1/31/2024 12:05 PM", "mdy", (2024, 1, 31, 12, 5)),
        ("1600-02-29", "", (1600, 2, 29)),
    ],
)
def test_a_date_is_read_as_it_is_meant(text, order, expected):
    values, bad = moments([text], DateForm(order), zoned=False)
    assert bad == []
    np.testing.assert_array_equal(values, [seconds(*expected)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31T12:00Z", (2024, 1, 31, 12)),
        ("2024-01-31T12:00:00+01:00", (2024, 1, 31, 11)),
        ("2024-01-31 23:30-0530", (2024, 2, 1, 5)),
        ("2024-01-31 12:00 UTC", (2024, 1, 31, 12)),
        ("2024-01-31 12:00+02", (2024, 1, 31, 10)),
    ],
)
def test_times_with_a_zone_are_counted_in_utc(text, expected):
    assert date_reading([text]).zoned
    np.testing.assert_array_equal(moments([text], DateForm(), zoned=True)[0], [seconds(*expected)])
    assert moments([text], DateForm(), zoned=False)[1] == [0]


NO_DATES = """
2024-13-01|2023-02-29|32.1.2024|13/13/2024|2024-01-31 25:00|1/2/2024 13:00 PM|1.2.3|12:30|2024|2024-1-2-3|soon|
31 Foo 2024|2024-01/31|10-20|0/0/2024
"""


@pytest.mark.parametrize("text", [text.strip() for text in NO_DATES.split("|")])
def test_what_is_no_date_is_none(text):
    assert moments([text], DateForm("dmy"), False)[1] == [0]
    assert not date_reading([text]).dates


def test_a_year_of_days_is_read_like_datetime_does():
    days = [datetime.date(2023, 12, 1) + datetime.timedelta(days=k) for k in range(400)]
    expected = [seconds(d.year, d.month, d.day) for d in days]
    for order, form in (
        ("dmy", "%d.%m.%Y"),
        ("mdy", "%m/%d/%Y"),
        ("", "%Y-%m-%d"),
        ("", "%d %B %Y"),
        ("", "%b %d, %Y"),
    ):
        cells = [d.strftime(form) for d in days]
        r = date_reading(cells)
        assert r.form == DateForm(order)
        np.testing.assert_array_equal(moments(cells, r.form, False)[0], expected)


def test_which_number_is_the_day_is_decided_by_the_column_then_by_others_then_asked():
    assert date_reading(["01/02/2024", "25/02/2024"]).form.order == "dmy"
    assert date_reading(["01/02/2024", "02/25/2024"]).form.order == "mdy"
    assert date_reading(["01.02.2024"]).form.order == "dmy"
    assert date_reading(["01/02/2024", "03-04-2024"]).unclear
    assert date_reading(["01/02/2024"], "mdy").form.order == "mdy"
    first, second, third = date_readings([["01/02/2024"], ["25/02/2024"], ["x"]])
    assert (first.form.order, first.borrowed, second.borrowed, third.dates) == ("dmy", True, False, False)
    unclear, *_ = date_readings([["01/02/2024"], ["25/02/2024"], ["02/25/2024"]])
    assert unclear.unclear


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["25/02/2024", "02/25/2024"], "'25/02/2024' has the day first and '02/25/2024' the month"),
        ([*["2024-01-31"] * 30, "soon"], "it holds 'soon' among 30 dates"),
        (["2024-01-31T10:00", "2024-01-31T10:00Z"], "some of its times have a zone and others not"),
        ([*["2024-01-31"] * 30, "2024-02-30"], "there is no day or time '2024-02-30'"),
    ],
)
def test_columns_that_are_nearly_dates_are_categories_and_that_is_said(cells, said):
    r = date_reading(cells)
    assert not r.dates
    assert said in r.remark("day")
    frame = pd.DataFrame({"day": cells * 10, "x": np.arange(10.0 * len(cells))})
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = HGKRegressor("plain", random_state=0).fit(frame, frame["x"])
    assert any(said.partition(" among")[0] in str(w.message) for w in heard)
    assert type(model.model_.inputs.columns[0]).__name__ == "Category"


# ----------------------------------------------------------------------------------------------------- features


def brute_force(moment, name):
    """The value of one feature of a datetime, by the calendar."""
    if "in the year" in name:
        begun, ended = (
            moment.replace(year=moment.year + k, month=1, day=1, hour=0, minute=0, second=0) for k in (0, 1)
        )
        angle = 2 * math.pi * ((moment - begun) / (ended - begun))
    elif "in the day" in name:
        angle = 2 * math.pi * (3600 * moment.hour + 60 * moment.minute + moment.second) / 86400
    else:
        return 0.5 if moment.strftime("%A") == name.partition("=")[2] else -0.5
    return math.sin(angle) if "sin" in name else math.cos(angle)


def learned(values, weight=None, **how):
    columns, names = split(pd.DataFrame({"day": values}))
    reader = Reader.of(columns, names)
    table = reader(columns)
    encoder = Encoder.of(table, np.ones(len(table)) if weight is None else weight, reader, **how)
    return encoder, encoder(table), table


def test_features_are_those_of_the_calendar():
    rng = np.random.default_rng(0)
    times = [
        datetime.datetime(2019, 11, 3, 5, 30) + datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 10**8, 300)
    ]
    encoder, features, table = learned(times)
    (column,) = encoder.columns
    assert isinstance(column, Date)
    kinds = [f.kind for f in encoder.features]
    assert kinds == ["scaled", "rank", *["cyclic"] * 4, *["category"] * 7]
    np.testing.assert_array_equal(table[:, 0], [t.replace(tzinfo=UTC).timestamp() for t in times])
    for j, feature in enumerate(encoder.features):
        if feature.kind in ("cyclic", "category"):
            expected = [brute_force(t, feature.name) for t in times]
            np.testing.assert_allclose(features[:, j], expected, atol=1e-9, err_msg=feature.name)
    assert np.abs(features).max() <= 1 + np.log(2)  # time may be bent beyond 1
    order = np.argsort(table[:, 0])
    assert (np.diff(features[order, 0]) >= 0).all()
    assert (np.diff(features[order, 1]) >= 0).all()


def test_only_what_varies_has_features():
    days = pd.date_range("2024-03-04", periods=20, freq="D")
    names = [f.name for f in learned(days)[0].features]
    assert not any("in the year" in n or "in the day" in n for n in names)
    assert "day=Monday" in names
    mondays = [f.kind for f in learned(pd.date_range("2024-01-01", periods=60, freq="7D"))[0].features]
    assert mondays == ["scaled", "rank", "cyclic", "cyclic"]
    assert [f.kind for f in learned(["2024-01-01"] * 5 + ["2024-01-08"] * 5)[0].features] == ["scaled"]
    hours = learned(pd.date_range("2024-01-01", periods=24, freq="h"))[0].features
    assert [f.kind for f in hours] == ["scaled", "rank", "cyclic", "cyclic"]
    two = learned(["2024-01-01", "2024-01-02"] * 20)[0].features
    assert [f.name for f in two if f.kind == "category"] == ["day=Tuesday"]


def test_rare_days_of_the_week_have_no_indicator():
    days = [*pd.date_range("2024-01-01", periods=200, freq="7D"), *[pd.Timestamp("2024-01-03")] * 3]
    days += [pd.Timestamp("2024-01-05")] * 20
    names = [f.name for f in learned(days)[0].features if f.kind == "category"]
    assert names == ["day=Monday", "day=Friday"]


def test_missing_dates_are_marked_and_in_the_middle():
    days = [None if i % 5 == 0 else datetime.date(2020, 1, 1) + datetime.timedelta(days=9 * i) for i in range(80)]
    encoder, features, _ = learned(days)
    kinds = np.array([f.kind for f in encoder.features])
    gone = np.arange(80) % 5 == 0
    np.testing.assert_array_equal(features[:, kinds == "missing"][:, 0], np.where(gone, 0.5, -0.5))
    assert (features[gone][:, np.isin(kinds, ["cyclic", "rank"])] == 0).all()
    assert (features[gone][:, kinds == "category"] == -0.5).all()


def test_later_dates_keep_their_rhythm_and_are_remarked_on():
    """The season is that of the calendar, the rank stays, the scaled copy grows more slowly than time."""
    days = pd.date_range("2018-01-01", "2021-12-31", freq="3D")
    encoder, _, _ = learned(days)
    (column,) = encoder.columns
    later = [pd.Timestamp(f"{year}-06-15").timestamp() for year in (2021, 2023, 2033, 2053)]
    f = encoder(np.array(later)[:, None])
    kinds = [k.kind for k in encoder.features]
    last = encoder(np.array([[days[-1].timestamp()]]))[0, kinds.index("rank")]
    assert (f[1:, kinds.index("rank")] == last).all()
    circle = kinds.index("cyclic")
    np.testing.assert_allclose(f[:, circle], f[0, circle], atol=0.02)  # leap years move June by a day
    steps = np.diff(f[:, 0])
    assert (steps > 0).all()
    assert steps[2] / 20 < steps[1] / 10
    (said,) = column.remarks_on_new(np.array(["2030-01-01"], dtype="M8[us]"))
    assert "2030-01-01, far outside 2018-01-01 to 2021-12-29" in said
    assert column.remarks_on_new(np.array(["2022-01-15"], dtype="M8[us]")) == []


def test_a_season_is_learned_and_foretold():
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 4 * 365, 250), "D")
    weekend = day.day_of_week >= 5
    y = np.sin(2 * np.pi * day.day_of_year / 365.25) + weekend
    frame = pd.DataFrame({"day": day})
    model = HGKRegressor("plain", random_state=0).fit(frame[:200], y[:200])
    assert model.score(frame[200:], y[200:]) > 0.9


# ------------------------------------------------------------------------------- every way that dates are given


def test_dates_of_pandas_polars_python_numpy_and_texts_give_the_same_features():
    rng = np.random.default_rng(0)
    times = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 30000, 60)]
    times[7] = None
    given = {
        "pandas": pd.Series(times, dtype="datetime64[us]"),
        "nanoseconds": pd.Series(times, dtype="datetime64[ns]"),
        "objects": pd.Series(times, dtype=object),
        "arrow": pd.Series(times, dtype="timestamp[us][pyarrow]"),
        "iso": pd.Series([None if t is None else t.isoformat() for t in times]),
        "german": pd.Series([None if t is None else t.strftime("%d.%m.%Y %H:%M") for t in times]),
        "american": pd.Series([None if t is None else t.strftime("%m/%d/%y %I:%M %p") for t in times]),
    }
    y = rng.standard_normal(60)
    frames = {name: pd.DataFrame({"day": series}) for name, series in given.items()}
    frames["polars"] = pl.DataFrame({"day": times})
    frames["array"] = np.array([[t] for t in times], dtype="datetime64[us]")
    frames["object array"] = np.array([[np.datetime64(t, "ns") if t else None] for t in times], dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: HGKRegressor("plain", random_state=0).fit(frame, y) for name, frame in frames.items()}
        expected = models["pandas"].features(frames["pandas"]).numpy()
        for name, frame in frames.items():
            np.testing.assert_array_equal(models[name].features(frame).numpy(), expected, err_msg=name)
        for name in ("objects", "arrow", "iso", "polars"):
            np.testing.assert_array_equal(
                models["pandas"].predict(frames[name]), models["pandas"].predict(frames["pandas"])
            )


def test_days_of_datetime_date_are_midnights():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=11 * k) for k in range(40)]
    one, two = (
        learned(pd.Series(v, dtype=object))[1]
        for v in (days, [datetime.datetime(d.year, d.month, d.day) for d in days])
    )
    np.testing.assert_array_equal(one, two)


def test_zones_are_counted_in_utc_and_must_be_there_again():
    times = pd.date_range("2024-01-01", periods=60, freq="7h", tz="Europe/Berlin")
    y = np.sin(np.arange(60.0))
    model = HGKRegressor("plain", random_state=0).fit(pd.DataFrame({"t": times}), y)
    (column,) = model.model_.inputs.columns
    assert column.zoned
    expected = model.predict(pd.DataFrame({"t": times}))
    for same in (times.tz_convert("Asia/Tokyo"), pd.Series(list(times), dtype=object), [t.isoformat() for t in times]):
        np.testing.assert_array_equal(model.predict(pd.DataFrame({"t": same})), expected)
    np.testing.assert_array_equal(model.predict(pl.DataFrame({"t": list(times.to_pydatetime())})), expected)
    with pytest.raises(ValueError, match="'t' have no time zones and had them when"):
        model.predict(pd.DataFrame({"t": times.tz_localize(None)}))
    naive = HGKRegressor("plain", random_state=0).fit(pd.DataFrame({"t": times.tz_localize(None)}), y)
    with pytest.raises(ValueError, match="'t' have time zones and had none when"):
        naive.predict(pd.DataFrame({"t": times}))
    mixed = [times[0].to_pydatetime(), datetime.datetime(2024, 1, 1)] * 30
    with pytest.raises(ValueError, match="with a time zone and others without"):
        HGKRegressor("plain").fit(pd.DataFrame({"t": pd.Series(mixed, dtype=object)}), y)


def test_new_texts_are_read_with_the_order_of_the_fit():
    frame = pd.DataFrame({"d": [f"{d:02d}/{m:02d}/2024" for d in range(1, 29) for m in (1, 2, 3)], "x": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HGKRegressor("plain", random_state=0).fit(frame, np.arange(84.0))
    iso = pd.DataFrame({"d": ["2024-02-01"], "x": 1.0})
    assert model.predict(iso) == model.predict(pd.DataFrame({"d": ["01/02/2024"], "x": 1.0}))
    with pytest.raises(
        ValueError, match=r"holds '01/31/2024' \(row 1, counted from 0\) and dates are expected, with the day"
    ):
        model.predict(pd.DataFrame({"d": ["01/02/2024", "01/31/2024"], "x": 1.0}))
    with pytest.raises(ValueError, match="holds numbers such as 20240201 and held dates"):
        model.predict(pd.DataFrame({"d": [20240201.0], "x": 1.0}))
    missing = model.predict(pd.DataFrame({"d": [None], "x": 1.0}))
    assert np.isfinite(missing).all()


def test_ambiguous_dates_are_asked_about_in_python():
    frame = pd.DataFrame({"d": ["01/02/2024", "03/04/2024"] * 20, "x": np.arange(40.0)})
    with pytest.raises(
        ValueError, match=r"'01/02/2024', of which day or month may come first; convert it, by pd\.to_datetime"
    ):
        HGKRegressor("plain").fit(frame, frame["x"])


def test_models_with_dates_are_stored_bit_by_bit(tmp_path):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 30000, 90), "h")
    frame = pd.DataFrame({"day": day, "x": rng.uniform(size=90)})
    frame.loc[4, "day"] = pd.NaT
    model = HGKRegressor("plain", random_state=0).fit(frame, frame["x"])
    hgk.save(model, tmp_path / "m.hgk")
    loaded = hgk.load(tmp_path / "m.hgk")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(loaded.features(frame).numpy(), model.features(frame).numpy())
    told = loaded.model_.inputs.taken_for()[0]
    assert told["kind"] == "date"
    assert "with season, weekday, hour" in told["words"]
    column = loaded.model_.inputs.columns[0]
    for i, x in enumerate(loaded.model_.inputs.reader(split(frame)[0])[:, 0]):
        shown = column.shown(x)
        assert (shown is None) == (i == 4)
        if shown is not None:
            assert pd.Timestamp(shown) == frame["day"][i]


def test_files_with_impossible_dates_are_refused():
    with pytest.raises(Exception, match="unknown days of the week"):
        Date.check_parts({"time": dates_module.Numeric("d"), "weekdays": np.array([7.0])})
    with pytest.raises(Exception, match="no time"):
        Date.check_parts({"time": None})
    with pytest.raises(Exception, match="unknown order"):
        DateForm.check_parts({"order": "ymd"})


# ---------------------------------------------------------------------------------------------- the command line


def dated(n=80):
    frame = houses(n).drop(columns=["sold"])
    frame["day"] = pd.date_range("2021-01-05", periods=n, freq="13h")
    return frame


def test_parquet_csv_and_json_of_the_same_table_give_the_same_features(call, tmp_path):
    frame = dated()
    frame.loc[5, "day"] = pd.NaT
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.assign(day=frame["day"].dt.strftime("%d.%m.%Y %H:%M:%S")).to_csv(
        tmp_path / "de.csv", index=False, sep=";", decimal=","
    )
    frame.assign(day=frame["day"].dt.strftime("%m/%d/%Y %H:%M:%S")).to_csv(tmp_path / "us.csv", index=False)
    rows = json.loads(frame.to_json(orient="records", date_format="iso", double_precision=15))
    (tmp_path / "t.json").write_text(
        json.dumps([{**row, "day": str(row["day"] or "").removesuffix("Z") or None} for row in rows])
    )
    predictions = {}
    for name in ("t.parquet", "t.csv", "de.csv", "us.csv", "t.json"):
        model = tmp_path / f"{name}.hgk"
        code, _, err = call("fit", tmp_path / name, "--target", "price", "--preset", "plain", "--out", model)
        assert code == 0, err
        assert ("day first" in err) == (name == "de.csv"), err
        X = tables.read_table(tmp_path / name).frame.drop(columns="price")
        loaded = hgk.load(model)
        predictions[name] = loaded.features(X).numpy()
        for other in ("t.parquet", "t.csv"):
            assert call("predict", model, tmp_path / other)[0] == 0
    for found in predictions.values():
        np.testing.assert_array_equal(found, predictions["t.parquet"])
    same = [call("predict", tmp_path / "us.csv.hgk", tmp_path / name)[1] for name in ("us.csv", "t.csv", "t.parquet")]
    assert same[0] == same[1] == same[2]


def test_ambiguous_dates_are_asked_about_unless_a_column_decides_or_the_user_says(call, tmp_path):
    n = 40
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"y": rng.uniform(size=n).round(3), "d": [f"{1 + i % 12:02d}/{1 + i % 11:02d}/2024" for i in range(n)]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = "fit", tmp_path / "t.csv", "--target", "y", "--preset", "plain", "--out", tmp_path / "m.hgk"
    code, _, err = call(*fit)
    assert (code, err.count("\n")) == (2, 1)
    assert "of which day or month may come first; give --dates dmy or --dates mdy." in err
    for order, second in (("dmy", "2024-02-02"), ("mdy", "2024-02-02")):
        code, _, err = call(*fit, "--dates", order)
        assert code == 0
        column = hgk.load(tmp_path / "m.hgk").model_.inputs.columns[0]
        assert column.form == DateForm(order)
        assert column.shown(column.read(np.array(["02/02/2024"], dtype=object))[0]) == second
        assert call("predict", tmp_path / "m.hgk", tmp_path / "t.csv")[0] == 0
    assert (
        call("fit", tmp_path / "t.csv", "--target", "y", "--drop", "d", "--out", tmp_path / "n.hgk")[2].count("--dates")
        == 0
    )
    frame.assign(e=[f"{1 + i % 28:02d}/03/2024" for i in range(n)]).to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call(*fit)
    assert code == 0
    assert "'d' is read as dates from texts such as '01/01/2024', with the day first, as in other columns." in err
    frame.assign(d=frame["d"]).to_csv(tmp_path / "t.csv", index=False)
    assert call("predict", tmp_path / "m.hgk", tmp_path / "t.csv")[0] == 2  # it lacks e


def test_encodings_and_comments(tmp_path):
    content = '# made by hand\ngröße;note\n1,5;"a\n# no comment"\n  # another\n2,5;b#c\n'
    (tmp_path / "t.csv").write_bytes(content.encode("cp1252"))
    with pytest.raises(tables.TableError, match="such as --encoding cp1252"):
        tables.read_table(tmp_path / "t.csv")
    frame = tables.read_table(tmp_path / "t.csv", encoding="cp1252", comment="#").frame
    assert frame["größe"].tolist() == [1.5, 2.5]
    assert frame["note"].tolist() == ["a\n# no comment", "b#c"]
    with pytest.raises(tables.TableError, match="is no text in the encoding ascii"):
        tables.read_table(tmp_path / "t.csv", encoding="ascii", comment="#")


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1, "b": "x"}, {"a": 2.5, "b": null}, {"b": "y"}]',
        '{"a": 1, "b": "x"}\n{"a": 2.5}\n\n{"a": null, "b": "y"}\n',
        '{"a": [1, 2.5, null], "b": ["x", null, "y"]}',
        '\ufeff[{"a": 1, "b": "x"}, {"a": 2.5}, {"b": "y"}]',
    ],
)
def test_json_of_rows_lines_and_columns_is_one_table(tmp_path, text):
    (tmp_path / "t.any").write_text(text)
    frame = tables.read_table(tmp_path / "t.any").frame
    assert frame["a"].fillna(-1).tolist() == [1, 2.5, -1]
    assert frame["b"].where(frame["b"].notna(), None).tolist() == ["x", None, "y"]


def test_numbers_of_json_keep_their_kinds():
    frame = formats.json_table(
        json.dumps([{"i": 1, "big": 2**60 + 1, "t": True}, {"i": 2, "big": None, "t": False}]), "t"
    )
    assert frame["i"].tolist() == [1, 2]
    assert frame["big"][0] == 2**60 + 1
    assert frame["t"].dtype == bool
    assert formats.json_table("{a},b\n1,2\n", "t") is None


def test_sheets_are_read_where_their_package_is_there(tmp_path, monkeypatch):
    import zipfile

    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    monkeypatch.setattr(formats.pd, "read_excel", lambda file: dated(20))
    frame = tables.read_table(tmp_path / "t.xlsx").frame
    pd.testing.assert_frame_equal(frame, dated(20))


def test_a_sheet_written_by_openpyxl_comes_back(tmp_path):
    pytest.importorskip("openpyxl", reason="needs openpyxl")
    dated(20).to_excel(tmp_path / "t.xlsx", index=False)
    frame = tables.read_table(tmp_path / "t.xlsx").frame
    assert frame["town"].tolist() == dated(20)["town"].tolist()
    assert (frame["day"] == dated(20)["day"]).all()


def test_methods_are_compared_on_dates_that_the_user_or_other_columns_decide(call, tmp_path):
    n = 60
    rng = np.random.default_rng(0)
    month = 1 + np.arange(n) % 12
    frame = pd.DataFrame({"d": [f"01/{m:02d}/2024" for m in month], "y": month + 0.1 * rng.standard_normal(n)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = "compare", tmp_path / "t.csv", "--target", "y", "--methods", "plain,forest", "--folds", "3", "--json"
    assert "--dates dmy" in call(*arguments)[2]
    code, out, err = call(*arguments, "--dates", "dmy")
    assert code == 0, err
    assert all(m["mean"] < 1 for m in json.loads(out)["methods"])
    X = tables.read_table(tmp_path / "t.csv", dates="dmy")
    read = tables.with_dates(X.frame, X.marks)["d"]
    assert (read == pd.to_datetime(frame["d"], dayfirst=True)).all()
    zoned = pd.DataFrame({"d": ["2024-01-31T12:00+01:00", None], "x": [1, 2]})
    zoned.to_csv(tmp_path / "z.csv", index=False)
    table = tables.read_table(tmp_path / "z.csv")
    read = tables.with_dates(table.frame, table.marks)["d"]
    assert read[0] == pd.Timestamp("2024-01-31T11:00", tz="UTC")
    assert pd.isna(read[1])


@pytest.mark.parametrize(
    "texts", [["1.2.10", "1.3.11", "2.1.12"], ["1.13.2", "1.2.10"], ["1001-12", "4711-11", "2003-01"]], ids=str
)
def test_versions_and_numbers_of_parts_are_no_dates(texts):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"v": rng.choice(texts, 60), "x": rng.normal(size=60)})
    model = HGKRegressor("plain", random_state=0).fit(frame, frame["x"])
    assert model.model_.inputs.columns[0].taken_for()["kind"] == "category"
    assert np.isfinite(model.predict(pd.DataFrame({"v": ["9.9.9"], "x": [0.0]}))).all()


@pytest.mark.parametrize("texts", [["1.2.10", "13.3.11"], ["01.02.10", "1.3.11"], ["1.2.2010"], ["2003-01"]], ids=str)
def test_dates_between_dots_and_months_stay_dates(texts):
    assert date_reading(texts).dates


def test_a_column_of_dates_without_a_date():
    frame = pd.DataFrame({"d": pd.to_datetime([None] * 30), "x": np.arange(30.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HGKRegressor("plain", random_state=0).fit(frame, np.arange(30.0))
        assert np.isfinite(model.predict(frame.assign(d=pd.Timestamp("2024-01-01")))).all()
