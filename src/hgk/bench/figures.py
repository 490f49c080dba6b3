"""Recorded runs as figures: the paper's Figure 2, average ranks, seconds.

Left of Figure 2: the error of each method over the SVM's, set by set. If the rows hold no SVM, the paper's SVM is the
baseline, and the axis says so. Middle and right: on how many sets a method is better than all others, or worse than
the best, by more than x (``gain`` and ``lag`` of :mod:`hgk.bench.summary`). They are drawn for the methods that are
ranked and, where the rows hold them, for the three the paper compares, with the paper's own counts dotted.

From the paper's table the middle gives the counts its caption quotes (at 5 %: Ours 5, RF 3, DNN 1). The right does not:
at 10 % the table gives Ours 4, RF 6, DNN 11, the caption says 4, 5, 9.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from hgk.bench import published
from hgk.bench.palette import Look, looks
from hgk.bench.summary import ResultRow, Summary, baseline, gain, lag, summarise
from hgk.bench.tables import p_text, seconds_text
from hgk.storage import write_atomically

PAPERS_THREE = ("Ours (paper)", "RF", "DNN")
X = np.linspace(0, 0.5, 501)
INK, GRID = "#222222", "#dddddd"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "text.color": INK,
    "svg.hashsalt": "hgk",  # the same rows give the same file
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are not formulas
}
# By its ending, what is noted in a figure: whose it is, and of an SVG no date, so that it is the same each time.
MADE_BY: dict[str, dict[str, Any]] = {"png": {"Software": "hgk"}, "svg": {"Creator": "hgk", "Date": None}}
Counts = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _marker(look: Look, size: float = 6.5) -> dict:
    size *= 1.4 if look.shape in "*PX" else 1  # of little area
    return {"marker": look.shape, "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.4}


def lifts(n: int, most: float) -> np.ndarray:
    """Small shifts, so that equal values lie beside each other and not on top."""
    return np.linspace(-most, most, n) if n > 1 else np.zeros(n)


def _until_zero(numbers: np.ndarray) -> np.ndarray:
    """Counts that fall with x, without the zeros after the first: lines end where nothing is left to count."""
    return np.where(np.concatenate([[0], numbers[:-1]]) + numbers > 0, numbers, np.nan)


def _legend(figure: Figure, methods: Sequence[str], columns: int) -> None:
    found = looks(methods)
    handles = [Line2D([], [], color=found[m].light, label=m, linewidth=1.5, **_marker(found[m])) for m in methods]
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False, fontsize=9)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _log_ticks(axes: Axes, label: Callable[[float], str]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: label(x)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def relative_errors(summary: Summary) -> Figure:
    """Figure 2, left."""
    name, base = baseline(summary)
    methods = [m for m in summary.methods if m != "SVM"]
    sets = [s for s in summary.sets if s in base and any(summary.cells[s, m].n for m in methods)]
    figure, axes = _figure(8, 1.6 + 0.36 * len(sets))
    found = looks(summary.methods)
    for m, lift in zip(methods, lifts(len(methods), 0.3), strict=True):
        there = [i for i, s in enumerate(sets) if summary.cells[s, m].n and base[s]]
        ratio = [summary.cells[sets[i], m].mean / base[sets[i]] for i in there]
        axes.plot(ratio, np.array(there) + lift, linestyle="none", color=found[m].light, **_marker(found[m]))
    axes.axvline(1, color=INK, linewidth=1)
    _log_ticks(axes, lambda x: f"{x:g}")
    axes.set_yticks(range(len(sets)), sets)
    axes.set_ylim(len(sets) - 0.5, -0.5)
    axes.grid(axis="both", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    axes.set_xlabel(f"error / error of {name}  (left of 1 is better)")
    _legend(figure, methods, 5)
    return figure


def counts(summary: Summary, methods: Sequence[str], count: Counts, label: str) -> Figure:
    """Figure 2, middle or right: the number of sets by x."""
    sets = summary.compared(methods)
    figure, axes = _figure(6, 4.2)
    found = looks(methods)
    of_paper = published_counts(count) if tuple(methods) == PAPERS_THREE else None
    number = count(summary.errors(sets, methods), X)
    for j, (m, lift) in enumerate(zip(methods, lifts(len(methods), 0.2), strict=True)):
        colour, y = found[m].light, _until_zero(number[j]) + lift
        axes.plot(100 * X, y, drawstyle="steps-post", color=colour, linewidth=1.6)
        axes.plot(100 * X[::50], y[::50], linestyle="none", color=colour, **_marker(found[m], 6))
        if of_paper is not None:
            axes.plot(100 * X, _until_zero(of_paper[j]) + lift, drawstyle="steps-post", color=colour, linestyle=":")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(-1, 51)
    axes.set_ylim(-0.4, max(number.max(), 0 if of_paper is None else of_paper.max()) + 0.5)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_xlabel(label)
    axes.set_ylabel(f"sets, of {len(sets)}" + (" (dotted: the paper's table, of 15)" if of_paper is not None else ""))
    _legend(figure, methods, 4)
    return figure


def published_counts(count: Counts) -> np.ndarray:
    """The counts of the paper's three methods from its own table."""
    names = [published.TWIN[m] for m in PAPERS_THREE]
    return count(np.array([[published.ERRORS[s][m].mean for m in names] for s in published.SETS]), X)


def critical_differences(summary: Summary) -> Figure:
    """Average ranks on a line, smallest at the left; bars join methods that do not differ significantly."""
    ranks = summary.ranks
    assert ranks is not None
    k, found = len(ranks.methods), looks(ranks.methods)
    half, bars = (k + 1) // 2, len(ranks.groups)
    depth = 0.45 + 0.22 * bars
    figure, axes = _figure(8, 1.5 + 0.3 * half + 0.2 * bars)
    for i, (m, rank) in enumerate(zip(ranks.methods, ranks.average, strict=True)):
        y, left = -depth - 0.42 * (i if i < half else k - 1 - i), i < half
        end = 0.8 if left else k + 0.2
        axes.plot([rank, rank, end], [0, y, y], color=found[m].light, linewidth=1.2)
        axes.plot(rank, 0, color=found[m].light, clip_on=False, **_marker(found[m], 8))
        text = f"{m}  {rank:.2f}" if left else f"{rank:.2f}  {m}"
        axes.text(end + (-0.05 if left else 0.05), y, text, ha="right" if left else "left", va="center")
    for i, (a, b) in enumerate(ranks.groups):
        y = -0.25 - 0.22 * i
        axes.plot([ranks.average[a] - 0.04, ranks.average[b] + 0.04], [y, y], color=INK, linewidth=4, alpha=0.75)
    axes.plot([1, 1 + ranks.cd], [0.75, 0.75], color=INK, marker="|", linewidth=1.5)
    axes.text(1 + ranks.cd + 0.1, 0.75, f"CD = {ranks.cd:.2f}", ha="left", va="center")
    _rank_axis(axes, k)
    axes.set_ylim(-depth - 0.42 * (half - 1) - 0.3, 1)
    summary_line = f"{len(ranks.sets)} sets; Friedman χ² = {ranks.chi2:.1f}, p = {p_text(ranks.p)}; Nemenyi at 5 %"
    axes.set_title(f"Average rank, 1 is best\n{summary_line}", fontsize=10)
    return figure


def _rank_axis(axes: Axes, k: int) -> None:
    axes.set_yticks([])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.plot([1, k], [0, 0], color=INK, linewidth=1, zorder=0)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, 0.12], color=INK, linewidth=1, zorder=0)
        axes.text(rank, 0.2, str(rank), ha="center", va="bottom", fontsize=9)
    axes.set_xticks([])
    axes.set_xlim(1 - 0.28 * k, k + 0.28 * k)


def seconds(summary: Summary) -> Figure:
    """Seconds of training, one point per set, the median over all runs as a bar; the paper's as a hollow line."""
    methods = [m for m in summary.methods if summary.times[m].seconds]
    figure, axes = _figure(8, 1.2 + 0.36 * len(methods))
    found = looks(summary.methods)
    for i, m in enumerate(methods):
        points = [np.mean(list(c.seconds.values())) for s in summary.sets if (c := summary.cells[s, m]).seconds]
        axes.plot(points, [i] * len(points), linestyle="none", color=found[m].light, alpha=0.65, **_marker(found[m]))
        middle = median(summary.times[m].seconds)
        axes.plot([middle, middle], [i - 0.32, i + 0.32], color=INK, linewidth=2)
        axes.annotate(
            f"{seconds_text(middle)} s", (1.01, i), xycoords=("axes fraction", "data"), va="center", fontsize=9
        )
        if m in published.TWIN:
            axes.plot(published.SECONDS[published.TWIN[m]], [i + 0.32] * 2, color="#888888", marker="|", linewidth=1)
    _log_ticks(axes, seconds_text)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    axes.set_xlabel("seconds of training, a point per set; black: median of all runs; grey: the paper, on its machines")
    return figure


def figures(summary: Summary) -> dict[str, Figure]:
    """All figures the rows suffice for, by the name of their files."""
    found: dict[str, Figure] = {}
    if any(summary.cells[s, m].n for s in baseline(summary)[1] for m in summary.methods if m != "SVM"):
        found["figure2-left"] = relative_errors(summary)
    better, worse = "better than all others by more than x %", "worse than the best by more than x %"
    groups = {
        "": tuple(m for m in summary.methods if summary.ranks and m in summary.ranks.methods),
        "-papers-three": PAPERS_THREE,
    }
    for suffix, methods in groups.items():
        if len(methods) > 1 and set(methods) <= set(summary.methods) and summary.compared(methods):
            found[f"figure2-middle{suffix}"] = counts(summary, methods, gain, better)
            found[f"figure2-right{suffix}"] = counts(summary, methods, lag, worse)
    if summary.ranks:
        found["ranks"] = critical_differences(summary)
    if any(times.seconds for times in summary.times.values()):
        found["seconds"] = seconds(summary)
    return found


def is_figure(file: BinaryIO) -> bool:
    """Whether an opened file is a figure of hgk."""
    beginning = file.read(4000)
    return b"Software\0hgk" in beginning or b"<dc:title>hgk</dc:title>" in beginning


def _write(content: bytes, path: Path) -> None:
    write_atomically(path, lambda file: file.write(content))


def places(rows: Iterable[ResultRow], folder: str | Path) -> list[Path]:
    """The files that :func:`write_figures` writes."""
    return [Path(folder) / f"{name}.{kind}" for name in figures(summarise(rows)) for kind in MADE_BY]


def write_figures(rows: Iterable[ResultRow], folder: str | Path) -> list[Path]:
    """Write every figure as PNG and SVG into ``folder``, which is made if it is not there; return the files.

    Examples
    --------
    >>> import tempfile
    >>> from hgk.bench.figures import write_figures
    >>> row = dict(set="magic", split=0, method="RF", status="ok", mse=0.375, seconds=2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_figures([row], folder)]
    ['figure2-left.png', 'figure2-left.svg', 'seconds.png', 'seconds.svg']
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with rc_context(STYLE):
        for name, figure in figures(summarise(rows)).items():
            for kind in MADE_BY:
                path = folder / f"{name}.{kind}"
                drawn = io.BytesIO()
                figure.savefig(drawn, format=kind, dpi=150, metadata=MADE_BY[kind])
                _write(drawn.getvalue(), path)
                written.append(path)
    return written
