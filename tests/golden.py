"""What small fits give, recorded: predictions, leave-one-out values, intervals, probabilities, chosen settings.

    python tests/golden.py            compare with the record, case by case
    python tests/golden.py --record   write the record anew, after a change that is meant to change results

A change that only moves code leaves every number as it is: bit for bit, or to 1e-9 where sums are taken in another
order. Fits follow thousands of rounded operations, so the record holds on the processor and the versions that it was
made with; elsewhere the cases are compared loosely (``tests/test_golden.py``).
"""

import json
import platform
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import hgk
from hgk import arrays

RECORD = Path(__file__).parent / "data" / "golden.json"
# Rows that are predicted, and numbers kept of each quantity.
ASKED, KEPT = 12, 24


def friedman(n, seed=0, noise=0.5, columns=6):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, columns))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + noise * rng.standard_normal(n)


def blobs(n, classes, seed=0):
    rng = np.random.default_rng(seed)
    centres, label = rng.standard_normal((classes, 4)), rng.integers(classes, size=n)
    names = np.array(["ash", "birch", "cedar", "elm"])[:classes]
    return centres[label] + 0.8 * rng.standard_normal((n, 4)), names[label]


def messy(n, seed=0):
    """Categories, missing cells, repeated rows, sample weights."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X, y = friedman(n, seed)
    frame = pd.DataFrame(X.round(1), columns=[f"c{j}" for j in range(X.shape[1])])
    frame.loc[rng.random(n) < 0.1, "c1"] = np.nan
    frame["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], n))
    y = np.round(y + 3 * (frame["kind"] == "b").to_numpy(), 0)
    again = rng.integers(n, size=n // 5)
    frame, y = pd.concat([frame, frame.iloc[again]], ignore_index=True), np.concatenate([y, y[again]])
    return frame, y, rng.integers(1, 3, len(y)).astype(float)


def regression(preset="default", n=150, data=friedman, **parameters):
    X, y = data(n)
    return hgk.HGKRegressor(preset, random_state=0, **parameters).fit(X[ASKED:], y[ASKED:]), X[:ASKED]


def classification(preset="default", n=150, classes=2, **parameters):
    X, y = blobs(n, classes)
    return hgk.HGKClassifier(preset, random_state=0, **parameters).fit(X[ASKED:], y[ASKED:]), X[:ASKED]


def quantiles(preset="plain", levels=(0.1, 0.5, 0.9)):
    X, y = friedman(120)
    model = hgk.HGKQuantileRegressor(preset, quantiles=list(levels), random_state=0)
    return model.fit(X[ASKED:], y[ASKED:]), X[:ASKED]


def few_values(n=400, values=4):
    X, y = friedman(n, noise=0.1)
    y = np.digitize(y, np.quantile(y, np.linspace(0, 1, values + 1)[1:-1])).astype(float)
    return hgk.HGKRegressor(random_state=0).fit(X[ASKED:], y[ASKED:]), X[:ASKED]


def two_values():
    X, y = friedman(3100, columns=5, noise=3.0)
    model = hgk.HGKRegressor(random_state=0, time_budget=None)
    return model.fit(X[ASKED:], (y > np.median(y)).astype(float)[ASKED:]), X[:ASKED]


def with_categories():
    frame, y, weight = messy(160)
    model = hgk.HGKRegressor(random_state=0).fit(frame.iloc[ASKED:], y[ASKED:], weight[ASKED:])
    return model, frame.iloc[:ASKED]


def several_outputs():
    X, y = friedman(120)
    return hgk.HGKRegressor(random_state=0).fit(X[ASKED:], np.column_stack([y, -(y**2), X[:, 5]])[ASKED:]), X[:ASKED]


def on_centres():
    limit, arrays.memory.EXACT = arrays.memory.EXACT, 300
    try:
        return regression(n=500)
    finally:
        arrays.memory.EXACT = limit


def given_kernel():
    X, y = friedman(150)
    kernel = hgk.HierarchicalKernel.of(hgk.inhomogeneous(6), [[1.0, 1.0, 1.0, 0.5, 0.5, 0.1]])
    return hgk.HGKRegressor(kernel=kernel, random_state=0).fit(X[ASKED:], y[ASKED:]), X[:ASKED]


def several_architectures(loss="least_squares"):
    trees = [hgk.inhomogeneous(6), hgk.two_layers(6, 3)]
    optimiser = hgk.Algorithm1(M=1, L=1, N1=5, N2=5, N3=2)
    return regression("paper", 100, architecture=trees, optimiser=optimiser, loss=loss)


def from_compact_file():
    model, X = regression("plain", 100)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.hgk"
        hgk.save(model, path, compact=True)
        return hgk.load(path), X


CASES = {
    "default": regression,
    "default, all kinds": lambda: regression(n=1050),
    "default, groups": lambda: regression(groups={"a": [0, 1], "b": [2, 3]}),
    "default, categories, missing cells, weights": with_categories,
    "default, three outputs": several_outputs,
    "default, four values": few_values,
    "default, centres": on_centres,
    "default, adam": lambda: regression(optimiser=hgk.Adam(steps=10, batch=60)),
    "default, pinball": lambda: regression(loss="pinball", tau=0.8),
    "plain": lambda: regression("plain"),
    "plain, expectile": lambda: regression("plain", loss="expectile", tau=0.3),
    "plain, insensitive": lambda: regression("plain", loss="epsilon_insensitive"),
    "plain, lam": lambda: regression("plain", lam=1e-3),
    "algorithm1": lambda: regression("algorithm1", 100),
    "paper, two trees": several_architectures,
    "kernel": given_kernel,
    "compact file": from_compact_file,
    "quantiles": quantiles,
    "quantile, default": lambda: quantiles("default", (0.25,)),
    "two classes": classification,
    "four classes": lambda: classification(n=200, classes=4),
    "two classes, hinge": lambda: classification("plain", loss="hinge"),
    "three classes, logistic": lambda: classification("plain", classes=3, loss="logistic"),
    "four classes, all against all": lambda: classification("plain", classes=4, multi_class="ava"),
    "three classes, squared hinge, all against all": lambda: classification(
        classes=3, loss="squared_hinge", multi_class="ava", n=120
    ),
    "two classes, balanced": lambda: classification("plain", class_weight="balanced"),
}
# Seconds each: compared by the script alone.
LARGE = {
    "default, two values, last steps": two_values,
    "default, many rows": lambda: regression(n=3100),
    "paper, two trees, pinball": lambda: several_architectures("pinball"),
}


# Methods and their arguments; of intervals those of one width.
ASKED_FOR: dict[str, dict] = {
    "decision_function": {},
    "predict_proba": {},
    "predict_interval": {"coverage": 0.8, "method": "jackknife+", "bounds": None},
}


def told(model, X):
    """What a fitted model says about some rows, and what was chosen."""
    said = {"predict": model.predict(X), "lam": model.lam_, "importances": model.exponent_shares_}
    for name, arguments in ASKED_FOR.items():
        try:
            said[name] = getattr(model, name)(X, **arguments)
        except (AttributeError, ValueError):  # not a method of this estimator, or not for this loss or file
            continue
    try:
        said["loo"] = model.loo_predictions_
    except hgk.CompactModelError:
        pass
    else:
        said["error"] = list(error(model).values())
    return {name: listed(value) for name, value in said.items()}


def error(model):
    return {name: v for name, v in (model.model_.error() or {}).items() if isinstance(v, float)}


def listed(value):
    """At most so many entries, evenly spaced; numbers to the last digit, classes as texts."""
    flat = np.asarray(value).reshape(-1)
    flat = flat[np.unique(np.linspace(0, len(flat) - 1, min(KEPT, len(flat))).astype(int))] if len(flat) else flat
    return [float(v) if flat.dtype.kind == "f" else str(v) for v in flat]


def fitted(case):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return told(*case())
    finally:
        torch.set_num_threads(threads)


def fingerprint():
    """What the last digits of a fit depend on."""
    processor = "unknown"
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), processor)
    versions = {name: version(name) for name in ("torch", "numpy", "scipy")}
    return {"processor": processor, "machine": platform.machine(), **versions}


def largest_difference(found, recorded):
    """Over all numbers, relative to the largest of their kind; infinite where texts or shapes differ."""
    if set(found) != set(recorded):
        return float("inf")
    worst = 0.0
    for name, values in recorded.items():
        texts = any(isinstance(v, str) for v in values)
        if len(values) != len(found[name]) or (texts and values != found[name]):
            return float("inf")
        if not texts:
            a, b = np.array(found[name]), np.array(values)
            if not np.array_equal(np.isfinite(a), np.isfinite(b)):
                return float("inf")
            known = np.isfinite(b)
            scale = np.abs(b[known]).max(initial=1e-300)
            worst = max(worst, float(np.abs(a - b)[known].max(initial=0.0) / scale))
    return worst


def main():
    if "--record" in sys.argv:
        cases = {name: fitted(case) for name, case in (CASES | LARGE).items()}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
        RECORD.write_text(f'{{"made_with": {json.dumps(fingerprint())},\n"cases": {{\n{lines}\n}}}}\n')
        return
    recorded, failed = json.loads(RECORD.read_text()), 0
    for name, case in (CASES | LARGE).items():
        begun = time.monotonic()
        worst = largest_difference(fitted(case), recorded["cases"][name])
        failed += worst > 1e-9
        print(f"{worst:9.1e}  {time.monotonic() - begun:5.1f} s  {name}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
