"""Wrote the sample files of schema 1. They prove that later versions read them, so do not run this again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import hgk

HERE = Path(__file__).parent


def table(n=40):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 2)).round(3), columns=["width", "depth of the sea"])
    frame.loc[::6, "width"] = np.nan
    frame["colour"] = np.array(["red", "green", "blue"])[rng.integers(3, size=n)]
    y = np.nan_to_num(frame["width"]) + 2 * (frame["colour"] == "red") + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def main():
    X, y = table()
    regressor = hgk.HGKRegressor(
        groups={"size": ["width", "depth of the sea"]}, optimiser=hgk.Adam(steps=5), random_state=0
    ).fit(X, y)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.3, 1.5])]
    classifier = hgk.HGKClassifier("plain", random_state=0).fit(X, labels)
    said = {}
    for name, model in {"schema1_regressor": regressor, "schema1_classifier": classifier}.items():
        hgk.save(model, HERE / f"{name}.hgk")
        rows = X.iloc[:5].astype(object).where(X.iloc[:5].notna(), None)
        said[name] = {"rows": rows.to_dict("list"), "importances": model.exponent_shares_.tolist()}
        for method in ("predict", "predict_interval", "predict_proba"):
            if hasattr(model, method):
                said[name][method] = getattr(model, method)(X.iloc[:5]).tolist()
    (HERE / "schema1.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
