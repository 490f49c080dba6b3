"""A tree for what the chosen ones leave: residuals of machines that have not seen the rows, its share, and its use."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hgk import HGKRegressor
from hgk.events import Chosen, last, of_kind
from hgk.executor import Threads
from hgk.kernels import HierarchicalKernel, inhomogeneous
from hgk.learners import Default, Settings
from hgk.learners.default.average import Trial
from hgk.learners.default.division import handed
from hgk.learners.default.effort import LearningEffort
from hgk.learners.default.kinds import KINDS
from hgk.learners.default.learner import Fit
from hgk.learners.default.remainder import REMAINDER, leftover, with_remainder
from hgk.machines import Rows
from hgk.progress import Progress
from tasks import default_settings, task_of

D, LAM, LAMS = 6, 1e-3, tuple(10.0 ** np.arange(-7, 1))
# A kernel that sees the first column alone.
FIRST = HierarchicalKernel.of(inhomogeneous(D), [[2.0, *[0.0] * (D - 1)]])
SETTINGS = Settings(many=300, few=100, judge=250, judged=200, watched=100, second_steps=(10, 10), first=(60, 201))


def together_only(n=1200, seed=0, interaction=1.0, frequency=3):
    """The columns 2 and 3 matter together, and not by themselves."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    y = 0.5 * np.sin(frequency * X[:, 0]) + interaction * 0.4 * np.sin(5 * X[:, 2]) * X[:, 3]
    return X, np.clip(y + 0.05 * rng.standard_normal(n), -1, 1)


def fit_of(X, y, settings=SETTINGS, count=None, lams=LAMS):
    weight = torch.ones(len(X), dtype=torch.float64) if count is None else count.clone()
    rows = Rows(torch.from_numpy(X), torch.from_numpy(y).reshape(len(X), -1), weight, count)
    task = task_of(rows, lams=lams)
    fit = Fit(Default(settings), task, np.random.default_rng(0), Progress(), Threads(1))
    return fit, [Trial("first", [FIRST], LAM, torch.zeros_like(rows.Y))]


@pytest.mark.parametrize("repeated", [False, True])
def test_what_is_left_are_errors_of_machines_that_have_not_seen_the_row(repeated):
    X, y = together_only(500)
    count = torch.from_numpy(np.random.default_rng(1).integers(1, 4, len(y)).astype(float)) if repeated else None
    fit, chosen = fit_of(X, y, replace(SETTINGS, judge=100), count)
    left, watched = leftover(fit, chosen, np.random.default_rng(5))
    (judge, _), rows = fit.judges.values(), fit.task.rows
    order = judge.training[torch.from_numpy(np.random.default_rng(5).permutation(len(judge.training)))]
    halves, c = order.chunk(2), LAM * float(rows.weight.sum())
    expected = []
    for half, other in (halves, halves[::-1]):
        seen, new = rows[half[:100]], rows[other]
        A = FIRST.matrix(seen.X) + torch.diag(c / seen.weight)
        expected.append(new.Y - FIRST.matrix(new.X, seen.X) @ torch.linalg.solve(A, seen.Y))
    assert torch.allclose(left.Y, torch.cat(expected), atol=1e-4)  # single precision
    assert torch.equal(left.X, rows.X[torch.cat([halves[1], halves[0]])])
    assert torch.equal(left.repetitions, rows.repetitions[torch.cat([halves[1], halves[0]])])
    # what is watched or set aside, no gradient sees
    assert not set(map(tuple, watched.X.tolist())) & set(map(tuple, left.X.tolist()))
    if not repeated:
        assert not set(map(tuple, rows.X[judge.out].tolist())) & set(map(tuple, left.X.tolist()))


def test_columns_that_matter_only_together_are_found_in_what_is_left():
    X, y = together_only()
    fit, chosen = fit_of(X, y)
    trials = with_remainder(fit, chosen, None)
    assert [t.name for t in trials][:2] == ["first", REMAINDER]
    assert trials[1].remainder
    seen = trials[1].kernels[0].relevance(fit.task.rows.X[:300])
    assert seen[[2, 3]].sum() > 0.8
    # one machine on the mean of both: its kernel's shares, λ of all, and predictions of the rows set aside
    kernels, _ = fit.kernels_of(trials, 250)
    assert [share for _, share in kernels] == [t.share for t in trials]
    assert len({t.lam for t in trials}) == 1
    errors, variance = [], float(fit.task.rows.Y.var())
    for judge in fit.judges.values():
        errors.append(float(((trials[0].t - fit.task.rows.Y)[judge.out] ** 2).mean()))
        assert errors[-1] < 0.3 * variance
    # of the first fold, whose rows no gradient of the remainder has seen
    assert last(fit.progress.history, Chosen).risk == pytest.approx(errors[0])


def test_where_nothing_is_left_but_noise_the_trials_stay():
    X, y = together_only(interaction=0.0)
    fit, chosen = fit_of(X, y)
    assert with_remainder(fit, chosen, None) == chosen
    assert not of_kind(fit.progress.history, Chosen)


@dataclass
class NoTime:
    """A budget of which nothing is left."""

    slowness: float = 1.0
    left: float = 1.0

    def steps(self, steps, batch, kinds):
        return 1e9

    def judging(self, kinds, folds, workers):
        return 0.0


@pytest.mark.parametrize("lams", [(1e-4,), LAMS])
def test_a_given_lam_stays_and_several_outputs_are_left_together(lams):
    X, y = together_only()
    fit, chosen = fit_of(X, np.column_stack([y, -0.5 * y]), lams=lams)
    trials = with_remainder(fit, chosen, None)
    assert trials[-1].remainder
    assert trials[0].t.shape == (len(y), 2)
    assert all(t.lam in lams or len(lams) > 1 for t in trials)


def test_last_steps_begin_with_lam_for_the_kernels_part():
    """As leaves do, see below; the tree for what is left takes none."""
    X, y = together_only()
    fit, chosen = fit_of(X, y)
    trials = with_remainder(fit, chosen, None)
    asked = []

    class Asked(Exception):
        pass

    def fulfil(requests):
        asked.extend(requests)
        raise Asked

    fit.executor = SimpleNamespace(fulfil=fulfil)
    with pytest.raises(Asked):
        fit._last_steps(trials, LearningEffort(1, 5, 101, last_steps=3, last_batch=200), None)
    (request,), n = asked, len(y)
    (first,) = handed(trials, n)
    assert request.lam * 200 == pytest.approx(first.c)


def test_few_rows_a_given_tree_and_no_time_leave_nothing_to_look_for():
    X, y = together_only()
    fit, chosen = fit_of(X, y)
    assert with_remainder(fit, chosen, NoTime()) is chosen
    fit.progress.stopped = True
    assert with_remainder(fit, chosen, None) is chosen
    fit, chosen = fit_of(X, y, replace(SETTINGS, many=5000))
    assert with_remainder(fit, chosen, None) is chosen
    fit, chosen = fit_of(X, y, replace(SETTINGS, remainders=0))
    assert with_remainder(fit, chosen, None) is chosen
    fit, chosen = fit_of(X, y)
    fit.learner = replace(fit.learner, build=KINDS[0].build)
    assert with_remainder(fit, chosen, None) is chosen


def test_leaves_begin_with_the_other_kernels_and_c_for_their_part():
    """p k and c have the same machine as k and c / p."""
    trial = Trial("first", [FIRST], LAM, torch.zeros(1, 1), share=3.0)
    left = replace(trial, name=REMAINDER, share=1.0, remainder=True)
    (alone,), (part,) = handed([trial], 100.0), handed([trial, left], 100.0)
    assert alone.c == pytest.approx(100 * LAM)
    assert part.c == pytest.approx(100 * LAM / 0.75)
    assert part.kernel is FIRST


def test_a_fit_with_what_is_left_can_be_asked_everything(tmp_path):
    import hgk

    X, y = together_only(900, frequency=12)
    build = KINDS[2].build
    first = replace(KINDS[2], build=lambda features: build(features) if REMAINDER in asked else narrow(features))
    asked: list[str] = []

    def narrow(features):
        """What the first tree sees: one column."""
        asked.append(REMAINDER)
        architecture = inhomogeneous(len(features))
        return replace(architecture, coordinates=((0, 1),))

    changes = {"effort": LearningEffort(1, 20, 201), "kinds": (first,), "many": 300, "few": 100, "judge": 300}
    with default_settings(**changes, first=(60, 201), second_steps=(10, 10)):
        model = HGKRegressor(random_state=0).fit(X, y)
    assert REMAINDER in last(model.history_, Chosen).candidates
    assert model.loo_predictions_.shape == (900,)
    assert model.predict_interval(X[:3]).shape == (3, 2)
    hgk.save(model, tmp_path / "model.hgk")
    loaded = hgk.load(tmp_path / "model.hgk")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert model.exponent_shares_.sum() == pytest.approx(1)
