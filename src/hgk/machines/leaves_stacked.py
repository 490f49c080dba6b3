"""Predictions of many leaves at once, for accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from hgk.arrays import blocks
from hgk.kernels import StackedSweep, bytes_of_sweep
from hgk.machines.stacked import padded, stacks

if TYPE_CHECKING:
    from hgk.machines.leaves import InLeaves

# New rows of a leaf that are predicted at a time.
AT_A_TIME = 1024


def fill_stacked(
    machine: InLeaves, X: torch.Tensor, groups: Sequence[tuple[torch.Tensor, int]], t: torch.Tensor
) -> None:
    """f at the rows of every group, which are numbers of rows of X and their leaf, into t; the leaves have rows."""
    architecture, parts = machine.kernel.architecture, machine.partition
    pieces = [(mine[block], leaf) for mine, leaf in groups for block in blocks(len(mine), AT_A_TIME)]
    widest = int(parts.sizes.max())

    def need(size: int) -> float:
        return bytes_of_sweep(architecture, size * widest, X.element_size())

    for load in stacks([len(mine) for mine, _ in pieces], need, X.device):
        leaves = [pieces[i][1] for i in load]
        asked, here = padded([pieces[i][0] for i in load], X.device)
        members, present = padded([parts.rows(leaf) for leaf in leaves], X.device)
        W = tuple(w[leaves] for w in machine.W) or tuple(w.expand(len(leaves), *w.shape) for w in machine.kernel.W)
        gammas = machine.gammas[leaves].to(X.device)
        K = StackedSweep(architecture, W, gammas, present, X[asked], machine.X[members]).matrix()
        values = K @ (machine.alpha[members] * present[..., None]).to(X)
        t[asked[here]] = values[here].to(t)
