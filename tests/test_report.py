"""The report: its numbers against the model's, and the page in a real browser."""

import json
import os
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_iris, make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix, r2_score, roc_auc_score

from browsing import Tags, assert_quiet, forget, keys
from hgk import Adam, HGKClassifier, HGKRegressor, compose, two_layers
from hgk.events import Chosen, GridChosen, Judged, Step, Watched, honest_error, last, of_kind
from hgk.insight import LearningRun, effect, interactions, kernel_trees, learning_curves, new_rows, relevance, verdict
from hgk.insight.coverage import loo_interval
from hgk.insight.fitted import kernels
from hgk.machines import MeanOfMachines, Rows, train, wrong_classes
from hgk.report import Section, register, registered, report, unregister, write_report
from hgk.report.web import figure

HOSTILE = "<script>alert('x')</script>&\"`${1}\\u003c"
COLUMNS = [HOSTILE, "größe, 尺寸 🙂", "</script><b>", "plain"]
CITIES = ["Ulm", "<i>Köln</i>", "Bonn & co"]


def table(n=130):
    """Hostile and foreign names, a categorical column, missing cells."""
    X, y = make_friedman1(n, n_features=5, noise=0.5, random_state=0)
    frame = pd.DataFrame(X[:, :4], columns=COLUMNS)
    rng = np.random.default_rng(0)
    frame["city"] = rng.choice(CITIES, n)
    frame.loc[rng.random(n) < 0.15, "plain"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    return frame, y + 4 * (frame["city"] == "Ulm").to_numpy()


@pytest.fixture(scope="module")
def regression():
    X, y = table()
    return HGKRegressor(random_state=0).fit(X[:100], y[:100])


@pytest.fixture(scope="module")
def binary():
    X, y = load_breast_cancer(return_X_y=True)
    return HGKClassifier(optimiser=Adam(steps=10, batch=50), random_state=0).fit(
        X[:90, :5], np.array(["<i>no</i>", "yes"])[y[:90]]
    )


@pytest.fixture(scope="module")
def several():
    X, y = load_iris(return_X_y=True)
    return HGKClassifier("plain", random_state=0).fit(X[::2], y[::2])


@pytest.fixture(scope="module")
def deep():
    return deep_model()


@pytest.fixture(scope="module")
def single():
    """The same without the row that is there twice."""
    return deep_model(slice(8, None))


def deep_model(some=slice(None)):
    """Depth 3, two outputs, weighted rows, one of them twice and one of weight 0."""
    X, y = make_friedman1(60, n_features=5, random_state=1)
    X[7] = X[3]
    Y = np.column_stack([y, y**2])
    Y[7] = Y[3]
    weight = np.linspace(0.5, 2, 60)
    weight[5] = 0
    tree = compose([two_layers(5, 2), two_layers(5, 3)])
    model = HGKRegressor(architecture=tree, optimiser=Adam(steps=3, batch=40))
    return model.fit(X[some], Y[some], sample_weight=weight[some])


@pytest.fixture(scope="module")
def data(regression):
    X, y = table()
    return embedded(report(regression, X, y))


def embedded(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def cells(text, label):
    """The body of a table of the page, as text."""
    body = re.search(rf'<table aria-label="{label}">.*?<tbody>(.*?)</tbody>', text, re.S)[1]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr>(.*?)</tr>", body, re.S)]


# Numbers


def test_importances_relevance_and_trees_are_those_of_the_model(regression, data):
    found = regression.importance_
    np.testing.assert_allclose(data["importance"]["shown"], found.shown, rtol=1e-12)
    np.testing.assert_allclose(data["importance"]["error"], found.error, rtol=1e-12)
    assert data["importance"]["order"] == found.order.tolist()
    shares = [share for share, _, _, _ in regression.machine_.terms]
    assert len(shares) > 1
    assert sum(shares) == pytest.approx(1)
    rested = relevance(regression)
    np.testing.assert_allclose(rested.mean, regression.exponent_shares_, rtol=1e-12)
    np.testing.assert_allclose(shares @ rested.kernels, rested.mean, rtol=1e-9)
    features = regression.model_.inputs.encoder.features
    for tree, (share, kernel, lam) in zip(data["trees"], kernels(regression), strict=True):
        assert (tree["share"], tree["lam"]) == pytest.approx((share, lam))
        V, w = kernel.W[0].numpy(), kernel.W[1].abs().tolist() if len(kernel.W) > 1 else [1.0]
        assert [node["weight"] for node in tree["layers"][0]] == pytest.approx(w)
        assert sum(node["share"] for node in tree["layers"][0]) == pytest.approx(1)
        seen = 0.0
        for edge in tree["edges"]:
            column = data["about"]["columns"].index(tree["columns"][edge["place"]]["name"])
            weights = [V[edge["node"], f] for f, feature in enumerate(features) if feature.column == column]
            assert edge["weight"] == pytest.approx(np.linalg.norm(weights))
            seen += edge["weight"] ** 2
        assert seen == pytest.approx((V**2).sum())


def test_deep_trees_pass_shares_on_and_wide_ones_sum_up_the_rest(deep):
    (tree,) = kernel_trees(deep)
    assert [len(layer) for layer in tree.layers] == [5, 2, 1]
    for below, above in zip(tree.layers, tree.layers[1:], strict=False):
        for i, node in enumerate(above):
            assert node.share == pytest.approx(sum(child.share for child in below if child.parent == i))
    X, y = make_friedman1(30, n_features=40, random_state=0)
    groups = {"all": range(40), "some": range(10)}
    wide = HGKRegressor(groups=groups, optimiser=Adam(steps=2, batch=30), random_state=0).fit(X, y)
    tree = embedded(report(wide))["trees"][0]
    assert tree["columns"][-1]["name"] == "25 other columns"
    assert sum(column["share"] for column in tree["columns"]) == pytest.approx(1)
    (kernel,) = [kernel for _, kernel, _ in kernels(wide)]
    assert sum(edge["weight"] ** 2 for edge in tree["edges"]) == pytest.approx(float((kernel.W[0] ** 2).sum()))


def test_interactions_of_the_page_are_those_of_the_model():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (150, 3)), columns=["a", "b", "<c>"])
    model = HGKRegressor("plain", random_state=0).fit(X, X["a"] * X["<c>"])
    text, found = report(model), interactions(model)
    told = embedded(text)["interactions"]
    assert told["pairs"][0]["name"] == "a and <c>"
    assert told["pairs"][0]["mean"] == pytest.approx(found.mean.max())
    (joint,) = told["joint"]
    first, second = (X.columns.get_loc(name) for name in joint["names"])
    moved = model.X_fit_[np.random.default_rng(0).permutation(150)[:50]].copy()
    moved[:, first], moved[:, second] = joint["grids"][0][2], joint["grids"][1][7]
    assert joint["mean"][0][2][7] == pytest.approx(
        model.predict(pd.DataFrame(moved, columns=X.columns)).mean(), rel=1e-4
    )
    additive = report(HGKRegressor("plain", random_state=0).fit(X[["a", "b"]], X["a"] + X["b"]))
    assert "their effects add up" in additive
    assert embedded(additive)["interactions"]["joint"] == []


def test_a_plain_kernel_claims_nothing_about_columns(regression, several):
    learned, plain = report(regression), report(several)
    assert '<figure id="tree"' in learned
    assert '<figure id="tree"' not in plain
    assert '<figure id="importance"' in plain
    assert "The kernel is the plain Gaussian one, which weights all columns alike and tells nothing about" in plain
    assert f"Its γ is {several.gamma_:.4g}, and λ is {several.lam_:.4g}." in plain


def test_errors_are_the_fits_own_the_leave_one_out_one_and_that_of_a_forest(regression, data):
    X, y = table()
    told = {(s["method"], s["basis"]): s for s in data["errors"]}
    assert told["this model", "rows set aside"]["risk"] == last(regression.history_, Chosen).risk
    (plain,) = [e for e in of_kind(regression.history_, Judged) if e.candidate == "plain"]
    assert told["plain Gaussian SVM", "rows set aside"]["risk"] == plain.honest
    loo, new = told["this model", "leave-one-out"], told["this model", "new rows"]
    assert loo["rmse"] == pytest.approx(np.sqrt(np.mean((y[:100] - regression.loo_predictions_) ** 2)))
    assert loo["r2"] == pytest.approx(r2_score(y[:100], regression.loo_predictions_))
    assert new["rmse"] == pytest.approx(np.sqrt(np.mean((y[100:] - regression.predict(X[100:])) ** 2)))
    labels = regression.model_.target.encode(y[:100])[:, 0]  # to the last bit, since trees split between equal values
    numbers = X[:100].assign(city=X["city"][:100].map({city: i for i, city in enumerate(sorted(CITIES))})).to_numpy()
    order = np.lexsort(np.nan_to_num(numbers.astype(float), nan=np.inf).T[::-1])
    np.testing.assert_array_equal(numbers[order], regression.X_fit_)
    forest = RandomForestRegressor(200, oob_score=True, random_state=0)
    ends = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
    scaled = (numbers - (ends[1] + ends[0]) / 2) / ((ends[1] - ends[0]) / 2)
    forest.fit(scaled[order], labels[order], sample_weight=np.ones(100))
    expected = np.mean((labels[order] - forest.oob_prediction_) ** 2)
    assert told["random forest", "out of bag"]["risk"] == pytest.approx(expected)
    assert ("random forest", "new rows") in told
    assert ("plain Gaussian SVM", "new rows") in told


def test_classes_are_told_by_the_share_that_is_wrong(binary):
    lead = re.search(r'class="lead">(.*?)</p>', report(binary))[1]
    (event,) = of_kind(binary.history_, GridChosen)
    assert lead.startswith(
        f"By 5-fold cross-validation this model has {event.wrong:.1%} of the classes wrong, a mean squared error of "
        f"{event.risk:.4g} for labels ±1"
    )
    assert event.rows == 90
    X, y = load_breast_cancer(return_X_y=True)
    model = HGKClassifier(random_state=0).fit(X[:80, :4], y[:80])
    _, chosen = honest_error(model.history_)
    lead = re.search(r'class="lead">(.*?)</p>', report(model))[1]
    assert lead.startswith(f"On rows set aside this model has {chosen.wrong:.1%} of the classes wrong, a mean")
    Y, t = torch.tensor([[1.0, -1, -1], [-1, 1, -1]]), torch.tensor([[0.1, 0.2, -1], [-0.5, -0.2, -0.9]])
    assert wrong_classes(t, Rows(t, Y, torch.tensor([3.0, 1.0]))) == {"wrong": 0.75}
    assert wrong_classes(t[:, :1], Rows(t, Y[:, :1], torch.tensor([3.0, 1.0]))) == {"wrong": 0.0}
    assert wrong_classes(t, Rows(t, Y / 2, torch.ones(2))) == {}


def test_r2_of_rows_set_aside_is_relative_to_the_variance_of_all_training_rows():
    X, y = make_friedman1(120, n_features=5, noise=0.5, random_state=0)
    model = HGKRegressor(loss="pinball", random_state=0).fit(X, y)
    error, (rows, _) = verdict(model), model.model_.unseen()
    assert error["basis"] == "rows set aside"
    assert len(rows) < len(y)
    assert error["r2"] == pytest.approx(1 - error["rmse"] ** 2 / np.var(y))


def test_the_captions_name_the_marks_that_are_drawn(regression, deep):
    for model in (regression, deep):
        text = report(model)
        watched = any(run["watched"] for run in embedded(text)["learning"]["runs"])
        assert ("Diamonds: the error on rows that no gradient has seen" in text) == watched
        assert "Circles: where a run ended" in text


def test_training_rows_among_new_ones_are_left_out(regression):
    X, y = table()
    assert new_rows(regression, X, y).known == 100
    assert new_rows(regression, X[100:], y[100:]).known == 0
    text = report(regression, X[:100], y[:100])
    assert "100 were training rows and left out" in text
    assert "new rows" not in {score["basis"] for score in embedded(text)["errors"]}


def test_effects_are_means_of_predictions_with_the_column_replaced(regression, binary, data):
    X, _ = table()
    for shown in data["effects"]:
        name = COLUMNS[shown["column"]] if shown["column"] < 4 else "city"
        for p in {0, len(shown["mean"][0]) - 1}:
            value = shown["labels"][p] if shown["labels"] else shown["grid"][p]
            moved = X[:100].copy()
            moved[name] = np.nan if value in (None, "missing") else value
            assert shown["mean"][0][p] == pytest.approx(regression.predict(moved).mean(), rel=1e-4)
    assert {"missing"} < {*next(e for e in data["effects"] if e["labels"])["labels"]}
    assert [e["grid"][-1] is None for e in data["effects"] if e["name"] == "plain"] == [True]
    of_third = effect(binary, 2)
    moved = binary.X_fit_.copy()
    moved[:, 2] = of_third.grid[4]
    assert of_third.mean[0, 4] == pytest.approx(binary.predict_proba(moved)[:, 1].mean())


def test_curves_and_optimism_are_those_of_the_history(regression, data):
    steps = of_kind(regression.history_, Step)
    drawn = [value for run in data["learning"]["runs"] for value in run["criterion"]]
    np.testing.assert_allclose(sorted(drawn), sorted(e.criterion for e in steps), rtol=1e-5)
    for run in data["learning"]["runs"]:
        assert run["steps"] == list(range(1, len(run["steps"]) + 1))
    judged = of_kind(regression.history_, Judged)
    assert [kind["honest"] for kind in data["learning"]["kinds"]] == [e.honest for e in judged]
    plain, *learned = data["learning"]["kinds"]
    assert plain["criterion"] is None
    assert all(kind["optimism"] == kind["honest"] - kind["criterion"] for kind in learned)


def test_second_rounds_and_watched_rows_follow_each_other():
    model = HGKRegressor("plain").fit(*make_friedman1(20, random_state=0))
    where = {"candidate": "maps", "fold": 0}
    steps = [Step(step=n, criterion=v, lam=1.0, **where) for n, v in ((1, 0.5), (2, 0.4), (1, 0.3))]
    watched = [Watched(step=n, risk=v, **where) for n, v in ((2, 0.6), (1, 0.5))]
    rounds = (*steps[:2], watched[0], steps[2], watched[1])
    model.restore(replace(model.model_, history=rounds), None)
    (run,) = learning_curves(model).runs
    assert run == LearningRun("maps, fold 1", [1, 2, 3], [0.5, 0.4, 0.3], [2, 3], [0.6, 0.5])


def test_predictions_are_leave_one_out_ones_in_the_order_given(regression, data):
    _, y = table()
    rows, fit = data["predictions"]["rows"], data["predictions"]["outputs"][0]
    np.testing.assert_allclose(fit["predicted"], regression.loo_predictions_[rows], rtol=1e-5)
    np.testing.assert_allclose(fit["actual"], y[rows], rtol=1e-5)
    assert sum(fit["counts"]) == 100
    worst = [int(line[0]) for line in cells(report(regression), "Worst rows")]
    residuals = np.abs(y[:100] - regression.loo_predictions_)
    assert worst == np.argsort(-residuals)[:12].tolist()


def test_classes_are_counted_by_leave_one_out(binary, several):
    y = load_breast_cancer().target[:90]
    (curve,) = embedded(report(binary))["predictions"]["roc"]
    assert curve["auc"] == pytest.approx(roc_auc_score(y, binary.loo_predictions_))
    y, text = load_iris().target[::2], report(several)
    expected = confusion_matrix(y, several.loo_predictions_.argmax(1))
    assert [[int(v) for v in line[1:]] for line in cells(text, "Confusion")] == expected.tolist()
    for k, curve in enumerate(embedded(text)["predictions"]["roc"]):
        assert curve["auc"] == pytest.approx(roc_auc_score(y == k, _loo_probability(several)[:, k]))
    bins = embedded(text)["predictions"]["calibration"]
    assert np.dot(bins["observed"], bins["rows"]) == pytest.approx((several.loo_predictions_.argmax(1) == y).sum())


def _loo_probability(model):
    return model.model_.calibrated.probabilities(torch.from_numpy(model.loo_predictions_))


@pytest.mark.parametrize("which", ["regression", "single"])
def test_intervals_of_training_rows_are_those_of_a_machine_without_the_row(which, request):
    """f^(-i) trained from the definition (c = nλ kept, row i out of every part), then jackknife+ at x_i."""
    model = request.getfixturevalue(which)
    rows, machines = model.model_.training.rows, model.machine_.parts_of()
    everything = torch.arange(len(rows))
    low, high = loo_interval(model.model_.leave_two_out(everything)[0], rows, 0.8)
    for i in (0, 17):
        rest = everything[everything != i]
        machine = MeanOfMachines(tuple(_without(machine, rows, i) for machine in machines))
        values, elsewhere = machine.without_one(rows[rest], torch.arange(len(rest)))
        r = (rows.Y[rest] - values.clamp(-1, 1))[:, 0].abs()
        f = elsewhere(rows.X[i : i + 1]).clamp(-1, 1)[0, 0]
        weight = rows.weight[rest] * (rows.size / float(rows.weight.sum()))
        assert float(low[i]) == pytest.approx(-_quantile(-(f - r), weight, 0.8), abs=1e-6)
        assert float(high[i]) == pytest.approx(_quantile(f + r, weight, 0.8), abs=1e-6)


def _without(machine, rows, i):
    """The same function, c unchanged, from all rows but i; of parts, whose λ then differ, the mean."""
    rest = Rows(*(torch.cat([part[:i], part[i + 1 :]]) for part in (rows.X, rows.Y, rows.weight)))
    parts = []
    for old in machine.parts:
        part = old[old != i] - (old[old != i] > i).long()
        lam = machine.lam * float(rows.weight[old].sum() / rest.weight[part].sum())
        parts.append(train(machine.kernel, rest, lam, [(part, rest.weight[part])]))
    return MeanOfMachines(tuple(parts))


def _quantile(values, weight, level):
    order = np.argsort(values.numpy())
    reached = np.cumsum(weight.numpy()[order]) >= level * (weight.numpy().sum() + 1) - 1e-9
    return values.numpy()[order][reached][0] if reached.any() else np.inf


def test_coverage_is_as_asked_over_training_rows_and_counted_on_new_ones(regression, data):
    found = data["predictions"]["coverage"]
    assert (np.array(found["covered"]) > np.array(found["levels"]) - 0.02).all()  # by symmetry, up to ties, and more
    X, y = table()
    for level, share in zip(found["levels"], found["new"], strict=True):
        low, high = regression.predict_interval(X[100:], level).T
        assert share == pytest.approx(((low <= y[100:]) & (y[100:] <= high)).mean())
    at = found["levels"].index(found["asked"])
    assert sum(p["covered"] * p["rows"] for p in found["parts"]) == pytest.approx(100 * found["covered"][at])


def test_models_of_every_kind_have_a_report(binary, several, deep, tmp_path):
    for model in (binary, several, deep):
        path = write_report(model, tmp_path / "new" / "report.html", title=HOSTILE)
        assert path.stat().st_size < 3_000_000
    methods = {score["method"] for score in embedded(report(binary))["errors"]}
    assert methods == {"this model", "plain Gaussian SVM", "random forest"}
    algorithm1 = HGKRegressor("algorithm1", random_state=0).fit(*make_friedman1(60, random_state=0))
    runs = embedded(report(algorithm1))["learning"]["runs"]
    assert runs[0]["criterion"][0] == pytest.approx(algorithm1.history_[0].risk_D2, rel=1e-5)


def test_what_cannot_be_reported_gets_one_sentence(regression, several, tmp_path):
    X, y = table()
    with pytest.raises(NotFittedError):
        write_report(HGKRegressor(), tmp_path / "r.html")
    with pytest.raises(TypeError, match="A dict was given; a fitted HGKRegressor or HGKClassifier is expected"):
        write_report({}, tmp_path / "r.html")
    with pytest.raises(ValueError, match="Of X and y one was given"):
        write_report(regression, tmp_path / "r.html", X)
    with pytest.raises(ValueError, match="X has 130 rows and y has 3"):
        write_report(regression, tmp_path / "r.html", X, y[:3])
    with pytest.raises(ValueError, match="classes 7, which the model does not know"):
        write_report(several, tmp_path / "r.html", load_iris().data[:2], [7, 7])
    assert not list(tmp_path.iterdir())


# The page


def test_the_page_takes_nothing_from_the_data_as_markup_and_names_no_other_file(regression, tmp_path):
    text = write_report(regression, tmp_path / "report.html", title=HOSTILE).read_text()
    assert len(text.encode()) < 3_000_000
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert not re.search(r"<i>K|</script><b>", text)
    tags = Tags(text).found
    assert [a for t, a in tags if t == "script"] == [{"type": "application/json", "id": "data"}, {}]
    assert not [a for t, a in tags if "src" in a]
    assert {a["href"][0] for t, a in tags if t == "a"} == {"#"}
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    policy = next(a["content"] for t, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    raw = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert not set(raw) & set("<>&")
    assert json.loads(raw)["about"]["columns"] == [*COLUMNS, "city"]


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory):
    """Where screenshots are kept: the folder HGK_ARTEFACTS, if it is set."""
    folder = Path(os.environ.get("HGK_ARTEFACTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def shown(browser, tmp_path):
    """Open the report of a model; afterwards: no word on the console, no request but for the page."""
    addresses = []

    def show(model, *new):
        forget(browser)
        addresses.append(write_report(model, tmp_path / "report.html", *new).as_uri())
        browser.get(addresses[-1])
        return lambda script, *arguments: browser.execute_script(f"return {script}", *arguments)

    yield show
    assert_quiet(browser, addresses)


FIGURES = {"errors", "tree", "importance", "effect-0"}
OF = {
    "regression": FIGURES | {"runs", "optimism", "scatter", "residuals", "coverage", "parts"},
    "binary": FIGURES | {"runs", "calibration", "roc"},
    "several": FIGURES - {"tree"} | {"calibration", "roc"},  # plain: nothing to see in the kernel
    "deep": FIGURES | {"runs", "scatter", "residuals", "coverage", "parts"},
}


@pytest.mark.parametrize("which", OF)
def test_every_figure_is_seen_and_reached_by_keys(which, browser, shown, request):
    model = request.getfixturevalue(which)
    ask = shown(model, *([t[100:] for t in table()] if which == "regression" else []))
    found = ask("[...document.querySelectorAll('figure')].map(f => f.id)")
    assert OF[which] <= set(found)
    tip = "document.getElementById('tip').textContent"
    for name in found:
        svg = f"document.getElementById('{name}').querySelector('svg')"
        width, height = ask(f"(b => [b.width, b.height])({svg}.getBoundingClientRect())")
        assert min(width, height) > 50
        assert ask(f"{svg}.tabIndex") == 0
        ask(f"{svg}.focus({{preventScroll: true}})")
        keys(browser, "\ue014")  # arrow right
        assert ask(tip) != ""
        assert "NaN" not in ask(f"{svg}.outerHTML")
        keys(browser, "\ue00c")  # escape
        assert ask(tip) == ""
    outside = "[...document.querySelectorAll('figure svg text')].filter(t => t.getBoundingClientRect().left < 0).length"
    assert ask(outside) == 0


class Weights(Section):
    """A section from outside the package."""

    title, key = "Weights & <more>", "toy-weights"
    draws = (("toy", "drawToy"), ("absent", "drawToy"))
    script = """
function drawToy(toy) {
  const f = frame("toy", 120, "Weights of rows.", [0, toy.weights.length], wider(span([0, ...toy.weights])));
  toy.weights.forEach((w, i) => f.point("o", "ours", f.X(i), f.Y(w), `row ${i} of ${toy.name}`));
}
"""

    def compute(self):
        return {"weights": self.subject.training.rows.weight[:3].tolist(), "name": HOSTILE}

    def html(self):
        return figure("toy", "Weights", "Of the first rows.")


@pytest.fixture
def toy():
    register(Weights, after="Effects")
    yield
    unregister(Weights.title)


def test_a_section_from_outside_is_in_its_place_with_link_html_and_data(toy, several):
    assert [section.title for section in registered()][2:5] == ["Effects", Weights.title, "Interactions"]
    text = report(several)
    assert '<li><a href="#part-toy-weights">Weights &amp; &lt;more&gt;</a></li>' in text
    assert '<section id="part-toy-weights"><h2>Weights &amp; &lt;more&gt;</h2>\n<figure id="toy">' in text
    assert embedded(text)["toy-weights"] == {"weights": [1.0, 1.0, 1.0], "name": HOSTILE}


def test_the_script_of_a_section_from_outside_draws(toy, browser, shown, several):
    ask = shown(several)
    points = ask("[...document.querySelectorAll('#toy .point')].map(p => p.dataset.text)")
    assert points == [f"row {i} of {HOSTILE}" for i in range(3)]


def test_sections_that_do_not_fit_get_one_sentence(several):
    class Twin(Weights):
        title = "Interactions"

    class Reserved(Weights):
        key = "about"

    class Spoken(Weights):
        draws = (("toy", "alert(1)"),)

    for section in (Twin, Reserved):
        with pytest.raises(ValueError, match="the report has one of this title or key; choose others"):
            register(section)
    with pytest.raises(ValueError, match=r"'alert\(1\)'; the name of a JavaScript function is expected"):
        register(Spoken)
    with pytest.raises(ValueError, match="'Nothing' was named; the report has Error, Columns"):
        register(Weights, after="Nothing")
    assert Weights not in registered()


def test_tabs_go_through_links_selects_figures_and_tables(browser, shown, regression):
    ask = shown(regression)
    stops = []
    for _ in range(60):
        keys(browser, "\ue004")  # tab
        stops.append(ask("document.activeElement.tagName.toLowerCase()"))
    assert {"a", "select", "svg", "button"} <= set(stops)


def test_the_tree_says_its_weights_and_another_kernel_can_be_chosen(browser, shown, regression):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    ask = shown(regression)
    node = browser.find_element(By.CSS_SELECTOR, "#tree rect.node")
    scroll = "arguments[0].scrollIntoView({block: 'center'});"
    browser.execute_async_script(scroll + "requestAnimationFrame(() => requestAnimationFrame(arguments[1]));", node)
    ActionChains(browser).move_to_element(node).perform()
    WebDriverWait(browser, 60).until(
        lambda _: "of the exponent" in ask("document.getElementById('tip').textContent"), "the node says nothing"
    )
    edges = (
        "[...document.querySelectorAll('#tree path.edge')].map(e => [e.dataset.text, +e.getAttribute('stroke-width')])"
    )
    trees = embedded(report(regression))["trees"]
    for chosen in (0, 1):
        ask(
            "(s => { s.value = arguments[0]; s.dispatchEvent(new Event('change')); })"
            "(document.getElementById('choose-tree'))",
            str(chosen),
        )
        drawn = [(text, width) for text, width in ask(edges) if re.match(r".* → node \d+ \(", text)]
        weights = [float(re.search(r"\nweight (\S+),", text)[1]) for text, _ in drawn]
        expected = sorted((edge["weight"] for edge in trees[chosen]["edges"]), reverse=True)
        np.testing.assert_allclose(weights, expected, rtol=1e-3)
        widths = [width for _, width in drawn]
        np.testing.assert_allclose(widths, 0.6 + 8 * np.array(expected) / expected[0], atol=0.006)


def test_outputs_can_be_chosen(browser, shown, several):
    ask = shown(several)
    first = ask("document.querySelector('#effect-0 path.line').getAttribute('d')")
    ask("(s => { s.value = '2'; s.dispatchEvent(new Event('change')); })(document.getElementById('choose-output'))")
    assert ask("document.querySelector('#effect-0 path.line').getAttribute('d')") != first
    assert "P(2)" in ask("document.querySelector('#effect-0 svg').textContent")


def test_the_page_is_dark_where_asked_fits_narrow_windows_and_prints(browser, shown, regression, artefacts):
    ask = shown(regression)
    grounds = []
    try:
        for scheme, width in (("light", 1200), ("dark", 1200), ("dark", 360)):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            grounds.append(ask("getComputedStyle(document.body).backgroundColor"))
            assert ask("document.documentElement.scrollWidth") <= width
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
            (artefacts / f"report-{scheme}-{width}.png").write_bytes(b64decode(shot["data"]))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 28)", "rgb(20, 23, 28)"]
    printed = b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    (artefacts / "report.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


def test_hostile_names_are_shown_as_they_are(browser, shown, regression):
    ask = shown(regression)
    assert ask("document.querySelectorAll('script').length") == 2
    assert ask("document.querySelectorAll('main b, main i').length") == 0
    text = ask("document.body.innerText")
    for name in (*COLUMNS, *CITIES):
        assert name in text
