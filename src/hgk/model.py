"""The fitted model: inputs, target, machine, training rows, and what happened during the fit.

    table  --inputs-->  features x  --machine-->  f(x), clipped  --target-->  predictions

It knows nothing of scikit-learn. Estimators, files, explanations, the report and the command line speak to it alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any

import numpy as np
import torch

from hgk.arrays import blocks, device_of, on_device, threads_for
from hgk.events import ASIDE, BY_FOLDS, Event, Optimism, honest_error, last
from hgk.importance import Importance
from hgk.inputs import Inputs
from hgk.machines import Elsewhere, Machine, Rows
from hgk.storable import expect, storable
from hgk.targets import Target

# Where models are kept, whatever device they were learned on: every machine can read them.
AT_REST = device_of("cpu")
# Rows predicted at a time.
PREDICTED = 2**18
# What may be known of an error: for labels scaled to [-1, 1]; in the unit of the labels; of classes; of quantiles; of
# probabilities.
MEASURES = ("risk", "r2", "rmse", "wrong", "pinball", "inside", "log_loss")


class CompactModelError(ValueError, AttributeError):
    """A method was called that needs what a compact file or a compressed model leaves out."""


@storable
@dataclass(frozen=True, eq=False)
class Training:
    """What a fit was given; a compact file has none of it.

    Attributes
    ----------
    rows : Rows
        The distinct rows of positive weight: features, labels as the target encodes them, weights, repetitions.
    table : ndarray of shape (distinct rows, columns)
        The same rows as the reader gives them: numbers, codes of categories, NaN.
    place : ndarray of shape (rows given,)
        The distinct row that each given one went to; -1 where its weight was 0.
    left_out : ndarray
        Features of the given rows of weight 0.
    """

    rows: Rows
    table: np.ndarray
    place: np.ndarray
    left_out: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """For every distinct row the number of the first given one that is equal to it."""
        first = np.full(len(self.rows), -1)
        kept = np.flatnonzero(self.place >= 0)[::-1]
        first[self.place[kept]] = kept
        return first

    def as_given(self, values: np.ndarray, axis: int = 0, left_out: float = 0.0) -> np.ndarray:
        """From distinct rows to the given ones."""
        spread = values.take(self.place, axis=axis)
        spread[(slice(None),) * axis + (self.place < 0,)] = left_out
        return spread

    def check(self, columns: int, features: int) -> None:
        n, place = len(self.rows), self.place
        expect(self.rows.X.shape == (n, features), "the training rows do not fit")
        expect(self.table.shape == (n, columns) and self.table.dtype == np.float64, "the training rows do not fit")
        expect(place.ndim == 1 and place.dtype == np.int64 and len(place) > 0, "the order of the rows is lacking")
        expect(-1 <= place.min() <= place.max() < n, "the order of the rows names unknown ones")
        fits = self.left_out.shape == (int((place < 0).sum()), features) and self.left_out.dtype == np.float64
        expect(fits, "the rows without weight do not fit")


@storable
@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model.

    Attributes
    ----------
    inputs : Inputs
    target : Target
    machine : Machine
    node_importances : ndarray of shape (nodes, columns)
        The share of the kernels' exponents that each first-layer node and column carries over pairs of training rows.
    history : tuple of Event
    training : Training or None
    importance : Importance or None
        Of the columns, once it was asked for.
    device : str
        Where it computes; not kept in files.
    """

    inputs: Inputs
    target: Target
    machine: Machine
    node_importances: np.ndarray
    history: tuple[Event, ...] = ()
    training: Training | None = None
    importance: Importance | None = None
    device: str = field(default="cpu", metadata={"working": True})
    # what is computed when first asked for
    memo: dict[str, Any] = field(default_factory=dict, repr=False, metadata={"working": True})

    @classmethod
    def of(
        cls, inputs: Inputs, target: Target, machine: Machine, history: Sequence[Event], training: Training
    ) -> Model:
        """After a fit: importances, and what the target learns from values of rows that were kept from the machine."""
        machine = machine.to(AT_REST)
        X = training.rows.X
        sample = X[:: max(1, len(X) // 500)]
        importances = machine.shares(sample) @ np.eye(len(inputs.columns))[inputs.encoder.owner]
        model = cls(inputs, target, machine, importances, tuple(history), training)
        if machine.held_out is not None:
            return replace(model, target=target.fitted(*model.unseen()[::-1]), memo={})
        return model

    # ------------------------------------------------------------------------------------------------ predictions

    def values(self, features: torch.Tensor) -> torch.Tensor:
        """f at rows of features, clipped: one column per output of the machine."""
        device, clip = device_of(self.device), self.machine.clip
        # as many pairs as a problem of so many rows: for a few new ones threads would only wait for each other
        n = isqrt(len(features) * max(len(X) for _, _, X, _ in self.machine.terms))
        with threads_for(n, device), on_device(len(features), device):
            machine = self.machine if device == AT_REST else self.machine.to(device)
            parts = (features[block].to(device) for block in blocks(len(features), PREDICTED))
            return torch.cat([machine(part).clamp(-clip, clip).to(AT_REST) for part in parts])

    def decoded(self, features: torch.Tensor) -> np.ndarray:
        """Values of labels, scaled as in the training rows."""
        return self.target.decode(self.values(features)).numpy()

    def predict(self, features: torch.Tensor) -> np.ndarray:
        """In the unit and shape of the labels."""
        return self.target.out(self.decoded(features))

    @property
    def calibrated(self) -> Target:
        """The target with what it learns from values of rows not seen, such as the way to probabilities.

        With least squares these are leave-one-out values, so that the first call takes about as long as training.
        """
        if self.training is None or not self.target.calibrates:
            return self.target
        if "target" not in self.memo:
            rows, t = self.unseen()
            self.memo["target"] = self.target.fitted(t, rows)
        return self.memo["target"]

    def responses(self, table: np.ndarray) -> np.ndarray:
        """Predictions, or probabilities of classes, of rows as the reader gives them; one column per prediction."""
        return self.calibrated.responses(self.values(torch.from_numpy(self.inputs.encoder(table))))

    # ------------------------------------------------------------------------------------------- rows not seen

    def need_training(self, what: str) -> Training:
        """What the fit was given, unless the model is from a compact file."""
        if self.training is None:
            raise CompactModelError(
                f"{what} the training labels, which compact files and compressed models leave out; use the model as "
                "it was fitted, or a file of it that was saved without compact."
            )
        return self.training

    def columns(self, rows: Rows) -> Rows:
        """Rows with the columns that the machine was trained on in the place of labels."""
        return replace(rows, Y=self.target.expand(rows.Y))

    def leave_one_out(self) -> torch.Tensor:
        """Values of f at the distinct training rows without them, clipped; with another loss, without their folds."""
        if "loo" not in self.memo:
            rows, clip = self.need_training("Leave-one-out values need").rows, self.machine.clip
            t = self.machine.held_out
            if t is None:
                device = device_of(self.device)
                with threads_for(len(rows), device), on_device(len(rows), device):
                    t = self.machine.to(device).leave_one_out(self.columns(rows).to(device)).to(AT_REST)
            self.memo["loo"] = t.clamp(-clip, clip)
        return self.memo["loo"]

    def leave_one_out_predictions(self) -> np.ndarray:
        """For the training rows in the order they were given; a row of weight 0 gets its ordinary prediction."""
        training = self.need_training("Leave-one-out predictions need")
        t = self.calibrated.decode(self.leave_one_out()).numpy()[training.place]
        if len(training.left_out):
            t[training.place < 0] = self.decoded(torch.from_numpy(training.left_out))
        return self.target.out(t)

    def unseen(self) -> tuple[Rows, torch.Tensor]:
        """The rows, or repetitions of them, whose values without them are the most honest, and these values.

        With another loss than least squares, those that were kept from the kernel, too.
        """
        rows, t = self.need_training("Values of rows not seen need").rows, self.leave_one_out()
        share = t.isfinite().all(1).double()  # a fit that was stopped early has not held out all rows
        if self.machine.aside is not None:
            best = share * self.machine.aside
            share = best if bool(best.any()) else share
        index = share.nonzero()[:, 0]
        return rows.portion(index, (share * rows.weight)[index]), t[index]

    def without_one(self, index: torch.Tensor) -> tuple[torch.Tensor, Elsewhere]:
        """Decoded values f^(-i)(x_i) for distinct rows i, and a function that gives f^(-i)(x), (labels, x, i)."""
        rows = self.need_training("Leave-one-out functions need").rows
        device, clip = device_of(self.device), self.machine.clip
        values, there = self.machine.to(device).without_one(self.columns(rows).to(device), index)

        def elsewhere(X: torch.Tensor) -> torch.Tensor:
            return self.target.decode(there(X.to(device)).clamp_(-clip, clip).to(AT_REST), 0)

        return self.target.decode(values.clamp(-clip, clip).to(AT_REST)), elsewhere

    def leave_two_out(self, index: torch.Tensor) -> torch.Tensor:
        """Decoded f^(-i,-j)(x_i), (labels, i, j)."""
        rows, clip = self.columns(self.need_training("Coverage needs").rows), self.machine.clip
        return self.target.decode(self.machine.leave_two_out(rows, index).clamp(-clip, clip), 0)

    @property
    def optimism(self) -> float:
        """What leave-one-out errors are multiplied by to be those of rows that the kernel has not seen."""
        told = last(self.history, Optimism)
        return told.ratio if told is not None and told.ratio is not None and told.ratio > 1 else 1.0

    # ------------------------------------------------------------------------------------------------------ errors

    def error(self) -> dict[str, Any] | None:
        """The error on rows not seen: its ``basis``, how many ``rows``, and measures, None where one has no meaning.

        With least squares it is what the fit recorded when it chose among kernels (on rows set aside) or widths (by
        cross-validation). With another loss it is the error of held-out folds, where there are some of those that were
        kept from the kernel, too. Leave-one-out values are no such error where weights were learned: no coefficient has
        seen the row, but the kernel has. None where the fit has left no such error.
        """
        told = self._recorded_error() if self.machine.held_out is None else self._held_out_error()
        if told is None or not all(math.isfinite(v) for v in told.values() if isinstance(v, float)):
            return None  # JSON has no such numbers
        return {"basis": told.pop("basis"), "rows": told.pop("rows"), **{name: told.get(name) for name in MEASURES}}

    def _recorded_error(self) -> dict[str, Any] | None:
        recorded = honest_error(self.history)
        if recorded is None or (risk := recorded[1].risk) is None:
            return None
        basis, event = recorded
        rows = None if self.training is None else self.training.rows
        told = {"basis": basis, "rows": getattr(event, "rows", None), "risk": risk}
        told |= self.target.explained(risk, rows)
        wrong = getattr(event, "wrong", None)
        more = {"wrong": wrong, "log_loss": getattr(event, "log_loss", None)} if self.target.classes else {}
        return told | {name: value for name, value in more.items() if value is not None}

    def _held_out_error(self) -> dict[str, Any] | None:
        if self.training is None:
            return None
        rows, t = self.unseen()
        basis = ASIDE if rows.given < self.training.rows.given else BY_FOLDS
        measured = self.target.measures(self.target.decode(t), rows)
        if "risk" in measured:
            measured |= self.target.explained(measured["risk"], self.training.rows)
        return {"basis": basis, "rows": round(rows.given), **measured}

    # ----------------------------------------------------------------------------------------------------- copies

    def compact(self) -> Model:
        """Without what only leave-one-out and intervals need."""
        return replace(self, target=self.calibrated, machine=self.machine.compact(), training=None, memo={})

    def check(self) -> None:
        """Raise Malformed unless everything has the shape which everything else expects."""
        d, features = len(self.inputs.columns), len(self.inputs.encoder.features)
        rows = None if self.training is None else self.training.rows
        self.machine.check(features, rows)
        self.target.check(self.machine.outputs, None if rows is None else rows.Y.shape[1])
        nodes = sum(len(kernel.architecture.coordinates) for _, kernel, _, _ in self.machine.terms)
        fits = self.node_importances.shape == (nodes, d) and self.node_importances.dtype == np.float64
        expect(fits, "the importances do not fit the kernels")
        fits = self.importance is None or len(self.importance.names) == d
        expect(fits, "the importances do not fit the columns")
        if self.training is not None:
            self.training.check(d, features)
