"""How a table is written, as the user says it: one set of options for every command that reads tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer


@dataclass(frozen=True)
class Dialect:
    """What was said of a table; None is detected."""

    delimiter: Annotated[
        str | None, typer.Option(help="Delimiter of a CSV, one character or tab; detected if not given.")
    ] = None
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of a CSV, . or , ; detected if not given.")] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a CSV or JSON, such as latin-1 or cp1252; UTF-8 or UTF-16 if not given."),
    ] = None
    comment: Annotated[str | None, typer.Option(help="Leave out lines of a CSV that begin with this, such as '#'.")] = (
        None
    )
    dates: Annotated[str | None, typer.Option(help="dmy or mdy: what 01/02/2024 means, where no column decides.")] = (
        None
    )


DETECTED = Dialect()


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter ``dialect`` is given by options, one for each field of :class:`Dialect`."""
    options, given = get_type_hints(Dialect, include_extras=True), inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in given.parameters.values():
        if parameter.name != "dialect":
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        parameters += [
            inspect.Parameter(f.name, parameter.kind, default=f.default, annotation=options[f.name])
            for f in fields(Dialect)
        ]

    @functools.wraps(command)
    def called(*positional: Any, **named: Any) -> None:
        said = {name: named.pop(name) for name in options if name in named}
        command(*positional, **named, **({"dialect": Dialect(**said)} if said else {}))

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called
