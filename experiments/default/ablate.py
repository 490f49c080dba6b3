"""What each default of the learner is worth: the default against variants with one setting changed.

    cd experiments/default
    python ablate.py prepare --data FOLDER --out sets.npz          # where pandas is
    python ablate.py run --data sets.npz --out ablations.jsonl [--sets …] [--variants …] [--splits 0 1 2] [--seeds 0]
        [--device cuda] [--jobs 12] [--limit SECONDS]
    python ablate.py table ablations.jsonl [--into README.md]

Test rows of a split are never used. Of the split's training rows, which are in random order, the first four fifths
train and the last fifth judges:

    error = (1/m) Σ (y_i - clip(f(x_i)))²      over the m rows of the last fifth, y and f in [-1, 1]

One row per set, split, seed and variant is appended; what the file has is not done again. A variant is run only on the
sets where it differs from the default. "run" needs torch, numpy and scikit-learn alone.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hgk import HGKRegressor
from hgk.arrays import device_of
from hgk.bench.protocol import clipped_error, split_rows, to_cube, training_rows
from hgk.events import Chosen, last
from hgk.learners import Default, Kind, Settings, register
from hgk.learners.default.kinds import KINDS, warped
from hgk.targets import FewValues, Target

sys.path.append(str(Path(__file__).parents[1]))
from records import Row, circumstances, fill_side_by_side, prepare, prepared_sets, stored

KEY = ("set", "split", "seed", "variant")
DEFAULT = "default"
MARKS = "<!-- ablations -->", "<!-- end of ablations -->"

SETS = (
    "bank-marketing", "cadata", "cod-rna", "covtype", "cpusmall", "cycle-power-plant", "higgs", "letter-recognition",
    "magic", "pendigits", "satimage", "shuttle", "thyroid-ann", "updrs-motor",
)  # fmt: skip
# Labels of two values; of three to forty; of ten and more; more than 32 features.
TWO_VALUES = ("bank-marketing", "cod-rna", "covtype", "higgs", "magic", "thyroid-ann")
FEW_VALUES = ("letter-recognition", "pendigits", "satimage", "shuttle")
MANY_VALUES = ("letter-recognition", "pendigits")
WIDE = ("covtype", "higgs", "satimage", "updrs-motor")
NARROW = tuple(name for name in SETS if name not in WIDE)


# --------------------------------------------------------------------------------------------------- variants


@dataclass(frozen=True)
class Variant:
    """Changed settings, and the sets on which they make a difference."""

    changes: dict[str, Any] = field(default_factory=dict)
    sets: Sequence[str] = SETS

    @property
    def settings(self) -> Settings:
        return replace(Settings(), **self.changes)

    @property
    def told(self) -> dict[str, Any]:
        """The changed settings as they are recorded: kinds and functions by their names."""
        return {name: _told(value) for name, value in self.changes.items()}


def _told(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_told(part) for part in value]
    return value.name if isinstance(value, Kind) else value.__name__ if callable(value) else value


def kinds(keep: Callable[[Kind], bool] = lambda kind: True, **changed: Kind) -> dict[str, Any]:
    """The default's kinds but those not kept, and some of them changed."""
    return {"kinds": tuple(changed.get(kind.name, kind) for kind in KINDS if keep(kind))}


def without(name: str) -> dict[str, Any]:
    return kinds(lambda kind: kind.name != name)


OF_NAME = {kind.name: kind for kind in KINDS}
ANY_WIDTH = replace(
    OF_NAME["oblique"], name="oblique for any number of features", suits=lambda n, features, settings: n >= settings.few
)
WITHOUT_MAPS = replace(OF_NAME["warped"], name="warped without oblique nodes", build=partial(warped, maps=0))


@dataclass(frozen=True, eq=False)
class WiderPowers(FewValues):
    """Two values with powers up to 2 to choose from."""

    powers = (1.0, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0)


def none(target: Target, Y: torch.Tensor, given: float) -> list[Target]:
    return []


def powers_up_to_2(target: Target, Y: torch.Tensor, given: float) -> list[Target]:
    return [WiderPowers(few.numbers, few.values) for few in target.refinements(Y, given)]


VARIANTS = {
    DEFAULT: Variant(),
    "first round of 60 steps": Variant({"first": (60, 401)}),
    "first round of 150 steps": Variant({"first": (150, 401)}),
    "second round half as long": Variant({"second_steps": (20, 12)}),
    "second round twice as long": Variant({"second_steps": (80, 50)}),
    "second round of 40 steps for many outputs": Variant({"second_steps": (40, 40)}, MANY_VALUES),
    "no last round": Variant({"last_steps": (0, 0)}),
    "last round of larger batches": Variant({"last_batch": (2001, 3001)}),
    "last round the same for many features": Variant({"last_steps": (8, 8), "last_batch": (1251, 1251)}, WIDE),
    "all kinds alone": Variant(kinds(lambda kind: kind.name == "all kinds")),
    "without all kinds": Variant(without("all kinds")),
    "without maps": Variant(without("maps")),
    "without warped": Variant(without("warped")),
    "without oblique": Variant(without("oblique"), WIDE),
    "oblique for few features, too": Variant(kinds(oblique=ANY_WIDTH), NARROW),
    "warped without oblique nodes": Variant(kinds(warped=WITHOUT_MAPS)),
    "no narrowing": Variant({"narrowing": (0.0,)}),
    "no pruning": Variant({"pruning": 0.0}),
    "three times the pruning": Variant({"pruning": 0.03}),
    "one fold aside": Variant({"aside": (3, 1)}),
    "one member": Variant({"members": 1}),
    "all members": Variant({"members": len(KINDS)}),
    "few values as numbers": Variant({"refinements": none}, FEW_VALUES),
    "two values without a power": Variant({"refinements": none}, TWO_VALUES),
    "two values with powers up to 2": Variant({"refinements": powers_up_to_2}, TWO_VALUES),
    "judged on 1000 rows": Variant({"judge": 1000}),
    "no penalty on maps": Variant({"map_penalty": 0.0}),
    "leaves from 3000 rows": Variant({"divided": 3000}),
    "leaves from 3000 rows that gain a standard error": Variant({"divided": 3000, "leaf_margin": 1.0}),
    "leaves from 3000 rows, of a quarter of them, too": Variant({"divided": 3000, "leaf_shares": (0.5, 0.25)}),
    "leaves from 3000 rows, by steps of twice the rate": Variant({"divided": 3000, "leaf_rates": (0.1, 0.2)}),
    "leaves from 3000 rows, by 20 steps": Variant({"divided": 3000, "leaf_steps": (20, 5)}),
}


# ------------------------------------------------------------------------------------------------------- runs


@lru_cache(maxsize=1)
def arrays(npz: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(npz) as file:
        return file[f"{name}/X"], file[f"{name}/y"]


def parts(name: str, X: np.ndarray, y: np.ndarray, split: int) -> tuple[np.ndarray, ...]:
    """X and y of the rows that train, X and y of those that judge: all of them training rows of the split."""
    train, _ = split_rows(len(y), training_rows(name, len(y)), split)
    n = 4 * len(train) // 5
    learn, judge = train[:n], train[n:]
    X_learn, X_judge = to_cube(X[learn].astype(float), X[judge].astype(float))
    return X_learn, y[learn], X_judge, y[judge]


def row_of(npz: Path, device: str, threads: int, name: str, split: int, seed: int, variant: str) -> Row:
    torch.set_num_threads(threads)
    X, y, X_judge, y_judge = parts(name, *arrays(npz, name), split)
    register("ablation", Default(VARIANTS[variant].settings))
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HGKRegressor("ablation", device=device, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - begun
    error, standard_error = clipped_error(model.predict(X_judge), y_judge)
    chosen = last(model.history_, Chosen)
    row = {"set": name, "split": split, "seed": seed, "variant": variant, "changed": VARIANTS[variant].told}
    row |= {"error": error, "standard_error": standard_error, "n_train": len(y), "n_judge": len(y_judge)}
    row |= {"averaged": None if chosen is None else list(chosen.candidates), "seconds": round(seconds, 3)}
    return row | circumstances(device, threads)


def run_all(options: argparse.Namespace) -> None:
    """In the order of splits, so that a limit leaves whole splits behind."""
    names = prepared_sets(options.data, options.sets)
    runs = [
        (name, split, seed, variant)
        for split in options.splits
        for seed in options.seeds
        for name in names
        for variant in options.variants
        if name in VARIANTS[variant].sets
    ]
    row = partial(row_of, options.data, str(device_of(options.device)), options.threads)
    fill_side_by_side(options.out, runs, row, KEY, options.jobs, options.limit)


# ------------------------------------------------------------------------------------------------------ table


def log_ratios(rows: Iterable[Row]) -> dict[str, dict[str, np.ndarray]]:
    """log(error / the default's error) over the splits and seeds that both have: by variant, then by set."""
    errors = {tuple(row[name] for name in KEY): row["error"] for row in rows}
    ratios: dict[str, dict[str, list[float]]] = {}
    for (name, split, seed, variant), error in errors.items():
        if variant != DEFAULT and (default := errors.get((name, split, seed, DEFAULT))):
            ratios.setdefault(variant, {}).setdefault(name, []).append(np.log(error / default))
    return {variant: {name: np.array(r) for name, r in of_sets.items()} for variant, of_sets in ratios.items()}


def cell(mean: float, error: float) -> str:
    """exp of a mean logarithm, and the standard error of that."""
    return f"{np.exp(mean):.3f}" + (f" ± {np.exp(mean) * error:.3f}" if np.isfinite(error) else "")


def standard_error(ratios: np.ndarray) -> float:
    return float(ratios.std(ddof=1) / len(ratios) ** 0.5) if len(ratios) > 1 else float("nan")


def table(rows: Iterable[Row]) -> str:
    """Geometric means of error ratios, a line per variant; the mean is over the sets that a variant was run on."""
    ratios = log_ratios(rows)
    names = [name for name in SETS if any(name in of_sets for of_sets in ratios.values())]
    lines = ["| variant | mean over sets | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for variant in [variant for variant in VARIANTS if variant in ratios]:
        of_sets = ratios[variant]
        means, errors = zip(*((r.mean(), standard_error(r)) for r in of_sets.values()), strict=True)
        overall = cell(float(np.mean(means)), float(np.linalg.norm(errors)) / len(errors))
        cells = [cell(of_sets[name].mean(), standard_error(of_sets[name])) if name in of_sets else "" for name in names]
        lines.append(f"| {variant} | {overall} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written_into(page: str, table: str) -> str:
    """The page with the table between its two marks.

    >>> print(written_into("Above.\\n<!-- ablations -->\\nold\\n<!-- end of ablations -->\\nBelow.", "new"))
    Above.
    <!-- ablations -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- end of ablations -->
    Below.
    """
    before, rest = page.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{after}"


# ---------------------------------------------------------------------------------------------------- command


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    first = what.add_parser("prepare", help="write the sets of a data folder into one file")
    first.add_argument("--data", type=Path, help="folder of <set>.parquet, or HGK_DATA_HOME")
    then = what.add_parser("run", help="do the runs that --out does not have yet")
    then.add_argument("--data", type=Path, required=True, help="the prepared sets")
    then.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    then.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    then.add_argument("--seeds", nargs="+", type=int, default=[0])
    then.add_argument("--device", default="cpu")
    then.add_argument("--jobs", type=int, default=1, help="fits at a time")
    then.add_argument("--threads", type=int, default=1, help="CPU threads of a fit")
    then.add_argument("--limit", type=float, default=float("inf"), help="seconds in all")
    for command in (first, then):
        command.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
        command.add_argument("--out", type=Path, required=True)
    show = what.add_parser("table", help="ratios of errors as Markdown")
    show.add_argument("file", type=Path)
    show.add_argument("--into", type=Path, help="write it between the marks of this page")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.what == "prepare":
        prepare(options.out, options.data, options.sets)
    elif options.what == "run":
        run_all(options)
    elif options.into:
        options.into.write_text(written_into(options.into.read_text(), table(stored(options.file))))
    else:
        print(table(stored(options.file)))


if __name__ == "__main__":
    main()
