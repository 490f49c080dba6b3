"""The tables of experiments/intervals from recorded rows.

    python experiments/intervals/table.py experiments/intervals/rows.jsonl

Means over the splits that all methods have; of fifths the mean of each fifth over these splits, and of these five the
smallest and the largest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

MEASURES = {"coverage": 3, "width": 3, "score": 3, "seconds": 0}
FIFTHS = {"by_prediction": "coverage by fifth of the predictions", "by_width": "coverage by fifth of the widths"}
AIM, NEAR = 0.9, 0.03


def common(rows: list[dict], name: str) -> list[dict]:
    """The rows of a set on the splits that every method has."""
    of_set = [row for row in rows if row["set"] == name]
    methods = {row["method"] for row in rows}
    complete = [s for s in {r["split"] for r in of_set} if {r["method"] for r in of_set if r["split"] == s} == methods]
    return [row for row in of_set if row["split"] in complete]


def table(rows: list[dict], title: str, cell) -> str:
    methods, sets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("method", "set"))
    lines = [f"| {title} | splits | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for name in sets:
        of_set = common(rows, name)
        found = [[row for row in of_set if row["method"] == m] for m in methods]
        if of_set:
            lines.append(f"| {name} | {len(found[0])} | " + " | ".join(map(cell, found)) + " |")
    return "\n".join(lines)


def mean_of(measure: str, digits: int):
    def cell(found: list[dict]) -> str:
        values = [row[measure] for row in found]
        spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 and digits else ""
        return f"{np.mean(values):.{digits}f}{spread}"

    return cell


def range_of(measure: str):
    def cell(found: list[dict]) -> str:
        means = np.mean([row[measure] for row in found], 0)
        text = f"{means.min():.3f} to {means.max():.3f}"
        return f"**{text}**" if np.abs(means - AIM).max() <= NEAR else text

    return cell


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    parts = [table(rows, title, range_of(measure)) for measure, title in FIFTHS.items()]
    parts += [table(rows, measure, mean_of(measure, digits)) for measure, digits in MEASURES.items()]
    sys.stdout.write("\n\n".join(parts) + "\n")
