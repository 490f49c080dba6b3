"""``hgk info``: what a model file holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from hgk.cli.shared import JsonOption, ModelArgument, print_json, say
from hgk.estimators import HGKEstimator
from hgk.events import ASIDE
from hgk.insight import in_words, remark_on_plain
from hgk.storage import describe


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Tell what a model file holds, without loading the model."""
    described = describe(model)
    if as_json:
        print_json(described)
        return
    for name, text in _lines(described, described["summary"], described["note"]).items():
        if text:
            say(f"{name:14} {text}")


def _lines(described: dict[str, Any], summary: dict[str, Any], note: dict[str, str]) -> dict[str, str]:
    loss = "" if (name := summary.get("loss", "LeastSquares")) == "LeastSquares" else f", {name}"
    rows, machines, error = summary.get("rows"), summary.get("machines", []), summary.get("error")
    classes = summary.get("classes")
    return {
        "model": f"{summary.get('estimator')}{loss}" + (f" of {note['target']!r}" if "target" in note else ""),
        "file": f"{described['bytes'] / 1024:.0f} KiB, schema {described['schema']}"
        + (", compact" if summary.get("compact") else ""),
        "training rows": "not kept" if rows is None else f"{rows}, {summary['distinct_rows']} different",
        "classes": ", ".join(map(str, classes or [])),
        "error": "" if error is None else error_line(error, classes is not None, summary.get("outputs", 1)),
        "columns": ", ".join(summary.get("columns", [])),
        "taken for": "; ".join(f"{c['column']}: {c['words']}" for c in summary.get("taken_for", [])),
        "kernel": _kernel(summary),
        "learned": ", ".join(summary.get("chosen") or []),
        "loss": summary.get("losses") or "",
        "leaves": summary.get("leaves") or "",
        "compressed": summary.get("compressed") or "",
        "bounds": "; ".join(summary.get("bounds") or []),
        "machines": "; ".join(
            f"{m['kind']} on {m['rows']} rows, {m['nodes']} nodes, λ {m['lam']:.2g}" for m in machines
        ),
        "versions": ", ".join(f"{package} {version}" for package, version in described["versions"].items()),
        "checksum": described["checksum"],
    }


def _kernel(summary: dict[str, Any], most: int = 5) -> str:
    pairs = zip(summary.get("columns", []), summary.get("importances", []), strict=False)
    leading = sorted(pairs, key=lambda pair: -pair[1])[:most]
    remark = remark_on_plain(summary.get("plain", False), summary.get("tried", []))
    return remark or "leans on " + ", ".join(f"{name} {share:.2f}" for name, share in leading)


def error_line(error: dict[str, Any], classes: bool, outputs: int) -> str:
    """The out-of-sample error that a fit recorded, and the rows it was measured on."""
    rows = "" if error.get("rows") is None else f"{error['rows']} "
    where = f"on {rows}{ASIDE}, which chose among kernels" if error["basis"] == ASIDE else f"by {error['basis']}"
    return f"{where}: {in_words(error, classes, outputs)}"


def importances(model: HGKEstimator) -> dict[str, float]:
    """The importance of every column, the largest first."""
    names, shares = model.model_.inputs.reader.names, model.feature_importances_
    return {names[j]: float(shares[j]) for j in np.argsort(-shares, kind="stable")}
