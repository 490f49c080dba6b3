"""The logistic loss of classes in leaves: the machine against refits of its leaves, decisions, stops and files."""

import itertools
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

import hgk
from hgk import HGKClassifier, StoppedEarlyWarning
from hgk.arrays import memory
from hgk.events import LeavesChosen, LeavesGrown, LeavesJudged, LossesCompared, last, of_kind
from hgk.insight import contributions, influence
from hgk.kernels import HierarchicalKernel, two_layers
from hgk.learners.default import KINDS, leaves_of_classes
from hgk.learners.default.effort import LearningEffort
from hgk.learners.default.leaves import Handed, LeafPlan, best_share, trained
from hgk.learners.default.leaves_of_classes import (
    OF_SQUARES,
    LogisticPlan,
    left_out_log_loss,
    offered,
    trained_on_classes,
)
from hgk.logistic import Expansion, log_losses, zero_or_one
from hgk.machines import ClassesInLeaves, InLeaves, MeanOfMachines, OfClasses, Rows, partition, train_classes
from hgk.report import report
from hgk.solvers.classes import solve_classes
from hgk.storable import Malformed
from hgk.storage.codec import DocumentReader, DocumentWriter
from tasks import default_settings

D = 3
KERNEL = HierarchicalKernel.of(two_layers(D, 3, rng=0), np.full((3, D), 1.3), np.array([0.9, 0.7, 0.5]), gamma=0.8)


def rows_of(n=60, columns=1, seed=0, repeated=True):
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.uniform(-1, 1, (n, D)))
    classes = max(2, columns)
    f = torch.sin(3 * X[:, 0]) + 0.4 * torch.from_numpy(rng.standard_normal(n))
    number = ((f + 1) / 2 * classes).long().clamp(0, classes - 1)
    Y = 2 * torch.nn.functional.one_hot(number, classes).double() - 1
    count = torch.from_numpy(rng.integers(1, 4, n).astype(float)) if repeated else torch.ones(n, dtype=torch.float64)
    weight = count * torch.from_numpy(rng.uniform(0.5, 2, n)) if repeated else count.clone()
    return Rows(X, Y[:, 1:] if columns == 1 else Y, weight, count)


def in_leaves(rows, size=20, index=None):
    """Leaves whose kernels, widths and c differ."""
    parts = partition(rows.X, torch.ones(D), size, np.random.default_rng(0), index=index)
    factors = torch.linspace(0.8, 1.2, len(parts), dtype=torch.float64)
    W = tuple(torch.stack([f * w for f in factors]) for w in KERNEL.W)
    alpha = torch.zeros_like(rows.Y)
    machine = ClassesInLeaves(KERNEL, 0.01, rows.X, alpha, partition=parts, W=W, gammas=0.8 * factors, cs=0.1 * factors)
    for leaf in range(len(parts)):
        alpha[parts.rows(leaf)] = refit(machine, rows[parts.rows(leaf)], leaf).alpha
    return machine


def refit(machine, mine, leaf):
    """The leaf's machine on some rows, at the same c = nλ."""
    return train_classes(machine.kernel_of(leaf), mine, float(machine.cs[leaf]) / float(mine.weight.sum()), tol=1e-12)


def without(rows, i):
    """Without one repetition of row i."""
    m, weight = rows.repetitions.clone(), rows.weight.clone()
    weight[i] *= (m[i] - 1) / m[i]
    m[i] -= 1
    kept = (m > 0).nonzero()[:, 0]
    return replace(rows, weight=weight, count=m)[kept]


# ----------------------------------------------------------------------------------------------------- the machine


@pytest.mark.parametrize("columns", [1, 3])
def test_one_leaf_is_the_machine_on_all_rows(columns):
    rows, X = rows_of(columns=columns), rows_of(20, seed=1).X
    machine = in_leaves(rows, size=60)
    whole = refit(machine, rows, 0)
    assert isinstance(whole, OfClasses)
    assert machine.clip == whole.clip == float("inf")
    torch.testing.assert_close(machine(X), whole(X))
    torch.testing.assert_close(machine.leave_one_out(rows), whole.leave_one_out(rows), atol=1e-5, rtol=1e-5)
    index, close = torch.tensor([3, 20, 41]), {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(machine.without_one(rows, index)[1](X), whole.without_one(rows, index)[1](X), **close)
    torch.testing.assert_close(machine.leave_two_out(rows, index), whole.leave_two_out(rows, index), **close)


@pytest.mark.parametrize("columns", [1, 3])
def test_leaving_out_is_near_refits_of_the_leaf(columns):
    """One Newton step takes away nearly all of what separates f(x_i) from f^(-i)(x_i); other leaves do not notice."""
    rows, X = rows_of(columns=columns), rows_of(40, seed=1).X
    machine, index = in_leaves(rows), torch.arange(0, 60, 7)
    assert len(machine.partition) > 2
    values, elsewhere = machine.without_one(rows, index)
    leaf, at = machine.partition.leaf_of_rows(60), machine.partition.route(X)
    whole, there = machine(X), elsewhere(X)
    own, before, moved, still = 0.0, 0.0, 0.0, 0.0
    for k, i in enumerate(index.tolist()):
        number = int(leaf[i])
        members = machine.partition.rows(number)
        fewer = without(rows[members], int((members == i).nonzero()[0, 0]))
        other, inside = refit(machine, fewer, number), at == number
        truth = other(rows.X[i : i + 1])[0]
        own += float((values[k] - truth).square().sum())
        before += float((machine(rows.X[i : i + 1])[0] - truth).square().sum())
        moved += float((there[:, inside, k].T - other(X[inside])).square().sum())
        still += float((whole[inside] - other(X[inside])).square().sum())
        torch.testing.assert_close(there[:, ~inside, k].T, whole[~inside])
    assert own < 0.1 * before
    assert moved < 0.1 * still
    torch.testing.assert_close(machine.leave_one_out(rows)[index], values, atol=1e-6, rtol=1e-6)


def test_leaving_two_out_of_two_leaves_is_leaving_out_each():
    rows = rows_of()
    machine = in_leaves(rows)
    index = torch.cat([machine.partition.rows(0)[:2], machine.partition.rows(1)[:2]])
    t, (one, _) = machine.leave_two_out(rows, index), machine.without_one(rows, index)
    for a, b in itertools.product(range(4), repeat=2):
        if a // 2 != b // 2 or a == b:
            torch.testing.assert_close(t[:, a, b], one[a])
    leaf = refit(machine, rows[machine.partition.rows(0)], 0)
    both = leaf.leave_two_out(rows[machine.partition.rows(0)], torch.arange(2))
    torch.testing.assert_close(t[:, :2, :2], both, atol=1e-5, rtol=1e-5)


def test_rows_that_no_leaf_has_are_predicted_and_leave_nothing_behind():
    rows = rows_of()
    machine, odd = in_leaves(rows, index=torch.arange(0, 60, 2)), torch.arange(1, 60, 2)
    torch.testing.assert_close(machine.leave_one_out(rows)[odd], machine(rows.X[odd]))


def test_a_file_holds_it_to_the_last_bit_and_refuses_what_does_not_fit():
    rows, X = rows_of(), rows_of(20, seed=1).X
    machine, encoder = in_leaves(rows), DocumentWriter()
    document = encoder(machine)
    again = DocumentReader(encoder.arrays)(document, ClassesInLeaves)
    assert torch.equal(again(X), machine(X))
    again.check(D, rows)
    with pytest.raises(Malformed):
        replace(machine, gap_left=-1.0).check(D, rows)
    with pytest.raises(Malformed):
        replace(machine, cs=-machine.cs).check(D, rows)


# -------------------------------------------------------------------------------------------------------- one leaf


def test_c_of_the_logistic_loss_is_an_eighth_where_both_losses_are_equally_curved():
    """With f = 2t: c t² + (y - t)² and twice c' f² - log p have the same second derivatives at t = 0."""
    c, h = 0.3, 1e-3

    def squares(t):
        return c * t**2 + (1 - t) ** 2

    def logistic(t):
        f = torch.tensor([[2.0 * t]], dtype=torch.float64)
        return 2 * (c * OF_SQUARES * float(f) ** 2 + float(log_losses(f, torch.ones(1, 1).double())))

    of_squares, of_logistic = ((f(h) - 2 * f(0) + f(-h)) / h**2 for f in (squares, logistic))
    assert of_logistic == pytest.approx(of_squares, rel=1e-4)
    at = Expansion(torch.zeros(1, 1).double(), torch.ones(1, 1).double())
    assert 2 * 2**2 * float(at.curved(torch.ones(1, 1).double())) == 2.0  # the loss alone


@pytest.mark.parametrize("columns", [1, 3])
def test_a_leaf_is_the_machine_at_its_c_and_no_worse_than_where_it_began(columns):
    rows, handed = rows_of(200, columns, repeated=False), Handed(KERNEL, 0.4)
    leaf, start = trained_on_classes(handed, rows, 1.0), trained(handed, rows, 1.0)
    K = leaf.kernel.matrix(rows.X)
    assert leaf.kernel.gamma == start.kernel.gamma

    def error(c):
        return left_out_log_loss(solve_classes(K, zero_or_one(rows.Y), rows.weight, c / 200), rows)

    assert error(leaf.c) <= error(start.c * OF_SQUARES) + 1e-4
    exact = train_classes(leaf.kernel, rows, leaf.c / 200)
    torch.testing.assert_close(K @ leaf.alpha, exact(rows.X), atol=1e-2, rtol=1e-2)
    assert trained_on_classes(handed, rows, 1.0, given_c=0.7).c == 0.7


def test_a_leaf_of_one_class_claims_about_half_a_row_of_the_other():
    """1 - p = 2 c f / n where rows are alike; far away nothing is claimed."""
    rows = rows_of(300, repeated=False)
    alike = KERNEL.with_gamma(1e3)
    for Y in (torch.ones(300, 1).double(), torch.tensor([[1.0, -1.0, -1.0]]).double().expand(300, 3)):
        leaf = trained_on_classes(Handed(alike, 0.5), replace(rows, Y=Y), 1.0)
        assert leaf.c == 0.5 * OF_SQUARES  # not tuned: the rows would speak for ever more certainty
        f = alike.matrix(rows.X) @ leaf.alpha
        assert bool(f.isfinite().all())
        if Y.shape[1] == 1:
            other = (-f).sigmoid()
            torch.testing.assert_close(other, 2 * leaf.c * f / 300, rtol=1e-2, atol=0)
            assert 0.1 / 300 < float(other.mean()) < 3 / 300
        else:
            assert 0.1 / 300 < float(1 - f.softmax(1)[:, 0].mean()) < 5 / 300
    narrow = trained_on_classes(Handed(KERNEL, 0.5), replace(rows, Y=torch.ones(300, 1).double()), 1.0)
    far = KERNEL.matrix(torch.full((1, D), 1e3).double(), rows.X) @ narrow.alpha
    assert abs(float(far)) < float((KERNEL.matrix(rows.X) @ narrow.alpha).mean())


def test_a_lacking_class_is_less_likely_than_those_that_are_there():
    rows = rows_of(150, 3, repeated=False)
    Y = torch.cat([rows.Y, -torch.ones(150, 1).double()], 1)
    leaf = trained_on_classes(Handed(KERNEL, 0.4), replace(rows, Y=Y), 1.0)
    p = (leaf.kernel.matrix(rows.X) @ leaf.alpha).softmax(1)
    assert bool((p[:, 3] > 0).all())
    assert float(p[:, 3].mean()) < float(p[:, :3].mean(0).min())


def test_a_row_of_weight_two_is_a_row_given_twice():
    rows = rows_of(80, repeated=False)
    twice = torch.cat([torch.arange(80), torch.arange(0, 80, 3)])
    count = torch.bincount(twice, minlength=80).double()
    once = trained_on_classes(Handed(KERNEL, 0.4), replace(rows, weight=count, count=count), 1.0)
    many = trained_on_classes(Handed(KERNEL, 0.4), rows[twice], 1.0)
    assert once.c == many.c
    f, g = once.kernel.matrix(rows.X) @ once.alpha, many.kernel.matrix(rows.X, rows[twice].X) @ many.alpha
    torch.testing.assert_close(f, g, atol=1e-2, rtol=1e-2)


# ------------------------------------------------------------------------------------------------------- the share


def test_the_share_of_the_machine_on_centres_is_that_of_squares_for_squared_errors(monkeypatch):
    """L_T from one and two partitions is b + v/T."""
    monkeypatch.setattr(leaves_of_classes, "leaf_losses", lambda fit, plan, t, rows: (((t - rows.Y) ** 2).sum(1),) * 2)
    monkeypatch.setattr(leaves_of_classes, "SHARES_BESIDE", tuple(np.linspace(0, 1, 101)))
    rng = np.random.default_rng(0)
    common, whole, one, other, Y = (torch.from_numpy(rng.standard_normal((20_000, 1))) for _ in range(5))
    rows, fit = Rows(Y, Y, torch.ones(20_000).double()), SimpleNamespace(task=SimpleNamespace(clip=float("inf")))
    t_0, t = Y + 0.7 * common + 0.5 * whole, torch.stack([Y + 0.6 * common + 0.8 * e for e in (one, other)])
    judged = SimpleNamespace(plan=LeafPlan(10, 0, 0.1, 10), t=t)
    for partitions in (1, 2, 8):
        offer = offered(fit, judged, t_0, rows, partitions)
        assert offer.share == pytest.approx(best_share(t_0 - Y, t - Y, rows.weight, partitions), abs=0.015)


def test_a_logistic_plan_mixes_as_the_mean_of_machines_does():
    rows, X = rows_of(), rows_of(20, seed=1).X
    one, other, whole = in_leaves(rows), in_leaves(rows, 30), refit(in_leaves(rows, 60), rows, 0)
    plan = replace(LogisticPlan.of(LeafPlan(20, 5, 0.2, 10, 0.5)), unit=3.0)
    assert (plan.size, plan.steps, plan.rate, plan.batch, plan.c) == (20, 5, 0.2, 10, 0.5)
    mean = plan.mean(whole, [one, other], 0.4)
    expected = (0.4 * 3 * whole(X) + 0.6 * (one(X) + other(X)) / 2) / (0.4 * 3 + 0.6)
    torch.testing.assert_close(mean(X), expected)
    assert mean.clip == float("inf")


# ----------------------------------------------------------------------------------------------------- the learner


def bumpy(n, classes=2, seed=0, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    f = np.sin(4 * X[:, 0]) * np.where(X[:, 1] > 0, 1, -1) + 0.5 * X[:, 2] + noise * rng.standard_normal(n)
    return X, np.array(["a", "b", "c"])[np.digitize(f, [0] if classes == 2 else [-0.4, 0.4])]


SMALL = {
    "effort": LearningEffort(1, 10, 201), "kinds": KINDS[2:3], "divided": 600, "leaf_rows": (200,),
    "branch_rows": 400, "centres_beside": 50, "leaf_steps": (3, 3), "leaf_batch": 101,
    "partitions": (2, 2), "leaf_margin": -100.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def beyond_the_exact(monkeypatch):
    monkeypatch.setattr(memory, "EXACT", 400)


def fitted(estimator, X, y, changes=None, **more):
    with default_settings(**SMALL | (changes or {})):
        return estimator.set_params(random_state=0).fit(X, y, **more)


def leaves_of(model):
    return [part for part in model.machine_.parts_of() if isinstance(part, InLeaves)]


def favoured(monkeypatch, logistic):
    """One of both losses is found better, whatever the rows set aside say."""
    usual = leaves_of_classes.offered

    def of(fit, judged, *rest):
        offer = usual(fit, judged, *rest)
        return replace(offer, value=float(isinstance(judged.plan, LogisticPlan) != logistic))

    monkeypatch.setattr(leaves_of_classes, "offered", of)


@pytest.fixture(scope="module", params=[2, 3])
def logistic_fit(request):
    """Rows that repeat, of weights that differ; the machine on centres has a share."""
    X, y = bumpy(900, request.param)
    X, y = np.concatenate([X, X[:60]]), np.concatenate([y, y[30:60], y[30:60]])
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "EXACT", 400)
        favoured(patch, True)
        patch.setattr(leaves_of_classes, "SHARES_BESIDE", (0.3,))
        model = fitted(HGKClassifier(), X, y, sample_weight=weight)
    return model, X, y, weight


def test_the_loss_is_chosen_by_log_loss_and_told(logistic_fit):
    model, *_ = logistic_fit
    said, chosen = last(model.history_, LossesCompared), last(model.history_, LeavesChosen)
    assert said.logistic
    assert chosen.taken
    judged = of_kind(model.history_, LeavesJudged)
    assert all(event.log_loss > 0 for event in judged)
    assert len(leaves_of(model)) == chosen.partitions == 2
    assert all(isinstance(part, ClassesInLeaves) for part in leaves_of(model))
    assert isinstance(model.machine_, MeanOfMachines)
    assert len(model.machine_.parts_of()) == 3
    assert chosen.share == 0.3
    assert not model.model_.target.estimates
    X_new, y_new = bumpy(1500, len(model.classes_), seed=1)
    risk = log_loss(y_new, model.predict_proba(X_new))
    assert model.model_.error()["log_loss"] == chosen.log_loss
    assert said.of_logistic < said.of_squares
    assert chosen.log_loss == pytest.approx(risk, abs=0.15)
    assert risk < (0.55 if len(model.classes_) == 2 else 0.9)


def test_everything_can_be_asked_of_it(logistic_fit, tmp_path):
    model, X, y, _ = logistic_fit
    classes = len(model.classes_)
    assert model.loo_predictions_.shape == ((len(y),) if classes == 2 else (len(y), classes))
    assert np.isfinite(model.loo_predictions_).all()
    assert model.feature_importances_.sum() == pytest.approx(1)
    sums = contributions(model, X[:5], k=None)
    np.testing.assert_allclose(
        sums.base + sums.contribution.sum(-1).reshape(5, -1), model.decision_function(X[:5]).reshape(5, -1), atol=1e-2
    )
    assert influence(model, X[:2]).shape[:2] == (2, len(y))
    for compact in (False, True):
        hgk.save(model, tmp_path / f"{compact}.hgk", compact=compact)
        again = hgk.load(tmp_path / f"{compact}.hgk")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(hgk.load(tmp_path / "False.hgk").loo_predictions_, model.loo_predictions_)
    summary = hgk.storage.describe(tmp_path / "False.hgk")["summary"]
    assert summary["loss"] == "Logistic"
    assert "leaves" in summary["leaves"]
    assert summary["losses"].startswith("logistic")
    assert "Regions" in report(model)


def test_the_order_of_rows_changes_nothing_but_rounding(logistic_fit):
    model, X, y, weight = logistic_fit
    order = np.random.default_rng(0).permutation(len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "EXACT", 400)
        favoured(patch, True)
        patch.setattr(leaves_of_classes, "SHARES_BESIDE", (0.3,))
        other = fitted(HGKClassifier(), X[order], y[order], sample_weight=weight[order])
    # leaves compute in single precision, and weights of repeated rows are added in another order
    np.testing.assert_allclose(other.predict_proba(X[:50]), model.predict_proba(X[:50]), atol=5e-4)


def test_least_squares_is_taken_where_it_is_better(monkeypatch):
    X, y = bumpy(900)
    favoured(monkeypatch, False)
    model, alone = fitted(HGKClassifier(), X, y), fitted(HGKClassifier(loss="least_squares"), X, y)
    assert not last(model.history_, LossesCompared).logistic
    assert last(alone.history_, LossesCompared) is None
    assert all(type(part) is InLeaves for part in leaves_of(model))
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    assert model.model_.target.estimates


def test_the_logistic_loss_is_taken_if_it_was_asked_for(tmp_path):
    X, y = bumpy(900, 3)
    model = fitted(HGKClassifier(loss="logistic"), X, y)
    assert all(type(part) is ClassesInLeaves for part in model.machine_.parts_of())
    assert last(model.history_, LossesCompared) is None
    assert last(model.history_, LeavesChosen).taken
    given = fitted(HGKClassifier(loss="logistic", lam=1e-3), X, y)
    for part in given.machine_.parts_of():
        np.testing.assert_allclose(part.cs, 1e-3 * len(y))
    squares = fitted(HGKClassifier(lam=1e-3), X, y)  # λ is that of least squares
    assert not any(isinstance(part, ClassesInLeaves) for part in squares.machine_.parts_of())


def test_nothing_needs_to_be_compared():
    """A budget that is used up: leaves all the same, with a map to probabilities from leave-one-out values."""
    X, y = bumpy(900)
    model = fitted(HGKClassifier(loss="logistic", time_budget=1e-3), X, y)
    assert all(isinstance(part, ClassesInLeaves) for part in model.machine_.parts_of())
    assert log_loss(y, model.predict_proba(X)) < 0.69
    assert np.isfinite(fitted(HGKClassifier(time_budget=1e-3), X, y).predict_proba(X)).all()


@pytest.mark.parametrize("event", [LeavesGrown, LeavesChosen])
def test_a_stop_keeps_the_leaves_that_are_through(event, monkeypatch, tmp_path):
    X, y = bumpy(1000)
    stopped = HGKClassifier(loss="logistic", callback=lambda told: isinstance(told, event))
    with pytest.warns(StoppedEarlyWarning):
        model = fitted(stopped, X, y, {"leaf_rows": (40,)})
    (machine,) = model.machine_.parts_of()
    if event is LeavesGrown:
        assert 0 < int((machine.partition.sizes > 0).sum()) < len(machine.partition)
        assert isinstance(machine.stand_in, ClassesInLeaves)
        assert last(model.history_, LeavesChosen).stopped
        assert model.model_.error() is None
    else:
        assert len(machine.partition) == 1  # what stands in, alone
    assert model.score(X, y) > 0.7
    assert np.isfinite(model.loo_predictions_).all()
    hgk.save(model, tmp_path / "m.hgk")
    np.testing.assert_array_equal(hgk.load(tmp_path / "m.hgk").predict_proba(X), model.predict_proba(X))


def test_leaves_of_one_class_and_lacking_classes():
    """Classes that lie apart: most leaves have one or two of the three, and one class has few rows."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.3, (n, 2)) for m, n in ((-3, 500), (0, 480), (3, 20))])
    y = np.repeat(["a", "b", "c"], [500, 480, 20])
    model = fitted(HGKClassifier(loss="logistic"), X, y, {"leaf_rows": (100,)})
    p = model.predict_proba(X)
    assert np.isfinite(np.log(p)).all()
    assert model.score(X, y) > 0.98
    assert log_loss(y, p) < 0.1
    sizes = [len(np.unique(y[part.partition.rows(leaf).numpy()])) for part in leaves_of(model)
             for leaf in range(len(part.partition))]  # fmt: skip
    assert min(sizes) == 1


def test_fields_of_the_machine_are_those_of_leaves_and_the_gap():
    """A plan makes the machine from sums field by field."""
    assert [f.name for f in fields(ClassesInLeaves)] == [*(f.name for f in fields(InLeaves)), "gap_left"]
