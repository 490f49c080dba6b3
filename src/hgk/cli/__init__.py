"""The command line: parses, calls, prints.

    hgk fit | predict | explain | info | demo
    hgk bench list | run | table | figures | page

Results go to standard output; notes, progress and errors to standard error. Exit codes: 0 success; 1 some runs of a
benchmark failed; 2 the request cannot be carried out, for a reason told in one sentence; 130 Ctrl-C. ``--debug`` shows
tracebacks.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from hgk import __version__
from hgk.cli import demo, explain, fit, info, predict, tables
from hgk.cli.shared import EXPECTED, Unusable
from hgk.storage import printable

EXPECTED.append(tables.TableError)


class Lazy(TyperGroup):
    """Imports ``hgk bench``, and what it needs, only where it is asked for."""

    def list_commands(self, ctx):
        return [*super().list_commands(ctx), "bench"]

    def get_command(self, ctx, cmd_name):
        return _bench() if cmd_name == "bench" else super().get_command(ctx, cmd_name)


def _bench():
    try:
        app = importlib.import_module("hgk.cli.bench").app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "hgk":
            raise
        app = _without(str(error.name))
    command = get_command(app)
    command.name = "bench"
    return command


def _without(package: str) -> typer.Typer:
    """A command that says what it needs."""
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app = typer.Typer(help=f"The paper's experiments; needs {package}.", context_settings=settings)

    @app.command(context_settings=settings)
    def bench() -> None:
        raise Unusable(f"hgk bench needs the package {package}; pip install 'hgk[bench]'.")

    return app


app = typer.Typer(cls=Lazy, no_args_is_help=True, pretty_exceptions_enable=False)
for command in (fit.fit, predict.predict, explain.explain, info.info, demo.demo):
    app.command()(command)


def _version(asked: bool) -> None:
    """Print it at once: no command is needed."""
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Kernel machines with learned hierarchical Gaussian kernels."""
    os.environ["HGK_DEBUG"] = "1" if debug else os.environ.get("HGK_DEBUG", "")


def run() -> None:
    """The entry point: an expected error ends in one sentence."""
    try:
        code = app(prog_name="hgk", standalone_mode=False)
    except typer.Abort:
        sys.stderr.write("hgk: stopped.\n")
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output has stopped reading
        _forget_output()
        sys.exit(1)
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's own; the help, where no command was given
            sys.stderr.write(f"{printable(_usage(error), keep=chr(10))}\n")
            sys.exit(2)
        if os.environ.get("HGK_DEBUG"):
            raise
        sys.stderr.write(f"hgk: {printable(_sentence(error))}\n")
        _forget_output()
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> str:
    said, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return said or (context.get_help() if context else "")
    path = context.command_path if context is not None else "hgk"
    return f"hgk: {' '.join(said.split()).replace('. D', ', d').rstrip('.?')}; `{path} --help` shows what can be given."


def _sentence(error: Exception) -> str:
    said = " ".join(str(error).split())
    if isinstance(error, tuple(EXPECTED)):
        return said
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'} cannot be used ({error.strerror or said}); check it and its rights."
    return f"An unexpected error occurred ({type(error).__name__}: {said}); `hgk --debug …` shows where."


def _forget_output() -> None:
    """Do not try again at exit to write what a full disk refused: that would print a second message."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
