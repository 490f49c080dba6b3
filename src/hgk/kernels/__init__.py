"""Kernels: a hierarchy as description, its weights, and the formulas forwards and backwards."""

from hgk.kernels.architecture import (
    Architecture,
    Weights,
    compose,
    grouped,
    inhomogeneous,
    isotropic,
    two_layers,
    with_kinds,
)
from hgk.kernels.batch import BatchSweep, batch_sweep
from hgk.kernels.hierarchical import HierarchicalKernel, MeanKernel, Sweep
from hgk.kernels.pruning import pruned

__all__ = [
    "Architecture",
    "BatchSweep",
    "HierarchicalKernel",
    "MeanKernel",
    "Sweep",
    "Weights",
    "batch_sweep",
    "compose",
    "grouped",
    "inhomogeneous",
    "isotropic",
    "pruned",
    "two_layers",
    "with_kinds",
]
