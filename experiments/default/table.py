"""The aims we set beforehand beside what was recorded.

    python experiments/default/table.py experiments/default/rows.jsonl

Mean over splits ± their standard deviation, and the number of splits; failed runs are counted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hgk.bench import store

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
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["| set | at most | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for name, bound in BOUND.items():
        own = [row for row in rows if row["set"] == name]
        cells = [cell([row for row in own if row["method"] == method]) for method in methods]
        lines.append(f"| {name} | {bound:.5f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    found, damages = store.read(Path(sys.argv[1]))
    for damage in damages:
        sys.stderr.write(f"{sys.argv[1]}: {damage}\n")
    sys.stdout.write(table(store.latest(found)) + "\n")
