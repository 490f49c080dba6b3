"""Speed of the machines with other losses, as ratios measured in one run.

    python benchmarks/losses.py [--n 10000] [--path 3000] [--methods 2000] [--grid 3000] [--quantiles 3000]
        [--liquid PYTHON] [--cpu] [--out FILE]

- one: a hinge machine on ``--n`` rows at three λ, against SVC(kernel="precomputed") on the same matrix. SVC runs at
  its default tolerance; the gap of its solution is computed, and BoxDual runs until its own is no larger. (SVC has an
  offset and BoxDual has not, so the two problems differ by that.)
- path: ten λ on ``--path`` rows, each from the one before, against ten cold starts and ten SVCs, at their defaults.
- methods: what the box dual could have been solved by, on ``--methods`` rows to a gap of 1e-3: operator splitting with
  one factor, descent without Newton steps, and what was chosen, also to 1e-8.
- smooth: Newton's method for the smooth losses on ``--path`` rows, in multiples of one least-squares machine.
- columns: ten classes, each against the rest, on ``--path`` rows at four λ to a gap of 1e-3: steps by conjugate
  gradients where the solver wants them, against factorisations alone.

- grid: 10 × 10 × 5 folds with the hinge loss and the five machines of the chosen cell, on ``--grid`` rows, against
  GridSearchCV(SVC) on the same grid and folds. Of the 100 cells ten are measured, a diagonal (each width and each λ
  once), and their sum is multiplied by ten; SVC has an offset. Both choose by their own risk.
  liquidSVM 1.0.1's own grid with the hinge loss, if ``--liquid`` names a Python that can import it.
- quantiles: five levels at once by HGKQuantileRegressor("plain") and by its default, against five LightGBM models with
  early stopping on a fifth and refit, where that is installed: seconds, and the pinball loss of new rows.

``--cpu`` counts seconds of the process in one thread instead of the clock's: for machines that are busy with
other work. The compiled part is loaded before the first measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.svm import SVC

import hgk.solvers.box as box
import hgk.solvers.newton as newton
from hgk import HGKQuantileRegressor, HierarchicalKernel, isotropic
from hgk.losses import Expectile, Hinge, Logistic, SquaredHinge
from hgk.machines import Rows
from hgk.progress import Progress
from hgk.search import Convex, Task, fold_numbers, lam_grid
from hgk.solvers import BoxDual, Cholesky, Newton
from hgk.targets import Numbers

LAMS = (1e-3, 1e-4, 1e-5)
clock = time.perf_counter


def timed(work):
    start = clock()
    result = work()
    return result, clock() - start


def table(n, d=8):
    """Two classes that overlap: about a tenth of the labels is wrong."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    score = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 - 0.3 + 0.1 * rng.standard_normal(n)
    y = np.where(score > 0, 1.0, -1.0) * np.where(rng.random(n) < 0.05, -1, 1)
    return X, y


def data(n, d=8):
    """Its Gaussian kernel matrix and labels."""
    X, y = table(n, d)
    X = torch.from_numpy(X)
    return torch.exp(-0.5 * torch.cdist(X, X) ** 2), torch.from_numpy(y)[:, None]


def svc(K, y, lam):
    """SVC's seconds, and the relative duality gap that it ended with."""
    K, y = K.numpy(), y[:, 0].numpy()
    C = 1 / (2 * len(y) * lam)
    machine, seconds = timed(lambda: SVC(C=C, kernel="precomputed", cache_size=1000).fit(K, y))
    alpha = np.zeros(len(y))
    alpha[machine.support_] = machine.dual_coef_[0]
    t = K @ alpha
    norm = alpha @ t / 2
    primal = norm + C * np.maximum(0, 1 - y * (t + machine.intercept_)).sum()
    return seconds, float((primal - (np.abs(alpha).sum() - norm)) / primal)


def one(n):
    K, y = data(n)
    rows = {}
    for lam in LAMS:
        peer, gap = svc(K, y, lam)
        solver = BoxDual(tol=gap)
        state = solver.prepare(K)
        found, seconds = timed(lambda s=solver, state=state, lam=lam: s.solve(state, y, lam, Hinge()))
        rows[f"lam {lam:g}"] = {
            "hgk_s": seconds,
            "SVC_s": peer,
            "times_faster": peer / seconds,
            "gap": found.stats["gap"],
            "SVC_gap": gap,
            "support": int((found.alpha != 0).sum()),
            "status": found.status.name,
        }
    return {"n": n, **rows}


def path(n):
    K, y = data(n)
    lams, solver = list(np.logspace(-2, -6, 10)), BoxDual()
    state = solver.prepare(K)
    warm, seconds = timed(lambda: solver.path(state, y, lams, Hinge()))
    cold, cold_seconds = timed(lambda: [solver.solve(state, y, lam, Hinge()) for lam in lams])
    peers = [svc(K, y, lam) for lam in lams]
    peer_seconds = sum(peer[0] for peer in peers)
    return {
        "n": n,
        "lams": lams,
        "hgk_path_s": seconds,
        "hgk_cold_s": cold_seconds,
        "SVC_s": peer_seconds,
        "times_faster_than_cold": cold_seconds / seconds,
        "times_faster_than_SVC": peer_seconds / seconds,
        "largest_gap": max(found.stats["gap"] for found in warm + cold),
        "SVC_largest_gap": max(peer[1] for peer in peers),
        "largest_difference_of_f": max(
            float((K @ (a.alpha - b.alpha)).abs().max()) for a, b in zip(warm, cold, strict=True)
        ),
    }


def splitting(K, y, lam, tol, most=3000):
    """min ½ aᵀKa - aᵀy with a = z in the box, by ADMM with the factor of K + ρI; iterations and the gap reached."""
    low, high = Hinge().domain(y)
    C, rho = 1 / (2 * len(y) * lam), 0.3
    L = torch.linalg.cholesky(K + rho * torch.eye(len(y), dtype=K.dtype))
    z = w = torch.zeros_like(y)
    for iteration in range(1, most + 1):
        a = torch.cholesky_solve(y + rho * (z - w), L)
        a = 1.6 * a - 0.6 * z
        z = torch.minimum(torch.maximum(a + w, -C * high), -C * low)
        w = w + a - z
        if iteration % 10 == 0:
            t = K @ z
            primal = 0.5 * float((z * t).sum()) + C * float(Hinge().value(y, t).sum())
            gap = (primal - float((z * y).sum()) + 0.5 * float((z * t).sum())) / primal
            if gap <= tol:
                break
    return iteration, gap


def methods(n):
    K, y = data(n)
    rows = {}
    for lam in (1e-4, 1e-6):
        (iterations, gap), seconds = timed(lambda lam=lam: splitting(K, y, lam, 1e-3))
        rows[f"lam {lam:g}, splitting"] = {"s": seconds, "gap": gap, "iterations": iterations}
        for name, tol, patience in (
            ("descent alone", 1e-3, 10**6),
            ("BoxDual", 1e-3, box.STEPS_PER_COORDINATE),
            ("descent alone, fine", 1e-8, 10**6),
            ("BoxDual, fine", 1e-8, box.STEPS_PER_COORDINATE),
        ):
            kept, box.STEPS_PER_COORDINATE = box.STEPS_PER_COORDINATE, patience
            solver = BoxDual(tol)
            state = solver.prepare(K)
            found, seconds = timed(lambda s=solver, state=state, lam=lam: s.solve(state, y, lam, Hinge()))
            box.STEPS_PER_COORDINATE = kept
            rows[f"lam {lam:g}, {name}"] = {"s": seconds} | {
                key: found.stats[key] for key in ("gap", "steps", "newton", "rounds")
            }
    return {"n": n, **rows}


def smooth(n):
    K, y = data(n)
    plain, smooth_solver = Cholesky(), Newton()
    _, unit = timed(lambda: plain.solve(plain.prepare(K), y, 1e-4))
    rows = {"n": n, "least_squares_s": unit}
    for loss in (Logistic(), SquaredHinge(), Expectile(0.9)):
        found, seconds = timed(lambda loss=loss: smooth_solver.solve(smooth_solver.prepare(K), y, 1e-4, loss))
        rows[type(loss).__name__] = {
            "s": seconds,
            "least_squares_machines": seconds / unit,
            "steps": found.stats["newton"],
            "gap": found.stats["gap"],
        }
    return rows


def columns(n, classes=10):
    """Ten classes by the angle of two columns, on the same kernel."""
    K, _ = data(n)
    X = torch.from_numpy(table(n)[0])
    number = ((torch.atan2(X[:, 0], X[:, 1]) / torch.pi + 1) / 2 * classes).long().clamp(max=classes - 1)
    Y, rows = 2.0 * torch.nn.functional.one_hot(number, classes).double() - 1, {}
    solver, lams, usual = Newton(1e-3), [1e-2, 1e-3, 1e-4, 1e-5], newton.FEW_STEPS
    for loss in (Logistic(), SquaredHinge(), Expectile(0.9)):
        seconds = {}
        for way, few in (("factored", 10**9), ("chosen", usual)):
            newton.FEW_STEPS = few
            found, seconds[way] = timed(lambda loss=loss: solver.path(solver.prepare(K), Y, lams, loss))
        rows[type(loss).__name__] = {
            "s": seconds["chosen"],
            "factored_s": seconds["factored"],
            "times_faster": seconds["factored"] / seconds["chosen"],
            "gap": max(one.stats["gap"] for one in found),
        }
    return {"n": n, "classes": classes, **rows}


def grid(n, liquid):
    X, y = table(n)
    rng = np.random.default_rng(1)
    rows = Rows(*map(torch.from_numpy, (X, y[:, None], np.ones(n))))
    problem = Convex(Hinge())
    task = Task(rows, fold_numbers(n, 5, rng), lam_grid(n), Numbers.of(y, np.ones(n)), problem=problem)
    kernel = HierarchicalKernel(isotropic(X.shape[1]), isotropic(X.shape[1]).start(np.ones(X.shape[1]), rng))
    found, seconds = timed(problem.grid(kernel, rows, task.fold_of, task.lams).alone)
    _, whole = timed(lambda: problem.machine(kernel, task, Progress()))
    result = {"n": n, "hgk_search_s": seconds, "hgk_search_and_five_machines_s": whole, "hgk_risk": found.risk}
    cells = [(i, j) for i in range(10) for j in range(10) if (i + j) % 10 == 0]
    peer, right = 0.0, []
    for i, j in cells:
        C, gamma = 1 / (2 * (4 * n // 5) * task.lams[j]), float(found.gammas[i]) ** -2
        svm = SVC(C=C, gamma=gamma, cache_size=1000)
        scores, spent = timed(lambda s=svm: cross_val_score(s, X, y, cv=PredefinedSplit(task.fold_of)))
        peer += spent
        right.append(float(scores.mean()))
    result |= {"SVC_cells": len(cells), "SVC_s_scaled_to_100_cells": peer * 100 / len(cells)}
    result |= {"SVC_best_accuracy_of_these": max(right)}
    result["times_faster_than_GridSearchCV"] = result["SVC_s_scaled_to_100_cells"] / seconds
    return result | (liquid_grid(liquid, X, y, whole) if liquid else {"liquidSVM": "not given (--liquid)"})


LIQUID = """
import sys, time, json, numpy as np
from liquidSVM import SVM
z = np.load(sys.argv[1]); seconds = []
for _ in range(3):
    m = SVM(z["X"], z["y"], scenario="BC hinge", grid_choice=0, folds=5, threads=int(sys.argv[2]), display=0)
    start = time.perf_counter(); m.train(); m.select(); seconds.append(time.perf_counter() - start)
print(json.dumps({"seconds": min(seconds)}))
"""


def liquid_grid(python, X, y, own):
    if subprocess.run([python, "-c", "import liquidSVM"], capture_output=True).returncode:
        return {"liquidSVM": f"missing: {python} cannot import it"}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/data.npz", X=X, y=y)
        command = [python, "-c", LIQUID, f"{folder}/data.npz", str(torch.get_num_threads())]
        said = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1])
    return {"liquidSVM_s": said["seconds"], "hgk_against_liquidSVM": own / said["seconds"]}


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def quantiles(n):
    """A label whose spread depends on x."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n + 5000, 8))
    middle = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2
    y = middle + (0.1 + 0.3 * np.abs(X[:, 3])) * rng.standard_normal(len(X))

    def loss(t):
        r, tau = y[n:, None] - t, np.array(LEVELS)
        return float(np.maximum(tau * r, (tau - 1) * r).mean())

    rows = {"n": n}
    for preset in ("plain", "default"):
        model = HGKQuantileRegressor(preset, quantiles=LEVELS, random_state=0)
        _, seconds = timed(lambda m=model: m.fit(X[:n], y[:n]))
        rows[preset] = {"s": seconds, "pinball": loss(model.predict(X[n:])), "lams": model.lams_.tolist()}
    if find_spec("lightgbm") is None:
        return rows | {"LightGBM": "missing: not installed"}
    t, seconds = timed(lambda: boosted(X[:n], y[:n], X[n:]))
    return rows | {"LightGBM": {"s": seconds, "pinball": loss(np.sort(t, axis=1))}}


def boosted(X, y, Z):
    from lightgbm import LGBMRegressor, early_stopping

    n, t = 4 * len(y) // 5, []
    for level in LEVELS:
        fixed = {"objective": "quantile", "alpha": level, "learning_rate": 0.05, "verbose": -1, "random_state": 0}
        fixed["n_jobs"] = torch.get_num_threads()
        first = LGBMRegressor(n_estimators=5000, **fixed)
        first.fit(X[:n], y[:n], eval_X=X[n:], eval_y=y[n:], callbacks=[early_stopping(50, verbose=False)])
        t.append(LGBMRegressor(n_estimators=max(1, first.best_iteration_), **fixed).fit(X, y).predict(Z))
    return np.column_stack(t)


def main():
    global clock
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--path", type=int, default=3000)
    parser.add_argument("--methods", type=int, default=2000)
    parser.add_argument("--grid", type=int, default=3000)
    parser.add_argument("--quantiles", type=int, default=3000)
    parser.add_argument("--liquid", help="a Python that can import liquidSVM")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.cpu:
        torch.set_num_threads(1)
        clock = time.process_time
    one(50)
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "seconds": "of the process, one thread, on a machine busy with other work" if options.cpu else "of the clock",
    }
    if options.n < 10_000 or min(options.path, options.grid, options.quantiles) < 3000:
        result["note"] = "A smaller run than the default sizes of 10,000 and 3000 rows."
    parts = {
        "one": lambda: one(options.n),
        "path": lambda: path(options.path),
        "methods": lambda: methods(options.methods),
        "smooth": lambda: smooth(options.path),
        "columns": lambda: columns(options.path),
        "grid": lambda: grid(options.grid, options.liquid),
        "quantiles": lambda: quantiles(options.quantiles),
    }
    for name, work in parts.items():  # a run that is cut keeps what it has
        result[name] = work()
        print(json.dumps({name: result[name]}, indent=2), flush=True)
        if options.out:
            options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
