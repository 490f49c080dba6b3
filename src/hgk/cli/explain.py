"""``hgk explain``: what predictions rest on, or the reasons for one of them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.table import Table as Listing

from hgk.cli import tables
from hgk.cli.dialect import DETECTED, Dialect, reads_tables
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
from hgk.insight import contributions, given_rows, interactions, node_terms, plain_remark, predictions_without, reasons
from hgk.insight.fitted import column_names, output_names
from hgk.storage import load

# Background rows for the reasons of a single row, and pairs of columns that are shown.
BACKGROUND_ROWS, PAIRS_SHOWN = 64, 5
# A smaller part of a prediction is rounding.
LEAST_REASON = 1e-9

RowOption = Annotated[
    int | None,
    typer.Option("--row", min=0, help="Explain this row, counted from 0: of --data, or of the training table."),
]
DataOption = Annotated[str | None, typer.Option("--data", help="The table that --row is in; - for standard input.")]
TopOption = Annotated[int, typer.Option(min=1, help="How many training rows, columns or nodes to show.")]
KernelOption = Annotated[
    bool, typer.Option("--kernel", help="Also show what the kernel rests on: shares of its exponent, and its nodes.")
]
TermsOption = Annotated[
    bool, typer.Option("--terms", help="With --row: also the largest terms of the sum over training rows.")
]


@reads_tables
def explain(
    model: ModelArgument,
    row: RowOption = None,
    data: DataOption = None,
    top: TopOption = 5,
    kernel: KernelOption = False,
    terms: TermsOption = False,
    dialect: Dialect = DETECTED,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show which columns matter, and which interact; or, for one row, the reasons for its prediction."""
    fitted = load(model)
    if data is not None and row is None:
        raise Unusable("--data was given without --row; give the number of the row to explain, counted from 0.")
    if terms and row is None:
        raise Unusable("--terms was given without --row; give the number of the row to explain, counted from 0.")
    notes: list[str] = []
    with warnings_noted(notes):
        if row is None:
            said = columns_explained(fitted, notes)
        else:
            said = row_explained(fitted, _one_row(fitted, row, data, dialect, notes), top, terms, notes)
        if kernel:
            said |= {"kernel": kernel_explained(fitted)}
    if as_json:
        print_json(said | {"notes": notes})
        return
    if not quiet:
        tell(notes)
    if row is None:
        _show_columns(said, max(top, 10))
    else:
        _show_row(said, row, fitted.model_.target.decoding_words)
    if kernel:
        _show_kernel(said["kernel"], max(top, 10))


# ---------------------------------------------------------------------------------------------------------- columns


def columns_explained(model: HGKEstimator, notes: list[str]) -> dict[str, Any]:
    """The importance of columns and their interactions; of a model without its rows what it has kept."""
    fitted = model.model_
    if fitted.importance is None and fitted.training is None:
        notes.append("importances need the training rows, which this file leaves out, and none were kept in it")
        return {"importance": None, "interactions": None}
    said: dict[str, Any] = {"importance": model.importance_.told, "interactions": None}
    if fitted.training is None:
        return said
    pairs, names = interactions(model), column_names(model)
    listed = [
        {
            "columns": [names[j] for j in pairs.pairs[p]],
            "importance": float(pairs.shown[p]),
            "mean": float(pairs.mean[p]),
            "error": float(pairs.error[p]),
            "H": float(pairs.H[p]),
        }
        for p in pairs.order
    ]
    return said | {"interactions": {"rows": pairs.rows, "among": pairs.names, "pairs": listed}}


def _show_columns(said: dict[str, Any], most: int) -> None:
    if said["importance"] is None:
        return
    columns = said["importance"]["columns"]
    listing = Listing("column", "importance", "±", "", title="Importance of columns")
    largest = max([*(told["importance"] for told in columns.values()), 1e-12])
    for name, told in list(columns.items())[:most]:
        value = f"{told['importance']:.3f}" if told["importance"] else "none"
        listing.add_row(rich_cell(name), value, f"{told['error']:.3f}", "█" * round(20 * told["importance"] / largest))
    console.print(listing)
    more = len(columns) - most
    if more > 0:
        rest = sum(1 for told in list(columns.values())[most:] if told["importance"])
        say(f"and {more} further columns, {rest or 'none'} of which {'matter' if rest != 1 else 'matters'}")
    say(f"{said['importance']['unit']}, over {said['importance']['rows']} training rows; ± is one standard error")
    if said["interactions"] is not None:
        _show_interactions(said["interactions"])


def _show_interactions(said: dict[str, Any]) -> None:
    found = [pair for pair in said["pairs"] if pair["importance"]][:PAIRS_SHOWN]
    if not found:
        say(f"no interaction is more than noise, among {len(said['among'])} columns that matter")
        return
    listing = Listing("columns", "importance", "±", "H", title="Interactions")
    for pair in found:
        both = " and ".join(pair["columns"])
        numbers = f"{pair['importance']:.3f}", f"{pair['error']:.3f}", f"{pair['H']:.2f}"
        listing.add_row(rich_cell(both), *numbers)
    console.print(listing)
    say("importance: the same without what two columns do only together; H: its share of their joint effect, 0 to 1")


# ------------------------------------------------------------------------------------------------------- the kernel


def kernel_explained(model: HGKEstimator) -> dict[str, Any]:
    """The share of the exponent by column, and by first-layer node of every kernel ("machine")."""
    names = model.model_.inputs.reader.names
    trees = [kernel.architecture for _, kernel, _, _ in model.machine_.terms]
    places = [(m, tree, i) for m, tree in enumerate(trees) for i in range(len(tree.coordinates))]
    nodes: list[dict[str, Any]] = []
    for (m, tree, i), shares in zip(places, model.node_shares_, strict=True):
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
    shares = model.exponent_shares_
    by_column = {names[j]: float(shares[j]) for j in np.argsort(-shares, kind="stable")}
    return {"columns": by_column, "nodes": nodes, "plain": plain_remark(model)}


def _show_kernel(said: dict[str, Any], most: int) -> None:
    if said["plain"]:
        say(f"{said['plain']}; the shares below are of how they were encoded")
    say("the kernel rests on these columns and nodes, by shares of its exponent, which are not importances")
    columns = Listing("column", "share", title="Columns of the kernel")
    for name, share in list(said["columns"].items())[:most]:
        columns.add_row(rich_cell(name), f"{share:.3f}")
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


def row_explained(model: HGKEstimator, X: Any, top: int, terms: bool, notes: list[str]) -> dict[str, Any]:
    """The prediction of one row, what each column adds to it, and what it would be without single training rows."""
    said = {"prediction": model.predict(X)[0], "reasons": _reasons(model, X)}
    if model.model_.training is None:
        notes.append("the influence of training rows needs them, and this file leaves them out")
    elif model.machine_.held_out is not None:
        notes.append("the influence of training rows is known for least squares alone; --terms shows terms of the sum")
    else:
        said["rows"] = _influences(model, X, top)
    return said | ({"terms": _terms(model, X, top)} if terms else {})


def _reasons(model: HGKEstimator, X: Any) -> list[dict[str, Any]]:
    """Output by output: base, value, and columns, those that add or take most first."""
    found = reasons(model, X, background=BACKGROUND_ROWS)
    values, errors = (part[0].reshape(part.shape[1], -1) for part in (found.values, found.errors))
    base = np.ravel(found.base_values[0])
    told = []
    for k, output in enumerate(found.output_names):
        order = np.argsort(-np.abs(values[:, k]), kind="stable")
        columns = [
            {
                "column": found.feature_names[j],
                "cell": found.display_data[0, j],
                "adds": float(values[j, k]),
                "error": float(errors[j, k]),
            }
            for j in order
        ]
        total = float(base[k] + values[:, k].sum())
        told.append({"output": output, "base": float(base[k]), "value": total, "columns": columns})
    return told


def _influences(model: HGKEstimator, X: Any, top: int) -> list[dict[str, Any]]:
    """Output by output: the training rows without which the prediction would differ most."""
    without = predictions_without(model, X)
    known = _known_rows(model, len(model.model_.training.rows))  # type: ignore[union-attr]
    told = []
    for k, output in enumerate(output_names(model)):
        change = without.now[0, k] - without.values[0, :, k]
        order = np.argsort(-np.abs(change), kind="stable")[:top]
        rows = [{**known(i), "without": float(without.values[0, i, k]), "adds": float(change[i])} for i in order]
        told.append({"output": output, "value": float(without.now[0, k]), "rows": rows})
    return told


def _terms(model: HGKEstimator, X: Any, top: int) -> dict[str, Any]:
    """The prediction as a sum over training rows; per output, the largest terms and the rest."""
    sums, target = contributions(model, X, top), model.model_.target
    x, Z = model.features(X)[0], model.machine_.X
    kernel, known = model.machine_.kernel_at(x), _known_rows(model)
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
    return {**target.decoding, "outputs": outputs}


def _known_rows(model: HGKEstimator, distinct: int | None = None):
    """From a row of the machine, or a distinct training row, to its number among those given, its label and its cells,
    the most important first.
    """
    training = model.model_.training
    if training is None:
        return lambda _: {"row": None, "label": None}
    numbers = given_rows(model) if distinct is None else training.first
    names = column_names(model)
    columns = [names[j] for j in model.importance_.order]
    place = training.place[numbers]
    labels = model.model_.target.labels(training.rows.Y.numpy()[place]).tolist()

    def known(i: int) -> dict[str, Any]:
        cells = tables.decoded_row(model, training.table[place[i]])
        return {"row": int(numbers[i]), "label": labels[i], "cells": {name: cells[name] for name in columns}}

    return known


def _show_row(said: dict[str, Any], row: int, decoding: str) -> None:
    say(f"row {row}: prediction {_shown(said['prediction'])}")
    for output in said["reasons"]:
        console.print(_reasons_listing(output))
    for output in said.get("rows", []):
        console.print(_influence_listing(output))
    if "terms" in said:
        if decoding:
            say(decoding)
        for output in said["terms"]["outputs"]:
            console.print(_terms_listing(output))


def _reasons_listing(output: dict[str, Any], most: int = 12) -> Listing:
    listing = Listing("column", "cell", "adds", "±")
    listing.title = rich_cell(f"{output['output']}: {output['base']:.5g} on average, {output['value']:.5g} here")
    listing.add_row("mean prediction", "", f"{output['base']:.5g}", "")
    for entry in output["columns"][:most]:
        nothing = abs(entry["adds"]) < LEAST_REASON * abs(output["value"])
        numbers = ("0", "") if nothing else (f"{entry['adds']:+.4g}", f"{entry['error']:.2g}")
        listing.add_row(rich_cell(entry["column"]), rich_cell(entry["cell"]), *numbers)
    rest = output["columns"][most:]
    if rest:
        listing.add_row(f"{len(rest)} other columns", "", f"{sum(entry['adds'] for entry in rest):+.4g}", "")
    listing.add_row("sum", "", f"{output['value']:.5g}", "")
    return listing


def _influence_listing(output: dict[str, Any]) -> Listing:
    names = list(output["rows"][0]["cells"])[:4]
    listing = Listing("training row", "label", "without it", "adds")
    for name in names:
        listing.add_column(rich_cell(name))
    listing.title = rich_cell(f"{output['output']}: training rows that the prediction {output['value']:.5g} leans on")
    for entry in output["rows"]:
        numbers = f"{entry['without']:.5g}", f"{entry['adds']:+.4g}"
        cells = [rich_cell(_shown(entry["cells"][name])) for name in names]
        listing.add_row(str(entry["row"]), rich_cell(_shown(entry["label"])), *numbers, *cells)
    return listing


def _terms_listing(output: dict[str, Any]) -> Listing:
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
