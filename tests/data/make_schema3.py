"""Wrote the sample files of schema 3. They prove that later versions read them, so do not run this again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import hgk

HERE = Path(__file__).parent


def table(n=60):
    """With rows that are there twice."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 2)).round(3), columns=["width", "depth of the sea"])
    frame["colour"] = np.array(["red", "green", "blue"])[rng.integers(3, size=n)]
    y = frame["width"] + 2 * (frame["colour"] == "red") + 0.1 * rng.standard_normal(n)
    again = np.r_[np.arange(n), np.arange(0, n, 4)]
    return frame.iloc[again].reset_index(drop=True), y.to_numpy()[again]


def main():
    X, y = table()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.3, 1.5])]
    models = {
        "schema3_regressor": hgk.HGKRegressor(random_state=0).fit(X, y),
        "schema3_quantiles": hgk.HGKQuantileRegressor("plain", quantiles=[0.2, 0.8], random_state=0).fit(X, y),
        "schema3_pairs": hgk.HGKClassifier("plain", loss="hinge", multi_class="ava", random_state=0).fit(X, labels),
    }
    said = {}
    for name, model in models.items():
        hgk.save(model, HERE / f"{name}.hgk")
        said[name] = {"rows": X.iloc[:5].to_dict("list"), "predict": model.predict(X.iloc[:5]).tolist()}
        said[name]["loo"] = model.loo_predictions_[:5].tolist()
        if isinstance(model, hgk.HGKRegressor):
            said[name]["interval"] = model.predict_interval(X.iloc[:5]).tolist()
    (HERE / "schema3.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
