"""Rows as a store would hold them: made up around the paper's numbers, or recorded."""

from pathlib import Path

import numpy as np

from hgk.bench import published, store
from hgk.bench.summary import ORDER

ROOT = Path(__file__).parents[1]
VERSIONS = {"hgk": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "sklearn": "1.9.1"}
# Error as a multiple of the paper's RF, roughly as such methods differ, and seconds of a run.
CHARACTER = {
    "SVM": (1.15, 20),
    "HKL": (1.6, 300),
    "Ours (paper)": (0.95, 900),
    "Ours (default)": (0.8, 40),
    "RF": (1.0, 6),
    "DNN": (1.1, 120),
    "LightGBM": (0.9, 2),
    "CatBoost": (0.88, 8),
    "XGBoost": (0.92, 3),
    "xRFM": (0.95, 15),
    "RealMLP": (0.85, 60),
}


def row(name, split, method, mse, **changes):
    size = published.SIZES.get(name)
    return {
        "set": name,
        "split": split,
        "method": method,
        "status": "ok",
        "mse": mse,
        "standard_error": None if mse is None else mse / 40,
        "seconds": 1.0,
        "predict_seconds": 0.2,
        "n_train": size.n_train if size else 100,
        "n_test": size.n_test if size else 50,
        "chosen": {},
        "reason": None,
        "threads": 2,
        "device": "cpu",
        "machine": "x86_64, 16 cores",
        "versions": VERSIONS,
        "finished": "2026-01-02T03:04:05+00:00",
    } | changes


def made_up(methods=ORDER, sets=published.SETS, splits=5, seed=0):
    """A split is hard or easy for all methods at once; each method has its own luck on a set and on a split."""
    rng = np.random.default_rng(seed)
    rows = []
    for name in sets:
        hard = rng.normal(0, 0.03, splits)
        for method in methods:
            level, seconds = CHARACTER.get(method, (1.0, 1.0))
            mean = published.ERRORS[name]["RF"].mean * level * np.exp(rng.normal(0, 0.15))
            errors = mean * np.exp(hard + rng.normal(0, 0.02, splits))
            times = seconds * np.exp(rng.normal(0, 0.4, splits))
            rows += [row(name, s, method, float(errors[s]), seconds=float(times[s])) for s in range(splits)]
    return rows


def recorded():
    """The rows of experiments/default."""
    return store.read(ROOT / "experiments" / "default" / "rows.jsonl")[0]


def failed(name, split, method, reason):
    return row(name, split, method, None, status="failed", reason=reason, predict_seconds=None)
