"""Least squares over the span of some of the rows, the centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.arrays import available_memory, blocks, row_blocks
from hgk.events import Counted
from hgk.kernels import Kernel
from hgk.machines.base import Sum, without_own_term
from hgk.machines.rows import Rows, clipped_risk
from hgk.progress import Progress
from hgk.solvers import Nystrom
from hgk.solvers.nystrom import NystromState
from hgk.storable import storable


@storable
@dataclass(frozen=True, eq=False)
class OnCentres(Sum):
    """Nyström's machine; ``X`` are its centres."""

    def without_one(self, rows, index):
        """f^(-i)(x) = f(x) - s_i r_i k(x)ᵀ B k_i,  r_i = (y_i - f(x_i)) / (1 - s_i k_iᵀ B k_i), for s_i of one
        repetition.
        """
        B, mine, predicted, changes = self._changes(rows, index)

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            t = self(X).T[:, :, None].repeat(1, 1, len(mine))
            at = self.kernel.matrix(X, self.X) @ B if len(X) else X.new_empty(0, len(B))
            for block in row_blocks(len(mine), len(B)) if len(X) else ():
                solved = at @ self.kernel.matrix(mine.X[block], self.X).T
                for output, by in zip(t, changes[block].T, strict=True):
                    output[:, block] -= solved * by
            return t

        return predicted, elsewhere

    def without_own(self, rows, index, coarse=False):
        B, mine, _, changes = self._changes(rows, index)
        columns = torch.cat([self.kernel.matrix(mine.X[part], self.X) @ B for part in row_blocks(len(mine), len(B))])

        def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            t = X.new_empty(len(X), self.outputs)
            for block in row_blocks(len(X), len(B)):
                K, i = self.kernel.matrix(X[block], self.X), place[block]
                t[block] = without_own_term(K, self.alpha, columns[i], changes[i])
            return t

        return own

    def _changes(self, rows: Rows, index: torch.Tensor) -> tuple[torch.Tensor, Rows, torch.Tensor, torch.Tensor]:
        """B, the rows of ``index``, f^(-i)(x_i) and s_i r_i."""
        solver = Nystrom()
        state = solver.prepare(self.kernel.matrix(self.X))
        _add(solver, state, self, rows)
        B, mine = solver.influence(state, self.lam), rows[index]
        s = (mine.weight / mine.repetitions)[:, None]
        predicted, changes = torch.empty_like(mine.Y), torch.empty_like(mine.Y)
        for block in row_blocks(len(mine), len(B)):
            k = self.kernel.matrix(mine.X[block], self.X)
            leverage = (s[block, 0] * ((k @ B) * k).sum(1)).clamp(max=1 - 1e-9)[:, None]
            r = (mine.Y[block] - k @ self.alpha) / (1 - leverage)
            predicted[block], changes[block] = mine.Y[block] - r, s[block] * r
        return B, mine, predicted, changes

    def leave_two_out(self, rows, index):
        """With B = {i, j} and H_ij = k_iᵀ B k_j s_j, s_j of one repetition, (y - f^(-B))_B = (I - H_BB)⁻¹ (y - f)_B."""
        solver = Nystrom()
        state = solver.prepare(self.kernel.matrix(self.X))
        _add(solver, state, self, rows)
        mine = rows[index]
        k = self.kernel.matrix(mine.X, self.X)
        H = (k @ solver.influence(state, self.lam) @ k.T) * (mine.weight / mine.repetitions)
        kept = (1 - H.diagonal()).clamp(min=1e-9)
        error = (mine.Y - k @ self.alpha).T
        determinant = (kept[:, None] * kept[None, :] - H * H.T).fill_diagonal_(1.0)
        r = (kept[None, :] * error[:, :, None] + H * error[:, None, :]) / determinant
        same = torch.eye(len(index), dtype=torch.bool)
        return mine.Y.T[:, :, None] - torch.where(same, (error / kept)[:, :, None], r)


def train_on_centres(
    kernel: Kernel,
    rows: Rows,
    lams: Sequence[float],
    centres: torch.Tensor,
    held_out: torch.Tensor,
    clip: float,
    progress: Progress,
) -> OnCentres:
    """Nyström's machine on all rows; λ is the best for the rows ``held_out``, which are added last.

    The rows pass once, in blocks, in single precision.
    """
    solver, X = Nystrom(), rows.X[centres]
    machine = OnCentres(kernel, float(lams[0]), X, rows.Y.new_zeros(len(X), rows.Y.shape[1]))
    state = solver.prepare(kernel.matrix(X))
    out = torch.zeros(len(rows), dtype=torch.bool)
    out[held_out] = True
    _add(solver, state, machine, rows[~out], progress)
    if len(lams) > 1:
        solutions = solver.path(state, None, lams)
        t = kernel.multiply(rows.X[out].float(), X.float(), torch.cat([f.alpha for f in solutions], 1).float())
        columns = t.double().split(rows.Y.shape[1], 1)
        risks = [clipped_risk(column, rows[out], clip) for column in columns]
        lams = [lams[int(np.argmin(risks))]]
    _add(solver, state, machine, rows[out])
    solved = solver.solve(state, None, lams[0])
    return replace(machine, lam=float(lams[0]), alpha=solved.alpha, ridge_added=solved.stats["ridge_added"])


def _add(
    solver: Nystrom, state: NystromState, machine: OnCentres, rows: Rows, progress: Progress | None = None
) -> None:
    """Count all rows, in blocks of at most 64 MiB."""
    centres = machine.X.float()
    elements = min(2**23, available_memory(rows.X.device) // 32)  # of a block, thrice, in double precision
    for block in blocks(len(rows), max(1, elements // len(centres))):
        part = rows[block]
        solver.add(state, machine.kernel.matrix(part.X.float(), centres), part.Y, part.weight)
        if progress is not None:
            progress.report(Counted(done=block.stop, of=len(rows)))
