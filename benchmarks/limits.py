"""Promises about time and memory, each in a process of its own: what was asked for or planned, and what was taken.

    python benchmarks/limits.py            # writes benchmarks/results/limits.json

budget      seconds that a default fit of 7000 x 20 takes, for a time_budget
planned     memory that a fit of 9000 x 20, and intervals after it, ask for before they allocate, and the growth of the
            process's largest resident size
HGK_MEMORY  the same growth in a fit of 300,000 x 20 under a limit, or the sentence that refuses it
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "limits.json"
BUDGETS = (5, 10, 30, 60)
LIMITS = ("300M", "600M", "1G")


def table(n: int):
    from sklearn.datasets import make_friedman1

    return make_friedman1(n, n_features=20, noise=1.0, random_state=0)


def peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def budget(seconds: float) -> dict:
    from hgk import HGKRegressor

    X, y = table(7000)
    HGKRegressor(random_state=0, time_budget=1).fit(X[:500], y[:500])  # what is loaded and compiled once
    start = time.monotonic()
    HGKRegressor(random_state=0, time_budget=seconds).fit(X, y)
    took = time.monotonic() - start
    return {"asked_s": seconds, "took_s": round(took, 1), "share": round(took / seconds, 2)}


def planned() -> dict:
    from hgk import HGKRegressor
    from hgk.arrays import require_memory

    asked: list[float] = []

    def spy(rows, columns, matrices, dtype, what, device=None):
        asked.append(matrices * rows * columns * dtype.itemsize / 2**20)
        require_memory(rows, columns, matrices, dtype, what, device)

    for name, module in list(sys.modules.items()):
        if name.startswith("hgk.") and vars(module).get("require_memory") is require_memory:
            module.require_memory = spy
    X, y = table(9000)
    HGKRegressor("plain", random_state=0).fit(X[:200], y[:200]).predict_interval(X[:5])
    asked.clear()
    before = peak()
    model = HGKRegressor(random_state=0).fit(X, y)
    fit = {"planned_mib": round(max(asked)), "took_mib": round(peak() - before)}
    asked.clear()
    model.predict_interval(X[:1000])
    return {"fit": fit, "intervals": {"planned_mib": round(max(asked)), "took_mib": round(peak() - before)}}


def limited() -> dict:
    from hgk import HGKRegressor

    X, y = table(300_000)
    HGKRegressor("plain", random_state=0).fit(X[:200], y[:200])
    before = peak()
    try:
        model = HGKRegressor(random_state=0, time_budget=60).fit(X, y)
    except MemoryError as error:
        return {"refused": str(error)}
    return {"took_mib": round(peak() - before), "centres": len(model.alpha_)}


def alone(words: list[str], **environment: str) -> dict:
    """One part in a process of its own."""
    found = subprocess.run(
        [sys.executable, __file__, *words], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    if len(sys.argv) > 1:
        part, *rest = sys.argv[1:]
        print(json.dumps({"budget": budget, "planned": planned, "limited": limited}[part](*map(float, rest))))
        return
    found = {
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "budget": [alone(["budget", str(seconds)]) for seconds in BUDGETS],
        "planned": alone(["planned"]),
        "HGK_MEMORY": {limit: alone(["limited"], HGK_MEMORY=limit) for limit in LIMITS},
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
