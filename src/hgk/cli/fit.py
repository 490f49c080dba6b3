"""``hgk fit``: from a table to a model file."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from hgk.cli import tables
from hgk.cli.dialect import DETECTED, Dialect, reads_tables
from hgk.cli.evaluate import show_scores
from hgk.cli.info import error_line, matter_line
from hgk.cli.labelled import LabelledRows, labelled_rows
from hgk.cli.progress import watched
from hgk.cli.shared import (
    DataArgument,
    DeviceOption,
    ForceOption,
    JsonOption,
    Output,
    QuietOption,
    Unusable,
    check_device,
    check_outputs,
    errors,
    interruptible,
    named_columns,
    print_json,
    refusals,
    say,
    tell,
    warnings_noted,
)
from hgk.estimators import HGKClassifier, HGKEstimator, HGKQuantileRegressor, HGKRegressor
from hgk.insight import Assessment, evaluate, plain_remark, verdict
from hgk.learners import PRESETS
from hgk.report.web import is_page
from hgk.storage import is_model, save


class TaskName(StrEnum):
    auto = "auto"
    regression = "regression"
    classification = "classification"


PresetName = StrEnum("PresetName", list(PRESETS))  # type: ignore[misc]

TargetOption = Annotated[str, typer.Option("--target", help="The column to predict.")]
ModelOption = Annotated[Path, typer.Option(help="The model file to write, such as model.hgk.")]
TaskOption = Annotated[TaskName, typer.Option("--task", help="auto decides by the target's type and number of values.")]
GroupsOption = Annotated[
    list[str] | None,
    typer.Option("--group", help="A node of your own: demographics=age,sex; may be given several times."),
]
DropOption = Annotated[list[str] | None, typer.Option(help="Columns to leave out, separated by commas.")]
PresetOption = Annotated[PresetName, typer.Option("--preset", help="What is learned, and how.")]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss",
        help="least_squares; for classes also logistic, hinge, squared_hinge, and auto, by default; for numbers also "
        "pinball, expectile, ….",
    ),
]
TauOption = Annotated[float, typer.Option(help="Level of pinball and expectile.")]
QuantilesOption = Annotated[str | None, typer.Option(help="Predict quantiles: 0.05,0.5,0.95.")]
TimeBudgetOption = Annotated[str | None, typer.Option(help="About how long the fit may take: 90, 90s, 2m, 1h30m.")]
SeedOption = Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")]
CompactOption = Annotated[bool, typer.Option("--compact", help="Leave out what predictions do not need.")]
TestOption = Annotated[
    str | None, typer.Option("--test", help="A labelled table to score the model on after the fit, and in the report.")
]
ReportOption = Annotated[Path | None, typer.Option(help="Also write a page that explains the model.")]


@reads_tables
def fit(
    data: DataArgument,
    target: TargetOption,
    out: ModelOption,
    task: TaskOption = TaskName.auto,
    group: GroupsOption = None,
    drop: DropOption = None,
    preset: PresetOption = PresetName.default,  # type: ignore[attr-defined]
    loss: LossOption = None,
    tau: TauOption = 0.5,
    quantiles: QuantilesOption = None,
    time_budget: TimeBudgetOption = None,
    device: DeviceOption = "cpu",
    seed: SeedOption = 0,
    compact: CompactOption = False,
    report: ReportOption = None,
    test: TestOption = None,
    dialect: Dialect = DETECTED,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    force: ForceOption = False,
) -> None:
    """Fit a model to a table and write it to a file. Ctrl-C stops early and writes the best model so far."""
    check_device(device)
    seconds = None if time_budget is None else duration(time_budget)
    write_page = _page_writer(report, f"{target}, from {'standard input' if data == '-' else Path(data).name}")
    _check_files(data, out, report, force, test)
    rows = labelled(tables.read_table(data, **vars(dialect)), target, task, drop)
    model = _estimator(str(preset), rows.labels.classes, loss, tau, quantiles)
    model.set_params(groups=_groups(group, rows.X), time_budget=seconds, device=device, random_state=seed)
    outcome = _learn(model, rows, seconds, silent=quiet or as_json)
    _save(model, out, target, compact, force)
    said = {"model": str(out), "report": None if report is None else str(report), "target": target}
    said |= _results(model, rows, outcome, out)
    tested = None if test is None else _tested(model, test, target, dialect, out)
    with interruptible(f"{out} is written, the report is not"), refusals():
        write_page(model, tested)
    if as_json:
        print_json(said if tested is None else said | {"test": tested.as_dict()})
    elif not quiet:
        _show(said, outcome, tested)


# ------------------------------------------------------------------------------------------- what is to be fitted


@dataclass(frozen=True)
class Labelled:
    """The rows of a table that have a label, and notes on how they were read."""

    table: tables.Table
    X: pd.DataFrame
    labels: tables.Labels
    notes: list[str]


def labelled(table: tables.Table, target: str, task: str, drop: Sequence[str] | None) -> Labelled:
    """The columns to predict from, and the labels to predict."""
    tables.column(table.frame, target, "The target")
    table.check([target])
    labels = tables.target_of(table.frame[target], task)
    X = table.frame.drop(columns=[target, *_columns(drop, table.frame, "--drop")])
    X = X[labels.present].reset_index(drop=True)
    if not X.shape[1]:
        raise Unusable(f"The table has no column besides the target {target!r}; give at least one to predict from.")
    table.check(X.columns)
    notes = table.notes_on([*X.columns, *([target] if target in table.marks else [])])
    if not labels.present.all():
        notes.append(f"{int((~labels.present).sum())} rows without a value of {target!r} were left out.")
    return Labelled(table, X, labels, notes)


def duration(text: str) -> float:
    """Seconds from 90, 90s, 2m, 1h30m, 1.5h.

    Examples
    --------
    >>> from hgk.cli.fit import duration
    >>> duration("2m"), duration("1h30m"), duration("90")
    (120.0, 5400.0, 90.0)
    """
    parts = re.fullmatch(r"\s*(?:([\d.]+)\s*h)?\s*(?:([\d.]+)\s*m(?:in)?)?\s*(?:([\d.]+)\s*s?)?\s*", text)
    seconds = 0.0
    with suppress(ValueError):  # such as 1.2.3
        amounts = parts.groups(default="0") if parts else ()
        seconds = sum(unit * float(amount) for unit, amount in zip((3600.0, 60.0, 1.0), amounts, strict=False))
    if not 0 < seconds < float("inf"):
        raise Unusable(f"--time-budget {text!r} was given; a time such as 90s, 2m or 1h30m is expected.")
    return seconds


def _groups(given: Sequence[str] | None, X: pd.DataFrame) -> dict[str, list[str]] | None:
    groups: dict[str, list[str]] = {}
    for text in given or ():
        name, _, columns = (part.strip() for part in text.partition("="))
        if not (name and columns):
            raise Unusable(f"--group {text!r} was given; a name and columns are expected, such as size=width,height.")
        if name in groups:
            raise Unusable(f"--group names {name!r} twice; put its columns into one option.")
        groups[name] = _columns([columns], X, f"--group {name}")
    return groups or None


def _columns(given: Sequence[str] | None, frame: pd.DataFrame, what: str) -> list[str]:
    """Names separated by commas; a name that contains one is quoted."""
    return [tables.column(frame, name, f"{what}:") for name in named_columns(given)]


def _check_files(data: str, out: Path, report: Path | None, force: bool, test: str | None = None) -> None:
    outputs = [Output("--out", out, "a model file of hgk", is_model)]
    outputs += [] if report is None else [Output("--report", report, "a page of hgk", is_page)]
    check_outputs(outputs, {"DATA": data, "--test": test}, force)
    if test == "-" and data == "-":
        raise Unusable("Both DATA and --test are standard input; give a file for one of them.")
    if test not in (None, "-") and not Path(str(test)).exists():
        raise Unusable(f"--test {test} is not there; give a table with the same columns and labels.")


def _page_writer(path: Path | None, title: str) -> Callable[[HGKEstimator, Tested | None], Any]:
    """What writes the report, if there shall be one; say before the fit that a package is missing."""
    if path is None:
        return lambda model, tested: None
    try:
        write_report = importlib.import_module("hgk.report.page").write_report
    except ModuleNotFoundError as error:
        raise Unusable(f"--report needs {error.name}; pip install the package, or leave --report out.") from error
    return lambda model, tested: write_report(model, path, *(tested.rows.known if tested else ()), title=title)


def _estimator(preset: str, classes: bool, loss: str | None, tau: float, quantiles: str | None) -> HGKEstimator:
    loss = loss or ("auto" if classes else "least_squares")
    if quantiles is None:
        return HGKClassifier(preset, loss=loss) if classes else HGKRegressor(preset, loss=loss, tau=tau)
    if classes or loss not in ("least_squares", "pinball"):
        what = "a target of classes" if classes else f"--loss {loss}"
        raise Unusable(
            f"--quantiles was given with {what}; quantiles are of numbers, by the pinball loss, so leave one out."
        )
    try:
        levels = [float(part) for part in quantiles.split(",")]
    except ValueError:
        raise Unusable(f"--quantiles {quantiles!r} was given; levels such as 0.05,0.5,0.95 are expected.") from None
    return HGKQuantileRegressor(preset, quantiles=levels)


# --------------------------------------------------------------------------------------------- the fit and its results


@dataclass(frozen=True)
class Outcome:
    """How a fit went: how long it took, whether it was stopped early, and notes on it."""

    seconds: float
    stopped_early: bool
    notes: list[str]


def _learn(model: HGKEstimator, rows: Labelled, seconds: float | None, silent: bool) -> Outcome:
    if not silent:
        say(f"{rows.labels.reason}: {len(rows.X)} rows, {rows.X.shape[1]} columns", errors)
        tell(rows.notes)
    notes: list[str] = []
    begun = time.monotonic()
    with (
        interruptible("nothing was written"),
        watched(model, seconds, silent),
        warnings_noted(notes, rows.table.of_columns) as stopped,
    ):
        model.written_as(rows.table.marks).fit(rows.X, rows.labels.y)
    return Outcome(time.monotonic() - begun, bool(stopped), notes)


@dataclass(frozen=True)
class Tested:
    """Rows of --test, and the scores on them."""

    rows: LabelledRows
    told: Assessment

    def as_dict(self) -> dict[str, Any]:
        return self.told.as_dict() | {"notes": self.rows.notes}


def _tested(model: HGKEstimator, test: str, target: str, dialect: Dialect, out: Path) -> Tested:
    with interruptible(f"{out} is written, the test rows are not scored"):
        rows = labelled_rows(model, test, [target], dialect)
        with warnings_noted(rows.notes):
            return Tested(rows, evaluate(model, rows.X, rows.y))


def _save(model: HGKEstimator, out: Path, target: str, compact: bool, force: bool) -> None:
    task = TaskName.classification if model.model_.target.classes else TaskName.regression
    with suppress(KeyboardInterrupt, MemoryError):  # the file keeps the importance of columns, where it is known
        _ = model.importance_
    with interruptible("the model was not written"):
        save(model, out, compact=compact, note={"target": target, "task": str(task)}, force=force)


def _results(model: HGKEstimator, rows: Labelled, outcome: Outcome, out: Path) -> dict[str, Any]:
    with interruptible(f"{out} is written, its error not estimated"):
        error, leave_one_out = verdict(model), _leave_one_out(model, rows.labels.y)
    return {
        "task": type(model).__name__,
        "decision": rows.labels.reason,
        "rows": len(rows.X),
        "columns": rows.X.shape[1],
        "seconds": outcome.seconds,
        "stopped_early": outcome.stopped_early,
        "error": error,
        "leave_one_out": leave_one_out,
        "importance": None if (found := model.model_.importance) is None else found.told,
        "plain": plain_remark(model),
        "notes": [*rows.notes, *outcome.notes],
        "classes": rows.labels.classes,
        "outputs": len(model.model_.target.columns),
    }


def _leave_one_out(model: HGKEstimator, y: np.ndarray) -> dict[str, float]:
    """The errors of leave-one-out predictions, where these do not come from folds."""
    if model.machine_.held_out is not None:
        return {}
    loo, target = model.loo_predictions_, model.model_.target
    if target.classes:
        return {"accuracy": float(np.mean(target.labels(loo.reshape(len(y), -1)) == y))}
    with np.errstate(over="ignore", invalid="ignore"):  # squares of the largest floats
        error, variance = float(np.mean((loo - y) ** 2)), float(np.var(y))
    return {"rmse": error**0.5, "r2": 1 - error / variance if variance else 0.0}


LEAVE_ONE_OUT = {"rmse": "RMSE", "r2": "R²", "accuracy": "accuracy"}


def _show(said: dict[str, Any], outcome: Outcome, tested: Tested | None) -> None:
    tell(outcome.notes)
    if said["error"] is not None:
        say(error_line(said["error"], said["classes"], said["outputs"]))
    if said["leave_one_out"]:
        loo = ", ".join(f"{LEAVE_ONE_OUT[name]} {value:.4g}" for name, value in said["leave_one_out"].items())
        say(f"leave-one-out, by a kernel and λ that have seen the row: {loo}")
    say(f"fitted in {said['seconds']:.1f} s")
    if said["importance"] is not None:
        say(f"columns that matter most: {matter_line(said['importance'])}")
    if said["plain"]:
        say(said["plain"])
    say(f"model in {said['model']}")
    if said["report"]:
        say(f"report in {said['report']}")
    if tested is not None:
        tell(tested.rows.notes)
        show_scores(tested.told)
