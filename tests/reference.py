"""Naive twins: the definitions, written as loops, and refits by brute force."""

import math

import numpy as np


def kernel_value(kernel, x, z):
    """The paper's recursive definition for one pair of points."""

    def node(layer, i, gamma):
        a, W = kernel.architecture, kernel.W
        if layer == 1:
            if i in a.oblique:
                place = a.oblique.index(i)
                U = np.eye(a.d) + W[a.depth][place].numpy() @ W[a.depth + 1][place].numpy().T
                S = np.sum(((x - z) @ np.diag(W[0][i].numpy()) @ U) ** 2)
            else:
                S = sum(float(W[0][i, j]) ** 2 * abs(x[j] - z[j]) ** a.q[i] for j in a.coordinates[i])
            return math.exp(-S / gamma**2)
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
