"""Speed on an accelerator, beside floors counted from bytes and operations.

    PYTHONPATH=src python3 benchmarks/gpu.py [--npz sets.npz] [--only step fit ...] [--out benchmarks/results/gpu.json]

Needs torch, triton and scikit-learn only. ``--npz`` (experiments/table1/bare.py prepare) brings pendigits, 7000 x 16,
for the fits; without it they are made on Friedman's function. Every part prints a row.

Floors. An operation is an instruction of one lane: a multiply-add counts once. A pair of rows costs a difference and
its power per column and exponent, one multiply-add per column and node, and one per node, forwards; the same twice
again backwards (the exponents are formed anew, and summed up). Only pairs below the diagonal have to be computed.
Exponentials have units of their own and are not counted. Factorisations are counted at the rate of tensor cores.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import make_friedman1

from hgk import HGKRegressor
from hgk.arrays import recorded
from hgk.events import ArchitectureChosen, Searched, last, of_kind
from hgk.kernels import HierarchicalKernel, isotropic, two_layers, with_kinds
from hgk.kernels.sweeps.compiled.sweep import FusedSweep, layout_of
from hgk.machines import Rows, train
from hgk.optimisers import Adam
from hgk.optimisers.recorded import RecordedRun
from hgk.optimisers.steps import Steps
from hgk.progress import Progress
from hgk.search import fold_numbers, lam_grid, search

DEVICE = torch.device("cuda")
# Of the data sheet of an H200: multiply-adds per second of lanes in single and double precision, and of tensor cores in
# double precision; bytes per second.
SINGLE, DOUBLE, TENSOR, MEMORY = 67e12 / 2, 34e12 / 2, 67e12 / 2, 4.8e12


def seconds(work, repeat: int = 5) -> float:
    """The median of several, after one that compiles."""
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def uniform_rows(n: int, d: int = 16, copies: int = 2) -> Rows:
    """Rows with rank copies: uniform columns are their own ranks."""
    X, y = make_friedman1(n, n_features=d, noise=0.5, random_state=0)
    X = np.hstack([2 * X - 1] * copies)
    return Rows(*(torch.from_numpy(a).to(DEVICE) for a in (X, (y / np.abs(y).max())[:, None], np.ones(n))))


def mixed_kernel(rows: Rows) -> HierarchicalKernel:
    """8 smooth and 8 rough nodes on all columns."""
    d = rows.X.shape[1]
    tree = with_kinds(two_layers(d, 16, d), rough=list(range(8, 16)))
    return HierarchicalKernel(tree, tree.start(rows.spread, np.random.default_rng(0)))


def operations(kernel: HierarchicalKernel, pairs: float) -> float:
    """Of K, by the count above."""
    tree = kernel.architecture
    columns = sum(len(members.used) for members in tree.members)
    return pairs * (2 * columns + sum(map(len, tree.coordinates)) + len(tree.coordinates))


def step(options) -> list[dict]:
    """One mini-batch step, b = 2000, 16 columns with rank copies, 8 smooth and 8 rough nodes."""
    b, rows = 2000, uniform_rows(7000)
    kernel = mixed_kernel(rows)
    run = RecordedRun(Steps(Adam(400, b), kernel, rows, np.random.default_rng(0), Progress()))
    run.make()
    whole = seconds(recorded([run.make], DEVICE), 30)
    sweep = FusedSweep(layout_of(kernel.architecture, DEVICE), run.weights, 1.0, rows.X[:b].float())
    G = torch.randn(b, b, device=DEVICE)
    G = G + G.T

    def both():
        sweep.matrix()
        sweep.backward(G)

    both()
    passes = seconds(recorded([both], DEVICE), 30)
    floor = 3 * operations(kernel, b * b / 2) / SINGLE
    factor = 2 * b**3 / 6 / TENSOR  # Cholesky and the inverse of its factor
    return [
        entry("one mini-batch step, b = 2000, 32 columns, 8 + 8 nodes", whole, floor + factor, "at most 8 ms, aim 4"),
        entry("its kernel and backward sweep", passes, floor, "within 3 of the floor"),
    ]


def data(options) -> tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """7000 training rows and up to 15,000 others."""
    if options.npz:
        from hgk.bench.protocol import make_split

        with np.load(options.npz) as sets:
            split = make_split("pendigits", sets["pendigits/X"].astype(float), sets["pendigits/y"], 0)
        return "pendigits", split.X, split.y, split.X_test, split.y_test
    X, y = make_friedman1(22_000, n_features=16, noise=0.5, random_state=0)
    y = 2 * (y - y.min()) / np.ptp(y) - 1
    return "Friedman's function", X[:7000], y[:7000], X[7000:], y[7000:]


def mse(t: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((np.clip(t, -1, 1) - y) ** 2))


def fit(options) -> list[dict]:
    """The default fit and 15,000 predictions, all candidates and averaging included."""
    name, X, y, X_test, y_test = data(options)
    many = np.resize(np.arange(len(X_test)), 15_000)
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        model = HGKRegressor(random_state=0, device="cuda").fit(X, y)
        fitted = time.perf_counter() - begun
        t = model.predict(X_test[many])
        times.append((time.perf_counter() - begun, fitted))
    first, (whole, fitted) = times[0][0], min(times[1:])
    error = mse(t, y_test[many])
    note = f"{name}: error {error:.5f}; the fit {fitted:.2f} s; the first, which compiles, {first:.1f} s"
    return [entry("default fit and 15,000 predictions, 7000 x 16", whole, None, "at most 5 s, aim 3", note)]


def grid(options) -> list[dict]:
    """The plain machine: 10 x 10 grid, 5 folds, then five machines; in double precision."""
    _, X, y, _, _ = data(options)
    rows = Rows(*(torch.from_numpy(a).to(DEVICE) for a in (X, y[:, None], np.ones(len(X)))))
    fold_of, lams = fold_numbers(len(X), 5, np.random.default_rng(0)), lam_grid(len(X))
    parts = [(part, rows.weight[part]) for b in range(5) for part in [torch.from_numpy(np.flatnonzero(fold_of != b))]]
    kernel = HierarchicalKernel(isotropic(16), (torch.ones(1, 16, dtype=torch.float64),))
    found = {}

    def work():
        best = search(kernel, rows, fold_of, lams, 1.0, torch.float64)
        train(kernel.with_gamma(best.gamma), rows, best.lam, parts)
        found["products"] = best.products

    took, n = seconds(work, 3), len(X)
    floor = found["products"] * 8 * n**2 / MEMORY + 5 * (0.8 * n) ** 3 / 6 / TENSOR
    note = f"{found['products']} products with a kernel matrix"
    return [entry("plain machine, 10 x 10 grid, 5 folds, 7000 x 16, double", took, floor, "at most 2 s", note)]


def products(options) -> list[dict]:
    """K α for 100,000 x 100,000 pairs, 32 columns of α; K is never stored."""
    n = 100_000
    rows = uniform_rows(n)
    kernel, X = mixed_kernel(rows), rows.X.float()
    alpha = torch.randn(n, 32, device=DEVICE)
    took = seconds(lambda: kernel.multiply(X, X, alpha), 3)
    floor = (operations(kernel, n**2) + 32 * n**2) / SINGLE
    return [entry("K·α, 100,000², 32 columns of α, 8 + 8 nodes, float32", took, floor, "within 3 of the floor")]


def exact(options) -> list[dict]:
    """Exact machines in double precision, kernel and λ given."""
    found = []
    for n, bound in ((50_000, "at most 30 s"), (100_000, "possible")):
        rows = uniform_rows(n)
        kernel = mixed_kernel(rows)
        torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        try:
            machine = train(kernel, rows, 1e-6)
            torch.cuda.synchronize()
            took = time.perf_counter() - begun
            some = rows.X[:2000]
            residual = rows.Y[:2000] - machine(some) - n * 1e-6 * machine.alpha[:2000]  # K α + nλ α = y
            note = f"{torch.cuda.max_memory_allocated() / 2**30:.0f} GiB, residual {float(residual.abs().max()):.1e}"
        except (MemoryError, torch.OutOfMemoryError) as error:
            took, note = float("nan"), str(error)[:200]
        floor = operations(kernel, n**2 / 2) / DOUBLE + n**3 / 6 / TENSOR
        found.append(entry(f"exact fit at n = {n:,}, double, kernel and λ given", took, floor, bound, note))
        torch.cuda.empty_cache()
    return found


def gpytorch(options) -> list[dict]:
    """An exact ARD process, 100 steps of Adam on the marginal likelihood, on the same rows."""
    import gpytorch as gp

    name, X, y, X_test, y_test = data(options)
    x, z, labels = (torch.from_numpy(a).float().to(DEVICE) for a in (X, X_test, y))

    class Exact(gp.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernel(ard_num_dims=x.shape[1]))

        def forward(self, x):
            return gp.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    begun = time.perf_counter()
    likelihood = gp.likelihoods.GaussianLikelihood().to(DEVICE)
    model = Exact(x, labels, likelihood).to(DEVICE).train()
    likelihood.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    target = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(100):
        optimiser.zero_grad()
        loss = -target(model(x), labels)
        loss.backward()
        optimiser.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gp.settings.fast_pred_var():
        t = likelihood(model(z)).mean.cpu().numpy()
    took = time.perf_counter() - begun
    return [entry(f"GPyTorch, exact ARD, 100 steps of Adam, {name}", took, None, "", f"error {mse(t, y_test):.5f}")]


def paper(options) -> list[dict]:
    """The paper's protocol: Algorithm 1 with N = 1000, 500 and 10 on 7 architectures x 5 folds, in double precision."""
    name, X, y, X_test, y_test = data(options)
    begun = time.perf_counter()
    model = HGKRegressor("paper", random_state=0, device="cuda").fit(X, y)
    took = time.perf_counter() - begun
    risks = last(model.history_, ArchitectureChosen).risks
    note = f"{name}: error {mse(model.predict(X_test), y_test):.5f}; architectures {[round(r, 5) for r in risks]}"
    # an annealing step reads and writes the exponents of D2 x D1 once
    taken = [event.how for event in of_kind(model.history_, Searched)]
    steps = 1000 * taken.count("start") + 500 * taken.count("anneal")
    note += f"; {steps} annealing steps and {taken.count('descend')} descents of all chains"
    floor = steps * 2 * 8 * (0.8 * len(X)) ** 2 * (4 / 9) * (2 / 9) / MEMORY
    return [entry(f"the paper's protocol, {len(X)} rows, double", took, floor, "at most 180 s", note)]


def entry(what: str, took: float, floor: float | None, bound: str, note: str = "") -> dict:
    row = {"what": what, "seconds": took, "floor": floor, "ratio": None if floor is None else took / floor}
    row |= {"asked": bound, "note": note}
    print(line(row), flush=True)
    return row


def line(row: dict) -> str:
    floor = "" if row["floor"] is None else f"floor {row['floor'] * 1e3:.3g} ms, {row['ratio']:.1f} x"
    return f"{row['what']:64s} {row['seconds'] * 1e3:10.3f} ms   {floor:28s} {row['asked']:24s} {row['note']}"


PARTS = {part.__name__: part for part in (step, fit, grid, products, exact, gpytorch, paper)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npz", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version()}
    machine |= {"date": datetime.now(UTC).date().isoformat()}
    rows = []
    for name in options.only:
        try:
            rows += PARTS[name](options)
        except Exception as error:  # the other parts are measured all the same
            rows.append({"what": name, "failed": f"{type(error).__name__}: {error}"[:500]})
            print(name, rows[-1]["failed"], flush=True)
        torch.cuda.empty_cache()
        if options.out:  # part by part, so that a run that is cut off leaves what it had
            options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print(machine)


if __name__ == "__main__":
    main()
