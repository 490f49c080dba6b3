"""Which kinds of columns there are, and who takes a column."""

from __future__ import annotations

from hgk.inputs.cells import Cells, refusal
from hgk.inputs.columns.base import Column
from hgk.inputs.columns.category import Category
from hgk.inputs.columns.date import Date
from hgk.inputs.columns.numeric import Numeric
from hgk.storable import KNOWN

# The first that takes a column gets it.
COLUMN_KINDS: list[type[Column]] = [Numeric, Date, Category]


def register(kind: type[Column], before: type[Column] | None = None) -> None:
    """Let a kind of column take part, ``before`` another one or after all others.

    Parameters
    ----------
    kind : subclass of Column
        A dataclass, declared by :func:`hgk.storable.storable`, so that models with such columns can be saved.
    before : subclass of Column, optional
        The kind that would take the same columns.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from hgk.inputs.columns import COLUMN_KINDS, Column, register
    >>> from hgk.storable import storable
    >>> @storable
    ... @dataclass(frozen=True)
    ... class Minutes(Column):
    ...     @classmethod
    ...     def takes(cls, cells):
    ...         return cells.values.dtype.kind == "m"
    ...     def read(self, cells):
    ...         return np.where(np.isnat(cells), np.nan, cells / np.timedelta64(1, "m"))
    ...     @property
    ...     def features(self):
    ...         return ((f"{self.name} in hours", "scaled"),)
    ...     def __call__(self, x):
    ...         return np.nan_to_num(x)[:, None] / 60
    >>> register(Minutes)
    >>> [kind.__name__ for kind in COLUMN_KINDS]
    ['Numeric', 'Date', 'Category', 'Minutes']
    >>> COLUMN_KINDS.remove(Minutes)
    """
    if KNOWN.get(kind.__name__) is not kind:
        raise TypeError(f"{kind.__name__} was registered, which model files cannot hold; declare it by hgk.storable.")
    COLUMN_KINDS[:] = [other for other in COLUMN_KINDS if other.__name__ != kind.__name__]
    COLUMN_KINDS.insert(len(COLUMN_KINDS) if before is None else COLUMN_KINDS.index(before), kind)


def kind_of(cells: Cells) -> type[Column]:
    """The kind that takes this column; one sentence if there is none."""
    for kind in COLUMN_KINDS:
        if kind.takes(cells):
            return kind
    raise refusal(cells.values, cells.name)
