"""A method in two stores of ``hgk bench``, set by set, on the splits that both have.

    python experiments/default/compare.py rows.jsonl halves.jsonl [--method "Ours (default)"]

The ratio is the geometric mean over splits of the second error divided by the first, ± its standard error where there
are several splits; below 1 the second store is better. The last line has the geometric mean over sets.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from records import stored

Errors = dict[tuple[str, int], tuple[float, float]]


def errors(path: Path, method: str) -> Errors:
    """Error and seconds by set and split."""
    rows = (row for row in stored(path) if row["method"] == method and row["status"] == "ok")
    return {(row["set"], row["split"]): (row["mse"], row["seconds"]) for row in rows}


def lines(first: Errors, second: Errors) -> list[str]:
    shared = sorted(first.keys() & second.keys())
    table, means = ["| set | splits | first | second | ratio | seconds, ratio |", "|---|---|---|---|---|---|"], []
    for name in dict.fromkeys(name for name, _ in shared):
        keys = [key for key in shared if key[0] == name]
        before, after = (np.array([part[key] for key in keys]) for part in (first, second))
        logs = np.log(after[:, 0] / before[:, 0])
        spread = f" ± {np.exp(logs.mean()) * logs.std(ddof=1) / len(logs) ** 0.5:.3f}" if len(logs) > 1 else ""
        seconds = np.exp(np.log(after[:, 1] / before[:, 1]).mean())
        means.append(logs.mean())
        table.append(
            f"| {name} | {len(keys)} | {before[:, 0].mean():.5f} | {after[:, 0].mean():.5f} "
            f"| {np.exp(logs.mean()):.3f}{spread} | {seconds:.1f} |"
        )
    return [*table, f"| geometric mean | | | | {np.exp(np.mean(means)):.3f} | |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", type=Path, nargs=2)
    parser.add_argument("--method", default="Ours (default)")
    options = parser.parse_args()
    print("\n".join(lines(*(errors(path, options.method) for path in options.stores))))


if __name__ == "__main__":
    main()
