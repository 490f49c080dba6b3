"""``hgk demo``: the commands on a made-up table."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, BinaryIO

import numpy as np
import pandas as pd
import typer

from hgk.cli import tables
from hgk.cli.explain import explain
from hgk.cli.fit import fit
from hgk.cli.predict import predict, predictions_at
from hgk.cli.shared import ForceOption, Output, QuietOption, check_outputs, console, say
from hgk.storage import is_model

FolderOption = Annotated[Path, typer.Option("--out", help="The folder to write to; made if it is not there.")]


def demo(out: FolderOption = Path("hgk-demo"), quiet: QuietOption = False, force: ForceOption = False) -> None:
    """Fit, predict and explain a made-up table, showing each command; under a minute."""
    out.mkdir(parents=True, exist_ok=True)
    frame = friedman_table(600)
    known, new = out / "known.csv", out / "new.csv"
    model, predictions = out / "model.hgk", out / "predictions.csv"
    check_outputs(_outputs({known: frame[:-100], new: frame[-100:]}, model, predictions), {}, force)
    tables.write_table(frame[:-100], known)
    tables.write_table(frame[-100:], new)

    def show(*words: str | Path) -> None:
        if not quiet:
            console.print()
            say(f"$ hgk {shlex.join(map(str, words))}")

    show("fit", known, "--target", "y", "--out", model)
    fit(str(known), "y", model, quiet=quiet, force=force)
    show("predict", model, new, "--interval", "0.9", "--out", predictions)
    predict(model, str(new), str(predictions), interval=0.9, quiet=quiet, force=force)
    if quiet:
        return
    _compare(pd.read_csv(predictions), frame["y"][-100:].to_numpy())
    show("explain", model)
    explain(model)
    show("explain", model, "--row", "0", "--data", new)
    explain(model, row=0, data=str(new))


def _compare(predicted: pd.DataFrame, y: np.ndarray) -> None:
    inside = float(np.mean((predicted["lower"] <= y) & (y <= predicted["upper"])))
    rmse = float(np.mean((predicted["prediction"] - y) ** 2)) ** 0.5
    spread = f"noise 1, spread of y {y.std():.1f}"
    say(f"on these {len(y)} rows: RMSE {rmse:.2f} ({spread}), {inside:.0%} within their intervals")


def _outputs(parts: dict[Path, pd.DataFrame], model: Path, predictions: Path) -> list[Output]:
    """What the demo writes: tables that are the same each time, and beside these a model and predictions."""
    contents = {path: part.to_csv(index=False).encode() for path, part in parts.items()}
    repeated = all(path.is_file() and path.read_bytes() == content for path, content in contents.items())

    def same_as(content: bytes) -> Callable[[BinaryIO], bool]:
        return lambda file: file.read(len(content) + 1) == content

    def after_a_demo(ours: Callable[[BinaryIO], bool]) -> Callable[[BinaryIO], bool]:
        return lambda file: repeated and ours(file)

    kinds = {path: same_as(content) for path, content in contents.items()}
    kinds |= {model: after_a_demo(is_model), predictions: after_a_demo(predictions_at(predictions).ours)}
    return [Output("--out", path, "of the demo", ours) for path, ours in kinds.items()]


def friedman_table(n: int) -> pd.DataFrame:
    """Friedman's function of five columns, with noise of variance 1, and five columns that mean nothing."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, 10)).round(4)
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    names = [*(f"x{j}" for j in range(5)), *(f"noise {j}" for j in range(5))]
    return pd.DataFrame(x, columns=names).assign(y=(y + rng.standard_normal(n)).round(3))
