"""The accelerator: fused kernels against their plain twins, and the same numbers as on the processor.

python -m pytest tests/test_gpu.py                          # where there is a CUDA device
TRITON_INTERPRET=1 python -m pytest tests/test_gpu.py       # the kernels alone, anywhere that Triton is installed
"""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_friedman1
from sklearn.metrics import log_loss

import hgk
from cases import ARCHITECTURES, random_kernel, random_rows
from hgk import Algorithm1, HGKClassifier, HGKQuantileRegressor, HGKRegressor, arrays, inhomogeneous, two_layers
from hgk.criteria import LeaveOneOut, LogisticLeaveOneOut
from hgk.executor import SideBySide, Threads
from hgk.kernels import HierarchicalKernel, Sweep, compiled, compose, with_kinds
from hgk.kernels.sweeps.compiled.chains import Slopes
from hgk.kernels.sweeps.stacked import COMPILED
from hgk.learners import Default
from hgk.learners.default.average import Trial
from hgk.learners.default.effort import LearningEffort
from hgk.learners.default.kinds import all_kinds, mixed
from hgk.learners.default.learner import Fit
from hgk.learners.default.leaves import Handed, HandingTree, LeafPlan, TrainingOfLeaf, assembled, metric, one_by_one
from hgk.machines import InLeaves, Rows, partition, train
from hgk.optimisers import Adam
from hgk.optimisers.annealing import LONGEST_EDGE, Annealing, anneal
from hgk.optimisers.armijo import Descending, descend
from hgk.optimisers.objective import Objective, Risk, loads
from hgk.optimisers.recorded import RecordedRun, run_together
from hgk.optimisers.runs import AdamRun
from hgk.optimisers.steps import Steps
from hgk.progress import Progress
from hgk.search import fold_numbers, lam_grid, search
from hgk.targets import FewValues
from tasks import ClippedAt, default_settings, features, task_of

HERE = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and compiled.installed()
DEVICE = torch.device("cuda" if HERE else "cpu")
gpu = pytest.mark.skipif(not HERE, reason="no CUDA device here")
kernels = pytest.mark.skipif(not (HERE or INTERPRETED), reason="no CUDA device here, and Triton is not interpreted")
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-13}

# the compiled kernels take maps of one rank
FLAT = {name: tree for name, tree in ARCHITECTURES.items() if tree.depth <= 2 and name != "two ranks"}
SHAPES = {
    "one column": (inhomogeneous(1), 33, 1),
    "one row": (FLAT["all kinds"], 1, 5),
    "100 columns, all kinds": (with_kinds(two_layers(100, 4, 100), rough=[1], oblique=[0], rank=3), 40, 70),
    "17 nodes": (two_layers(9, 17, 3), 70, 31),
    "groups of 4": (with_kinds(two_layers(6, 8, 6), rough=[1, 3, 4, 7]), 70, 31),
    "groups of 8, some columns": (with_kinds(two_layers(7, 21, 6), rough=list(range(10))), 40, 45),
    "groups with two exponents": (with_kinds(two_layers(5, 12, 5), rough=[0, 2, 3, 4], q=0.7), 33, 40),
    "groups and maps": (all_kinds(features(*["scaled", "rank"] * 3)), 45, 20),
} | {name: (tree, 45, 67) for name, tree in FLAT.items()}


def twins(name, dtype):
    """The fused sweep and the plain one in double precision, of two row sets and of one."""
    tree, n, m = SHAPES[name]
    kernel, rng = random_kernel(tree), np.random.default_rng(1)
    wide, many = (5 / max(5, tree.d)) ** 0.7, (3 / max(3, len(tree.coordinates))) ** 0.5
    kernel = kernel.with_weights([w * (many if w.ndim == 1 else wide) for w in kernel.W])  # exponents of the order of 1
    X, Z = (torch.from_numpy(rng.uniform(-1, 1, (size, tree.d)) + 3).to(DEVICE, dtype) for size in (n, m))
    pair = kernel._sweep(X, Z), Sweep(kernel, X.double(), Z.double())
    return kernel, pair, (kernel._sweep(X, None), Sweep(kernel, X.double()))


def assert_close(ours, theirs, dtype, factor=1):
    error = (ours.double() - theirs.double()).abs().max() / theirs.double().abs().max().clamp_min(1e-300)
    assert float(error) <= factor * TOLERANCE[dtype], float(error)


@kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_fused_kernels_are_their_plain_twins(name, dtype):
    _, (ours, plain), (square, plain_square) = twins(name, dtype)
    assert type(ours).__name__ == type(square).__name__ == "FusedSweep"
    assert_close(ours.matrix(), plain.matrix(), dtype)
    assert_close(ours.exponent(), plain.exponent(), dtype)
    K = square.matrix()
    assert_close(K, plain_square.matrix(), dtype)
    assert bool((K == K.T).all())
    assert bool((K.diagonal() == 1).all())


@kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("columns", [1, 3, 16, 70])
@pytest.mark.parametrize("name", ["all kinds", "inhomogeneous", "100 columns, all kinds"])
def test_products_without_the_matrix(name, columns, dtype):
    _, (ours, plain), _ = twins(name, dtype)
    alpha = torch.from_numpy(np.random.default_rng(0).standard_normal((ours.shape[1], columns))).to(DEVICE, dtype)
    assert_close(ours.multiply(alpha), plain.multiply(alpha.double()), dtype)


@kernels
@pytest.mark.parametrize("name", ["groups and maps", "groups of 8, some columns"])
def test_long_places_are_the_same_places(name, monkeypatch):
    _, (ours, _), (square, _) = twins(name, torch.float32)
    alpha, G = torch.ones(ours.shape[1], 3, device=DEVICE), torch.ones(square.shape, device=DEVICE)
    expected = ours.matrix(), ours.multiply(alpha), *square.backward(G)
    monkeypatch.setattr(sys.modules["hgk.kernels.sweeps.compiled.sweep"], "LONG", 1)
    assert ours._index(ours.layout.first).dtype == torch.int64
    for found, wanted in zip((ours.matrix(), ours.multiply(alpha), *square.backward(G)), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)


@kernels
def test_no_rows_have_no_predictions():
    tree, _, m = SHAPES["100 columns, all kinds"]
    kernel, rng = random_kernel(tree), np.random.default_rng(0)
    X, Z = (torch.from_numpy(rng.standard_normal((rows, tree.d))).to(DEVICE) for rows in (0, m))
    ours = compiled.sweep(tree, kernel.W, 1.0, X, Z)
    assert ours.matrix().shape == (0, m)
    assert ours.multiply(torch.ones(m, 2, device=DEVICE, dtype=X.dtype)).shape == (0, 2)


@kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_backward_sweeps_are_their_plain_twins(name, dtype):
    kernel, (ours, plain), (square, plain_square) = twins(name, dtype)
    G = torch.from_numpy(np.random.default_rng(0).standard_normal((ours.shape[0],) * 2)).to(DEVICE, dtype)
    # single precision: a diagonal as dominant as that of leave-one-out gradients, which adds nothing (in double
    # precision it is the twin that would be the less exact one)
    G = G + G.T + (1e4 if dtype == torch.float32 else 0.0) * torch.eye(len(G), dtype=dtype, device=DEVICE)
    for mine, theirs in zip(square.backward(G), plain_square.backward(G.double()), strict=True):
        assert_close(mine.cpu(), theirs, dtype, factor=20)  # sums of both signs
    if compiled.mapped(kernel.architecture) is None:
        G = torch.from_numpy(np.random.default_rng(0).standard_normal(ours.shape)).to(DEVICE, dtype)
        for mine, theirs in zip(ours.backward(G), plain.backward(G.double()), strict=True):
            assert_close(mine.cpu(), theirs, dtype, factor=20)  # sums of both signs


def objectives(dtype=torch.float64):
    """Of different trees, numbers of rows and places of clipping; some predictions are clipped."""
    found = []
    trees = [inhomogeneous(5), two_layers(5, 3, 2, rng=1), two_layers(5, 6, 3, rng=2)]
    for seed, (tree, n) in enumerate(zip(trees, [61, 90, 75], strict=True)):
        rows = random_rows(n, weighted=True, seed=seed).to(DEVICE)
        rows = Rows(rows.X.to(dtype), rows.Y.to(dtype), rows.weight.to(dtype))
        kernel = HierarchicalKernel(tree, tree.start(rows.spread, np.random.default_rng(seed)), 0.9)
        held_out = 17 + 9 * seed  # one or two strips more for every chain
        machine = train(kernel, rows[:-held_out], 1e-3 if dtype == torch.float64 else 1e-1)
        clip = float(machine(rows[-held_out:].X).abs().quantile(0.7))
        found.append(Objective(kernel, machine.X, machine.alpha.to(dtype), rows[-held_out:], ClippedAt(clip)))
    return found


def shaken(W):
    """Other weights nearby, of both signs."""
    rng = np.random.default_rng(0)
    return tuple(w * torch.from_numpy(rng.uniform(0.7, 1.3, w.shape) * rng.choice([-1, 1], w.shape)) for w in W)


def plain_twin(o):
    """The same on the processor, by the plain formulas in double precision."""
    D2 = Rows(*(part.double().cpu() for part in (o.D2.X, o.D2.Y, o.D2.weight)))
    return PlainObjective(o.kernel, o.X1.double().cpu(), o.alpha.double().cpu(), D2, o.problem)


class PlainObjective(Objective):
    """R and its gradient by the plain sweep, also where Triton is interpreted."""

    def risk(self, W, rows=None):
        rows = self.D2 if rows is None else rows
        return self.risk_of(Sweep(self.kernel.with_weights(W), rows.X, self.X1).multiply(self.alpha), rows)

    def gradient(self, W):
        sweep = Sweep(self.kernel.with_weights(W), self.D2.X, self.X1)
        t = sweep.multiply(self.alpha)
        g = 2 * (t - self.D2.Y) * (t.abs() < self.problem.clip) * (self.D2.weight / self.D2.weight.sum())[:, None]
        return self.risk_of(t), sweep.backward(g @ self.alpha.T)


@kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_chains_have_the_risks_and_gradients_of_each_alone(dtype):
    found = objectives(dtype)
    assert all(o.fits for o in found)
    slopes, Ws = Slopes([o.chain(o.kernel.W) for o in found]), [shaken(o.kernel.W) for o in found]
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-11}[dtype]
    first = slopes.at({0: Ws[0], 2: found[2].kernel.W}, {1: Ws[1]})
    second = slopes.at({}, {0: Ws[0], 2: Ws[2]})  # at the weights of the last risk, and at others
    assert (set(first[0]), set(first[1]), set(second[0]), set(second[1])) == ({0, 2}, {1}, set(), {0, 2})
    assert first[0][0] == second[1][0][0]
    assert first[0][2] == pytest.approx(plain_twin(found[2]).risk(found[2].kernel.W), rel=tolerance)
    for c, (risk, gradient) in {**first[1], **second[1]}.items():
        twin = plain_twin(found[c])
        t = twin.kernel.with_weights(Ws[c]).multiply(twin.D2.X, twin.X1, twin.alpha)
        assert 0 < int((t.abs() < twin.problem.clip).sum()) < len(t)
        expected, theirs = twin.gradient(Ws[c])
        assert risk == pytest.approx(expected, rel=tolerance)
        assert len(gradient) == len(theirs)
        for g, h in zip(gradient, theirs, strict=True):
            assert (g.shape, g.dtype) == (h.shape, torch.float64)
            torch.testing.assert_close(g, h, rtol=tolerance, atol=tolerance * float(h.abs().max()))


@kernels
def test_chains_that_are_not_asked_stay_as_they_are():
    found = objectives()
    slopes, Ws = Slopes([o.chain(o.kernel.W) for o in found]), [shaken(o.kernel.W) for o in found]
    _, before = slopes.at({}, {c: o.kernel.W for c, o in enumerate(found)})
    parts = [slopes.P, slopes.slope, slopes.partial, slopes.sums]
    for part in parts:
        part.fill_(7.0)
    slopes.at({}, {1: Ws[1]})
    for part in parts:
        assert bool((part[[0, 2]] == 7).all())
        assert not bool((part[1] == 7).all())
        part.zero_()
    _, again = slopes.at({}, {c: tuple(w.clone() for w in o.kernel.W) for c, o in enumerate(found)})
    for c, (risk, gradient) in before.items():  # to the last bit
        assert risk == again[c][0]
        assert all(torch.equal(g, h) for g, h in zip(gradient, again[c][1], strict=True))


@kernels
def test_chains_descend_together_as_each_alone():
    """The same steps, also of a chain that reaches its minimum, of one that is cut, and of one that does not fit."""
    deep, found = compose([two_layers(5, 2, 2), two_layers(5, 1, 3)]), objectives()
    rows = random_rows(40).to(DEVICE)
    kernel = HierarchicalKernel(deep, deep.start(rows.spread, np.random.default_rng(0)))
    machine = train(kernel, rows[:25], 1e-3)
    found += [Objective(kernel, machine.X, machine.alpha, rows[25:], ClippedAt(0.8)), found[0]]
    stopped = Progress()
    stopped.stopped = True
    settings = [(60, None), (4, None), (5, stopped), (3, None), (0, None)]
    assert [o.fits for o in found] == [True, True, True, False, True]
    wishes = [Descending(o, o.kernel.W, *each) for o, each in zip(found, settings, strict=True)]
    together = Descending.together(wishes)
    assert [len(one.steps) for one in together[1:]] == [4, 1, 3, 0]
    assert [one.at_minimum for one in together] == [True, False, False, False, False]
    halved = False
    for wish, one in zip(wishes, together, strict=True):
        alone = descend(plain_twin(wish.objective), wish.W, wish.steps, wish.progress)
        assert (len(one.steps), one.at_minimum) == (len(alone.steps), alone.at_minimum)
        assert one.risk == pytest.approx(alone.risk, rel=1e-9)
        for w, v in zip(one.W, alone.W, strict=True):
            torch.testing.assert_close(w, v, rtol=1e-7, atol=1e-9)
        for step, other in zip(one.steps, alone.steps, strict=True):
            assert step == pytest.approx(other, rel=1e-6)
        etas = [step["eta"] for step in one.steps]
        halved |= any(after < 1.9 * before for before, after in pairwise(etas))
    assert halved


@kernels
def test_risks_of_chains_on_other_rows():
    found = objectives()
    others = [random_rows(n, seed=n, weighted=True).to(DEVICE) for n in (15, 16, 40)]
    two = random_rows(30, outputs=2).to(DEVICE)
    kernel = found[1].kernel
    machine = train(kernel, two[:20], 1e-3)
    found, others = [*found, Objective(kernel, machine.X, machine.alpha, two[20:], ClippedAt(0.8))], [*others, two]
    assert not found[-1].fits
    Ws = [o.kernel.W for o in found]
    expected = [o.risk(W, rows) for o, W, rows in zip(found, Ws, others, strict=True)]
    assert Risk.together([*map(Risk, found, Ws, others)]) == pytest.approx(expected, rel=1e-11)
    own = [o.risk(W) for o, W in zip(found, Ws, strict=True)]
    assert Risk.together([*map(Risk, found, Ws)]) == pytest.approx(own, rel=1e-11)
    assert Risk.together([]) == []


@kernels
def test_chains_anneal_together_as_each_alone():
    """Trees, numbers of steps and of rows differ; the draws are the same, and so are the decisions.

    Of the last tree all edges are as long as they may get, and almost nothing depends on them.
    """

    def asked():
        Ws = [o.kernel.W for o in objectives()]
        Ws[2] = (1e-6 * Ws[2][0], torch.full_like(Ws[2][1], LONGEST_EDGE), *Ws[2][2:])
        return [
            Annealing(o, W, steps, np.random.default_rng(seed), Progress())
            for seed, (o, W, steps) in enumerate(zip(objectives(), Ws, [30, 40, 80], strict=True))
        ]

    for wish, found in zip(asked(), Annealing.together(asked()), strict=True):
        alone = anneal(wish.objective, wish.W, wish.steps, wish.rng, wish.progress)
        assert 0 < found.accepted == alone.accepted < wish.steps
        assert found.risk == pytest.approx(alone.risk, rel=1e-9)
        assert found.risk == pytest.approx(wish.objective.risk(found.W), rel=1e-9)
        for w, v in zip(found.W, alone.W, strict=True):
            torch.testing.assert_close(w, v, rtol=1e-12, atol=0)


@kernels
def test_chains_that_are_cut_tell_of_their_steps():
    """A wish to stop is granted every fifty steps, and a shorter chain has made its own."""
    stopped = Progress()
    stopped.stopped = True
    asked = [
        Annealing(o, o.kernel.W, steps, np.random.default_rng(0), stopped)
        for o, steps in zip(objectives(), [30, 120, 60], strict=True)
    ]
    found = Annealing.together(asked)
    assert [annealed.steps for annealed in found] == [30, 50, 50]
    for wish, annealed in zip(asked, found, strict=True):
        assert annealed.risk == pytest.approx(wish.objective.risk(annealed.W), rel=1e-9)


@kernels
def test_wide_nodes_descend_one_by_one(monkeypatch):
    found = objectives()
    monkeypatch.setattr(sys.modules["hgk.optimisers.armijo"], "WIDEST_NODE", 0)
    monkeypatch.setattr(sys.modules["hgk.optimisers.armijo"], "Slopes", None)
    one, *_ = Descending.together([Descending(o, o.kernel.W, 2) for o in found])
    assert one.steps == descend(found[0], found[0].kernel.W, 2).steps


@kernels
def test_chains_that_do_not_fit_together_go_one_after_the_other(monkeypatch):
    rows, tree = random_rows(60).to(DEVICE), two_layers(5, 2, 3, rng=1)
    kernel = HierarchicalKernel(tree, tree.start(rows.spread, np.random.default_rng(0)))
    machine = train(kernel, rows[:40], 1e-3)
    objective = Objective(kernel, machine.X, machine.alpha, rows[40:], ClippedAt(0.8))

    def asked():
        return [Annealing(objective, kernel.W, 5, np.random.default_rng(seed), Progress()) for seed in range(3)]

    descents = [Descending(objective, kernel.W, steps) for steps in (1, 2, 3)]
    assert len(loads(asked(), held=2)) == 1
    expected = Annealing.together(asked()), Descending.together(descents)
    monkeypatch.setenv("HGK_MEMORY", "96K")  # E twice is 2 x 20 x 40 x 8 bytes, rows thrice 3 x 60 x 5 x 8
    assert [len(part) for part in loads(asked(), held=2)] == [2, 1]
    for found, other in zip(Annealing.together(asked()), expected[0], strict=True):
        assert (found.risk, found.accepted) == (other.risk, other.accepted)
    monkeypatch.setenv("HGK_MEMORY", "64K")
    assert [len(part) for part in loads(descents, held=1)] == [2, 1]
    for found, other in zip(Descending.together(descents), expected[1], strict=True):
        assert (found.risk, found.steps) == (other.risk, other.steps)


@gpu
def test_the_papers_protocol_on_the_device():
    X, y = make_friedman1(300, noise=0.3, random_state=0)
    trees = [inhomogeneous(10), two_layers(10, 4, rng=np.random.default_rng(0))]
    optimiser = Algorithm1(M=2, L=3, N1=60, N2=40, N3=4)
    models = [
        HGKRegressor("paper", architecture=trees, optimiser=optimiser, random_state=0, device=device).fit(X, y)
        for device in ("cpu", "cuda")
    ]
    new, truth = make_friedman1(500, random_state=1)
    here, away = (np.mean((model.predict(new) - truth) ** 2) for model in models)
    assert away == pytest.approx(here, rel=0.2)


@gpu
@pytest.mark.parametrize("name", [name for name, tree in ARCHITECTURES.items() if tree.depth > 2])
def test_deeper_trees_go_through_the_plain_formulas_there(name):
    kernel, rows = random_kernel(ARCHITECTURES[name]), random_rows(60)
    there, G = rows.to(DEVICE), torch.randn(60, 60, dtype=torch.float64)
    torch.testing.assert_close(kernel.matrix(there.X).cpu(), kernel.matrix(rows.X), rtol=1e-12, atol=1e-13)
    alone = kernel.multiply(rows.X[:20], rows.X, rows.Y)
    torch.testing.assert_close(kernel.multiply(there.X[:20], there.X, there.Y).cpu(), alone, rtol=1e-12, atol=1e-12)
    symmetric, other = (G + G.T, None), (G[:, :20].contiguous(), 20)
    for dK, size in (symmetric, other):
        pairs = [(r.X, None if size is None else r.X[:size]) for r in (rows, there)]
        here, away = (kernel.backward(dK.to(X.device), X, Z) for X, Z in pairs)
        for g, h in zip(here, away, strict=True):
            torch.testing.assert_close(h, g, rtol=1e-9, atol=1e-10)
    model = HGKRegressor(architecture=ARCHITECTURES[name], optimiser=Adam(3, 40), device="cuda", random_state=0)
    assert np.isfinite(model.fit(rows.X.numpy(), rows.Y[:, 0].numpy()).predict(rows.X.numpy())).all()


def test_a_processor_never_sees_triton():
    code = (
        "import sys; from sklearn.datasets import load_diabetes; from hgk import HGKRegressor\n"
        "X, y = load_diabetes(return_X_y=True); HGKRegressor(random_state=0).fit(X[:60], y[:60]).predict(X)\n"
        "assert not {f'hgk.kernels.sweeps.compiled.{name}' for name in ('tiles', 'moves', 'slopes')} & set(sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_device_that_is_not_there_is_an_error():
    X, y = make_friedman1(60, random_state=0)
    with pytest.raises(ValueError, match=r"device='cuda:99' was given and torch finds \d+ CUDA devices"):
        HGKRegressor("plain", device="cuda:99").fit(X, y)
    with pytest.raises(ValueError, match="device='gpu' was given; 'cpu', 'cuda'"):
        HGKRegressor("plain", device="gpu").fit(X, y)
    model = HGKRegressor("plain").fit(X, y).set_params(device="cuda:99")
    with pytest.raises(ValueError, match=r"set_params\(device='cpu'\) for a fitted model"):
        model.predict(X)
    assert arrays.device_of("auto").type == ("cuda" if HERE else "cpu")


def repeated(n):
    """Rows that were given one to three times."""
    rows = random_rows(n, outputs=2, weighted=True)
    return Rows(rows.X, rows.Y, rows.weight, rows.weight)


@gpu
def test_the_leave_one_out_criterion_is_the_processors():
    rows, kernel = repeated(500), random_kernel(ARCHITECTURES["all kinds"])
    there = rows.to(DEVICE)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        here = LeaveOneOut()(kernel.matrix(rows.X.to(dtype)), rows.Y, 1e-3, rows.weight, rows.count)
        away = LeaveOneOut()(kernel.matrix(there.X.to(dtype)), there.Y, 1e-3, there.weight, there.count)
        assert away.value.item() == pytest.approx(here.value.item(), rel=tolerance)
        assert away.dlog_lam.item() == pytest.approx(here.dlog_lam.item(), rel=10 * tolerance)
        assert float((away.dK.cpu() - here.dK).norm() / here.dK.norm()) < tolerance


@kernels
def test_recorded_steps_are_ordinary_steps():
    """Side by side, from the same batches: θ after five steps, and what was told of them."""
    rows, batch = repeated(300), 200 if HERE else 30
    told, ended = [], []
    for device, kind in (("cpu", AdamRun), (DEVICE, RecordedRun)):
        runs = []
        for build in (mixed, all_kinds):
            tree = build(features(*["scaled"] * 5))
            kernel = HierarchicalKernel(tree, tree.start(rows.spread, np.random.default_rng(0)))
            settings = Adam(5, batch, rate=0.1, shrink=0.1, map_penalty=0.1)
            runs.append(kind(Steps(settings, kernel, rows.to(device), np.random.default_rng(1), Progress())))
        if kind is RecordedRun:
            run_together(runs)
        else:
            for run in runs:
                run.run()
        told.append([run.values for run in runs])
        ended.append([run.result() for run in runs])
        assert all(run.lam == pytest.approx(np.exp(float(run.theta[-1]))) for run in runs)
    np.testing.assert_allclose(told[0], told[1], rtol=2e-3)
    for one, other in zip(*ended, strict=True):
        for w, v in zip(one.W, other.W, strict=True):
            torch.testing.assert_close(w, v, rtol=2e-2, atol=2e-3)


@gpu
def test_the_last_round_is_the_processors():
    rows, ended = random_rows(300), []
    trees = [build(features(*["scaled"] * 5)) for build in (mixed, all_kinds)]
    begun = [HierarchicalKernel(tree, tree.start(rows.spread, np.random.default_rng(0))) for tree in trees]
    for device in ("cpu", DEVICE):
        task, executor = task_of(rows.to(device), [1e-3]), Threads() if device == "cpu" else SideBySide()
        fit = Fit(Default(), task, np.random.default_rng(1), Progress(), executor)
        chosen = [Trial(f"kind {i}", [kernel], 1e-3, task.rows.Y, 100) for i, kernel in enumerate(begun)]
        moved = fit.last_round(chosen, LearningEffort(9, 1, 100, 1, 100, 5, 150), None)
        ended.append([w for trial in moved for w in trial.kernels[0].W])
    for w, v in zip(*ended, strict=True):
        assert v.device.type == "cpu"
        torch.testing.assert_close(w, v, rtol=2e-2, atol=2e-3)


@kernels
def test_a_recorded_run_that_is_cut_tells_of_its_steps():
    rows, tree, told = random_rows(40).to(DEVICE), inhomogeneous(5), []
    kernel = HierarchicalKernel(tree, tree.start(rows.spread, np.random.default_rng(0)))
    with Progress(told.append) as progress:
        run = RecordedRun(Steps(Adam(30, 20), kernel, rows, np.random.default_rng(0), progress))
        make, cuts = progress.cut, iter([False, False, False, True])
        progress.cut = lambda **when: next(cuts) or make(**when)
        run_together([run])
    assert run.step == len(run.values) == len(told) == 3
    assert np.isfinite(run.values).all()


@kernels
def test_a_step_whose_factor_breaks_down_leaves_the_weights_and_raises_lambda():
    rows = random_rows(60).to(DEVICE)
    rows.Y[:] = torch.nan
    tree = mixed(features(*["scaled"] * 5))
    kernel = HierarchicalKernel(tree, tree.start(np.ones(5), np.random.default_rng(0)))
    run = RecordedRun(Steps(Adam(3, 30), kernel, rows, np.random.default_rng(0), Progress(), lam=1e-5))
    run_together([run])
    assert run.lam > 1e-5
    for w, v in zip(run.W, kernel.W, strict=True):
        torch.testing.assert_close(w, v, rtol=1e-12, atol=0)


@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_grid_is_the_processors(dtype):
    rows, kernel = random_rows(400), HierarchicalKernel.of(inhomogeneous(5), np.ones((1, 5)))
    folds = fold_numbers(400, 5, np.random.default_rng(0))
    here, away = (search(kernel, r, folds, lam_grid(400), 1.0, dtype, complete=True) for r in (rows, rows.to(DEVICE)))
    both = here.resolved & away.resolved
    assert both.sum() > 50
    # in single precision the smallest λ of the largest widths differ by 1 % from double precision, on either device
    np.testing.assert_allclose(away.risks[both], here.risks[both], rtol=3e-2 if dtype == torch.float32 else 5e-3)


@gpu
def test_exact_machines_are_the_processors():
    rows, kernel = repeated(700), random_kernel(ARCHITECTURES["all kinds"])
    here, away = (train(kernel, r, 1e-4) for r in (rows, rows.to(DEVICE)))
    torch.testing.assert_close(away.alpha.cpu(), here.alpha, rtol=1e-6, atol=1e-8)
    some = torch.arange(0, 700, 7)
    ones = []
    for machine, r in ((here, rows), (away, rows.to(DEVICE))):
        own, elsewhere = machine.without_one(r, some)
        ones.append((own, elsewhere(r.X[:20])))
    for mine, theirs in zip(*ones, strict=True):
        torch.testing.assert_close(theirs.cpu(), mine, rtol=1e-6, atol=1e-8)


@gpu
def test_fold_machines_of_repeated_rows_come_back():
    X, y = make_friedman1(200, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, 200)
    there = HGKRegressor("plain", random_state=0, device="cuda").fit(X, y, sample_weight=weight)
    low = there.predict_interval(X[:9])
    there.set_params(device="cpu")
    np.testing.assert_allclose(there.predict_interval(X[:9]), low, rtol=1e-5)


@gpu
@pytest.mark.parametrize("loss", ["least_squares", "logistic"])
def test_repeated_rows_are_divided_there_too(loss):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (800, 2)).astype(float)
    P = rng.uniform(0.1, 0.9, (4, 4))[X[:, 0].astype(int), X[:, 1].astype(int)]
    y = rng.random(800) < P
    models = [HGKClassifier(random_state=0, loss=loss, device=device).fit(X, y) for device in ("cpu", "cuda")]
    here, away = (model.predict_proba(X)[:, 1] for model in models)
    np.testing.assert_allclose(away, here, atol=0.03)
    assert np.abs(away - P).mean() < 0.07


@gpu
@pytest.mark.parametrize("n", [300, 1500])
def test_a_fit_is_as_good_as_the_processors(n):
    X, y = make_friedman1(n + 1000, noise=0.5, random_state=0)
    models = [HGKRegressor(random_state=0, device=device).fit(X[:n], y[:n]) for device in ("cpu", "cuda")]
    errors = [np.mean((model.predict(X[n:]) - y[n:]) ** 2) for model in models]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


@gpu
def test_a_model_from_the_device_serves_anywhere(tmp_path):
    """Two rounds of learning, whose error comes near the noise; predictions, leave-one-out values and intervals."""
    n = 3500
    X, y = make_friedman1(n + 1000, noise=0.5, random_state=0)
    model = HGKRegressor(random_state=0, device="cuda").fit(X[:n], y[:n])
    assert np.mean((model.predict(X[n:]) - y[n:]) ** 2) < 1.2 * 0.5**2
    there = model.predict(X[n:]), model.loo_predictions_, model.predict_interval(X[n : n + 50])
    model.set_params(device="cpu").model_.memo.clear()
    here = model.predict(X[n:]), model.loo_predictions_, model.predict_interval(X[n : n + 50])
    hgk.save(model, tmp_path / "model.hgk")
    loaded = hgk.load(tmp_path / "model.hgk")
    again = loaded.predict(X[n:]), loaded.loo_predictions_, loaded.predict_interval(X[n : n + 50])
    for one, other, third in zip(there, here, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(other, third)


@gpu
def test_a_label_of_few_values_is_the_processors():
    X, y = load_digits(return_X_y=True)
    columns = [10, 13, 18, 20, 26, 28, 34, 36, 42, 44, 51, 53]
    X, y = X[:900, columns], 10.0 * y[:900]
    model = HGKRegressor(random_state=0, device="cuda").fit(X[:600], y[:600])
    assert isinstance(model.model_.target, FewValues)
    X_new = X[600:]
    there = model.predict(X_new), model.loo_predictions_, model.predict_interval(X_new[:20])
    model.set_params(device="cpu").model_.memo.clear()
    here = model.predict(X_new), model.loo_predictions_, model.predict_interval(X_new[:20])
    for a, b in zip(there, here, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * 45)
    other = HGKRegressor(random_state=0).fit(X[:600], y[:600])
    errors = [np.mean((m.predict(X_new) - y[600:]) ** 2) for m in (model, other)]
    assert 0.75 < errors[0] / errors[1] < 1.33


@gpu
def test_a_classifier_and_algorithm_1():
    X, y = make_friedman1(400, random_state=0)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = HGKClassifier(random_state=0, device="cuda").fit(X[:300], labels[:300])
    assert model.score(X[300:], labels[300:]) > 0.75
    np.testing.assert_allclose(model.predict_proba(X[300:]).sum(1), 1)
    model = HGKRegressor("algorithm1", random_state=0, device="cuda").fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.8


@gpu
@pytest.mark.parametrize("preset", ["plain", "algorithm1"])
def test_quantiles_and_pairs_of_classes(preset):
    """Levels and labels of these losses lie in main memory."""
    X, y = make_friedman1(300, noise=0.5, random_state=0)
    model = HGKQuantileRegressor(preset, quantiles=[0.1, 0.5, 0.9], random_state=0, device="cuda").fit(X[:200], y[:200])
    assert 0.6 < np.mean((model.predict(X[200:])[:, 0] < y[200:]) & (y[200:] < model.predict(X[200:])[:, 2])) <= 1
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = HGKClassifier(preset, loss="hinge", random_state=0, device="cuda").fit(X[:200], labels[:200])
    assert model.score(X[200:], labels[200:]) > 0.6


@gpu
def test_too_many_rows_for_the_device_get_a_sentence():
    kernel = HierarchicalKernel.of(inhomogeneous(1), np.ones((1, 1)))
    with pytest.raises(MemoryError, match=r"needs .* GiB and .* GiB are free; use at most about \d+ rows"):
        kernel.matrix(torch.zeros(10_000_000, 1, device=DEVICE))


# -------------------------------------------------------------------------------------------------------- leaves


@kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (33, 70), (64, 31), (70, None)])
@pytest.mark.parametrize("tree", [FLAT["all kinds"], FLAT["two exponents"], SHAPES["groups and maps"][0]])
def test_sums_over_columns_of_many_kernels_are_the_plain_ones(tree, n, m, dtype):
    """Of every kind, into the places of its nodes alone."""
    rng, device = np.random.default_rng(0), DEVICE
    X, Z = (torch.from_numpy(rng.standard_normal((3, size, tree.d))).to(device, dtype) for size in (n, m or n))
    X[:, :, 0] = X[:, :, 0].sign()  # equal values: distances of 0
    Z[:, :, 0] = Z[:, :, 0].sign()
    Z = X if m is None else Z
    W = tuple(torch.stack([w.abs() * k for k in (1, 2, 3)]).to(device) for w in random_kernel(tree).W)
    N = torch.from_numpy(rng.standard_normal((3, len(tree.coordinates), n, m or n))).to(device, dtype)
    N = N + N.mT if m is None else N
    for members in tree.members:
        if members.kind.stacked not in COMPILED:
            continue
        results = []
        for kind in (compiled.FusedColumns, members.kind.stacked):
            E, grads = torch.full_like(N, torch.nan), tuple(torch.zeros_like(w) for w in W)
            worker = kind(members, W, X, Z)
            worker.fill(E)
            worker.accumulate(N, grads)
            others = [i for i in range(E.shape[1]) if i not in members.nodes]
            assert bool(E[:, others].isnan().all())
            results.append((E[:, members.nodes], grads[0]))
        for ours, theirs in zip(*results, strict=True):
            assert float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-9)) <= 10 * TOLERANCE[dtype]


def tree_of(rows, kernel, size):
    parts = partition(rows.X, metric(kernel, rows.X), size, np.random.default_rng(0))
    return HandingTree(rows, parts, 0, 0.1, Progress())


@gpu
def test_partitions_are_the_processors():
    rows, kernel = random_rows(3000), random_kernel(ARCHITECTURES["all kinds"])
    here, away = (tree_of(r, kernel, 200).parts for r in (rows, rows.to(DEVICE)))
    assert torch.equal(here.order, away.order)
    assert torch.equal(here.directions, away.directions)
    X = random_rows(1000, seed=1).X
    assert float((here.route(X) == away.route(X.to(DEVICE)).cpu()).double().mean()) > 0.999


@gpu
@pytest.mark.parametrize("name", ["all kinds", "two exponents", "depth 3, uneven"])
def test_leaves_together_are_those_one_by_one(name):
    rows, kernel, plan = (
        random_rows(3000, weighted=True),
        random_kernel(ARCHITECTURES[name]),
        LeafPlan(200, 4, 0.1, 101),
    )
    kernel = kernel.with_weights([w.abs() for w in kernel.W])
    ways = [(rows, one_by_one), (rows.to(DEVICE), one_by_one), (rows.to(DEVICE), SideBySide().fulfil)]
    grown = []
    for mine, fulfil in ways:
        tree = tree_of(mine, kernel, 200)
        nodes = [-1 - leaf for leaf in range(len(tree.parts))]
        known = tree.hand_down(Handed(kernel, 0.5), nodes, plan, fulfil)
        asked = [TrainingOfLeaf(known[node], mine, tree.parts.members(node), 1.0) for node in nodes]
        leaves = fulfil(asked)
        assert all(leaf.alpha.device == mine.X.device for leaf in leaves)
        machine = assembled(mine, mine.X.float(), tree.parts, leaves, Handed(kernel, 0.5), None)
        grown.append((known, machine(mine.X[:500]).cpu()))
    for known, t in grown[1:]:
        for node, handed in known.items():
            for w, v in zip(handed.kernel.W, grown[0][0][node].kernel.W, strict=True):
                assert w.device.type == "cpu"
                torch.testing.assert_close(w, v, rtol=0, atol=5e-3)
        # a leaf may take another factor of its width where two are as good but for rounding
        assert float((t - grown[0][1]).abs().mean()) < 1e-3


@gpu
@pytest.mark.parametrize("exact", [700, 10_000], ids=["beyond the exact machine", "beside it"])
@pytest.mark.parametrize("estimator", [HGKRegressor, HGKClassifier])
def test_a_fit_in_leaves_is_as_good_as_the_processors(estimator, exact, monkeypatch):
    monkeypatch.setattr("hgk.learners.default.learner.exact_rows", lambda device: exact)
    monkeypatch.setattr("hgk.learners.default.division.best_share", lambda *_: 0.3)
    X, y = make_friedman1(3000, noise=0.5, random_state=0)
    y = y > np.median(y) if estimator is HGKClassifier else y
    settings = {"effort": LearningEffort(1, 40, 201), "divided": 1000, "leaf_rows": (200,), "branch_rows": 400}
    scores, models = [], []
    with default_settings(**settings, leaf_margin=-100.0):
        for device in ("cpu", "cuda"):
            models.append(estimator(random_state=0, device=device).fit(X[:1500], y[:1500]))
            scores.append(models[-1].score(X[1500:], y[1500:]))
    assert scores[1] == pytest.approx(scores[0], abs=0.03)
    away = models[1]
    assert any(isinstance(part, InLeaves) for part in away.machine_.parts_of())
    there = away.predict(X), away.loo_predictions_
    away.set_params(device="cpu").model_.memo.clear()
    if estimator is HGKRegressor:
        for one, other in zip(there, (away.predict(X), away.loo_predictions_), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-3 * np.ptp(y))


@gpu
@pytest.mark.parametrize("columns", [1, 4])
def test_the_logistic_criterion_is_the_processors(columns):
    rows, kernel = random_rows(200), random_kernel(ARCHITECTURES["all kinds"])
    number = torch.arange(200) % max(2, columns)
    Y = 2 * torch.nn.functional.one_hot(number).double() - 1
    here = kernel.matrix(rows.X), Y[:, 1:] if columns == 1 else Y, 1e-3, rows.weight
    away = [part.to(DEVICE) if isinstance(part, torch.Tensor) else part for part in here]
    one, other = LogisticLeaveOneOut()(*here), LogisticLeaveOneOut()(*away)
    torch.testing.assert_close(other.value.cpu(), one.value, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(other.dK.cpu(), one.dK, rtol=1e-3, atol=1e-6)


@gpu
@pytest.mark.parametrize("loss", ["auto", "logistic"])
@pytest.mark.parametrize("classes", [2, 10])
def test_probabilities_are_as_good_as_the_processors(loss, classes):
    X, y = load_digits(return_X_y=True)
    y = y % classes
    models = [
        HGKClassifier(loss=loss, random_state=0, device=device).fit(X[:900], y[:900]) for device in ("cpu", "cuda")
    ]
    here, away = (log_loss(y[900:], model.predict_proba(X[900:])) for model in models)
    assert away < 1.3 * here + 0.02


@gpu
def test_another_loss_in_leaves_is_the_processors(monkeypatch):
    monkeypatch.setattr("hgk.arrays.memory.EXACT", 400)
    X, y = make_friedman1(1500, noise=0.5, random_state=0)
    with default_settings(effort=LearningEffort(1, 20, 201), leaf_rows=(200,), branch_rows=400, leaf_of_loss=200):
        models = [
            HGKClassifier(random_state=0, loss="logistic", device=device).fit(X[:700], y[:700] > 14)
            for device in ("cpu", "cuda")
        ]
    here, away = (model.predict_proba(X[700:])[:, 1] for model in models)
    np.testing.assert_allclose(away, here, atol=1e-3)


@gpu
def test_one_leaf_fits_where_many_do_not(monkeypatch):
    rows, kernel = random_rows(600).to(DEVICE), random_kernel(ARCHITECTURES["all kinds"])
    asked = [TrainingOfLeaf(Handed(kernel, 0.5), rows, part, 1.0) for part in torch.arange(600).split(150)]
    many = SideBySide().fulfil(asked)
    monkeypatch.setattr("hgk.machines.stacked.available_memory", lambda device: 0)
    for one, other in zip(SideBySide().fulfil(asked), many, strict=True):
        torch.testing.assert_close(one.alpha, other.alpha, rtol=1e-4, atol=1e-4)
