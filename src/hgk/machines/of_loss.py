"""The machine of any convex loss: the mean of machines that were trained without one fold each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from hgk.losses import Loss
from hgk.machines.base import Inseparable, check_parts_of_rows
from hgk.machines.rows import Rows
from hgk.storable import expect, real, storable

# The relative duality gap that is wanted.
FINE = 1e-5


class ByFolds(Inseparable):
    """What machines of a loss have in common: predictions by those that were trained without a row's fold are kept.

    Attributes
    ----------
    loss : Loss or None
    lams : tuple of float
        λ of every output, of which ``lam`` is the geometric mean.
    held_out, aside : tensors of shapes (rows, outputs) and (rows,), or None
        ``aside`` is the share of a row's repetitions that ``held_out`` predictions are of: all, or those which were
        kept from learning the kernel, too.
    gap_left : float
    """

    loss: Loss | None
    held_out: torch.Tensor | None
    aside: torch.Tensor | None
    gap_left: float

    @property
    def gap(self) -> float:  # type: ignore[override]
        return self.gap_left if self.gap_left > FINE else 0.0

    @property
    def clip(self) -> float:
        """Margins are not clipped: how far they exceed 1 tells them apart."""
        return float("inf") if self.loss is None or self.loss.signs else self.loss.clip(torch.ones(1))

    @property
    def refusal(self) -> str:
        return (
            f"Functions without single rows were asked for of a model with the loss {type(self.loss).__name__}; they "
            "are exact for least squares alone, so fit with loss='least_squares'."
        )

    def without_own(self, rows, index, coarse=False):
        """f(x) - (f(x_i) - f^(-i)(x_i)) k(x, x_i): what a row's fold did to f at the row, as far as x is like it.

        f^(-i)(x_i) is what was held out, so that this is exact at x_i; elsewhere nothing else is kept of the folds. A
        row that all machines have seen stays.
        """
        held_out = cast(torch.Tensor, self.held_out)[index]
        pull = (self(rows.X[index]) - held_out).nan_to_num(0.0)

        def own(X: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            t = self(X)
            for i in place.unique().tolist():
                mine = (place == i).nonzero()[:, 0]
                t[mine] -= self.similar_to(X[mine], rows.X[index[i]].reshape(1, -1)) * pull[i]
            return t

        return own

    def similar_to(self, X: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """k(X, x) for a training row x, in a column."""
        return self.kernel.matrix(X, x)

    def gathered(self, pieces, origin, rows):
        """α is added, what was held out is averaged. Of a row with pieces that were kept from the kernel, only these
        speak.
        """
        held_out, aside = cast(torch.Tensor, self.held_out), cast(torch.Tensor, self.aside)
        weight = pieces.weight.to(held_out.device)
        known = weight * held_out.isfinite().all(1)
        apart = known * aside

        def added(values: torch.Tensor) -> torch.Tensor:
            where = origin.to(values.device)
            return values.new_zeros(rows, *values.shape[1:]).index_add_(0, where, values)

        share = torch.where(added(apart)[origin] > 0, apart, known)[:, None]
        total = added(share)
        first = torch.full((rows,), len(origin)).scatter_reduce(0, origin, torch.arange(len(origin)), "amin")
        return replace(
            cast(Any, self),
            X=self.X[first],
            alpha=added(self.alpha),
            held_out=added(torch.where(share > 0, share * held_out, 0.0)) / total.where(total > 0, torch.nan),
            aside=added(apart) / added(weight),
            **self._gathered_parts(origin),
        )

    def _gathered_parts(self, origin: torch.Tensor) -> dict:
        """Fields that hold numbers of rows."""
        return {}

    def check_held_out(self, rows: Rows | None) -> None:
        outputs = self.outputs
        expect(self.loss is not None and self.loss.levels in (1, outputs), "a machine's loss does not fit its outputs")
        fits = len(self.lams) == outputs and all(lam > 0 for lam in self.lams) and self.gap_left >= 0
        expect(fits, "a machine's λ do not fit")
        lacking = (rows is None, self.held_out is None, self.aside is None)
        expect(len(set(lacking)) == 1, "a machine's held-out predictions are lacking")
        if rows is None or self.held_out is None or self.aside is None:
            return
        fits = self.held_out.shape == (len(rows), outputs) and self.held_out.dtype == torch.float64
        fits = fits and not bool(self.held_out.isinf().any()) and self.aside.shape == (len(rows),)
        fits = fits and real(self.aside) and bool(((self.aside >= 0) & (self.aside <= 1)).all())
        expect(fits, "a machine's held-out predictions do not fit its rows")


@storable
@dataclass(frozen=True, eq=False)
class OfLoss(ByFolds):
    """The mean of machines of a loss on parts of the rows ``X``."""

    loss: Loss | None = None
    lams: tuple[float, ...] = ()
    parts: tuple[torch.Tensor, ...] = ()
    held_out: torch.Tensor | None = None
    aside: torch.Tensor | None = None
    gap_left: float = 0.0

    def __post_init__(self) -> None:
        if self.aside is not None and self.aside.dtype == torch.bool:  # in files before schema 4
            object.__setattr__(self, "aside", self.aside.double())

    def compact(self):
        return replace(self, parts=(), held_out=None, aside=None)

    def _gathered_parts(self, origin):
        return {"parts": tuple(origin[part].unique() for part in self.parts)}

    def check(self, features, rows):
        super().check(features, rows)
        check_parts_of_rows(self, rows)
        self.check_held_out(rows)
