"""The library extended from outside: a toy of every part, with which a model is fitted, predicts, is saved, loaded,
explained and reported. No file of the package is touched, and nothing in it is replaced.

Whoever adds a part to the package adds as much as the toy here: one class, and one line that registers it.
"""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import hgk
from hgk import Adam, HGKRegressor, inputs, learners, losses, report, solvers, storage
from hgk.criteria import Criterion, LeaveOneOut
from hgk.inputs import columns
from hgk.insight import contributions
from hgk.kernels import ColumnKind, HierarchicalKernel, isotropic, two_layers, with_kinds
from hgk.learners import Default, Kind, Learned, Learner, Settings
from hgk.losses import Loss
from hgk.machines import Sum
from hgk.solvers import Solution, Solver
from hgk.storable import storable
from hgk.targets import Numbers, Target

pytest.importorskip("safetensors", reason="needs safetensors")
SEED = 0


@pytest.fixture(autouse=True)
def _as_before():
    """What a test registers is taken out again, since other tests run in the same process."""
    kept = [
        (solvers.base._SOLVERS, list(solvers.base._SOLVERS)),
        (columns.COLUMN_KINDS, list(columns.COLUMN_KINDS)),
    ]
    mappings = [(m, dict(m)) for m in (losses._NAMED, learners.PRESETS, storage.files.ESTIMATORS)]
    yield
    for registry, before in kept:
        registry[:] = before
    for registry, before in mappings:
        registry.clear()
        registry.update(before)


def table(n=90):
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-2, 2, (n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.standard_normal(n)


def in_full(model, X, y, tmp_path):
    """Fit, predict, save, load, explain, report; the fitted model, and the page."""
    model.fit(X, y)
    assert model.score(X, y) > 0.5
    path = tmp_path / "model.hgk"
    hgk.save(model, path)
    loaded = hgk.load(path)
    np.testing.assert_array_equal(loaded.predict(X[:9]), model.predict(X[:9]))
    explained = contributions(loaded, X[:5], k=None)
    total = explained.base + explained.contribution.sum(-1) + explained.rest
    np.testing.assert_allclose(total, explained.value, atol=1e-9)
    page = report.write_report(loaded, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Settings" in page
    return loaded, page


# ------------------------------------------------------------------------------------------------- a kind of node


@storable
@dataclass(frozen=True)
class ToyWave(ColumnKind):
    """S_i = Σ_j v_ij² (1 - cos(x_j - x'_j)): far apart may be near again."""

    def delta(self, D):
        return 1 - torch.cos(D)

    def largest(self, reach):
        return 2 * torch.ones_like(reach)


def test_a_kind_of_node(tmp_path):
    X, y = table()
    tree = with_kinds(two_layers(3, 3), kinds={1: ToyWave()})
    model, page = in_full(HGKRegressor(architecture=tree, optimiser=Adam(5, 40), random_state=SEED), X, y, tmp_path)
    assert model.kernel_.architecture.kinds[1] == ToyWave()
    assert "toywave" in page


# ------------------------------------------------------------------------------------------- a loss, and a solver


@storable
@dataclass(frozen=True)
class ToyLogCosh(Loss):
    """log cosh (t - y), which no solver of the package takes: it says neither tube nor curvature."""

    name, tasks = "toy_log_cosh", ("numbers",)
    steepest = 1.0

    def value(self, y, t):
        return (t - y).abs() + torch.nn.functional.softplus(-2 * (t - y).abs()) - np.log(2)

    def derivative(self, y, t):
        return torch.tanh(t - y)

    def domain(self, y):
        return -torch.ones_like(y), torch.ones_like(y)

    def conjugate(self, y, u):
        return u * y + (torch.xlogy(1 + u, 1 + u) + torch.xlogy(1 - u, 1 - u)) / 2


class ToyDescent(Solver):
    """Gradient descent in the function space, up to a duality gap."""

    needs = ("steepest",)
    certified = True

    def prepare(self, K, sample_weight=None):
        return K, torch.ones(len(K)).to(K) if sample_weight is None else sample_weight

    def solve(self, state, Y, lam, loss=None, start=None):
        K, s = state
        share = (s / s.sum())[:, None]
        alpha, C = torch.zeros_like(Y), share / (2 * lam)
        step = 1 / (2 * lam + loss.steepest * float(torch.linalg.matrix_norm(share.sqrt() * K * share.sqrt().T, 2)))
        for _ in range(5000):
            alpha = alpha - step * (2 * lam * alpha + share * loss.derivative(Y, K @ alpha))
            candidate = -C * loss.derivative(Y, K @ alpha)
            gap = float((share * loss.young(Y, K @ candidate, -candidate / C)).sum(0).max())
            if gap < 1e-6:
                break
        return Solution(candidate, stats={"gap": gap})


def test_a_loss_and_its_solver(tmp_path):
    X, y = table()
    losses.register(ToyLogCosh)
    model = HGKRegressor("plain", loss="toy_log_cosh", lam=3e-3, random_state=SEED)
    with pytest.raises(TypeError, match="No solver takes the loss ToyLogCosh"):
        model.fit(X, y)
    solvers.register(ToyDescent())
    loaded, _ = in_full(model, X, y, tmp_path)
    assert isinstance(loaded.machine_.loss, ToyLogCosh)


# ------------------------------------------------------------------------------------------------------ a criterion


@storable
@dataclass(frozen=True)
class ToyWide(Criterion):
    """Leave-one-out, and some of the mean (1 - K)², which wants wide kernels."""

    strength: float = 0.1

    def __call__(self, K, Y, lam, s, count=None):
        J = LeaveOneOut()(K, Y, lam, s, count)
        more = self.strength * ((1 - K.double()) ** 2).mean()
        return replace(J, value=J.value + more, dK=J.dK - 2 * self.strength * (1 - K.double()) / K.numel())


def test_a_criterion(tmp_path):
    X, y = table()
    trees = {strength: Adam(30, 60, criterion=ToyWide(strength)) for strength in (0.0, 3.0)}
    fitted = {s: HGKRegressor(optimiser=adam, random_state=SEED).fit(X, y) for s, adam in trees.items()}
    sizes = {s: float(model.kernel_.terms[0][1].W[0].square().sum()) for s, model in fitted.items()}
    assert sizes[3.0] < sizes[0.0]  # it was minimised
    loaded, _ = in_full(HGKRegressor(optimiser=trees[3.0], random_state=SEED), X, y, tmp_path)
    assert loaded.optimiser.criterion == ToyWide(3.0)


# ------------------------------------------------------------------------------------------------ a kind of column


@storable
@dataclass(frozen=True)
class ToyDays(inputs.Column):
    """Dates, by the day of the year on a circle."""

    @classmethod
    def takes(cls, cells):
        return cells.values.dtype.kind == "M"

    def read(self, cells):
        return (cells - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")

    @property
    def features(self):
        return (f"{self.name} (sine)", "scaled"), (f"{self.name} (cosine)", "scaled")

    def __call__(self, x):
        angle = 2 * np.pi * x / 365.25
        return np.column_stack([np.sin(angle), np.cos(angle)])

    def shown(self, x):
        return str(np.datetime64("2000-01-01") + np.timedelta64(int(x), "D"))


def test_a_kind_of_column(tmp_path):
    pd = pytest.importorskip("pandas", reason="needs pandas")
    days = np.random.default_rng(SEED).integers(0, 3000, 120)
    frame = pd.DataFrame({"day": pd.Timestamp("2001-01-01") + pd.to_timedelta(days, "D"), "noise": days % 7})
    y = np.sin(2 * np.pi * days / 365.25)
    inputs.register(ToyDays, before=inputs.Date)  # which would take them
    model, page = in_full(HGKRegressor("plain", random_state=SEED), frame, y, tmp_path)
    assert model.score(frame, y) > 0.95
    assert "2001-" in page


# --------------------------------------------------------------------------------------------- a way to treat labels


@storable
@dataclass(frozen=True, eq=False)
class ToyLogarithms(Target):
    """Labels > 0 by their logarithms, so that errors count in per cent."""

    numbers: Numbers

    single = True

    @property
    def columns(self):
        return ["log prediction"]

    @property
    def predictions(self):
        return ["prediction"]

    def encode(self, y):
        return self.numbers.encode(np.log(y))

    def in_unit(self, t):
        return np.exp(self.numbers.in_unit(t))

    def unit(self):
        return self.numbers.unit()

    def measures(self, t, rows):
        return self.numbers.measures(t, rows)


@storage.register
class ToyLogRegressor(HGKRegressor):
    def make_target(self, y, weight, loss):
        return ToyLogarithms(Numbers.of(np.log(y), weight))


def test_a_way_to_treat_labels(tmp_path):
    X, y = table()
    storage.register(ToyLogRegressor)
    skewed = np.exp(3 * y)
    model, _ = in_full(ToyLogRegressor("plain", random_state=SEED), X, skewed, tmp_path)
    usual = HGKRegressor("plain", random_state=SEED).fit(X, skewed)
    errors = [np.abs(np.log(np.maximum(m.loo_predictions_, 1e-9) / skewed)).mean() for m in (model, usual)]
    assert errors[0] < 0.5 * errors[1]
    assert (model.predict_interval(X)[:, 0] > 0).all()


# --------------------------------------------------------------------------------- a machine, a learner, a default kind


@storable
@dataclass(frozen=True, eq=False)
class ToyParzen(Sum):
    """f = c Σ_i y_i k(x_i, ·): α is in proportion to the labels, and what a row adds can be taken away."""

    scale: float = 1.0

    def without_one(self, rows, index):
        a = (self.scale * rows.Y[index]).T  # k(x_i, x_i) = 1

        def elsewhere(X):
            return self(X).T[:, :, None] - a[:, None, :] * self.kernel.matrix(X, rows.X[index])

        return self(rows.X[index]) - a.T, elsewhere

    def leave_two_out(self, rows, index):
        K, a = self.kernel.matrix(rows.X[index]), (self.scale * rows.Y[index]).T
        t = self(rows.X[index]).T[:, :, None] - a[:, :, None] - a[:, None, :] * K
        return t + torch.diag_embed(a)  # where i = j one row leaves, not two


@dataclass(frozen=True)
class ToyNear(Learner):
    """The plain kernel of a fixed width, and c by least squares."""

    def learn(self, task, rng, progress, executor):
        rows, d = task.whole, task.rows.X.shape[1]
        kernel = HierarchicalKernel(isotropic(d), (torch.ones(1, d, dtype=torch.float64),), 0.5)
        f = kernel.multiply(rows.X, rows.X, rows.Y)
        c = float((f * rows.Y).sum() / (f * f).sum())
        return Learned(ToyParzen(kernel, 1e-3, rows.X, c * rows.Y, scale=c), task.target)

    def check_size(self, task, workers):
        pass


def test_a_machine_and_a_learner(tmp_path):
    X, y = table()
    learners.register("toy", ToyNear())
    model, _ = in_full(HGKRegressor("toy"), X, y, tmp_path)
    assert isinstance(model.machine_, ToyParzen)
    # its leave-one-out values are those of the sum without the row, by brute force
    rows, kernel = model.model_.training.rows, model.machine_.kernel
    K = kernel.matrix(rows.X).fill_diagonal_(0.0)
    torch.testing.assert_close(model.model_.leave_one_out(), (K @ model.machine_.alpha).clamp(-1, 1))
    assert np.isfinite(model.predict_interval(X[:3], 0.5)).all()


def toy_pairs(features):
    """Nodes of two features each."""
    return two_layers(len(features), 3, 2)


def test_a_default_kind_of_tree(tmp_path):
    X, y = table()
    kinds = (Kind("toy pairs", toy_pairs),)
    learners.register("toy kinds", Default(Settings(kinds=kinds)))
    model, page = in_full(HGKRegressor("toy kinds", random_state=SEED), X, y, tmp_path)
    told = [event.candidate for event in model.history_ if event.candidate]
    assert "toy pairs" in told
    assert "toy pairs" in page


# ----------------------------------------------------------------------------------------------- a figure, a method


class ToyWeights(report.Section):
    """How much the rows weigh."""

    title, key = "Toy weights", "toy_weights"
    draws = (("toy-figure", "drawToyWeights"),)
    script = "function drawToyWeights(figure, data) { figure.dataset.drawn = data.length; }"

    def compute(self):
        return self.subject.training.rows.weight.tolist()

    def html(self):
        return f'<figure id="toy-figure"></figure><p>{sum(self.data):g} in all.</p>'


def test_a_figure_of_the_report(tmp_path):
    X, y = table()
    report.register(ToyWeights, after="Effects")
    try:
        _, page = in_full(HGKRegressor("plain", random_state=SEED), X, y, tmp_path)
    finally:
        report.unregister("Toy weights")
    assert "<h2>Toy weights</h2>" in page
    assert f"{len(y)} in all." in page
    assert "drawToyWeights" in page


METHOD = """
from sklearn.linear_model import LinearRegression
from hgk.bench.methods import Fitted, Method

class ToyLinear(Method):
    name = "Toy linear"

    def fit(self, X, y, seed, effort):
        model = LinearRegression().fit(X, y)
        return Fitted(model.predict, {})
"""


def test_a_method_of_the_bench(tmp_path):
    pytest.importorskip("pandas", reason="needs the extra bench")
    (tmp_path / "toy_linear.py").write_text(textwrap.dedent(METHOD))
    code = (
        "import numpy as np; from hgk.bench.methods import METHODS; X = np.arange(12.0)[:, None]; "
        "fitted = METHODS['Toy linear'].fit(X, 2 * X[:, 0], 0, None); print(float(fitted.predict(X)[3]))"
    )
    environment = {**os.environ, "HGK_BENCH_METHODS": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert float(said.stdout) == pytest.approx(6.0)
