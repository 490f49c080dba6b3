"""Pruning: the promise about log K, what goes and what stays."""

from dataclasses import replace

import pytest
import torch

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk.kernels import HierarchicalKernel, Oblique, Rough, Smooth, compose, pruned, two_layers, with_kinds


def uneven(architecture, seed=0, gamma=0.8):
    """A kernel whose weights span five orders of magnitude."""
    kernel = random_kernel(architecture, seed, gamma)
    rng = torch.Generator().manual_seed(seed)
    shrink = [10 ** (-5 * torch.rand(w.shape, generator=rng, dtype=torch.float64)) for w in kernel.W]
    return kernel.with_weights(tuple(w * s for w, s in zip(kernel.W, shrink, strict=True)))


def size(kernel):
    return sum(map(len, kernel.architecture.coordinates))


@pytest.mark.parametrize(("tolerance", "gamma"), [(1e-3, 0.1), (1e-6, 0.8), (0.1, 0.8), (1e-3, 10.0)])
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_log_K_changes_by_at_most_the_tolerance(architecture, tolerance, gamma):
    X = random_rows(40).X * torch.tensor([0.01, 0.1, 1.0, 10.0, 100.0], dtype=torch.float64)
    X[7:, 0] *= 0.1  # the first rows reach further than the others
    for seed in range(5):
        kernel = uneven(architecture, seed, gamma)
        smaller = pruned(kernel, X, tolerance)
        S = kernel.exponent(X)
        change = (smaller.exponent(X) - S).abs().max() / gamma**2
        assert float(change) <= tolerance + 1e-12 * float(S.max()) / gamma**2
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
    tree = replace(tree, labels=("a", "b", "c", "d"))
    kernel = random_kernel(tree)
    V, w, P, Q = (a.clone() for a in kernel.W)
    V[0, 2], V[1, 3], V[2, 0], w[3] = 1e-4, 1e-4, 1e-4, 1e-4
    smaller = pruned(HierarchicalKernel(tree, (V, w, P, Q), 0.8), random_rows(40).X, 1e-3)
    everything = (0, 1, 2, 3, 4)
    # The third node is oblique: its map mixes the columns, so it keeps all.
    assert smaller.architecture.coordinates == ((0, 1, 3, 4), (0, 1, 2, 4), everything)
    assert smaller.architecture.kinds == (Smooth(), Rough(), Oblique(2))
    assert smaller.architecture.labels == ("a", "b", "c")
    torch.testing.assert_close(smaller.W[2], P[:1])


def test_the_bounds_are_those_of_the_formula():
    """One smooth and one rough node; the largest allowance that keeps a column is its own bound m v² R^q / γ²."""
    tree = with_kinds(two_layers(2, 2, 2), rough=[1])
    X = torch.tensor([[0.0, 0.0], [3.0, 0.2]], dtype=torch.float64)
    V, w, gamma = torch.tensor([[1.0, 0.5], [2.0, 0.3]], dtype=torch.float64), torch.tensor([0.5, 2.0]).double(), 3.0
    kernel = HierarchicalKernel(tree, (V, w), gamma)
    bounds = {(0, 1): 2 * 0.5**2 * 0.5**2 * 0.2**2, (1, 1): 2 * 2.0**2 * 0.3**2 * 0.2}
    assert bounds[0, 1] < bounds[1, 1]
    for (node, column), bound in bounds.items():
        needed = 2 * (sum(b for b in bounds.values() if b <= bound)) / gamma**2  # half of it is for columns
        assert column in pruned(kernel, X, 0.999 * needed).architecture.coordinates[node]
        assert column not in pruned(kernel, X, 1.001 * needed).architecture.coordinates[node]


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
