"""What there is to see in a fitted model, as numbers: what the report and the displays draw.

With s_ij the part of machine k's exponent that first-layer node i and column j carry (``node_importances_``, divided by
the machine's share in the average):

    relevance   r_kj = Σ_i s_ij,  and feature_importances_ = Σ_k share_k r_k
    pairs       p_ab = Σ_k share_k Σ_i s_ia s_ib / s_i,   s_i = Σ_j s_ij

p_ab is the chance to meet column a and then column b when a node is drawn by its share and two of its columns by
theirs; Σ_b p_ab = r_a, and p_ab > r_a r_b says that a and b stand together more often than by chance.

    effects     E_x f(z, x_rest) over training rows x as column z moves: partial dependence on a sample of rows
    coverage    jackknife+ at row i from the others: quantiles over j of f^(-i,-j)(x_i) ∓ |y_j - f^(-i,-j)(x_j)|

The last comes in closed form from the factors of the machines, as leave-one-out predictions do: kernels and c = nλ stay
fixed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.utils.validation import check_is_fitted

from hgk.arrays import threads_for
from hgk.estimators import HGKClassifier, HGKRegressor
from hgk.estimators.base import CLIP
from hgk.inputs.table import Scaling
from hgk.machines.base import Rows, average, leave_two_out_average, proportions, weighted_quantile
from hgk.progress import ASIDE, FOLDS, honest_error

Model = HGKRegressor | HGKClassifier

# Rows that effects are averaged over, points per curve, and single rows whose curves are kept.
SAMPLE, POINTS, CURVES = 100, 21, 20
# Rows whose intervals are checked.
COVERED = 600
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Rows up to which a plain machine is fitted for comparison where the fit itself has none: seconds.
PLAIN = 3000
ASKED, FIFTHS = 0.9, 5
MOST_LEVELS = 12


def require_model(model: Any) -> None:
    """Say in a sentence what a report or a display can be made of."""
    if not isinstance(model, Model):
        raise TypeError(f"A {type(model).__name__} was given; a fitted HGKRegressor or HGKClassifier is expected.")
    check_is_fitted(model)
    if isinstance(model, HGKClassifier) and model.multi_class == "ava":
        raise ValueError(
            "A classifier of all against all was given; fit with multi_class='ovr' for this view of a model."
        )


def column_names(model: Model) -> tuple[str, ...]:
    return model._inputs.reader.names


def output_names(model: Model) -> list[str]:
    """What :func:`responses` has a column of."""
    if isinstance(model, HGKClassifier):
        return [f"P({label})" for label in (model.classes_[1:] if model._single_column else model.classes_)]
    first = model.machines_[0]
    outputs = 1 if first.levels is not None else first.alpha.shape[1]
    return ["prediction"] if model._single_column else [f"output {k}" for k in range(outputs)]


def column_indices(model: Model, columns: Sequence[int | str]) -> list[int]:
    """Columns by name or number."""
    names = column_names(model)
    found = []
    for column in columns:
        if isinstance(column, str) and column in names:
            found.append(names.index(column))
        elif not isinstance(column, str) and 0 <= int(column) < len(names):
            found.append(int(column))
        else:
            raise ValueError(
                f"The column {column!r} was given; a name or a number from 0 to {len(names) - 1} is expected, and the "
                f"model knows {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}."
            )
    return found


def most_relevant(model: Model, most: int) -> list[int]:
    return np.argsort(-model.feature_importances_, kind="stable")[:most].tolist()


# ------------------------------------------------------------------------------------------------- kernels


@dataclass(frozen=True)
class Node:
    """A node below the top: its weight w to its parent, and its share of the kernel's exponent."""

    name: str
    kind: str
    parent: int
    weight: float
    share: float


@dataclass(frozen=True)
class Edge:
    """From a column to a first-layer node: |v| = (Σ v_f²)^½ over the column's features f, and each of them."""

    column: int
    node: int
    weight: float
    share: float
    features: list[tuple[str, float]]


@dataclass(frozen=True)
class Tree:
    """One kernel of the average: ``layers[0]`` are the first-layer nodes, the last layer is the top node."""

    name: str
    share: float
    gamma: float
    lam: float
    layers: list[list[Node]]
    edges: list[Edge]


def trees(model: Model) -> list[Tree]:
    """The kernels that are averaged."""
    require_model(model)
    cells = zip(proportions(model.machines_), model.machines_, _parts(model), strict=True)
    return [_tree(model, k, machine, share, part) for k, (share, machine, part) in enumerate(cells)]


def _tree(model: Model, k: int, machine, share: float, part: np.ndarray) -> Tree:
    kernel, tree = machine.kernel, machine.kernel.architecture
    layers: list[list[Node]] = []
    carried = part.sum(1)
    for layer in range(1, tree.depth + 1):
        many = range(len(carried))
        top = layer == tree.depth
        parents = [0] * len(carried) if top else list(tree.parents[layer - 1])
        weights = [1.0] * len(carried) if top else kernel.W[layer].abs().tolist()
        names = ["kernel"] if top else [_node_name(tree, layer, i) for i in many]
        kinds = [_node_kind(tree, i) if layer == 1 else "top" if top else "inner" for i in many]
        layers.append([Node(names[i], kinds[i], parents[i], weights[i], float(carried[i])) for i in many])
        carried = np.bincount(parents, weights=carried)
    name = f"kernel {k + 1}: {_nodes_text([node.kind for node in layers[0]])}"
    return Tree(name, share, kernel.gamma, machine.lam, layers, _edges(model, kernel, part))


def _node_name(tree, layer: int, i: int) -> str:
    return tree.labels[i] if layer == 1 and tree.labels else f"node {i + 1}" if layer == 1 else f"node {layer}.{i + 1}"


def _node_kind(tree, i: int) -> str:
    return "oblique" if i in tree.oblique else "smooth" if tree.q[i] == 2 else f"rough, q = {tree.q[i]:g}"


def _nodes_text(kinds: Sequence[str]) -> str:
    counts = {kind: list(kinds).count(kind) for kind in dict.fromkeys(k.split(",")[0] for k in kinds)}
    counts = {kind: sum(k.startswith(kind) for k in kinds) for kind in counts}
    return ", ".join(f"{n} {kind}" for kind, n in counts.items()) + (" node" if len(kinds) == 1 else " nodes")


def _edges(model: Model, kernel, part: np.ndarray) -> list[Edge]:
    features, V = model._inputs.encoder.features, kernel.W[0].abs()
    found = []
    for i, index_set in enumerate(kernel.architecture.coordinates):
        own: dict[int, list[tuple[str, float]]] = {}
        for f in index_set:
            if float(V[i, f]) > 0:
                own.setdefault(features[f].column, []).append((features[f].name, float(V[i, f])))
        for j, terms in own.items():
            weight = math.sqrt(sum(v * v for _, v in terms))
            found.append(Edge(j, i, weight, float(part[i, j]), sorted(terms, key=lambda term: -term[1])))
    return found


# -------------------------------------------------------------------------------------- relevance and pairs


@dataclass(frozen=True)
class Relevance:
    """Per column: the mean over machines (``feature_importances_``), the standard deviation, each machine's own."""

    mean: np.ndarray
    deviation: np.ndarray
    machines: np.ndarray
    shares: np.ndarray


def relevance(model: Model) -> Relevance:
    """Column relevance, and how far the averaged machines agree on it."""
    require_model(model)
    shares = np.array(proportions(model.machines_))
    own = np.array([part.sum(0) for part in _parts(model)])
    mean = model.feature_importances_
    return Relevance(mean, np.sqrt(shares @ (own - mean) ** 2), own, shares)


def _parts(model: Model) -> list[np.ndarray]:
    """s_ij of every machine, nodes x columns."""
    sizes = [len(machine.kernel.architecture.coordinates) for machine in model.machines_]
    split = np.split(model.node_importances_, np.cumsum(sizes)[:-1])
    return [part / share for part, share in zip(split, proportions(model.machines_), strict=True)]


def pairs(model: Model) -> np.ndarray:
    """p_ab, columns x columns; sums to 1, and its row sums are ``feature_importances_``."""
    require_model(model)
    total = np.zeros((model.n_features_in_,) * 2)
    for share, part in zip(proportions(model.machines_), _parts(model), strict=True):
        nodes = part.sum(1, keepdims=True)
        inside = np.divide(part, nodes, out=np.zeros_like(part), where=nodes > 0)
        total += share * part.T @ inside
    return total


# ------------------------------------------------------------------------------------------------- effects


@dataclass(frozen=True)
class Effect:
    """Responses as one column moves: ``mean`` (outputs x points), ``curves`` (outputs x rows x points).

    ``labels`` are the categories of a categorical column, else None. The last point is "missing" where the column
    has missing cells; ``grid`` is NaN there. ``rows`` is how many rows the mean is over.
    """

    column: int
    name: str
    grid: np.ndarray
    labels: list[str] | None
    mean: np.ndarray
    curves: np.ndarray
    rows: int
    is_probability: bool


def responses(model: Model, codes: np.ndarray) -> np.ndarray:
    """Predictions in the labels' unit, or probabilities, of rows as the reader gives them; one column per output."""
    t = average(model.machines_, torch.from_numpy(model._inputs.encoder(codes)), model._clip).numpy()
    if isinstance(model, HGKClassifier):
        probability = model._probabilities(t)
        return probability[:, 1:] if model._single_column else probability
    return model._y_scaling.inverse(t)


def codes_of(model: Model, X: Any) -> np.ndarray:
    """A table as the reader gives it: numbers, codes of categories, NaN."""
    return model._inputs.reader(model._columns(X, reset=False))


def effect(model: Model, column: int, X: Any = None, rows: int = SAMPLE, points: int = POINTS) -> Effect:
    """Partial dependence on one column, exact where there are at most ``rows`` rows."""
    codes, weight = model.X_fit_, model._training_rows("The report needs").weight.numpy()
    if X is not None:
        codes = codes_of(model, X)
        weight = np.ones(len(codes))
    some = np.random.default_rng(0).permutation(len(codes))[:rows]
    grid, labels = _grid(model, codes[:, column], column, points)
    table = np.repeat(codes[some], len(grid), axis=0)
    table[:, column] = np.tile(grid, len(some))
    curves = responses(model, table).reshape(len(some), len(grid), -1).transpose(2, 0, 1)
    mean = np.average(curves, axis=1, weights=weight[some])
    name = column_names(model)[column]
    kept = curves[:, :CURVES]
    return Effect(column, name, grid, labels, mean, kept, len(some), isinstance(model, HGKClassifier))


def _grid(model: Model, x: np.ndarray, column: int, points: int) -> tuple[np.ndarray, list[str] | None]:
    """Where a column is asked: its values or categories if they are few, else evenly between its 1 % and 99 %."""
    levels, present = model._inputs.reader.levels[column], x[~np.isnan(x)]
    gone = [np.nan] if len(present) < len(x) or not len(present) else []
    if levels is not None:
        counts = np.bincount(present[present >= 0].astype(int), minlength=max(1, len(levels)))
        kept = np.sort(np.argsort(-counts, kind="stable")[: min(MOST_LEVELS, len(levels))]).astype(float)
        return np.array([*kept, *gone]), [*(str(levels[int(c)]) for c in kept), *(["missing"] if gone else [])]
    values = np.unique(present)
    if len(values) > points:
        low, high = np.quantile(present, [0.01, 0.99])
        values = np.linspace(low, high, points)
    return np.array([*np.unique(values), *gone]), None


# ------------------------------------------------------------------------------------------------ learning


@dataclass(frozen=True)
class LearningRun:
    """One run: what its weights minimised, step by step, and the error on rows it did not see, where it was watched."""

    name: str
    steps: list[int]
    criterion: list[float]
    watched_steps: list[int] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class TriedKind:
    """A kind of tree: its criterion at the end, its error on rows set aside, and the difference.

    Where the label has a column for each of its values, they are sums over these.
    """

    name: str
    criterion: float
    honest: float
    optimism: float
    chosen: bool


@dataclass(frozen=True)
class Learning:
    runs: list[LearningRun]
    kinds: list[TriedKind]


def learning(model: Model) -> Learning:
    """Training curves and the optimism of the criterion, from ``history_``."""
    require_model(model)
    runs: dict[str, LearningRun] = {}
    for event in model.history_:
        if event.get("stage") in ("adam", "watch", "algorithm1"):
            key = _run_name(event)
            _note(runs.setdefault(key, LearningRun(key, [], [])), event)
    chosen = {name for e in model.history_ if e.get("stage") == "chosen" for name in e["candidates"]}
    kinds = [
        TriedKind(e["candidate"], e["criterion"], e["honest"], e["optimism"], e["candidate"] in chosen)
        for e in model.history_
        if e.get("stage") == "candidate"
    ]
    return Learning(list(runs.values()), kinds)


def _run_name(event: dict[str, Any]) -> str:
    if "architecture" in event:
        return f"architecture {event['architecture'] + 1}, fold {event['fold'] + 1}"
    if "candidate" in event:
        return f"{event['candidate']}, " + (f"fold {event['fold'] + 1}" if "fold" in event else "all rows")
    return "weights"


def _note(run: LearningRun, event: dict[str, Any]) -> None:
    """Steps of a second round follow those of the first."""
    last = run.steps[-1] if run.steps else 0
    if event["stage"] == "adam":
        run.steps.append(last + 1)
        run.criterion.append(event["criterion"])
    elif event["stage"] == "watch":
        run.watched_steps.append(last)
        run.watched.append(event["risk"])
    else:  # Algorithm 1: the risk on D2 is minimised, D3 remembers the best
        run.steps.append(last + 1)
        run.criterion.append(event["risk_D2"])
        run.watched_steps.append(last + 1)
        run.watched.append(event["risk_D3"])


# -------------------------------------------------------------------------------------------------- errors


@dataclass(frozen=True)
class Score:
    """An error: the mean squared error for labels scaled to [-1, 1], R², and what else is known.

    ``rmse`` is in the unit of the labels, for a single output; ``wrong`` is the share of wrong classes.
    """

    method: str
    basis: str
    risk: float
    r2: float
    rmse: float | None = None
    wrong: float | None = None


LOO, BAG, NEW = "leave-one-out", "out of bag", "new rows"
OURS, SVM, FOREST = "this model", "plain Gaussian SVM", "random forest"


class Scorer:
    """Errors on some rows, all measured alike: labels scaled to [-1, 1], predictions clipped there."""

    def __init__(self, model: Model, Y: np.ndarray, weight: np.ndarray):
        self.model, self.Y, self.weight, self.share = model, Y, weight, weight / weight.sum()
        self.variance = float((self.share @ (Y - self.share @ Y) ** 2).sum())
        self.single = isinstance(model, HGKRegressor) and model._single_column

    def known(self, method: str, basis: str, risk: float, wrong: float | None = None) -> Score:
        r2 = 1 - risk / self.variance if self.variance > 0 else math.nan
        rmse = float(self.model._y_scaling.half[0]) * math.sqrt(risk) if self.single else None
        return Score(method, basis, risk, r2, rmse, wrong)

    def __call__(self, method: str, basis: str, t: np.ndarray) -> Score:
        risk = float(self.share @ ((np.clip(t, -CLIP, CLIP) - self.Y) ** 2).sum(1))
        wrong = None
        if isinstance(self.model, HGKClassifier):
            wrong = float(self.share @ (classes_of(t) != classes_of(self.Y)))
        return self.known(method, basis, risk, wrong)


def classes_of(t: np.ndarray) -> np.ndarray:
    """The number of the class with the largest value."""
    return (t[:, 0] > 0).astype(int) if t.shape[1] == 1 else t.argmax(1)


@dataclass(frozen=True)
class NewRows:
    """Rows that the fit has not seen, as codes and scaled labels; ``known`` counts training rows among those given."""

    X: np.ndarray
    Y: np.ndarray
    known: int


def new_rows(model: Model, X: Any, y: Any) -> NewRows:
    """What is left of X and y without the training rows."""
    codes, Y = codes_of(model, X), _labels(model, np.asarray(y))
    if len(codes) != len(Y):
        raise ValueError(f"X has {len(codes)} rows and y has {len(Y)}; as many labels as rows are expected.")
    seen = {row.tobytes() for row in _together(model.X_fit_, model._training_rows("The report needs").Y.numpy())}
    fresh = np.array([row.tobytes() not in seen for row in _together(codes, Y)], dtype=bool)
    return NewRows(codes[fresh], Y[fresh], int((~fresh).sum()))


def _labels(model: Model, y: np.ndarray) -> np.ndarray:
    if isinstance(model, HGKRegressor):
        return model._y_scaling(y.reshape(len(y), -1).astype(float))
    unknown = sorted({str(label) for label in np.unique(y[~np.isin(y, model.classes_)])})
    if unknown:
        raise ValueError(
            f"y holds the classes {', '.join(unknown[:5])}, which the model does not know; leave them out."
        )
    wanted = model.classes_[1:] if model._single_column else model.classes_
    return np.where(y[:, None] == wanted, 1.0, -1.0)


def _together(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Cells and labels, with one bit pattern for missing cells and for zero."""
    together = np.column_stack([X, Y.round(9)]) + 0.0
    return np.where(np.isnan(together), np.inf, together)


def errors(model: Model, new: NewRows | None = None, compare: bool = True) -> list[Score]:
    """The model's error, honest ones first, beside those of a plain Gaussian SVM and a random forest.

    Where rows were set aside during the fit, the error on them is the honest one, and the plain machine's is of the
    same rows; leave-one-out errors are of the kernel that was chosen with all rows in view. ``compare=False`` fits
    nothing.
    """
    rows = model._training_rows("The report needs")
    scorer = Scorer(model, rows.Y.numpy(), rows.weight.numpy())
    # what the fit recorded is of least squares, by which kernels are learned whatever the loss
    found = [] if model._of_loss else _recorded(model, scorer)
    found.append(scorer(OURS, FOLDS if model._of_loss else LOO, model._loo_of_rows().numpy()))
    fresh = None if new is None or not len(new.X) else Scorer(model, new.Y, np.ones(len(new.Y)))
    if fresh is not None and new is not None:
        t = average(model.machines_, torch.from_numpy(model._inputs.encoder(new.X)), model._clip).numpy()
        found.append(fresh(OURS, NEW, t))
    if compare:
        missing = fresh is not None or not any(score.method == SVM for score in found)
        if missing and model.preset != "plain" and len(rows) <= PLAIN:
            found += _plain(model, scorer, fresh, new)
        found += _forest(model, scorer, fresh, new)
    return found


def _recorded(model: Model, scorer: Scorer) -> list[Score]:
    """Errors that the fit found on rows it had set aside."""
    honest = honest_error(model.history_)
    if honest is None:
        return []
    basis, event = honest
    classes = isinstance(model, HGKClassifier)
    found = [scorer.known(OURS, basis, event["risk"], event.get("wrong") if classes else None)]
    plain = [e for e in model.history_ if e.get("stage") == "candidate" and e["candidate"] == "plain"]
    if basis == ASIDE:
        # with a column for each value of the label, "honest" is of the columns
        number = next((e["number"] for e in model.history_ if e.get("stage") == "levels" and e["taken"]), None)
        risks = [(e["honest"] if number is None else number, e.get("wrong") if classes else None) for e in plain]
        found += [scorer.known(SVM, ASIDE, *risk) for risk in risks]
    return [score for score in found if math.isfinite(score.risk)]


def _plain(model: Model, scorer: Scorer, fresh: Scorer | None, new: NewRows | None) -> list[Score]:
    """The machine that the preset "plain" trains on the same rows."""
    encoder, rows = model._inputs.encoder, model._training_rows("The report needs")
    seen = [f for f, feature in enumerate(encoder.features) if feature.kind not in ("rank", "step")]
    y = classes_of(scorer.Y) if isinstance(model, HGKClassifier) else scorer.Y
    plain = type(model)("plain", random_state=0)
    X = rows.X.numpy()[:, seen]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks on the columns were made by the model's own fit
        plain.fit(X, y, sample_weight=rows.weight.numpy())
    t = plain._loo_of_rows().numpy()[plain._place]
    found = [scorer(SVM, LOO, t)]
    if fresh is not None and new is not None:
        found.append(fresh(SVM, NEW, plain._predict_columns(encoder(new.X)[:, seen])))
    return found


def _forest(model: Model, scorer: Scorer, fresh: Scorer | None, new: NewRows | None) -> list[Score]:
    """200 trees on the columns as numbers and codes; out-of-bag predictions, and those of new rows.

    Rows are taken as they were given: of equal ones some are in a tree's bag and others are not.
    """
    of_classes = isinstance(model, HGKClassifier)
    kind = RandomForestClassifier if of_classes else RandomForestRegressor
    place = np.sort(model._place[model._place >= 0])  # in an order that does not depend on theirs
    given = Scorer(model, scorer.Y[place], (scorer.weight / np.bincount(place))[place])
    y = classes_of(given.Y) if of_classes else given.Y if given.Y.shape[1] > 1 else given.Y[:, 0]
    forest = kind(200, oob_score=True, random_state=0, n_jobs=torch.get_num_threads())
    scaled = _scaling(model.X_fit_)
    forest.fit(scaled(model.X_fit_[place]), y, sample_weight=given.weight)
    values = forest.oob_decision_function_ if of_classes else forest.oob_prediction_
    found = [given(FOREST, BAG, _values(model, values))]
    if fresh is not None and new is not None:
        values = forest.predict_proba(scaled(new.X)) if of_classes else forest.predict(scaled(new.X))
        found.append(fresh(FOREST, NEW, _values(model, values)))
    return found


def _scaling(X: np.ndarray) -> Scaling:
    """To [-1, 1], missing cells kept: forests work in single precision, whose range is short."""
    low, high = (np.nan_to_num(extreme.reduce(X, axis=0)) for extreme in (np.fmin, np.fmax))
    return Scaling.of(np.stack([low, high]))


def _values(model: Model, values: np.ndarray) -> np.ndarray:
    """Probabilities or predictions as values in [-1, 1], one column per output."""
    if not isinstance(model, HGKClassifier):
        return values.reshape(len(values), -1)
    values = 2 * np.nan_to_num(values, nan=1 / len(model.classes_)) - 1
    return values[:, 1:] if model._single_column else values


# ------------------------------------------------------------------------------------------------ coverage


@dataclass(frozen=True)
class Part:
    """Rows with similar predictions, and how often their intervals hold the label."""

    low: float
    high: float
    covered: float
    rows: int


@dataclass(frozen=True)
class Coverage:
    """How often jackknife+ intervals hold the label, by the coverage asked for; widths in the unit of the labels.

    Over all training rows that is at least the coverage asked for, nearly by construction: a row is as likely as any
    other to be among those with the largest residuals, and these are enlarged to those of rows that the kernel has not
    seen. ``parts`` says whether it holds from the smallest predictions to the
    largest, at the coverage ``asked``; ``new`` whether it holds for rows that the kernel was not learned from.
    """

    levels: np.ndarray
    covered: np.ndarray
    width: np.ndarray
    rows: int
    asked: float
    parts: list[Part]
    new: np.ndarray | None = None
    new_rows: int = 0


def coverage(model: HGKRegressor, new: NewRows | None = None, levels: Sequence[float] = LEVELS) -> Coverage:
    """The intervals that ``predict_interval`` would give for each training row, had the row not been there.

    Of the first output, on at most 600 rows; kernels, λ and γ stay fixed.
    """
    rows = model._training_rows("The report needs")
    some = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(len(rows))[:COVERED]))
    with threads_for(len(rows)):
        t = leave_two_out_average(model.machines_, rows, CLIP, some)[0]
    mine = rows[some]
    low, high = (
        torch.stack(bounds) for bounds in zip(*(loo_interval(t, mine, a, model._optimism) for a in levels), strict=True)
    )
    y, share = mine.Y[:, 0], mine.weight / mine.weight.sum()
    inside = ((low <= y) & (y <= high)).double()
    width = float(model._y_scaling.half[0]) * (high - low).median(1).values
    asked = levels.index(ASKED) if ASKED in levels else len(levels) - 1
    parts = _coverage_by_prediction(model, t.diagonal().numpy(), inside[asked].numpy(), mine.weight.numpy())
    found = Coverage(np.array(levels), (inside @ share).numpy(), width.numpy(), len(some), levels[asked], parts)
    if new is None or not len(new.X):
        return found
    X, Y = new.X[:COVERED], new.Y[:COVERED]
    bounds = model._intervals(torch.from_numpy(model._inputs.encoder(X)), levels)[:, :, 0]
    y_new = model._y_scaling.inverse(Y)[:, 0]
    return replace(found, new=((bounds[..., 0] <= y_new) & (y_new <= bounds[..., 1])).mean(1), new_rows=len(X))


def _coverage_by_prediction(model: HGKRegressor, t: np.ndarray, inside: np.ndarray, weight: np.ndarray) -> list[Part]:
    """Fifths of the rows, by their leave-one-out predictions."""
    unit = model._y_scaling
    values = t * unit.half[0] + unit.middle[0]
    fifths = [part for part in np.array_split(np.argsort(t, kind="stable"), FIFTHS) if len(part)]
    return [
        Part(values[f].min(), values[f].max(), float(np.average(inside[f], weights=weight[f])), len(f)) for f in fifths
    ]


def loo_interval(t: torch.Tensor, rows: Rows, level: float, optimism: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds at every row i from all others; ``t[i, j]`` = f^(-i,-j)(x_i), for the first output.

    Of row i itself all repetitions but one are among the others.
    """
    n = len(rows)
    r = optimism * (rows.Y[:, :1] - t).abs().T  # ρ times r[i, j] = |y_j - f^(-i,-j)(x_j)|
    weight = (rows.weight * (rows.size / float(rows.weight.sum()))).repeat(n, 1)
    weight.diagonal().mul_(1 - 1 / rows.repetitions)
    low = [-weighted_quantile(-(t[i] - r[i]), weight[i], level) for i in range(n)]
    high = [weighted_quantile(t[i] + r[i], weight[i], level) for i in range(n)]
    return torch.stack(low), torch.stack(high)
