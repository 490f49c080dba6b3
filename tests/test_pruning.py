"""Pruning: the promise about log K, what goes and what stays."""

import pytest
import torch

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk.architectures import compose, two_layers, with_kinds
from hgk.kernels import HierarchicalKernel
from hgk.pruning import pruned


def uneven(architecture, seed=0, gamma=0.8):
    """A kernel whose weights span five orders of magnitude."""
    kernel = random_kernel(architecture, seed, gamma)
    rng = torch.Generator().manual_seed(seed)
    shrink = [10 ** (-5 * torch.rand(w.shape, generator=rng, dtype=torch.float64)) for w in kernel.W]
    return kernel.with_weights(tuple(w * s for w, s in zip(kernel.W, shrink, strict=True)))


def size(kernel):
    return sum(map(len, kernel.architecture.coordinates))


@pytest.mark.parametrize("tolerance", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_log_K_changes_by_at_most_the_tolerance(architecture, tolerance):
    X = random_rows(40).X
    for seed in range(5):
        kernel = uneven(architecture, seed)
        smaller = pruned(kernel, X, tolerance)
        change = (smaller.matrix(X).log() - kernel.matrix(X).log()).abs().max()
        assert float(change) <= tolerance + 1e-12
        assert size(smaller) <= size(kernel)
        gradient = smaller.backward(smaller.matrix(X), X)  # the arrays fit together
        assert [g.shape for g in gradient] == [w.shape for w in smaller.W]


def test_a_large_tolerance_uses_its_allowance():
    X = random_rows(40).X
    kernel = uneven(two_layers(5, 8, 5), 1)
    sizes = [size(pruned(kernel, X, tolerance)) for tolerance in (0, 1e-4, 1e-2, 1e-1)]
    assert sizes[0] == size(kernel)
    assert sorted(sizes, reverse=True) == sizes
    assert sizes[-1] < sizes[0] / 2


def test_what_is_tiny_goes_and_what_is_large_stays():
    tree = with_kinds(two_layers(5, 4, 5), rough=[1], oblique=[2, 3], rank=2)
    kernel = random_kernel(tree)
    V, w, P, Q = (a.clone() for a in kernel.W)
    V[0, 2], V[1, 3], V[2, 0], w[3] = 1e-4, 1e-4, 1e-4, 1e-4
    smaller = pruned(HierarchicalKernel(tree, (V, w, P, Q), 0.8), random_rows(40).X, 1e-3)
    everything = (0, 1, 2, 3, 4)
    # The third node is oblique: its map mixes the columns, so it keeps all.
    assert smaller.architecture.coordinates == ((0, 1, 3, 4), (0, 1, 2, 4), everything)
    assert smaller.architecture.oblique == (2,)
    assert smaller.architecture.q == (2.0, 1.0, 2.0)
    torch.testing.assert_close(smaller.W[2], P[:1])


def test_an_inner_node_without_children_goes_too():
    tree = compose([two_layers(5, 2, 3, rng=0), two_layers(5, 3, 2, rng=1)])
    kernel = random_kernel(tree)
    W = [w.clone() for w in kernel.W]
    W[1][:2] = 1e-4  # both children of the first inner node
    smaller = pruned(kernel.with_weights(tuple(W)), random_rows(40).X, 1e-3)
    assert smaller.architecture.parents == ((0, 0, 0), (0,))
    torch.testing.assert_close(smaller.W[2], W[2][1:])


def test_something_is_always_left():
    kernel = random_kernel(two_layers(5, 3, 2))
    assert size(pruned(kernel, random_rows(10).X, 1e6)) > 0
