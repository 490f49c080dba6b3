"""Inputs as older model files hold them, in the form of today."""

from __future__ import annotations

from typing import Any

from hgk.storable import Malformed


def upgrade_inputs(description: dict) -> dict:
    """The description of a model file of schema 4 with the inputs of schema 5.

    Until schema 4 a reader held names, categories and marks, and an encoder the statistics of the columns and their
    features. Since schema 5 a column holds all that is known of it.
    """
    model = dict(description["model"])
    try:
        model["inputs"] = _inputs(model["inputs"])
        pairs = [[name, _with_inputs(value)] for name, value in model["parameters"]["pairs"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed("the inputs are not those of schema 4") from error
    return {**description, "model": {**model, "parameters": {"pairs": pairs}}}


def _with_inputs(parameter: Any) -> Any:
    """A parameter; a kernel that an estimator has learned brings its inputs along."""
    if not isinstance(parameter, dict) or not isinstance(parameter.get("inputs"), dict):
        return parameter
    return {**parameter, "inputs": _inputs(parameter["inputs"])}


def _inputs(document: dict[str, Any]) -> dict[str, Any]:
    reader, columns = document["reader"], document["encoder"]["columns"]
    marks = reader.get("marks") or [None] * len(columns)
    parts = zip(columns, reader["names"], reader["levels"], marks, strict=True)
    return {"type": "Inputs", "columns": [_column(*part) for part in parts]}


def _column(column: dict[str, Any], name: str, levels: list | None, marks: dict | None) -> dict[str, Any]:
    read: dict[str, Any] = {"type": "Numeric", "name": name, "marks": marks}
    if levels is not None:
        read = {"type": "Category", "name": name, "categories": levels}
    if column["type"] == "Unchanged":
        return {"type": "Unchanged", "name": name, "source": read}
    learned = {key: value for key, value in column.items() if key not in ("names", "kind")}
    if column.get("kind", "categories") != "categories":  # one code that no cell had
        learned = {"type": "Category", "missing": column["missing"], "idle": column["kind"]}
    return {**read, **learned}
