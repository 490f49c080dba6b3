"""Kernels: a hierarchy as description, its weights, and the formulas forwards and backwards."""

from hgk.kernels.architecture import (
    Architecture,
    compose,
    grouped,
    inhomogeneous,
    isotropic,
    two_layers,
    upgrade_architecture,
    with_kinds,
)
from hgk.kernels.base import Kernel
from hgk.kernels.hierarchical import HierarchicalKernel
from hgk.kernels.mean import MeanKernel
from hgk.kernels.nodes import ColumnKind, NodeKind, Oblique, Rough, Smooth
from hgk.kernels.nodes.base import Pair, Weights
from hgk.kernels.pruning import pruned
from hgk.kernels.sweeps import compiled
from hgk.kernels.sweeps.batch import BatchSweep, batch_sweep
from hgk.kernels.sweeps.plain import Sweep
from hgk.kernels.sweeps.stacked import StackedSweep, bytes_of_sweep, isolated, stackable
