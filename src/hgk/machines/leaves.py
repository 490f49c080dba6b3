"""Least squares in leaves: a partition of the rows, and a kernel, c = nλ and an exact machine for every leaf.

    f(x) = f_l(x)  in leaf l,      f_l = Σ_{j in l} α_j k_l(x_j, ·),      α_l = (K_l + c_l S_l⁻¹)⁻¹ y_l

A row of one leaf has no part in the function of another, so that functions without single rows are those of its leaf:
as exact as for a machine on all rows, and far cheaper. Rows are kept once; a leaf has their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from hgk.arrays import accelerated
from hgk.executor import Threads
from hgk.kernels import HierarchicalKernel, stackable
from hgk.machines.base import Machine, Sum
from hgk.machines.exact import Exact
from hgk.machines.leaves_stacked import fill_stacked
from hgk.machines.partition import Partition
from hgk.machines.rows import Rows
from hgk.storable import expect, real, storable

# Leaves from which threads take some each.
MANY_LEAVES = 16
# Rows of a leaf, and leaves, by which importances are measured.
SEEN, LOOKED_AT = 200, 64


@storable
@dataclass(frozen=True, eq=False)
class InLeaves(Sum):
    """The machine of one partition.

    Attributes
    ----------
    kernel : HierarchicalKernel
        What the leaves' kernels have come from, by steps of their own; theirs have the same tree.
    X, alpha : tensors of shapes (rows, features) and (rows, outputs)
        All rows; α is 0 for rows that no leaf has.
    partition : Partition
    W : tuple of tensors
        The weights of the leaves' kernels: arrays as the kernel has them, with one more axis in front; () where they
        are the kernel's.
    gammas, cs : tensors of shape (leaves,)
        γ and c = nλ of every leaf.
    stand_in : Machine or None
        The function in leaves without rows, which a fit that was stopped did not come to.
    """

    compressible = False

    kernel: HierarchicalKernel
    partition: Partition = field(kw_only=True)
    W: tuple[torch.Tensor, ...] = field(kw_only=True)
    gammas: torch.Tensor = field(kw_only=True)
    cs: torch.Tensor = field(kw_only=True)
    stand_in: Machine | None = field(default=None, kw_only=True)

    # ------------------------------------------------------------------------------------------------ the function

    def kernel_of(self, leaf: int) -> HierarchicalKernel:
        weights = tuple(w[leaf] for w in self.W) if self.W else self.kernel.W
        return replace(self.kernel, W=weights, gamma=float(self.gammas[leaf]))

    def machine_of(self, leaf: int, weight: torch.Tensor) -> Machine:
        """Of a leaf that has rows; ``weight`` is that of all rows."""
        rows = self.partition.rows(leaf)
        lam = float(self.cs[leaf] / weight[rows].sum())
        parts = (torch.arange(len(rows)),)
        # in double precision, as the rows that functions without single ones are asked for
        return Exact(self.kernel_of(leaf), lam, self.X[rows].double(), self.alpha[rows], parts=parts)

    @property
    def _fallback(self) -> Machine:
        if self.stand_in is None:
            raise ValueError("A leaf without rows needs a machine that takes its place; give one as stand_in.")
        return self.stand_in

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Leaf by leaf; operations are too small to be shared by threads, so that leaves are. An accelerator takes many
        leaves at once.
        """
        t, rows, groups = X.new_zeros(len(X), self.outputs), X.to(self.X.dtype), _groups(self.partition.route(X))

        def fill(groups: Sequence[tuple[torch.Tensor, int]]) -> None:
            for mine, number in groups:
                members = self.partition.rows(number)
                if len(members):
                    alpha = self.alpha[members].to(rows)
                    t[mine] = self.kernel_of(number).multiply(rows[mine], self.X[members], alpha, often=True).to(t)
                else:
                    t[mine] = self._fallback(X[mine]).to(t)

        if accelerated(X) and stackable(self.kernel.architecture):
            fill_stacked(self, rows, [group for group in groups if len(self.partition.rows(group[1]))], t)
            groups = [group for group in groups if not len(self.partition.rows(group[1]))]
        workers = 1 if accelerated(X) or len(groups) < MANY_LEAVES else torch.get_num_threads()
        if workers == 1:
            fill(groups)
        else:
            Threads(workers, inner=1).run([partial(fill, groups[k::workers]) for k in range(workers)])
        return t

    def similarities(self, X):
        c, similar = X.new_zeros(len(X), self.outputs, len(self.X)), X.new_zeros(len(X), len(self.X))
        for mine, number in _groups(self.partition.route(X)):
            members = self.partition.rows(number)
            if not len(members):
                raise ValueError(
                    "A prediction is no sum over the rows of its leaf where the fit was stopped before it came to that "
                    "leaf; fit again to the end."
                )
            K = self.kernel_of(number).matrix(X[mine].to(self.X.dtype), self.X[members]).to(X)
            similar[mine[:, None], members] = K
            c[mine[:, None], :, members] = (self.alpha[members][None] * K[:, :, None]).to(X)
        return c, similar

    def kernel_at(self, x):
        (number,) = self.partition.route(x.reshape(1, -1)).tolist()
        return self.kernel_of(number) if len(self.partition.rows(number)) else self._fallback.kernel_at(x)

    def shares(self, X):
        """The mean over leaves, each on rows of its own, in proportion to their rows."""
        sizes = self.partition.sizes
        numbers = sizes.nonzero()[:, 0]
        if not len(numbers):  # the fit was stopped before its first leaf
            return self._fallback.shares(X)
        numbers = numbers[:: -(-len(numbers) // LOOKED_AT)]
        total = np.zeros(self.kernel.W[0].shape)
        for number in numbers.tolist():
            rows = self.partition.rows(number)
            seen = self.X[rows[:: -(-len(rows) // SEEN)]].double()
            total += int(sizes[number]) / int(sizes[numbers].sum()) * self.kernel_of(number).shares(seen)
        return total

    # -------------------------------------------------------------------------------------------- rows left out

    def leave_one_out(self, rows):
        """Leaf by leaf, so that no more than one factor is held."""
        t = torch.empty_like(rows.Y)
        for mine, leaf, members in self._asked(rows, torch.arange(len(rows))):
            if leaf < 0:
                t[mine] = self._of_others(rows, mine)[0]
            else:
                t[mine] = self.machine_of(leaf, rows.weight).leave_one_out(rows[members])
        return t

    def without_one(self, rows, index):
        values, parts = rows.Y.new_empty(len(index), rows.Y.shape[1]), []
        for mine, leaf, members in self._asked(rows, index):
            if leaf < 0:
                values[mine], there = self._of_others(rows, index[mine])
            else:
                machine = self.machine_of(leaf, rows.weight)
                values[mine], there = machine.without_one(rows[members], _places(members, index[mine]))
            parts.append((mine, leaf, there))

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            t, at = self(X).T[:, :, None].repeat(1, 1, len(index)), self.partition.route(X)
            empty = (self.partition.sizes.to(X.device)[at] == 0).nonzero()[:, 0]
            for mine, leaf, there in parts:
                inside = empty if leaf < 0 else (at == leaf).nonzero()[:, 0]
                if len(inside) and there is not None:
                    t[:, inside[:, None], mine] = there(X[inside])
            return t

        return values, elsewhere

    def without_own(self, rows, index, coarse=False):
        """A row matters in its own leaf alone; rows that no leaf has, in the machine that stands in for empty ones."""
        parts = []
        for mine, leaf, members in self._asked(rows, index):
            if leaf >= 0:
                machine = self.machine_of(leaf, rows.weight)
                without = machine.without_own(rows[members], _places(members, index[mine]), coarse)
                parts.append((mine, leaf, without))
            elif self.stand_in is not None and len(self._routed_to_empty(rows, index[mine])):
                parts.append((mine, leaf, self.stand_in.without_own(rows, index[mine], coarse)))

        def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            t, at = self(X).to(rows.Y), self.partition.route(X)
            at = torch.where(self.partition.sizes.to(at)[at] > 0, at, -1)
            for mine, leaf, without in parts:
                there = torch.full((len(index),), -1, device=place.device)
                there[mine] = torch.arange(len(mine), device=place.device)
                moved = ((there[place] >= 0) & (at == leaf)).nonzero()[:, 0]
                if len(moved):
                    t[moved] = without(X[moved], there[place[moved]]).to(t)
            return t

        return own

    def leave_two_out(self, rows, index):
        """Of rows in two leaves neither has a part in the other's function."""
        values, elsewhere = self.without_one(rows, index)
        t = values.T[:, :, None].repeat(1, 1, len(index))
        inside = self.partition.leaf_of_rows(len(rows))[index] >= 0
        for mine, leaf, members in self._asked(rows, index):
            if leaf >= 0:
                both = self.machine_of(leaf, rows.weight).leave_two_out(rows[members], _places(members, index[mine]))
                t[:, mine[:, None], mine] = both
                continue
            empty = torch.zeros(len(mine), dtype=torch.bool)
            empty[self._routed_to_empty(rows, index[mine])] = True
            stood_in, others = mine[empty], mine[~empty]
            if len(stood_in):
                t[:, stood_in[:, None], stood_in] = self._fallback.leave_two_out(rows, index[stood_in])
            if len(others):  # predicted by rows that may leave
                t[:, others[:, None], inside] = elsewhere(rows.X[index[others]])[:, :, inside]
        return t

    def _asked(self, rows: Rows, index: torch.Tensor) -> list[tuple[torch.Tensor, int, torch.Tensor]]:
        """By leaf: which of the rows asked for it has, its number, -1 for none, and its rows."""
        leaf = self.partition.leaf_of_rows(len(rows))[index]
        return [
            (mine, number, self.partition.rows(number) if number >= 0 else self.partition.order[:0])
            for mine, number in _groups(leaf)
        ]

    def _routed_to_empty(self, rows: Rows, index: torch.Tensor) -> torch.Tensor:
        """Which of these rows fall into leaves that have no rows."""
        at = self.partition.route(rows.X[index]).cpu()
        return (self.partition.sizes[at] == 0).nonzero()[:, 0]

    def _of_others(self, rows: Rows, index: torch.Tensor):
        """Of rows that no leaf has: their leaf's function does without them, that of the other machine may not."""
        values, there = self(rows.X[index]), None
        empty = self._routed_to_empty(rows, index)
        if len(empty):
            values[empty], of_some = self._fallback.without_one(rows, index[empty])

            def there(X: torch.Tensor) -> torch.Tensor:
                t = self._fallback(X).T[:, :, None].repeat(1, 1, len(index)).to(rows.Y)
                t[:, :, empty] = of_some(X)
                return t

        return values, there

    # ------------------------------------------------------------------------------------------------------ copies

    def to(self, device=None, dtype=None):
        """Rows in single precision stay so: the leaves were trained in it."""
        moved = super().to(device, None if self.X.dtype == torch.float32 else dtype)
        other = None if self.stand_in is None else self.stand_in.to(device, dtype)
        return replace(moved, stand_in=other)

    def compact(self):
        return replace(self, stand_in=None if self.stand_in is None else self.stand_in.compact())

    def check(self, features, rows):
        super().check(features, rows)
        parts, leaves = self.partition, len(self.partition)
        expect(parts.directions.shape[1] == features, "a partition does not fit the features")
        known = len(self.X) if rows is None else len(rows)
        expect(len(self.X) == known, "a machine's rows are not the training rows")
        inside = len(parts.order) == 0 or (int(parts.order.min()) >= 0 and int(parts.order.max()) < len(self.X))
        expect(inside, "a leaf has unknown rows")
        for part in (self.gammas, self.cs):
            expect(part.shape == (leaves,) and real(part) and bool((part > 0).all()), "leaves lack γ or λ")
        shapes = [(leaves, *w.shape) for w in self.kernel.W]
        fits = not self.W or [tuple(w.shape) for w in self.W] == shapes
        expect(fits and all(real(w) for w in self.W), "the leaves' weights do not fit their tree")
        expect(bool((parts.sizes > 0).all()) or self.stand_in is not None, "a leaf has no rows")
        self.check_stand_in(features, rows)

    def check_stand_in(self, features: int, rows: Rows | None) -> None:
        if self.stand_in is not None:
            self.stand_in.check(features, rows)


def _groups(leaf: torch.Tensor) -> list[tuple[torch.Tensor, int]]:
    """Rows by their leaves: which, in order, and the leaf's number."""
    order = leaf.argsort(stable=True)
    numbers, counts = leaf[order].unique_consecutive(return_counts=True)
    return list(zip(order.split(counts.tolist()), numbers.tolist(), strict=True))


def _places(members: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Where in the leaf these of its rows are; a leaf's rows are in increasing order."""
    return torch.searchsorted(members, index.contiguous())
