"""The machine of any convex loss in leaves: in every leaf the mean of machines that were trained without one fold each.

Leaves are small, so that losses which are solved on kernel matrices take any number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from hgk.losses import Loss
from hgk.machines.leaves import InLeaves
from hgk.machines.of_loss import ByFolds
from hgk.machines.partition import Partition
from hgk.storable import storable


@storable
@dataclass(frozen=True, eq=False)
class LossInLeaves(ByFolds, InLeaves):
    """The machine of a loss in the leaves of one partition.

    c = nλ is the same in all leaves. What stands in for leaves without rows is a machine of the loss on some rows.
    """

    loss: Loss | None = field(default=None, kw_only=True)
    lams: tuple[float, ...] = field(default=(), kw_only=True)
    held_out: torch.Tensor | None = field(default=None, kw_only=True)
    aside: torch.Tensor | None = field(default=None, kw_only=True)
    gap_left: float = field(default=0.0, kw_only=True)

    def compact(self):
        return replace(super().compact(), held_out=None, aside=None)

    def similar_to(self, X, x):
        """0 for rows of another leaf."""
        (leaf,) = self.partition.route(x).tolist()
        together = (self.partition.route(X) == leaf)[:, None]
        return torch.where(together, self.kernel_of(leaf).matrix(X, x), 0.0)

    def _gathered_parts(self, origin):
        """Pieces of a row are equal, and so in one leaf, but for those that no leaf has."""
        parts = self.partition
        leaves = [origin[parts.rows(leaf)].unique() for leaf in range(len(parts))]
        ends = torch.tensor([0, *map(len, leaves)]).cumsum(0)
        return {"partition": Partition(parts.directions, parts.thresholds, parts.children, torch.cat(leaves), ends)}

    def check(self, features, rows):
        InLeaves.check(self, features, rows)
        self.check_held_out(rows)

    def check_stand_in(self, features, rows):
        super().check_stand_in(features, None)  # it has rows of its own, and nothing held out
