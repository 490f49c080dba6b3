"""The command line: parses, calls, prints.

    hgk fit | predict | evaluate | compare | explain | info | compress | demo
    hgk bench list | run | table | figures | page

Results go to standard output; notes, progress and errors to standard error. Exit codes: 0 success; 1 some runs of a
benchmark failed; 2 the request cannot be carried out, for a reason told in one sentence; 130 Ctrl-C. ``--debug`` shows
tracebacks.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from hgk import __version__
from hgk.cli.expected import EXPECTED, Unusable
from hgk.imports import imported
from hgk.texts import printable

# What the help says of each command; its module is imported when it is called.
COMMANDS = {
    "fit": "Fit a model to a table and write it to a file.",
    "predict": "Predict the rows of a table.",
    "evaluate": "Score a model on a labelled table, and compare with what its fit had promised.",
    "compare": "Cross-validate hgk, a plain SVM, a random forest and boosting, all on the same folds.",
    "explain": "Show which columns matter, and which interact; or, for one row, the reasons for its prediction.",
    "info": "Tell what a model file holds, without loading the model.",
    "compress": "Write the same model on fewer rows: faster predictions, a smaller file.",
    "demo": "Fit, predict and explain a made-up table, showing each command; under a minute.",
    "bench": "The paper's experiments: run, resume, tabulate.",
}
# What the modules are installed with.
EXTRAS = {"bench": "bench"}


class Lazy(TyperGroup):
    """Imports a command, and what it needs, only where it is called: the help comes at once."""

    def list_commands(self, ctx):
        return list(COMMANDS)

    def get_command(self, ctx, cmd_name):
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx, args):
        name, stub, rest = super().resolve_command(ctx, args)
        return name, None if stub is None else command(str(stub.name)), rest


def command(name: str) -> Any:
    """The command of its module, or one that says what is missing."""
    try:
        module = imported(f"hgk.cli.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "hgk":
            raise
        made = get_command(_without(name, str(error.name)))
    else:
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False)
            app.command()(getattr(module, name))
        made = get_command(app)
    made.name = name
    return made


def _without(name: str, package: str) -> typer.Typer:
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app = typer.Typer(help=f"{COMMANDS[name]} Needs {package}.", context_settings=settings, add_completion=False)

    @app.command(context_settings=settings)
    def missing() -> None:
        raise Unusable(f"hgk {name} needs the package {package}; pip install 'hgk[{EXTRAS.get(name, 'cli')}]'.")

    return app


app = typer.Typer(cls=Lazy, no_args_is_help=True, pretty_exceptions_enable=False)


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
