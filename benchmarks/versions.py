"""Is this version as fast as another one? Fits and predictions of two checkouts, in turns, as ratios.

    git worktree add /tmp/before COMMIT
    python benchmarks/versions.py --before /tmp/before --out benchmarks/results/versions.json

Every measurement is a process of its own, which imports the version's source and fits the same rows with the same seed;
the two versions alternate, and the smallest of the repetitions counts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
CASES = {
    "default, 600 x 8": ("HGKRegressor(random_state=0)", 600, 8),
    "default, 3500 x 8": ("HGKRegressor(random_state=0)", 3500, 8),
    "plain, 1500 x 8": ("HGKRegressor('plain', random_state=0)", 1500, 8),
    "classes, 600 x 8": ("HGKClassifier(random_state=0)", 600, 8),
    "pinball, 600 x 8": ("HGKRegressor('plain', loss='pinball', random_state=0)", 600, 8),
}
PROGRAM = """
import json, sys, time, warnings
import numpy as np
from hgk import HGKClassifier, HGKRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
n, d = {n}, {d}
X = rng.uniform(0, 1, (n + 5000, d))
y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + rng.standard_normal(n + 5000)
model = {model}
y = y > np.median(y) if isinstance(model, HGKClassifier) else y
begun = time.perf_counter()
model.fit(X[:n], y[:n])
fitted = time.perf_counter()
model.predict(X[n:])
predicted = time.perf_counter()
print(json.dumps({{"fit": fitted - begun, "predict": predicted - fitted, "score": model.score(X[n:], y[n:])}}))
"""


def measured(source: Path, case: tuple[str, int, int]) -> dict[str, float]:
    model, n, d = case
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    program = PROGRAM.format(model=model, n=n, d=d)
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    results = {}
    for name, case in CASES.items():
        runs = [(measured(options.before, case), measured(HERE, case)) for _ in range(options.times)]
        best = {what: [min(run[i][what] for run in runs) for i in (0, 1)] for what in ("fit", "predict")}
        results[name] = {what: {"before": a, "now": b, "ratio": b / a} for what, (a, b) in best.items()}
        results[name]["score"] = {"before": runs[0][0]["score"], "now": runs[0][1]["score"]}
        print(name, {what: round(results[name][what]["ratio"], 2) for what in best}, flush=True)
    options.out.write_text(
        json.dumps({"times": options.times, "cores": os.cpu_count(), "cases": results}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
