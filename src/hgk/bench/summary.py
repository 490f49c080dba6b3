"""From recorded rows to what tables, figures and the page show.

Means and standard deviations (n - 1 in the denominator) are over the splits on which a method ran. Marks, as in the
paper's Table 1: the smallest mean is best, and so is every method that is not significantly worse; if the best is
alone, the smallest of the others is second best, and so is every other one that is not significantly worse than that.
The paper does not name its test; here it is the paired t-test, two-sided at 5 %, over the splits both methods have,

    d_s = error of b on split s - error of a on split s,    t = mean(d) √n / sd(d),    p = 2 P(T_{n-1} > |t|),

and b is significantly worse than a if mean(d) > 0 and p < 0.05. Splits overlap, so p is somewhat too small; with many
methods some differences are called significant by chance. With fewer than five common splits hardly any difference is
significant, and every method would be marked: there the means decide, and the set is named in ``untested``.

Where a method failed or is missing on some splits, means are over different splits and do not compare: the order of
methods on a set, for marks and ranks, is by the mean difference over common splits, pair by pair,

    r_ij = 1 + #{l: l is better than j on their common splits} + ½ #{l: as good},

which is the rank of the mean where all splits are there. N sets, k methods, R_j the average of r_ij over sets.
Friedman's statistic, corrected for ties, and Nemenyi's critical difference are

    χ² = (k - 1) N² Σ_j (R_j - (k + 1)/2)² / Σ_ij (r_ij - (k + 1)/2)²,    p = P(χ²_{k-1} > χ²),
    CD = q √(k (k + 1) / (6 N)),    q = the 95 % point of the studentised range of k normals, over √2:

two methods differ significantly if their average ranks differ by more than CD. Both need every method on every set:
methods that ran on fewer than half of the recorded sets are left out, and named; the sets are those all others have.

The paper's Figure 2, middle and right, for e_ij the mean error of method j on set i:

    gain_j(x) = #{i: e_ij < (1 - x) min_{l≠j} e_il},    lag_j(x) = #{i: e_ij > (1 + x) min_l e_il}.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtrc, stdtr
from scipy.stats import studentized_range

from hgk.bench import published
from hgk.bench.published import BEST_MARK, SECOND_MARK

ORDER = (
    "SVM",
    "HKL",
    "Ours (paper)",
    "RF",
    "DNN",
    "Ours (default)",
    "LightGBM",
    "CatBoost",
    "XGBoost",
    "xRFM",
    "RealMLP",
)
LEVEL = 0.05
SPLITS_FOR_A_TEST = 5
CellKey = tuple[str, str]  # set, method
SplitKey = tuple[str, str, int]  # set, method, split
ResultRow = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One method on one set, by split: errors of runs that ended well, reasons of those that failed, who is missing."""

    errors: dict[int, float]
    seconds: dict[int, float]
    failed: dict[int, str]
    missing: tuple[int, ...]

    @property
    def n(self) -> int:
        return len(self.errors)

    @cached_property
    def mean(self) -> float:
        return float(np.mean(list(self.errors.values()))) if self.errors else math.nan

    @cached_property
    def sd(self) -> float:
        return float(np.std(list(self.errors.values()), ddof=1)) if self.n > 1 else math.nan


@dataclass(frozen=True)
class Ranks:
    """Average ranks of ``methods``, smallest first, over ``sets``; ``left_out`` counts the sets of who is not in it."""

    methods: tuple[str, ...]
    sets: tuple[str, ...]
    average: tuple[float, ...]
    chi2: float
    p: float
    cd: float
    left_out: dict[str, int]

    @property
    def groups(self) -> list[tuple[int, int]]:
        """First and last place of every longest run of methods whose average ranks lie within CD."""
        ranges: list[tuple[int, int]] = []
        for first, rank in enumerate(self.average):
            last = max(i for i, other in enumerate(self.average) if other - rank <= self.cd)
            if last > first and (not ranges or last > ranges[-1][1]):
                ranges.append((first, last))
        return ranges


@dataclass(frozen=True)
class Times:
    """Seconds of one method's runs that ended well: training (``seconds``) and prediction, and where they ran."""

    seconds: tuple[float, ...]
    predict: tuple[float, ...]
    where: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """All that the tables, figures and the page show; made by :func:`summarise`."""

    sets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: dict[CellKey, Cell]
    marks: dict[CellKey, int]
    untested: tuple[str, ...]
    sizes: dict[str, tuple[str, str]]
    ranks: Ranks | None
    times: dict[str, Times]
    setups: tuple[tuple[dict[str, str], int], ...]
    damaged: tuple[str, ...]
    superseded: int

    def errors(self, sets: Sequence[str], methods: Sequence[str]) -> np.ndarray:
        """Mean errors, sets × methods."""
        return np.array([[self.cells[s, m].mean for m in methods] for s in sets]).reshape(len(sets), len(methods))

    def compared(self, methods: Sequence[str]) -> tuple[str, ...]:
        """The sets on which all the methods ran."""
        return tuple(s for s in self.sets if all((s, m) in self.cells and self.cells[s, m].n for m in methods))

    @property
    def not_run(self) -> tuple[str, ...]:
        return tuple(m for m in ORDER if m not in self.methods)


def paired_p(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[float, float, int]:
    """Mean of b - a over common splits, two-sided p of the paired t-test, number of common splits.

    Examples
    --------
    >>> from hgk.bench.summary import paired_p
    >>> difference, p, n = paired_p({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.5, 1: 2.6, 2: 3.4, 3: 9.0})
    >>> round(difference, 3), round(p, 3), n
    (0.5, 0.013, 3)
    """
    common = sorted(a.keys() & b.keys())
    n = len(common)
    d = np.array([b[s] - a[s] for s in common])
    if n < 2:
        return (float(d.mean()) if n else math.nan), math.nan, n
    mean, sd = float(d.mean()), float(d.std(ddof=1))
    if sd == 0:
        return mean, float(mean == 0), n
    return mean, float(2 * stdtr(n - 1, -abs(mean) * math.sqrt(n) / sd)), n


def mark(order: Mapping[str, float], worse: Callable[[str, str], bool]) -> dict[str, int]:
    """BEST and SECOND by the module's rule, smallest first; ``worse(b, a)``: b is significantly worse than a."""
    first, *others = sorted(order, key=lambda m: order[m])
    best = [first, *(m for m in others if not worse(m, first))]
    if len(best) > 1 or not others:
        return dict.fromkeys(best, BEST_MARK)
    second, *rest = others
    return {first: BEST_MARK, second: SECOND_MARK} | {m: SECOND_MARK for m in rest if not worse(m, second)}


def mark_cells(cells: Mapping[str, Cell]) -> tuple[dict[str, int], bool]:
    """The marks of the methods on one set, and whether all comparisons behind them could be tested."""
    tested = True

    def worse(b: str, a: str) -> bool:
        nonlocal tested
        difference, p, n = paired_p(cells[a].errors, cells[b].errors)
        tested &= n >= SPLITS_FOR_A_TEST
        return difference > 0 and (n < SPLITS_FOR_A_TEST or p < LEVEL)

    filled = {m: cell for m, cell in cells.items() if cell.n}
    return (mark(pairwise_ranks(filled), worse) if filled else {}), tested


def pairwise_ranks(cells: Mapping[str, Cell]) -> dict[str, float]:
    """r_j of the methods on one set; two methods without a common split are compared by their means."""

    def lead(a: str, b: str) -> float:
        difference, _, n = paired_p(cells[a].errors, cells[b].errors)
        return float(np.sign(difference if n else cells[b].mean - cells[a].mean))

    return {b: 1 + sum((1 + lead(a, b)) / 2 for a in cells if a != b) for b in cells}


def critical_difference(k: int, N: int) -> float:
    """Nemenyi's critical difference at 5 % of the average ranks of k methods on N sets."""
    return float(studentized_range.ppf(1 - LEVEL, k, np.inf)) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * N))


def friedman_test(r: np.ndarray) -> tuple[np.ndarray, float, float]:
    """From ranks, sets × methods: average ranks of the methods, Friedman's χ² and its p.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk.bench.summary import friedman_test
    >>> average, chi2, p = friedman_test(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]))
    >>> average.tolist(), round(chi2, 6), round(p, 3)
    ([1.0, 2.5, 2.5], 3.0, 0.223)
    """
    N, k = r.shape
    R = r.mean(axis=0)
    spread = float(((r - (k + 1) / 2) ** 2).sum())
    chi2 = (k - 1) * N**2 * float(((R - (k + 1) / 2) ** 2).sum()) / spread if spread else 0.0
    return R, chi2, float(chdtrc(k - 1, chi2))


def gain(errors: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gain_j(x), methods × len(x)."""
    others = np.stack([np.delete(errors, j, axis=1).min(axis=1) for j in range(errors.shape[1])], axis=1)
    return (errors[..., None] < (1 - x) * others[..., None]).sum(axis=0)


def lag(errors: np.ndarray, x: np.ndarray) -> np.ndarray:
    """lag_j(x), methods × len(x)."""
    return (errors[..., None] > (1 + x) * errors.min(axis=1)[:, None, None]).sum(axis=0)


def plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _misplaced(row: Any) -> str | None:
    """Why a row cannot be given a place in the table."""
    if not isinstance(row, Mapping):
        return f"a {type(row).__name__} instead of an object"
    for key, kind in (("set", str), ("method", str), ("split", int)):
        if not isinstance(row.get(key), kind) or isinstance(row[key], bool):
            return f"{key!r} is {row.get(key)!r}, expected {kind.__name__}"
    return None


def _failure(row: ResultRow) -> str | None:
    """Why a row holds no result; None if it does."""
    status = row.get("status")
    if status != "ok":
        reason = str(row.get("reason") or "no reason recorded")
        return reason if status == "failed" else f"status {status!r}: {reason}"
    mse: Any = row.get("mse")
    return None if _number(mse) and mse >= 0 else f"damaged row: status 'ok', mse {mse!r}"


def _known_first(names: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    names = list(dict.fromkeys(names))
    return tuple([n for n in known if n in names] + [n for n in names if n not in known])


def _cell(by_split: Mapping[int, ResultRow], splits: set[int]) -> Cell:
    failures = {s: _failure(by_split[s]) for s in sorted(by_split)}
    fine = [s for s, why in failures.items() if why is None]
    return Cell(
        errors={s: float(by_split[s]["mse"]) for s in fine},
        seconds={s: float(by_split[s]["seconds"]) for s in fine if _number(by_split[s].get("seconds"))},
        failed={s: why for s, why in failures.items() if why is not None},
        missing=tuple(sorted(splits - by_split.keys())),
    )


def _last(rows: Sequence[ResultRow]) -> dict[SplitKey, ResultRow]:
    """The row that counts for each run."""
    latest: dict[SplitKey, ResultRow] = {}
    for row in rows:
        run = row["set"], row["method"], row["split"]
        if run not in latest or _failure(row) is None or _failure(latest[run]) is not None:
            latest[run] = row
    return latest


def _cells(last: Mapping[SplitKey, ResultRow], sets: Sequence[str], methods: Sequence[str]) -> dict[CellKey, Cell]:
    by_split: dict[CellKey, dict[int, ResultRow]] = {(s, m): {} for s in sets for m in methods}
    for (s, m, split), row in last.items():
        by_split[s, m][split] = row
    splits = {s: set().union(*(by_split[s, m] for m in methods)) for s in sets}
    return {(s, m): _cell(rows, splits[s]) for (s, m), rows in by_split.items()}


def _range(values: Iterable[Any]) -> str:
    numbers = sorted({int(v) for v in values if _number(v)})
    return "" if not numbers else f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _size(rows: Sequence[ResultRow]) -> tuple[str, str]:
    return _range(row.get("n_train") for row in rows), _range(row.get("n_test") for row in rows)


def _where(row: ResultRow) -> str:
    threads = row.get("threads")
    count = plural(threads, "thread") if isinstance(threads, int) else "threads unknown"
    return f"{row.get('machine', 'unknown machine')}, {row.get('device', 'device unknown')}, {count}"


def _times(rows: Sequence[ResultRow]) -> Times:
    fine = [row for row in rows if _failure(row) is None]
    return Times(
        seconds=tuple(float(r["seconds"]) for r in fine if _number(r.get("seconds"))),
        predict=tuple(float(r["predict_seconds"]) for r in fine if _number(r.get("predict_seconds"))),
        where=tuple(sorted({_where(r) for r in fine})),
    )


def _setups(rows: Sequence[ResultRow]) -> tuple[tuple[dict[str, str], int], ...]:
    """Each machine with its versions, and the number of its rows."""

    def setup(row: ResultRow) -> tuple[tuple[str, str], ...]:
        versions = row.get("versions")
        named = dict(versions) if isinstance(versions, Mapping) else {}
        return (("where", _where(row)), *sorted((str(k), str(v)) for k, v in named.items()))

    return tuple((dict(items), n) for items, n in Counter(map(setup, rows)).most_common())


def _ranks(sets: Sequence[str], methods: Sequence[str], cells: Mapping[CellKey, Cell]) -> Ranks | None:
    recorded = {m: {s for s in sets if (s, m) in cells and cells[s, m].n} for m in methods}
    all_sets = set().union(*recorded.values()) if recorded else set()
    chosen = [m for m in methods if 2 * len(recorded[m]) >= len(all_sets) > 0]
    common = tuple(s for s in sets if all(s in recorded[m] for m in chosen))
    if len(chosen) < 2 or len(common) < 2:
        return None
    ranks = [pairwise_ranks({m: cells[s, m] for m in chosen}) for s in common]
    R, chi2, p = friedman_test(np.array([[on_set[m] for m in chosen] for on_set in ranks]))
    order = np.argsort(R, kind="stable")
    return Ranks(
        methods=tuple(chosen[j] for j in order),
        sets=common,
        average=tuple(float(R[j]) for j in order),
        chi2=chi2,
        p=p,
        cd=critical_difference(len(chosen), len(common)),
        left_out={m: len(recorded[m]) for m in methods if m not in chosen},
    )


def summarise(rows: Iterable[ResultRow]) -> Summary:
    """All that is shown of the rows of a store.

    Of several rows for one set, split and method one with a result counts more than one without, then the later one;
    ``superseded`` says how many do not count. A row that cannot be placed is named in ``damaged``; one that can, but
    holds no result, is a failed run. A run is missing if another method has a row for the same set and split.

    Examples
    --------
    >>> from hgk.bench.summary import summarise
    >>> rows = [dict(set="magic", split=s, method="RF", status="ok", mse=m) for s, m in enumerate([0.3, 0.4])]
    >>> cell = summarise(rows).cells["magic", "RF"]
    >>> round(cell.mean, 3), round(cell.sd, 3), cell.n
    (0.35, 0.071, 2)
    """
    rows = list(rows)
    reasons = [_misplaced(row) for row in rows]
    placed = [row for row, why in zip(rows, reasons, strict=True) if why is None]
    last = _last(placed)
    sets = _known_first([*published.SETS, *(s for s, _, _ in last)], published.SETS)
    methods = _known_first((m for _, m, _ in last), ORDER)
    cells = _cells(last, sets, methods)
    marked = {s: mark_cells({m: cells[s, m] for m in methods}) for s in sets}
    return Summary(
        sets=sets,
        methods=methods,
        cells=cells,
        marks={(s, m): value for s in sets for m, value in marked[s][0].items()},
        untested=tuple(s for s in sets if not marked[s][1]),
        sizes={s: _size([row for key, row in last.items() if key[0] == s]) for s in sets},
        ranks=_ranks(sets, methods, cells),
        times={m: _times([row for key, row in last.items() if key[1] == m]) for m in methods},
        setups=_setups(list(last.values())),
        damaged=tuple(f"row {i}: {why}" for i, why in enumerate(reasons, 1) if why),
        superseded=len(placed) - len(last),
    )


def baseline(summary: Summary) -> tuple[str, dict[str, float]]:
    """What errors are divided by: the name for the axis, and the error by set."""
    if "SVM" in summary.methods:
        cells = {s: summary.cells[s, "SVM"] for s in summary.sets}
        return "SVM", {s: cell.mean for s, cell in cells.items() if cell.n}
    return "the paper's SVM", {s: published.ERRORS[s]["SVM"].mean for s in summary.sets if s in published.ERRORS}
