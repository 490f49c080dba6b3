"""``hgk predict``: the rows of a table through a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pandas as pd
import typer

from hgk.cli import tables
from hgk.cli.dialect import DETECTED, Dialect, reads_tables
from hgk.cli.rows import model_columns, table_for
from hgk.cli.shared import (
    DataArgument,
    DeviceOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    Output,
    QuietOption,
    Unusable,
    check_device,
    check_outputs,
    interruptible,
    named_columns,
    print_json,
    say,
    tell,
    warnings_noted,
)
from hgk.estimators import HGKEstimator, checks
from hgk.intervals import ADAPTIVE, INTERVAL_METHODS
from hgk.storage import load

PredictionsOption = Annotated[str, typer.Option(help="CSV, CSV.gz, Parquet or Feather by the ending; - prints CSV.")]
IntervalOption = Annotated[
    float | None, typer.Option(help="Add bounds that cover the label with this probability, such as 0.9.")
]
MethodOption = Annotated[
    str, typer.Option(help="Width of the bounds: adaptive follows the errors, jackknife+ is nearly constant.")
]
BoundsOption = Annotated[
    str | None,
    typer.Option(
        help="What the label cannot exceed: auto (as the training labels tell, the default), none, or LOW:HIGH, such "
        "as 0:100, or 0: for an open end."
    ),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option("--keep", help="Columns of DATA to write next to the predictions, such as an id; by commas."),
]
ProbaOption = Annotated[bool, typer.Option("--proba", help="Add a probability per class.")]


@reads_tables
def predict(
    model: ModelArgument,
    data: DataArgument,
    out: PredictionsOption = "-",
    interval: IntervalOption = None,
    interval_method: MethodOption = "adaptive",
    interval_bounds: BoundsOption = None,
    proba: ProbaOption = False,
    keep: KeepOption = None,
    device: DeviceOption = "cpu",
    dialect: Dialect = DETECTED,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    force: ForceOption = False,
) -> None:
    """Predict the rows of a table."""
    check_device(device)
    fitted = load(model).set_params(device=device)
    how = _asked(fitted, interval, interval_method, interval_bounds, proba)
    kept = _kept_names(keep, fitted)
    if out != "-":
        tables.check_ending(out)
        check_outputs([predictions_at(Path(out), kept)], {"MODEL": model, "DATA": data}, force)
    notes: list[str] = []
    table = table_for(fitted, data, dialect, keep=kept)
    for name in kept:
        tables.column(table.frame, name, "--keep:")
    X = model_columns(fitted, table, notes)
    with interruptible("nothing was written"), warnings_noted(notes):
        frame = _predictions(fitted, X, how, proba)
    frame = pd.concat([table.kept[kept], frame], axis=1) if kept else frame
    if as_json and out == "-":
        print_json(_records(frame))
        return
    tables.write_table(frame, out)
    if as_json:
        print_json({"out": out, "rows": len(frame), "columns": list(frame.columns), "notes": notes})
    elif not quiet:
        tell(notes)
        if out != "-":
            say(f"{len(frame)} predictions in {out}")


def _asked(model: HGKEstimator, interval: float | None, method: str, bounds: str | None, proba: bool) -> Bounded:
    """The intervals, if any, once everything that was asked for fits the model."""
    _check_asked(model, interval, proba)
    how = Bounded(interval, method, _bounds(bounds))
    how.check(bounds)
    return how


def _check_asked(model: HGKEstimator, interval: float | None, proba: bool) -> None:
    classes = model.model_.target.classes
    if interval is not None and classes:
        raise Unusable("--interval was given with a classifier; give --proba to see how certain it is.")
    if interval is not None and not hasattr(model, "predict_interval"):
        raise Unusable("--interval was given with a model of quantiles; its predictions are bounds already.")
    if interval is not None and not 0 < interval < 1:
        raise Unusable(f"--interval {interval:g} was given; a number between 0 and 1 is expected, such as 0.9.")
    if proba and not classes:
        raise Unusable("--proba was given with a regression; give --interval 0.9 to see how certain it is.")


# The names of columns of predictions.
PREDICTED_NAMES = re.compile(r"(prediction|lower|upper)( \d+)?|quantile [\d.e+-]+|probability of .*", re.DOTALL)


@dataclass(frozen=True)
class Bounded:
    """The intervals that are asked for."""

    coverage: float | None
    method: str
    bounds: str | tuple[float | None, float | None] | None

    def check(self, given: str | None) -> None:
        if self.method not in INTERVAL_METHODS:
            raise Unusable(f"--interval-method {self.method} was given; {' or '.join(INTERVAL_METHODS)} is expected.")
        if self.coverage is None and (given is not None or self.method != ADAPTIVE):
            raise Unusable("A way of intervals was given without --interval; add --interval 0.9.")


def _bounds(text: str | None) -> str | tuple[float | None, float | None] | None:
    """auto, none, or LOW:HIGH, either end open."""
    if text in (None, "auto", "none"):
        return None if text == "none" else "auto"
    ends = str(text).split(":")
    try:
        low, high = (float(end) if end.strip() else None for end in ends)
        checks.bounds_asked((low, high))
    except ValueError:
        raise Unusable(
            f"--interval-bounds {text} was given; auto, none or LOW:HIGH with LOW below HIGH is expected, such as "
            "0:100, or 0: for an open end."
        ) from None
    return low, high


def _kept_names(given: list[str] | None, model: HGKEstimator) -> list[str]:
    kept = named_columns(given)
    for name in kept:
        if PREDICTED_NAMES.fullmatch(name):
            raise Unusable(f"--keep names {name!r}, which is a name of predictions; give that column another name.")
    if kept and not hasattr(model, "feature_names_in_"):
        raise Unusable("--keep was given with a model that knows no names of columns; fit it on a table with names.")
    return kept


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = [_for_json(frame[name]) for name in frame.columns]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def _for_json(column: pd.Series) -> list[Any]:
    """Texts, numbers and truth values as they are, missing cells as None, anything else as text."""
    cells = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if gone else v if isinstance(v, str | int | float) else str(v) for v, gone in cells]


def predictions_at(path: Path, kept: Sequence[str] = ()) -> Output:
    """A table that has only columns of predictions, and of those kept, may be overwritten by predictions."""

    def ours(file: BinaryIO) -> bool:
        names = [name for name in tables.names_in(file, path) if name not in kept]
        return bool(names) and all(PREDICTED_NAMES.fullmatch(name) for name in names)

    return Output("--out", path, "a table of predictions by hgk", ours)


def _predictions(model: HGKEstimator, X: Any, how: Bounded, proba: bool) -> pd.DataFrame:
    target, values = model.model_.target, model.predict(X)
    names = ["prediction"] if target.classes else target.predictions
    columns = dict(zip(names, values.reshape(len(values), -1).T, strict=True))
    if how.coverage is not None:
        bounds = model.predict_interval(X, how.coverage, method=how.method, bounds=how.bounds)
        for name, (low, high) in zip(names, bounds.reshape(len(bounds), -1, 2).transpose(1, 2, 0), strict=True):
            number = name.removeprefix("prediction")
            columns |= {f"lower{number}": low, f"upper{number}": high}
    if proba:
        columns |= {f"probability of {c}": p for c, p in zip(model.classes_, model.predict_proba(X).T, strict=True)}
    return pd.DataFrame(columns)
