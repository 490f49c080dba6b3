"""A kernel without the weights that hardly matter: cheaper to compute, and easier to read.

With m_i = Π 2w² on the path from first-layer node i to the top, and b_ij its kind's bound on what column j adds to S_i
over the rows (of a smooth node v_ij² times the square of the column's range),

    without node i    S_top changes by at most   m_i min(1, Σ_j b_ij)
    without v_ij      S_top changes by at most   m_i b_ij

because 1 - e^-S <= min(1, S) and ∂S_p/∂S_i = 2 w_i² k_i <= 2 w_i². The smallest of these bounds are dropped, nodes
first and then columns, each as long as they sum to half of what log K = -γ⁻² S_top may change by. Nodes whose kind
knows no bound are dropped or kept whole.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from hgk.kernels.hierarchical import HierarchicalKernel


def pruned(kernel: HierarchicalKernel, X: torch.Tensor, tolerance: float) -> HierarchicalKernel:
    """Without the weights whose loss changes log K by at most ``tolerance`` on any pair of the rows; 0 drops none."""
    if not tolerance or kernel.architecture.tied:
        return kernel
    tree, half = kernel.architecture, 0.5 * tolerance * kernel.gamma**2
    reach = (X.amax(0) - X.amin(0)).double().cpu()
    terms, paths = torch.empty_like(kernel.W[0]), _paths(kernel)
    for members in tree.members:
        terms[members.nodes] = members.kind.bounds(kernel.W[0][members.nodes], reach)
    keep = tree.mask & ~_smallest(paths * terms.sum(1).clamp(max=1.0), half)[:, None]
    bounds = torch.where(keep & terms.isfinite(), paths[:, None] * terms, torch.inf)
    keep &= ~_smallest(bounds.view(-1), half).view(bounds.shape)
    return _restricted(kernel, keep)


def _paths(kernel: HierarchicalKernel) -> torch.Tensor:
    """m_i of every first-layer node."""
    paths = torch.ones(1, dtype=torch.float64)
    for layer in range(kernel.architecture.depth - 1, 0, -1):
        paths = paths[list(kernel.architecture.parents[layer - 1])] * 2 * kernel.W[layer] ** 2
    return paths


def _smallest(bounds: torch.Tensor, allowance: float) -> torch.Tensor:
    """True for the smallest finite bounds, as many as sum to at most the allowance, but never for the largest."""
    ordered, order = bounds.sort()
    chosen = torch.zeros(len(bounds), dtype=torch.bool)
    candidates = max(0, int(ordered.isfinite().sum()) - 1)
    chosen[order[:candidates][ordered[:candidates].cumsum(0) <= allowance]] = True
    return chosen


def _restricted(kernel: HierarchicalKernel, keep: torch.Tensor) -> HierarchicalKernel:
    """The tree of the columns marked (nodes x d) and of the nodes that still see one."""
    tree, W = kernel.architecture, list(kernel.W)
    nodes = keep.any(1).nonzero()[:, 0].tolist()
    W[0] = (W[0] * keep)[nodes]
    W[tree.depth :] = [w[places] for m in tree.members if (places := m.among(nodes)) for w in m.further(kernel.W)]
    parents, alive = [], nodes
    for layer, above in enumerate(tree.parents, start=1):
        W[layer] = W[layer][alive]
        surviving = sorted({above[i] for i in alive})
        parents.append(tuple(surviving.index(above[i]) for i in alive))
        alive = surviving
    smaller = replace(
        tree,
        coordinates=tuple(tuple(keep[i].nonzero()[:, 0].tolist()) for i in nodes),
        parents=tuple(parents),
        labels=tuple(tree.labels[i] for i in nodes) if tree.labels else (),
        kinds=tuple(tree.kinds[i] for i in nodes),
    )
    return replace(kernel, architecture=smaller, W=tuple(W))
