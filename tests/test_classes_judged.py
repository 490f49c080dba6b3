"""Kernels of classes are compared by the log-loss of rows set aside, in as many folds as their columns allow."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

from hgk import HGKClassifier
from hgk.events import Chosen, ClassesJudged, Judged, LossesCompared, last, of_kind
from hgk.learners import Settings
from hgk.learners.default.average import Averages, Trial, choose_kinds, trial_of
from hgk.learners.default.judge import Judge, Verdict, judge_lams
from hgk.learners.default.kinds import plain_kernel
from hgk.machines import Rows
from hgk.progress import Progress
from hgk.targets import Calibration, Classes
from tasks import quickly, task_of

N = 2000


def two_predictions():
    """Rows of two classes, and values that are sure and wrong in 1.5 % of them, or say nothing of 8 %: the first have
    the smaller squared error, .06 of .08, the second the smaller log-loss, .055 of .078.
    """
    rng = np.random.default_rng(0)
    y = torch.from_numpy(np.where(rng.random((N, 1)) < 0.5, 1.0, -1.0))
    order = torch.from_numpy(rng.permutation(N))
    sure, unsure = y.clone(), y.clone()
    sure[order[: 3 * N // 200]] *= -1
    unsure[order[: 2 * N // 25]] = 0
    rows = Rows(torch.from_numpy(rng.normal(size=(N, 2))), y, torch.ones(N).double())
    return rows, sure, unsure


def task_of_classes(rows, **more):
    return task_of(rows, target=Classes(np.array([0, 1])), **more)


def judges_of_all(settings):
    index = torch.arange(N)
    return {0: Judge(index, index, index, index[:0], False, settings)}


def test_log_loss_chooses_kinds():
    rows, sure, unsure = two_predictions()
    task, judges = task_of_classes(rows), judges_of_all(Settings())
    plain, one, other = (Trial(n, [], 0.1, t) for n, t in (("plain", 0 * sure), ("sure", sure), ("unsure", unsure)))
    averages = Averages(task, judges)
    assert ((sure - rows.Y) ** 2).mean() < ((unsure - rows.Y) ** 2).mean()
    assert averages.risk([other]) < 0.8 * averages.risk([one])
    assert [t.name for t in choose_kinds([plain, one, other], task, judges, Progress(), 1)] == ["unsure"]
    as_numbers = task_of(rows)
    assert [t.name for t in choose_kinds([plain, one, other], as_numbers, judges, Progress(), 1)] == ["sure"]


def test_losses_are_those_of_slopes_of_the_other_half():
    rows, sure, unsure = two_predictions()
    t = 0.7 * sure + 0.3 * unsure
    target = Classes(np.array([0, 1]))
    losses, squares = target.crossed(t, rows)
    number = (rows.Y[:, 0] > 0).long().numpy()
    place = np.empty(N, dtype=int)  # rows of a class take turns
    for k in (0, 1):
        place[number == k] = np.arange((number == k).sum())
    offset = (number == 0).sum() * (number == 1)
    half = (place + offset) % 2
    for mine in (0, 1):
        other = half != mine
        slopes = Calibration.of(t[other].numpy(), rows.Y[other].numpy(), np.ones(other.sum()), other.sum(), True)
        p = slopes.probabilities(t.numpy())
        np.testing.assert_allclose(losses[~other], -np.log(p[np.arange(N), number])[~other], rtol=1e-6)
        np.testing.assert_allclose(squares[~other], (2 * p[:, 1] - 1 - rows.Y[:, 0].numpy())[~other] ** 2, atol=1e-9)


def test_log_loss_chooses_lambda_among_those_that_squares_allow():
    rows, sure, unsure = two_predictions()
    settings = Settings()
    task = task_of_classes(rows, lams=(1e-3, 0.1))
    judges, n = judges_of_all(settings), settings.judged_lams

    def chosen(risk_of_unsure, task):
        risks, predictions = torch.full((1, n), torch.inf), torch.zeros(1, n, N, 1).double()
        for place, t, risk in ((2, sure, 0.0600), (9, unsure, risk_of_unsure)):
            risks[0, place], predictions[0, place] = risk, t
        verdict = Verdict(plain_kernel(task.features), 10, 0.1, risks, predictions)
        return trial_of("maps", [verdict], task, judges, settings, Progress()).lam

    lams = judge_lams(task, settings)
    assert chosen(0.0615, task) == pytest.approx(lams[9])
    assert chosen(0.0650, task) == pytest.approx(lams[2])  # whose squared error is no longer near the smallest
    assert chosen(0.0615, replace(task, target=task_of(rows).target)) == pytest.approx(lams[2])


@pytest.mark.parametrize(("classes", "folds"), [(2, 2), (3, 2), (4, 1)])
def test_two_folds_are_set_aside_for_few_classes(classes, folds):
    X, y = make_classification(1200, 5, n_informative=4, n_redundant=0, n_classes=classes, random_state=0)
    with quickly():
        model = HGKClassifier(random_state=0).fit(X, y)
    judged = last(model.history_, ClassesJudged)
    assert judged.rows == pytest.approx(1200 * folds / 5, abs=3 * classes)
    compared = last(model.history_, LossesCompared)
    assert compared.rows == pytest.approx(1200 / 5, abs=3 * classes)  # machines of the first fold are compared
    kind, chosen = of_kind(model.history_, Judged)[-1], last(model.history_, Chosen)
    assert 0 < chosen.log_loss <= kind.log_loss + 1e-9
    kernels = len(model.machine_.terms)
    assert kernels % folds == 0 or kernels == 1
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)


def test_all_folds_speak_of_what_was_compared_on_few_rows():
    X, y = make_classification(300, 4, n_informative=4, n_redundant=0, random_state=0)
    model = HGKClassifier(random_state=0).fit(X, y)
    assert last(model.history_, LossesCompared).rows == last(model.history_, ClassesJudged).rows
