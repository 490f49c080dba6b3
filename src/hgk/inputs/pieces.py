"""Large tables in pieces: what is computed from a piece stays in a processor's cache, and threads share the pieces.

Results do not depend on the number of threads: the pieces are the same for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from hgk.executor import Executor, Threads

# Rows of a piece, and of as many pieces as a thread takes at a time.
PIECE, STRETCH = 2**12, 2**16
# Cells from which threads pay.
MANY_CELLS = 2**20


def threads_for_cells(cells: int, most: int | None = None) -> Executor:
    """As many threads as torch has for a large table, but not more than ``most``; one for a small table."""
    many = torch.get_num_threads() if cells >= MANY_CELLS else 1
    return Threads(many if most is None else max(1, min(many, most)))


def by_pieces(shape: tuple[int, ...], work: Callable[[slice], None]) -> None:
    """``work`` on the rows of every piece of a table of this shape, by threads if it is large."""
    rows, columns = shape

    def stretch(first: int) -> None:
        for start in range(first, min(first + STRETCH, rows), PIECE):
            work(slice(start, min(start + PIECE, rows)))

    if rows <= PIECE:
        work(slice(0, rows))
    else:
        jobs = [lambda first=first: stretch(first) for first in range(0, rows, STRETCH)]
        threads_for_cells(rows * columns).run(jobs)


def stacked(columns: Sequence[np.ndarray]) -> np.ndarray:
    """``np.column_stack`` of vectors."""
    columns = [np.reshape(column, -1) for column in columns]
    table = np.empty((len(columns[0]), len(columns)), np.result_type(*columns))

    def fill(rows: slice) -> None:
        for j, column in enumerate(columns):
            table[rows, j] = column[rows]

    by_pieces(table.shape, fill)
    return table


def taken(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """``table[places]``, as a new array row by row."""
    out = np.empty((len(places), table.shape[1]), table.dtype)

    def fill(rows: slice) -> None:
        # clipping spares numpy a second copy; all places are within the table
        np.take(table, places[rows], axis=0, out=out[rows], mode="clip")

    by_pieces(out.shape, fill)
    return out
