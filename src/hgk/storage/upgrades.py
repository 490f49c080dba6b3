"""Older model files: each function turns a description of one schema into one of the next.

In 1 no machines shared their coefficients; in 2 none had levels, a power for the few values of a label; in 3 copies of
a row were not counted, and calibrations had no power. What was added up to 4 has defaults. In 5 there is one machine,
on a mean of kernels where there are several, a target, and events have types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hgk.inputs import upgrade_inputs
from hgk.kernels import upgrade_architecture

SCHEMA = 5

Document = dict[str, Any]


def upgraded(description: Document, schema: int) -> Document:
    """In the present schema; a KeyError for an unknown one."""
    for version in range(schema, SCHEMA):
        description = UPGRADES[version](description)
    return description


def _to_one_machine(description: Document) -> Document:
    """4 -> 5."""
    description = upgrade_inputs(_with_kinds(description))
    old = description["model"]
    kept = {name: old[name] for name in ("estimator", "parameters", "forgotten", "names")}
    training = None
    if old.get("rows") is not None:
        renamed = {"rows": "rows", "X_fit": "table", "place": "place", "left_out": "left_out"}
        training = {"type": "Training", **{new: old[name] for name, new in renamed.items()}}
    model = {
        "type": "Model",
        "inputs": old["inputs"],
        "target": _target(old),
        "machine": _machine(old["machines"]),
        "node_importances": old["node_importances"],
        "history": [event for told in old["history"] if (event := _event(told)) is not None],
        "training": training,
    }
    return {**description, "model": {"type": "Saved", **kept, "model": model}}


def _with_kinds(part: Any) -> Any:
    """Up to schema 4 trees had exponents and oblique nodes in place of kinds."""
    if isinstance(part, list):
        return [_with_kinds(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "Architecture":
        return upgrade_architecture(part)
    return {name: _with_kinds(entry) for name, entry in part.items()}


def _target(old: Document) -> Document:
    first, single = old["machines"][0], old["single_column"]
    if old["estimator"] == "HGKRegressor":
        numbers = {"type": "Numbers", "scaling": old["y_scaling"], "single": single}
        levels = first.get("levels")
        if levels is None:
            return numbers
        return {"type": "FewValues", "numbers": numbers, "values": levels["values"], "power": levels.get("power", 1.0)}
    if old["estimator"] == "HGKQuantileRegressor":
        return {
            "type": "Quantiles",
            "scaling": old["y_scaling"],
            "levels": first["loss"]["tau"],
            "offsets": old["offsets"],
        }
    pairs = dict(old["parameters"]["pairs"]).get("multi_class") == "ava" and not single
    calibration = old["calibration"]
    if pairs and calibration["type"] == "Calibration":  # before 4: votes
        calibration = {"type": "Coupling", "slope": 1.0}
    return {
        "type": "Pairs" if pairs else "Classes",
        "values": old["classes"],
        "dtype": old.get("text_dtype") or "",
        "estimates": first["type"] != "OfLoss",
        "calibration": calibration,
    }


def _machine(machines: list[Document]) -> Document:
    """Entries that share their coefficients are one machine, on the mean of their kernels."""
    groups: list[list[Document]] = []
    for machine in machines:
        if groups and groups[-1][0]["alpha"] == machine["alpha"]:
            groups[-1].append(machine)
        else:
            groups.append([machine])
    merged = [_on_mean(group) for group in groups]
    return merged[0] if len(merged) == 1 else {"type": "MeanOfMachines", "machines": merged}


def _on_mean(group: list[Document]) -> Document:
    gone = ("share", "levels", "place", "unsolved")
    machine = {name: value for name, value in group[0].items() if name not in gone}
    if "gap" in machine:
        machine["gap_left"] = machine.pop("gap")
    if len(group) > 1:
        shares = [entry.get("share", 1.0) for entry in group]
        machine["kernel"] = {"type": "MeanKernel", "kernels": [m["kernel"] for m in group], "proportions": shares}
    return machine


# Names of events by the stage they had, and of their entries where these have changed.
STAGES: dict[str, tuple[str, dict[str, str]]] = {
    "adam": ("Step", {}),
    "watch": ("Watched", {}),
    "algorithm1": ("Searched", {"step": "how"}),
    "guard": ("Guarded", {}),
    "effort": ("Planned", {}),
    "levels": ("Refined", {}),
    "candidate": ("Judged", {}),
    "chosen": ("Chosen", {}),
    "optimism": ("Optimism", {}),
    "fold": ("Held", {}),
    "architecture": ("ArchitectureChosen", {}),
    "grid": ("GridChosen", {}),
    "loss grid": ("GridChosen", {}),
    "loss": ("LamChosen", {}),
    "machine": ("Trained", {}),
    "centres": ("Centres", {}),
    "rows": ("Counted", {}),
}


def _event(told: Document) -> Document | None:
    """None for what no version of today tells."""
    if told["stage"] not in STAGES:
        return None
    name, renamed = STAGES[told["stage"]]
    dropped = {"stage", "optimism"} if name == "Judged" else {"stage"}
    return {"type": name, **{renamed.get(key, key): value for key, value in told.items() if key not in dropped}}


UPGRADES: dict[int, Callable[[Document], Document]] = {
    schema: lambda description: description for schema in range(1, 4)
}
UPGRADES[4] = _to_one_machine
