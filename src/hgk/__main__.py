"""``hgk`` and ``python -m hgk``: the command line, or one sentence on what it needs."""

import sys
from typing import Any

from hgk.imports import imported


def main() -> None:
    run = _command_line()
    try:
        run()
    except KeyboardInterrupt:  # before or after the command itself, which has its own ways
        sys.stderr.write("hgk: stopped.\n")
        sys.exit(130)


def _command_line() -> Any:
    try:
        return imported("hgk.cli").run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "hgk":
            raise
        sys.stderr.write(f"The command line needs the package {error.name}; pip install 'hgk[cli]'.\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
