"""The tables of experiments/categorical from recorded rows.

    python experiments/categorical/table.py experiments/categorical/rows.jsonl

Mean over splits ± its standard error; the best of a line is bold. The last line counts the sets on which the default of
hgk is worse in log-loss than the frequency table by more than the standard error of their difference, both paired by
split.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

METHODS = ("hgk", "hgk, logistic", "logistic regression", "CatBoost", "frequency table", "class prior")
# what, its digits, and which is best; None: nothing is
MEASURES = {"log_loss": (4, min), "accuracy": (3, max), "ece": (3, None), "seconds": (1, None)}

Rows = list[dict]


def standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def values_of(rows: Rows, name: str, method: str, measure: str) -> dict[int, float]:
    """By split."""
    return {row["split"]: row[measure] for row in rows if (row["set"], row["method"]) == (name, method)}


def cell(values: list[float], digits: int) -> str:
    spread = f" ± {standard_error(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def table(rows: Rows, measure: str) -> str:
    digits, best_of = MEASURES[measure]
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    lines = [f"| {measure.replace('_', '-')} | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for name in dict.fromkeys(row["set"] for row in rows):
        found = {m: list(values.values()) for m in methods if (values := values_of(rows, name, m, measure))}
        best = best_of(float(np.mean(values)) for values in found.values()) if best_of else None
        texts = [cell(found[m], digits) if m in found else "" for m in methods]
        marked = [
            f"**{text}**" if text and np.mean(found[m]) == best else text
            for m, text in zip(methods, texts, strict=True)
        ]
        lines.append(f"| {name} | " + " | ".join(marked) + " |")
    return "\n".join(lines)


def difference(rows: Rows, name: str) -> tuple[float, float] | None:
    """Log-loss of hgk less that of the frequency table: mean and its standard error over the splits that both have."""
    ours, theirs = (values_of(rows, name, method, "log_loss") for method in ("hgk", "frequency table"))
    both = [ours[split] - theirs[split] for split in ours if split in theirs]
    return (float(np.mean(both)), standard_error(both)) if len(both) > 1 else None


def verdict(rows: Rows) -> str:
    sets = dict.fromkeys(row["set"] for row in rows)
    found = {name: pair for name in sets if (pair := difference(rows, name))}
    if not found:
        return "No set has two splits of both hgk and the frequency table."
    worse = [f"{name} (+{mean:.4f} ± {error:.4f})" for name, (mean, error) in found.items() if mean > error]
    line = f"hgk is worse than the frequency table by more than a standard error on {len(worse)} of {len(found)} sets"
    return f"{line}: {', '.join(worse)}." if worse else f"{line}."


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    parts = [*(table(rows, measure) for measure in MEASURES), verdict(rows)]
    sys.stdout.write("\n\n".join(parts) + "\n")
