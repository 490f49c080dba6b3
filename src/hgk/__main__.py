"""``hgk`` and ``python -m hgk``: the command line, or one sentence on what it needs."""

import os
import signal
import sys
from typing import Any


def main() -> None:
    run = _imported()
    try:
        run()
    except KeyboardInterrupt:  # before or after the command itself, which has its own ways
        sys.stderr.write("hgk: stopped.\n")
        sys.exit(130)


def _imported() -> Any:
    """The command line; Ctrl-C ends all at once meanwhile, since not every package lets it through."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    try:
        from hgk.cli import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "hgk":
            raise
        sys.stderr.write(f"The command line needs the package {error.name}; pip install 'hgk[cli]'.\n")
        sys.exit(2)
    finally:
        signal.signal(signal.SIGINT, before)
    return run


def _leave(*_: object) -> None:
    os.write(2, b"hgk: stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
