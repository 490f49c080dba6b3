"""A fitted model as one HTML page that needs nothing else: no server, no network, light and dark, printable.

    write_report(model, "report.html")

The numbers are those of :mod:`hgk.insight.findings`; tables are plain HTML written here, figures are drawn by
``pages/report.js`` from JSON. Errors, residuals, calibration and coverage rest on rows set aside or on leave-one-out
values, never on rows the function was trained with. How a page is kept harmless is said in :mod:`hgk.report.web`.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from hgk.estimators import HGKClassifier, HGKRegressor
from hgk.insight import findings, in_words, plain_remark
from hgk.insight.findings import FOREST, LOO, NEW, SVM, Model, NewRows, Score, Tree
from hgk.progress import ASIDE
from hgk.report.palette import LOOKS
from hgk.report.web import assemble, colours, figure, or_none, plain_table, write

# What is shown at most: columns of figures, of the table of data and of the tree; pairs, points, rows, classes.
RELEVANT, SUMMARISED, IN_TREE, EFFECTS, PAIRED = 20, 500, 16, 6, 12
POINTS, WORST, CLASSES, FEATURES, BINS = 1000, 12, 20, 6, 10
LONGEST = 120  # characters of a name


def write_report(model: Model, path: str | Path, X: Any = None, y: Any = None, title: str | None = None) -> Path:
    """Write a page about a fitted model.

    Parameters
    ----------
    model : HGKRegressor or HGKClassifier
        Fitted. The page is about the rows it was trained on, which it holds.
    path : str or Path
        The file to write; its folder is made if it is not there, and a file that is there is replaced.
    X, y : table and labels, optional
        Rows that the fit has not seen, such as a test set; the errors on them are shown, too. Training rows among
        them are recognised and left out.
    title : str, optional
        The heading.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report.page import write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HGKClassifier("plain").fit(X[::3], y[::3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(model, f"{folder}/iris.html", X[1::3], y[1::3], title="Irises")
    ...     "<h1>Irises</h1>" in path.read_text(encoding="utf-8")
    True
    """
    return write(report(model, X, y, title), path)


def report(model: Model, X: Any = None, y: Any = None, title: str | None = None) -> str:
    """The page as text; see :func:`write_report`."""
    findings.require_model(model)
    model._training_rows("A report needs")
    if (X is None) != (y is None):
        raise ValueError("Of X and y one was given; rows that the fit has not seen need both.")
    new = None if X is None else findings.new_rows(model, X, y)
    data = report_data(model, new)
    name = title or f"{type(model).__name__} on {data['rows']:,} rows and {len(data['columns']):,} columns"
    script, style = (
        files("hgk.report.web").joinpath(f"report.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    shown = {key: value for key, value in data.items() if key not in ("worst", "summary", "rows", "note", "confusion")}
    return assemble(name, name, _colours() + style, _body(model, data), shown, script)


def _colours() -> str:
    ours, svm, forest = (LOOKS[name] for name in ("Ours (default)", "SVM", "RF"))
    kinds = {"smooth": LOOKS["DNN"], "rough": LOOKS["Ours (paper)"], "oblique": LOOKS["CatBoost"], "inner": svm}
    several = {f"k{i}": look for i, look in enumerate([ours, *(LOOKS[n] for n in list(LOOKS)[4:11])])}
    found = {"ours": ours, "svm": svm, "forest": forest, **kinds, **several}
    return colours({name: (look.light, look.dark) for name, look in found.items()})


# ---------------------------------------------------------------------------------------------------- data


def report_data(model: Model, new: NewRows | None = None) -> dict[str, Any]:
    """All that the page shows, as plain numbers and text."""
    relevance, order = findings.relevance(model), findings.most_relevant(model, RELEVANT)
    effects = [findings.effect(model, j) for j in order[:EFFECTS]]
    learning = findings.learning(model)
    return {
        "task": "classification" if isinstance(model, HGKClassifier) else "regression",
        # with another loss than least squares the predictions are of held-out folds
        "judged": "held-out" if model._of_loss else LOO,
        "rows": len(model._place),
        "note": None if new is None else {"given": len(new.X) + new.known, "known": new.known},
        "columns": [_cut(name) for name in findings.column_names(model)],
        "outputs": [_cut(name) for name in findings.output_names(model)],
        "errors": [_numbers(asdict(score)) for score in findings.errors(model, new)],
        "trees": [_tree_data(model, tree) for tree in findings.trees(model)],
        "plain": plain_remark(model),
        "relevance": _numbers({**asdict(relevance), "order": order}),
        "effects": [_effect_data(effect) for effect in effects],
        "pairs": _pairs_data(model, order[:PAIRED]),
        "learning": _learning_data(learning),
        "fit": _fit_data(model),
        "coverage": _numbers(asdict(findings.coverage(model, new))) if _has_intervals(model) else None,
        "confusion": _confusion(model),
        "worst": _worst(model, order),
        "summary": _summary(model),
    }


def _has_intervals(model: Model) -> bool:
    return isinstance(model, HGKRegressor) and not model._of_loss


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _numbers(value: Any) -> Any:
    """Numpy's numbers and arrays as Python's; what is not finite as None."""
    if isinstance(value, np.ndarray):
        return _numbers(value.tolist())
    if isinstance(value, dict):
        return {key: _numbers(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return or_none(value) if isinstance(value, float) else value


def _rounded(values: Any, digits: int | None = None) -> Any:
    """Six digits of what differs are enough for a curve, and make the page small."""
    digits = _digits(np.asarray(values, dtype=float)) if digits is None else digits
    return _numbers([_rounded(v, digits) if np.ndim(v) else float(f"{v:.{digits}g}") for v in values])


def _digits(values: np.ndarray) -> int:
    """Six, and those in which all values agree."""
    kept = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        spread = np.ptp(kept) if kept.size else 0.0
    alike = np.log10(np.abs(kept).max() / spread) if 0 < spread < np.inf else 0.0
    return 6 + int(np.clip(np.ceil(alike), 0, 11))


def _tree_data(model: Model, tree: Tree) -> dict[str, Any]:
    """The most relevant columns of this kernel; what the others have is summed up in one."""
    names = findings.column_names(model)
    carried = np.zeros(len(names))
    for edge in tree.edges:
        carried[edge.column] += edge.share
    seen = sorted({edge.column for edge in tree.edges}, key=lambda j: -carried[j])
    kept, others = (seen, []) if len(seen) <= IN_TREE else (seen[: IN_TREE - 1], seen[IN_TREE - 1 :])
    columns = [{"name": _cut(names[j]), "share": float(carried[j])} for j in kept]
    if others:
        columns.append({"name": f"{len(others)} other columns", "share": float(carried[others].sum())})
    place = {j: p for p, j in enumerate(kept)} | dict.fromkeys(others, len(kept))
    merged: dict[tuple[int, int], dict[str, Any]] = {}
    for edge in tree.edges:
        cell = merged.setdefault(
            (place[edge.column], edge.node),
            {"place": place[edge.column], "node": edge.node, "weight": 0.0, "share": 0.0, "features": []},
        )
        cell["weight"] = float(np.hypot(cell["weight"], edge.weight))
        cell["share"] += edge.share
        cell["features"] += edge.features
    for cell in merged.values():
        terms = sorted(cell["features"], key=lambda term: -term[1])
        cell["features"] = [(_cut(name), float(f"{v:.6g}")) for name, v in terms[:FEATURES]]
        cell["more"] = max(0, len(terms) - FEATURES)
    layers = [[asdict(node) for node in layer] for layer in tree.layers]
    own = {"name": tree.name, "share": tree.share, "gamma": tree.gamma, "lam": tree.lam}
    return _numbers({**own, "columns": columns, "layers": layers, "edges": list(merged.values())})


def _effect_data(effect: findings.Effect) -> dict[str, Any]:
    curves = list(effect.curves) if len(effect.curves) <= 10 else []  # of many classes only the means
    labels = None if effect.labels is None else [_cut(label) for label in effect.labels]
    return {
        "column": effect.column,
        "name": _cut(effect.name),
        "grid": _rounded(effect.grid),
        "labels": labels,
        "mean": _rounded(effect.mean),
        "curves": [_rounded(curve) for curve in curves],
        "rows": effect.rows,
    }


def _pairs_data(model: Model, order: list[int]) -> dict[str, Any]:
    share, mean = findings.pairs(model)[np.ix_(order, order)], model.feature_importances_[order]
    chance = np.outer(mean, mean)
    ratio = np.divide(share, chance, out=np.full_like(share, np.nan), where=chance > 0)
    return _numbers({"columns": order, "share": share, "ratio": ratio})


def _learning_data(learning: findings.Learning) -> dict[str, Any]:
    runs = [{**asdict(run), "kind": run.name.split(", fold ")[0]} for run in learning.runs]
    for run in runs:
        run["criterion"], run["watched"] = _rounded(run["criterion"]), _rounded(run["watched"])
    label = "criterion: leave-one-out error on the batch" if learning.kinds else "criterion"
    return _numbers({"runs": runs, "kinds": [asdict(kind) for kind in learning.kinds], "label": label})


def _first_rows(model: Model) -> np.ndarray:
    """For each distinct row the number of the first row given that went there."""
    kept = np.flatnonzero(model._place >= 0)
    return kept[np.unique(model._place[kept], return_index=True)[1]]


def _sample(model: Model) -> np.ndarray:
    return np.sort(np.random.default_rng(0).permutation(len(model._training_rows("The report needs")))[:POINTS])


def _fit_data(model: Model) -> dict[str, Any]:
    return _class_fit(model) if isinstance(model, HGKClassifier) else _regression_fit(model)


def _regression_fit(model: HGKRegressor) -> dict[str, Any]:
    """Labels, leave-one-out predictions and a histogram of residuals, one of each per output."""
    some = _sample(model)
    predicted = model._y_scaling.inverse(model._loo_of_rows().numpy())
    actual = model._y_scaling.inverse(model._training_rows("The report needs").Y.numpy())
    outputs = []
    for k in range(actual.shape[1]):
        counts, edges = _histogram(actual[:, k] - predicted[:, k])
        points = dict(zip(("actual", "predicted"), _rounded([actual[some, k], predicted[some, k]]), strict=True))
        outputs.append({**points, "edges": _rounded(edges), "counts": counts.tolist()})
    return {"rows": _first_rows(model)[some].tolist(), "outputs": outputs}


def _histogram(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thirty bins; one, where numbers are too coarse for more."""
    try:
        return np.histogram(values, bins=30)
    except ValueError:
        return np.array([len(values)]), np.array([values.min(), np.nextafter(values.max(), np.inf)])


def _loo_probabilities(model: HGKClassifier) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave-one-out probabilities, class numbers and weights of the distinct rows."""
    probability = model._probabilities(model._loo_of_rows().numpy())
    return (
        probability,
        findings.classes_of(model._training_rows("The report needs").Y.numpy()),
        model._training_rows("The report needs").weight.numpy(),
    )


def _class_fit(model: HGKClassifier) -> dict[str, Any]:
    probability, truth, weight = _loo_probabilities(model)
    asked = [1] if model._single_column else range(min(CLASSES, len(model.classes_)))
    curves = []
    for k in asked:
        fpr, tpr, _ = roc_curve(truth == k, probability[:, k], sample_weight=weight)
        some = np.unique(np.linspace(0, len(fpr) - 1, 200).astype(int))
        auc = float(roc_auc_score(truth == k, probability[:, k], sample_weight=weight))
        name = _cut(str(model.classes_[k]))
        curves.append({"name": name, "auc": auc, "fpr": _rounded(fpr[some]), "tpr": _rounded(tpr[some])})
    if model._single_column:
        what = f"probability of {_cut(str(model.classes_[1]))}"
        bins = _bins(probability[:, 1], truth == 1, weight)
        labels = {"label": f"{what}, said", "against": f"share of {_cut(str(model.classes_[1]))}"}
    else:
        bins = _bins(probability.max(1), probability.argmax(1) == truth, weight)
        labels = {"label": "probability of the predicted class, said", "against": "share of right predictions"}
    return {"roc": curves, "calibration": {**bins, **labels}}


def _bins(said: np.ndarray, happened: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Ten bins of equally many rows: the mean probability, how often it happened, and how many rows there are."""
    parts = [part for part in np.array_split(np.argsort(said, kind="stable"), BINS) if len(part)]
    mean = [np.average(said[part], weights=weight[part]) for part in parts]
    share = [np.average(happened[part], weights=weight[part]) for part in parts]
    return _numbers({"predicted": mean, "observed": share, "rows": [len(part) for part in parts]})


def _confusion(model: Model) -> list[list[float]] | None:
    if not isinstance(model, HGKClassifier) or len(model.classes_) > CLASSES:
        return None
    _, truth, weight = _loo_probabilities(model)
    predicted, k = findings.classes_of(model._loo_of_rows().numpy()), len(model.classes_)
    counts = np.bincount(truth * k + predicted, weights=weight, minlength=k * k)
    return [[float(v) for v in line] for line in counts.reshape(k, k)]


def _worst(model: Model, order: list[int]) -> dict[str, Any]:
    """The rows with the largest leave-one-out error, with the cells of the most relevant columns."""
    t, Y = model._loo_of_rows().numpy(), model._training_rows("The report needs").Y.numpy()
    if isinstance(model, HGKClassifier):
        probability, truth, _ = _loo_probabilities(model)
        right = probability[np.arange(len(truth)), truth]
        rows = np.argsort(right, kind="stable")[:WORST]
        head = ["row", "class", "predicted", "probability of its class"]
        found = findings.classes_of(t)
        cells = [[str(model.classes_[truth[i]]), str(model.classes_[found[i]]), f"{right[i]:.4f}"] for i in rows]
        numbers = [0, 3]
    else:
        rows = np.argsort(-((t - Y) ** 2).sum(1), kind="stable")[:WORST]
        actual, predicted = model._y_scaling.inverse(Y), model._y_scaling.inverse(t)
        names = [""] if model._single_column else [f" {k}" for k in range(Y.shape[1])]
        head = ["row", *(f"{what}{name}" for name in names for what in ("label", "predicted", "residual"))]
        cells = [
            [f"{v:.6g}" for a, p in zip(actual[i], predicted[i], strict=True) for v in (a, p, a - p)] for i in rows
        ]
        numbers = list(range(len(head)))
    shown, columns = order[:6], findings.column_names(model)
    numbers += [len(head) + p for p, j in enumerate(shown) if model._inputs.reader.levels[j] is None]
    first = _first_rows(model)
    body = [
        [str(first[i]), *(map(_cut, line)), *(_cell(model, j, model.X_fit_[i, j]) for j in shown)]
        for i, line in zip(rows, cells, strict=True)
    ]
    return {"head": [*head, *(_cut(columns[j]) for j in shown)], "body": body, "numbers": numbers}


def _cell(model: Model, column: int, code: float) -> str:
    levels = model._inputs.reader.levels[column]
    if np.isnan(code):
        return "–"
    return f"{code:.6g}" if levels is None else _cut(str(levels[int(code)]))


def _summary(model: Model) -> list[list[str]]:
    """One line per column of the training rows."""
    reader, lines = model._inputs.reader, []
    for j in findings.most_relevant(model, SUMMARISED):
        x = model.X_fit_[:, j]
        present = x[~np.isnan(x)]
        gone = f"{np.isnan(x).mean():.1%}"
        values = np.unique(present)
        if reader.levels[j] is None:
            low, middle, high = np.quantile(present, [0, 0.5, 1]) if len(present) else [np.nan] * 3
            about = f"{low:.4g} to {high:.4g}, median {middle:.4g}" if len(present) else "nothing but missing cells"
        else:
            counts = np.bincount(present.astype(int), minlength=1)
            often = np.argsort(-counts, kind="stable")[:3]
            about = ", ".join(f"{_cell(model, j, c)} ({counts[c] / len(x):.0%})" for c in often if counts[c])
        kind = "numeric" if reader.levels[j] is None else "categorical"
        share = f"{model.feature_importances_[j]:.4f}"
        lines.append([_cut(reader.names[j]), kind, str(len(values)), gone, share, about])
    return lines


# ---------------------------------------------------------------------------------------------------- body


def _body(model: Model, data: dict[str, Any]) -> str:
    sections = {
        "Error": _error_section(model, data),
        "Kernel": _kernel_section(data),
        "Columns": _columns_section(data),
        "Effects": _effects_section(data),
        "Pairs": _pairs_section(data),
        "Learning": _learning_section(model, data),
        "Predictions": _predictions_section(model, data),
        "Worst rows": _worst_section(data),
        "Data": _data_section(data),
        "Settings": _settings_section(model),
    }
    place = {name: f"part-{i}" for i, name in enumerate(sections)}
    links = "".join(f'<li><a href="#{place[name]}">{name}</a></li>' for name in sections)
    parts = "".join(
        f'<section id="{place[name]}"><h2>{name}</h2>\n{text}</section>\n' for name, text in sections.items()
    )
    return f'<p class="lead">{escape(_headline(data))}</p><nav aria-label="Parts"><ul>{links}</ul></nav>\n{parts}'


def _headline(data: dict[str, Any]) -> str:
    """The honest error, and how it compares."""
    scores = [Score(**{**cells, "r2": np.nan if cells["r2"] is None else cells["r2"]}) for cells in data["errors"]]
    ours = next((s for s in scores if s.basis == NEW), scores[0])
    classes = data["task"] == "classification"
    known = {"risk": ours.risk, "r2": ours.r2, "rmse": ours.rmse, "wrong": ours.wrong}
    measure = in_words(known, classes, len(data["outputs"]))
    said = [f"{'On' if ours.basis in (ASIDE, NEW) else 'By'} {ours.basis} this model has {measure}."]
    left = next((s for s in scores if s.basis == LOO and s.wrong is not None), None)
    if classes and ours.wrong is None and left is not None:
        said.append(f"By {LOO} {left.wrong:.1%} of the classes are wrong.")
    for method in (SVM, FOREST):
        same = [s for s in scores if s.method == method]
        other = next((s for s in same if s.basis == ours.basis), same[0] if same else None)
        if other is not None and other.risk > 0:
            said.append(
                f"{_compared(ours.risk, other.risk)} {'a' if method == FOREST else 'the'} {method}'s"
                f"{'' if other.basis == ours.basis else f' ({other.basis})'}."
            )
    return " ".join(said)


def _compared(ours: float, other: float) -> str:
    change = 1 - ours / other
    if abs(change) < 0.005:
        return "Its squared error is about"
    return f"Its squared error is {abs(change):.0%} {'below' if change > 0 else 'above'}"


def _error_section(model: Model, data: dict[str, Any]) -> str:
    rmse = any(score["rmse"] is not None for score in data["errors"])
    wrong = any(score["wrong"] is not None for score in data["errors"])
    head = ["method", "judged by", "mean squared error", "R²"]
    head += ["root mean squared error"] * rmse + ["wrong classes"] * wrong

    def line(score: dict[str, Any]) -> list[str]:
        cells = [score["method"], score["basis"], f"{score['risk']:.6g}", _or_dash(score["r2"], ".4f")]
        cells += [_or_dash(score["rmse"], ".6g")] * rmse + [_or_dash(score["wrong"], ".4f")] * wrong
        return cells

    known = data["note"]
    left_out = (
        f" Of the {known['given']} rows given for a test, {known['known']} were training rows and left out."
        if known and known["known"]
        else ""
    )
    about = (
        "Rows set aside were seen by no gradient; kinds of trees and λ were chosen on them. "
        f"{data['judged'].capitalize()} predictions leave a row out of the machine, not out of what the kernel was "
        "learned from, and flatter a learned kernel. Out of bag: each tree is asked for the rows it was not grown on. "
        "The mean squared error is of labels scaled to [-1, 1], predictions clipped there, summed over outputs."
    )
    numbers = range(2, len(head))
    return f"""{figure("errors", "Errors", "Shorter is better.")}
{plain_table("Errors", head, map(line, data["errors"]), tuple(numbers))}
<p class="soft">{escape(about + left_out)}</p>"""


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _select(key: str, label: str, options: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
    return f'<label>{escape(label)} <select id="choose-{key}" autocomplete="off">{lines}</select></label>'


def _kernel_section(data: dict[str, Any]) -> str:
    options = [(str(i), f"{tree['name']}, {tree['share']:.0%} of the average") for i, tree in enumerate(data["trees"])]
    controls = _select("tree", "Kernel", options)
    controls += _select("by", "Lines show", [("weight", "weights"), ("share", "shares of the exponent")])
    caption = (
        "From the columns through the nodes to the kernel. Lines are as wide as the weights they stand for; a column "
        "with several features (scaled, rank, steps, categories) has the root of the sum of their squares. Point at a "
        "line or a node, or use the arrow keys, for its values."
    )
    return figure("tree", "The kernel as a tree", caption, f'<div class="controls">{controls}</div>')


def _columns_section(data: dict[str, Any]) -> str:
    if data["plain"]:
        return _nothing_told(data)
    several = len(data["trees"]) > 1
    caption = "The share of the kernels' exponents that each column carries over pairs of training rows." + (
        " Ticks: each averaged kernel; line: their standard deviation about the mean." if several else ""
    )
    return figure("relevance", "Relevance of columns", caption)


def _nothing_told(data: dict[str, Any]) -> str:
    said = f"{data['plain'][:1].upper()}{data['plain'][1:]}; their effects on predictions are below."
    return f"<p>{escape(said)}</p>"


def _effects_section(data: dict[str, Any]) -> str:
    drawn = "".join(
        figure(f"effect-{i}", effect["name"], f"over {effect['rows']} rows") for i, effect in enumerate(data["effects"])
    )
    chooser = ""
    if len(data["outputs"]) > 1:
        options = [(str(k), name) for k, name in enumerate(data["outputs"])]
        chooser = f'<div class="controls">{_select("output", "Output", options)}</div>'
    about = (
        "What the model says on average over training rows when one column is moved and the others stay (partial "
        "dependence). Thin lines: single rows; where they are not parallel, the column works together with others."
    )
    if data["task"] == "regression":
        about += " They are moved to start where the average does."
    return f'{chooser}<p class="soft">{about}</p><div class="small">{drawn}</div>'


def _pairs_section(data: dict[str, Any]) -> str:
    found = data["pairs"]
    if len(found["columns"]) < 2:
        return "<p>There is a single column.</p>"
    if data["plain"]:
        return "<p>All columns stand in one node with equal weights: the plain kernel tells nothing about pairs.</p>"
    names = [data["columns"][j] for j in found["columns"]]
    listed = sorted(
        (
            (2 * found["share"][a][b], found["ratio"][a][b], names[b], names[a])
            for a in range(len(names))
            for b in range(a)
        ),
        key=lambda pair: -pair[0],
    )[:10]
    body = [[f"{a} and {b}", f"{share:.4f}", _or_dash(ratio, ".2f")] for share, ratio, a, b in listed]
    caption = (
        "How much two columns stand in the same first-layer nodes: the chance to meet both when a node and two of its "
        "columns are drawn by their shares of the exponent."
    )
    table = plain_table("Pairs", ["pair", "together", "times chance"], body, (1, 2))
    drawn = figure("pairs", "Pairs that share nodes", caption)
    return f'<div class="figures">{drawn}<div class="breaking">{table}</div></div>'


def _learning_section(model: Model, data: dict[str, Any]) -> str:
    learned = data["learning"]
    parts = []
    if learned["runs"]:
        caption = "What the weights minimise, step by step. Circles: where a run ended."
        if any(run["watched"] for run in learned["runs"]):
            caption += " Diamonds: the error on rows that no gradient has seen."
        parts.append(figure("runs", "Training curves", caption))
    if learned["kinds"]:
        caption = (
            "Hollow: the criterion at the end of the runs; full: the error on rows set aside. The distance is the "
            "criterion's optimism; the plain kernel learns no weights and has no criterion."
        )
        if (levels := model.machines_[0].levels) is not None:
            several = " Errors are summed over columns, one for each value of the label."
            caption += several if levels.outputs > 1 else " Errors are of predictions before their power."
        parts.append(figure("optimism", "Optimism of the criterion", caption))
    return f'<div class="figures">{"".join(parts)}</div>' if parts else "<p>No weights were learned.</p>"


def _predictions_section(model: Model, data: dict[str, Any]) -> str:
    judged = data["judged"].capitalize()
    if data["task"] == "classification":
        caption = f"{judged} probabilities: what was said, and how often it happened; ten bins of equal size."
        drawn = figure("calibration", "Calibration", caption)
        drawn += figure("roc", "ROC", f"{judged} probabilities of one class against the others; with its area.")
        return f'<div class="figures">{drawn}</div>{_confusion_table(model, data)}'
    drawn = figure("scatter", "Predictions", f"{judged} predictions; at most {POINTS:,} rows.")
    drawn += figure("residuals", "Residuals", f"Of {data['judged']} predictions, all rows.")
    return f'<div class="figures">{drawn}</div>{_intervals_part(data)}'


def _intervals_part(data: dict[str, Any]) -> str:
    covered = data["coverage"]
    if covered is None:  # another loss than least squares
        return ""
    first = " Of the first output." if len(data["outputs"]) > 1 else ""
    about = (
        f"Jackknife+ intervals (predict_interval) for {covered['rows']} training rows, each from all rows but itself."
        f"{first} Over all training rows they cover at least what is asked for, almost by construction; they may fail "
        "where predictions are small or large."
    )
    drawn = figure("coverage", "Coverage", "Labels inside, by the coverage asked for.")
    drawn += figure("parts", "Coverage by prediction", f"Fifths of the rows; {covered['asked']:.0%} was asked for.")
    new = covered["new"] or [None] * len(covered["levels"])
    head = ["asked for", "training rows inside", "median width", *(["new rows inside"] if covered["new"] else [])]
    lines = zip(covered["levels"], covered["covered"], covered["width"], new, strict=True)
    body = [
        [f"{a:.2f}", f"{b:.4f}", "∞" if c is None else f"{c:.5g}", *([] if n is None else [f"{n:.4f}"])]
        for a, b, c, n in lines
    ]
    table = plain_table("Coverage", head, body, tuple(range(len(head))))
    return f'<h3>Intervals</h3><p class="soft">{escape(about)}</p><div class="figures">{drawn}</div><p></p>{table}'


def _confusion_table(model: Model, data: dict[str, Any]) -> str:
    if data["confusion"] is None:
        return ""
    names = [_cut(str(label)) for label in model.classes_]
    body = [[name, *(f"{v:g}" for v in line)] for name, line in zip(names, data["confusion"], strict=True)]
    table = plain_table("Confusion", ["class", *(f"said {n}" for n in names)], body, tuple(range(1, len(names) + 1)))
    return f"<h3>{data['judged'].capitalize()} predictions by class</h3>{table}"


def _worst_section(data: dict[str, Any]) -> str:
    worst = data["worst"]
    table = plain_table("Worst rows", worst["head"], worst["body"], tuple(worst["numbers"]))
    about = (
        f"The training rows with the largest {data['judged']} errors; rows count from 0, in the order in which they "
        "were given. Wrong labels, rare kinds of rows and missing columns show here first."
    )
    return f'<p class="soft">{about}</p>{table}'


def _data_section(data: dict[str, Any]) -> str:
    head = ["column", "kind", "values", "missing", "relevance", "about"]
    body = [[*line[:3], line[3].rstrip("%"), *line[4:]] for line in data["summary"]]
    head[3] = "missing, %"
    more = len(data["columns"]) - len(body)
    rest = f" {more} less relevant columns are not listed." if more else ""
    table = plain_table("Columns", head, body, (2, 3, 4))
    return f'<p class="soft">{data["rows"]:,} rows, {len(data["columns"]):,} columns.{rest}</p>{table}'


def _settings_section(model: Model) -> str:
    settings = [[name, repr(value)] for name, value in model.get_params(deep=False).items()]
    settings += [["λ of the first kernel", f"{model.lam_:.6g}"], ["γ of the first kernel", f"{model.gamma_:.6g}"]]
    settings += [
        ["kernels averaged", str(len(model.machines_))],
        ["distinct rows", str(len(model._training_rows("The report needs")))],
    ]
    names = ("hgk", "numpy", "scikit-learn", "torch")
    versions = [["python", platform.python_version()], *([name, version(name)] for name in names)]
    return f"""<div class="figures"><div>{plain_table("Settings", ["setting", "value"], settings)}</div>
<div>{plain_table("Versions", ["software", "version"], versions)}</div></div>"""
