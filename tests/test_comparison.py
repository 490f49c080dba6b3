"""hgk beside other methods: the same folds for all, fair tables for peers, scores by hand, ``hgk compare``."""

import json
from itertools import chain

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold, StratifiedKFold

import hgk
from hgk.insight import compare, comparison, peers
from hgk.insight.comparison import Comparison, MethodScores, known_method, paired_difference
from hgk.insight.peers import PEERS, PeerTask, TableEncoder
from hgk.report import write_comparison
from tasks import quickly
from test_cli import houses

SEEN = []
EXACT = {"rtol": 1e-12}


class Recording(BaseEstimator):
    """Predicts the mean, or the shares of the classes, and notes the rows that it is given."""

    def __init__(self, name="a", classes=False):
        self.name = name
        self.classes = classes

    def fit(self, X, y):
        SEEN.append((self.name, "fit", np.asarray(X)[:, 0].tolist()))
        self.mean = None if self.classes else float(np.mean(y))
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares = counts / len(y)
        return self

    def predict(self, X):
        SEEN.append((self.name, "predict", np.asarray(X)[:, 0].tolist()))
        return np.full(len(X), self.mean)

    def predict_proba(self, X):
        SEEN.append((self.name, "predict", np.asarray(X)[:, 0].tolist()))
        return np.tile(self.shares, (len(X), 1))


@pytest.fixture(autouse=True)
def forgotten():
    SEEN.clear()


def numbered(n=60, seed=0):
    """The first column numbers the rows."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.arange(n) + 0.5, rng.uniform(size=(n, 2))])
    return X, np.sin(5 * X[:, 1]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize(
    "make", [np.asarray, lambda X: pd.DataFrame(X, columns=list("abc")), lambda X: pl.DataFrame(X)]
)
def test_all_methods_see_the_same_folds(make, monkeypatch):
    X, y = numbered()
    seen = []
    forest = PEERS[0]

    def watched(table, y, task):
        function = forest.fit(table, y, task)
        seen.append(table.X[:, 0].tolist())
        return lambda X: (seen.append(X[:, 0].tolist()), function(X))[1]

    monkeypatch.setattr(comparison, "PEERS", (peers.Peer("random forest", "", "sklearn", watched),))
    methods = {"one": Recording("one"), "random forest": None, "two": Recording("two"), "plain SVM": None}
    told = compare(make(X), y, methods, folds=4, random_state=3)
    one, two = ([rows for name, _, rows in SEEN if name == which] for which in ("one", "two"))
    assert one == two == seen
    expected = [part for train, test in KFold(4, shuffle=True, random_state=3).split(X) for part in (train, test)]
    assert one == [(part + 0.5).tolist() for part in expected]
    assert sorted(chain(*one[1::2])) == X[:, 0].tolist()
    assert {r.name for r in told.results} == set(methods)


@pytest.mark.parametrize(
    ("metric", "score"),
    [("rmse", metrics.root_mean_squared_error), ("mae", metrics.mean_absolute_error), ("r2", metrics.r2_score)],
)
def test_scores_of_numbers_are_those_by_hand(metric, score):
    X, y = numbered()
    told = compare(X, y, {"mine": Recording(), "plain SVM": None}, folds=3, metric=metric)
    for (train, test), found, of_plain in zip(
        KFold(3, shuffle=True, random_state=0).split(X), told["mine"].scores, told["plain SVM"].scores, strict=True
    ):
        np.testing.assert_allclose(found, score(y[test], np.full(len(test), y[train].mean())), rtol=1e-9, atol=1e-12)
        model = hgk.HGKRegressor("plain", random_state=0).fit(X[train], y[train])
        np.testing.assert_allclose(of_plain, score(y[test], model.predict(X[test])), **EXACT)
    result = told["mine"]
    assert result.mean == np.mean(result.scores)
    np.testing.assert_allclose(result.standard_error, stats.sem(result.scores), **EXACT)
    means = [r.mean for r in told.results]
    assert means == sorted(means, reverse=metric == "r2")


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "auc"])
def test_scores_of_classes_are_those_by_hand(metric):
    X, f = numbered(90)
    y = np.array(["lo", "mid", "up"])[np.digitize(f, [0, 0.6])]
    told = compare(X, y, {"mine": Recording(classes=True), "plain SVM": None}, folds=3, metric=metric)
    names = np.unique(y)
    for (train, test), found in zip(
        StratifiedKFold(3, shuffle=True, random_state=0).split(X, y), told["plain SVM"].scores, strict=True
    ):
        p = hgk.HGKClassifier("plain", random_state=0).fit(X[train], y[train]).predict_proba(X[test])
        expected = {
            "log_loss": lambda p=p, test=test: metrics.log_loss(y[test], p, labels=names),
            "accuracy": lambda p=p, test=test: metrics.accuracy_score(y[test], names[p.argmax(1)]),
            "auc": lambda p=p, test=test: metrics.roc_auc_score(y[test], p, multi_class="ovr", labels=names),
        }[metric]()
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert told.task == "classification"


def test_rows_without_a_label_are_left_out():
    X, y = numbered()
    gone = np.where(np.arange(60) % 5 == 0, np.nan, y)
    told = compare(X, gone, {"mine": Recording()}, folds=3)
    assert (told.rows, told.without_label) == (48, 12)
    assert not {0.5, 5.5} & set(chain(*(rows for _, _, rows in SEEN)))


# ------------------------------------------------------------------------------------------------------ the peers


def mixed(n=160, seed=0):
    """A category decides, a number matters less, and cells are missing; an id."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": [f"k{i}" for i in range(n)], "size": rng.uniform(size=n)})
    frame["town"] = np.array(["Rom", "Ulm", "Bari", "Oslo"])[rng.integers(4, size=n)]
    frame["heated"] = np.where(rng.uniform(size=n) < 0.5, "yes", "no")
    frame.loc[::7, "town"] = None
    frame.loc[::5, "size"] = np.nan
    effect = frame["town"].map({"Rom": 3.0, "Ulm": -1.0, "Bari": 2.0, "Oslo": -3.0}).fillna(0.5)
    y = effect + frame["size"].fillna(2.0) + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def test_peers_get_numbers_codes_and_missing_cells_as_they_are():
    frame, _ = mixed()
    encoder = TableEncoder(frame[:100])
    new = frame[100:].copy()
    new.loc[100, "town"] = "Paris"
    table = encoder(new)
    assert table.categorical == (1, 2)
    assert table.levels == (4, 2)
    towns = sorted(["Rom", "Ulm", "Bari", "Oslo"])
    expected = [np.nan if t not in towns else towns.index(t) for t in new["town"]]
    np.testing.assert_array_equal(table.X[:, 0], new["size"])
    np.testing.assert_array_equal(table.X[:, 1], expected)
    np.testing.assert_array_equal(table.X[:, 2], (new["heated"] == "yes").astype(float))
    assert table.X.shape == (60, 3)  # without the id


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_peers_learn_from_categories_and_missing_cells(peer, classes):
    if not peer.installed:
        pytest.skip(f"{peer.requires} is not installed")
    frame, y = mixed()
    labels = y if not classes else np.digitize(y, [[0.0], [-0.5, 2.5]][classes - 2])
    encoder = TableEncoder(frame[:120])
    new = frame[120:].copy()
    new.loc[120, "town"] = "Paris"
    function = peer.fit(encoder(frame[:120]), labels[:120], PeerTask(classes, 0, 1))
    t = np.asarray(function(encoder(new).X))
    if not classes:
        assert metrics.r2_score(labels[120:], t) > 0.7
        return
    assert t.shape == (40, classes)
    np.testing.assert_allclose(t.sum(1), 1, rtol=1e-5)
    assert (t > 0).all()
    assert metrics.accuracy_score(labels[120:], t.argmax(1)) > 0.8


def test_peers_take_tables_without_numbers_and_few_rows():
    frame, y = mixed(24)
    for peer in PEERS:
        if peer.installed:
            t = peer.fit(TableEncoder(frame[["town"]])(frame[["town"]]), y, PeerTask(0, 0, 1))(
                TableEncoder(frame[["town"]])(frame[["town"]]).X
            )
            assert np.isfinite(t).all(), peer.name


def test_a_column_with_more_categories_than_histograms_take_is_ordered():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": [f"c{i:03d}" for i in rng.integers(300, size=900)], "x": rng.uniform(size=900)})
    table = TableEncoder(frame)(frame)
    assert table.levels[0] > 255
    function = PEERS[1].fit(table, frame["x"].to_numpy(), PeerTask(0, 0, 1))
    assert metrics.r2_score(frame["x"], function(table.X)) > 0.9


def test_a_peer_that_fails_is_said_and_the_others_are_compared(monkeypatch):
    def failing(table, y, task):
        raise RuntimeError("no such luck.")

    monkeypatch.setattr(comparison, "PEERS", (peers.Peer("LightGBM", "", "sklearn", failing), PEERS[0]))
    told = compare(*numbered(), ["LightGBM", "random forest", "plain SVM"], folds=2)
    assert told.results[-1].name == "LightGBM"
    assert any(remark == "LightGBM failed (RuntimeError: no such luck) and has no score." for remark in told.remarks)
    assert np.isfinite(told["random forest"].mean)


def test_methods_that_are_not_installed_are_said(monkeypatch):
    absent = peers.Peer("LightGBM", "", "not_there_at_all", PEERS[0].fit)
    monkeypatch.setattr(comparison, "PEERS", (PEERS[0], absent))
    monkeypatch.setattr(comparison.HGKRegressor, "fit", lambda self, X, y: self)
    monkeypatch.setattr(comparison.HGKRegressor, "predict", lambda self, X: np.zeros(len(X)))
    told = compare(*numbered(), folds=2)
    assert [r.name for r in told.results if r.name == "LightGBM"] == []
    assert "Not compared, since not installed: LightGBM; pip install not_there_at_all" in told.remarks[0]
    with pytest.raises(ValueError, match="needs not_there_at_all"):
        compare(*numbered(), ["LightGBM"], folds=2)


# ------------------------------------------------------------------------------------------------------ the words


def test_the_half_width_is_that_of_nadeau_and_bengio():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(2, 5))
    mean, half = paired_difference(MethodScores("a", "", tuple(a)), MethodScores("b", "", tuple(b)))
    d = a - b
    corrected = np.sqrt((1 / 5 + 0.2 / 0.8) * d.var(ddof=1))
    np.testing.assert_allclose([mean, half], [d.mean(), stats.t(4).ppf(0.975) * corrected], rtol=1e-12)


def ranked(metric="rmse", **scores):
    results = [
        MethodScores(name.replace("_", " "), "", tuple(values), (1.0,) * len(values)) for name, values in scores.items()
    ]
    sign = -1 if metric in ("r2", "accuracy", "auc") else 1
    results.sort(key=lambda r: sign * r.mean)
    told = Comparison("regression", metric, results, 100, 0, 3)
    return comparison._sentence(told)


def test_the_sentence_says_honestly_who_is_ahead():
    said = ranked(hgk=[1.0, 1.1, 1.05], LightGBM=[2.0, 2.1, 2.06], plain_SVM=[3.0, 3.0, 3.0])
    assert said.startswith("hgk is best: root mean squared error 1.05, LightGBM 2.053, the next")
    said = ranked(hgk=[2.0, 2.1, 2.06], LightGBM=[1.0, 1.1, 1.05])
    assert said.startswith("LightGBM is better than hgk here")
    said = ranked(hgk=[1.0, 3.0, 2.0], LightGBM=[2.0, 1.1, 2.5])
    assert said.startswith("hgk and LightGBM, the best, cannot be told apart")
    assert ranked("r2", hgk=[0.9, 0.91, 0.92], forest=[0.5, 0.51, 0.52]).startswith("hgk is best: R² 0.91, forest 0.51")
    assert "cannot be told apart" in ranked(hgk=[1.0, 2.0], forest=[1.0, 2.0])
    assert ranked(hgk=[1.0]).startswith("There is nothing to compare")


@pytest.mark.parametrize("name", ["HGK", "plain-svm", "Random_Forest", "histgradientboosting", "XGBOOST"])
def test_methods_are_known_however_they_are_spelt(name):
    assert known_method(name) in comparison.method_names()


def test_the_time_is_shared_out_among_the_fits_of_hgk(monkeypatch):
    budgets, now = [], [0.0]
    monkeypatch.setattr(comparison.time, "monotonic", lambda: now[0])

    def fit(self, X, y):
        budgets.append(self.time_budget)
        now[0] += self.time_budget or 0
        return self

    monkeypatch.setattr(comparison.HGKRegressor, "fit", fit)
    monkeypatch.setattr(comparison.HGKRegressor, "predict", lambda self, X: np.zeros(len(X)))
    compare(*numbered(), ["hgk", "random forest"], folds=3, time_budget=60)
    np.testing.assert_allclose(budgets, 20, rtol=1e-12)
    budgets.clear()
    told = compare(*numbered(), ["hgk"], folds=3, time_budget=3)
    assert budgets == [2, 2, 2]
    assert "fits of hgk had 2 s each" in told.remarks[0]


# ----------------------------------------------------------------------------------------- the page, the command


def test_the_page_holds_the_table_and_no_text_of_the_data_as_markup(tmp_path):
    told = compare(*numbered(), {"<b>mine</b>": Recording(), "plain SVM": None}, folds=3)
    page = write_comparison(told, tmp_path / "c.html", "A & B").read_text()
    assert "A &amp; B" in page
    assert "<b>mine" not in page
    assert "&lt;b&gt;mine" in page
    assert f"{told['plain SVM'].mean:.4g}" in page
    assert 'name="viewport"' in page


def test_compare_on_the_command_line_gives_what_the_function_gives(call, tmp_path):
    frame = houses(90)
    frame.loc[3, "price"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["compare", tmp_path / "t.csv", "--target", "price", "--drop", "sold", "--folds", "3"]
    arguments += ["--methods", "plain,random forest", "--methods", "hgk"]
    with quickly():
        code, out, err = call(*arguments, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        kept = frame[frame["price"].notna()]
        X, y = kept[["living area", "größe", "town"]].reset_index(drop=True), kept["price"].to_numpy()
        told = compare(X, y, ["plain SVM", "random forest", "hgk"], folds=3)
    assert {m["name"]: m["scores"] for m in found["methods"]} == {r.name: list(r.scores) for r in told.results}
    assert "1 rows without a value of 'price' were left out." in found["notes"]
    page, scores = tmp_path / "c.html", tmp_path / "c.json"
    arguments = [*arguments[:-2], "--report", page, "--out", scores]
    code, out, err = call(*arguments)
    assert code == 0
    assert "random forest" in out
    assert "root mean squared error" in out
    assert "price, from t.csv" in page.read_text()
    assert call(*arguments, "--quiet") == (0, "", "")
    assert json.loads(scores.read_text())["metric"] == "rmse"


def test_classes_are_compared_on_the_command_line(call, tmp_path):
    houses(90).to_csv(tmp_path / "t.csv", index=False)
    arguments = ["--target", "sold", "--drop", "price", "--methods", "plain,forest", "--metric", "auc", "--folds", "2"]
    code, out, err = call("compare", tmp_path / "t.csv", *arguments)
    assert code == 0, err
    assert "area under the ROC curve" in out
    assert "classification, since 'sold' holds 2 different texts" in err
