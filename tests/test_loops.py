"""The compiled loops on processors against the naive kernel, pair by pair."""

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, D, random_kernel
from hgk.arrays import Buffers
from hgk.arrays.compiling import compiled_once
from hgk.kernels import BatchSweep, two_layers, with_kinds
from hgk.kernels.sweeps import processor
from hgk.kernels.sweeps.processor import LoopBatchSweep, LoopSweep
from reference import kernel_matrix

# Of exponents up to 8; those of larger ones round in proportion.
SINGLE = 3e-6
TAKEN = {name: a for name, a in ARCHITECTURES.items() if processor.suits(a, torch.zeros(1, D))}
TAKEN["five rough, one oblique"] = with_kinds(two_layers(D, 9), rough=[0, 2, 4, 6, 8], oblique=[3], rank=2)
TAKEN["rough alone"] = with_kinds(two_layers(D, 3), rough=[0, 1, 2])
each_taken = pytest.mark.parametrize("architecture", TAKEN.values(), ids=TAKEN.keys())


def points(n, seed=0, centre=0.0):
    rows = np.random.default_rng(seed).uniform(-1, 1, (n, D)).astype(np.float32)
    return torch.from_numpy(rows) + centre


def double(*tensors):
    return [t.double().numpy() for t in tensors]


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Threads from a few pairs on, so that rows are divided among them."""
    monkeypatch.setattr(processor, "WORTH_A_THREAD", 200)


def test_which_trees_are_taken():
    left = set(ARCHITECTURES) - set(TAKEN)
    assert left == {"depth 3, uneven", "two exponents", "all kinds, depth 3", "two ranks", "depth 4"}
    assert not processor.suits(two_layers(D, 3), points(2).double())


@each_taken
@pytest.mark.parametrize("threads", [1, 3])
def test_products_equal_the_definition(architecture, threads):
    """More rows z than a block of the loops has, against the plain sweep in double precision."""
    kernel, X, Z = random_kernel(architecture), points(31), points(600, seed=1)
    alpha = torch.from_numpy(np.random.default_rng(2).standard_normal((600, 3)))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        t = LoopSweep(kernel, X, Z).multiply(alpha.float())
    finally:
        torch.set_num_threads(before)
    K = kernel.matrix(X.double(), Z.double()).numpy()
    bound = SINGLE * max(1.0, kernel.largest_exponent / 8) * (K @ alpha.abs().numpy())
    assert t.dtype == torch.float32
    assert (np.abs(t.numpy() - K @ alpha.numpy()) <= bound).all()


@each_taken
def test_exponents_equal_the_definition_and_are_symmetric(architecture):
    kernel, X, Z = random_kernel(architecture), points(67), points(45, seed=1)
    S = LoopSweep(kernel, X).exponent()
    assert torch.equal(S, S.T)
    assert bool((S.diagonal() == 0).all())
    np.testing.assert_allclose(S, kernel.exponent(X.double()), atol=SINGLE, rtol=SINGLE)
    np.testing.assert_allclose(LoopSweep(kernel, X, Z).matrix(), kernel_matrix(kernel, *double(X, Z)), atol=SINGLE)


def test_rows_far_from_zero_are_centred():
    kernel, X = random_kernel(TAKEN["five rough, one oblique"]), points(40, centre=100.0)
    np.testing.assert_allclose(LoopSweep(kernel, X).matrix(), kernel.matrix(X.double()), atol=SINGLE)


def test_rows_far_apart_have_the_smallest_kernel_and_no_nan():
    """2^E is 0 for practical purposes long before its bits run out."""
    kernel = random_kernel(TAKEN["five rough, one oblique"])
    X = torch.cat([points(30), points(3) * 30])
    K = LoopSweep(kernel, X).matrix()
    np.testing.assert_allclose(K, kernel.matrix(X.double()), atol=SINGLE)
    assert bool(K.isfinite().all())


@pytest.mark.parametrize("name", [name for name, a in TAKEN.items() if a.depth == 1])
def test_a_narrow_kernel_rounds_by_differences(name):
    """ΔS ~ ε √S R for rows in a ball of radius R, in units of the width; with squares of norms it would be ε R²."""
    kernel, X = random_kernel(TAKEN[name]), points(40)
    kernel = kernel.with_weights((60 * kernel.W[0], *kernel.W[1:]))
    X = torch.cat([X, X + 2e-3 * points(40, seed=1)])
    S, exact = LoopSweep(kernel, X).exponent().double(), kernel.exponent(X.double())
    R, epsilon = float(exact.max()) ** 0.5, 2.0**-24
    assert R > 30
    assert bool(((S - exact).abs() <= 8 * epsilon * (exact.sqrt() * R + exact) + 1e-6).all())


def test_rows_of_a_symmetric_matrix_are_filled_by_blocks(monkeypatch):
    monkeypatch.setattr(processor, "ROWS_AT_ONCE", 16)
    kernel, X = random_kernel(TAKEN["five rough, one oblique"]), points(53)
    K = LoopSweep(kernel, X).matrix()
    assert torch.equal(K, K.T)
    assert bool((K.diagonal() == 1).all())
    np.testing.assert_allclose(K, kernel.matrix(X.double()), atol=SINGLE)


def test_a_kernel_takes_the_loops_where_many_products_follow_or_rows_are_many(monkeypatch):
    taken = []
    monkeypatch.setattr(LoopSweep, "multiply", lambda self, alpha: taken.append(1) or alpha)
    monkeypatch.setattr(processor, "WORTH_LOADING", 5)
    kernel = random_kernel(two_layers(D, 3))
    for often, rows in ((False, points(4)), (True, points(4)), (False, points(5)), (True, points(5).double())):
        kernel.multiply(rows, rows, torch.ones(len(rows), 1).to(rows), often=often)
    assert len(taken) == 2


@pytest.fixture
def loops(monkeypatch):
    """As in a process that has not compiled them."""
    from hgk.kernels.sweeps import loops

    monkeypatch.setattr(loops, "add_products", compiled_once(nogil=True)(loops.add_products.py_func))
    monkeypatch.setattr(processor, "_compiling", [])
    return loops


def test_products_are_at_hand_when_another_process_has_kept_them(loops, monkeypatch):
    kept = []
    monkeypatch.setattr(processor, "kept_on_disk", lambda function: bool(kept))
    monkeypatch.setattr(processor, "_COMPILE", "import hgk.kernels.sweeps.processor")
    assert not processor.at_hand()
    (started,) = processor._compiling
    kept.append(True)  # an index without what it is of
    assert started.poll() is not None or not processor.at_hand()
    assert started.wait() == 0
    assert processor.at_hand()
    assert len(processor._compiling) == 1


def test_what_the_process_runs_compiles_products(loops):
    assert not loops.add_products.signatures
    exec(processor._COMPILE, {})
    assert len(loops.add_products.signatures) == 1
    assert processor.at_hand()


def test_where_nothing_can_be_kept_no_process_is_started(loops, monkeypatch):
    monkeypatch.setattr(processor, "can_be_kept", lambda function: False)
    monkeypatch.setattr(processor, "kept_on_disk", lambda function: False)
    assert not processor.at_hand()
    assert not processor._compiling


@each_taken
def test_a_batch_has_the_same_matrix_and_gradient(architecture):
    """∂J/∂W of the compiled batch against the plain one in double precision, which finite differences have tested."""
    kernel, X = random_kernel(architecture), points(38)
    dJ_dK = torch.from_numpy(np.random.default_rng(3).standard_normal((38, 38)))
    dJ_dK = dJ_dK + dJ_dK.T
    ours, plain = LoopBatchSweep(kernel, X), BatchSweep(kernel, X.double())
    np.testing.assert_allclose(ours.matrix(), plain.matrix(), atol=2 * SINGLE)
    for one, other in zip(ours.backward(dJ_dK.float()), plain.backward(dJ_dK), strict=True):
        assert one.dtype == torch.float64
        np.testing.assert_allclose(one, other, atol=2e-5 * float(other.abs().max()))


def test_memory_that_is_used_again_changes_no_gradient():
    kernel, buffers = random_kernel(TAKEN["all kinds"]), Buffers()
    dJ_dK = torch.ones(30, 30)
    for rows in (points(30), points(30, seed=5)):
        again, fresh = LoopBatchSweep(kernel, rows, buffers), LoopBatchSweep(kernel, rows)
        assert torch.equal(again.matrix(), fresh.matrix())
        assert all(map(torch.equal, again.backward(dJ_dK), fresh.backward(dJ_dK)))


def test_code_is_compiled_where_it_cannot_be_kept():
    """A function that comes of no file has no place in a cache."""
    scope = {}
    exec("def twice(x):\n    return 2 * x", scope)
    assert compiled_once(nogil=True)(scope["twice"])(3) == 6
