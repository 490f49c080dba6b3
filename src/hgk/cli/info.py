"""``hgk info``: what a model file holds."""

from __future__ import annotations

from typing import Any

from hgk.cli.shared import JsonOption, ModelArgument, print_json, say
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
        "matter": matter_line(summary.get("importance")),
        "kernel": remark_on_plain(summary.get("plain", False), summary.get("tried", [])) or "",
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


def matter_line(told: dict[str, Any] | None, most: int = 5) -> str:
    """The columns that matter most, with the standard errors of their importances; empty where nothing is known."""
    if told is None:
        return ""
    found = [(name, value) for name, value in told["columns"].items() if value["importance"]]
    if not found:
        return "no column more than noise"
    leading = ", ".join(f"{name} {value['importance']:.2g} ± {value['error']:.1g}" for name, value in found[:most])
    return f"{leading} ({told['unit']})"


def error_line(error: dict[str, Any], classes: bool, outputs: int) -> str:
    """The out-of-sample error that a fit recorded, and the rows it was measured on."""
    rows = "" if error.get("rows") is None else f"{error['rows']} "
    where = f"on {rows}{ASIDE}, which chose among kernels" if error["basis"] == ASIDE else f"by {error['basis']}"
    return f"{where}: {in_words(error, classes, outputs)}"
