"""Classes: a column of ±1 labels for each, a single one for two classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hgk.machines.rows import Rows, wrong_classes
from hgk.storable import expect, storable
from hgk.targets.base import Target
from hgk.targets.calibration import Calibration

# Rows from which there are enough to fit slopes to a half of those set aside.
FEWEST_CALIBRATED = 20


@storable
@dataclass(frozen=True, eq=False)
class Classes(Target):
    """The class labels in order, and the map from values to probabilities once it is fitted.

    ``estimates`` says that values estimate 2 P - 1, as those of least squares do. Labels that no array of numbers
    holds are kept as a list in files, with their ``dtype``.
    """

    values: np.ndarray | tuple[str | bool | int | float, ...]
    dtype: str = ""
    estimates: bool = True
    calibration: Any = None

    classes = True

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        values, kind = parts["values"], parts.get("dtype", "")
        if isinstance(values, np.ndarray):
            expect(values.ndim == 1 and not kind, "the classes are not a list")
        else:
            _check_texts(values, kind)
        expect(len(set(np.asarray(values).tolist())) == len(values) > 1, "the classes are not different")
        fits = isinstance(parts.get("calibration"), Calibration | None)
        expect(fits or cls is not Classes, "the calibration does not fit the classes")

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray, estimates: bool) -> Classes:
        """Of the rows of positive weight."""
        classes = np.unique(y[weight > 0])
        if len(classes) < 2:
            raise ValueError(
                f"y holds the single class {str(classes[0])!r} (among rows of positive weight); a classifier needs at "
                "least two classes."
            )
        plain = classes.dtype.kind in "biuf"
        kind = "" if plain else classes.dtype.str if classes.dtype.kind == "U" else "|O"
        return cls(classes if plain else tuple(classes.tolist()), kind, estimates)

    @property
    def array(self) -> np.ndarray:
        """The classes as they were given."""
        if isinstance(self.values, np.ndarray):
            return self.values
        if self.dtype != "|O":
            return np.array(self.values, dtype=self.dtype)
        array = np.empty(len(self.values), dtype=object)
        array[:] = self.values
        return array

    @property
    def single(self) -> bool:
        return len(self.values) == 2

    @property
    def columns(self):
        return [str(c) for c in (self.array[1:] if self.single else self.array)]

    @property
    def predictions(self):
        return [f"P({name})" for name in Classes.columns.fget(self)]  # type: ignore[attr-defined]

    def encode(self, y):
        return np.where(y[:, None] == (self.array[1:] if self.single else self.array), 1.0, -1.0)

    def labels(self, Y: np.ndarray) -> np.ndarray:
        return self.chosen(Y)

    def chosen(self, t: np.ndarray, threshold: float = 0.0) -> np.ndarray:
        """The class with the largest decoded value; of two the second, where it is above the threshold."""
        return self.array[(t[:, 0] > threshold).astype(int) if self.single else t.argmax(1)]

    def probabilities(self, t: torch.Tensor) -> np.ndarray:
        """One column per class, from a machine's values."""
        return self.calibration.log(t).exp().numpy()

    def expected(self, t):
        """2 P - 1, where that is known and values do not estimate it; what squared errors are of."""
        if self.estimates or not isinstance(self.calibration, Calibration):
            return self.decode(t)
        return 2 * self.calibration.log(t).exp()[:, -len(Classes.columns.fget(self)) :] - 1  # type: ignore[attr-defined]

    def responses(self, t):
        probability = self.probabilities(t)
        return probability[:, 1:] if self.single else probability

    def strata(self, Y):
        return Y[:, 0] if self.single else Y.argmax(1)

    @property
    def calibrates(self):
        return self.calibration is None

    def fitted(self, t: torch.Tensor, rows: Rows) -> Classes:
        known = t.numpy(), rows.Y.numpy(), rows.weight.numpy(), rows.size
        return replace(self, calibration=Calibration.of(*known, self.estimates))

    def crossed(self, t: torch.Tensor, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-losses, and squared errors of 2p - 1, where each half of the rows has the slopes of the other."""
        share, number = first_half(rows), numbers_of_classes(rows)
        losses, squares = torch.zeros_like(share), torch.zeros_like(share)
        for mine, other in ((share, 1 - share), (1 - share, share)):
            index = other.nonzero()[:, 0]
            part = rows.portion(index, (other * rows.weight)[index]).to(torch.device("cpu"))
            log = self.fitted(t[index].cpu(), part).calibration.log(t.cpu()).to(t)
            losses -= mine * log.gather(1, number[:, None])[:, 0]
            estimate = 2 * log.exp()[:, -rows.Y.shape[1] :] - 1
            squares += mine * ((estimate - rows.Y) ** 2).sum(1)
        return losses, squares

    def unit(self):
        return np.zeros(len(self.columns)), np.ones(len(self.columns))

    def measures(self, t, rows):
        return wrong_classes(t, rows)


def numbers_of_classes(rows: Rows) -> torch.Tensor:
    return rows.Y.argmax(1) if rows.Y.shape[1] > 1 else (rows.Y[:, 0] > 0).long()


def first_half(rows: Rows) -> torch.Tensor:
    """The share of each row's repetitions that are in the first of two halves.

    Single rows take turns within their class; the repetitions of others are divided at random, as new rows would be.
    """
    order = numbers_of_classes(rows).cpu().argsort(stable=True)
    share = torch.zeros(len(rows), dtype=torch.float64)
    share[order] = (torch.arange(len(rows)) % 2).double()
    many = rows.repetitions.cpu().round().clamp_min(1).numpy().astype(int)
    several = np.flatnonzero(many > 1)
    drawn = np.random.default_rng(0).binomial(many[several], 0.5) / many[several]
    share[torch.from_numpy(several)] = torch.from_numpy(drawn)
    return share.to(rows.weight)


def _check_texts(values: Any, kind: str) -> None:
    """Classes that are no numbers; of a fixed width, which is bounded before that much is allocated."""
    if kind == "|O":
        return
    width = int(kind[2:]) if kind[:2] in ("<U", ">U") and kind[2:].isdigit() and len(kind) < 10 else None
    expect(width is not None and len(values) * width < 2**26, "the classes are of an unknown kind")
    expect(all(isinstance(text, str) for text in values), "the classes are not texts")
