"""``hgk compare``: hgk compared with other methods on a table, by the same folds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import typer
from rich.table import Table as Listing

from hgk.cli import tables
from hgk.cli.dialect import DETECTED, Dialect, reads_tables
from hgk.cli.fit import DropOption, SeedOption, TargetOption, TaskName, TaskOption, duration, labelled
from hgk.cli.shared import (
    DataArgument,
    DeviceOption,
    ForceOption,
    JsonOption,
    Output,
    QuietOption,
    check_device,
    check_outputs,
    console,
    errors,
    interruptible,
    json_text,
    named_columns,
    print_json,
    refusals,
    rich_cell,
    say,
    tell,
)
from hgk.insight.comparison import Comparison, MethodScores, method_names
from hgk.insight.comparison import compare as compared
from hgk.report.comparison import write_comparison
from hgk.report.web import is_page
from hgk.storage import write_atomically

FoldsOption = Annotated[int, typer.Option("--folds", min=2, help="Folds, the same for all methods.")]
MetricOption = Annotated[
    str | None,
    typer.Option("--metric", help="rmse (default), mae, r2 of numbers; log_loss (default), accuracy, auc of classes."),
]
MethodsOption = Annotated[
    list[str] | None,
    typer.Option("--methods", help=f"Some of {', '.join(method_names())}, by commas; by default all installed ones."),
]
BudgetOption = Annotated[
    str | None,
    typer.Option("--time-budget", help="About how long all of it may take: 90s, 10m; hgk gets what is left."),
]
ComparisonOption = Annotated[Path | None, typer.Option("--report", help="Also write a page with a table and a figure.")]
ResultsOption = Annotated[Path | None, typer.Option("--out", help="Also write the scores to this JSON file.")]
# What a file of comparisons begins with.
COMPARISON_BEGINS = '{"hgk": "comparison"'


@reads_tables
def compare(
    data: DataArgument,
    target: TargetOption,
    task: TaskOption = TaskName.auto,
    drop: DropOption = None,
    methods: MethodsOption = None,
    folds: FoldsOption = 5,
    metric: MetricOption = None,
    time_budget: BudgetOption = None,
    report: ComparisonOption = None,
    out: ResultsOption = None,
    device: DeviceOption = "cpu",
    seed: SeedOption = 0,
    dialect: Dialect = DETECTED,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    force: ForceOption = False,
) -> None:
    """Cross-validate hgk, a plain SVM, a random forest and boosting, all on the same folds."""
    check_device(device)
    seconds = None if time_budget is None else duration(time_budget)
    outputs = [] if out is None else [Output("--out", out, "a comparison by hgk", is_comparison)]
    outputs += [] if report is None else [Output("--report", report, "a page of hgk", is_page)]
    check_outputs(outputs, {"DATA": data}, force)
    rows = labelled(tables.read_table(data, **vars(dialect)), target, task, drop)
    silent, kind = quiet or as_json, "classification" if rows.labels.classes else "regression"
    if not silent:
        say(f"{rows.labels.reason}: {len(rows.X)} rows, {rows.X.shape[1]} columns", errors)
        tell(rows.notes)
    options: dict[str, Any] = {"task": kind, "folds": folds, "metric": metric, "time_budget": seconds, "device": device}
    with interruptible("nothing was written"), refusals(), _watched(folds, silent) as callback:
        chosen = named_columns(methods) or None
        X = tables.with_dates(rows.X, rows.table.marks)
        told = compared(X, rows.labels.y, chosen, random_state=seed, callback=callback, **options)
    document = {"hgk": "comparison", "data": data, "target": target, **told.as_dict(), "notes": rows.notes}
    _write(told, document, out, report)
    if as_json:
        print_json(document)
    elif not quiet:
        _show(told, {"scores": out, "report": report})


def _write(told: Comparison, document: dict[str, Any], out: Path | None, report: Path | None) -> None:
    if out is not None:
        write_atomically(out, lambda file: file.write(json_text(document).encode()))
    if report is not None:
        data = document["data"]
        write_comparison(
            told, report, f"{document['target']}, from {'standard input' if data == '-' else Path(data).name}"
        )


def is_comparison(file: BinaryIO) -> bool:
    """Whether an opened file is a comparison, as ``--out`` writes it."""
    return file.read(len(COMPARISON_BEGINS)) == COMPARISON_BEGINS.encode()


@contextmanager
def _watched(folds: int, silent: bool) -> Iterator[Any]:
    """Say which method is at work, where somebody watches."""
    if silent or not errors.is_terminal:
        yield None
        return
    with errors.status("comparing") as status:
        yield lambda name, fold: status.update(f"{name}: fold {fold + 1} of {folds}")


def _show(told: Comparison, written: dict[str, Path | None]) -> None:
    listing = Listing("method", told.metric_words, "± standard error", "seconds a fold")
    for r in told.results:
        listing.add_row(*map(rich_cell, (r.name, *_cells(r))))
    console.print(listing)
    say(told.sentence)
    tell(told.remarks)
    for what, path in written.items():
        if path is not None:
            say(f"{what} in {path}")


def _cells(r: MethodScores) -> tuple[str, ...]:
    if r.failed:
        return "failed", "", ""
    return f"{r.mean:.4g}", f"{r.standard_error:.2g}", f"{np.mean(r.seconds):.3g}"
