"""Wrote the sample file of schema 4. It proves that later versions read it, so do not run this again."""

import json
from pathlib import Path

import numpy as np

import hgk

HERE = Path(__file__).parent


def main():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (60, 4)).round(3)
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.1 * rng.standard_normal(60)
    tree = hgk.with_kinds(hgk.two_layers(4, 4, 3), rough=[1], q=0.7, oblique=[2, 3], rank=2)
    model = hgk.HGKRegressor(architecture=tree, random_state=0).fit(X, y)
    hgk.save(model, HERE / "schema4_kinds.hgk")
    said = {"rows": X[:5].tolist(), "predict": model.predict(X[:5]).tolist()}
    said["loo"] = model.loo_predictions_[:5].tolist()
    (HERE / "schema4.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
