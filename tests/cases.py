"""Every architecture, every loss and every solver, once; a new one is a new line here."""

import numpy as np
import torch

from hgk.criteria import HoldOut, KFold, LeaveOneOut, MarginalLikelihood
from hgk.kernels import (
    Architecture,
    HierarchicalKernel,
    compose,
    grouped,
    inhomogeneous,
    isotropic,
    two_layers,
    with_kinds,
)
from hgk.losses import (
    EpsilonInsensitive,
    Expectile,
    Hinge,
    LeastSquares,
    Logistic,
    Pinball,
    SquaredHinge,
)
from hgk.machines import Rows
from hgk.solvers import BoxDual, Cholesky, CholeskyPath, Krylov, Newton, Nystrom, Spectral

D = 5

ARCHITECTURES = {
    "isotropic": isotropic(D),
    "inhomogeneous": inhomogeneous(D),
    "depth 1, some columns": Architecture(D, ((0, 3),)),
    "depth 2, balanced": two_layers(D, 3, 2, rng=1),
    "depth 2, random and overlapping": two_layers(D, 4, 3, scheme="random", rng=2),
    "depth 2, one node": two_layers(D, 1, 5),
    "depth 2, named groups": grouped({"a": [0, 1], "b": [1, 2, 4]}, D),
    "depth 3, uneven": compose([two_layers(D, 3, 2, rng=3), two_layers(D, 1, 4, rng=4)]),
    "rough, depth 1": with_kinds(inhomogeneous(D), rough=[0]),
    "smooth and rough": with_kinds(two_layers(D, 4, 3), rough=[1, 3]),
    "two exponents": with_kinds(with_kinds(two_layers(D, 4, 3), rough=[1], q=0.5), rough=[0, 3], q=1.5),
    "oblique, depth 1": with_kinds(inhomogeneous(D), oblique=[0], rank=2),
    "all kinds": with_kinds(two_layers(D, 4, 3), rough=[1], oblique=[0, 2], rank=2),
    "all kinds, depth 3": compose(
        [with_kinds(two_layers(D, 3, 3), rough=[1], oblique=[0], rank=1), two_layers(D, 2, 3)]
    ),
    "two ranks": with_kinds(with_kinds(two_layers(D, 4, 3), oblique=[1], rank=1), rough=[3], oblique=[0], rank=3),
    "depth 4": compose([compose([two_layers(D, 2, 3, rng=5)]), compose([two_layers(D, 2, 2), two_layers(D, 1, 3)])]),
}

CRITERIA = {
    "leave-one-out": LeaveOneOut(),
    "k-fold": KFold((torch.arange(0, 24, 3), torch.arange(1, 24, 3), torch.arange(2, 24, 3))),
    "hold-out": HoldOut(torch.arange(0, 16), torch.arange(16, 24)),
    "marginal likelihood": MarginalLikelihood(),
}

LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "logistic": Logistic(),
    "pinball": Pinball(0.3),
    "expectile": Expectile(0.8),
    "ε-insensitive": EpsilonInsensitive(0.1),
    "absolute": EpsilonInsensitive(0.0),
    "least squares": LeastSquares(),
    "weighted least squares": LeastSquares(3.0, 0.5),
}

SOLVERS = {
    "cholesky": Cholesky(),
    "spectral": Spectral(),
    "nystrom": Nystrom(),
    "krylov": Krylov(1e-12),
    "path": CholeskyPath(),
    "box": BoxDual(1e-10),
    "newton": Newton(1e-10),
}


def random_kernel(architecture, seed=0, gamma=0.8):
    """Random weights of both signs."""
    rng = np.random.default_rng(seed)
    W = [rng.uniform(0.4, 1.2, m.shape) * rng.choice([-1, 1], m.shape) for m in architecture.free()]
    return HierarchicalKernel.of(architecture, *W, gamma=gamma)


def random_rows(n, d=D, outputs=1, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    Y = np.clip(np.column_stack([np.sin(2 * X[:, 0] + k) * X[:, 1] for k in range(outputs)]), -1, 1)
    Y += 0.1 * rng.standard_normal(Y.shape)
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    return Rows(*map(torch.from_numpy, (X, Y, weight)))
