"""``hgk explain``: what the kernel leans on, or the training rows that make up one prediction."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.table import Table as Listing

from hgk.cli import tables
from hgk.cli.dialect import DETECTED, Dialect, reads_tables
from hgk.cli.info import importances
from hgk.cli.rows import read_rows, training_row
from hgk.cli.shared import (
    JsonOption,
    ModelArgument,
    QuietOption,
    Unusable,
    console,
    print_json,
    rich_cell,
    say,
    tell,
    warnings_noted,
)
from hgk.estimators import HGKEstimator
from hgk.insight import contributions, given_rows, node_terms, plain_remark
from hgk.storage import load

RowOption = Annotated[
    int | None,
    typer.Option("--row", min=0, help="Explain this row, counted from 0: of --data, or of the training table."),
]
DataOption = Annotated[str | None, typer.Option("--data", help="The table that --row is in; - for standard input.")]
TopOption = Annotated[int, typer.Option(min=1, help="How many training rows, columns or nodes to show.")]


@reads_tables
def explain(
    model: ModelArgument,
    row: RowOption = None,
    data: DataOption = None,
    top: TopOption = 5,
    dialect: Dialect = DETECTED,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what the kernel leans on; or, for one row, the training rows that make up its prediction."""
    fitted = load(model)
    if data is not None and row is None:
        raise Unusable("--data was given without --row; give the number of the row to explain, counted from 0.")
    notes: list[str] = []
    if row is None:
        said = _kernel_explained(fitted)
    else:
        X = _one_row(fitted, row, data, dialect, notes)
        with warnings_noted(notes):
            said = row_explained(fitted, X, top)
    if as_json:
        print_json(said | {"notes": notes})
        return
    if not quiet:
        tell(notes)
    if row is None:
        _show_kernel(said, max(top, 10))
    else:
        _show_row(said, row, fitted.model_.target.decoding_words)


# ------------------------------------------------------------------------------------------------------- the kernel


def _kernel_explained(model: HGKEstimator) -> dict[str, Any]:
    """The importance of columns, and of the first-layer nodes of every kernel ("machine")."""
    names = model.model_.inputs.reader.names
    trees = [kernel.architecture for _, kernel, _, _ in model.machine_.terms]
    places = [(m, tree, i) for m, tree in enumerate(trees) for i in range(len(tree.coordinates))]
    nodes: list[dict[str, Any]] = []
    for (m, tree, i), shares in zip(places, model.node_importances_, strict=True):
        order = np.argsort(-shares, kind="stable")
        label = tree.labels[i] if tree.labels else f"node {i}"
        columns = {names[j]: float(shares[j]) for j in order if shares[j] > 0}
        node = {
            "machine": m,
            "node": label,
            "kind": tree.kinds[i].name,
            "share": float(shares.sum()),
            "columns": columns,
        }
        nodes.append(node)
    nodes.sort(key=lambda node: -node["share"])
    return {"columns": importances(model), "nodes": nodes, "plain": plain_remark(model)}


def _show_kernel(said: dict[str, Any], most: int) -> None:
    if said["plain"]:
        say(f"{said['plain']}; the shares below are of how they were encoded")
    columns = Listing("column", "relevance", title="Columns: their share of the kernels' exponents")
    largest = max([*said["columns"].values(), 1e-12])
    for name, share in list(said["columns"].items())[:most]:
        columns.add_row(rich_cell(name), f"{share:.3f} {'█' * round(20 * share / largest)}")
    nodes = Listing("machine", "node", "kind", "share", "mostly", title="Nodes")
    for node in said["nodes"][:most]:
        mostly = ", ".join(f"{name} {share:.2f}" for name, share in list(node["columns"].items())[:4])
        nodes.add_row(
            str(node["machine"]), rich_cell(node["node"]), node["kind"], f"{node['share']:.3f}", rich_cell(mostly)
        )
    console.print(columns, nodes)


# ---------------------------------------------------------------------------------------------------------- one row


def _one_row(model: HGKEstimator, row: int, data: str | None, dialect: Dialect, notes: list[str]) -> Any:
    """Row number ``row`` of a table, or of the training rows."""
    if data is None:
        return training_row(model, row)
    X = read_rows(model, data, dialect, notes)
    if row >= len(X):
        raise Unusable(f"--row {row} was given and the table has {len(X)} rows; give one from 0 to {len(X) - 1}.")
    return X[row : row + 1]


def row_explained(model: HGKEstimator, X: Any, top: int) -> dict[str, Any]:
    """The prediction of one row as a sum; per output, the largest terms and the rest."""
    sums, target, known = contributions(model, X, top), model.model_.target, _known_rows(model)
    x, Z = model.features(X)[0], model.machine_.X
    kernel = model.machine_.kernel_at(x)
    outputs = []
    for j, output in enumerate(target.columns):
        index = sums.rows[0, j]
        apart = node_terms(kernel, x, Z[torch.from_numpy(index)].double()).tolist()
        rows = [
            {**known(i), "similarity": sums.similarity[0, j, k], "contribution": sums.contribution[0, j, k], "apart": a}
            for k, (i, a) in enumerate(zip(index, apart, strict=True))
        ]
        total = {"base": sums.base[j], "rest": sums.rest[0, j], "value": sums.value[0, j]}
        outputs.append({"output": output, **total, "rows": rows})
    return {"prediction": model.predict(X)[0], **target.decoding, "outputs": outputs}


def _known_rows(model: HGKEstimator):
    """From a row of the machine to its number among those given, its label and its cells, the most important first."""
    training = model.model_.training
    if training is None:
        return lambda _: {"row": None, "label": None}
    numbers, columns = given_rows(model), importances(model)
    place = training.place[numbers]
    labels = model.model_.target.labels(training.rows.Y.numpy()[place]).tolist()

    def known(i: int) -> dict[str, Any]:
        cells = tables.decoded_row(model, training.table[place[i]])
        return {"row": int(numbers[i]), "label": labels[i], "cells": {name: cells[name] for name in columns}}

    return known


def _show_row(said: dict[str, Any], row: int, decoding: str) -> None:
    say(f"row {row}: prediction {_shown(said['prediction'])}")
    if decoding:
        say(decoding)
    for output in said["outputs"]:
        console.print(_listing(output))


def _listing(output: dict[str, Any]) -> Listing:
    names = list(output["rows"][0].get("cells", {}))[:4]
    listing = Listing("training row", "label", "similarity", "contribution")
    for name in names:
        listing.add_column(rich_cell(name))
    total = f"{output['base']:.5g} + rows below + others {output['rest']:+.5g} = {output['value']:.5g}"
    listing.title = rich_cell(f"{output['output']}: {total}")
    for entry in output["rows"]:
        number = "not kept" if entry["row"] is None else str(entry["row"])
        numbers = f"{entry['similarity']:.3f}", f"{entry['contribution']:+.5g}"
        cells = [rich_cell(_shown(entry["cells"][name])) for name in names]
        listing.add_row(number, rich_cell(_shown(entry["label"])), *numbers, *cells)
    return listing


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
