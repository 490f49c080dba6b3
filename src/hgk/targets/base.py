"""Labels and columns: what machines are trained on, and what their values say about labels.

    y  --encode-->  Y, labels scaled to [-1, 1], or ±1 for classes: one column per label or class
       --expand-->  T, the columns that a machine is trained on, NaN where a row has no part; mostly Y itself
    f  --decode-->  values of labels again, scaled as Y
       --out----->  predictions in the unit and shape of y

Kernels are learned, machines trained and rows compared on columns alone; nothing else knows what a label is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch

from hgk.machines.rows import Rows
from hgk.storable import expect


class Target(ABC):
    """One way to treat labels. Subclasses are storable dataclasses."""

    classes: ClassVar[bool] = False  # whether labels are classes
    expands: ClassVar[bool] = False  # whether machines have other columns than kernels are learned on
    single: Any  # whether predictions are a vector, not a table

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """Names of a machine's outputs."""

    @property
    def predictions(self) -> list[str]:
        """Names of what is predicted: one for a vector."""
        return self.columns

    @abstractmethod
    def encode(self, y: np.ndarray) -> np.ndarray:
        """Y."""

    def expand(self, Y: torch.Tensor) -> torch.Tensor:
        """T."""
        return Y

    def decode(self, t: torch.Tensor, axis: int = -1) -> torch.Tensor:
        """Labels as scaled in Y, from a machine's clipped values along the axis."""
        return t

    def in_unit(self, t: np.ndarray) -> np.ndarray:
        """Decoded values, the labels along the last axis, in the unit of the labels."""
        return t

    def out(self, t: np.ndarray) -> np.ndarray:
        """Predictions from decoded values, (rows, labels): a vector where labels were one."""
        t = self.in_unit(t)
        return t[:, 0] if self.single else t

    def labels(self, Y: np.ndarray) -> np.ndarray:
        """Labels as they were given, from Y."""
        return self.out(Y)

    def responses(self, t: torch.Tensor) -> np.ndarray:
        """What is predicted, from a machine's values: one column for each of ``predictions``."""
        return self.in_unit(self.decode(t).numpy())

    def strata(self, Y: np.ndarray) -> np.ndarray | None:
        """A number for every row, such that every fold should have rows of all numbers; None if any fold will do."""
        return None

    def refinements(self, Y: torch.Tensor, given: float) -> list[Refinement]:
        """Other ways to treat the same labels that may predict better, for so many rows as given.

        Kernels are then learned on the columns that a refinement makes of Y by ``expand``.
        """
        return []

    @property
    def decoding(self) -> dict[str, Any]:
        """What an explanation needs in order to decode values by hand; nothing where they are the labels."""
        return {}

    @property
    def decoding_words(self) -> str:
        """The same as a sentence about the outputs below it."""
        return ""

    @property
    def calibrates(self) -> bool:
        """Whether there is still something to learn from values of rows not seen, when it is first needed."""
        return False

    def fitted(self, t: torch.Tensor, rows: Rows) -> Target:
        """With what is learned from a machine's values t at rows that it has not seen."""
        return self

    @abstractmethod
    def unit(self) -> tuple[np.ndarray, np.ndarray]:
        """Base and scale of each of a machine's outputs: base + scale · f is in the unit that it is told in."""

    @property
    def scale(self) -> np.ndarray:
        """What 1 of each decoded value is in the unit of the labels."""
        return self.unit()[1]

    @abstractmethod
    def measures(self, t: torch.Tensor, rows: Rows) -> dict[str, float]:
        """What to report about decoded values t of rows that were not seen."""

    def explained(self, risk: float, rows: Rows | None) -> dict[str, float]:
        """What else a mean squared error of decoded values, such as a fit reports, tells: R², given all rows."""
        if rows is None:
            return {}
        share = rows.weight / rows.weight.sum()
        variance = float((share @ (rows.Y - share @ rows.Y) ** 2).sum())
        return {"r2": 1 - risk / variance} if variance > 0 else {}

    def check(self, outputs: int, labels: int | None) -> None:
        """Raise Malformed unless a machine with so many outputs fits, and training rows with so many labels."""
        expect(len(self.columns) == outputs, "the outputs do not fit the labels")
        expect(labels in (None, outputs), "the training rows do not fit the labels")


class Refinement(Target):
    """Another way to treat labels that are scaled by ``numbers``, with columns of its own to learn kernels on."""

    numbers: Target

    @property
    def more_columns(self) -> bool:
        """Whether there are more columns than labels, so that it has to be compared with the labels themselves."""
        return True

    @abstractmethod
    def contract(self, T: torch.Tensor) -> torch.Tensor:
        """The labels of which T are the columns."""

    def variants(self) -> list[Refinement]:
        """Ways to decode, of which rows that were not seen choose one."""
        return [self]

    def sharpened(self, t: torch.Tensor, rows: Rows) -> Refinement:
        """The variant with the smallest squared error at values t of rows which no gradient has seen."""
        y, share = self.contract(rows.Y), rows.weight / rows.weight.sum()
        return min(self.variants(), key=lambda variant: float(share @ ((variant.decode(t) - y) ** 2).sum(1)))

    @property
    def simplest(self) -> Target:
        """What it amounts to; ``numbers``, if that is the same."""
        return self

    @property
    def told(self) -> dict[str, float]:
        """What a fit tells of it."""
        return {}

    @property
    def single(self):
        return self.numbers.single

    @property
    def predictions(self):
        return self.numbers.predictions

    def encode(self, y):
        return self.numbers.encode(y)

    def in_unit(self, t):
        return self.numbers.in_unit(t)

    @property
    def scale(self):
        return self.numbers.scale

    def measures(self, t, rows):
        return self.numbers.measures(t, rows)

    def explained(self, risk, rows):
        return self.numbers.explained(risk, rows)


def squared_error(t: torch.Tensor, rows: Rows) -> float:
    """(1/n) Σ s_i ‖y_i - t_i‖²."""
    share = rows.weight / rows.weight.sum()
    return float((share @ (t - rows.Y) ** 2).sum())
