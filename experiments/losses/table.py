"""The tables of experiments/losses from recorded rows.

    python experiments/losses/table.py experiments/losses/rows.jsonl

Mean over the splits that all methods have, ± their standard deviation where there are several, and their number; the
best of a line is bold, and the last line counts how often a method of hgk is ahead of all its peers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

OURS = ("default", "least squares", "hinge", "logistic", "quantiles")
# what, its digits, and whether more is better; None: nothing is best
MEASURES = {
    "accuracy": (4, True),
    "log_loss": (4, False),
    "auc": (4, True),
    "calibration_error": (3, None),
    "pinball": (4, False),
    "coverage": (3, None),
    "seconds": (0, None),
}


def cell(values: list[float], digits: int) -> str:
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 and digits else ""
    return f"{np.mean(values):.{digits}f}{spread} ({len(values)})"


def common_splits(rows: list[dict], name: str) -> set[int]:
    """The splits of a set that every method has which has any."""
    splits: dict[str, set[int]] = {}
    for row in rows:
        if row["set"] == name:
            splits.setdefault(row["method"], set()).add(row["split"])
    return set.intersection(*splits.values())


def table(rows: list[dict], measure: str) -> str:
    digits, more = MEASURES[measure]
    rows = [row for row in rows if measure in row]
    if not rows:
        return ""
    methods, sets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("method", "set"))
    lines = [f"| {measure.replace('_', '-')} | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    ahead = 0
    for name in sets:
        of_set = [row for row in rows if row["set"] == name and row["split"] in common_splits(rows, name)]
        found = {m: [row[measure] for row in of_set if row["method"] == m] for m in methods}
        means = {m: float(np.mean(values)) for m, values in found.items() if values}
        best = None if more is None else (max if more else min)(means, key=means.__getitem__)
        texts = {m: cell(values, digits) if values else "" for m, values in found.items()}
        cells = [f"**{text}**" if m == best else text for m, text in texts.items()]
        ahead += best in OURS
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if more is not None:
        lines.append(f"\nhgk is ahead on {ahead} of {len(sets)}.")
    return "\n".join(lines)


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    of_classes = [row for row in rows if "accuracy" in row]
    of_numbers = [row for row in rows if "pinball" in row]
    parts = (
        [table(of_classes, m) for m in ("log_loss", "accuracy", "auc", "calibration_error", "seconds")]
        if of_classes
        else []
    )
    parts += [table(of_numbers, m) for m in ("pinball", "coverage", "seconds")] if of_numbers else []
    sys.stdout.write("\n\n".join(filter(None, parts)) + "\n")
