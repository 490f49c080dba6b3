"""Splits, grids, and the paper's protocol around the machine."""

import numpy as np
import pytest
import torch

from cases import random_rows
from hgk.architectures import inhomogeneous, isotropic, two_layers
from hgk.kernels import HierarchicalKernel
from hgk.machines import train
from hgk.optimisers import Algorithm1
from hgk.progress import Progress
from hgk.selection import Task, fold_numbers, gamma_grid, kernel_per_fold, lam_grid, one_kernel, three_parts


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
    assert (lams[0], lams[-1]) == pytest.approx((0.1, 1e-6))


def task(n=90, seed=0):
    rows, rng = random_rows(n, seed=seed), np.random.default_rng(seed)
    return Task(rows, fold_numbers(n, 5, rng), lam_grid(n), 1.0), rng


def test_one_kernel_averages_the_five_fold_functions():
    job, rng = task()
    kernel = HierarchicalKernel(isotropic(5), isotropic(5).start(np.ones(5), rng))
    machine = one_kernel(kernel, job, Progress())
    folds = [train(machine.kernel, job.rows[torch.from_numpy(job.fold_of != b)], machine.lam) for b in range(5)]
    X = random_rows(20, seed=3).X
    torch.testing.assert_close(machine(X), torch.stack([f(X) for f in folds]).mean(0), rtol=0, atol=1e-9)
    assert len(machine.parts) == 5


def test_the_papers_protocol_learns_per_fold_without_the_held_out_rows():
    job, rng = task()
    seen = []

    class Spy(Algorithm1):
        def learn(self, architecture, rows, clip, rng, progress):
            seen.append((architecture, rows))
            return super().learn(architecture, rows, clip, rng, progress)

    architectures = [inhomogeneous(5), two_layers(5, 4)]
    progress = Progress()
    machines = kernel_per_fold(architectures, Spy(M=1, L=1, N1=5, N2=5, N3=1), job, rng, progress)
    assert [architecture for architecture, _ in seen] == [a for a in architectures for _ in range(5)]
    for i, (_, rows) in enumerate(seen):
        assert torch.equal(rows.X, job.rows.X[torch.from_numpy(job.fold_of != i % 5)])
    assert len(machines) == 5
    assert len({m.kernel.W[0].sum().item() for m in machines}) == 5  # each fold has its own weights
    choice = progress.history[-1]
    assert choice["risk"] == min(choice["risks"])
    # α is zero on the fold that the machine was not to see
    for b, machine in enumerate(machines):
        assert not machine.alpha[torch.from_numpy(job.fold_of == b)].any()


def test_threads_do_not_change_the_result():
    settings = Algorithm1(M=1, L=1, N1=5, N2=5, N3=1)
    results = []
    for n_jobs in (None, 2):
        job, rng = task()
        machines = kernel_per_fold([inhomogeneous(5), two_layers(5, 3)], settings, job, rng, Progress(), n_jobs)
        results.append(torch.stack([m(job.rows.X) for m in machines]))
    torch.testing.assert_close(*results, rtol=0, atol=1e-10)


def test_stopped_in_the_middle_the_folds_that_are_through_are_averaged():
    job, rng = task()
    progress = Progress(lambda event: event["stage"] == "fold" and event["fold"] == 2)
    machines = kernel_per_fold([inhomogeneous(5)], Algorithm1(M=1, L=1, N1=5, N2=5, N3=1), job, rng, progress)
    assert progress.stopped
    assert len(machines) == 3
