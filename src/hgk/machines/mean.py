"""The mean of machines that have a kernel, coefficients and λ each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch

from hgk.kernels import Kernel, MeanKernel
from hgk.machines.base import Machine
from hgk.machines.rows import Rows
from hgk.storable import Malformed, storable


@dataclass(frozen=True, eq=False)
class SeveralMachines(Machine):
    """What machines with proportions have together; see :class:`MeanOfMachines`."""

    machines: tuple[Machine, ...]
    proportions: tuple[float, ...] = ()

    @property
    def weights(self) -> list[float]:
        """p_m."""
        given = self.proportions or (1.0,) * len(self.machines)
        return [p / sum(given) for p in given]

    @property
    def by_rows(self) -> list[list[tuple[float, Machine]]]:
        """p_m and machines, those that sum over the same rows together."""
        groups: dict[int, list[tuple[float, Machine]]] = {}
        for p, machine in zip(self.weights, self.machines, strict=True):
            groups.setdefault(id(machine.X), []).append((p, machine))
        return list(groups.values())

    @property
    def outputs(self) -> int:
        return self.machines[0].outputs

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        return MeanKernel.of([kernel for _, kernel, _, _ in self.terms], [share for share, *_ in self.terms])

    @property
    def lam(self) -> float:  # type: ignore[override]
        return float(np.exp(np.mean([np.log(machine.lam) for machine in self.machines])))

    @property
    def X(self) -> torch.Tensor:  # type: ignore[override]
        rows = [group[0][1].X for group in self.by_rows]
        return rows[0] if len(rows) == 1 else torch.cat([X.double() for X in rows])

    @property
    def alpha(self) -> torch.Tensor:  # type: ignore[override]
        if len(self.by_rows) > 1:
            raise AttributeError(
                "These machines sum over different rows; ask machine_.parts_of() for each one's alpha."
            )
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
        mine = zip(self.weights, self.machines, strict=True)
        return [(p * share, *rest) for p, machine in mine for share, *rest in machine.terms]

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


@storable
@dataclass(frozen=True, eq=False)
class MeanOfMachines(SeveralMachines):
    """f = Σ_m p_m f_m, with p_m in proportion to ``proportions``; all alike where none are given.

    ``kernel`` is the mean of the machines' kernels, and ``lam`` the geometric mean of theirs. ``alpha`` has one more
    axis in front, one entry for each machine; where they sum over different rows, ``X`` has those of all, one below the
    other, and there is no common ``alpha``.
    """

    def _mean(self, values: Callable[[Machine], torch.Tensor]) -> torch.Tensor:
        """Σ_m p_m of what each machine gives; no more than two of these are held at once."""
        total = None
        for p, machine in zip(self.weights, self.machines, strict=True):
            part = values(machine)
            total = p * part if total is None else total.add_(part, alpha=p)
        return cast(torch.Tensor, total)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return self._mean(lambda machine: machine(X))

    def similarities(self, X):
        parts = []
        for group in self.by_rows:
            terms = [(p, *machine.similarities(X)) for p, machine in group]
            parts.append((sum(p * c for p, c, _ in terms), sum(p * K for p, _, K in terms)))
        c, K = (torch.cat(part, -1) for part in zip(*parts, strict=True))
        return c, K

    def kernel_at(self, x):
        return self.machines[0].kernel_at(x)

    def shares(self, X):
        return np.vstack([p * machine.shares(X) for p, machine in zip(self.weights, self.machines, strict=True)])

    def leave_one_out(self, rows):
        return self._mean(lambda machine: machine.leave_one_out(rows))

    def without_one(self, rows, index):
        parts = {id(machine): machine.without_one(rows, index) for machine in self.machines}

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            return self._mean(lambda machine: parts[id(machine)][1](X))

        return self._mean(lambda machine: parts[id(machine)][0]), elsewhere

    def without_own(self, rows, index, coarse=False):
        parts = {id(machine): machine.without_own(rows, index, coarse) for machine in self.machines}
        return lambda X, place: self._mean(lambda machine: parts[id(machine)](X, place))

    def leave_two_out(self, rows, index):
        return self._mean(lambda machine: machine.leave_two_out(rows, index))

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
        rows: dict[int, torch.Tensor] = {}
        for before, after in zip(self.machines, machines, strict=True):
            rows.setdefault(id(before.X), after.X)
        pairs = zip(self.machines, machines, strict=True)
        return replace(self, machines=tuple(replace(after, X=rows[id(before.X)]) for before, after in pairs))

    def check(self, features: int, rows: Rows | None) -> None:
        if not self.machines:
            raise Malformed("a mean has no machine")
        for machine in self.machines:
            machine.check(features, rows)
            if machine.outputs != self.outputs or len(machine.lams) != len(self.lams):
                raise Malformed("the machines of a mean differ in their outputs")
        sound = all(p >= 0 for p in self.proportions) and 0 < sum(self.weights) < np.inf
        if len(self.weights) != len(self.machines) or not sound:
            raise Malformed("the proportions of a mean of machines are no proportions")
