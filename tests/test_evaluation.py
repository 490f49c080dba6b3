"""Scores on labelled rows: those of scikit-learn on the same predictions, standard errors, promises; ``hgk evaluate``,
``hgk fit --test``, ``hgk predict --keep``."""

import csv
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import metrics

import hgk
from hgk.insight import evaluate, promise, verdict
from hgk.insight.errors import LOO
from hgk.insight.measures import (
    calibration_by_chance,
    calibration_error,
    class_measures,
    mean_measure,
    number_measures,
)
from hgk.report import report, write_evaluation
from test_cli import houses

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def friedman(n, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    f = np.sin(np.pi * X[:, 0] * X[:, 1]) + X[:, 2]
    Y = np.column_stack([(k + 1) * f + 0.1 * rng.standard_normal(n) for k in range(outputs)])
    return X, Y[:, 0] if outputs == 1 else Y


@pytest.fixture(scope="module")
def regressor():
    return hgk.HGKRegressor("plain", random_state=0).fit(*friedman(80))


@pytest.fixture(scope="module")
def three_classes():
    X, y = friedman(120)
    return hgk.HGKClassifier("plain", random_state=0).fit(X, np.digitize(y, [0.8, 1.2]))


# ----------------------------------------------------------------------------------------------------- the scores


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_numbers_are_those_of_scikit_learn(regressor, weighted):
    X, y = friedman(60, seed=1)
    weight = np.random.default_rng(2).integers(0, 4, 60) if weighted else None
    told, t = evaluate(regressor, X, y, weight), regressor.predict(X)
    low, high = regressor.predict_interval(X).T
    np.testing.assert_allclose(told["rmse"], metrics.root_mean_squared_error(y, t, sample_weight=weight), **EXACT)
    np.testing.assert_allclose(told["mae"], metrics.mean_absolute_error(y, t, sample_weight=weight), **EXACT)
    np.testing.assert_allclose(told["r2"], metrics.r2_score(y, t, sample_weight=weight), **EXACT)
    inside = (low <= y) & (y <= high)
    np.testing.assert_allclose(told["coverage"], np.average(inside, weights=weight), **EXACT)
    np.testing.assert_allclose(told["width"], np.average(high - low, weights=weight), **EXACT)
    assert told.rows == (60 if weight is None else (weight > 0).sum())


def test_intervals_are_checked_at_the_coverage_asked_for(regressor):
    X, y = friedman(60, seed=1)
    low, high = regressor.predict_interval(X, 0.5).T
    assert evaluate(regressor, X, y, coverage=0.5)["coverage"] == np.mean((low <= y) & (y <= high))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_of_classes_are_those_of_scikit_learn(classes, weighted):
    X, f = friedman(200)
    y = np.array(["a", "b", "c"])[np.digitize(f, [0.8, 1.2][: classes - 1])]
    model = hgk.HGKClassifier("plain", random_state=0).fit(X[:120], y[:120])
    X, y = X[120:], y[120:]
    weight = np.random.default_rng(2).integers(0, 4, 80) if weighted else None
    told, p = evaluate(model, X, y, weight), model.predict_proba(X)
    np.testing.assert_allclose(told["accuracy"], metrics.accuracy_score(y, model.predict(X), sample_weight=weight))
    np.testing.assert_allclose(told["log_loss"], metrics.log_loss(y, p, sample_weight=weight, labels=model.classes_))
    of_two = p[:, 1] if classes == 2 else p
    area = metrics.roc_auc_score(y, of_two, sample_weight=weight, multi_class="ovr")
    np.testing.assert_allclose(told["auc"], area, **EXACT)
    expected = metrics.confusion_matrix(y, model.predict(X), sample_weight=weight, labels=model.classes_)
    np.testing.assert_allclose(told.confusion, expected)


def test_the_calibration_error_is_that_of_ten_bins():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=95)
    truth = (rng.uniform(size=95) < p**2).astype(int)
    weight = rng.uniform(0.5, 2, 95)
    order, total = np.argsort(p), 0.0
    for part in np.array_split(order, 10):
        total += weight[part].sum() * abs(np.average(p[part] - truth[part], weights=weight[part]))
    found = calibration_error(truth, np.column_stack([1 - p, p]), weight)
    np.testing.assert_allclose(found.value, total / weight.sum(), **EXACT)


def test_the_calibration_error_by_chance_is_that_of_perfect_probabilities():
    """Its mean over draws of labels from the probabilities; a normal sum in place of a binomial one: to 5 %."""
    rng = np.random.default_rng(0)
    p, weight = rng.uniform(0.1, 0.9, 300), np.ones(300)
    P = np.column_stack([1 - p, p])
    drawn = [calibration_error((rng.uniform(size=300) < p).astype(int), P, weight).value for _ in range(400)]
    assert calibration_by_chance(np.zeros(300, dtype=int), P, weight) == pytest.approx(np.mean(drawn), rel=0.05)


def test_scores_of_quantiles():
    X, y = friedman(160)
    model = hgk.HGKQuantileRegressor("plain", quantiles=[0.1, 0.5, 0.9], random_state=0).fit(X[:100], y[:100])
    told, t = evaluate(model, X[100:], y[100:]), model.predict(X[100:])
    y, losses = y[100:], []
    for j, level in enumerate(model.quantiles_):
        losses.append(metrics.mean_pinball_loss(y, t[:, j], alpha=level))
        name = f"quantile {level:g}"
        np.testing.assert_allclose(told.measure("pinball", name).value, losses[-1], **EXACT)
        assert told.measure("below", name).value == np.mean(y <= t[:, j])
    np.testing.assert_allclose(told["pinball"], np.mean(losses), **EXACT)
    assert told["inside"] == np.mean((t[:, 0] <= y) & (y <= t[:, -1]))
    np.testing.assert_allclose(told["width"], np.mean(t[:, -1] - t[:, 0]), **EXACT)
    assert (told.promised.name, told.promised.value) == ("pinball", verdict(model)["pinball"])


def test_several_outputs_have_scores_of_their_own_and_one_together():
    X, Y = friedman(150, outputs=2)
    model = hgk.HGKRegressor("plain", random_state=0).fit(X[:100], Y[:100])
    told, T = evaluate(model, X[100:], Y[100:]), model.predict(X[100:])
    for k in range(2):
        expected = metrics.root_mean_squared_error(Y[100:, k], T[:, k])
        np.testing.assert_allclose(told.measure("rmse", f"prediction {k}").value, expected, **EXACT)
        assert 0.7 < told.measure("coverage", f"prediction {k}").value <= 1
    half = np.ptp(Y[:100], axis=0) / 2
    np.testing.assert_allclose(told["risk"], (((Y[100:] - T) / half) ** 2).sum(1).mean(), rtol=1e-9)
    assert told.promised.name == "risk"


@pytest.mark.parametrize(
    "model",
    [
        hgk.HGKRegressor("plain", loss="pinball", tau=0.8, random_state=0),
        hgk.HGKClassifier("plain", loss="hinge", random_state=0),
        hgk.HGKClassifier("plain", multi_class="ava", random_state=0),
        hgk.HGKQuantileRegressor("plain", quantiles=0.3, random_state=0),
    ],
    ids=lambda model: f"{type(model).__name__} {model.get_params().get('loss')}",
)
def test_every_kind_of_model_is_scored_and_compared(model):
    X, y = friedman(120)
    y = np.digitize(y, [0.8, 1.2]) if isinstance(model, hgk.HGKClassifier) else y
    told = evaluate(model.fit(X[:80], y[:80]), X[80:], y[80:])
    assert all(np.isfinite(m.value) and m.error is not None for m in told.measures)
    assert told.promised is not None
    assert "the fit had promised" in told.sentence


def test_compressed_and_compact_models_are_scored_without_intervals(tmp_path, regressor):
    X, y = friedman(60, seed=1)
    hgk.save(regressor, tmp_path / "m.hgk", compact=True)
    for model in (hgk.load(tmp_path / "m.hgk"), regressor.compress(0.05)):
        told = evaluate(model, X, y)
        assert {m.name for m in told.measures} == {"rmse", "mae", "r2"}
        assert told.known is None
        assert told.promised.value == pytest.approx(verdict(regressor)["rmse"])


# ----------------------------------------------------------------------------------------------- standard errors


def test_standard_errors_are_the_spread_over_draws_of_rows():
    """600 draws of 150 rows from the same law: the mean stated error is their deviation, to 10 %."""
    rng = np.random.default_rng(0)
    found = {name: [] for name in ("rmse", "mae", "r2", "log_loss", "auc")}
    for _ in range(600):
        y = rng.standard_normal(150)
        t = y + 0.7 * rng.standard_normal(150) * (1 + np.abs(y))
        p = 1 / (1 + np.exp(-y))
        truth = (rng.uniform(size=150) < p).astype(int)
        measures = [
            *number_measures(y, t, np.ones(150)),
            *class_measures(truth, np.column_stack([1 - p, p]), np.ones(150)),
        ]
        for m in measures:
            if m.name in found:
                found[m.name].append((m.value, m.error))
    for name, pairs in found.items():
        values, errors = np.array(pairs).T
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=0.1), name


def test_the_standard_error_of_a_mean_is_the_textbook_one_and_weights_are_scale_free():
    s = np.random.default_rng(0).standard_normal(40)
    m = mean_measure("mae", s, np.ones(40))
    assert m.error == pytest.approx(s.std(ddof=1) / np.sqrt(40))
    weight = np.random.default_rng(1).uniform(1, 2, 40)
    one, other = mean_measure("mae", s, weight), mean_measure("mae", s, 7 * weight)
    assert (one.value, one.error) == (pytest.approx(other.value), pytest.approx(other.error))
    assert mean_measure("mae", s[:1], np.ones(1)).error is None


def test_influences_are_the_derivatives_with_respect_to_weights():
    """A score with the weight of row i raised by h, minus the score, is h times its influence (to first order in h)."""
    rng = np.random.default_rng(0)
    y, t = rng.standard_normal(30), rng.standard_normal(30)
    p = rng.dirichlet(np.ones(3), 30)
    truth, weight, h = rng.integers(3, size=30), rng.uniform(1, 2, 30), 1e-6
    scores = {
        **{
            m.name: lambda w, name=m.name: _named(number_measures(y, t, w), name) for m in number_measures(y, t, weight)
        },
        **{
            m.name: lambda w, name=m.name: _named(class_measures(truth, p, w), name)
            for m in class_measures(truth, p, weight)
        },
    }
    for name, score in scores.items():
        here = score(weight)
        slopes = [(score(weight + h * (np.arange(30) == i)).value - here.value) / h for i in range(30)]
        influence = weight * np.array(slopes)
        expected = np.sqrt(30 / 29 * influence @ influence)
        assert here.error == pytest.approx(expected, rel=1e-3), name


def _named(measures, name):
    return next(m for m in measures if m.name == name)


def test_a_constant_label_has_no_r2_and_one_class_no_area(regressor, three_classes):
    X, _ = friedman(10, seed=1)
    told = evaluate(regressor, X, np.ones(10))
    assert np.isnan(told["r2"])
    assert told.as_dict()["scores"][2] == {"name": "r2", "value": None, "standard_error": None}
    told = evaluate(three_classes, X, np.ones(10, dtype=int))
    with pytest.raises(ValueError, match="there are accuracy, log_loss, calibration"):
        told["auc"]


# ------------------------------------------------------------------------------------------- rows, labels, promise


def test_on_the_training_rows_the_scores_are_in_sample_and_that_is_said(regressor):
    X, y = friedman(80)
    told = evaluate(regressor, X, y)
    np.testing.assert_allclose(told["rmse"], metrics.root_mean_squared_error(y, regressor.predict(X)), **EXACT)
    assert told.known == 80
    assert told.remarks[0].startswith("All of these are training rows")
    some = evaluate(regressor, np.vstack([X[:5], friedman(20, seed=1)[0]]), np.append(y[:5], friedman(20, seed=1)[1]))
    assert some.known == 5
    assert some.remarks[0].startswith("5 of these 25 rows are equal to training rows")


@pytest.mark.parametrize("make", [pd.DataFrame, lambda d: pl.DataFrame(d)])
def test_rows_without_a_label_are_left_out_and_counted(make):
    frame = houses()
    X = frame[["living area", "größe"]].to_dict("list")
    y = frame["price"].where(np.arange(80) % 4 > 0)
    model = hgk.HGKRegressor("plain", random_state=0).fit(make(X), frame["price"])
    labels = make({"y": y.tolist()})["y"]
    told = evaluate(model, make(X), labels)
    kept = y.notna().to_numpy()
    t = model.predict(make(X))
    assert (told.rows, told.without_label) == (60, 20)
    np.testing.assert_allclose(told["rmse"], metrics.root_mean_squared_error(y[kept], t[kept]), **EXACT)
    assert "20 rows without labels were left out." in told.remarks
    assert (told.place == np.flatnonzero(kept)).all()


def test_classes_that_the_model_does_not_know_are_wrong(three_classes):
    X, _ = friedman(30, seed=1)
    y = np.append(three_classes.predict(X[:20]), np.full(10, 9))
    told = evaluate(three_classes, X, y)
    assert told["accuracy"] == pytest.approx(2 / 3)
    assert told.classes == ["0", "1", "2", "9"]
    assert told.confusion.shape == (4, 3)
    assert told.confusion[3].sum() == 10
    p = three_classes.predict_proba(X[:20])
    np.testing.assert_allclose(told["log_loss"], metrics.log_loss(y[:20], p, labels=[0, 1, 2]))
    assert any("10 rows have a class that the model does not know ('9')" in remark for remark in told.remarks)
    with pytest.raises(ValueError, match="the model knows '0', '1', '2'"):
        evaluate(three_classes, X, np.full(30, 9))


def test_labels_beyond_those_of_the_fit_are_said(regressor):
    X, y = friedman(30, seed=1)
    y[:2] = 99
    assert any(
        r.startswith("2 labels lie outside the range of the training labels") for r in evaluate(regressor, X, y).remarks
    )


def test_the_promise_is_what_the_fit_recorded(regressor, three_classes):
    told = promise(regressor)
    assert (told.name, told.value, told.rows) == ("rmse", verdict(regressor)["rmse"], 80)
    told = promise(three_classes)
    assert told.name in ("accuracy", "log_loss")
    given = hgk.HGKRegressor(kernel=regressor.kernel_, lam=1e-3, random_state=0).fit(*friedman(80))
    told = promise(given)
    if verdict(given) is None:
        assert told.basis == LOO
        loo = given.loo_predictions_
        np.testing.assert_allclose(told.value, metrics.root_mean_squared_error(friedman(80)[1], loo), rtol=1e-9)


def test_a_kept_promise_and_a_broken_one(regressor):
    X, y = friedman(100, seed=3)
    kept = evaluate(regressor, X, y)
    assert "the promise is kept" in kept.sentence
    broken = evaluate(regressor, X, y + np.random.default_rng(0).standard_normal(100))
    assert "worse, which is" in broken.sentence
    assert broken.sentence.count(".\n") == 0
    easier = evaluate(regressor, X, regressor.predict(X))
    assert "better" in easier.sentence


# ---------------------------------------------------------------------------------------------------------- pages


def test_pages_of_scores_hold_them(tmp_path, regressor, three_classes):
    X, y = friedman(60, seed=1)
    told = evaluate(regressor, X, y)
    page = write_evaluation(told, tmp_path / "e.html", "A <test>").read_text()
    assert "A &lt;test&gt;" in page
    assert f"{told['rmse']:.4g}" in page
    assert 'id="test-scatter"' in page
    page = write_evaluation(evaluate(three_classes, X, np.digitize(y, [0.8, 1.2])), tmp_path / "c.html").read_text()
    assert 'id="test-roc"' in page
    assert "Test rows by class" in page
    model = hgk.HGKQuantileRegressor("plain", quantiles=[0.1, 0.9], random_state=0).fit(*friedman(60))
    assert 'id="test-levels"' in write_evaluation(evaluate(model, X, y), tmp_path / "q.html").read_text()


def test_the_report_has_test_rows_only_where_they_were_given(regressor):
    assert "Test rows" not in report(regressor)
    page = report(regressor, *friedman(40, seed=1))
    assert '<section id="part-evaluation"><h2>Test rows</h2>' in page
    assert evaluate(regressor, *friedman(40, seed=1)).sentence in page.replace("&#x27;", "'")


# ---------------------------------------------------------------------------------------------- the command line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    frame = houses(140)
    frame.insert(0, "id", [f"{i:04d}" for i in range(140)])
    frame[:80].to_csv(folder / "known.csv", index=False)
    frame[80:].to_csv(folder / "new.csv", index=False)
    frame[80:].to_parquet(folder / "new.parquet")
    X = frame[:80][["living area", "größe", "town"]]
    note = {"target": "price"}
    hgk.save(hgk.HGKRegressor("plain", random_state=0).fit(X, frame[:80]["price"]), folder / "price.hgk", note=note)
    sold = hgk.HGKClassifier("plain", random_state=0).fit(X, frame[:80]["sold"])
    hgk.save(sold, folder / "sold.hgk")
    return folder


def test_evaluate_on_the_command_line_gives_what_the_function_gives(call, folder, tmp_path):
    code, out, err = call("evaluate", folder / "price.hgk", folder / "new.csv", "--json")
    assert (code, err) == (0, "")
    found, frame = json.loads(out), houses(140)[80:]
    told = evaluate(hgk.load(folder / "price.hgk"), frame[["living area", "größe", "town"]], frame["price"])
    assert found["scores"] == told.as_dict()["scores"]
    assert found["sentence"] == told.sentence
    assert (
        json.loads(call("evaluate", folder / "price.hgk", folder / "new.parquet", "--json")[1])["scores"]
        == found["scores"]
    )
    page, scores = tmp_path / "e.html", tmp_path / "e.json"
    code, out, _ = call("evaluate", folder / "price.hgk", folder / "new.csv", "--report", page, "--out", scores)
    assert code == 0
    assert told.sentence in out
    assert "root mean squared error" in out
    assert json.loads(scores.read_text())["scores"] == found["scores"]
    assert "price: price.hgk on new.csv" in page.read_text()
    again = call("evaluate", folder / "price.hgk", folder / "new.csv", "--report", page, "--out", scores, "--quiet")
    assert again == (0, "", "")
    code, out, _ = call("evaluate", folder / "sold.hgk", folder / "new.csv", "--target", "sold")
    assert code == 0
    assert "predicted yes" in out


@pytest.mark.parametrize(
    ("classes", "cells"),
    [
        ([0, 1], ["0", "1"]),
        (["007", "012"], ["007", "012"]),
        (["1", "x"], ["1", "x"]),
        (["False", "True"], ["false", "TRUE"]),
    ],
)
def test_classes_are_recognised_however_a_file_writes_them(call, tmp_path, classes, cells):
    y, rng = np.arange(40) % 2, np.random.default_rng(0)
    frame = pd.DataFrame({"a": y + 0.1 * rng.standard_normal(40)})
    labels = np.array(classes, dtype=object)[y]
    model = hgk.HGKClassifier("plain", random_state=0).fit(frame, labels)
    hgk.save(model, tmp_path / "m.hgk")
    first = (y == 0) if cells[0] == "007" else y >= 0
    lines = "".join(f"{a},{cells[k]}\n" for a, k, kept in zip(frame["a"], y, first, strict=True) if kept)
    (tmp_path / "t.csv").write_text("a,y\n" + lines + "0.5,\n")
    code, out, err = call("evaluate", tmp_path / "m.hgk", tmp_path / "t.csv", "--target", "y", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {s["name"]: s["value"] for s in found["scores"]}["accuracy"] == 1
    assert found["without_label"] == 1


def test_a_fit_with_test_rows_scores_them_and_reports_them(call, folder, tmp_path):
    arguments = ["fit", folder / "known.csv", "--target", "price", "--drop", "id,sold", "--preset", "plain"]
    more = ["--out", tmp_path / "m.hgk", "--test", folder / "new.csv"]
    code, out, err = call(*arguments, *more, "--report", tmp_path / "r.html")
    assert code == 0, err
    frame = houses(140)[80:]
    told = evaluate(hgk.load(tmp_path / "m.hgk"), frame[["living area", "größe", "town"]], frame["price"])
    assert told.sentence in out
    assert '<section id="part-evaluation">' in (tmp_path / "r.html").read_text()
    found = json.loads(call(*arguments, *more, "--json")[1])
    assert found["test"]["scores"] == told.as_dict()["scores"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "csv.gz"])
def test_kept_columns_come_through_as_they_are(call, folder, tmp_path, ending):
    code, _, err = call(
        "predict", folder / "price.hgk", folder / "new.csv", "--keep", "id,town", "--out", tmp_path / f"p.{ending}"
    )
    assert code == 0, err
    read = {"csv": pd.read_csv, "csv.gz": pd.read_csv, "parquet": pd.read_parquet, "feather": pd.read_feather}[ending]
    found = read(tmp_path / f"p.{ending}", **({"dtype": {"id": str}} if "csv" in ending else {}))
    frame = houses(140)[80:]
    assert list(found.columns) == ["id", "town", "prediction"]
    assert found["id"].tolist() == [f"{i:04d}" for i in range(80, 140)]
    assert found["town"].tolist() == frame["town"].tolist()
    again = call(
        "predict", folder / "price.hgk", folder / "new.csv", "--keep", "id,town", "--out", tmp_path / f"p.{ending}"
    )
    assert again[0] == 0


def test_ids_of_a_csv_are_passed_letter_by_letter(call, folder):
    """Duplicates, leading zeros, what pandas takes for missing, marks of numbers, quotes; also of features."""
    ids = ["007", "7", "007", "NA", "", "1,234.50", 'the "x"', " a b ", "1e5", "ID\u00fc", "0x10", "True"]
    lines = [
        ",".join(f'"{cell.replace(chr(34), 2 * chr(34))}"' for cell in (i, f"{50 + k:.2f}", "0.50", "Rom"))
        for k, i in enumerate(ids)
    ]
    content = "\n".join(["key,living area,größe,town", *lines])
    code, out, err = call(
        "predict", folder / "price.hgk", "-", "--keep", "key", "--keep", "living area", stdin=content.encode()
    )
    assert code == 0, err
    rows = list(csv.reader(out.splitlines()))
    assert rows[0] == ["key", "living area", "prediction"]
    assert [row[0] for row in rows[1:]] == ids
    assert [row[1] for row in rows[1:]] == [f"{50 + k:.2f}" for k in range(len(ids))]
    code, plain, _ = call("predict", folder / "price.hgk", "-", stdin=content.encode())
    assert plain.split()[1:] == [row[2] for row in rows[1:]]


def test_ids_of_parquet_keep_their_types(call, folder, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    frame = houses(140)[80:][["living area", "größe", "town"]]
    big = [None if i == 3 else 2**60 + i for i in range(60)]
    table = pa.table({**{c: frame[c].tolist() for c in frame}, "key": pa.array(big, pa.int64())})
    parquet.write_table(table, tmp_path / "t.parquet")
    code, _, err = call(
        "predict", folder / "price.hgk", tmp_path / "t.parquet", "--keep", "key", "--out", tmp_path / "p.parquet"
    )
    assert code == 0, err
    assert parquet.read_table(tmp_path / "p.parquet").column("key").to_pylist() == big
    out = call("predict", folder / "price.hgk", tmp_path / "t.parquet", "--keep", "key")[1]
    assert [line.split(",")[0] for line in out.split()[1:]] == ["" if v is None else str(v) for v in big]
    rows = json.loads(call("predict", folder / "price.hgk", tmp_path / "t.parquet", "--keep", "key", "--json")[1])
    assert [row["key"] for row in rows] == big
