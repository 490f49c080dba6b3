"""Ways to divide rows into leaves, compared on training rows of the large sets.

    python experiments/default/partitions.py --data FOLDER --out experiments/default/partitions.jsonl

Of all rows but 10,000 the default learner's fold is set aside; kernels are learned on the others, and leaves are grown
in some branches of 8000 rows as the default grows them (see ``hgk.learners.default.leaves``). Directions of splits:

    principal, then random     the default: the first partition by principal directions, the second by random ones
    principal                  both
    random                     both
    gradient                   the leading direction of E ∇f ∇fᵀ, f the machine on centres, at rows of the node

and, for leaves whose kernels take no steps of their own, trained with rows beyond their borders:

    overlap 0.1, 0.2           each split gives a side this part of the other side's rows, the nearest ones, too

The error is that of the mean of two partitions on the rows set aside; ``single`` is that of one. One row per set and
way is appended; what the file has is not done again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hgk import HGKRegressor
from hgk.bench.datasets import load
from hgk.bench.protocol import as_numbers, to_cube
from hgk.learners import Default, register
from hgk.learners.default.average import choose_kinds
from hgk.learners.default.division import handed, machine_beside, plans
from hgk.learners.default.learner import Fit, Trials
from hgk.learners.default.leaves import Handed, LeafPlan, LeafTrial, direction_of, metric, trained
from hgk.machines import Direction, Machine, Rows, Sampled, principal_direction, random_direction

sys.path.append(str(Path(__file__).parents[1]))
from records import append, circumstances, missing

KEY = ("set", "way")
# Leaves of so many rows, with so many steps of their kernels.
PLANS = {"cod-rna": (4000, 5), "covtype": (1000, 5), "bank-marketing": (4000, 5)}
DIRECTIONS = ("principal, then random", "principal", "random", "gradient")
OVERLAPS = {"overlap 0": 0.0, "overlap 0.1": 0.1, "overlap 0.2": 0.2}
# Rows of a node at which gradients are taken, and the step of the differences, in deviations of the columns.
ASKED, STEP = 50, 0.05


class Seen(Exception):
    """The fit, as far as it is needed."""


class Until(Default):
    """The default, up to where rows are divided."""

    def learn(self, task, rng, progress, executor):
        fit = Fit(self, task, rng, progress, executor.for_small_steps())
        plain = fit.refine()
        trials, fit.judges = Trials(fit, *fit.plan()).judged(plain)
        raise Seen(fit, choose_kinds(trials, fit.task, fit.judges, progress, 1))


def learned(data: Path, name: str) -> tuple[Fit, list]:
    table = load(name, data)
    X, order = as_numbers(table.X), np.random.default_rng(0).permutation(len(table.y))
    X, _ = to_cube(X[order[10_000:]], X[order[:10_000]])
    register("until leaves", Until())
    try:
        HGKRegressor("until leaves", random_state=0).fit(X, table.y[order[10_000:]])
    except Seen as seen:
        return seen.args
    raise AssertionError("the learner was not asked")


def gradient_direction(machine: Machine, X: torch.Tensor, scale: torch.Tensor) -> Direction:
    """In columns divided by their deviations; what is multiplied by ``scale`` afterwards is divided by it here."""
    deviation = X[:: max(1, len(X) // 500)].double().std(0)
    used = (scale > 0) & (deviation > 0)

    def of_node(rows: torch.Tensor) -> torch.Tensor:
        x, shift = X[rows[:: -(-len(rows) // ASKED)]].float(), torch.diag(STEP * deviation).float()[:, None]
        moved = torch.stack([x + shift, x - shift])  # (2, columns, rows, columns)
        t = machine.kernel.multiply(moved.flatten(0, 2), machine.X.float(), machine.alpha.float(), often=True)
        slopes = t.reshape(2, len(deviation), -1).diff(dim=0)[0].double()
        leading = torch.linalg.eigh(slopes @ slopes.T).eigenvectors[:, -1]
        return torch.where(used, leading / (deviation * scale).clamp_min(1e-300), 0.0)

    def direction(sampled: Sampled) -> torch.Tensor:
        return torch.stack([of_node(rows[there]) for rows, there in zip(sampled.rows, sampled.there, strict=True)])

    return direction


def ways_of_splitting(fit: Fit, kernel: Handed, machine: Machine) -> dict[str, Callable[[int], Direction]]:
    by_gradient = gradient_direction(machine, fit.task.rows.X, metric(kernel.kernel, fit.task.rows.X))
    directions: list[Callable[[int], Direction]] = [direction_of]
    directions += [lambda number, d=d: d for d in (principal_direction, random_direction, by_gradient)]  # type: ignore[misc]
    return dict(zip(DIRECTIONS, directions, strict=True))


def trial_of(fit: Fit, kernels: list[Handed], plan: LeafPlan, directions: Callable[[int], Direction]) -> LeafTrial:
    (fold,) = fit.judges
    out, rest = torch.from_numpy(np.flatnonzero(fit.task.fold_of == fold)), fit.task.training_part(fold)
    rows, settings = fit.task.rows, fit.settings
    sizes, rng = (plan.size * 4 // 5, settings.branch_rows), np.random.default_rng(1)
    return LeafTrial(rows, rest, out, kernels, *sizes, rng, settings, fit.progress, fit.task.clip, directions)


def overlapping(X: torch.Tensor, members: torch.Tensor, t: torch.Tensor, size: int, part: float, split) -> list:
    """(rows that train, which of the new rows t are predicted) of every leaf below."""
    if len(members) <= size:
        return [(members, t)]
    a, b = split(members)
    at, new = X[members].double() @ a, X[t].double() @ a
    left = at <= b
    sides = []
    for mine, its in ((left, new <= b), (~left, new > b)):
        beyond = torch.where(mine, np.inf, (at - b).abs())
        more = beyond.argsort()[: int(part * int((~mine).sum()))]
        chosen = mine.clone()
        chosen[more] = True
        sides += overlapping(X, members[chosen], t[its], size, part, split)
    return sides


def overlapped(fit: Fit, kernel: Handed, trial: LeafTrial, size: int, part: float) -> torch.Tensor:
    """Predictions of the rows judged, of two partitions along random directions whose leaves overlap."""
    rows, scale = fit.task.rows, metric(kernel.kernel, fit.task.rows.X)
    X, t = rows.X, torch.zeros(2, len(trial.index), rows.Y.shape[1], dtype=torch.float64)
    place = torch.full((len(rows),), -1)
    place[trial.index] = torch.arange(len(trial.index))
    for number in range(2):

        def split(members: torch.Tensor, seed: int = number) -> tuple[torch.Tensor, float]:
            Z = X[members].double() * scale
            there = torch.ones(1, len(members), dtype=torch.bool)
            (v,) = random_direction(Sampled((Z - Z.mean(0))[None], members[None], there, seed))
            a = scale * v / v.norm()
            return a, float((X[members].double() @ a).median())

        for branch in trial.branches:
            members = branch.trees[0].parts.order.sort().values
            for mine, new in overlapping(X, members, branch.out, size, part, split):
                if len(new):
                    leaf = trained(kernel, rows[mine], fit.task.clip)
                    multiplied = leaf.kernel.multiply(X[new].float(), X[mine].float(), leaf.alpha.float(), often=True)
                    t[number, place[new]] = multiplied.double().clamp(-fit.task.clip, fit.task.clip)
    return t


def told(t: torch.Tensor, rows: Rows) -> dict[str, float]:
    losses = ((t.mean(0) - rows.Y) ** 2).sum(1)
    error, standard_error = rows.mean(losses)
    single = float(np.mean([rows.mean(((one - rows.Y) ** 2).sum(1))[0] for one in t]))
    return {"error": error, "standard_error": standard_error, "single": single}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    for name in options.sets:
        due = missing([(name, way) for way in (*DIRECTIONS, *OVERLAPS)], options.out, KEY)
        if not due:
            continue
        fit, chosen = learned(options.data, name)
        kernels = handed(chosen, float(fit.task.rows.weight.sum()))
        size, steps = PLANS[name]
        plan = next(replace(plan, steps=steps) for plan in plans(fit, chosen) if plan.size == size)
        (fold,) = fit.judges
        ways = ways_of_splitting(fit, kernels[0], machine_beside(fit, chosen, fit.task.training_part(fold)))
        for _, way in due:
            begun = time.perf_counter()
            trial = trial_of(fit, kernels, plan, ways.get(way, direction_of))
            if way in ways:
                t = trial.judge(plan, fit.executor).t
            else:
                t = overlapped(fit, kernels[0], trial, plan.size * 4 // 5, OVERLAPS[way])
            row = {"set": name, "way": way, "size": size, "steps": steps if way in ways else 0}
            row |= {"rows": len(trial.index), **told(t, fit.task.rows[trial.index])}
            append(
                options.out,
                row | {"seconds": round(time.perf_counter() - begun, 1), **circumstances("cpu", options.threads)},
            )


if __name__ == "__main__":
    main()
