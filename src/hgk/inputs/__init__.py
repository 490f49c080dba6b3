"""From a user's table to numbers the machine likes, and back.

    table  --cells-->   arrays of numbers, texts, dates
           --reader-->  numbers, categories as codes, missing cells as NaN
           --merging--> distinct rows and their weights
           --encoder--> features, each about [-1, 1]

What becomes of a column is decided by its kind (:mod:`hgk.inputs.columns`): one file each, and one class for a kind
from outside. Sentences that warn are in ``remarks``; numbers as people write them are read by ``numerals``, dates by
``dates``.
"""

from hgk.inputs.cells import Cells, as_float, is_missing, is_mixed, split
from hgk.inputs.columns import Category, Column, ColumnSettings, Date, Numeric, Unchanged, register
from hgk.inputs.columns.category import fewest_rows, id_remark, is_id
from hgk.inputs.dates import DATE_ORDERS, DateForm, date_reading, date_readings, moments
from hgk.inputs.encoder import STEPS_PER_COLUMN, Encoder, Feature, Inputs
from hgk.inputs.merging import Merged, merge_rows
from hgk.inputs.numerals import INEXACT, Marks, Reading, cut, numbers, reading
from hgk.inputs.pieces import by_pieces
from hgk.inputs.reader import Reader, no_numbers, read_columns, readings
from hgk.inputs.remarks import column_remarks, how_to_convert, precision_remarks
from hgk.inputs.upgrades import upgrade_inputs
