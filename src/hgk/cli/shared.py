"""What the commands share: options, printing, which files may be overwritten, and which errors are expected."""

from __future__ import annotations

import csv
import json
import os
import stat
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from hgk.arrays import DEVICES, device_of
from hgk.cli.expected import EXPECTED, Unusable
from hgk.estimators import StoppedEarlyWarning
from hgk.storage import STEERING, ModelFileError, WriteError, open_regular, printable

console, errors = Console(highlight=False), Console(stderr=True, highlight=False)

DataArgument = Annotated[
    str, typer.Argument(help="CSV, Parquet, Arrow or Feather, gzipped or not; - for standard input.")
]
DeviceOption = Annotated[str, typer.Option(help=f"Where to compute: {DEVICES}.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also overwrite files that this command did not make.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs to read.")]
ModelArgument = Annotated[Path, typer.Argument(help="A model written by `hgk fit` or hgk.save.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes and no progress.")]


EXPECTED += [ModelFileError, WriteError]


def named_columns(given: Iterable[str] | None) -> list[str]:
    """Names separated by commas, each once; a name that contains a comma is quoted."""
    names = [name.strip() for text in given or () for name in next(csv.reader([text], skipinitialspace=True)) if name]
    return list(dict.fromkeys(names))


@contextmanager
def refusals() -> Iterator[None]:
    """What the library refuses is a sentence for people, too."""
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        raise Unusable(" ".join(str(error).split())) from error


@contextmanager
def warnings_noted(notes: list[str], known: Collection[str] = ()) -> Iterator[list[str]]:
    """Warnings become notes, except those on the columns ``known``, which have one already.

    Yields the warnings that a fit was stopped early.
    """
    on_known = tuple(f"Column {name!r} " for name in known)
    stopped: list[str] = []
    with warnings.catch_warnings(record=True) as caught, refusals():
        warnings.simplefilter("always")
        yield stopped
    for warning in caught:
        text = str(warning.message)
        notes += [] if text.startswith(on_known) else [text]
        stopped += [text] if issubclass(warning.category, StoppedEarlyWarning) else []


@contextmanager
def interruptible(state: str) -> Iterator[None]:
    """Ctrl-C ends the command; ``state`` says what has been written by then."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"hgk: stopped; {state}.", errors)
        raise typer.Exit(130) from None


def check_device(name: str) -> str:
    """The device of this name; say before any work that it is not available."""
    try:
        return str(device_of(name))
    except ValueError as error:
        raise Unusable(f"--{str(error).partition(' (set_params')[0].rstrip('.')}.") from error


# -------------------------------------------------------------------------------------------------------- printing
# Names of files and columns, classes, notes and versions come from others: they must not control the terminal, nor be
# taken for Rich's markup.


def say(text: str, to: Console | None = None) -> None:
    """Print a line without breaking it."""
    (to or console).print(printable(text), markup=False, emoji=False, soft_wrap=True)


def tell(notes: Iterable[str]) -> None:
    """Print notes to standard error, each once."""
    for note in dict.fromkeys(notes):
        say(f"note: {note}", errors)


def rich_cell(text: object) -> Text:
    """A cell of one of Rich's tables."""
    return Text(printable(text))


def print_json(document: Any) -> None:
    """Print JSON, with null for NaN and infinity, and with control characters escaped."""
    typer.echo(json_text(document))


def json_text(document: Any) -> str:
    text = json.dumps(_plain(document), ensure_ascii=False)
    return STEERING.sub(lambda c: f"\\u{ord(c[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


# --------------------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Output:
    """A file that a command is going to write.

    ``ours`` tells whether an opened file is of the kind that the command writes, ``kind`` is the name of that kind, and
    ``by_force`` says what --force does to any other file.
    """

    option: str
    path: Path
    kind: str
    ours: Callable[[BinaryIO], bool]
    by_force: str = "replace it"


def check_outputs(outputs: Sequence[Output], inputs: Mapping[str, str | Path | None], force: bool) -> None:
    """Refuse, before any work, to overwrite an input or another output; without ``force``, also any file that the
    command did not make."""
    taken = {name: Path(path) for name, path in inputs.items() if path is not None and str(path) != "-"}
    for output in outputs:
        _check_place(output.path)
        for name, path in taken.items():
            if _same(path, output.path):
                raise Unusable(
                    f"{output.option} {output.path} is also {name}, which it would overwrite; give another file."
                )
        taken.setdefault(output.option, output.path)
        if not force and _is_somebodys(output):
            raise Unusable(
                f"{output.option} {output.path} exists and is not {output.kind}; give another name, or --force to "
                f"{output.by_force}."
            )


def _check_place(path: Path) -> None:
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Unusable(f"{path} cannot be written; give a file in a folder that exists and may be written to.")


def _same(one: Path, other: Path) -> bool:
    """Whether both are the same file, possibly through a link or another path."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)


def _is_somebodys(output: Output) -> bool:
    """Whether something would be lost; an empty file, a pipe or /dev/null loses nothing."""
    try:
        mode = output.path.stat().st_mode
        if not stat.S_ISREG(mode):
            return stat.S_ISBLK(mode)
        with open_regular(output.path) as file:
            return os.fstat(file.fileno()).st_size > 0 and not output.ours(file)
    except FileNotFoundError:
        return False
    except Exception:  # it cannot be read, or is not what its name says; readers have many errors
        return True
