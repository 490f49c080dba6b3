"""Splits, grids, and the paper's protocol around the machine."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cases import random_rows
from hgk.events import ArchitectureChosen, Held, last
from hgk.executor import Threads
from hgk.kernels import HierarchicalKernel, inhomogeneous, isotropic, two_layers
from hgk.learners.paper import kernel_per_fold
from hgk.machines import train
from hgk.optimisers import Algorithm1
from hgk.progress import Progress
from hgk.search import (
    SQUARES,
    Grid,
    GridResult,
    Task,
    fold_numbers,
    gamma_grid,
    grids,
    lam_grid,
    search,
    search_all,
    three_parts,
)
from hgk.solvers import Krylov, krylov
from hgk.targets import Numbers, Scaling
from reference import machine

SHORT = Algorithm1(M=1, L=1, N1=5, N2=5, N3=1)


def test_three_parts_have_the_papers_sizes_and_cover_the_rows():
    parts = three_parts(9000, np.random.default_rng(0))
    assert [len(p) for p in parts] == [4000, 2000, 3000]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(9000))


def test_folds_are_even_and_stratified():
    strata = np.repeat([0, 1, 2], [50, 30, 23])
    fold_of = fold_numbers(103, 5, np.random.default_rng(0), strata)
    for group in (fold_of, *(fold_of[strata == s] for s in range(3))):
        counts = np.bincount(group, minlength=5)
        assert counts.max() - counts.min() <= 1


def test_grid_end_points():
    gammas, lams = gamma_grid(4.0, 1000, 5), lam_grid(1000)
    assert (len(gammas), len(lams)) == (10, 10)
    assert (gammas[0], gammas[-1]) == pytest.approx((10.0, 0.4 * 1000**-0.2))
    assert (lams[0], lams[-1]) == pytest.approx((0.1, 1e-7))


def task(n=90, seed=0):
    rows, rng = random_rows(n, seed=seed), np.random.default_rng(seed)
    return Task(rows, fold_numbers(n, 5, rng), lam_grid(n), Numbers(Scaling(np.zeros(1), np.ones(1)))), rng


def test_search_equals_refits_with_weights_and_clipping_and_scales_its_grid_by_the_data():
    rows, rng = random_rows(50, weighted=True), np.random.default_rng(0)
    kernel = HierarchicalKernel(inhomogeneous(5), inhomogeneous(5).start(rows.spread, rng))
    fold_of, lams = fold_numbers(50, 5, rng), np.array([1e-1, 1e-3])
    found = search(kernel, rows, fold_of, lams, 0.3, dtype=torch.float64, complete=True)
    S = kernel.exponent(rows.X).numpy()
    mean = S[~np.eye(50, dtype=bool)].mean()
    np.testing.assert_allclose(found.gammas, gamma_grid(mean, 50, 5))
    s, Y = rows.weight.numpy(), rows.Y.numpy()
    for i in (0, 5, 9):
        K = np.exp(-S / found.gammas[i] ** 2)
        for j, lam in enumerate(lams):
            loss = 0.0
            for b in range(5):
                B, T = np.flatnonzero(fold_of == b), np.flatnonzero(fold_of != b)
                t = K[np.ix_(B, T)] @ machine(K[np.ix_(T, T)], Y[T], s[T].sum() * lam, s[T])
                loss += s[B] @ ((np.clip(t, -0.3, 0.3) - Y[B]) ** 2)[:, 0]
            assert found.risks[i, j] == pytest.approx(loss / s.sum(), rel=1e-3)


@pytest.mark.parametrize("complete", [False, True])
def test_grids_searched_together_are_each_alone(monkeypatch, complete):
    """Of different lengths, trees, folds, labels, weights and λ; one width at a time, and several."""
    rng, asked = np.random.default_rng(0), []
    for seed, (n, tree) in enumerate([(60, inhomogeneous(5)), (47, two_layers(5, 4)), (53, isotropic(5))]):
        rows = random_rows(n, seed=seed, weighted=True)
        kernel = HierarchicalKernel(tree, tree.start(rows.spread, rng))
        fold_of = np.where(rng.random(n) < 0.2, -1, fold_numbers(n, 3, rng))
        asked.append(Grid(kernel, rows, fold_of, lam_grid(n, 6), 0.5, torch.float64, complete))
    alone = search_all(asked)
    for stack in (1, 3 * 3 * 60**2):
        monkeypatch.setattr(grids, "STACK", stack)
        for found, expected in zip(grids._search_together(asked), alone, strict=True):
            np.testing.assert_allclose(found.gammas, expected.gammas)
            np.testing.assert_array_equal(found.lams, expected.lams)
            assert found.resolved[found.best]
            sure = found.resolved & expected.resolved
            # a resolved risk stands to two thousandths
            np.testing.assert_allclose(found.risks[sure], expected.risks[sure], rtol=1e-2)
            assert found.risk == pytest.approx(expected.risk, rel=1e-2)
            assert sure.all() or not complete


def noisy_grid(noise, seed=0, n=200):
    """Labels of two columns' sine, with noise, in single precision."""
    rng = np.random.default_rng(seed)
    rows = random_rows(n, d=3, seed=seed)
    rows.Y.copy_(torch.from_numpy(0.5 * np.sin(2 * rows.X.numpy()[:, :1]) + noise * rng.standard_normal((n, 1))))
    kernel = HierarchicalKernel(isotropic(3), isotropic(3).start(np.ones(3), rng))
    return Grid(kernel, rows, fold_numbers(n, 5, rng), lam_grid(n), 1.0)


@pytest.mark.parametrize("widths_at_once", [1, 4])
def test_a_problem_does_not_give_up_for_another_ones_risk(monkeypatch, widths_at_once):
    """Labels without noise next to noisy ones, whose every cell is far above the others' best."""
    asked = [noisy_grid(0.0), noisy_grid(0.3, 1)]
    monkeypatch.setattr(grids, "STACK", widths_at_once * 200**2)
    each = [grids._search_together([grid])[0] for grid in asked]
    monkeypatch.setattr(grids, "STACK", widths_at_once * 2 * 200**2)
    for found, alone in zip(grids._search_together(asked), each, strict=True):
        assert found.best == alone.best
        assert found.risk == pytest.approx(alone.risk, rel=1e-2, abs=1e-6)
        assert found.resolved.sum() >= alone.resolved.sum()


def test_widths_know_the_best_risk_of_their_own_problem(monkeypatch):
    calls = []

    solve = Krylov.solve

    def spy(*args, known, **options):
        found = solve(*args, known=known, **options)
        calls.append((known.reshape(2, -1).numpy(), found.risks.reshape(2, -1)))
        return found

    monkeypatch.setattr(Krylov, "solve", spy)
    monkeypatch.setattr(grids, "STACK", 4 * 2 * 200**2)
    grids._search_together([noisy_grid(0.0), noisy_grid(0.3, 1)])
    best = torch.full((2,), torch.inf)
    for known, risks in calls:
        np.testing.assert_array_equal(known, np.broadcast_to(best[:, None], known.shape))
        best = torch.minimum(best, risks.amin(1))
    assert len(calls) == 3


def test_grids_go_together_by_likeness_and_memory(monkeypatch):
    """As on an accelerator, whose recorded steps are the same here."""
    loads, together = [], grids._search_together
    for module in (grids, krylov):
        monkeypatch.setattr(module, "accelerated", lambda x: True)
    monkeypatch.setattr(grids, "_search_together", lambda load: loads.append(len(load)) or together(load))
    asked = [noisy_grid(0.1, seed, 100) for seed in range(5)]
    asked[1] = replace(asked[1], clip=0.2)
    results = search_all(asked)
    assert sorted(loads) == [1, 4]
    for found, grid in zip(results, asked, strict=True):
        (alone,) = together([grid])
        np.testing.assert_allclose(found.gammas, alone.gammas)
        assert found.risk == pytest.approx(alone.risk, rel=1e-2)
    loads.clear()
    # each needs 3 x 100² + 1.5 x 5 folds x 1000 steps x 100 numbers of 4 bytes, that is 3.1 MB
    monkeypatch.setenv("HGK_MEMORY", "14M")
    for found, before in zip(search_all(asked), results, strict=True):
        assert found.risk == pytest.approx(before.risk, rel=1e-2)
    assert sorted(loads) == [1, 2, 2]


def test_a_wish_to_stop_ends_all_grids_after_a_width(monkeypatch):
    monkeypatch.setattr(grids, "STACK", 1)
    progress = Progress()
    progress.stopped = True
    asked = [replace(noisy_grid(0.1, seed, 60), progress=progress) for seed in range(2)]
    for found in grids._search_together(asked):
        assert np.isfinite(found.risks).any(1).sum() == 1
        assert found.resolved[found.best]


def test_mean_grid_is_the_mean_and_chooses_only_what_every_fold_resolved():
    gammas, lams = np.array([2.0, 1.0]), np.array([0.1, 0.01])
    one = GridResult(gammas, lams, np.array([[1.0, 2.0], [0.0, 4.0]]), np.array([[1, 1], [0, 1]], dtype=bool), 3)
    two = GridResult(2 * gammas, lams, np.array([[5.0, 2.0], [0.0, 1.0]]), np.ones((2, 2), dtype=bool), 4)
    mean = GridResult.mean([one, two])
    np.testing.assert_array_equal(mean.risks, [[3.0, 2.0], [0.0, 2.5]])
    assert mean.best == (0, 1)
    assert mean.products == 7
    with pytest.raises(ValueError, match="could be resolved"):
        _ = GridResult(gammas, lams, one.risks, np.zeros((2, 2), dtype=bool), 0).best


def test_one_kernel_averages_the_five_fold_functions():
    job, rng = task()
    kernel = HierarchicalKernel(isotropic(5), isotropic(5).start(np.ones(5), rng))
    mean = SQUARES.machine(kernel, job, Progress())
    folds = [train(mean.kernel, job.rows[torch.from_numpy(job.fold_of != b)], mean.lam) for b in range(5)]
    X = random_rows(20, seed=3).X
    torch.testing.assert_close(mean(X), torch.stack([f(X) for f in folds]).mean(0), rtol=0, atol=1e-9)
    assert len(mean.parts) == 5


def test_the_papers_protocol_learns_per_fold_without_the_held_out_rows():
    job, rng = task()
    seen = []

    class Spy(Algorithm1):
        def search(self, architecture, rows, rng, progress, problem=SQUARES):
            seen.append((architecture, rows))
            return super().search(architecture, rows, rng, progress, problem)

    architectures = [inhomogeneous(5), two_layers(5, 4)]
    progress = Progress()
    spy = Spy(**{name: getattr(SHORT, name) for name in ("M", "L", "N1", "N2", "N3")})
    machines = kernel_per_fold(architectures, spy, job, rng, progress, Threads()).machines
    assert [architecture for architecture, _ in seen] == [a for a in architectures for _ in range(5)]
    for i, (_, rows) in enumerate(seen):
        assert torch.equal(rows.X, job.rows.X[torch.from_numpy(job.fold_of != i % 5)])
    assert len(machines) == 5
    assert len({m.kernel.W[0].sum().item() for m in machines}) == 5  # each fold has its own weights
    choice = last(progress.history, ArchitectureChosen)
    assert choice is progress.history[-1]
    assert choice.risk == min(choice.risks)
    assert len(machines[0].kernel.W[0]) == (1 if choice.risks[0] < choice.risks[1] else 4)
    # the choice, recomputed: every fold's held-out risks over the grid, averaged
    grids = []
    for b, fold_machine in enumerate(machines):
        held_out = np.where(job.fold_of == b, 0, -1)
        grid = search(fold_machine.kernel, job.rows, held_out, job.lams, 1.0, torch.float64, complete=True)
        i = int(np.argmin(np.abs(grid.gammas - fold_machine.kernel.gamma)))
        risk = grid.risks[i, list(job.lams).index(fold_machine.lam)]
        assert risk == pytest.approx(_held_out_risk(fold_machine, job, b), rel=1e-2)
        grids.append(grid)
    mean = GridResult.mean(grids)
    assert mean.risk == pytest.approx(choice.risk, rel=1e-2)
    assert machines[0].lam == pytest.approx(mean.lam)
    for fold_machine, grid in zip(machines, grids, strict=True):
        assert fold_machine.kernel.gamma == pytest.approx(grid.gammas[mean.best[0]], rel=1e-3)
    # α is zero on the fold that the machine was not to see
    for b, fold_machine in enumerate(machines):
        assert not fold_machine.alpha[torch.from_numpy(job.fold_of == b)].any()


def test_the_papers_protocol_averages_complete_grids(monkeypatch):
    """A cell that cannot win in one fold may win in the mean, so no fold's grid may be cut short."""
    job, rng = task()
    asked, alone = [], Grid.alone

    def spy(grid):
        asked.append((grid.complete, len(grid.rows)))
        return alone(grid)

    monkeypatch.setattr(Grid, "alone", spy)
    kernel_per_fold([inhomogeneous(5)], SHORT, job, rng, Progress(), Threads())
    assert [complete for complete, rows in asked if rows == len(job.rows)] == [True] * 5


def _held_out_risk(fold_machine, job, b):
    B = torch.from_numpy(np.flatnonzero(job.fold_of == b))
    return float(((fold_machine(job.rows.X[B]).clamp(-1, 1) - job.rows.Y[B]) ** 2).mean())


def test_stopped_in_the_second_architecture_the_first_is_chosen():
    job, rng = task()
    progress = Progress(lambda event: isinstance(event, Held) and (event.architecture, event.fold) == (1, 2))
    mean = kernel_per_fold([inhomogeneous(5), two_layers(5, 4)], SHORT, job, rng, progress, Threads())
    assert len(mean.machines) == 5
    assert {machine.kernel.architecture.depth for machine in mean.machines} == {1}
    assert progress.shortened


def test_threads_do_not_change_the_result():
    results = []
    for workers in (1, 2):
        job, rng = task()
        trees = [inhomogeneous(5), two_layers(5, 3)]
        mean = kernel_per_fold(trees, SHORT, job, rng, Progress(), Threads(workers))
        results.append(torch.stack([machine(job.rows.X) for machine in mean.machines]))
    torch.testing.assert_close(*results, rtol=0, atol=1e-10)


def test_stopped_in_the_middle_the_folds_that_are_through_are_averaged():
    job, rng = task()
    progress = Progress(lambda event: isinstance(event, Held) and event.fold == 2)
    mean = kernel_per_fold([inhomogeneous(5)], SHORT, job, rng, progress, Threads())
    assert progress.stopped
    assert len(mean.machines) == 3
    X = random_rows(20, seed=3).X
    torch.testing.assert_close(mean(X), torch.stack([machine(X) for machine in mean.machines]).mean(0))


def test_a_fit_that_is_stopped_in_its_first_fold_has_one_machine():
    job, rng = task()
    progress = Progress(lambda event: isinstance(event, Held))
    machine = kernel_per_fold([inhomogeneous(5)], SHORT, job, rng, progress, Threads())
    assert [len(part) for part in machine.parts] == [72]
    assert machine.parts_of() == [machine]
