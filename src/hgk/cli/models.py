"""``hgk fit``, ``predict``, ``explain``, ``info`` and ``demo``."""

from __future__ import annotations

import contextlib
import csv
import importlib
import itertools
import json
import re
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import pandas as pd
import torch
import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Listing

from hgk.arrays import DEVICES
from hgk.cli import tables
from hgk.cli.shared import EXPECTED, Force, Output, Unusable, cell, check_device, check_outputs, console, errors, say
from hgk.estimators import HGKClassifier, HGKQuantileRegressor, HGKRegressor, StoppedEarlyWarning
from hgk.inputs.numerals import Marks
from hgk.inputs.table import is_mixed
from hgk.insight import contributions, given_rows, in_words, node_terms, plain_remark, remark_on_plain, verdict
from hgk.learners.plans import PRESETS
from hgk.progress import ASIDE, Event
from hgk.report.web import is_page
from hgk.storage import describe, load, save
from hgk.storage.files import STEERING, is_model
from hgk.targets.few_values import Levels

EXPECTED.append(tables.TableError)
Model = HGKRegressor | HGKQuantileRegressor | HGKClassifier


class Task(StrEnum):
    auto = "auto"
    regression = "regression"
    classification = "classification"


Preset = StrEnum("Preset", list(PRESETS))  # type: ignore[misc]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress.")]
Delimiter = Annotated[str | None, typer.Option(help="Of a CSV: one character, or tab; detected if not given.")]
Device = Annotated[str, typer.Option(help=f"Where to compute: {DEVICES}.")]
Decimal = Annotated[str | None, typer.Option(help="Of a CSV: . or , ; detected if not given.")]
Source = Annotated[str, typer.Argument(help="CSV, Parquet, Arrow or Feather, also gzipped; - for standard input.")]
ModelFile = Annotated[Path, typer.Argument(help="A model that `hgk fit` or hgk.save wrote.")]


# ------------------------------------------------------------------------------------------------------------ fit


def fit(
    data: Source,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The model file to write, such as model.hgk.")],
    task: Annotated[Task, typer.Option(help="auto decides by the target's type and number of values.")] = Task.auto,
    group: Annotated[
        list[str] | None, typer.Option(help="A node of your own: demographics=age,sex; may be given several times.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out, with commas between them.")] = None,
    preset: Annotated[Preset, typer.Option(help="What is learned, and how.")] = Preset.default,  # type: ignore[attr-defined]
    loss: Annotated[
        str, typer.Option(help="Of classes: hinge, squared_hinge, logistic; of numbers: pinball, expectile, ….")
    ] = "least_squares",
    tau: Annotated[float, typer.Option(help="Level of pinball and expectile.")] = 0.5,
    quantiles: Annotated[str | None, typer.Option(help="Predict quantiles: 0.05,0.5,0.95.")] = None,
    time_budget: Annotated[str | None, typer.Option(help="About how long: 90, 90s, 2m, 1h30m.")] = None,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same model.")] = 0,
    compact: Annotated[bool, typer.Option("--compact", help="Leave out what predictions do not need.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write a page that explains the model.")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Fit a model to a table and write it to a file. Ctrl-C keeps the best so far and still writes it."""
    check_device(device)
    seconds = None if time_budget is None else duration(time_budget)
    write_report = _report_writer(report)
    outputs = [Output("--out", out, "a model file of hgk", is_model)]
    outputs += [] if report is None else [Output("--report", report, "a page of hgk", is_page)]
    check_outputs(outputs, {"DATA": data}, force)
    table = tables.read_table(data, delimiter, decimal)
    tables.column(table.frame, target, "The target")
    table.check([target])
    found = tables.target_of(table.frame[target], task)
    X = table.frame.drop(columns=[target, *_columns(drop, table.frame, "--drop")])[found.present].reset_index(drop=True)
    if not X.shape[1]:
        raise Unusable(f"The table has no column besides the target {target!r}; give at least one to predict from.")
    table.check(X.columns)
    notes = table.notes_on([*X.columns, *([target] if target in table.marks else [])])
    if not found.present.all():
        notes.append(f"{int((~found.present).sum())} rows without a value of {target!r} were left out.")
    levels = None if quantiles is None else _levels(quantiles)
    common = {"groups": _groups(group, X), "time_budget": seconds, "device": device, "random_state": seed}
    model = _estimator(str(preset), found.classes, loss, tau, levels, common)
    model._marks = table.marks
    if not quiet and not as_json:
        say(f"{found.reason}: {len(X)} rows, {X.shape[1]} columns", errors)
        _tell(notes, quiet)
    told = len(notes)
    begun = time.monotonic()
    with (
        _interruptible("nothing was written"),
        _watched(model, seconds, quiet or as_json),
        _noted(notes, table) as stopped,
    ):
        model.fit(X, found.y)
    model.callback = None
    took = time.monotonic() - begun
    with _interruptible("the model was not written"):
        save(
            model,
            out,
            compact=compact,
            note={"target": target, "task": "classification" if found.classes else "regression"},
            force=force,
        )
    with _interruptible(f"{out} is written, its error not estimated"):
        error, loo = verdict(model), _leave_one_out(model, found.y)
    if write_report is not None:
        with _interruptible(f"{out} is written, the report is not"), _sentences():
            write_report(model, report, title=f"{target}, from {'standard input' if data == '-' else Path(data).name}")
    said: dict[str, Any] = {"model": str(out), "report": None if report is None else str(report), "target": target}
    said |= {
        "task": type(model).__name__,
        "decision": found.reason,
        "rows": len(X),
        "columns": X.shape[1],
        "seconds": took,
    }
    said |= {"stopped_early": bool(stopped), "error": error, "leave_one_out": loo, "importances": _importances(model)}
    said |= {"plain": plain_remark(model), "notes": notes, "classes": found.classes, "outputs": len(_outputs(model))}
    _told(said, notes[told:], as_json, quiet)


def _told(said: dict[str, Any], notes: Sequence[str], as_json: bool, quiet: bool) -> None:
    if as_json:
        _print_json(said)
        return
    _tell(notes, quiet)
    if quiet:
        return
    error = said["error"]
    if error is not None:
        say(f"{_where(error)}: {in_words(error, said['classes'], said['outputs'])}")
    if said["leave_one_out"]:
        loo = ", ".join(f"{LEAVE_ONE_OUT[name]} {value:.4g}" for name, value in said["leave_one_out"].items())
        say(f"leave-one-out, by a kernel and λ that have seen the row: {loo}")
    say(f"fitted in {said['seconds']:.1f} s")
    leaning = ", ".join(f"{name} {share:.2f}" for name, share in list(said["importances"].items())[:5])
    say(said["plain"] or f"the kernel leans on {leaning}")
    say(f"model in {said['model']}")
    if said["report"]:
        say(f"report in {said['report']}")


LEAVE_ONE_OUT = {"rmse": "RMSE", "r2": "R²", "accuracy": "accuracy"}


def _where(error: dict[str, Any]) -> str:
    """Which rows an error is of."""
    many = "" if error.get("rows") is None else f"{error['rows']} "
    return f"on {many}{ASIDE}, which chose among kernels" if error["basis"] == ASIDE else f"by {error['basis']}"


def duration(text: str) -> float:
    """Seconds from 90, 90s, 2m, 1h30m, 1.5h.

    Examples
    --------
    >>> from hgk.cli.models import duration
    >>> duration("2m"), duration("1h30m"), duration("90")
    (120.0, 5400.0, 90.0)
    """
    parts = re.fullmatch(r"\s*(?:([\d.]+)\s*h)?\s*(?:([\d.]+)\s*m(?:in)?)?\s*(?:([\d.]+)\s*s?)?\s*", text)
    seconds = 0.0
    with contextlib.suppress(ValueError):  # such as 1.2.3
        seconds = sum(
            u * float(p or 0) for u, p in zip((3600.0, 60.0, 1.0), parts.groups() if parts else (), strict=False)
        )
    if not 0 < seconds < float("inf"):
        raise Unusable(f"--time-budget {text!r} was given; a time such as 90s, 2m or 1h30m is expected.")
    return seconds


def _groups(given: Sequence[str] | None, X: pd.DataFrame) -> dict[str, list[str]] | None:
    groups = {}
    for text in given or ():
        name, equals, columns = text.partition("=")
        if not (equals and name.strip() and columns.strip()):
            raise Unusable(f"--group {text!r} was given; a name and columns are expected, such as size=width,height.")
        if name.strip() in groups:
            raise Unusable(f"--group names {name.strip()!r} twice; put its columns into one option.")
        groups[name.strip()] = _columns([columns], X, f"--group {name.strip()}")
    return groups or None


def _columns(given: Sequence[str] | None, frame: pd.DataFrame, what: str) -> list[str]:
    """Names with commas between them; a name that has one itself stands in quotes."""
    names = [name.strip() for text in given or () for name in next(csv.reader([text], skipinitialspace=True)) if name]
    return [tables.column(frame, name, f"{what}:") for name in dict.fromkeys(names)]


def _report_writer(report: Path | None):
    if report is None:
        return None
    try:
        return importlib.import_module("hgk.report.page").write_report
    except ModuleNotFoundError as error:
        raise Unusable(f"--report needs {error.name}; pip install the package, or leave --report out.") from error


def _levels(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Unusable(f"--quantiles {text!r} was given; levels such as 0.05,0.5,0.95 are expected.") from None


def _estimator(preset: str, classes: bool, loss: str, tau: float, levels: list[float] | None, common: dict) -> Model:
    if levels is None:
        return (
            HGKClassifier(preset, loss=loss, **common)
            if classes
            else HGKRegressor(preset, loss=loss, tau=tau, **common)
        )
    if classes or loss not in ("least_squares", "pinball"):
        what = "a target of classes" if classes else f"--loss {loss}"
        raise Unusable(
            f"--quantiles was given with {what}; quantiles are of numbers, by the pinball loss, so leave one out."
        )
    return HGKQuantileRegressor(preset, quantiles=levels, **common)


def _leave_one_out(model: Model, y: np.ndarray) -> dict[str, float]:
    """Of least squares; the kernel and λ have seen the row, no coefficient has."""
    if model._of_loss:
        return {}
    loo = model.loo_predictions_
    if isinstance(model, HGKClassifier):
        found = model.classes_[(loo > 0).astype(int) if loo.ndim == 1 else loo.argmax(1)]
        return {"accuracy": float(np.mean(found == y))}
    with np.errstate(over="ignore", invalid="ignore"):  # squares of the largest floats
        error, variance = float(np.mean((loo - y) ** 2)), float(np.var(y))
    return {"rmse": error**0.5, "r2": 1 - error / variance if variance else 0.0}


def _importances(model: Model) -> dict[str, float]:
    order = np.argsort(-model.feature_importances_, kind="stable")
    return {model._inputs.reader.names[j]: float(model.feature_importances_[j]) for j in order}


# -------------------------------------------------------------------------------------------- while something runs


@contextlib.contextmanager
def _watched(model: Model, seconds: float | None, silent: bool) -> Iterator[None]:
    """A line that moves while the model learns, where somebody watches."""
    if silent or not errors.is_terminal:
        yield
        return
    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
    columns += [BarColumn()] if seconds is not None else []
    with Progress(*columns, console=errors, transient=True) as bar:
        line, begun = bar.add_task("reading", total=seconds), time.monotonic()

        def tell(event: Event) -> None:
            bar.update(line, description=_phrase(event), completed=time.monotonic() - begun)

        model.callback = tell
        yield


def _phrase(event: Event) -> str:
    """An event in a few words."""
    where = ", ".join(f"{event[tag]}" for tag in ("candidate",) if tag in event)
    where += f", fold {event['fold']}" if "fold" in event else ""
    numbers = [
        f"{k} {v:.4g}" for k in ("step", "criterion", "honest", "risk") if isinstance(v := event.get(k), int | float)
    ]
    if "of" in event:
        numbers = [f"{event['done']} of {event['of']}"]
    return " · ".join(part for part in (str(event.get("stage", "")), where, *numbers) if part)


@contextlib.contextmanager
def _noted(notes: list[str], table: tables.Table | None = None) -> Iterator[list[str]]:
    """Warnings become notes, unless the table has one on the same column; what the estimators refuse is a sentence of
    ours. Yields what was stopped early."""
    told = tuple(f"Column {name!r} " for name in table.of_columns) if table is not None else ()
    stopped: list[str] = []
    with warnings.catch_warnings(record=True) as caught, _sentences():
        warnings.simplefilter("always")
        yield stopped
    for warning in caught:
        if not str(warning.message).startswith(told):
            notes.append(str(warning.message))
        if issubclass(warning.category, StoppedEarlyWarning):
            stopped.append(str(warning.message))


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        raise Unusable(" ".join(str(error).split())) from error


@contextlib.contextmanager
def _interruptible(left: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(f"hgk: stopped; {left}.", errors)
        raise typer.Exit(130) from None


def _tell(notes: Sequence[str], quiet: bool) -> None:
    for note in () if quiet else dict.fromkeys(notes):
        say(f"note: {note}", errors)


def _print_json(document: Any) -> None:
    """JSON has no nan and no infinity: null stands for them; what would steer a terminal is escaped."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple | np.ndarray):
            return [plain(v) for v in value]
        value = value.item() if isinstance(value, np.generic) else value
        return None if isinstance(value, float) and not np.isfinite(value) else value

    text = json.dumps(plain(document), ensure_ascii=False)
    typer.echo(STEERING.sub(lambda c: f"\\u{ord(c[0]):04x}", text))


# -------------------------------------------------------------------------------------------------------- predict


def predict(
    model: ModelFile,
    data: Source,
    out: Annotated[str, typer.Option(help="CSV, CSV.gz, Parquet or Feather by the ending; - prints CSV.")] = "-",
    interval: Annotated[
        float | None, typer.Option(help="Add bounds that cover the label with this probability, such as 0.9.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add a probability per class.")] = False,
    device: Device = "cpu",
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Predict the rows of a table."""
    check_device(device)
    fitted = load(model).set_params(device=device)
    if interval is not None and isinstance(fitted, HGKClassifier):
        raise Unusable("--interval was given with a classifier; its certainty is told by --proba.")
    if interval is not None and isinstance(fitted, HGKQuantileRegressor):
        raise Unusable("--interval was given with a model of quantiles; its predictions are bounds already.")
    if interval is not None and not 0 < interval < 1:
        raise Unusable(f"--interval {interval:g} was given; a number between 0 and 1 is expected, such as 0.9.")
    if proba and not isinstance(fitted, HGKClassifier):
        raise Unusable("--proba was given with a regression; its certainty is told by --interval 0.9.")
    if out != "-":
        tables.check_ending(out)
        check_outputs([_predictions_at(Path(out))], {"MODEL": model, "DATA": data}, force)
    notes: list[str] = []
    X = _inputs(fitted, data, delimiter, decimal, notes)
    with _interruptible("nothing was written"), _noted(notes):
        frame = _predictions(fitted, X, interval, proba)
    if as_json and out == "-":
        _print_json(frame.to_dict("records"))
        return
    tables.write_table(frame, out)
    if as_json:
        _print_json({"out": out, "rows": len(frame), "columns": list(frame.columns), "notes": notes})
        return
    _tell(notes, quiet)
    if out != "-" and not quiet:
        say(f"{len(frame)} predictions in {out}")


def _predictions_at(path: Path) -> Output:
    """Over a table that has no other columns than predictions have, predictions may be written."""
    known = re.compile(r"(prediction|lower|upper)( \d+)?|quantile [\d.e+-]+|probability of .*", re.DOTALL)

    def ours(file: BinaryIO) -> bool:
        names = tables.names_in(file, path)
        return bool(names) and all(known.fullmatch(name) for name in names)

    return Output("--out", path, "a table of predictions by hgk", ours)


def _inputs(model: Model, data: str, delimiter: str | None, decimal: str | None, notes: list[str]) -> Any:
    """The model's columns of a table: a frame, or an array where the model knows no names."""
    reader = model._inputs.reader
    text = [name for name, levels in zip(reader.names, reader.levels, strict=True) if levels is not None]
    numeric = [levels is None for levels in reader.levels]
    found = zip(reader.names, numeric, reader.marks or [None] * len(numeric), strict=True)
    marks = {name: m or Marks() for name, is_number, m in found if is_number}
    table = tables.read_table(data, delimiter, decimal, text, marks)
    table.check([name for name in reader.names if name not in text])
    notes += table.notes_on(reader.names)
    names = list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None
    X = tables.select(table.frame, names, model.n_features_in_)
    return X if names is not None else _unnamed(X)


def _unnamed(X: pd.DataFrame) -> np.ndarray:
    return X.to_numpy(dtype=object).astype(str) if is_mixed(X) else X.to_numpy(dtype=float)


def _predictions(model: Model, X: Any, interval: float | None, proba: bool) -> pd.DataFrame:
    said = model.predict(X)
    if isinstance(model, HGKQuantileRegressor):
        return pd.DataFrame(dict(zip(_outputs(model), said.reshape(len(said), -1).T, strict=True)))
    columns = {"prediction": said} if said.ndim == 1 else {f"prediction {j}": t for j, t in enumerate(said.T)}
    if interval is not None and isinstance(model, HGKRegressor):
        bounds = model.predict_interval(X, interval)
        for j, (low, high) in enumerate(bounds.reshape(len(bounds), -1, 2).transpose(1, 2, 0)):
            tail = "" if said.ndim == 1 else f" {j}"
            columns |= {f"lower{tail}": low, f"upper{tail}": high}
    if proba and isinstance(model, HGKClassifier):
        columns |= {f"probability of {c}": p for c, p in zip(model.classes_, model.predict_proba(X).T, strict=True)}
    return pd.DataFrame(columns)


# -------------------------------------------------------------------------------------------------------- explain


def explain(
    model: ModelFile,
    row: Annotated[
        int | None, typer.Option(min=0, help="Explain this row, counted from 0: of --data, or of the training table.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The table that --row is in; - for standard input.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many training rows, columns or nodes to show.")] = 5,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what the kernel leans on; or, for one row, the training rows that make up its prediction."""
    fitted = load(model)
    if data is not None and row is None:
        raise Unusable("--data was given without --row; give the number of the row to explain, counted from 0.")
    notes: list[str] = []
    if row is None:
        said = _kernel_explained(fitted)
    else:
        X = _training_row(fitted, row) if data is None else _inputs(fitted, data, delimiter, decimal, notes)
        if data is not None and row >= len(X):
            raise Unusable(f"--row {row} was given and the table has {len(X)} rows; give one from 0 to {len(X) - 1}.")
        with _noted(notes):
            said = _row_explained(fitted, X[row : row + 1] if data is not None else X, top)
    _tell(notes, quiet or as_json)
    if as_json:
        _print_json(said | {"notes": notes})
    elif row is None:
        _show_kernel(said, top)
    else:
        _show_row(said, row)


def _kernel_explained(model: Model) -> dict[str, Any]:
    """Relevance of columns, and of the first-layer nodes of every machine."""
    nodes: list[dict[str, Any]] = []
    names, place = model._inputs.reader.names, 0
    for m, machine in enumerate(model.machines_):
        tree = machine.kernel.architecture
        for i in range(len(tree.coordinates)):
            shares = model.node_importances_[place + i]
            order = np.argsort(-shares, kind="stable")
            label = tree.labels[i] if tree.labels else f"node {i}"
            kind = "rough" if tree.q[i] != 2 else "oblique" if i in tree.oblique else "smooth"
            columns = {names[j]: float(shares[j]) for j in order if shares[j] > 0}
            nodes.append({"machine": m, "node": label, "kind": kind, "share": float(shares.sum()), "columns": columns})
        place += len(tree.coordinates)
    nodes = sorted(nodes, key=lambda node: -float(node["share"]))
    return {"columns": _importances(model), "nodes": nodes, "plain": plain_remark(model)}


def _show_kernel(said: dict[str, Any], top: int) -> None:
    if said["plain"]:
        say(f"{said['plain']}; the shares below are of how they were encoded")
    columns = Listing("column", "relevance", title="Columns: their share of the kernels' exponents")
    most = max([*said["columns"].values(), 1e-12])
    for name, share in list(said["columns"].items())[: max(top, 10)]:
        columns.add_row(cell(name), f"{share:.3f} {'█' * round(20 * share / most)}")
    nodes = Listing("machine", "node", "kind", "share", "mostly", title="Nodes")
    for node in said["nodes"][: max(top, 10)]:
        mostly = ", ".join(f"{name} {share:.2f}" for name, share in list(node["columns"].items())[:4])
        nodes.add_row(str(node["machine"]), cell(node["node"]), node["kind"], f"{node['share']:.3f}", cell(mostly))
    console.print(columns, nodes)


def _training_row(model: Model, row: int) -> Any:
    rows = model._training_rows("Without --data, --row needs")
    if row >= len(model._place):
        raise Unusable(
            f"--row {row} was given and the model saw {len(model._place)} rows, counted from 0; or give --data."
        )
    if model._place[row] < 0 or not len(rows):
        raise Unusable(f"Row {row} had weight 0 and is not in the model; give it by --data.")
    cells = tables.decoded_row(model, model.X_fit_[model._place[row]])
    frame = pd.DataFrame({name: pd.Series([v], dtype=object if _is_text(v) else float) for name, v in cells.items()})
    return frame if hasattr(model, "feature_names_in_") else _unnamed(frame)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _row_explained(model: Model, X: Any, top: int) -> dict[str, Any]:
    """The prediction of one row as a sum; per output, the largest terms and the rest."""
    found = contributions(model, X, top)
    outputs = _outputs(model)
    numbers = None if model._rows is None else given_rows(model)
    labels = None if model._rows is None else _labels(model)
    x, first, leading = model._features(X)[0], model.machines_[0], _importances(model)
    said: dict[str, Any] = {"prediction": model.predict(X)[0], "outputs": []}
    if first.levels is not None:
        said |= {"power": first.levels.power, "values": _values(model, first.levels)}
    for j, output in enumerate(outputs):
        apart = node_terms(first.kernel, x, first.X[torch.from_numpy(found.rows[0, j])])
        rows = []
        for i, index in enumerate(found.rows[0, j]):
            entry: dict[str, Any] = {"row": None if numbers is None else int(numbers[index])}
            entry["label"] = None if labels is None else labels[index]
            entry |= {"similarity": found.similarity[0, j, i], "contribution": found.contribution[0, j, i]}
            if numbers is not None and len(first.X) == len(model._rows or ()):
                cells = tables.decoded_row(model, model.X_fit_[index])
                entry["cells"] = {name: cells[name] for name in leading}  # the most relevant first
            rows.append(entry | {"apart": apart[i].tolist()})
        total = {"base": found.base[j], "rest": found.rest[0, j], "value": found.value[0, j]}
        said["outputs"].append({"output": output, **total, "rows": rows})
    return said


def _outputs(model: Model) -> list[str]:
    if isinstance(model, HGKQuantileRegressor):
        return [f"quantile {level:g}" for level in model.quantiles_]
    if isinstance(model, HGKClassifier):
        if model.multi_class == "ava" and not model._single_column:
            return [f"{a} against {b}" for a, b in itertools.combinations(model.classes_, 2)]
        classes = model.classes_[1:] if model._single_column else model.classes_
        return [str(c) for c in classes]
    first = model.machines_[0]
    if first.levels is not None and first.levels.outputs > 1:
        return [f"{v:.12g}" for v in _values(model, first.levels)]
    if first.levels is not None:
        return ["prediction before its power"]
    return ["prediction"] if model._single_column else [f"prediction {j}" for j in range(first.alpha.shape[1])]


def _values(model: Model, levels: Levels) -> list[float]:
    """Of the label, in its unit."""
    return model._y_scaling.inverse(levels.values.numpy()[:, None])[:, 0].tolist()


def _labels(model: Model) -> list[Any]:
    """The labels of the rows of the first machine, as they were given; of a centre, its first row's."""
    rows = model._training_rows("Labels need")
    index = model._place[given_rows(model)]
    Y = rows.Y.numpy()[index]
    if isinstance(model, HGKClassifier):
        return model.classes_[(Y[:, 0] > 0).astype(int) if model._single_column else Y.argmax(1)].tolist()
    return [y[0] if model._single_column else y for y in model._y_scaling.inverse(Y).tolist()]


def _show_row(said: dict[str, Any], row: int) -> None:
    say(f"row {row}: prediction {_cell(said['prediction'])}")
    if "power" in said:
        say(_power_said(said["values"], said["power"]))
    for output in said["outputs"]:
        cells = list(output["rows"][0].get("cells", {}))[:4]
        listing = Listing("training row", "label", "similarity", "contribution")
        for name in cells:
            listing.add_column(cell(name))
        whole = f"{output['base']:.5g} + rows below + others {output['rest']:+.5g} = {output['value']:.5g}"
        listing.title = cell(f"{output['output']}: {whole}")
        for entry in output["rows"]:
            shown = [cell(_cell(entry["cells"][name])) for name in cells]
            number = "not kept" if entry["row"] is None else str(entry["row"])
            listing.add_row(
                number,
                cell(_cell(entry["label"])),
                f"{entry['similarity']:.3f}",
                f"{entry['contribution']:+.5g}",
                *shown,
            )
        console.print(listing)


def _power_said(values: Sequence[float], power: float) -> str:
    if len(values) > 2:
        return f"the mean of the values below, each in proportion to ((1 + f) / 2) to the power of {power:g}"
    low, high = (f"{value:.5g}" for value in values)
    return f"the prediction below, moved to the nearer of {low} and {high} by the power {power:g} of its odds"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


# -------------------------------------------------------------------------------------------------- info and demo


def info(model: ModelFile, as_json: Json = False) -> None:
    """Tell what a model file holds, without loading the model."""
    found = describe(model)
    if as_json:
        _print_json(found)
        return
    summary, note = found["summary"], found["note"]
    remark = remark_on_plain(summary.get("plain", False), summary.get("tried", []))
    lines = {
        "model": f"{summary.get('estimator')}"
        + (f", {summary['loss']}" if summary.get("loss", "LeastSquares") != "LeastSquares" else "")
        + (f" of {note['target']!r}" if "target" in note else ""),
        "file": f"{found['bytes'] / 1024:.0f} KiB, schema {found['schema']}"
        + (", compact" if summary.get("compact") else ""),
        "training rows": "not kept"
        if summary.get("rows") is None
        else f"{summary['rows']}, {summary['distinct_rows']} different",
        "classes": ", ".join(map(str, summary.get("classes") or [])),
        "error": _error_line(summary),
        "columns": ", ".join(summary.get("columns", [])),
        "taken for": "; ".join(f"{c['column']}: {c['words']}" for c in summary.get("taken_for", [])),
        "kernel": remark or "leans on " + ", ".join(f"{name} {share:.2f}" for name, share in _leading(summary)),
        "learned": ", ".join(summary.get("chosen") or []),
        "machines": "; ".join(
            f"{m['kind']} on {m['rows']} rows, {m['nodes']} nodes, λ {m['lam']:.2g}"
            for m in summary.get("machines", [])
        ),
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        "checksum": found["checksum"],
    }
    for name, text in lines.items():
        if text:
            say(f"{name:14} {text}")


def _error_line(summary: dict[str, Any]) -> str:
    """The honest error that the fit found, in the words of the report."""
    found = summary.get("error")
    if found is None:
        return ""
    return f"{_where(found)}: {in_words(found, summary.get('classes') is not None, summary.get('outputs', 1))}"


def _leading(summary: dict[str, Any], most: int = 5) -> list[tuple[str, float]]:
    pairs = zip(summary.get("columns", []), summary.get("importances", []), strict=False)
    return sorted(pairs, key=lambda pair: -pair[1])[:most]


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write to; made if it is not there.")] = Path("hgk-demo"),
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Fit, predict and explain a made-up table, showing each command; under a minute."""
    out.mkdir(parents=True, exist_ok=True)
    frame = _friedman(600)
    known, new = out / "known.csv", out / "new.csv"
    model, predictions = out / "model.hgk", out / "predictions.csv"
    check_outputs(_of_demo(frame, known, new, model, predictions), {}, force)
    tables.write_table(frame[:-100], known)
    tables.write_table(frame[-100:], new)

    def show(*words: str | Path) -> None:
        if not quiet:
            console.print()
            say(f"$ hgk {shlex.join(map(str, words))}")

    show("fit", known, "--target", "y", "--out", model)
    fit(str(known), "y", model, quiet=quiet, force=force)
    show("predict", model, new, "--interval", "0.9", "--out", predictions)
    predict(model, str(new), str(predictions), interval=0.9, quiet=quiet, force=force)
    if quiet:
        return
    said, truth = pd.read_csv(predictions), frame["y"][-100:].to_numpy()
    inside = float(np.mean((said["lower"] <= truth) & (truth <= said["upper"])))
    rmse = float(np.mean((said["prediction"] - truth) ** 2)) ** 0.5
    spread = f"noise 1, spread of y {truth.std():.1f}"
    console.print(f"on these 100 rows: RMSE {rmse:.2f} ({spread}), {inside:.0%} within their intervals")
    show("explain", model)
    explain(model)
    show("explain", model, "--row", "0", "--data", new)
    explain(model, row=0, data=str(new))


def _of_demo(frame: pd.DataFrame, known: Path, new: Path, model: Path, predictions: Path) -> list[Output]:
    """What the demo writes: tables that are the same each time, and beside these a model and predictions."""
    parts = {known: frame[:-100], new: frame[-100:]}
    contents = {path: part.to_csv(index=False).encode() for path, part in parts.items()}

    def same_as(content: bytes) -> Callable[[BinaryIO], bool]:
        return lambda file: file.read(len(content) + 1) == content

    def after_a_demo(ours: Callable[[BinaryIO], bool]) -> Callable[[BinaryIO], bool]:
        been = all(path.is_file() and path.read_bytes() == content for path, content in contents.items())
        return lambda file: been and ours(file)

    found = {path: same_as(content) for path, content in contents.items()}
    found |= {model: after_a_demo(is_model), predictions: after_a_demo(_predictions_at(predictions).ours)}
    return [Output("--out", path, "of the demo", ours) for path, ours in found.items()]


def _friedman(n: int) -> pd.DataFrame:
    """Friedman's function of five columns with noise of variance 1, and five columns that mean nothing."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, 10)).round(4)
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    names = [*(f"x{j}" for j in range(5)), *(f"noise {j}" for j in range(5))]
    return pd.DataFrame(x, columns=names).assign(y=(y + rng.standard_normal(n)).round(3))
