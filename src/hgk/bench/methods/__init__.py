"""The registry: every file of this folder, and of the folders in HGK_BENCH_METHODS, brings its methods.

A file defines subclasses of :class:`Method`; nothing else has to be said anywhere.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

from hgk.bench.methods.base import Effort, Fitted, Method
from hgk.bench.summary import ORDER

__all__ = ["METHODS", "Effort", "Fitted", "Method"]

# A folder on the package's path makes its files modules of the package, also in worker processes.
BUILT_IN = {file.stem for file in Path(__path__[0]).glob("*.py")}
__path__ += [folder for folder in os.environ.get("HGK_BENCH_METHODS", "").split(os.pathsep) if folder]
for folder in __path__[1:]:
    for file in Path(folder).glob("*.py"):
        if file.stem in BUILT_IN:
            raise ValueError(f"The method's file {file} has the name of a built-in one; give it another name.")


def _all_methods() -> dict[str, Method]:
    """One object of every concrete subclass of Method, by name."""
    methods: dict[str, Method] = {}
    for file in pkgutil.iter_modules(__path__):
        module = _imported(file)
        for kind in vars(module).values():
            defined_here = inspect.isclass(kind) and issubclass(kind, Method) and kind.__module__ == module.__name__
            if defined_here and not inspect.isabstract(kind):
                if kind.name in methods:
                    raise ValueError(f"Two methods are named {kind.name!r}, one in {file.name}.py; rename one of them.")
                methods[kind.name] = kind()
    return {name: methods[name] for name in sorted(methods, key=_place)}


def _imported(file: pkgutil.ModuleInfo) -> ModuleType:
    """One file; what is wrong with it is said with its name."""
    where = getattr(file.module_finder, "path", "")
    try:
        module = import_module(f"{__name__}.{file.name}")
    except Exception as error:
        raise ValueError(
            f"The method's file {where}/{file.name}.py cannot be imported ({type(error).__name__}: {error}); mend it, "
            "or take it out of the folder."
        ) from error
    return module


def _place(name: str) -> tuple[int, str]:
    """The order of the table; others follow by name."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


METHODS = _all_methods()
