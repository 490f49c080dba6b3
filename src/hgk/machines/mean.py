"""The mean of machines that have a kernel, coefficients and λ each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from hgk.kernels import Kernel, MeanKernel
from hgk.machines.base import Machine
from hgk.machines.rows import Rows
from hgk.storable import Malformed, storable


@storable
@dataclass(frozen=True, eq=False)
class MeanOfMachines(Machine):
    """f = Σ_m f_m / M.

    ``kernel`` is the mean of the machines' kernels, ``alpha`` has one more axis in front, one entry for each machine,
    and ``lam`` is the geometric mean of theirs.
    """

    machines: tuple[Machine, ...]

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        return MeanKernel.of([kernel for _, kernel, _, _ in self.terms], [share for share, *_ in self.terms])

    @property
    def lam(self) -> float:  # type: ignore[override]
        return float(np.exp(np.mean([np.log(machine.lam) for machine in self.machines])))

    @property
    def X(self) -> torch.Tensor:  # type: ignore[override]
        return self.machines[0].X

    @property
    def alpha(self) -> torch.Tensor:  # type: ignore[override]
        return torch.stack([machine.alpha for machine in self.machines])

    @property
    def ridge_added(self) -> float:  # type: ignore[override]
        return max(machine.ridge_added for machine in self.machines)

    @property
    def gap(self) -> float:  # type: ignore[override]
        return max(machine.gap for machine in self.machines)

    @property
    def clip(self) -> float:
        return self.machines[0].clip

    @property
    def lams(self):
        return self.machines[0].lams

    @property
    def terms(self):
        many = len(self.machines)
        return [(share / many, *rest) for machine in self.machines for share, *rest in machine.terms]

    @property
    def held_out(self) -> torch.Tensor | None:  # type: ignore[override]
        """The mean over the machines that have not seen a row."""
        kept = [machine.held_out for machine in self.machines if machine.held_out is not None]
        if not kept:
            return None
        t = torch.stack(kept)
        known = t.isfinite().sum(0).to(t)
        return t.nan_to_num(0.0).sum(0) / torch.where(known > 0, known, torch.nan)

    @property
    def aside(self) -> torch.Tensor | None:  # type: ignore[override]
        return self.machines[0].aside

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return torch.stack([machine(X) for machine in self.machines]).mean(0)

    def without_one(self, rows, index):
        parts = [machine.without_one(rows, index) for machine in self.machines]
        values = torch.stack([t for t, _ in parts]).mean(0)

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            t = rows.Y.new_zeros(rows.Y.shape[1], len(X), len(index))
            for _, there in parts:
                t.add_(there(X), alpha=1 / len(parts))
            return t

        return values, elsewhere

    def leave_two_out(self, rows, index):
        return torch.stack([machine.leave_two_out(rows, index) for machine in self.machines]).mean(0)

    def parts_of(self):
        return list(self.machines)

    def to(self, device=None, dtype=None):
        return self._each(lambda machine: machine.to(device, dtype))

    def compact(self):
        return self._each(lambda machine: machine.compact())

    def gathered(self, pieces, origin, rows):
        return self._each(lambda machine: machine.gathered(pieces, origin, rows))

    def _each(self, change) -> MeanOfMachines:
        """All changed; rows that they share they share afterwards, too."""
        machines = [change(machine) for machine in self.machines]
        shared = all(machine.X is self.X for machine in self.machines)
        rows = machines[0].X
        return replace(self, machines=tuple(replace(m, X=rows) if shared else m for m in machines))

    def check(self, features: int, rows: Rows | None) -> None:
        if not self.machines:
            raise Malformed("a mean has no machine")
        for machine in self.machines:
            machine.check(features, rows)
            if machine.alpha.shape != self.machines[0].alpha.shape or machine.lams != self.lams:
                raise Malformed("the machines of a mean differ in their outputs")
