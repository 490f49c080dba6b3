"""Fused kernels for accelerators: K, K·α and the backward sweep of trees of depth 1 and 2, each in one pass over tiles.

The plain twins are :class:`hgk.kernels.Sweep` and :class:`hgk.kernels.BatchSweep`; deeper trees go through them, and
trees with a kind of node that has no compiled twin (``NodeKind.twin``). Triton is imported when the first kernel is
launched, so that an installation for processors never sees it.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import torch

from hgk.kernels.architecture import Architecture
from hgk.kernels.nodes.base import Twin, Weights
from hgk.kernels.sweeps.compiled.many import FusedColumns
from hgk.kernels.sweeps.compiled.sweep import FusedSweep, layout_of, mapped


@cache
def installed() -> bool:
    return find_spec("triton") is not None


def runs(X: torch.Tensor) -> bool:
    """Whether Triton runs where these rows are."""
    return installed() and (X.is_cuda or os.environ.get("TRITON_INTERPRET") == "1")


def suits(architecture: Architecture, X: torch.Tensor) -> bool:
    """Whether the fused kernels take this tree on these rows: mapped nodes are to have maps of one rank."""
    twins = [members.kind.twin for members in architecture.members]
    return runs(X) and architecture.depth <= 2 and None not in twins and sum(t.mapped for t in twins if t) <= 1


def suits_backward(architecture: Architecture, X: torch.Tensor, Z: torch.Tensor | None) -> bool:
    """The same for the backward sweep, which takes mapped nodes on one set of rows alone."""
    return suits(architecture, X) and (Z is None or not mapped(architecture))


def suits_chains(architecture: Architecture, X: torch.Tensor) -> bool:
    """The same for chains (:mod:`hgk.kernels.sweeps.compiled.chains`), which take squares of differences alone."""
    return suits(architecture, X) and all(kind.twin == Twin(2.0) for kind in architecture.kinds)


def sweep(
    architecture: Architecture, W: Weights, gamma: float, X: torch.Tensor, Z: torch.Tensor | None = None
) -> FusedSweep:
    """The sweep of these rows; the weights are brought to them."""
    return FusedSweep(layout_of(architecture, X.device), tuple(w.to(X.device) for w in W), gamma, X, Z)
