"""What a method of the comparison is: ``fit(X, y, seed, effort) -> Fitted``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Effort:
    """What a fit may use; ``quick`` asks for the small sizes of the preset of that name."""

    threads: int = 2
    device: str = "cpu"
    quick: bool = False


@dataclass(frozen=True)
class Fitted:
    """A trained function, and what was chosen on the training rows (anything that JSON can hold)."""

    predict: Callable[[np.ndarray], Any]  # an array of one number per row
    chosen: dict[str, Any] = field(default_factory=dict)


class Method(ABC):
    """A method: a name as in the table, a few words, the optional packages it imports, and ``fit``.

    ``accelerated`` says that ``fit`` heeds ``effort.device``; the others are given the CPU.
    """

    name: str
    label: str = ""
    requires: tuple[str, ...] = ()
    accelerated: bool = False

    @abstractmethod
    def fit(self, X: np.ndarray, y: np.ndarray, seed: int, effort: Effort) -> Fitted:
        """Train on X in [-1, 1]^d and y in [-1, 1]; everything is chosen on these rows alone."""

    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.requires if find_spec(package) is None]
