"""The displays: what they draw against the model's numbers, and how they behave without matplotlib."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

from hgk import HGKClassifier, HGKRegressor, two_layers
from hgk.events import Judged, of_kind
from hgk.insight import kernel_trees, learning_curves, relevance
from hgk.insight.fitted import column_names
from hgk.report import palette
from hgk.report.displays import EffectDisplay, ImportanceDisplay, KernelTreeDisplay, LearningDisplay, RelevanceDisplay

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(scope="module", autouse=True)
def offscreen():
    backend = plt.get_backend()
    plt.switch_backend("agg")
    yield
    plt.switch_backend(backend)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    X, y = make_friedman1(110, n_features=5, random_state=0)
    frame = pd.DataFrame(X[:, :4], columns=["a", "$b_{", "c", "größe"])
    frame["city"] = np.where(X[:, 4] > 0.5, "Ulm", "Köln")
    frame.loc[::9, "c"] = np.nan
    return HGKRegressor(random_state=0).fit(frame, y)


def test_the_tree_has_a_line_per_weight_as_wide_as_it_is_large(model):
    display = KernelTreeDisplay.from_estimator(model, machine=1)
    tree, ax = kernel_trees(model)[1], display.ax_
    curves = [line for line in ax.lines if len(line.get_xdata()) > 1]
    weights = [edge.weight for edge in tree.edges], [node.weight for node in tree.layers[0]]
    expected = [0.4 + 6 * w / max(part) for part in weights for w in part]
    np.testing.assert_allclose([line.get_linewidth() for line in curves], expected)
    texts = [text.get_text() for text in ax.texts]
    assert len(texts) == 5 + len(tree.layers[0]) + 1
    assert {"a", r"\$b_{", "größe", "city", "kernel"} <= set(texts)
    display.figure_.canvas.draw()  # names are not formulas
    assert len(KernelTreeDisplay(tree, column_names(model), most=2).plot().ax_.texts) == 2 + 1 + len(tree.layers[0])


def test_kinds_of_nodes_have_colours_of_their_own_and_unknown_ones_too():
    colours = palette.node_colours(["smooth", "mine", "oblique", "smooth", "yours"])
    assert list(colours) == ["smooth", "mine", "oblique", "yours"]
    assert len(set(colours.values())) == 4


def test_bars_are_importances_and_their_errors_twice_the_standard_error(model):
    ax, found = ImportanceDisplay.from_estimator(model).ax_, model.importance_
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.shown[found.order])
    segments = ax.collections[0].get_segments()
    expected = np.where(found.carries, 4 * found.error, 0)[found.order]
    np.testing.assert_allclose([s[1, 0] - s[0, 0] for s in segments], expected, atol=1e-12)
    assert len([text for text in ax.texts if "none" in text.get_text()]) == int((~found.carries).sum())
    groups = ImportanceDisplay.from_estimator(model, groups={"both": ["a", 1], "rest": ["city"]}).ax_
    assert {label.get_text() for label in groups.get_yticklabels()} == {"both", "rest"}


def test_bars_are_relevances_and_their_errors_the_spread(model):
    ax = RelevanceDisplay.from_estimator(model).ax_
    order = np.argsort(-model.exponent_shares_)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], model.exponent_shares_[order])
    deviation = relevance(model).deviation
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose([s[1, 0] - s[0, 0] for s in segments], 2 * deviation[order])
    assert len(RelevanceDisplay.from_estimator(model, most=2).ax_.patches) == 2


def test_curves_are_those_of_the_history(model):
    display = LearningDisplay.from_estimator(model)
    curves, optimism = display.ax_
    runs = learning_curves(model).runs
    drawn = [line.get_ydata() for line in curves.lines if len(line.get_ydata()) > 1]
    assert len(drawn) == len(runs)
    for line, run in zip(drawn, runs, strict=True):
        np.testing.assert_allclose(line, run.criterion)
    honest = [e.honest for e in of_kind(model.history_, Judged)]
    np.testing.assert_allclose([line.get_xdata()[0] for line in optimism.lines[2::3]], honest)
    plain = HGKRegressor("plain").fit(*make_friedman1(30, random_state=0))
    assert LearningDisplay.from_estimator(plain).ax_[0].texts[0].get_text() == "No weights were learned."


def test_effects_are_drawn_for_columns_by_name_and_number_in_given_axes(model):
    X = pd.DataFrame(np.random.default_rng(0).random((20, 4)), columns=["a", "$b_{", "c", "größe"])
    X["city"] = "Ulm"
    _, axes = plt.subplots(1, 2)
    display = EffectDisplay.from_estimator(model, X, ["city", 0], ax=axes)
    assert list(display.ax_) == list(axes)
    assert display.figure_ is axes[0].figure
    labels, bars = [t.get_text() for t in axes[0].get_yticklabels()], [bar.get_width() for bar in axes[0].patches]
    assert bars == sorted(bars)
    for value, mean in zip(labels, bars, strict=True):
        assert mean == pytest.approx(model.predict(X.assign(city=value)).mean())
    moved = X.assign(a=axes[1].lines[-1].get_xdata()[3])
    assert axes[1].lines[-1].get_ydata()[3] == pytest.approx(model.predict(moved).mean())
    assert len(EffectDisplay.from_estimator(model).ax_) == 5
    display.figure_.canvas.draw()


def test_every_output_can_be_drawn():
    X, y = make_friedman1(40, random_state=0)
    model = HGKClassifier("plain").fit(X, np.digitize(y, [12, 16]))
    display = EffectDisplay.from_estimator(model, columns=[0], output=2)
    assert display.ax_[0].get_ylabel() == "P(2)"
    with pytest.raises(ValueError, match="output=3 was given; the model has 3"):
        display.plot(output=3)


def test_deep_kernels_are_drawn_layer_by_layer():
    X, y = make_friedman1(30, n_features=5, random_state=0)
    tree = two_layers(5, 3, 5)
    model = HGKRegressor(architecture=tree, lam=1e-3, random_state=0).fit(X, y)
    assert len(KernelTreeDisplay.from_estimator(model).ax_.texts) == 5 + 3 + 1


def test_what_cannot_be_drawn_gets_one_sentence(model):
    with pytest.raises(TypeError, match="a fitted HGKRegressor or HGKClassifier is expected"):
        RelevanceDisplay.from_estimator("model")
    with pytest.raises(ValueError, match="machine=99 was given; the model averages"):
        KernelTreeDisplay.from_estimator(model, machine=99)
    with pytest.raises(ValueError, match="The column 'z' was given; a name or a number from 0 to 4"):
        EffectDisplay.from_estimator(model, columns=["z"])
    _, axes = plt.subplots(1, 3)
    with pytest.raises(ValueError, match="3 axes were given for 2 panels"):
        LearningDisplay.from_estimator(model, ax=axes)


def test_matplotlib_is_imported_late_and_missed_in_one_sentence():
    script = """
import sys
import hgk.report.displays
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None
from hgk import HGKRegressor
model = HGKRegressor("plain").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
try:
    hgk.report.displays.RelevanceDisplay.from_estimator(model)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "Displays are drawn by matplotlib, which is not installed; pip install matplotlib.\n"
