"""Any loss on folds: labels of problems, paths over λ, honest predictions, the paper's objective."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk.arrays import single_blas
from hgk.events import LamChosen, Searched, Trained, of_kind
from hgk.executor import Threads
from hgk.kernels import MeanKernel
from hgk.learners.paper import kernel_per_fold
from hgk.losses import Expectile, Hinge, LeastSquares, Logistic, Pinball
from hgk.machines import FINE, MeanOfMachines, OfLoss, Rows
from hgk.optimisers import Algorithm1
from hgk.optimisers.annealing import ExponentBlock
from hgk.optimisers.objective import Objective
from hgk.progress import Progress
from hgk.search import SQUARES, Choice, Convex, LossGrid, Task, fold_numbers, lam_grid, problem_for, races
from hgk.search.races import Folds, Race, Through, best_lams, choose_lams, choose_on_few, in_turn
from hgk.solvers import solver_for
from hgk.targets import Numbers, Pairs, Quantiles, Scaling, pairs_of
from hgk.targets.calibration import Coupling

KERNEL = random_kernel(ARCHITECTURES["depth 2, balanced"])
OTHER = random_kernel(ARCHITECTURES["smooth and rough"], seed=1)
LEVELS = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
PAIRS = Pairs(np.arange(3), estimates=False)
QUANTILES = Quantiles(Scaling(np.zeros(1), np.ones(1)), LEVELS.numpy(), np.zeros(3))
PROBLEMS = {
    "hinge": Convex(Hinge()),
    "logistic": Convex(Logistic()),
    "pairs, hinge": Convex(Hinge(), PAIRS),
    "pairs, least squares": Convex(LeastSquares(), PAIRS),
    "levels": Convex(Pinball(LEVELS), QUANTILES, own_lam=True),
    "expectiles": Convex(Expectile(LEVELS), QUANTILES, own_lam=True),
}
each_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())


def rows_for(problem, n=60, weighted=True, seed=0):
    rows = random_rows(n, weighted=weighted, seed=seed)
    if not (problem.loss.signs or problem.target is PAIRS):
        return rows
    number = torch.bucketize(rows.Y[:, 0], torch.tensor([-0.1, 0.1], dtype=torch.float64))
    return Rows(rows.X, 2.0 * torch.nn.functional.one_hot(number, 3).double() - 1, rows.weight)


def folds_of(n, folds=5, seed=0):
    return fold_numbers(n, folds, np.random.default_rng(seed))


# ------------------------------------------------------------------------------------------ one problem


def test_pairs_have_the_rows_of_two_classes():
    rows = rows_for(PROBLEMS["pairs, hinge"])
    T, number = PROBLEMS["pairs, hinge"].labels(rows.Y), rows.Y.argmax(1)
    for j, (a, b) in enumerate(pairs_of(3).tolist()):
        assert torch.equal(T[:, j].isfinite(), (number == a) | (number == b))
        assert (T[number == a, j] == 1).all()
        assert (T[number == b, j] == -1).all()


def test_pairs_that_agree_with_a_distribution_give_it_back():
    rng = np.random.default_rng(0)
    p = torch.from_numpy(rng.dirichlet(np.ones(4), 200))
    first, second = pairs_of(4).T
    t = (p[:, first] / p[:, second]).log() / 1.7  # σ(a f_kl) = p_k / (p_k + p_l) with a = 1.7
    torch.testing.assert_close(Coupling(1.7).log(t, 4).exp(), p)
    sure = Coupling(20.0).log(1e3 * t.sign(), 4)  # neither overflows
    assert sure.isfinite().all()
    Y = torch.nn.functional.one_hot(torch.multinomial(p, 1, generator=torch.Generator().manual_seed(0))[:, 0], 4)
    fitted = Coupling.of(t.numpy(), 2.0 * Y.numpy() - 1, np.ones(200), 200.0)
    assert fitted.slope == pytest.approx(1.7, rel=0.2)


@each_problem
def test_slopes_are_derivatives_of_losses_and_rows_without_a_part_count_nothing(problem):
    T = problem.labels(rows_for(problem).Y)
    t = 0.7 * torch.from_numpy(np.random.default_rng(1).uniform(-1.9, 1.9, T.shape))
    step = 1e-6
    slope = (problem.losses(T, t + step) - problem.losses(T, t - step)) / (2 * step)
    edge = (t.abs() - problem.clip).abs() < 1e-5
    assert torch.allclose(torch.where(edge, 0.0, slope), torch.where(edge, 0.0, problem.slopes(T, t)), atol=1e-6)
    assert (problem.losses(T, t)[T.isnan()] == 0).all()


@each_problem
def test_every_column_is_solved_on_its_rows_at_its_lam(problem):
    rows = rows_for(problem)
    K, T = KERNEL.matrix(rows.X), problem.labels(rows.Y)
    lams = [1e-2, 1e-3, 1e-2]
    alpha, gap = problem.solve(K, T, rows.weight, lams)
    solver = solver_for(problem.loss)
    assert gap <= solver.tol
    for j, lam in enumerate(lams):
        part = T[:, j].isfinite()
        state = solver.prepare(K[part][:, part], rows.weight[part])
        alone = solver.solve(state, T[part][:, [j]], lam, problem.loss.column(j)).alpha[:, 0]
        assert torch.allclose(K[:, part] @ alone, K @ alpha[:, j], atol=1e-3)
        assert (alpha[~part, j] == 0).all()


def test_a_pair_without_rows_in_a_fold_is_no_trouble():
    problem = PROBLEMS["pairs, hinge"]
    rows = rows_for(problem)
    T = problem.labels(rows.Y)
    T[:, 1] = torch.nan
    alpha, _ = problem.solve(KERNEL.matrix(rows.X), T, rows.weight, 1e-2)
    assert (alpha[:, 1] == 0).all()


def test_least_squares_by_its_own_ways_is_the_problem_of_its_loss():
    """Losses, slopes, coefficients, held-out risks and the machine without a fold."""
    rows, convex, fold_of = random_rows(60, outputs=3, weighted=True), Convex(LeastSquares()), folds_of(60, 3)
    t = torch.from_numpy(np.random.default_rng(1).uniform(-1.5, 1.5, rows.Y.shape))
    torch.testing.assert_close(SQUARES.losses(rows.Y, t), convex.losses(rows.Y, t))
    torch.testing.assert_close(SQUARES.slopes(rows.Y, t), convex.slopes(rows.Y, t))
    choice = Choice(1.0, (1e-2,) * 3, 0.0)
    expected = convex.coefficients(KERNEL, rows, choice)
    torch.testing.assert_close(SQUARES.coefficients(KERNEL, rows, choice), expected, rtol=0, atol=1e-4)
    whole, paths = (p.grid(KERNEL, rows, fold_of, np.array([1e-2]), complete=True).alone() for p in (SQUARES, convex))
    np.testing.assert_allclose(whole.gammas, paths.gammas, rtol=1e-5)
    np.testing.assert_allclose(whole.risks, paths.risks.sum(2), rtol=2e-2)  # to the gap of a search
    numbers = Numbers(Scaling(np.zeros(3), np.ones(3)), single=False)
    one, other = (
        p.fold_machine(KERNEL, choice, Task(rows, fold_of, np.array([1e-2]), numbers, (), p), 1)
        for p in (SQUARES, convex)
    )
    torch.testing.assert_close(one(rows.X), other(rows.X), rtol=0, atol=1e-3)
    assert (problem_for(LeastSquares(), numbers), type(problem_for(LeastSquares(), PAIRS))) == (SQUARES, Convex)
    assert type(problem_for(LeastSquares(3.0, 0.5), numbers)) is Convex


# ----------------------------------------------------------------------------------------- paths, folds


@each_problem
def test_lams_are_those_of_the_complete_paths(problem):
    rows = rows_for(problem)
    state = Folds.of(problem, KERNEL, rows, folds_of(len(rows)))
    lams = lam_grid(rows.size, 8)
    choice, starts = choose_lams({0: state, 1: state}, lams, Progress())
    sizes = [float(rows.weight[state.held_out(fold)].sum()) for fold in (0, 1)]
    risks = sum(w * state.path(fold, lams, complete=True).risks for w, fold in zip(sizes, (0, 1), strict=True))
    at, risk = best_lams(problem, risks / sum(sizes))
    if not problem.own_lam:
        assert choice.lams == tuple(float(lams[j]) for j in at)
    assert choice.risk == pytest.approx(risk, rel=5e-3)  # three λ in a row may have been better by less
    assert (starts[1][state.held_out(1)] == 0).all()
    assert len(set(choice.lams)) == 1 or problem.own_lam


def test_paths_end_when_the_risk_rises():
    problem, rows = PROBLEMS["logistic"], rows_for(PROBLEMS["logistic"])
    noise = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], rows.Y.shape))
    rows = Rows(rows.X, noise, rows.weight)
    state, lams = Folds.of(problem, KERNEL, rows, folds_of(len(rows))), np.geomspace(1, 1e-9, 20)
    whole, short = (state.path(0, lams, complete).risks.sum(1) for complete in (True, False))
    known = short.isfinite()
    assert torch.allclose(short[known], whole[known])
    last = int(known.nonzero().max())
    assert last < 19
    assert (short[last - 1 : last + 1] > short[known].min()).all()
    assert float(whole.min()) == pytest.approx(float(short.min()))


def test_a_path_goes_on_where_a_rare_class_is_still_ignored():
    """At large λ all rows are given to the frequent class; the risk is flat there, at the best constant's."""
    T = torch.where(torch.arange(100) < 10, 1.0, -1.0).double()[:, None]
    through = Through(Convex(Hinge()), T, torch.ones(100).double())
    assert float(through.constant) == pytest.approx(0.2)
    for risk in (0.9, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1):
        through.see(torch.tensor([risk]).double())
        assert len(through.left(1))
    through.see(torch.tensor([0.1]).double())
    assert not len(through.left(1))


class Late(Progress):
    """Time is up after so many λ (each asks once before it is solved, the first is not refused)."""

    def __init__(self, asked):
        super().__init__()
        self.asked = asked

    def cut(self, when=True):
        self.asked -= 1
        return when and self.asked < 0


@each_problem
def test_time_that_is_up_ends_a_path_after_at_least_one_lam(problem):
    rows = rows_for(problem)
    state, lams = Folds.of(problem, KERNEL, rows, folds_of(len(rows))), lam_grid(rows.size, 8)
    whole = state.path(0, lams, complete=True)
    assert (whole.solved, whole.cut) == (8, False)
    for asked, solved in ((0, 1), (3, 3)):
        path = state.path(0, lams, complete=True, progress=Late(asked))
        assert (path.solved, path.cut) == (solved, True)
        assert torch.allclose(path.risks[:solved], whole.risks[:solved])
        assert path.risks[solved:].isinf().all()


def test_time_that_is_up_is_said_and_leaves_an_unfinished_fold_out():
    problem, rows = PROBLEMS["logistic"], rows_for(PROBLEMS["logistic"])
    state, lams = Folds.of(problem, KERNEL, rows, folds_of(len(rows))), lam_grid(rows.size, 8)
    single = state.path(0, lams)
    for asked, solved in ((0, 1), (single.solved + 3, single.solved)):  # in the first fold, in the second
        late = Late(asked)
        choice, starts = choose_lams({0: state, 1: state, 2: state}, lams, late)
        (event,) = late.history
        assert isinstance(event, LamChosen)
        assert (event.folds, event.lams, event.cut) == (1, solved, True)
        assert list(starts) == [0]
        # a fold that is through speaks; an end that time has set says nothing about λ, and a few rows are asked
        best = int(single.risks.sum(1).argmin()) if asked else int(choose_on_few(state, lams)[0])
        assert choice.lams == (float(lams[best]),) * 3
    unhurried = Progress()
    choose_lams({0: state, 1: state}, lams, unhurried)
    (event,) = unhurried.history
    assert (event.folds, event.cut) == (2, False)


def test_time_that_is_up_leaves_a_width_of_the_grid():
    problem, rows = Convex(Hinge()), rows_for(PROBLEMS["hinge"])
    fold_of, lams, progress = folds_of(60, 3), np.array([1e-1, 1e-2, 1e-3]), Progress()
    progress.deadline = float("-inf")
    grid = problem.grid(KERNEL, rows, fold_of, lams, progress=progress).alone()
    assert grid.risks.isfinite().any(2).sum() == 1  # one width, one λ
    assert grid.choice.lams == (0.1,) * 3


@each_problem
def test_fold_machines_are_refits_and_their_mean_predicts(problem):
    rows, fold_of = rows_for(problem), folds_of(60)
    choice = Choice(1.0, (1e-2,) * 3, 0.0)
    machine = problem.mean_machine([(KERNEL, 1.0)], rows, fold_of, choice, Progress())
    T, mean = problem.labels(rows.Y), 0.0
    for fold in range(5):
        part, out = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        alpha, _ = problem.solve(KERNEL.matrix(rows.X[part]), T[part], rows.weight[part], choice.lams)
        t = KERNEL.matrix(rows.X, rows.X[part]) @ alpha
        assert torch.allclose(machine.held_out[out], t[out], atol=2e-2)
        mean = mean + t / 5
    assert torch.allclose(machine(rows.X), mean, atol=2e-2)
    assert machine.aside.all()
    assert machine.gap == 0  # no more is left than was wanted
    for refused in (machine.without_one, machine.leave_two_out):
        with pytest.raises(ValueError, match=r"exact for least squares alone.*loss='least_squares'"):
            refused(rows, torch.arange(3))


def test_several_kernels_are_their_mean_and_the_unseeing_ones_speak_for_a_fold():
    problem, fold_of = PROBLEMS["hinge"], folds_of(60)
    rows, kernels, choice = rows_for(problem), [(KERNEL, 1.0), (OTHER, 2.0)], Choice(1.0, (1e-2,) * 3, 0.0)
    machine = problem.mean_machine(kernels, rows, fold_of, choice, Progress(), {0: [0], 2: [0, 1]})
    assert isinstance(machine.kernel, MeanKernel)
    K = (KERNEL.matrix(rows.X) + 2 * OTHER.matrix(rows.X)) / 3
    assert torch.allclose(machine(rows.X), K @ machine.alpha)
    assert torch.equal(machine.aside, torch.from_numpy(np.isin(fold_of, [0, 2])).double())
    for fold, matrix in ((0, KERNEL.matrix(rows.X)), (1, K), (2, K)):
        part, out = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        alpha, _ = problem.solve(matrix[part][:, part], problem.labels(rows.Y)[part], rows.weight[part], choice.lams)
        assert torch.allclose(machine.held_out[out], matrix[out][:, part] @ alpha, atol=1e-3)


# ------------------------------------------------------------------------------------- grid and protocol


def test_the_grid_agrees_with_all_its_cells_and_with_a_linear_svm():
    """One width and λ against LinearSVC on the rows of a Cholesky factor; the choice against the complete grid."""
    problem = Convex(Hinge())
    rows = Rows(*(getattr(random_rows(60), name) for name in ("X", "Y", "weight")))
    rows = Rows(rows.X, (rows.Y - rows.Y.median()).sign() + (rows.Y.median() == rows.Y), rows.weight)
    fold_of, lams = folds_of(60, 3), np.array([1e-1, 1e-2, 1e-3])
    whole = problem.grid(KERNEL, rows, fold_of, lams, complete=True).alone()
    quick = problem.grid(KERNEL, rows, fold_of, lams).alone()
    assert isinstance(quick, LossGrid)
    assert (quick.choice.gamma, quick.choice.lam) == (whole.choice.gamma, whole.choice.lam)
    i, j = 4, 1
    K = KERNEL.with_gamma(float(whole.gammas[i])).matrix(rows.X)
    risk = 0.0
    for fold in range(3):
        part, out = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        order = np.concatenate([part, out])
        L = np.linalg.cholesky(K[order][:, order].numpy() + 1e-9 * np.eye(60))
        C = 1 / (2 * len(part) * lams[j])
        svm = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6)
        svm.fit(L[: len(part)], rows.Y[part, 0].numpy())
        t = (L[len(part) :] @ svm.coef_[0]).clip(-1, 1)
        risk += np.maximum(0, 1 - rows.Y[out, 0].numpy() * t).sum() / 60
    assert float(whole.risks[i, j, 0]) == pytest.approx(risk, rel=2e-2)


@each_problem
def test_the_papers_objective_is_of_the_loss(problem):
    """Gradients against finite differences, and the annealing block against the objective."""
    rows = rows_for(problem, 40)
    T = problem.labels(rows.Y)
    D1, D2 = (Rows(rows.X[part], T[part], rows.weight[part]) for part in (slice(0, 25), slice(25, 40)))
    alpha, _ = problem.solve(KERNEL.matrix(D1.X), D1.Y, D1.weight, 1e-2)
    objective = Objective(KERNEL, D1.X, alpha, D2, problem)
    risk, gradient = objective.gradient(KERNEL.W)
    t = KERNEL.matrix(D2.X, D1.X) @ alpha
    by_hand = (problem.losses(D2.Y, t).sum(1) * D2.weight).sum() / D2.weight.sum()
    assert risk == pytest.approx(float(by_hand))
    assert ExponentBlock(objective, KERNEL.W).risk == pytest.approx(risk)
    step = 1e-6
    for layer, index in ((0, (0, int(KERNEL.architecture.coordinates[0][0]))), (1, (1,))):
        moved = []
        for sign in (1, -1):
            W = [w.clone() for w in KERNEL.W]
            W[layer][index] += sign * step
            moved.append(objective.risk(tuple(W)))
        assert (moved[0] - moved[1]) / (2 * step) == pytest.approx(float(gradient[layer][index]), rel=1e-3, abs=1e-7)


def test_algorithm_1_lowers_the_risk_of_its_loss():
    problem, progress = Convex(Pinball(0.8)), Progress()
    rows = random_rows(150)
    tree = ARCHITECTURES["depth 2, balanced"]
    optimiser = Algorithm1(M=1, L=3, N1=40)
    Threads().drive([optimiser.search(tree, rows, np.random.default_rng(0), progress, problem)])
    steps = of_kind(progress.history, Searched)
    assert steps[-1].best_D3 < steps[0].risk_D3


def test_the_papers_protocol_holds_every_row_out_once():
    problem, rows = PROBLEMS["pairs, hinge"], rows_for(PROBLEMS["pairs, hinge"], 50)
    task = Task(rows, folds_of(50, 3), np.array([1e-1, 1e-2]), PAIRS, (), problem)
    trees = [ARCHITECTURES["inhomogeneous"], ARCHITECTURES["isotropic"]]
    optimiser = Algorithm1(M=1, L=1, N1=3, N2=3, N3=1)
    mean = kernel_per_fold(trees, optimiser, task, np.random.default_rng(0), Progress(), Threads())
    assert len(mean.machines) == 3
    for fold, machine in enumerate(mean.machines):
        assert torch.equal(machine.held_out.isfinite().all(1), torch.from_numpy(task.fold_of == fold))
        assert (machine.alpha[task.fold_of == fold] == 0).all()
    assert mean.held_out.isfinite().all()


# ------------------------------------------------------------------------------------ seen by planted errors


def test_risks_with_integer_weights_are_those_of_repeated_rows():
    for problem in PROBLEMS.values():
        rows = rows_for(problem)
        T, t = problem.labels(rows.Y), torch.from_numpy(np.random.default_rng(2).uniform(-2, 2, (60, 3)))
        repeat = torch.repeat_interleave(torch.arange(60), rows.weight.long())
        expected = problem.risks(T[repeat], t[repeat], torch.ones(len(repeat), dtype=torch.float64))
        assert torch.allclose(problem.risks(T, t, rows.weight), expected)


def test_predictions_are_clipped_before_a_risk():
    far = torch.full((1, 1), 5.0, dtype=torch.float64)
    assert float(Convex(Hinge()).losses(-torch.ones(1, 1).double(), far)) == 2.0
    assert float(Convex(Pinball(0.5)).losses(torch.zeros(1, 1).double(), far)) == 0.5


def test_a_path_on_some_of_many_rows_has_the_same_c(monkeypatch):
    problem, rows = PROBLEMS["logistic"], rows_for(PROBLEMS["logistic"])
    monkeypatch.setattr(races, "SOME", 20)
    state, lams = Folds.of(problem, KERNEL, rows, folds_of(60)), np.array([1e-1, 1e-3])
    path = state.path(0, lams, complete=True)
    some = path.alphas[0].any(1).nonzero()[:, 0]
    assert len(some) == 20
    assert not np.isin(some, state.held_out(0)).any()
    s = rows.weight
    for i, lam in enumerate(lams):
        c = float(s[state.part(0)].sum()) * lam
        alpha, _ = problem.solve(state.K[some][:, some], state.T[some], s[some], c / float(s[some].sum()), 1e-8)
        out = state.held_out(0)
        risks = problem.risks(state.T[out], state.K[out][:, some] @ alpha, s[out])
        assert torch.allclose(path.risks[i], risks, rtol=2e-2)


def test_folds_count_by_their_weight():
    """In the choice of λ and in the grid: one fold of many rows, one of few."""
    problem, rows = Convex(Pinball(0.5)), rows_for(PROBLEMS["levels"])
    fold_of, lams = np.where(np.arange(60) < 45, 0, 1), np.array([1e-1, 1e-3])
    state, progress = Folds.of(problem, KERNEL, rows, fold_of), Progress()
    sizes = [float(rows.weight[fold_of == b].sum()) for b in (0, 1)]
    choose_lams({0: state, 1: state}, lams, progress)
    whole = sum(w * state.path(b, lams, complete=True).risks for b, w in enumerate(sizes)) / sum(sizes)
    assert progress.history[0].risk == pytest.approx(float(whole.min()), rel=1e-9)
    grid = problem.grid(KERNEL, rows, fold_of, lams, complete=True).alone()
    for i in (0, 5):
        K = KERNEL.with_gamma(float(grid.gammas[i])).matrix(rows.X)
        cell = Folds(problem, K, state.T, rows.weight, torch.from_numpy(fold_of))
        expected = sum(w * cell.path(b, lams, complete=True).risks for b, w in enumerate(sizes)) / sum(sizes)
        assert torch.allclose(grid.risks[i], expected, rtol=2e-2)


def test_the_mean_of_lams_is_geometric():
    assert Choice(1.0, (1e-1, 1e-3), 0.0).lam == pytest.approx(1e-2)


def test_the_gap_of_a_machine_is_the_largest_of_its_folds():
    progress, problem = Progress(), PROBLEMS["logistic"]
    choice = Choice(1.0, (1e-2,) * 3, 0.0)
    machine = problem.mean_machine([(KERNEL, 1.0)], rows_for(problem), folds_of(60), choice, progress)
    gaps = [event.gap for event in of_kind(progress.history, Trained)]
    assert len(gaps) == 5
    assert machine.gap_left == max(gaps) > gaps[-1]
    assert machine.gap == 0  # it is less than is wanted
    assert replace(machine, gap_left=2 * FINE).gap == 2 * FINE


def test_held_out_values_are_averaged_where_they_are_known():
    held_out = torch.tensor([[[1.0], [1.0], [torch.nan]], [[4.0], [torch.nan], [torch.nan]]]).double()
    X, alpha = torch.zeros(3, KERNEL.architecture.d, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64)
    mean = MeanOfMachines(tuple(OfLoss(KERNEL, 1.0, X, alpha, held_out=t) for t in held_out))
    expected = torch.tensor([2.5, 1.0, torch.nan]).double()
    assert torch.allclose(mean.held_out[:, 0], expected, equal_nan=True)


@each_problem
def test_a_machine_without_a_fold_is_the_solution_there_and_predicts_the_fold(problem):
    rows, fold_of, choice = rows_for(problem), np.arange(60) % 4, Choice(1.0, (1e-2,) * 3, 0.0)
    part, out = np.flatnonzero(fold_of != 1), np.flatnonzero(fold_of == 1)
    machine = problem.fold_machine(KERNEL, choice, Task(rows, fold_of, np.array([1e-2]), PAIRS, (), problem), 1)
    T = problem.labels(rows.Y)
    alpha, _ = problem.solve(KERNEL.matrix(rows.X[part]), T[part], rows.weight[part], choice.lams, 1e-8)
    assert torch.allclose(machine.held_out[out], KERNEL.matrix(rows.X[out], rows.X[part]) @ alpha, atol=2e-2)
    assert machine.held_out.isfinite().all(1).sum() == len(out)
    assert torch.allclose(machine(rows.X), KERNEL.matrix(rows.X, rows.X[part]) @ alpha, atol=2e-2)


def test_levels_have_a_lam_each_and_classes_one_together():
    risks = torch.tensor([[1.0, 5.0], [2.0, 1.0], [9.0, 4.0]]).double()
    at, risk = best_lams(Convex(Pinball(LEVELS), QUANTILES, own_lam=True), risks)
    assert (at.tolist(), risk) == ([0, 1], 2.0)
    at, risk = best_lams(Convex(Hinge()), risks)
    assert (at.tolist(), risk) == ([1, 1], 3.0)


# ------------------------------------------------------------------------------------------------ the race


def naive_behind(losses, rival, weight):
    """Row by row."""
    d, total = [a - b for a, b in zip(losses, rival, strict=True)], sum(weight)
    mean = sum(w * x for w, x in zip(weight, d, strict=True)) / total
    error = sum((w * (x - mean)) ** 2 for w, x in zip(weight, d, strict=True)) ** 0.5 / total
    few = races.FEW * sum(w**2 for w in weight) / total**2
    return mean > races.SURE * (1 + few) * error


@pytest.mark.parametrize("own_lam", [False, True])
def test_cells_leave_the_race_when_they_are_behind_row_by_row(own_lam):
    problem, rng = Convex(Pinball(LEVELS), QUANTILES, own_lam=own_lam), np.random.default_rng(0)
    n, shifts = 80, np.array([0.0, 0.02, 0.1, 0.5])
    T, weight = torch.zeros(n, 3).double(), torch.from_numpy(rng.uniform(0.5, 2, n))
    losses = torch.from_numpy(np.abs(rng.standard_normal((n, 3)) + 0.2 * rng.standard_normal((4, n, 3))))
    losses += torch.from_numpy(4 * shifts)[:, None, None]
    losses[3, 5] = torch.inf
    seen = torch.arange(n) < 50
    race = Race(problem, T, weight)
    mine = losses[:, seen].numpy() if own_lam else losses[:, seen].sum(2, keepdim=True).numpy()
    s = weight[seen].numpy()
    at = [int(np.argmin([np.average(cell[:, v], weights=s) for cell in mine])) for v in range(mine.shape[2])]
    behind = [[naive_behind(cell[:, v], mine[at[v]][:, v], s) for v in range(mine.shape[2])] for cell in mine[:3]]
    expected = [not all(cell) for cell in behind] + [False]  # the last is not known everywhere
    assert race.left(losses, seen).tolist() == expected
    assert len(set(expected)) == 2
    race.through(torch.tensor([[0.1] * 3]).double(), losses[:1] - 1.0, [])  # a width that is better by far
    assert not race.left(losses, seen).any()
    race = Race(problem, T, weight)
    race.through(torch.tensor([[0.1] * 3]).double(), losses[:1] + 1.0, [])
    assert race.left(losses, seen).tolist() == expected


@pytest.mark.parametrize("name", ["pairs, hinge", "pairs, least squares", "logistic"])
def test_rows_without_a_part_do_not_decide_a_race(name):
    """A path that ended early is infinite there, where a row of a third class has the share 0."""
    problem = PROBLEMS[name]
    rows, fold_of, lams = rows_for(problem, 90), folds_of(90, 3), lam_grid(90, 8)
    whole = problem.grid(KERNEL, rows, fold_of, lams, complete=True).alone()
    found = problem.grid(KERNEL, rows, fold_of, lams).alone()
    known = found.risks.isfinite()
    assert bool(known.any())
    assert not bool(known.all())  # some paths did end early
    assert found.risk <= 1.1 * whole.risk  # the race may be wrong by the error of a few dozen rows


def test_a_grid_of_which_nothing_was_solved_has_no_best_cell():
    problem = PROBLEMS["hinge"]
    grid = LossGrid(problem, np.ones(2), np.ones(3), torch.full((2, 3, 1), torch.inf))
    with pytest.raises(ValueError, match="was solved for Hinge"):
        _ = grid.choice


@pytest.mark.parametrize("name", ["hinge", "levels"])
def test_the_race_has_the_same_winner_as_the_complete_grid_and_one_thread_as_two(name, monkeypatch):
    problem = PROBLEMS[name]
    rows, fold_of, lams = rows_for(problem, 60), folds_of(60, 3), lam_grid(60, 4)
    monkeypatch.setattr(races, "FEW", 10)  # so that cells do leave
    whole = problem.grid(KERNEL, rows, fold_of, lams, complete=True).alone()
    before, grids = torch.get_num_threads(), []
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            grids.append(problem.grid(KERNEL, rows, fold_of, lams).alone())
        finally:
            torch.set_num_threads(before)
    one, two = grids
    torch.testing.assert_close(one.risks, two.risks, rtol=1e-9, atol=0)
    known = one.risks.isfinite()
    assert not known.all()
    torch.testing.assert_close(one.risks[known], whole.risks[known], rtol=1e-2, atol=0)
    assert one.risk <= whole.risk * 1.02  # the best may have been within the error of the first folds


@pytest.mark.parametrize("name", ["hinge", "levels"])
def test_risks_with_the_gap_of_a_search_are_those_with_none(name, monkeypatch):
    """To a fraction of their sampling error, which is a tenth here."""
    problem = PROBLEMS[name]
    rows, fold_of, lams = rows_for(problem, 60), folds_of(60, 3), lam_grid(60, 5)
    rough = problem.grid(KERNEL, rows, fold_of, lams, complete=True).alone()
    monkeypatch.setattr(races, "ROUGH", 1e-9)
    exact = problem.grid(KERNEL, rows, fold_of, lams, complete=True).alone()
    torch.testing.assert_close(rough.risks, exact.risks, rtol=2e-2, atol=0)
    assert float(((rough.risks - exact.risks) / exact.risks).abs().mean()) < 2e-3


def test_machines_start_from_the_search_and_end_where_they_would_have_ended():
    problem, fold_of = PROBLEMS["hinge"], folds_of(60)
    rows = rows_for(problem)
    choice = problem.grid(KERNEL, rows, fold_of, lam_grid(60, 5)).alone().choice
    for fold, start in choice.starts.items():
        assert (start[fold_of == fold] == 0).all()
        assert start.any()
    kernels = [(KERNEL.with_gamma(choice.gamma), 1.0)]
    warm, cold = (
        problem.mean_machine(kernels, rows, fold_of, one, Progress()) for one in (choice, replace(choice, starts={}))
    )
    assert max(warm.gap_left, cold.gap_left) <= FINE
    torch.testing.assert_close(warm.held_out, cold.held_out, atol=2e-2, rtol=0)


def test_folds_come_in_turn():
    for folds in range(1, 8):
        assert [b for some in in_turn(range(folds)) for b in some] == list(range(folds))


def test_the_last_one_restores_the_threads_of_the_linear_algebra():
    from threadpoolctl import threadpool_info

    def counts():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = counts()
    first, second = single_blas(), single_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(counts()) <= {1}
    second.__exit__(None, None, None)
    assert counts() == before
