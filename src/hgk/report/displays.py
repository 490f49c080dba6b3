"""A fitted model in matplotlib figures, in the manner of scikit-learn's displays.

    KernelTreeDisplay     the kernel as a tree, as in the paper's Figure 1
    ImportanceDisplay     what predictions of unseen rows lose without a column
    RelevanceDisplay      on which columns the kernels rest, and how far they agree
    LearningDisplay       training curves, and the optimism of the criterion
    EffectDisplay         what the model predicts as single columns change

``Display.from_estimator(model)`` computes and draws, ``.plot(ax=...)`` draws again; ``ax_`` and ``figure_`` are what
was drawn. The numbers are those of :mod:`hgk.insight`, and of the page that :func:`hgk.report.write_report` writes.
matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hgk.estimators import HGKEstimator
from hgk.importance import Importance
from hgk.insight import (
    Effect,
    Learning,
    Relevance,
    Tree,
    effect,
    importance,
    kernel_trees,
    learning_curves,
    relevance,
)
from hgk.insight.fitted import Estimator, column_indices, column_names, most_important, output_names, require_model
from hgk.report import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS_LIGHT, GREY_LIGHT = palette.OURS_COLOUR.light, palette.GREY.light


def _pyplot() -> Any:
    """As scikit-learn's displays do, so that notebooks show the figures."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays are drawn by matplotlib, which is not installed; pip install matplotlib."
        ) from error
    return plt


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or new ones."""
    return _pyplot().subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


def _panels(ax: Sequence[Axes] | None, many: int, width: float, height: float) -> np.ndarray:
    """The axes given, or as many new ones as asked for, three in a row."""
    if ax is None:
        across, down = min(3, many), -(-many // 3)
        size = width * across, height * down
        grid = _pyplot().subplots(down, across, figsize=size, layout="constrained", squeeze=False)[1].ravel()
        for spare in grid[many:]:
            spare.remove()
        return grid[:many]
    given = np.ravel(np.asarray(ax, dtype=object))
    if len(given) != many:
        raise ValueError(f"{len(given)} axes were given for {many} panels; give as many, or None.")
    return given


def _text(name: str, most: int = 40) -> str:
    """A name is not a formula: matplotlib would read what stands between dollars as one."""
    name = name if len(name) <= most else f"{name[: most - 1]}…"
    return name.replace("$", r"\$")


class KernelTreeDisplay:
    """The kernel as a tree: columns at the left, first-layer nodes, further layers, the kernel at the right.

    Lines are as wide as the weights they stand for.

    Parameters
    ----------
    tree : Tree
        From :func:`hgk.insight.kernel_trees`.
    columns : sequence of str
        Names of all columns.
    most : int, default=16
        Columns shown; the others are left out, smallest shares first.

    Attributes
    ----------
    ax_, figure_ : what was drawn

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report.displays import KernelTreeDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HGKClassifier("plain").fit(X, y)
    >>> len(KernelTreeDisplay.from_estimator(model).ax_.texts)
    5
    """

    def __init__(self, tree: Tree, columns: Sequence[str], most: int = 16):
        self.tree, self.columns, self.most = tree, tuple(columns), most

    @classmethod
    def from_estimator(cls, model: Estimator, *, machine: int = 0, most: int = 16, ax: Axes | None = None):
        """Draw one of the kernels that ``model`` averages, by default the first."""
        trees = kernel_trees(model)
        if not 0 <= machine < len(trees):
            raise ValueError(f"machine={machine} was given; the model averages {len(trees)}, counted from 0.")
        return cls(trees[machine], column_names(model), most).plot(ax=ax)

    def plot(self, ax: Axes | None = None):
        """Draw; returns the display."""
        shown, layers = list(self.tree.column_shares)[: self.most], self.tree.layers
        rows = max(len(shown), *map(len, layers))
        ax = _axes(ax, 2.2 * (len(layers) + 1), 1 + 0.28 * rows)
        colours = palette.node_colours(node.family for layer in layers for node in layer)
        place = {j: _spread(p, len(shown)) for p, j in enumerate(shown)}
        self._lines(ax, place, {family: colour.light for family, colour in colours.items()})
        for j in shown:
            ax.plot(0, place[j], "o", color="white", markeredgecolor=GREY_LIGHT, markersize=6, zorder=3)
            ax.text(-0.06, place[j], _text(self.columns[j]), ha="right", va="center", fontsize=9)
        for depth, layer in enumerate(layers, start=1):
            for i, node in enumerate(layer):
                colour = OURS_LIGHT if depth == len(layers) else colours[node.family].light
                _box(ax, depth, _spread(i, len(layer)), _text(node.name, 16), colour)
        ax.set_axis_off()
        ax.set_xlim(-0.6, len(layers) + 0.3)
        ax.set_ylim(-0.02, 1.02)
        ax.set_title(_text(self.tree.name, 80), fontsize=10)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _lines(self, ax: Axes, place: dict[int, float], colours: dict[str, str]) -> None:
        first, widest = self.tree.layers[0], max((edge.weight for edge in self.tree.edges), default=1.0)
        for edge in self.tree.edges:
            if edge.column in place:
                ends = place[edge.column], _spread(edge.node, len(first))
                _line(ax, 0, *ends, edge.weight / widest, colours[first[edge.node].family])
        for depth, (layer, above) in enumerate(pairwise(self.tree.layers), start=1):
            most = max(node.weight for node in layer) or 1.0
            for i, node in enumerate(layer):
                ends = _spread(i, len(layer)), _spread(node.parent, len(above))
                _line(ax, depth, *ends, node.weight / most, colours[node.family])


def _spread(place: int, many: int) -> float:
    """Heights from top to bottom."""
    return 1 - (place + 0.5) / many


def _line(ax: Axes, depth: int, start: float, end: float, width: float, colour: str) -> None:
    u = np.linspace(0, 1, 30)
    smooth = u * u * (3 - 2 * u)
    ax.plot(depth + u, start + (end - start) * smooth, color=colour, linewidth=0.4 + 6 * width, alpha=0.55, zorder=1)


def _box(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    frame = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour}
    ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=frame, zorder=4)


class ImportanceDisplay:
    """What predictions of unseen rows lose without a column, with two standard errors; no bar where that is noise.

    Parameters
    ----------
    importance : Importance
        From :func:`hgk.insight.importance`.
    most : int, default=20

    Attributes
    ----------
    ax_, figure_ : what was drawn

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report.displays import ImportanceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = ImportanceDisplay.from_estimator(HGKClassifier("plain").fit(X, y))
    >>> len(display.ax_.patches)
    4
    """

    def __init__(self, importance: Importance, most: int = 20):
        self.importance, self.most = importance, most

    @classmethod
    def from_estimator(cls, model: HGKEstimator, *, groups: Any = None, most: int = 20, ax: Axes | None = None):
        """Draw the ``most`` important columns, or groups of columns."""
        return cls(importance(model, groups), most).plot(ax=ax)

    def plot(self, ax: Axes | None = None):
        """Draw; returns the display."""
        found, order = self.importance, self.importance.order[: self.most]
        ax = _axes(ax, 6, 1 + 0.28 * len(order))
        height, shown = np.arange(len(order)), found.shown[order]
        error = np.where(found.carries[order], 2 * found.error[order], 0.0)
        ax.barh(height, shown, color=OURS_LIGHT, xerr=error, ecolor="#222222", capsize=2)
        for place in height[shown == 0]:
            ax.text(0, place, " none", va="center", fontsize=8, color=GREY_LIGHT)
        ax.set_yticks(height, [_text(found.names[j]) for j in order])
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel(f"increase of the {found.measure}, 1: that of the best constant")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class RelevanceDisplay:
    """The share of the kernels' exponents that each column carries, and its spread over the averaged kernels.

    Parameters
    ----------
    relevance : Relevance
        From :func:`hgk.insight.relevance`.
    columns : sequence of str
    most : int, default=20

    Attributes
    ----------
    ax_, figure_ : what was drawn

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report.displays import RelevanceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = RelevanceDisplay.from_estimator(HGKClassifier("plain").fit(X, y))
    >>> len(display.ax_.patches)
    4
    """

    def __init__(self, relevance: Relevance, columns: Sequence[str], most: int = 20):
        self.relevance, self.columns, self.most = relevance, tuple(columns), most

    @classmethod
    def from_estimator(cls, model: Estimator, *, most: int = 20, ax: Axes | None = None):
        """Draw the ``most`` important columns."""
        return cls(relevance(model), column_names(model), most).plot(ax=ax)

    def plot(self, ax: Axes | None = None):
        """Draw; returns the display."""
        order = np.argsort(-self.relevance.mean, kind="stable")[: self.most]
        ax = _axes(ax, 6, 1 + 0.28 * len(order))
        height = np.arange(len(order))
        several, deviation = len(self.relevance.shares) > 1, self.relevance.deviation[order]
        spread: dict[str, Any] = {"xerr": deviation, "ecolor": "#222222", "capsize": 2} if several else {}
        ax.barh(height, self.relevance.mean[order], color=OURS_LIGHT, **spread)
        if several:
            ax.plot(self.relevance.kernels[:, order].T, height, "|", color="#222222", markersize=7)
        ax.set_yticks(height, [_text(self.columns[j]) for j in order])
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel("share of the exponent")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class LearningDisplay:
    """Training curves, and how far the criterion is below the error on rows set aside.

    Parameters
    ----------
    learning : Learning
        From :func:`hgk.insight.learning_curves`.

    Attributes
    ----------
    ax_ : array of two Axes
        Curves, and optimism.
    figure_ : Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report.displays import LearningDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = LearningDisplay.from_estimator(HGKClassifier(random_state=0).fit(X[::2], y[::2]))
    >>> [ax.get_xlabel() for ax in display.ax_]
    ['step', 'mean squared error, labels in [-1, 1]']
    """

    def __init__(self, learning: Learning):
        self.learning = learning

    @classmethod
    def from_estimator(cls, model: Estimator, *, ax: Sequence[Axes] | None = None):
        """Draw what ``history_`` holds."""
        return cls(learning_curves(model)).plot(ax=ax)

    def plot(self, ax: Sequence[Axes] | None = None):
        """Draw; returns the display. ``ax`` are two axes."""
        self.ax_ = _panels(ax, 2, 5, 3.5)
        self._curves(self.ax_[0])
        self._optimism(self.ax_[1])
        self.figure_ = self.ax_[0].figure
        return self

    def _curves(self, ax: Axes) -> None:
        kinds = list(dict.fromkeys(run.kind for run in self.learning.runs))
        for run in self.learning.runs:
            colour, first = f"C{kinds.index(run.kind)}", run.kind not in ax.get_legend_handles_labels()[1]
            ax.plot(run.steps, run.criterion, color=colour, alpha=0.8, label=run.kind if first else None)
            ax.plot(run.watched_steps, run.watched, "D", color=colour, markersize=4)
        ax.set_xlabel("step")
        ax.set_ylabel("criterion")
        if kinds:
            ax.legend(frameon=False)
        else:
            ax.text(0.5, 0.5, "No weights were learned.", ha="center", transform=ax.transAxes)

    def _optimism(self, ax: Axes) -> None:
        for row, kind in enumerate(self.learning.kinds):
            colour = OURS_LIGHT if kind.chosen else GREY_LIGHT
            ax.plot([kind.criterion, kind.honest], [row, row], color=colour)
            ax.plot(kind.criterion, row, "o", color="white", markeredgecolor=colour)
            ax.plot(kind.honest, row, "o", color=colour)
        names = [f"{kind.name} (chosen)" if kind.chosen else kind.name for kind in self.learning.kinds]
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel("mean squared error, labels in [-1, 1]")
        ax.set_title("hollow: criterion; solid: rows set aside", fontsize=10)
        ax.locator_params(axis="x", nbins=5)


class EffectDisplay:
    """Partial dependence: the average prediction over rows as one column changes and the others stay as they are.

    Thin lines are individual rows; those of a regression are shifted to start where the average does. Categories are
    bars, in the order of their effects.

    Parameters
    ----------
    effects : list of Effect
        From :func:`hgk.insight.effect`.
    outputs : sequence of str
        Names of the outputs.

    Attributes
    ----------
    ax_ : array of Axes, one per column
    figure_ : Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import load_iris
    >>> from hgk import HGKClassifier
    >>> from hgk.report.displays import EffectDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HGKClassifier("plain").fit(X, y)
    >>> [ax.get_xlabel() for ax in EffectDisplay.from_estimator(model, X, [2, 3]).ax_]
    ['x2', 'x3']
    """

    def __init__(self, effects: list[Effect], outputs: Sequence[str]):
        self.effects, self.outputs = effects, tuple(outputs)

    @classmethod
    def from_estimator(
        cls,
        model: Estimator,
        X: Any = None,
        columns: Sequence[int | str] | None = None,
        *,
        output: int | None = None,
        ax: Sequence[Axes] | None = None,
    ):
        """Draw effects over a sample of the rows ``X``.

        Parameters
        ----------
        model : HGKRegressor or HGKClassifier
        X : table, optional
            Rows to average over; None takes the training rows.
        columns : sequence of str or int, optional
            By name or number; None takes the six most important.
        output : int, optional
            Of several outputs or classes, the one to draw; None draws the first.
        ax : sequence of Axes, optional
            One per column.
        """
        require_model(model)
        asked = most_important(model, 6) if columns is None else column_indices(model, columns)
        return cls([effect(model, j, X) for j in asked], output_names(model)).plot(ax=ax, output=output)

    def plot(self, ax: Sequence[Axes] | None = None, output: int | None = None):
        """Draw; returns the display."""
        k = output or 0
        if not 0 <= k < len(self.outputs):
            raise ValueError(f"output={output} was given; the model has {len(self.outputs)}, counted from 0.")
        self.ax_ = _panels(ax, len(self.effects), 3.3, 2.6)
        for shown, panel in zip(self.effects, self.ax_, strict=True):
            _draw_effect(panel, shown, k, self.outputs[k])
        self.figure_ = self.ax_[0].figure
        return self


def _draw_effect(ax: Axes, effect: Effect, k: int, name: str) -> None:
    mean, curves, x = effect.mean[k], effect.curves[k], effect.grid
    if effect.labels is not None:  # bars from left to right, each label on a line of its own
        ax.barh(np.arange(len(mean)), mean, color=OURS_LIGHT)
        ax.set_yticks(np.arange(len(mean)), [_text(label, 24) for label in effect.labels])
        ax.invert_yaxis()
        ax.set_xlabel(_text(name))
        ax.set_title(_text(effect.name), fontsize=10)
        return
    shift = 0.0 if effect.is_probability else mean[0] - curves[:, :1]
    ax.plot(x, (curves + shift).T, color=GREY_LIGHT, linewidth=0.6, alpha=0.5)
    ax.plot(x, mean, "o-", color=OURS_LIGHT, markersize=3.5)
    if np.isnan(effect.grid[-1]):
        ax.axhline(mean[-1], color=OURS_LIGHT, linestyle=":", label="missing")
        ax.legend(frameon=False, fontsize=8)
    ax.set_xlabel(_text(effect.name))
    ax.set_ylabel(_text(name))
