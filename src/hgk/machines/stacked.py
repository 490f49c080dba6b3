"""Several sets of rows in arrays with an axis for the sets in front, filled up to the size of the largest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from hgk.arrays import available_memory
from hgk.machines.rows import Rows

# Sets that go together are at least this share of the largest in size, and take at most so many bytes: more would not
# be faster.
ALIKE, MOST = 0.8, 2**33


@dataclass(frozen=True, eq=False)
class StackedRows:
    """X in single precision, Y, weights and repetitions, (sets, rows, …); filled-up rows have labels 0 and weight 1."""

    X: torch.Tensor
    Y: torch.Tensor
    weight: torch.Tensor
    repetitions: torch.Tensor
    present: torch.Tensor
    sizes: list[int]

    @classmethod
    def of(cls, rows: Rows, index: Sequence[torch.Tensor]) -> StackedRows:
        places, present = padded(index, rows.X.device)

        def filled(values: torch.Tensor, by: float) -> torch.Tensor:
            there = present.view(*present.shape, *(1 for _ in values.shape[1:]))
            return torch.where(there, values[places].double(), by)

        X, Y = rows.X[places].float(), filled(rows.Y, 0.0)
        return cls(X, Y, filled(rows.weight, 1.0), filled(rows.repetitions, 1.0), present, [len(i) for i in index])

    @property
    def total(self) -> torch.Tensor:
        """Σ s of every set."""
        return (self.weight * self.present).sum(1)


def padded(index: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of rows, (sets, rows), on this device, and which of them are not filled up."""
    places = torch.nn.utils.rnn.pad_sequence(list(index), batch_first=True)
    sizes = torch.tensor([len(part) for part in index])
    present = torch.arange(places.shape[1]) < sizes[:, None]
    return places.to(device), present.to(device)


def stacks(sizes: Sequence[int], need: Callable[[int], float], device: torch.device) -> list[list[int]]:
    """Which sets go together, the largest first: of much the same size, and in half of the memory that is free.

    ``need(size)`` is in bytes; what needs more than that is alone.
    """
    loads, largest, left = list[list[int]](), 0, 0.0
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if not loads or sizes[i] < ALIKE * largest or need(largest) > left:
            loads.append([])
            largest, left = sizes[i], min(available_memory(device) / 2, MOST)
        loads[-1].append(i)
        left -= need(largest)
    return loads
