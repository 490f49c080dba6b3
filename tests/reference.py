"""Naive twins: the definitions, written as loops, and refits by brute force."""

import math
from types import SimpleNamespace

import numpy as np
import torch

from hgk.kernels import Oblique, Rough
from hgk.solvers import CholeskyPath, Krylov


def exponent(kind, x, z, v, *further):
    """S_i of one pair of points."""
    if isinstance(kind, Oblique):
        P, Q = further
        return np.sum(((x - z) @ np.diag(v) @ (np.eye(len(v)) + P @ Q.T)) ** 2)
    return np.sum(v**2 * abs(x - z) ** power(kind))


def power(kind):
    """q of |x_j - x'_j|^q."""
    return kind.q if isinstance(kind, Rough) else 2.0


def kernel_value(kernel, x, z):
    """The paper's recursive definition for one pair of points."""

    def node(layer, i, gamma):
        a, W = kernel.architecture, kernel.W
        if layer == 1:
            members = next(m for m in a.members if i in m.nodes)
            further = [w[members.nodes.index(i)].numpy() for w in members.further(W)]
            return math.exp(-exponent(a.kinds[i], x, z, W[0][i].numpy(), *further) / gamma**2)
        children = [c for c, p in enumerate(a.parents[layer - 2]) if p == i]
        S = sum(float(W[layer - 1][c]) ** 2 * (1 - node(layer - 1, c, 1.0)) for c in children)
        return math.exp(-2 / gamma**2 * S)

    return node(kernel.architecture.depth, 0, kernel.gamma)


def kernel_matrix(kernel, X, Z):
    return np.array([[kernel_value(kernel, x, z) for z in Z] for x in X])


def machine(K, Y, c, s):
    """α of the weighted least-squares machine by a general linear solve."""
    return np.linalg.solve(K + c * np.diag(1 / s), Y)


def held_out_residuals(K, Y, c, s, part):
    """Residuals on ``part`` of the machine trained, at the same c, on the other rows."""
    rest = np.setdiff1d(np.arange(len(K)), part)
    alpha = machine(K[np.ix_(rest, rest)], Y[rest], c, s[rest])
    return Y[part] - K[np.ix_(part, rest)] @ alpha


def fold_risks(
    K, Y, fold_of, lams, weight=None, clip=float("inf"), tol=1e-3, max_steps=1000, complete=False, known=float("inf")
):
    """What Krylov spaces give for matrices K, (g, n, n)."""
    solver = Krylov(tol, max_steps)
    solved = solver.solve(solver.prepare(K, weight, fold_of), Y, lams, clip=clip, complete=complete, known=known)
    return SimpleNamespace(
        risks=solved.risks,
        resolved=solved.risks.isfinite(),
        predictions=solved.predictions,
        steps=solved.stats["steps"],
    )


def held_out_path(K, Y, weight, trained, lams, clip, start=None):
    """Train on the first rows at λ, predict the others: risks and predictions; from the λ of number ``start``."""
    solver, near = CholeskyPath(), None if start is None else float(lams[start])
    state = solver.prepare(K, weight, torch.where(torch.arange(len(K)) < trained, -1, 0))
    solved = solver.solve(state, Y, lams, clip=clip, complete=start is None, near=near)
    return solved.risks, solved.predictions[:, trained:]
