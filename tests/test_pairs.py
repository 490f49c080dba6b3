"""The batch sweep against its readable twin, the tile-by-tile sweep."""

import pytest
import torch

import hgk.kernels.sweeps.batch
from cases import ARCHITECTURES, D, random_kernel
from hgk.arrays import Buffers
from hgk.kernels import BatchSweep
from hgk.kernels.sweeps.batch import shifted, unshifted


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_the_layout_by_shifts_holds_every_pair_and_its_inverse_brings_it_back(n):
    M = torch.randn(n, n, dtype=torch.float64)
    M = M + M.T
    E = shifted(M)
    for s in range(1, n // 2 + 1):
        for a in range(n):
            assert E[a, s - 1] == M[a, (a + s) % n]
    expected = M.clone().fill_diagonal_(0.0)
    assert torch.allclose(unshifted(E), expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
@pytest.mark.parametrize("n", [2, 40, 41])
def test_value_and_gradient_equal_the_tiled_sweep(architecture, n, monkeypatch):
    monkeypatch.setattr(hgk.kernels.sweeps.batch, "SLAB", 500)  # several slabs
    kernel = random_kernel(architecture)
    X = torch.rand(n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dK = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    dK = dK + dK.T
    buffers = Buffers()
    for _ in range(2):  # the second time in used memory
        sweep = BatchSweep(kernel, X, buffers)
        assert torch.allclose(sweep.matrix(), kernel.matrix(X), atol=1e-12)
        for ours, theirs in zip(sweep.backward(dK), kernel.backward(dK, X), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-10)


def test_single_precision_is_enough():
    kernel = random_kernel(ARCHITECTURES["all kinds"])
    X = 1e3 + torch.rand(200, D, dtype=torch.float64)
    dK = torch.ones(200, 200, dtype=torch.float64)
    sweep = BatchSweep(kernel, X.float())
    exact = kernel.matrix(X.float().double())
    assert float((sweep.matrix() - exact).abs().max()) < 1e-5
    for ours, theirs in zip(sweep.backward(dK.float()), kernel.backward(dK, X.float().double()), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))


def test_nearly_equal_rows_have_kernels_of_at_most_one():
    kernel = random_kernel(ARCHITECTURES["oblique, depth 1"])
    X = torch.ones(60, D) + 1e-4 * torch.rand(60, D, generator=torch.Generator().manual_seed(0))
    X[0] += 100.0  # centring does not help the others then
    assert float(BatchSweep(kernel, X).matrix().max()) <= 1.0
