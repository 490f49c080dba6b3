"""Kinds that sum over columns, for many kernels at once: the twin of ``StackedDistances`` and ``StackedProducts``.

    E[b, i] = -Σ_j v_bij² |x_ja - x_jb|^q            sums_bij = Σ N[b, i] |x_ja - x_jb|^q

One program looks after one tile of pairs of one kernel b, and G of its nodes. Distances never leave the tile, where the
plain twin writes columns x pairs of them and reads them again.
"""

from __future__ import annotations

import torch

from hgk.kernels.nodes.base import Members, Stacked, Weights

# Rows of a tile there and back, and nodes that share its distances.
SIDE, BACK_SIDE, NODES_TOGETHER = 32, 32, 4


class FusedColumns(Stacked):
    """S_i = Σ_j v_ij² |x_j - x'_j|^q of the nodes of one kind; of one row set, N is symmetric."""

    HELD = 1.0

    def __init__(self, members: Members, W: Weights, X: torch.Tensor, Z: torch.Tensor):
        super().__init__(members, W, X, Z)
        assert members.kind.twin is not None
        self.q, self.V = members.kind.twin.q, W[0][self.block]
        self.columns_of_X, self.columns_of_Z = (rows[..., members.used].mT.contiguous() for rows in (X, Z))
        self.symmetric = Z is X
        self.node = torch.tensor(self.nodes, dtype=torch.int32, device=X.device)

    def _over(self, tiles: int) -> tuple[int, int]:
        """Tiles of all kernels, and groups of nodes."""
        return len(self.X) * tiles, -(-len(self.nodes) // NODES_TOGETHER)

    def fill(self, E: torch.Tensor) -> None:
        from hgk.kernels.sweeps.compiled import of_many

        down, across = (-(-rows.shape[1] // SIDE) for rows in (self.X, self.Z))
        of_many.many_exponents[self._over(down * across)](
            self.columns_of_X, self.columns_of_Z, (self.V**2).to(E), self.node, E, self.X.shape[1], self.Z.shape[1],
            len(self.members.used), len(self.nodes), E.shape[1], self.q,
            SQUARE=self.q == 2, ABSOLUTE=self.q == 1, G=NODES_TOGETHER, B=SIDE, num_warps=1,
        )  # fmt: skip

    def accumulate(self, N: torch.Tensor, grads: Weights) -> None:
        from hgk.kernels.sweeps.compiled import of_many

        down, across = (-(-rows.shape[1] // BACK_SIDE) for rows in (self.X, self.Z))
        tiles, used = down * (down + 1) // 2 if self.symmetric else down * across, len(self.members.used)
        sums = N.new_empty(len(N), tiles, len(self.nodes), used)
        of_many.many_sums[self._over(tiles)](
            self.columns_of_X, self.columns_of_Z, N, self.node, sums, self.X.shape[1], self.Z.shape[1],
            used, len(self.nodes), N.shape[1], self.q, SQUARE=self.q == 2, ABSOLUTE=self.q == 1,
            SYMMETRIC=self.symmetric, G=NODES_TOGETHER, B=BACK_SIDE, num_warps=1,
        )  # fmt: skip
        grads[0][self.block] -= 2 * self.V * sums.sum(1, dtype=torch.float64)
