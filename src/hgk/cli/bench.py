"""``hgk bench``: the paper's experiments."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hgk.arrays import DEVICES
from hgk.bench import datasets, protocol, runner, store
from hgk.bench.methods import METHODS, Effort
from hgk.cli.shared import (
    EXPECTED,
    ForceOption,
    Output,
    Unusable,
    check_device,
    check_outputs,
    console,
    errors,
    rich_cell,
    say,
)
from hgk.report.web import is_page
from hgk.storage import printable

app = bench = typer.Typer(no_args_is_help=True, help="The paper's experiments: run, resume, tabulate.")
EXPECTED.extend([datasets.DataError, runner.RunnerError, store.StoreError])


class BenchSize(StrEnum):
    quick = "quick"
    paper = "paper"


# ------------------------------------------------------------------------------------------------------------- run

NamesOption = Annotated[list[str] | None, typer.Option(help="Names, separated by commas; all if not given.")]


@bench.command("run")
def bench_run(
    sets: NamesOption = None,
    methods: NamesOption = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Random splits: 30, or 2 with quick.")] = None,
    out: Annotated[Path, typer.Option(help="The store; runs that it has are not repeated.")] = Path("rows.jsonl"),
    data: Annotated[Path | None, typer.Option(help="Folder of <name>.parquet; or HGK_DATA_HOME.")] = None,
    file: Annotated[Path | None, typer.Option(help="A table of your own, .parquet or .csv.")] = None,
    target: Annotated[str | None, typer.Option(help="The column of --file to predict.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time on this machine.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Per run: cores / jobs; 1 on a cluster.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A Dask cluster: tcp://host:8786.")] = None,
    device: Annotated[str, typer.Option(help=f"Of methods that can use one: {DEVICES}.")] = "cpu",
    preset: Annotated[
        BenchSize, typer.Option(help="quick: two built-in sets, small sizes, minutes.")
    ] = BenchSize.paper,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Repeat failed runs.")] = False,
    force: ForceOption = False,
) -> None:
    """Run what the store does not have yet: sets × splits × methods."""
    quick = preset is BenchSize.quick
    if out.parent.is_dir() and not out.is_dir():  # else the store says what is wrong
        rows_at = Output("--out", out, "a store of hgk", store.is_store, by_force="add rows to it")
        lock = Output("--out", Path(f"{out}.lock"), "the lock of a store", lambda file: False)
        check_outputs([rows_at, lock], {"--file": file}, force)
    sources = _sources(sets, data, file, target, quick)
    names = _methods(methods)
    if scheduler is None:  # workers elsewhere have devices of their own
        device = check_device(device)
    threads = threads or (1 if scheduler else max(1, _cores() // jobs))
    effort = Effort(threads, device, quick)
    runs = runner.plan(sources, names, range(splits or (2 if quick else 30)), effort)
    rows = store.Store(out)
    _tell_damages(out, rows.damages())
    workers = runner.Cluster(scheduler) if scheduler else runner.Processes(jobs, threads)
    try:
        summary = _watched(runs, rows, workers, retry_failed)
    except KeyboardInterrupt:
        console.print("stopped; the same command resumes where this one left off")
        raise typer.Exit(130) from None
    _finish(summary, runs, rows)


def _sources(sets, data, file, target, quick) -> list[runner.Source]:
    if (file is None) != (target is None):
        raise Unusable("Only one of --file and --target was given; a table of your own needs both.")
    home = None if data is None else str(data.absolute())
    if data is not None and not data.is_dir():
        raise Unusable(f"The data folder {data} does not exist; give the folder that holds <name>.parquet.")
    given = []
    if file is not None:
        name = datasets.from_file(file, target).name  # says now what is wrong with it
        given = [runner.Source(name, file=str(file.absolute()), target=target)]
    default = [] if given else datasets.QUICK_SETS if quick else list(datasets.SPECS)
    return [*given, *(runner.Source(name, home) for name in _chosen(sets, datasets.known(), "data set") or default)]


def _methods(given: Sequence[str] | None) -> list[str]:
    chosen = _chosen(given, list(METHODS), "method")
    for name in chosen:
        if METHODS[name].missing():
            raise Unusable(
                f"The method {name} needs {' and '.join(METHODS[name].missing())}, which is not installed; "
                "pip install 'hgk[peers]', or leave it out."
            )
    return chosen or [name for name, method in METHODS.items() if not method.missing()]


def _chosen(given: Sequence[str] | None, known: Sequence[str], what: str) -> list[str]:
    """Names from one or several lists with commas; upper and lower case are the same."""
    by_lower = {name.lower(): name for name in known}
    chosen = [part.strip() for text in given or () for part in text.split(",") if part.strip()]
    for name in chosen:
        if name.lower() not in by_lower:
            raise Unusable(f"The {what} {name!r} is unknown; the known ones are {', '.join(known)}.")
    return list(dict.fromkeys(by_lower[name.lower()] for name in chosen))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _watched(runs, rows: store.Store, workers: runner.Workers, retry_failed: bool) -> runner.RunCounts:
    """All runs, under a bar that estimates the time left by what each method took so far."""
    left = len(runner.missing_runs(runs, rows, retry_failed))
    with _bar() as bar:
        task = bar.add_task("runs", total=len(runs), completed=len(runs) - left, eta="?", said="")

        def report(row: store.Row, left: list[runner.Run]) -> None:
            seconds = runner.seconds_left(left, rows.rows(), workers.width)
            eta = "?" if seconds is None else str(timedelta(seconds=round(seconds)))
            bar.update(task, completed=len(runs) - len(left), eta=eta)
            say(_line(row), bar.console)

        return runner.run_all(runs, rows, workers, retry_failed, report)


def _bar() -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("about {task.fields[eta]} left"))
    return Progress(TextColumn("{task.description}"), *columns, console=console)


def _line(row: store.Row) -> str:
    what = f"{row['mse']:.5f} in {row['seconds']:.1f} s" if row["status"] == "ok" else f"failed: {row['reason']}"
    return f"{row['set']}, split {row['split']}, {row['method']}: {what}"


def _finish(summary: runner.RunCounts, runs, rows: store.Store) -> None:
    """Say what was done; failures in the store that were not tried again count, too."""
    earlier = len(runner.missing_runs(runs, rows, retry_failed=True)) - summary.failed - summary.elsewhere
    say(f"{summary.ok} runs done, {summary.failed} failed, rows in {rows.path}")
    if summary.elsewhere:
        console.print(f"{summary.elsewhere} runs are under way in another runner")
    if earlier > 0:
        console.print(f"{earlier} runs failed earlier and were not repeated; --retry-failed repeats them")
    if summary.failed or earlier > 0:
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------ list and results


@bench.command("list")
def bench_list(
    data: Annotated[Path | None, typer.Option(help="Folder of <name>.parquet; or HGK_DATA_HOME.")] = None,
) -> None:
    """The data sets and where they are, the methods and what they lack."""
    sets = Table("set", "rows", "columns", "type", "training", "where", title="Data sets")
    for name, spec in datasets.SPECS.items():
        path = datasets.present(name, data)
        there = str(path) if path else f"OpenML {spec.openml}" if spec.openml else "not here"
        training = str(protocol.training_rows(name, spec.rows))
        sets.add_row(name, str(spec.rows), str(spec.columns), spec.kind, training, rich_cell(there))
    for name, (_, task) in datasets.EMBEDDED.items():
        sets.add_row(name, "", "", task, "", "built in")
    methods = Table("method", "what", "installed", title="Methods")
    for name, method in METHODS.items():
        lacking = method.missing()
        methods.add_row(name, method.label, f"no: {', '.join(lacking)}" if lacking else "yes")
    console.print(sets, methods)


StoreArgument = Annotated[Path, typer.Argument(help="The store that `hgk bench run` wrote.")]


@bench.command("table")
def bench_table(
    rows: StoreArgument, latex: Annotated[bool, typer.Option("--latex", help="LaTeX, not Markdown.")] = False
) -> None:
    """Print the table of mean errors."""
    results = _results(rows)
    tables = importlib.import_module("hgk.bench.tables")
    typer.echo(printable(tables.table_latex(results) if latex else tables.table_markdown(results), keep="\n"))


@bench.command("figures")
def bench_figures(
    rows: StoreArgument,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("figures"),
    force: ForceOption = False,
) -> None:
    """Draw the paper's figures."""
    results = _results(rows)
    figures = importlib.import_module("hgk.bench.figures")
    if out.is_dir():
        places = [Output("--out", path, "a figure of hgk", figures.is_figure) for path in figures.places(results, out)]
        check_outputs(places, {"ROWS": rows}, force)
    figures.write_figures(results, out)
    say(f"figures in {out}")


@bench.command("page")
def bench_page(
    rows: StoreArgument,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("results.html"),
    force: ForceOption = False,
) -> None:
    """Write one page with tables and figures."""
    results = _results(rows)
    if out.exists():
        check_outputs([Output("--out", out, "a page of hgk", is_page)], {"ROWS": rows}, force)
    importlib.import_module("hgk.bench.page").write_page(results, out)
    say(f"page in {out}")


def _results(path: Path) -> list[store.Row]:
    if not path.is_file():
        raise Unusable(f"There is no store at {path}; write one with `hgk bench run --out {path}`.")
    rows, damages = store.read(path)
    _tell_damages(path, damages)
    if not rows:
        raise Unusable(f"The store {path} has no rows yet; fill it with `hgk bench run --out {path}`.")
    if len({row.get("preset", "paper") for row in rows}) > 1:
        raise Unusable(
            f"The store {path} mixes rows of the presets quick and paper, whose errors cannot be compared; use one "
            "store for each."
        )
    return rows


def _tell_damages(path: Path, damages: Sequence[store.Damage]) -> None:
    for damage in damages:
        say(f"{path}: {damage}", errors)
