"""Wrote the samples of schema 4 with every kind of column. Later versions must read them, so do not run this again."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import hgk
from hgk.storage.files import describe

HERE = Path(__file__).parent


def table(n=60):
    """Numbers, numbers as texts, missing cells, categories, rare ones, and an id."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"width": rng.uniform(-1, 1, n).round(3), "price": [f"{v:,.2f} €" for v in rng.lognormal(8, 1, n)]}
    )
    frame.loc[rng.random(n) < 0.2, "width"] = np.nan
    frame["colour"] = np.array(["red", "green", "blue", None], dtype=object)[rng.integers(4, size=n)]
    frame["town"] = [f"town {i // 2}" for i in range(n)]
    frame["id"] = [f"{i * 7919 % 1000:03d}-{i}" for i in range(n)]
    y = frame["width"].fillna(0) + 2 * (frame["colour"] == "red") + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def main():
    warnings.simplefilter("ignore")
    X, y = table()
    learned = hgk.HGKRegressor("default", random_state=0).fit(X, y)
    by_hand = hgk.HierarchicalKernel.of(hgk.inhomogeneous(2), [[1.0, 1.0]])
    few = X[["colour", "price"]].fillna("none")
    models = {
        "schema4_columns": (learned, X),
        "schema4_learned_kernel": (hgk.HGKRegressor(kernel=learned.kernel_, random_state=0).fit(X, y), X),
        "schema4_kernel_by_hand": (hgk.HGKRegressor(kernel=by_hand, random_state=0).fit(few, y), few),
    }
    said = {}
    for name, (model, rows) in models.items():
        hgk.save(model, HERE / f"{name}.hgk", compact=True)
        rows = rows.iloc[:5].astype(object).where(rows.iloc[:5].notna(), None)
        said[name] = {
            "rows": rows.to_dict("list"),
            "predict": model.predict(rows).tolist(),
            "taken_for": [column["words"] for column in describe(HERE / f"{name}.hgk")["summary"]["taken_for"]],
            "features": list(model.kernel_.columns),
        }
    (HERE / "schema4_inputs.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
