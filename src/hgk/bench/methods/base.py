"""What every method of the experiment promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class Effort:
    """What a fit may use: threads, a device in torch's words, and whether the small sizes of a quick look suffice."""

    threads: int = 2
    device: str = "cpu"
    quick: bool = False


@dataclass(frozen=True)
class Fitted:
    """A decision function, and what was chosen on the way to it, as far as JSON can say it."""

    predict: Callable[[np.ndarray], np.ndarray]
    chosen: dict[str, Any] = field(default_factory=dict)


class Method(ABC):
    """A column of the table."""

    name: ClassVar[str]
    label: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def fit(self, X: np.ndarray, y: np.ndarray, seed: int, effort: Effort) -> Fitted:
        """Learn from rows in [-1, 1]^d and labels in [-1, 1]."""
