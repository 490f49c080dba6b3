"""Any convex loss in leaves: every leaf's machine by brute force, what was held out, repeated rows, stops and files."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hgk
from hgk import HGKClassifier, HGKQuantileRegressor, HGKRegressor, HierarchicalKernel, StoppedEarlyWarning
from hgk.arrays import memory
from hgk.events import LeavesChosen, LeavesGrown, last
from hgk.kernels import two_layers
from hgk.learners.default import KINDS
from hgk.learners.default.effort import LearningEffort
from hgk.learners.default.leaves import Handed, HandingTree, LeafPlan
from hgk.learners.default.leaves_of_loss import leaf_of_loss
from hgk.losses import Hinge, Logistic, Pinball
from hgk.machines import InLeaves, LossInLeaves, MeanOfMachines, Rows, partition, train
from hgk.progress import Progress
from hgk.report import report
from hgk.search import Convex
from hgk.storable import Malformed
from tasks import default_settings

SMALL = {
    "effort": LearningEffort(1, 8, 101), "kinds": KINDS[2:3], "leaf_rows": (120,), "leaf_of_loss": 120,
    "branch_rows": 300, "leaf_batch": 101, "leaf_steps": (3, 3),
}  # fmt: skip


@pytest.fixture(autouse=True)
def beyond_the_exact(monkeypatch):
    monkeypatch.setattr(memory, "EXACT", 400)


def bumpy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    f = np.sin(4 * X[:, 0]) * np.where(X[:, 1] > 0, 1, -1) + 0.5 * X[:, 2]
    return X, f + 0.2 * rng.standard_normal(n)


def fitted(estimator, X, y, **more):
    with default_settings(**SMALL):
        return estimator.set_params(random_state=0).fit(X, y, **more)


def leaves_of(model):
    parts = model.machine_.parts_of()
    assert all(isinstance(part, LossInLeaves) for part in parts)
    return parts


WAYS = {
    "quantiles": (HGKQuantileRegressor(quantiles=(0.1, 0.5, 0.9)), lambda y: y),
    "expectile": (HGKRegressor(loss="expectile", tau=0.7), lambda y: y),
    "hinge": (HGKClassifier(loss="hinge"), lambda y: y > 0),
    "squared hinge, three classes": (HGKClassifier(loss="squared_hinge"), lambda y: np.digitize(y, [-0.5, 0.5])),
    "hinge, pairs of three classes": (
        HGKClassifier(loss="hinge", multi_class="ava"),
        lambda y: np.digitize(y, [-0.5, 0.5]),
    ),
}


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    """A fit with rows that repeat, of weights that differ."""
    estimator, label = WAYS[request.param]
    X, y = bumpy(700)
    X, y = np.concatenate([X, X[:60], X[:60]]), np.concatenate([y, y[:30], y[:30] + 0.3, y[:60]])
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "EXACT", 400)
        return fitted(estimator, X, label(y), sample_weight=weight), label


def test_every_loss_takes_more_rows_than_a_kernel_matrix(way, tmp_path):
    model, label = way
    assert isinstance(model.machine_, MeanOfMachines)
    assert len(leaves_of(model)) == last(model.history_, LeavesChosen).partitions == 2
    assert all(0 < int(part.partition.sizes.max()) <= 120 for part in leaves_of(model))
    X_new, y_new = bumpy(600, seed=1)
    if isinstance(model, HGKClassifier):
        score = model.score(X_new, label(y_new))
        assert score > (0.85 if len(model.classes_) == 2 else 0.7)
        assert model.model_.error()["wrong"] == pytest.approx(1 - score, abs=0.08)
        assert model.predict_proba(X_new).sum(1) == pytest.approx(1)
    elif isinstance(model, HGKQuantileRegressor):
        low, _, high = model.predict(X_new).T
        assert 0.7 < ((low < y_new) & (y_new < high)).mean() < 0.9
    else:
        assert np.corrcoef(model.predict(X_new), y_new)[0, 1] > 0.9
    hgk.save(model, tmp_path / "m.hgk")
    again = hgk.load(tmp_path / "m.hgk")
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))
    hgk.save(model, tmp_path / "c.hgk", compact=True)
    np.testing.assert_array_equal(hgk.load(tmp_path / "c.hgk").predict(X_new), model.predict(X_new))
    assert "leaves" in hgk.storage.describe(tmp_path / "m.hgk")["summary"]["leaves"]
    if isinstance(model, HGKClassifier | HGKRegressor) and getattr(model, "multi_class", "ovr") == "ovr":
        assert "Regions" in report(model)
    with pytest.raises(ValueError, match="exact for least squares alone"):
        model.machine_.without_one(model.model_.training.rows, torch.arange(2))


def test_only_rows_that_no_kernel_has_seen_speak_for_the_model(way):
    model, _ = way
    machine, rows = model.machine_, model.model_.training.rows
    unseen, t = model.model_.unseen()
    assert 0.1 * rows.given < unseen.given < 0.35 * rows.given
    assert bool(t.isfinite().all())
    assert torch.equal(machine.aside, machine.parts_of()[0].aside)


def _classes():
    X, y = bumpy(600)
    return X, (y > 0).astype(int)


LOSSES = {"hinge": Hinge(), "logistic": Logistic(), "pinball": Pinball(0.3)}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_leaf_is_the_mean_of_machines_without_one_fold_each(loss):
    """α and what was held out, against machines that are trained one by one."""
    X, y = bumpy(200)
    rows = Rows(torch.from_numpy(X), torch.from_numpy(np.sign(y))[:, None], torch.ones(200, dtype=torch.float64))
    problem, fold_of, c = Convex(loss), np.arange(200) % 5, torch.tensor([2.0], dtype=torch.float64)
    kernel, members = _kernel(), torch.arange(0, 200, 2)
    _, machine = leaf_of_loss(problem, Handed(kernel, 1.0), rows[members], fold_of[members], c)
    mine, mean = rows[members], torch.zeros(100, 1, dtype=torch.float64)
    K = kernel.matrix(mine.X)
    for fold in range(5):
        part = torch.from_numpy(np.flatnonzero(fold_of[members] != fold))
        lam = 2.0 / 100  # the same λ in all folds, as for the machine on all rows
        alpha, _ = problem.solve(K[part][:, part], mine.Y[part], mine.weight[part], (lam,), 1e-9)
        mean[part] += alpha / 5
        out = torch.from_numpy(np.flatnonzero(fold_of[members] == fold))
        torch.testing.assert_close(machine.held_out[out], K[out][:, part] @ alpha, atol=2e-3, rtol=0)
    torch.testing.assert_close(K @ machine.alpha, K @ mean, atol=2e-3, rtol=0)


def _kernel():
    return HierarchicalKernel.of(two_layers(3, 2, 3), np.full((2, 3), 1.2), np.ones(2))


def test_steps_do_not_see_the_rows_set_aside():
    X, y = bumpy(300)
    rows = Rows(torch.from_numpy(X), torch.from_numpy(y)[:, None] / 2, torch.ones(300, dtype=torch.float64))
    seen = torch.arange(300) % 5 != 0
    other = replace(rows, Y=torch.where(seen[:, None], rows.Y, -rows.Y))
    parts = partition(rows.X, torch.ones(3), 100, np.random.default_rng(0))
    plan = LeafPlan(100, 4, 0.2, 40)

    def learned(rows, *seen):
        return HandingTree(rows, parts, 0, 0.1, Progress(), *seen).learn(-1, Handed(_kernel(), 0.1), plan).kernel

    assert all(map(torch.equal, learned(rows, seen).W, learned(other, seen).W))
    assert not torch.equal(learned(rows).W[0], learned(other).W[0])


def test_pieces_of_repeated_rows_gathered_are_the_same_function():
    X, y = bumpy(60)
    origin = torch.cat([torch.arange(60), torch.arange(20)])
    pieces = Rows(
        torch.from_numpy(X)[origin], torch.from_numpy(y)[origin][:, None], torch.ones(80, dtype=torch.float64)
    )
    parts = partition(pieces.X, torch.ones(3), 30, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    alpha, held_out = (torch.from_numpy(rng.standard_normal((80, 1))) for _ in range(2))
    many = len(parts)
    machine = LossInLeaves(
        _kernel(), 0.1, pieces.X.float(), alpha, partition=parts, W=(), gammas=torch.ones(many, dtype=torch.float64),
        cs=torch.ones(many, dtype=torch.float64), loss=Pinball(0.5), lams=(0.1,), held_out=held_out,
        aside=(torch.arange(80) % 5 == 0).double(),
    )  # fmt: skip
    gathered = machine.gathered(pieces, origin, 60)
    new = torch.from_numpy(bumpy(40, seed=2)[0])
    torch.testing.assert_close(gathered(new), machine(new), atol=1e-5, rtol=1e-5)
    gathered.check(3, replace(pieces[:60], Y=pieces.Y[:60]))
    with pytest.raises(Malformed):
        replace(gathered, held_out=None).check(3, pieces[:60])


def test_a_stop_keeps_the_leaves_that_are_through_and_another_machine_stands_in(tmp_path):
    X, y = bumpy(1000)
    stopped = HGKClassifier(loss="hinge", callback=lambda event: isinstance(event, LeavesGrown))
    with pytest.warns(StoppedEarlyWarning):
        model = fitted(stopped, X, y > 0)
    (leaves,) = leaves_of(model)
    assert 0 < int((leaves.partition.sizes > 0).sum()) < len(leaves.partition)
    assert model.score(X, y > 0) > 0.7
    hgk.save(model, tmp_path / "m.hgk")
    np.testing.assert_array_equal(hgk.load(tmp_path / "m.hgk").predict(X), model.predict(X))


def test_a_given_lam_is_kept():
    model = fitted(HGKClassifier(loss="hinge", lam=1e-3), *_classes())
    assert model.lam_ == pytest.approx(1e-3)


def test_a_leaf_without_a_class_predicts_the_others():
    """Classes that lie apart: most leaves have one or two of the three."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.3, (250, 2)) for m in (-3, 0, 3)])
    y = np.repeat(["a", "b", "c"], 250)
    for loss in ("hinge", "logistic"):
        model = fitted(HGKClassifier(loss=loss), X, y)
        assert model.score(X, y) > 0.98


def test_where_no_leaf_was_reached_importances_are_those_of_what_stands_in():
    X, y = bumpy(500)
    rows = Rows(torch.from_numpy(X), torch.from_numpy(np.sign(y))[:, None], torch.ones(500, dtype=torch.float64))
    parts = partition(rows.X, torch.ones(3), 100, np.random.default_rng(0))
    ones, whole = torch.ones(len(parts), dtype=torch.float64), train(_kernel(), rows, 1e-2)
    machine = InLeaves(
        _kernel(), 0.1, rows.X, torch.zeros_like(rows.Y), partition=parts.first_leaves(0), W=(), gammas=ones, cs=ones,
        stand_in=whole,
    )  # fmt: skip
    np.testing.assert_array_equal(machine.shares(rows.X[:50]), whole.shares(rows.X[:50]))


def test_a_budget_leaves_time_for_leaves():
    """One partition, and where time is up before its last leaf, another machine stands in."""
    X, y = bumpy(1000)
    model = fitted(HGKClassifier(loss="hinge", time_budget=4.0), X, y > 0)
    (leaves,) = leaves_of(model)
    assert int((leaves.partition.sizes > 0).sum()) > 0
    assert model.score(X, y > 0) > 0.7
