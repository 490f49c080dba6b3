"""``hgk`` and ``python -m hgk``: the command line, or one sentence on what it needs."""

import sys


def main() -> None:
    try:
        from hgk.cli import run
    except KeyboardInterrupt:  # while all is being imported
        sys.stderr.write("hgk: stopped.\n")
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "hgk":
            raise
        sys.stderr.write(f"The command line needs the package {error.name}; pip install 'hgk[cli]'.\n")
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
