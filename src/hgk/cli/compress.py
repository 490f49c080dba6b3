"""``hgk compress``: the same model on fewer rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from hgk.cli.shared import (
    ForceOption,
    JsonOption,
    ModelArgument,
    Output,
    QuietOption,
    check_outputs,
    interruptible,
    print_json,
    refusals,
    say,
)
from hgk.events import CompressedTo, last
from hgk.storage import describe, is_model, load, save

SmallOption = Annotated[Path, typer.Option("--out", help="The smaller model file to write.")]
ToleranceOption = Annotated[float, typer.Option(help="How much larger the error may become: 0.01 for 1 %.")]


def compress(
    model: ModelArgument,
    out: SmallOption,
    tolerance: ToleranceOption = 0.01,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    force: ForceOption = False,
) -> None:
    """Write the same model on fewer rows: faster predictions, a smaller file."""
    check_outputs([Output("--out", out, "a model file of hgk", is_model)], {"MODEL": model}, force)
    fitted, described = load(model), describe(model)
    with interruptible("nothing was written"), refusals():
        small = fitted.compress(tolerance)
    save(small, out, compact=True, note=described["note"], force=force)
    told = cast(CompressedTo, last(small.history_, CompressedTo))
    sizes = described["bytes"], out.stat().st_size
    if as_json:
        counted = {"rows": told.kept, "of": told.of, "before": told.before, "after": told.after}
        print_json({"out": str(out), **counted, "bytes": sizes[1], "bytes_before": sizes[0]})
    elif not quiet:
        say(f"{told.words}; {sizes[0] / 1024:.0f} KiB before, {sizes[1] / 1024:.0f} KiB in {out}")
