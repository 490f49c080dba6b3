"""The default's recorded errors: next to other methods and the goals set beforehand, or next to runs elsewhere.

    python experiments/default/table.py experiments/default/rows.jsonl
    python experiments/default/table.py experiments/default/rows.jsonl --without updrs-motor \\
        --against experiments/table1/rows.jsonl experiments/default/repeated.jsonl

Mean over splits ± their standard deviation; the first also with the number of splits, failed runs being counted. The
second compares the splits that both sides have; of several files the later rows count.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from hgk.bench import store

OURS = "Ours (default)"
BOUND = {
    "bank-marketing": 0.2560,
    "cadata": 0.0320,
    "cod-rna": 0.1200,
    "covtype": 0.3480,
    "cpusmall": 0.0028,
    "cycle-power-plant": 0.0053,
    "higgs": 0.7480,
    "letter-recognition": 0.0290,
    "magic": 0.3530,
    "pendigits": 0.0048,
    "satimage": 0.0475,
    "shuttle": 0.00080,
    "thyroid-ann": 0.0140,
    "updrs-motor": 0.0013,
}


def cell(rows: list[store.Row]) -> str:
    errors = [row["mse"] for row in rows if row["status"] == "ok"]
    failed = len(rows) - len(errors)
    spread = f" ± {np.std(errors, ddof=1):.5f}" if len(errors) > 1 else ""
    text = f"{np.mean(errors):.5f}{spread} ({len(errors)})" if errors else ""
    return text + (f" {failed} failed" if failed else "")


def table(rows: list[store.Row]) -> str:
    methods = sorted(dict.fromkeys(row["method"] for row in rows), key=lambda method: method != OURS)
    lines = ["| set | at most | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for name, bound in BOUND.items():
        cells = [cell([row for row in rows if row["set"] == name and row["method"] == method]) for method in methods]
        lines.append(f"| {name} | {bound:.5f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def comparison(rows: list[store.Row], others: list[store.Row], without: str | None = None) -> str:
    """Errors of the default in both, and how much larger the other's are; their ratio over all runs below."""
    here, there = (
        {(row["set"], row["split"]): row["mse"] for row in side if row["method"] == OURS and row["status"] == "ok"}
        for side in (rows, others)
    )
    lines, logarithms = ["| set | here | there | difference |", "|---|---|---|---|"], []
    for name in [name for name in BOUND if name != without]:
        runs = [run for run in here if run in there and run[0] == name]
        pair = np.array([[here[run], there[run]] for run in runs])
        logarithms.extend(np.log(pair[:, 1] / pair[:, 0]))
        mean, spread = pair.mean(0), pair.std(0, ddof=1)
        errors = " | ".join(f"{m:.5f} ± {s:.5f}" for m, s in zip(mean, spread, strict=True))
        lines.append(f"| {name} | {errors} | {mean[1] / mean[0] - 1:+.1%} |")
    error = np.std(logarithms, ddof=1) / len(logarithms) ** 0.5
    lines.append(f"\nGeometric mean over {len(logarithms)} runs: {np.expm1(np.mean(logarithms)):+.2%} ± {error:.2%}.")
    return "\n".join(lines)


def read(paths: list[Path]) -> list[store.Row]:
    rows: list[store.Row] = []
    for path in paths:
        of_file, damages = store.read(path)
        rows += of_file
        for damage in damages:
            sys.stderr.write(f"{path}: {damage}\n")
    return store.latest(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path, nargs="+")
    parser.add_argument("--without", choices=list(BOUND))
    options = parser.parse_args()
    rows = read([options.file])
    print(comparison(rows, read(options.against), options.without) if options.against else table(rows))


if __name__ == "__main__":
    main()
