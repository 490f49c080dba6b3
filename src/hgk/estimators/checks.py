"""What is given to an estimator, looked at before anything is computed: one sentence for each thing that is wrong.

    table     rows x columns: a pandas or polars frame as it is, anything else as an array
    labels    one per row; numbers for regression, anything that compares equal for classes
    weights   one per row, finite, not negative, scaled so that no sum of them can overflow

scikit-learn's own checks ask for some of the phrases; these are kept, and what to do is added.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from hgk.estimators.parameters import is_number
from hgk.inputs import INEXACT, Marks, as_float, by_pieces, cut, how_to_convert, is_missing, numbers, reading
from hgk.intervals import INTERVAL_METHODS
from hgk.targets import LabelBounds

# Weights are multiplied by a power of four beyond these, so that their sums and squares are numbers.
SMALL_WEIGHT, LARGE_WEIGHT = 1e-100, 1e100
# Numbers written as texts that may be classes, if each has so many rows on average.
MOST_CLASSES, ROWS_EACH = 30, 5


def is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


# ------------------------------------------------------------------------------------------------------- tables


def table(X: Any, fewest: int = 1) -> Any:
    """``X`` itself if it is a frame, else a two-dimensional array of numbers, or of texts and numbers."""
    if hasattr(X, "collect_schema") and hasattr(X, "collect") and not hasattr(X, "shape"):
        raise TypeError(f"X is a {type(X).__name__}, which has no rows yet; give X.collect().")
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(f"Sparse data ({type(X).__name__}) were given; a dense table is expected, so give X.toarray().")
    if is_frame(X):
        _check_names([str(name) for name in X.columns])
    else:
        X = _array(X)
    rows, columns = X.shape
    if columns < 1:
        raise ValueError(
            f"Found a table with 0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required; give at least one "
            "column."
        )
    if rows < fewest:
        raise ValueError(
            f"Found a table with {rows} sample(s) (shape=({rows}, {columns})) while a minimum of {fewest} is required; "
            "give more rows."
        )
    return X


def _check_names(names: list[str]) -> None:
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1)) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(
            f"X has several columns named {', '.join(map(repr, twice[:5]))}; give each its own name, or give an array."
        )


def _array(X: Any) -> np.ndarray:
    array = _as_array(X, "X", "a frame, or an array or list of rows of equal length")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {_shaped(array)} for X; Reshape your data by X.reshape(-1, 1) if it is one "
            "column, or by X.reshape(1, -1) if it is one row."
        )
    if array.dtype.kind == "m":
        raise ValueError(f"X holds durations ({array.dtype}); turn them into numbers, such as hours.")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers; give their real and imaginary parts.")
    if array.dtype.kind == "V":
        raise ValueError(f"X is a structured array ({array.dtype}); give a frame, such as pd.DataFrame(X).")
    if array.dtype.kind == "O":
        return _numbers_if_possible(array)
    return array


def _as_array(values: Any, what: str, expected: str) -> np.ndarray:
    """As numpy sees it; masked cells are missing, and a list of texts and numbers keeps its numbers."""
    if isinstance(values, np.ma.MaskedArray):
        kind, missing = (object, None) if values.dtype.kind in "OUS" else (float, np.nan)
        return np.ma.filled(values.astype(kind), missing)
    no_list = isinstance(values, str | bytes | dict | set | frozenset) or not hasattr(values, "__len__")
    if no_list and (isinstance(values, str | bytes) or not hasattr(values, "__array__")):
        raise ValueError(f"{what} is {_named(values)}; {expected} is expected, so give that.")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            array = np.asarray(values)
            if array.dtype.kind in "US" and not hasattr(values, "__array__"):
                array = np.asarray(values, dtype=object)
    except Exception as error:  # of whatever library made it: tensors that need gradients, ragged lists
        raise ValueError(f"{what} cannot be read as an array ({_one_line(error)}); give {expected}.") from error
    return array


def _numbers_if_possible(array: np.ndarray) -> np.ndarray:
    """Objects that are all numbers as floats; else as they are, since texts are read column by column."""
    if any(isinstance(value, str | datetime.date | np.datetime64) for value in array.flat):
        return array
    try:
        with np.errstate(all="ignore"):
            return array.astype(float)
    except Exception:  # each kind of object has its own; the columns say what is wrong
        return array


def width(X: Any, estimator: Any) -> None:
    """That a table has as many columns as the fit had; where both have names, scikit-learn compares these."""
    named = is_frame(X) and hasattr(estimator, "feature_names_in_")
    if not named and X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input; give the columns that it was fitted on."
        )


def finite(columns: list[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """The columns, in which there may be missing cells and no infinite ones."""
    infinite = np.zeros(len(columns), dtype=bool)

    def look(rows: slice) -> None:
        for j, column in enumerate(columns):
            if column.dtype != object and np.isinf(column[rows]).any():
                infinite[j] = True

    by_pieces((len(columns[0]), len(columns)), look)
    if infinite.any():
        name = names[int(infinite.argmax())]
        raise ValueError(
            f"Column {name!r} contains infinity or a value too large for float64; replace it by a number or a missing "
            "value."
        )
    return columns


# ------------------------------------------------------------------------------------------------------- labels


def labels(y: Any, rows: int, estimator: str, several: bool, numeric: bool) -> np.ndarray:
    """``y`` as an array of ``rows`` labels without missing ones: floats if ``numeric``, (rows, k) if ``several``."""
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None; give a label per row.")
    if hasattr(y, "toarray") and hasattr(y, "nnz"):
        raise TypeError("Sparse labels were given; an array is expected, so give y.toarray().")
    array = _as_array(y, "y", "a list or an array of labels")
    if array.ndim == 0:
        raise ValueError(f"y is {_named(y)}; a list or an array of labels is expected, so give one.")
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] < 1):
        raise ValueError(f"y has dim {array.ndim} and the shape {array.shape}; give one label per row.")
    if len(array) != rows:
        raise ValueError(
            f"X has {rows} rows and y has {len(array)}; inconsistent numbers of samples cannot be fitted, so give as "
            "many labels as rows."
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers; give their real and imaginary parts.")
    if array.dtype.kind in "MmV":
        raise ValueError(f"y holds {array.dtype} values; give numbers or texts, such as days since an event.")
    if not numeric and array.dtype.kind == "f" and isinstance(y, list | tuple) and (np.abs(array) >= INEXACT).any():
        array = np.asarray(y, dtype=object)  # whole numbers that have no common type but float
    if array.ndim == 2 and not several:
        array = _one_column(array)
    _check_missing(array)
    return _numeric(array, estimator) if numeric else _classes(array, estimator)


def _one_column(y: np.ndarray) -> np.ndarray:
    if y.shape[1] != 1:
        raise ValueError(f"y should be a 1d array, and has the shape {y.shape}; give one column of classes.")
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected; give y.ravel() to silence this.",
        DataConversionWarning,
        stacklevel=5,
    )
    return y[:, 0]


def _check_missing(y: np.ndarray) -> None:
    if y.dtype.kind == "O":
        lacking = any(is_missing(v) for v in y.flat)
    else:
        lacking = y.dtype.kind == "f" and bool(np.isnan(y).any())
    if lacking:
        raise ValueError("Input y contains NaN or other missing labels; leave out these rows, or fill them.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise _infinite()


def _infinite() -> ValueError:
    return ValueError(
        "Input y contains infinity or a value too large for dtype('float64'); leave out these rows, or correct them."
    )


def _numeric(y: np.ndarray, estimator: str) -> np.ndarray:
    if y.dtype.kind in "OUS":
        try:
            y = np.array([as_float(v, "y") for v in y.flat]).reshape(y.shape)
        except (ValueError, TypeError) as error:
            if not any(isinstance(v, str) for v in y.flat):
                raise _no_numbers(y, estimator) from error
            y = np.column_stack([_from_texts(column, estimator) for column in y.reshape(len(y), -1).T]).reshape(y.shape)
    with np.errstate(over="ignore"):
        y = y.astype(float)
    if not np.isfinite(y).all():
        raise _infinite()
    return y


def _no_numbers(y: np.ndarray, estimator: str) -> ValueError:
    return ValueError(f"y holds {_odd(y)}; {estimator} expects numbers, so turn it into some, or use HGKClassifier.")


def _from_texts(y: np.ndarray, estimator: str) -> np.ndarray:
    """Labels as people write numbers, which is said."""
    cells = [str(v) for v in y]
    read = reading(cells)
    if read.unclear:
        raise ValueError(read.question("y", how_to_convert(read)))
    if read.stray is not None:
        cell, row, count = read.stray
        raise ValueError(
            f"y holds {cut(repr(cell))} (row {row}, counted from 0) among {count} numbers; {estimator} expects numbers "
            "only, so correct this label, or leave out its row."
        )
    if read.marks is None and not read.padded:
        raise _no_numbers(y, estimator)
    if read.lacking is not None:
        raise ValueError(
            f"Input y contains NaN or other missing labels, such as {read.lacking[0]!r}; leave out these rows, or "
            "fill them."
        )
    marks = read.marks or Marks()
    warnings.warn(
        f"y is read as numbers from texts such as {cut(repr(read.such))}{marks.words and f' ({marks.words})'}.",
        UserWarning,
        stacklevel=6,
    )
    return numbers(cells, marks)[0]


def _odd(y: np.ndarray) -> str:
    """The first label that is not a number, in a few characters."""
    for value in y.flat:
        try:
            as_float(value, "y")
        except (ValueError, TypeError):
            return cut(repr(value.item() if isinstance(value, np.generic) else value))
    return "labels that are no numbers"


def _classes(y: np.ndarray, estimator: str) -> np.ndarray:
    if y.dtype.kind == "f" and (y != np.round(y)).any():
        raise ValueError(
            f"y holds continuous numbers such as {y[y != np.round(y)][0]:g}; {estimator} expects classes, so give "
            "these, or use HGKRegressor."
        )
    if y.dtype.kind == "O":
        kinds = sorted({_kind(v) for v in y})
        if len(kinds) > 1 or kinds[0] not in ("texts", "numbers"):
            raise ValueError(
                f"Unknown label type: y holds {' and '.join(kinds)}; {estimator} expects texts or whole numbers, so "
                "give labels of one of these types."
            )
        if kinds[0] == "numbers":
            return _classes(_whole(y), estimator)
    if y.dtype.kind in "OU":
        _refuse_measures(y.tolist(), estimator)
    return y


def _refuse_measures(cells: list[str], estimator: str) -> None:
    """Many numbers that are written as texts measure something."""
    distinct = len(set(cells))
    if distinct <= MOST_CLASSES:
        return
    read = reading(cells)
    marked = read.unclear or (read.marks is not None and read.marks.words)
    like_numbers = read.unclear or read.marks is not None or read.stray is not None
    if like_numbers and (marked or ROWS_EACH * distinct > len(cells)):
        such = cut(repr(read.such or cells[0]))
        raise ValueError(
            f"y holds {distinct} different numbers written as texts, such as {such}; {estimator} expects classes, so "
            "use HGKRegressor, or give whole numbers if they are classes."
        )


def _kind(value: Any) -> str:
    return "texts" if isinstance(value, str) else "numbers" if isinstance(value, Real) else f"{type(value).__name__}s"


def _whole(y: np.ndarray) -> np.ndarray:
    """Objects that are numbers, in the type that numpy finds for them; float64 if it finds none."""
    array = np.array(y.tolist())
    if array.dtype.kind in "biu":
        return array
    floats = np.array([as_float(v, "y") for v in y])
    if len(set(floats.tolist())) < len(set(y.tolist())):
        such = max((v for v in y if isinstance(v, int)), key=abs, default=y[0])
        raise ValueError(
            f"y holds whole numbers such as {cut(str(such))}, and no type of 64 bits tells them all apart; give them "
            "as texts."
        )
    return array if array.dtype.kind == "f" else floats


# ------------------------------------------------------------------------------------------------------ weights


def weights(sample_weight: Any, rows: int) -> np.ndarray:
    """Float64 weights; unless all are whole, those below 1e-12 of the largest are 0, which is a matter of rounding."""
    if sample_weight is None:
        return np.ones(rows)
    if isinstance(sample_weight, int | float | np.number):
        sample_weight = np.full(rows, sample_weight)
    array = _as_array(sample_weight, "sample_weight", "a list or an array of one number per row")
    if array.shape != (rows,):
        raise ValueError(
            f"sample_weight has the shape {array.shape} and X has {rows} rows; give a flat list of one weight per row."
        )
    try:
        with np.errstate(over="ignore"):
            weight = array.astype(float)
    except Exception as error:
        raise ValueError(f"sample_weight holds {_odd(array)}; a number per row is expected, so give some.") from error
    if not np.isfinite(weight).all():
        what = "NaN" if np.isnan(weight).any() else "infinity"
        raise ValueError(f"Input sample_weight contains {what}; a finite number per row is expected, such as 1.")
    if (weight < 0).any():
        raise ValueError(
            f"Negative values in data passed to sample_weight, such as {weight.min():g}; a weight counts repetitions, "
            "so give numbers >= 0."
        )
    most = float(weight.max())
    if not most > 0:
        raise ValueError("All of sample_weight is zero; give at least one non-zero weight.")
    if not SMALL_WEIGHT < most < LARGE_WEIGHT:
        weight = np.ldexp(weight, -2 * (int(np.frexp(most)[1]) // 2))  # roots are then multiplied exactly, too
    return weight if _all_whole(weight) else np.where(weight < 1e-12 * weight.max(), 0.0, weight)


def _all_whole(weight: np.ndarray) -> bool:
    return bool((weight == np.round(weight)).all()) and weight.max() < 2**53


def repetitions(weight: np.ndarray) -> np.ndarray:
    """How often each row was given: whole weights count, others are relative, and every row was given once."""
    return weight if _all_whole(weight) else (weight > 0).astype(float)


# Whole weights of so many rows that are so large on average are hardly counts.
MANY_WEIGHTS, MANY_TIMES = 1000, 100


def count_remarks(count: np.ndarray) -> list[str]:
    """A sentence where whole weights were probably not meant as repetitions, as in surveys."""
    given = count[count > 0]
    if len(given) < MANY_WEIGHTS or given.mean() < MANY_TIMES:
        return []
    return [
        f"sample_weight has whole numbers, {given.mean():.0f} on average, which count as repetitions of their rows; if "
        "they say how much a row matters, give sample_weight / sample_weight.mean()."
    ]


# -------------------------------------------------------------------------------------------------------- words


def _shaped(array: np.ndarray) -> str:
    return "a single value" if array.ndim == 0 else f"{array.ndim}D array of shape {array.shape}"


def _named(value: Any) -> str:
    if value is None or " at 0x" in repr(value):
        return "None" if value is None else f"of type {type(value).__name__}"
    return f"{cut(repr(value))} of type {type(value).__name__}"


def _one_line(error: BaseException) -> str:
    return cut(str(error).replace(". ", ", "), 120).rstrip(".")


def enough_rows(X: np.ndarray) -> None:
    """Two different rows of positive weight."""
    if len(X) < 2:
        raise ValueError(
            "The data have 1 sample after equal rows were merged and rows of weight 0 left out (n_samples=1); "
            "at least 2 different rows are needed."
        )


def shape_given(kernel: Any, inputs: Any, architecture: Any, architectures: Sequence[Any], estimator: Any) -> None:
    """A kernel or architectures for as many columns as the data have, and of the same names, where there are names."""
    if architecture is not None and not architectures:
        raise ValueError("architecture=[] was given; at least one Architecture is expected.")
    widths = [a.d for a in architectures]
    if kernel is not None:
        widths = [kernel.d if inputs is None else len(inputs.encoder.columns)]
    for width in widths:
        if width != estimator.n_features_in_:
            raise ValueError(
                f"A kernel for {width} columns was given with data of {estimator.n_features_in_} columns; "
                "give one that was built for this many columns."
            )
    names = tuple(map(str, getattr(estimator, "feature_names_in_", ())))
    known = () if inputs is None else inputs.reader.names
    if known and names and known not in (names, tuple(f"x{j}" for j in range(len(known)))):
        raise ValueError(
            f"The kernel was learned on the columns {', '.join(known[:5])}..., and the data have "
            f"{', '.join(names[:5])}...; give the same columns in the same order."
        )


def interval_method(method: Any) -> None:
    if not (isinstance(method, str) and method in INTERVAL_METHODS):
        raise ValueError(f"method={method!r} was given; one of {', '.join(map(repr, INTERVAL_METHODS))} is expected.")


def bounds_asked(bounds: Any) -> LabelBounds | None:
    """None where the training labels are to tell; no bounds at all for None."""
    if isinstance(bounds, str) and bounds == "auto":
        return None
    if bounds is None:
        return LabelBounds()
    pair = tuple(bounds) if isinstance(bounds, tuple | list) and len(bounds) == 2 else ()
    known = [value for value in pair if value is not None]
    sound = bool(pair) and all(is_number(value) and not np.isnan(value) for value in known)
    if not sound or (len(known) == 2 and not known[0] < known[1]):
        raise ValueError(
            f"bounds={bounds!r} was given; 'auto', None or a pair (low, high) with low < high is expected, None for an "
            "open end, such as (0, None)."
        )
    low, high = pair
    return LabelBounds(-np.inf if low is None else float(low), np.inf if high is None else float(high))
