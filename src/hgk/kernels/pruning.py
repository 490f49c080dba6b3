"""A kernel without the weights that hardly matter: cheaper to compute, and easier to read.

With m_i = Π 2w² on the path from first-layer node i to the top, and R_j the range of column j over the rows,

    without node i    S_top changes by at most   m_i min(1, Σ_j v_ij² R_j^q)
    without v_ij      S_top changes by at most   m_i v_ij² R_j^q

because 1 - e^-S <= min(1, S) and ∂S_p/∂S_i = 2 w_i² k_i <= 2 w_i². The smallest of these bounds are dropped, nodes
first and then columns, each as long as they sum to half of what log K = -γ⁻² S_top may change by. Oblique nodes are
dropped or kept whole, with 1 as their bound.
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
    q = torch.tensor(tree.q, dtype=torch.float64)[:, None]
    terms = kernel.W[0] ** 2 * reach**q
    whole = terms.sum(1)
    whole[list(tree.oblique)] = torch.inf
    paths = _paths(kernel)
    keep = tree.mask & ~_smallest(paths * whole.clamp(max=1.0), half)[:, None]
    columns = keep.clone()
    columns[list(tree.oblique)] = False
    bounds = torch.where(columns, paths[:, None] * terms, torch.inf)
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
    if tree.oblique:
        places = [place for place, i in enumerate(tree.oblique) if i in nodes]
        W[tree.depth :] = [w[places] for w in W[tree.depth :]] if places else []
    parents, alive = [], nodes
    for layer, above in enumerate(tree.parents, start=1):
        W[layer] = W[layer][alive]
        surviving = sorted({above[i] for i in alive})
        parents.append(tuple(surviving.index(above[i]) for i in alive))
        alive = surviving
    oblique = tuple(nodes.index(i) for i in tree.oblique if i in nodes)
    smaller = replace(
        tree,
        coordinates=tuple(tuple(keep[i].nonzero()[:, 0].tolist()) for i in nodes),
        parents=tuple(parents),
        labels=tuple(tree.labels[i] for i in nodes) if tree.labels else (),
        exponents=tuple(tree.q[i] for i in nodes) if tree.exponents else (),
        oblique=oblique,
        rank=tree.rank if oblique else 0,
    )
    return replace(kernel, architecture=smaller, W=tuple(W))
