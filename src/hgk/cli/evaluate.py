"""``hgk evaluate``: the scores of a model on a labelled table."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.table import Table as Listing

from hgk.cli.dialect import DETECTED, Dialect, reads_tables
from hgk.cli.labelled import labelled_rows
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
    console,
    interruptible,
    json_text,
    print_json,
    rich_cell,
    say,
    tell,
    warnings_noted,
)
from hgk.insight import Assessment
from hgk.insight import evaluate as scored
from hgk.report.page import write_evaluation
from hgk.report.web import is_page
from hgk.storage import describe, load, write_atomically

LabelsOption = Annotated[
    str | None,
    typer.Option("--target", help="The column with the labels; by default that of the fit. Several: by commas."),
]
CoverageOption = Annotated[
    float | None, typer.Option("--interval", help="The coverage at which intervals are checked; 0.9 by default.")
]
ScoresOption = Annotated[Path | None, typer.Option("--out", help="Also write the scores to this JSON file.")]
PageOption = Annotated[Path | None, typer.Option("--report", help="Also write a page with the scores and figures.")]
# What a file of scores begins with.
SCORES_BEGIN = '{"hgk": "evaluation"'


@reads_tables
def evaluate(
    model: ModelArgument,
    data: DataArgument,
    target: LabelsOption = None,
    interval: CoverageOption = None,
    out: ScoresOption = None,
    report: PageOption = None,
    device: DeviceOption = "cpu",
    dialect: Dialect = DETECTED,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    force: ForceOption = False,
) -> None:
    """Score a model on a labelled table, and compare with what its fit had promised."""
    check_device(device)
    fitted = load(model).set_params(device=device)
    _check_interval(fitted, interval)
    outputs = [] if out is None else [Output("--out", out, "a file of scores by hgk", is_scores)]
    outputs += [] if report is None else [Output("--report", report, "a page of hgk", is_page)]
    check_outputs(outputs, {"MODEL": model, "DATA": data}, force)
    targets = _targets(target, describe(model)["note"])
    rows = labelled_rows(fitted, data, targets, dialect)
    notes = rows.notes
    with interruptible("nothing was written"), warnings_noted(notes):
        told = scored(fitted, rows.X, rows.y, coverage=interval)
    document = {"hgk": "evaluation", "model": str(model), "data": data, "target": targets, **told.as_dict()}
    document["notes"] = notes
    if out is not None:
        write_atomically(out, lambda file: file.write(json_text(document).encode()))
    if report is not None:
        name = "standard input" if data == "-" else Path(data).name
        write_evaluation(told, report, f"{', '.join(targets)}: {Path(model).name} on {name}")
    if as_json:
        print_json(document)
    elif not quiet:
        tell(notes)
        show_scores(told)
        for what, path in (("scores", out), ("report", report)):
            if path is not None:
                say(f"{what} in {path}")


def is_scores(file: BinaryIO) -> bool:
    """Whether an opened file is one of scores, as ``--out`` writes it."""
    return file.read(len(SCORES_BEGIN)) == SCORES_BEGIN.encode()


def _check_interval(model: Any, interval: float | None) -> None:
    if interval is None:
        return
    if not hasattr(model, "predict_interval"):
        raise Unusable("--interval was given with a model that has no intervals; leave it out.")
    if not 0 < interval < 1:
        raise Unusable(f"--interval {interval:g} was given; a number between 0 and 1 is expected, such as 0.9.")


def _targets(given: str | None, note: dict[str, str]) -> list[str]:
    """The columns with the labels: as asked, or as the file says of the fit."""
    if given is None and "target" not in note:
        raise Unusable("The model file does not say which column it predicts; give the labels by --target.")
    if given is None:
        return [note["target"]]
    return [name.strip() for name in next(csv.reader([given], skipinitialspace=True))]


def show_scores(told: Assessment) -> None:
    """The scores as a table, the sentence on the promise, and what to know before they are trusted."""
    listing = Listing("score", "value", "± standard error", title=None)
    for m in told.measures:
        listing.add_row(*map(rich_cell, (told.words(m), f"{m.value:.4g}", "" if m.error is None else f"{m.error:.2g}")))
    console.print(listing)
    if told.confusion is not None and len(told.classes) <= 12:
        console.print(_confusion_listing(told))
    say(told.sentence)
    for remark in told.remarks:
        say(remark)


def _confusion_listing(told: Assessment) -> Listing:
    assert told.confusion is not None
    listing = Listing("class")
    for name in told.classes[: told.confusion.shape[1]]:
        listing.add_column(rich_cell(f"predicted {name}"), justify="right")
    for name, counts in zip(told.classes, told.confusion, strict=True):
        listing.add_row(*map(rich_cell, (name, *(f"{v:g}" for v in counts))))
    return listing
