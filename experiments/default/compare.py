"""Two methods of ``hgk bench`` set by set, each in a store of its own, on the splits that both have.

    python experiments/default/compare.py rows.jsonl "Ours (default)" halves.jsonl "Ours (leaves from 3000 rows)"

The ratio is the geometric mean over splits of the second error divided by the first, ± its standard error where there
are several splits; below 1 the second is better. The last line has the geometric mean over sets.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from records import stored

Errors = dict[tuple[str, int], float]


def errors(path: Path, method: str) -> Errors:
    """By set and split."""
    rows = (row for row in stored(path) if row["method"] == method and row["status"] == "ok")
    return {(row["set"], row["split"]): row["mse"] for row in rows}


def lines(first: Errors, second: Errors) -> list[str]:
    shared = sorted(first.keys() & second.keys())
    table, means = ["| set | splits | first | second | ratio |", "|---|---|---|---|---|"], []
    for name in dict.fromkeys(name for name, _ in shared):
        keys = [key for key in shared if key[0] == name]
        before, after = (np.array([part[key] for key in keys]) for part in (first, second))
        logs = np.log(after / before)
        spread = f" ± {np.exp(logs.mean()) * logs.std(ddof=1) / len(logs) ** 0.5:.3f}" if len(logs) > 1 else ""
        means.append(logs.mean())
        table.append(
            f"| {name} | {len(keys)} | {before.mean():.5f} | {after.mean():.5f} | {np.exp(logs.mean()):.3f}{spread} |"
        )
    return [*table, f"| geometric mean | | | | {np.exp(np.mean(means)):.3f} |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for number in ("first", "second"):
        parser.add_argument(number, type=Path)
        parser.add_argument(f"method_of_{number}")
    options = parser.parse_args()
    first, second = errors(options.first, options.method_of_first), errors(options.second, options.method_of_second)
    print("\n".join(lines(first, second)))


if __name__ == "__main__":
    main()
