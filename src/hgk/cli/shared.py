"""What all commands use: how to print, what may be written over, and what is expected to go wrong."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console
from rich.text import Text

from hgk.arrays import device_of
from hgk.storage import ModelFileError
from hgk.storage.files import open_regular, printable

console, errors = Console(highlight=False), Console(stderr=True, highlight=False)

Force = Annotated[bool, typer.Option("--force", help="Also write over files that this command did not make.")]


class Unusable(Exception):
    """What was asked for cannot be done; the message is one sentence."""


# Errors whose message is a sentence for people; commands add theirs.
EXPECTED: list[type[Exception]] = [Unusable, ModelFileError, MemoryError]


def check_device(name: str) -> str:
    """The device of this name; one that is not there is told before any work."""
    try:
        return str(device_of(name))
    except ValueError as error:
        raise Unusable(f"--{str(error).partition(' (set_params')[0].rstrip('.')}.") from error


# -------------------------------------------------------------------------------------------------------- printing
# Names of files and columns, classes, notes and versions are other people's: they neither steer the terminal nor are
# they markup of Rich.


def say(text: str, to: Console = console) -> None:
    """A line, not broken by us."""
    to.print(printable(text), markup=False, emoji=False, soft_wrap=True)


def cell(text: object) -> Text:
    """What may stand in a table of Rich."""
    return Text(printable(text))


# --------------------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Output:
    """A file that a command is going to write.

    ``ours`` says whether an opened file is of the kind that the command writes there, ``kind`` what that is called,
    ``by_force`` what is done to other files if that is wanted.
    """

    option: str
    path: Path
    kind: str
    ours: Callable[[BinaryIO], bool]
    by_force: str = "replace it"


def check_outputs(outputs: Sequence[Output], inputs: Mapping[str, str | Path | None], force: bool) -> None:
    """Say before the work what must not be written: over an input or another output, ever; without ``force``, over a
    file that the command did not make."""
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
    """Also by another name: a link of either kind, or another way to the folder."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)


def _is_somebodys(output: Output) -> bool:
    """Whether something would be lost: not with an empty file, a pipe or /dev/null."""
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
