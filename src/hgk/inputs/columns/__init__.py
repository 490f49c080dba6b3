"""Kinds of columns: one class each, tried in order when a model is fitted.

    base        what a kind of column has to say
    numeric     numbers, and texts that are numbers
    date        dates and times, and texts that are dates
    category    texts that are categories
    unchanged   any of these as it is, for kernels made by hand

A kind from outside takes part after ``register``.
"""

from hgk.inputs.columns.base import Column, ColumnSettings
from hgk.inputs.columns.category import Category
from hgk.inputs.columns.date import Date
from hgk.inputs.columns.numeric import Numeric
from hgk.inputs.columns.registry import COLUMN_KINDS, kind_of, register
from hgk.inputs.columns.unchanged import Unchanged
