"""Learning by leave-one-out gradients: the optimiser, what it finds, and whom it trusts."""

import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from joblib import parallel_config
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.metrics import log_loss

import hgk.learners.default.judge
import hgk.learners.default.learner
from cases import ARCHITECTURES, random_rows
from hgk import (
    Architecture,
    HGKClassifier,
    HGKRegressor,
    StoppedEarlyWarning,
    arrays,
    inhomogeneous,
    isotropic,
    two_layers,
)
from hgk.criteria import LeaveOneOut
from hgk.events import Chosen, Judged, Planned, Step, Watched, last, of_kind
from hgk.executor import Threads
from hgk.inputs import STEPS_PER_COLUMN, Encoder, Reader
from hgk.kernels import HierarchicalKernel, Rough
from hgk.learners import Default, Settings
from hgk.learners.default.average import Averages, Trial, choose_kinds, trial_of
from hgk.learners.default.effort import LearningEffort, usual_effort
from hgk.learners.default.judge import Judge, Verdict, judge_lams
from hgk.learners.default.kinds import columns_of, kinds_for, plain_kernel, warped
from hgk.learners.default.learner import Fit
from hgk.learners.default.remainder import REMAINDER
from hgk.machines import OnCentres, Rows, clipped_risk
from hgk.optimisers import Adam
from hgk.optimisers.runs import HIGHEST, LOWEST, Watch, one_cycle
from hgk.optimisers.steps import Steps
from hgk.progress import Progress
from hgk.targets.calibration import Calibration
from tasks import default_settings, features, quickly, task_of


def start(architecture, rows, **settings):
    rng = np.random.default_rng(0)
    kernel = HierarchicalKernel(architecture, architecture.start(rows.spread, rng))
    return Steps(Adam(**settings, criterion=LeaveOneOut()), kernel, rows, rng, Progress()).begin()


def learned(optimiser, architecture, rows, rng, progress):
    (kernel,) = Threads().drive([optimiser.search(architecture, rows, rng, progress)])
    return kernel


def kernels_of(model):
    return [kernel for _, kernel, _, _ in model.machine_.terms]


@pytest.mark.parametrize("name", ["inhomogeneous", "smooth and rough", "all kinds", "depth 4"])
def test_the_gradient_in_every_parameter_equals_finite_differences(name):
    """θ = log weights, maps and log λ, penalties included; the kernel in double precision for the comparison."""
    rows = random_rows(40, outputs=2, weighted=True)
    run = start(ARCHITECTURES[name], rows, shrink=0.3, map_penalty=0.2)
    for theta, mask in zip(run.theta[run.depth : -1], run.kernel.architecture.free()[run.depth :], strict=True):
        theta.copy_(torch.from_numpy(np.random.default_rng(1).standard_normal(theta.shape)) * 0.3 * mask)
    run.theta[0] += 0.1 * torch.randn(run.theta[0].shape, generator=torch.Generator().manual_seed(0))

    def J():
        W = run.W
        value = run.criterion(run.kernel.with_weights(W).matrix(rows.X), rows.Y, run.lam, rows.weight).value.item()
        live, theta = run.live[0], run.theta[0] - run.start[0]
        mean = (theta * live).sum(1, keepdim=True) / live.sum(1, keepdim=True)
        value += 0.3 * run.variance * float((((theta - mean) * live) ** 2).sum()) / int(live.sum())
        if len(W) > run.depth:
            P, Q = W[run.depth :]
            value += 0.2 * run.variance * float(((P @ Q.transpose(1, 2)) ** 2).sum()) / (len(P) * P.shape[1])
        return value

    _, gradient = run.gradient(rows)
    masks = [*run.live, *run.kernel.architecture.free()[run.depth :], torch.tensor(True)]
    for theta, g, mask in zip(run.theta, gradient, masks, strict=True):
        for index in map(tuple, mask.nonzero().tolist()):
            h, value = 1e-4, float(theta[index])
            theta[index] = value + h
            up = J()
            theta[index] = value - h
            down = J()
            theta[index] = value
            # single-precision kernels in the gradient leave about 1e-4
            assert float(g[index]) == pytest.approx((up - down) / (2 * h), rel=5e-3, abs=2e-5)


def test_the_rate_rises_and_falls():
    rates = [one_cycle(i, 100, 0.2) for i in range(100)]
    assert max(rates) == pytest.approx(0.2, rel=0.1)
    assert int(np.argmax(rates)) in range(25, 35)
    assert rates[0] < 0.05
    assert rates[-1] < 1e-3


def test_weights_stay_in_their_bounds_and_absent_ones_stay_away():
    rows = random_rows(60)
    run = start(two_layers(5, 3, 2), rows, steps=30, rate=5.0)
    kernel = run.run()
    assert not kernel.W[0][~kernel.architecture.mask].any()
    for theta, first in zip(run.theta, run.start, strict=False):
        assert bool((theta - first >= LOWEST - 1e-9).all())
        assert bool((theta - first <= HIGHEST + 1e-9).all())


def test_the_criterion_falls_and_a_planted_irrelevant_column_loses_its_weight():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 4))
    rows = Rows(*map(torch.from_numpy, (X, np.sin(3 * X[:, :1]) * X[:, 1:2], np.ones(300))))
    progress = Progress()
    kernel = learned(Adam(steps=60, batch=200, rate=0.2), inhomogeneous(4), rows, rng, progress)
    criteria = [event.criterion for event in of_kind(progress.history, Step)]
    assert len(criteria) == 60
    assert np.mean(criteria[-5:]) < 0.2 * criteria[0]
    v = kernel.W[0][0]
    assert float(v[2:].max()) < 0.2 * float(v[:2].min())


def test_shrinking_pulls_the_weights_together():
    rows = random_rows(100)
    spreads = []
    for shrink in (0.0, 10.0):
        optimiser = Adam(steps=40, batch=100, rate=0.2, shrink=shrink)
        kernel = learned(optimiser, inhomogeneous(5), rows, np.random.default_rng(0), Progress())
        spreads.append(float(kernel.W[0].log().std()))
    assert spreads[1] < 0.3 * spreads[0]


def test_the_same_seed_gives_the_same_weights():
    rows = random_rows(80)
    one, two = (
        learned(Adam(steps=10, batch=50), two_layers(5, 3), rows, np.random.default_rng(1), Progress()) for _ in "ab"
    )
    assert all(torch.equal(a, b) for a, b in zip(one.W, two.W, strict=True))


def test_the_watch_brings_back_earlier_weights_only_if_they_were_clearly_better():
    watch = Watch(random_rows(10), random_rows(100), 1.0)
    good, bad = torch.full((100,), 0.001), torch.full((100,), 0.002)
    noise = 1e-4 * torch.randn(100, generator=torch.Generator().manual_seed(0))
    first, last = ("first",), ("last",)
    watch.checks = [(good, first), (good + noise - noise.mean() + 1e-7, last)]
    assert watch.best(last) is last  # worse by less than the noise
    watch.checks = [(good, first), (bad + noise, last)]
    assert watch.best(last) is first
    assert not watch.hopeless()
    watch.checks += [(bad + noise, last)]
    assert watch.hopeless()


def test_a_run_that_overfits_is_stopped_by_rows_outside_its_batches():
    """Labels are noise: the criterion falls, the error of new rows does not."""
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(-1, 1, (130, 20)), rng.standard_normal((130, 1))
    rows, new = (
        Rows(*map(torch.from_numpy, (X[p], Y[p].clip(-1, 1), np.ones(len(X[p])))))
        for p in (slice(0, 60), slice(60, 130))
    )
    tree = inhomogeneous(20)
    progress = Progress()
    kernel = HierarchicalKernel(tree, tree.start(rows.spread, rng))
    run = Steps(Adam(steps=100, batch=60, rate=0.3), kernel, rows, rng, progress, watched=new).begin()
    found = run.run()
    risks = [event.risk for event in of_kind(progress.history, Watched)]
    after = Watch(run.watch.batch, new, 1.0)(kernel, found.W, run.lam)
    assert after <= risks[-1] + 1e-9
    assert after < 1.1 * min(risks)


def test_warps_are_monotone_and_learned_by_rough_nodes():
    """Rough nodes on steps are rough nodes on g(x) = Σ a_k b_k(x): the identity behind the kind "warped"."""
    x = np.random.default_rng(0).uniform(0, 1, 300)
    reader = Reader.of([x], ["x"])
    encoder = Encoder.of(x[:, None], np.ones(300), reader, ranks=True, robust=True, steps=True)
    tree = warped(encoder.features)
    steps = [j for j, feature in enumerate(encoder.features) if feature.kind == "step"]
    assert len(steps) == STEPS_PER_COLUMN
    spiked = np.where(np.arange(300) < 270, 0.0, x)
    ends = Encoder.of(spiked[:, None], np.ones(300), reader, steps=True).columns[0].steps
    assert len(ends) > 6  # nine tenths of the rows share a value, the others still have their steps
    assert set(ends) <= set(spiked)
    assert all(set(tree.coordinates[i]) == set(steps) for i in range(4, 8))
    assert [i for i, kind in enumerate(tree.kinds) if kind.name == "oblique"] == [8, 9, 10, 11]
    F = torch.from_numpy(encoder(np.sort(x)[:, None]))
    v2 = torch.rand(len(steps), dtype=torch.float64)
    g = F[:, steps] @ v2
    assert bool((g.diff() >= 0).all())
    tree = Architecture(F.shape[1], (tuple(steps),), kinds=(Rough(),))
    W = torch.zeros(1, F.shape[1], dtype=torch.float64)
    W[0, steps] = v2.sqrt()
    expected = torch.exp(-(g[:, None] - g[None, :]).abs())
    torch.testing.assert_close(HierarchicalKernel(tree, (W,)).matrix(F), expected)


def judges(n, out):
    index = torch.arange(n)
    return {0: Judge(index, index, torch.arange(out), index[:0], False, Settings())}


def test_kinds_are_averaged_unless_one_is_better_left_out():
    rng = np.random.default_rng(0)
    rows = random_rows(200)
    task = task_of(rows)
    noise = [torch.from_numpy(0.3 * rng.standard_normal((200, 1))) for _ in range(5)]

    def trial(name, error):
        return Trial(name, [], 0.1, rows.Y + error)

    def names(*trials):
        return [t.name for t in choose_kinds(trials, task, judges(200, 80), Progress(), Settings().members)]

    plain, one, other = trial("plain", 3 * noise[2]), trial("one", noise[0]), trial("other", noise[1])
    assert sorted(names(plain, one, other)) == ["one", "other"]  # independent errors average out, plain is gone
    assert names(plain, one, trial("bad", 3 * noise[1])) == ["one"]
    assert names(plain, one, trial("best", 0.1 * noise[1])) == ["best"]
    little = trial("little worse", noise[0] * torch.from_numpy(1 + 0.3 * rng.standard_normal((200, 1))))
    assert sorted(names(plain, one, little)) == ["little worse", "one"]  # no clear gain without it
    many = [trial(str(i), (1 + 0.1 * i) * noise[i]) for i in (0, 1, 3, 4)]
    assert len(names(plain, *many)) == Settings().members
    # one that is far off does not hide what the others are worth
    assert sorted(names(trial("plain", noise[2]), *many[:3], trial("off", 20 * noise[4]))) == ["0", "1", "3"]


def test_one_kind_alone_is_the_best_and_has_to_beat_plain_itself():
    """As for machines on centres; an average that beats plain says nothing of its members."""
    rng = np.random.default_rng(0)
    rows = random_rows(400)
    task = task_of(rows)
    noise = [torch.from_numpy(0.3 * rng.standard_normal((400, 1))) for _ in range(5)]

    def names(most, *errors):
        trials = [Trial(str(i), [], 0.1, rows.Y + error) for i, error in enumerate(errors)]
        return [t.name for t in choose_kinds(trials, task, judges(400, 300), Progress(), most)]

    four = [noise[0], 1.1 * noise[1], 0.95 * noise[2], noise[3]]
    assert names(1, 2 * noise[4], *four) == ["3"]
    # the second and third have opposite errors, but the first is the best of them alone
    assert names(1, 2 * noise[4], 0.95 * noise[2], 0.3 * noise[0] + noise[1], noise[0] - noise[1]) == ["1"]
    assert len(names(3, 0.7 * noise[4], *four)) == 3
    assert names(1, 0.7 * noise[4], *four) == ["0"]
    # four together beat plain, but three of them do not: plain is not exchanged for these
    assert "0" in names(3, 0.56 * noise[4], *four)


def test_plain_is_left_only_for_a_clear_gain():
    rng = np.random.default_rng(0)
    rows = random_rows(200)
    task = task_of(rows)
    noise = [torch.from_numpy(0.3 * rng.standard_normal((200, 1))) for _ in range(3)]

    def names(*errors):
        trials = [Trial(str(i), [], 0.1, rows.Y + error) for i, error in enumerate(errors)]
        return [t.name for t in choose_kinds(trials, task, judges(200, 80), Progress(), Settings().members)]

    assert names(0.5 * noise[0], noise[0], 2 * noise[0]) == ["0"]
    close = noise[0] * torch.from_numpy(1 - 0.02 + 0.3 * rng.standard_normal((200, 1)))
    assert names(noise[0], close) == ["0"]
    # the average of both learned kinds is no better than plain, but one of them beside plain is
    assert sorted(names(noise[0], noise[1], 2 * noise[2])) == ["0", "1"]
    # one that is better by less than two standard errors does not take its place
    assert sorted(names(noise[0], 0.9 * noise[0] + 0.3 * noise[1])) == ["0", "1"]
    # nor is it here, but what is found beside plain is better without it
    assert names(2 * noise[0], 0.3 * noise[1], 4.5 * noise[2]) == ["1"]


def test_the_judge_is_the_machine_without_the_rows_set_aside():
    """Also with a narrower kernel, where its weights are of a batch of a quarter of the rows."""
    rows = random_rows(80, outputs=2, weighted=True)
    task, settings = task_of(rows, np.geomspace(0.1, 1e-4, 10)), Settings()
    judge = Judge.of(task, 2, np.random.default_rng(0), settings)
    kernel = HierarchicalKernel(tree := two_layers(5, 3), tree.start(rows.spread, np.random.default_rng(0)), 1.3)
    assert set(judge.out.tolist()) == set(range(2, 80, 5))
    assert len(judge(kernel, task, 16)[0]) == 1  # one of several folds
    judge = replace(judge, complete=False)
    assert len(judge(kernel, task)[0]) == len(judge(kernel, task, 60)[0]) == 1
    all_risks, all_t = judge(kernel, task, 16)
    part = rows[judge.machine]
    for exponent, risks, t in zip(settings.narrowing, all_risks, all_t, strict=True):
        best = int(risks.argmin())
        c = float(judge_lams(task, settings)[best]) * float(rows.weight.sum())  # c = nλ of all rows, also for fewer
        (narrow,) = Trial("", [kernel], 0.1, t, batch=16, exponent=exponent).kernels_for(64)
        assert narrow.gamma == pytest.approx(1.3 * 4**-exponent)
        (wide,) = Trial("", [kernel], 0.1, t, batch=16, exponent=exponent).kernels_for(8)
        assert wide.gamma == 1.3  # fewer centres than rows in a batch
        A = narrow.matrix(part.X) + c * torch.diag(1 / part.weight)
        expected = narrow.matrix(rows.X[judge.out], part.X) @ torch.linalg.solve(A, part.Y)
        torch.testing.assert_close(t[best], expected.clamp(-1, 1), rtol=0, atol=2e-3)
        assert float(risks[best]) == pytest.approx(clipped_risk(t[best], rows[judge.out], 1.0), rel=1e-3)


def test_the_width_follows_the_rows_where_detail_is_to_be_had():
    """Of hardly learned weights: a narrower kernel is better for fine detail without noise, not for a noisy plane."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    detail, plane = np.sin(8 * X[:, 0]) * np.cos(8 * X[:, 1]), X[:, 0] + rng.standard_normal(1500)
    for y, exponent in ((detail, Settings().narrowing[1]), (plane, 0.0)):
        with default_settings(effort=LearningEffort(9, 3, 60)):
            model = HGKRegressor(architecture=two_layers(2, 2, 2), random_state=0).fit(X, y)
        (judged,) = of_kind(model.history_, Judged)
        assert judged.narrowing == exponent
        assert model.kernel_.gamma == pytest.approx((1500 / 60) ** -exponent)


def test_the_default_finds_the_columns_and_reports_its_optimism():
    X, y = make_friedman1(700, n_features=10, noise=0.5, random_state=0)
    model = HGKRegressor(random_state=0).fit(X[:200], y[:200])
    plain = HGKRegressor("plain", random_state=0).fit(X[:200], y[:200])
    error = [np.mean((m.predict(X[200:]) - y[200:]) ** 2) for m in (model, plain)]
    assert error[0] < 0.6 * error[1]
    assert model.exponent_shares_[:5].sum() > 0.9
    judged = {event.candidate: event for event in of_kind(model.history_, Judged)}
    assert {"plain", "mixed"} <= set(judged)
    assert judged["mixed"].optimism == pytest.approx(judged["mixed"].honest - judged["mixed"].criterion)
    assert np.isnan(judged["plain"].optimism)  # it has minimised no criterion
    assert np.corrcoef(model.loo_predictions_, y[:200])[0, 1] > 0.9
    np.testing.assert_allclose(model.node_shares_.sum(0), model.exponent_shares_)
    assert model.node_shares_.sum() == pytest.approx(1)
    assert len(model.node_shares_) == sum(len(kernel.W[0]) for kernel in kernels_of(model))


def test_a_planted_interaction_group_is_found():
    """y depends on x0, x1 through their product alone and on x2 by itself; the other columns are noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 8))
    y = np.sign(X[:, 0] * X[:, 1]) * np.abs(X[:, 0] * X[:, 1]) ** 0.5 + 0.3 * X[:, 2]
    model = HGKRegressor(groups={"pair": [0, 1], "alone": [2]}, random_state=0).fit(X, y)
    names = ["pair", "alone", "rest"]
    assert all(list(kernel.architecture.labels) == names for kernel in kernels_of(model))
    nodes = model.node_shares_.sum(1).reshape(-1, 3).sum(0)
    assert nodes[0] > 0.5
    assert nodes[2] < 0.1
    free = HGKRegressor(random_state=0).fit(X, y)
    assert free.exponent_shares_[:2].sum() > 0.6
    assert free.exponent_shares_[3:].sum() < 0.15


def test_the_default_is_not_worse_than_plain_where_there_is_little_to_learn():
    X, y = load_diabetes(return_X_y=True)
    errors = []
    for preset in ("default", "plain"):
        folds = np.arange(len(y)) % 3
        t = np.empty(len(y))
        for b in range(3):
            model = HGKRegressor(preset, random_state=0).fit(X[folds != b], y[folds != b])
            t[folds == b] = model.predict(X[folds == b])
        errors.append(np.mean((t - y) ** 2))
    assert errors[0] < 1.05 * errors[1]


def test_fewer_than_fifty_rows_are_the_plain_machine_on_robust_features():
    X, y = make_friedman1(40, n_features=5, random_state=0)
    model = HGKRegressor(random_state=0).fit(X, y)
    assert model.kernel_.architecture.tied
    assert len(model.machine_.parts) == 5
    plain = HGKRegressor("plain", random_state=0).fit(X, y)  # uniform columns: the same features
    assert model.lam_ == pytest.approx(plain.lam_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-6)


@pytest.fixture
def asked(monkeypatch):
    """The runs of Adam that the default learner asks for."""
    kept = []

    class Noted(Steps):
        def begin(self, *kind):
            kept.append(self)
            return super().begin(*kind)

    monkeypatch.setattr(hgk.learners.default.learner, "Steps", Noted)
    return kept


def test_no_gradient_and_no_width_sees_the_rows_set_aside(asked, monkeypatch):
    """The central promise: everything is learned without the rows that choose."""
    X, y = make_friedman1(3100, n_features=5, random_state=0)
    judged, searched = [], []
    judge, grid = Judge.of, hgk.learners.default.judge.search

    def of(task, *more):
        judged.append((task.rows.X, judge(task, *more)))
        return judged[-1][1]

    def search(kernel, rows, *more, **options):
        searched.append(rows.X)
        return grid(kernel, rows, *more, **options)

    monkeypatch.setattr(Judge, "of", staticmethod(of))
    monkeypatch.setattr(hgk.learners.default.judge, "search", search)
    monkeypatch.setattr(Averages, "clearly_better", lambda *_: True)  # than plain, after two steps
    with default_settings(effort=LearningEffort(9, 2, 50, 2, 60, 3, 60), several=1):  # all kinds are tried
        model = HGKRegressor(random_state=0).fit(X, y)
    (rows, _), _ = judged
    asides, watches = (
        [{tuple(row) for row in rows[getattr(judge, part)].tolist()} for _, judge in judged]
        for part in ("out", "watched")
    )
    assert [len(aside) for aside in asides] == [620, 620]
    assert [len(watched) for watched in watches] == 2 * [Settings().watched]
    assert not asides[0] & asides[1]
    assert not any(aside & watched for aside, watched in zip(asides, watches, strict=True))
    # four kinds without each of two folds, two rounds; then both kernels of those chosen, on all rows
    at = next(i for i, event in enumerate(model.history_) if isinstance(event, Chosen))
    chosen = list(model.history_[at].candidates)
    assert len(asked) == 16 + 2 * len(chosen) > 16
    assert all(len(run.rows) == len(rows) and run.watched is None for run in asked[16:])
    steps = [(i, event) for i, event in enumerate(model.history_) if isinstance(event, Step)]
    last_steps = [(i, event.candidate) for i, event in steps if event.fold is None]
    assert min(last_steps)[0] > at
    assert sorted(candidate for _, candidate in last_steps) == sorted(6 * chosen)
    folds = []
    for run in asked[:16]:
        table = {tuple(row) for row in run.rows.X.tolist()}
        folds.append(watches.index({tuple(row) for row in run.watched.X.tolist()}))
        assert not table & asides[folds[-1]]
        assert not table & watches[folds[-1]]
    assert sorted(folds) == 8 * [0] + 8 * [1]
    assert not {tuple(row) for row in searched[0].tolist()} & (asides[0] | asides[1])
    assert {event.candidate for _, event in steps} == {"all kinds", "oblique", "maps", "warped", REMAINDER}


def test_many_features_bring_further_steps_and_a_further_kind():
    few, many = features(*["scaled"] * 32 + ["step"] * 90), features(*["scaled"] * 64 + ["step"] * 9)
    assert (columns_of(few), columns_of(many)) == (32, 64)
    kinds = [[kind.name for kind in kinds_for(5000, f, Settings())] for f in (few, many)]
    assert kinds == [["all kinds", "maps", "warped"], ["all kinds", "maps", "oblique", "warped"]]
    efforts = [usual_effort(5000, columns) for columns in (32, 48, 64)]
    assert efforts == sorted(efforts, key=lambda effort: (effort.last_steps, effort.last_batch))
    assert len({effort.last_batch for effort in efforts}) == len({effort.last_steps for effort in efforts}) == 3
    assert usual_effort(5000, 64) == usual_effort(5000, 640)
    assert usual_effort(5000, 32, 26).more_steps < usual_effort(5000, 32, 7).more_steps
    assert usual_effort(5000, 32, 7) == usual_effort(5000, 32)


def test_the_last_round_moves_learned_kernels_a_little_with_the_noise_of_the_judge(asked):
    rows, tree, rng = random_rows(200), ARCHITECTURES["all kinds"], np.random.default_rng(0)
    kernel = HierarchicalKernel(tree, tree.start(rows.spread, rng))
    fit = Fit(Default(), task_of(rows, [1e-3]), rng, Progress(), Threads(2, inner=1))
    plain, other = (Trial(name, [kernel], 1e-4, rows.Y, 50) for name in ("plain", "all kinds"))
    effort = LearningEffort(9, 1, 50, 1, 50, 4, 75)
    same, moved = fit.last_round([plain, other], effort, None)
    assert same is plain
    assert moved.name == "all kinds"
    (run,) = asked
    assert (run.settings.steps, run.settings.batch, len(run.rows)) == (4, 75, 200)
    assert 75 * run.lam == pytest.approx(200 * 1e-4)  # c
    for now, then in zip(moved.kernels[0].W[:2], kernel.W[:2], strict=True):
        live = then > 0
        assert torch.equal(now > 0, live)
        assert 0 < float((now[live] / then[live]).log().abs().max()) < 4 * run.settings.rate
    assert fit.last_round([plain], effort, None) == [plain]
    assert len(asked) == 1


def test_runs_in_turns_end_where_they_end_alone():
    rows, tree = random_rows(80), ARCHITECTURES["all kinds"]

    def runs():
        for seed, steps in enumerate((3, 5, 4)):
            rng = np.random.default_rng(seed)
            kernel = HierarchicalKernel(tree, tree.start(rows.spread, rng))
            yield Steps(Adam(steps, 40), kernel, rows, rng, Progress())

    with arrays.threads(1):  # more of them add up in another order
        alone = [run.alone().result() for run in runs()]
    for workers in (1, 2, 5):
        together = Threads(workers, inner=1).fulfil(list(runs()))
        assert [run.step for run in together] == [3, 5, 4]
        for run, kernel in zip(together, alone, strict=True):
            for now, then in zip(run.result().W, kernel.W, strict=True):
                torch.testing.assert_close(now, then)


def test_no_last_round_with_a_loss_whose_machines_are_judged_on_the_rows_set_aside(monkeypatch):
    X, y = make_friedman1(200, n_features=5, random_state=0)
    monkeypatch.setattr(Averages, "clearly_better", lambda *_: True)  # than plain, after two steps
    for loss, taken in (("least_squares", True), ("hinge", False)):
        with default_settings(effort=LearningEffort(9, 2, 50, 0, 0, 3, 60)):
            model = HGKClassifier(loss=loss, random_state=0).fit(X, y > np.median(y))
        assert any(event.fold is None for event in of_kind(model.history_, Step)) == taken


def test_a_fit_stopped_between_folds_keeps_the_folds_that_are_through():
    X, y = make_friedman1(150, n_features=5, noise=0.1, random_state=0)
    stop = {"after": 0}

    def callback(event):
        stop["after"] += isinstance(event, Step) and event.fold == 1
        return stop["after"] > 0

    with pytest.warns(StoppedEarlyWarning):
        model = HGKRegressor(callback=callback, random_state=0, n_jobs=1).fit(X, y)
    chosen = last(model.history_, Chosen).candidates
    assert "mixed" in chosen
    assert len(model.machine_.terms) == len(chosen)  # of the first fold alone
    assert {event.fold for event in of_kind(model.history_, Step)} == {0, 1}


def test_a_tied_tree_stays_tied_and_given_groups_are_kept():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(80, 4)), rng.standard_normal(80)
    tied = HGKRegressor(architecture=isotropic(4), random_state=0).fit(X, y).kernel_
    assert len(torch.unique(tied.W[0])) == 1
    grouped = kernels_of(HGKRegressor(groups={"a": [0, 1]}, random_state=0).fit(X, y))  # labels are noise
    assert {kernel.architecture.labels for kernel in grouped} == {("a", "rest")}


def test_other_backends_of_joblib_do_not_break_a_fit():
    X, y = make_friedman1(80, n_features=5, random_state=0)
    with parallel_config(backend="loky"):
        assert HGKRegressor(random_state=0, n_jobs=2).fit(X, y).score(X, y) > 0.5


def test_a_callback_that_raises_stops_the_other_threads_too():
    X, y = make_friedman1(300, n_features=5, random_state=0)
    events = []

    def callback(event):
        events.append(event)
        if len(events) == 5:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        HGKRegressor(callback=callback, n_jobs=2, random_state=0).fit(X, y)
    time.sleep(0.5)
    assert len(events) < 12


def test_stopped_at_once_the_default_returns_the_plain_machine_and_says_so():
    X, y = make_friedman1(80, n_features=5, random_state=0)
    with pytest.warns(StoppedEarlyWarning):
        model = HGKRegressor(callback=lambda event: True, random_state=0).fit(X, y)
    assert last(model.history_, Chosen).candidates
    assert np.isfinite(model.predict(X)).all()


def test_groups_become_nodes_of_the_default():
    X, y = make_friedman1(150, n_features=6, random_state=0)
    model = HGKRegressor(groups={"pair": [0, 1]}, random_state=0).fit(X, y)
    owner = model.model_.inputs.encoder.owner
    for kernel in kernels_of(model):
        sets = [{int(owner[f]) for f in c} for c in kernel.architecture.coordinates]
        assert sets == [{0, 1}, {2, 3, 4, 5}]


def test_the_same_seed_gives_the_same_default_whatever_the_number_of_threads():
    X, y = make_friedman1(120, n_features=5, random_state=0)
    one, two = (HGKRegressor(random_state=3, n_jobs=jobs).fit(X, y).predict(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_repeated_row_is_a_row_of_weight_two_for_the_default():
    X, y = make_friedman1(70, n_features=5, random_state=0)
    weight = np.where(np.arange(70) % 3, 1, 2)
    repeated = np.repeat(np.arange(70), weight)
    one = HGKRegressor(random_state=0).fit(X, y, sample_weight=weight).predict(X)
    two = HGKRegressor(random_state=0).fit(X[repeated], y[repeated]).predict(X)
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_a_budget_sets_the_effort():
    X, y = make_friedman1(1200, n_features=6, random_state=0)
    efforts = {}
    for budget in (0.2, 1000.0):
        model = HGKRegressor(time_budget=budget, random_state=0, callback=lambda event: isinstance(event, Step))
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore", StoppedEarlyWarning)  # the effort is planned before the first step
            patch.setattr("hgk.learners.default.effort._seconds_per_step", lambda *_: 0.01)  # whatever the machine
            efforts[budget] = last(model.fit(X, y).history_, Planned)
    assert efforts[0.2].kinds < efforts[1000.0].kinds
    assert efforts[0.2].steps < efforts[1000.0].steps
    assert efforts[0.2].batch < efforts[1000.0].batch
    model = HGKRegressor(time_budget=0.5, random_state=0).fit(X, y)  # no warning: the budget was asked for
    assert model.score(X, y) > 0.5


def test_many_rows_go_to_centres_with_one_line_of_information(monkeypatch, caplog):
    monkeypatch.setattr(arrays.memory, "EXACT", 1000)
    X, y = make_friedman1(2500, n_features=5, noise=0.5, random_state=0)
    with quickly(), caplog.at_level("INFO", logger="hgk"):
        model = HGKRegressor(random_state=0).fit(X[:2000], y[:2000])
    assert len([r for r in caplog.records if "more than the exact machine takes" in r.message]) == 1
    assert isinstance(model.machine_, OnCentres)
    assert model.alpha_.shape == (len(model.machine_.X),)
    assert model.score(X[2000:], y[2000:]) > 0.9
    assert np.corrcoef(model.loo_predictions_, y[:2000])[0, 1] > 0.95
    low, high = model.predict_interval(X[2000:], 0.8).T
    assert 0.7 < ((low <= y[2000:]) & (y[2000:] <= high)).mean() < 0.9


# ------------------------------------------------------------------------------------ intervals, probabilities


@pytest.mark.parametrize("preset", ["plain", "default"])
def test_intervals_cover_new_rows(preset):
    """Over 6 draws of 150 training rows and 300 new ones: the standard error of the mean coverage is about 0.015."""
    covered = []
    for seed in range(6):
        X, y = make_friedman1(450, n_features=5, noise=2.0, random_state=seed)
        model = HGKRegressor(preset, random_state=0).fit(X[:150], y[:150])
        low, high = model.predict_interval(X[150:], 0.8).T
        covered.append(((low <= y[150:]) & (y[150:] <= high)).mean())
        assert (low < high).all()
    assert 0.72 < np.mean(covered) < 0.88


def test_intervals_widen_with_coverage_and_follow_the_units_and_outputs():
    X, y = make_friedman1(120, n_features=5, noise=1.0, random_state=0)
    model = HGKRegressor("plain", random_state=0).fit(X, y)
    narrow, wide = model.predict_interval(X[:20], 0.5), model.predict_interval(X[:20], 0.9)
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (wide[:, 1] >= narrow[:, 1]).all()
    other = HGKRegressor("plain", random_state=0).fit(X, np.column_stack([y, 10 * y + 3]))
    both = other.predict_interval(X[:20], 0.5)
    assert both.shape == (20, 2, 2)
    np.testing.assert_allclose(both[:, 1], 10 * both[:, 0] + 3, rtol=1e-6)
    assert np.isinf(model.predict_interval(X[:2], 0.999)).all()  # 120 rows cannot promise that
    weighted = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=np.full(120, 1 / 120))
    widths = [np.diff(bounds, axis=1).mean() for bounds in (weighted.predict_interval(X[:20], 0.5), narrow)]
    assert widths[0] == pytest.approx(widths[1], rel=0.2)  # weights count relative to each other
    with pytest.raises(ValueError, match="coverage=90 was given"):
        model.predict_interval(X, 90)


def test_probabilities_are_calibrated_by_leave_one_out_values():
    """Overfitting least squares claims too much; its leave-one-out values do not."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 4))
    p = 1 / (1 + np.exp(-4 * X[:, 0] - 2 * X[:, 1]))
    y = (rng.random(900) < p).astype(int)
    kernel = HierarchicalKernel.of(inhomogeneous(4), [[4.0] * 4])  # too narrow
    model = HGKClassifier(kernel=kernel, lam=1e-8, random_state=0).fit(X[:300], y[:300])
    raw = ((model.decision_function(X[300:]) + 1) / 2).clip(1e-3, 1 - 1e-3)
    calibrated = model.predict_proba(X[300:])
    assert log_loss(y[300:], calibrated) < 0.9 * log_loss(y[300:], raw)
    sure = calibrated.max(1) > 0.8  # what it claims is true, to the sampling error of about 0.03
    assert sure.sum() > 100
    assert (calibrated.argmax(1) == y[300:])[sure].mean() == pytest.approx(calibrated.max(1)[sure].mean(), abs=0.09)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_calibration_minimises_the_logarithmic_loss(classes):
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, (500, 1 if classes == 2 else classes))
    g = np.where(t > 0, 3.0 * t, 1.5 * t)
    if classes == 2:
        Y = np.where(rng.random((500, 1)) < 1 / (1 + np.exp(-g)), 1.0, -1.0)
    else:
        P = np.exp(g) / np.exp(g).sum(1, keepdims=True)
        Y = 2 * np.eye(classes)[[rng.choice(classes, p=row) for row in P]] - 1
    found = Calibration.of(t, Y, np.ones(500))
    assert found.above == pytest.approx(3.0, rel=0.35)
    assert found.below == pytest.approx(1.5, rel=0.35)
    column = Y.argmax(1) if classes > 2 else (Y[:, 0] > 0).astype(int)

    def loss(calibration):
        slopes = np.array([calibration.above, calibration.below])
        prior = (slopes - 1 - np.log(slopes)).sum()  # as much as one row each
        return -np.log(calibration.probabilities(t))[np.arange(500), column].sum() + prior

    for factor in (0.95, 1.05):
        assert loss(found) <= loss(Calibration(factor * found.above, found.below)) + 1e-3
        assert loss(found) <= loss(Calibration(found.above, factor * found.below)) + 1e-3
    weight = rng.integers(1, 4, 500)
    weighted, repeated = (
        Calibration.of(t, Y, weight),
        Calibration.of(*(np.repeat(a, weight, 0) for a in (t, Y, weight * 0 + 1))),
    )
    # but for the prior, which is one row of those that the weights amount to
    assert weighted.above == pytest.approx(repeated.above, rel=0.03)
    assert weighted.below == pytest.approx(repeated.below, rel=0.03)
    np.testing.assert_allclose(found.probabilities(t).sum(1), 1)
    best = found.probabilities(t).argmax(1)
    assert np.array_equal(best, t.argmax(1) if classes > 2 else (t[:, 0] > 0).astype(int))


@pytest.mark.parametrize("estimates", [True, False])
def test_slopes_claim_what_rows_without_an_error_can_show(estimates):
    """What n rows that are all right cost does not depend on n: about as much as one wrong row."""
    rng = np.random.default_rng(0)
    lost = []
    for n in (20, 200, 2000):
        Y = np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0)
        t = Y * rng.uniform(0.8, 1.0, (n, 1)) * (1 if estimates else 4)
        found = Calibration.of(t, Y, np.ones(n), estimates=estimates)
        p = found.probabilities(t)[np.arange(n), (Y[:, 0] > 0).astype(int)]
        lost.append(-np.log(p).sum())
    assert min(lost) > 0.1  # nats in all
    assert max(lost) < 3


def test_values_of_the_logistic_loss_are_log_odds_unless_many_rows_deny_it():
    rng = np.random.default_rng(0)
    for n, tolerance in ((6, 0.5), (20_000, 0.1)):
        f = rng.normal(scale=2, size=(n, 1))
        Y = np.where(rng.random((n, 1)) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
        found = Calibration.of(f, Y, np.ones(n))
        assert abs(np.log([found.above, found.below])).max() < tolerance
        Y = np.where(rng.random((n, 1)) < 1 / (1 + np.exp(-3 * f)), 1.0, -1.0)
        denied = Calibration.of(f, Y, np.ones(n))
        assert (abs(np.log([denied.above, denied.below]) - np.log(3)).max() < tolerance) == (n > 6)


def test_a_tree_that_was_asked_for_stays_even_without_time():
    X, y = make_friedman1(300, n_features=6, noise=0.5, random_state=0)
    tree = two_layers(X.shape[1], 3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoppedEarlyWarning)
        model = HGKRegressor(architecture=tree, time_budget=1e-3, random_state=0).fit(X, y)
    assert all(len(kernel.architecture.coordinates) == 3 for kernel in kernels_of(model))


def test_the_default_drops_weights_that_hardly_matter():
    X, y = make_friedman1(400, n_features=6, noise=0.5, random_state=0)
    model = HGKRegressor(random_state=0).fit(X, y)
    trees = [kernel.architecture for kernel in kernels_of(model) if kernel.architecture.depth == 2]
    assert trees
    assert all(sum(map(len, tree.coordinates)) < 8 * tree.d for tree in trees)


def test_weights_of_no_weight_do_not_matter():
    X, y = make_friedman1(200, n_features=6, noise=0.5, random_state=0)
    weight = np.ones(200)
    weight[::7] = 1e-46
    model = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight)
    without = HGKRegressor("plain", random_state=0).fit(X[weight == 1], y[weight == 1])
    np.testing.assert_allclose(model.predict(X), without.predict(X), atol=1e-9)


def test_folds_that_have_tried_other_widths_or_lams_are_judged_by_what_they_share():
    """Of repeated rows one fold may have more than another, enough for a second width."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (60, 1))
    rows = Rows(torch.from_numpy(X), torch.from_numpy(y), torch.ones(60, dtype=torch.float64))
    task, settings = task_of(rows, lams=(1e-3, 0.1)), Settings()
    judges = {fold: Judge.of(task, fold, rng, settings) for fold in (0, 1)}
    n = settings.judged_lams
    kernel = plain_kernel(task.features)

    def verdict(risks, fold):
        return Verdict(kernel, 10, 0.1, risks, torch.full((*risks.shape, len(judges[fold].out), 1), 0.1).double())

    first, second = torch.full((2, n), 1.0), torch.full((1, n), 1.0)
    first[0, 3], second[0, 3], first[1, 5] = 0.5, 0.5, 0.0
    trial = trial_of("maps", [verdict(first, 0), verdict(second, 1)], task, judges, settings, Progress())
    assert trial.exponent == 0.0
    assert trial.lam == pytest.approx(float(judge_lams(task, settings)[3]))
    # neither fold has resolved what the other has: all λ are
    first, second = (torch.full((1, n), torch.inf) for _ in range(2))
    first[0, 2], second[0, 9] = 0.5, 0.5
    trial = trial_of("maps", [verdict(first, 0), verdict(second, 1)], task, judges, settings, Progress())
    risks = sum(judge(kernel, task, 10, complete=True)[0] for judge in judges.values())
    assert trial.lam == pytest.approx(float(judge_lams(task, settings)[int(risks[0].argmin())]))
