"""The data sets: the 15 of the paper's table, three small ones that come with scikit-learn, files of your own.

A set is a table of columns and a target. ``<name>.parquet`` is looked for in the data folder (an argument, or the
environment's HGK_DATA_HOME), with the raw columns first and the raw target last, named ``target``; then in the cache,
where a download from OpenML is kept in the same form. Both are prepared alike:

    columns   shuttle without its first (a time stamp), updrs-motor without subject and total_UPDRS
    classes   numbers, text in alphabetical order; covtype 2 and thyroid-ann 3 against the rest
    y         2 (y - min) / (max - min) - 1, over all rows

The numbers of rows and columns are checked against the paper's, and what is downloaded also against a checksum that
does not depend on the order of rows and columns. In two places the paper's table is not followed: it gives covtype 55
columns, where the set has 54 and the class, and shuttle six labels, where its rows have seven.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from hgk.arrays import available_memory, gibibytes
from hgk.bench.protocol import as_numbers
from hgk.storage import columnar, open_regular, write_atomically

ENVIRONMENT = "HGK_DATA_HOME"


class DataError(Exception):
    """A data set that is not there, or is not what it should be; the message is one sentence."""


@dataclass(frozen=True)
class DataSet:
    """Columns as they came, y in [-1, 1]."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    task: str  # "regression" or "classification"


@dataclass(frozen=True)
class Spec:
    """What the paper's table says of a set, how its columns are prepared, and where OpenML has it.

    ``kind`` as in the paper: REG, BC, or MC-k. ``openml`` is a data id, ``from_openml`` takes the paper's rows and
    columns out of what is there. ``partial`` allows for fewer rows than the paper had.
    """

    name: str
    rows: int
    columns: int
    kind: str
    source: str
    dropped: tuple[str | int, ...] = ()
    against_the_rest: float | None = None
    openml: int | None = None
    from_openml: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    openml_target: str | None = None
    partial: bool = False

    @property
    def task(self) -> str:
        return "regression" if self.kind == "REG" else "classification"


def _first(rows: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda table: table.iloc[:rows]


def _seismic_half(table: pd.DataFrame) -> pd.DataFrame:
    """SensIT vehicle, combined: 50 acoustic columns, then the 50 seismic ones."""
    return table.iloc[:, 50:]


def _without_id(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=[c for c in table.columns if str(c).lower() in ("id", "id:")])


_SPECS = [
    Spec("bank-marketing", 45211, 16, "BC", "UCI", openml=1461),
    Spec("cadata", 20640, 8, "REG", "LIBSVM", openml=537),
    Spec("cod-rna", 331152, 8, "BC", "LIBSVM", openml=351, from_openml=_first(331152)),
    Spec("covtype", 581012, 54, "BC", "UCI", against_the_rest=2, openml=1596),
    Spec("cpusmall", 8192, 12, "REG", "LIBSVM", openml=227),
    Spec("cycle-power-plant", 9568, 4, "REG", "UCI"),
    Spec("higgs", 500000, 28, "BC", "UCI", openml=23512, partial=True),
    Spec("letter-recognition", 20000, 16, "MC-26", "UCI", openml=6),
    Spec("magic", 19020, 10, "BC", "UCI", openml=1120, from_openml=_without_id),
    Spec("pendigits", 10992, 16, "MC-10", "UCI", openml=32),
    Spec("satimage", 6435, 36, "MC-6", "UCI", openml=294),
    Spec("seismic", 98528, 50, "MC-3", "LIBSVM", openml=1593, from_openml=_seismic_half),
    Spec("shuttle", 43500, 8, "MC-7", "LIBSVM", dropped=(0,), openml=40685, from_openml=_first(43500)),
    Spec("thyroid-ann", 7200, 21, "BC", "UCI", against_the_rest=3),
    Spec(
        "updrs-motor",
        5875,
        19,
        "REG",
        "UCI",
        ("total_UPDRS", "subject#", "subject."),
        openml=4531,
        openml_target="motor_UPDRS",
    ),
]
SPECS = {spec.name: spec for spec in _SPECS}
# Of the prepared tables, from complete copies; higgs (any part of it is taken) and seismic have none.
CHECKSUMS = {
    "bank-marketing": "427b4cf5cc5cdfec",
    "cadata": "3e5a9fa1d4b66cfa",
    "cod-rna": "4f4001fca0954595",
    "covtype": "00f6ec6d48598b93",
    "cpusmall": "fe9e7c740079f3d9",
    "cycle-power-plant": "8097835a4a5f2710",
    "letter-recognition": "1b6b5b7744651860",
    "magic": "5d73a5ef425613ec",
    "pendigits": "6b27b476334e5f5a",
    "satimage": "8da6f58c958e3017",
    "shuttle": "ccafdab6d406cf6e",
    "thyroid-ann": "63752970970e7600",
    "updrs-motor": "22efa4b65d14c658",
}
EMBEDDED = {
    "breast-cancer": ("load_breast_cancer", "classification"),
    "diabetes": ("load_diabetes", "regression"),
    "digits": ("load_digits", "classification"),
}
QUICK_SETS = ["diabetes", "breast-cancer"]


def known() -> list[str]:
    """The names of all sets, the paper's first."""
    return [*SPECS, *EMBEDDED]


# ------------------------------------------------------------------------------------------------------- loading


def load(name: str, data_home: str | os.PathLike | None = None) -> DataSet:
    """A data set by its name.

    Parameters
    ----------
    name : str
        One of the paper's 15, or "diabetes", "breast-cancer", "digits", which need no file.
    data_home : path, optional
        The folder of ``<name>.parquet``; HGK_DATA_HOME if not given.

    Examples
    --------
    >>> from hgk.bench.datasets import load
    >>> data = load("diabetes")
    >>> data.X.shape, float(data.y.min()), float(data.y.max()), data.task
    ((442, 10), -1.0, 1.0, 'regression')
    """
    if name in EMBEDDED:
        return _embedded(name)
    if name not in SPECS:
        raise DataError(f"The data set {name!r} is unknown; the known ones are {', '.join(known())}.")
    spec = SPECS[name]
    path = locate(spec, data_home)
    return checked(prepared(raw_table(path), spec), spec, path)


def from_file(path: str | os.PathLike, target: str) -> DataSet:
    """A table of your own, parquet or CSV; rows without a target are left out."""
    path = Path(path)
    if path.stem in known():
        raise DataError(f"{path} has the name of a data set that is known; give the file another one.")
    table = raw_table(path)
    if target not in table:
        raise DataError(f"{path} has no column {target!r}; its columns are {', '.join(map(str, table.columns))}.")
    table = table[table[target].notna()]
    if len(table) < 3 or table.shape[1] < 2:
        raise DataError(
            f"{path} has {len(table)} rows with a target and {table.shape[1] - 1} other columns; "
            "at least 3 rows and 1 column are needed."
        )
    y = table.pop(target)
    task = "regression" if pd.api.types.is_float_dtype(y) or y.nunique() > 50 else "classification"
    name = f"{path.stem}:{target}"  # another target of the same table is another set
    return DataSet(name, table, scaled_labels(y, name), task)


def raw_table(path: Path) -> pd.DataFrame:
    """Parquet or CSV, by the ending."""
    readers = {".parquet": _parquet, ".csv": pd.read_csv}
    if path.suffix not in readers:
        raise DataError(f"{path} ends in {path.suffix!r}; a .parquet or a .csv file is expected.")
    try:
        with open_regular(path) as file:
            return readers[path.suffix](file)
    except columnar.TooLarge as error:
        raise DataError(
            f"{path} unpacks to {gibibytes(error.size)} or more, and twice as much is not free as memory; give a part "
            "of its rows, or set HGK_MEMORY if there is more."
        ) from error
    except Exception as error:  # each reader has its own kinds
        raise DataError(f"{path} could not be read ({_one_line(error)}); check that the file is whole.") from error


def _parquet(file: BinaryIO) -> pd.DataFrame:
    return columnar.read_columnar(file.read(), available_memory() // 2).to_pandas()


def prepared(table: pd.DataFrame, spec: Spec) -> DataSet:
    """From a raw table, its target in ``target``, to the set of the paper."""
    if "target" not in table:
        raise DataError(f"The table of {spec.name} has no column 'target'; name the raw target so.")
    y = table["target"]
    X = table.drop(columns="target")
    X = X.drop(
        columns=[X.columns[c] if isinstance(c, int) else c for c in spec.dropped if isinstance(c, int) or c in X]
    )
    if spec.against_the_rest is not None:
        y = (pd.to_numeric(y) == spec.against_the_rest).astype(float)
    return DataSet(spec.name, X, scaled_labels(y, spec.name), spec.task)


def scaled_labels(y: pd.Series, name: str) -> np.ndarray:
    """Numbers in [-1, 1]; labels that are not numbers are numbered in alphabetical order."""
    try:
        numbers = pd.to_numeric(y.astype(str) if isinstance(y.dtype, pd.CategoricalDtype) else y).to_numpy(dtype=float)
    except (ValueError, TypeError):
        numbers = pd.factorize(y.astype(str), sort=True)[0].astype(float)
    if not np.isfinite(numbers).all():
        raise DataError(f"The target of {name} has missing or infinite cells; leave these rows out.")
    low, high = numbers.min(), numbers.max()
    if not high > low:
        raise DataError(f"The target of {name} is constant; there is nothing to learn.")
    return 2 * (numbers - low) / (high - low) - 1


def checked(data: DataSet, spec: Spec, path: Path | str, content: bool = False) -> DataSet:
    """The set itself, if its rows and columns are the paper's; with ``content``, its checksum too."""
    rows, columns = data.X.shape
    fits = rows <= spec.rows if spec.partial else rows == spec.rows
    if not fits or columns != spec.columns:
        raise DataError(
            f"{spec.name} from {path} has {rows} rows and {columns} columns after preparation; the paper's has "
            f"{spec.rows} and {spec.columns}, so use another copy, or run it as a table of your own with --file."
        )
    if content and data_checksum(data) != CHECKSUMS.get(spec.name, data_checksum(data)):
        raise DataError(
            f"{spec.name} from {path} has the right size but other content than the copy used here; "
            "use another copy, or run it as a table of your own with --file."
        )
    return data


def data_checksum(data: DataSet) -> str:
    """The same for any order of rows and of columns, and for any names; single precision.

    Columns are put in the order of the hashes of their sorted values, then rows in the order of theirs.
    """
    numbers = np.column_stack([as_numbers(data.X), data.y]).astype(np.float32) + np.float32(0)  # -0 becomes 0
    hashes = [hashlib.sha256(np.sort(column).tobytes()).hexdigest() for column in numbers.T[:-1]]
    table = pd.DataFrame(numbers[:, [*np.argsort(hashes, kind="stable"), -1]])
    rows = np.sort(pd.util.hash_pandas_object(table, index=False).to_numpy())
    return hashlib.sha256(rows.tobytes()).hexdigest()[:16]


def _embedded(name: str) -> DataSet:
    from sklearn import datasets

    loader, task = EMBEDDED[name]
    bunch = getattr(datasets, loader)(as_frame=True)
    return DataSet(name, bunch.data, scaled_labels(bunch.target, name), task)


# ------------------------------------------------------------------------------------------------ where files are


def locate(spec: Spec, data_home: str | os.PathLike | None = None) -> Path:
    """The set's file: in the data folder, in the cache, or downloaded into the cache."""
    path = present(spec.name, data_home)
    return path if path is not None else _download(spec, data_home)


def present(name: str, data_home: str | os.PathLike | None = None) -> Path | None:
    """The set's file if it is on this machine."""
    return next((path for path in _places(name, data_home) if path.is_file()), None)


def _places(name: str, data_home: str | os.PathLike | None) -> list[Path]:
    folder = data_home or os.environ.get(ENVIRONMENT)
    return [Path(place) / f"{name}.parquet" for place in (folder, cache()) if place]


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hgk" / "data"


def _download(spec: Spec, data_home: str | os.PathLike | None) -> Path:
    path = cache() / f"{spec.name}.parquet"
    looked = " and ".join(map(str, _places(spec.name, data_home)))
    put = f"put a file of that name into a folder and give it by --data or {ENVIRONMENT}"
    if spec.openml is None:
        raise DataError(
            f"The data set {spec.name} is not here (looked for {looked}) and no copy of the paper's size is known on "
            f"OpenML; {put}, or run your own copy with --file and --target."
        )
    try:
        table = fetch(spec)
    except Exception as error:  # of the network, of OpenML, of scikit-learn
        raise DataError(
            f"The data set {spec.name} is not here (looked for {looked}) and OpenML's number {spec.openml} could not "
            f"be fetched ({_one_line(error)}); {put}, or run again with a network."
        ) from error
    checked(prepared(table, spec), spec, f"OpenML's number {spec.openml}", content=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = table.to_parquet(None)
    write_atomically(path, lambda file: file.write(content))
    return path


def fetch(spec: Spec) -> pd.DataFrame:
    """OpenML's table in the form of the data folder: the paper's rows and columns, the raw target last."""
    from sklearn.datasets import fetch_openml

    more = {} if spec.openml_target is None else {"target_column": spec.openml_target}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of retries; that a fetch failed is said in the end
        bunch = fetch_openml(data_id=spec.openml, as_frame="auto", parser="liac-arff", n_retries=1, cache=False, **more)
    return from_openml(bunch.data, bunch.target, spec)


def from_openml(X, y, spec: Spec) -> pd.DataFrame:
    """Rows with missing cells are left out of the paper's sets, which have none."""
    dense = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X.toarray() if hasattr(X, "toarray") else X)
    table = spec.from_openml(dense.rename(columns=str))
    return table.assign(target=np.asarray(y)[: len(table)]).dropna()


def from_libsvm(*files: str | os.PathLike, columns: int) -> pd.DataFrame:
    """LIBSVM's files (seismic and seismic.t, say), one below the other, in the form of the data folder.

    ``from_libsvm("seismic", "seismic.t", columns=50).to_parquet("seismic.parquet")``
    """
    from sklearn.datasets import load_svmlight_file

    parts = [load_svmlight_file(str(file), n_features=columns) for file in files]
    X = np.vstack([part[0].toarray() for part in parts])
    table = pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(columns)])
    return table.assign(target=np.concatenate([part[1] for part in parts]))


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
