"""The logistic machine of classes in leaves: all values of a leaf's rows are solved for together.

    f(x) = f_l(x)  in leaf l,      α_l = C_l r_l,      C_i = s_i / (2 c_l),      r = y - p(f_l)

Functions without single rows are those of one Newton step from the leaf's minimum (:mod:`hgk.solvers.classes`).

A leaf may lack classes, or have one alone: f_l is finite, since ‖f_l‖ is penalised. Where the n rows of a leaf are much
alike and of one class of two, f = n (1 - p) / (2 c), so that 1 - p = 2 c f / n: as if 2 c f rows of the other class had
been seen, a part of one for c as leaves have it. Far from these rows f_l falls to 0, where nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from hgk.machines.leaves import InLeaves
from hgk.machines.of_classes import LogOdds, OfClasses
from hgk.storable import storable


@storable
@dataclass(frozen=True, eq=False)
class ClassesInLeaves(LogOdds, InLeaves):  # type: ignore[override]
    """The logistic machine of the leaves of one partition.

    What stands in for leaves without rows is a partition of a single leaf, of some of the rows.

    Attributes
    ----------
    gap_left : float
        The largest relative duality gap of a leaf.
    """

    gap_left: float = field(default=0.0, kw_only=True)

    def machine_of(self, leaf: int, weight: torch.Tensor) -> OfClasses:
        members = self.partition.rows(leaf)
        lam = float(self.cs[leaf] / weight[members].sum())
        return OfClasses(self.kernel_of(leaf), lam, self.X[members].double(), self.alpha[members], 0.0, self.gap_left)
