"""``hgk predict``: the rows of a table through a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pandas as pd
import typer

from hgk.cli import tables
from hgk.cli.rows import read_rows
from hgk.cli.shared import (
    DataArgument,
    DecimalOption,
    DelimiterOption,
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
    print_json,
    say,
    tell,
    warnings_noted,
)
from hgk.estimators import HGKEstimator
from hgk.storage import load

PredictionsOption = Annotated[str, typer.Option(help="CSV, CSV.gz, Parquet or Feather by the ending; - prints CSV.")]
IntervalOption = Annotated[
    float | None, typer.Option(help="Add bounds that cover the label with this probability, such as 0.9.")
]
ProbaOption = Annotated[bool, typer.Option("--proba", help="Add a probability per class.")]


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: PredictionsOption = "-",
    interval: IntervalOption = None,
    proba: ProbaOption = False,
    device: DeviceOption = "cpu",
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    force: ForceOption = False,
) -> None:
    """Predict the rows of a table."""
    check_device(device)
    fitted = load(model).set_params(device=device)
    _check_asked(fitted, interval, proba)
    if out != "-":
        tables.check_ending(out)
        check_outputs([predictions_at(Path(out))], {"MODEL": model, "DATA": data}, force)
    notes: list[str] = []
    X = read_rows(fitted, data, delimiter, decimal, notes)
    with interruptible("nothing was written"), warnings_noted(notes):
        frame = _predictions(fitted, X, interval, proba)
    if as_json and out == "-":
        print_json(frame.to_dict("records"))
        return
    tables.write_table(frame, out)
    if as_json:
        print_json({"out": out, "rows": len(frame), "columns": list(frame.columns), "notes": notes})
    elif not quiet:
        tell(notes)
        if out != "-":
            say(f"{len(frame)} predictions in {out}")


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


def predictions_at(path: Path) -> Output:
    """A table that has only columns of predictions may be overwritten by predictions."""
    known = re.compile(r"(prediction|lower|upper)( \d+)?|quantile [\d.e+-]+|probability of .*", re.DOTALL)

    def ours(file: BinaryIO) -> bool:
        names = tables.names_in(file, path)
        return bool(names) and all(known.fullmatch(name) for name in names)

    return Output("--out", path, "a table of predictions by hgk", ours)


def _predictions(model: HGKEstimator, X: Any, interval: float | None, proba: bool) -> pd.DataFrame:
    target, values = model.model_.target, model.predict(X)
    names = ["prediction"] if target.classes else target.predictions
    columns = dict(zip(names, values.reshape(len(values), -1).T, strict=True))
    if interval is not None:
        bounds = model.predict_interval(X, interval)
        for name, (low, high) in zip(names, bounds.reshape(len(bounds), -1, 2).transpose(1, 2, 0), strict=True):
            number = name.removeprefix("prediction")
            columns |= {f"lower{number}": low, f"upper{number}": high}
    if proba:
        columns |= {f"probability of {c}": p for c, p in zip(model.classes_, model.predict_proba(X).T, strict=True)}
    return pd.DataFrame(columns)
