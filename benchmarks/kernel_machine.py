"""Speed of the kernel machine, as ratios measured in one run.

    python benchmarks/kernel_machine.py [--liquid PYTHON] [--quick] [--out benchmarks/results/kernel_machine.json]

- kernel and gradient: 2489 x 1244 rows (the D1 x D2 block of 7000 rows in five folds), 16 columns, 8 nodes,
  against a straightforward numpy version, and the memory they add;
- grid: 10 x 10 x 5 folds at n = 3000, d = 5, against GridSearchCV(KernelRidge) on the same grid and
  folds, and against liquidSVM 1.0.1's default grid if ``--liquid`` names a Python that can import it;
- annealing: one step on the same block, against the floor of reading and writing the exponent once.

The best of several repetitions is taken on both sides. ``--quick`` leaves GridSearchCV out (minutes).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from hgk.kernels import HierarchicalKernel, isotropic, two_layers
from hgk.machines import Rows, train
from hgk.optimisers.annealing import ExponentBlock
from hgk.optimisers.objective import Objective
from hgk.progress import Progress
from hgk.search import SQUARES, Task, fold_numbers, lam_grid, search
from hgk.targets import Numbers

N1, N2, D, NODES = 2489, 1244, 16, 8


def best(work, repeat=5):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def data(dtype):
    rng = np.random.default_rng(0)
    architecture = two_layers(D, NODES, 4, rng=0)
    X, Z = rng.uniform(-1, 1, (N1, D)).astype(dtype), rng.uniform(-1, 1, (N2, D)).astype(dtype)
    kernel = HierarchicalKernel(architecture, architecture.start(2 * X.var(0).astype(float), rng), gamma=0.7)
    return kernel, X, Z


def numpy_kernel(kernel, X, Z):
    S = np.zeros((len(X), len(Z)), X.dtype)
    for i, columns in enumerate(kernel.architecture.coordinates):
        E = np.zeros_like(S)
        for j in columns:
            E += X.dtype.type(kernel.W[0][i, j] ** 2) * (X[:, j, None] - Z[None, :, j]) ** 2
        S += X.dtype.type(2 * kernel.W[1][i] ** 2) * (1 - np.exp(-E))
    return np.exp(-S / X.dtype.type(kernel.gamma**2))


def numpy_gradient(kernel, X, Z, G):
    M = G * numpy_kernel(kernel, X, Z) / X.dtype.type(kernel.gamma**2)
    dv, dw = np.zeros(kernel.W[0].shape), np.zeros(kernel.W[1].shape)
    for i, columns in enumerate(kernel.architecture.coordinates):
        E = np.zeros_like(M)
        for j in columns:
            E += X.dtype.type(kernel.W[0][i, j] ** 2) * (X[:, j, None] - Z[None, :, j]) ** 2
        k = np.exp(-E)
        dw[i] = -4 * float(kernel.W[1][i]) * np.sum(M * (1 - k))
        N = X.dtype.type(2 * kernel.W[1][i] ** 2) * M * k
        for j in columns:
            dv[i, j] = -2 * float(kernel.W[0][i, j]) * np.sum(N * (X[:, j, None] - Z[None, :, j]) ** 2)
    return dv, dw


def kernel_and_gradient():
    rows = {}
    for dtype in (np.float32, np.float64):
        kernel, X, Z = data(dtype)
        G = np.random.default_rng(1).standard_normal((N1, N2)).astype(dtype)
        x, z, g = map(torch.from_numpy, (X, Z, G))
        error = float(np.abs(kernel(X, Z) - numpy_kernel(kernel, X, Z)).max())
        ours = (
            best(lambda k=kernel, x=x, z=z: k.matrix(x, z)),
            best(lambda k=kernel, g=g, x=x, z=z: k.backward(g, x, z)),
        )
        plain = (
            best(lambda k=kernel, X=X, Z=Z: numpy_kernel(k, X, Z), 3),
            best(lambda k=kernel, X=X, Z=Z, G=G: numpy_gradient(k, X, Z, G), 3),
        )
        for name, a, b in zip(("kernel", "gradient"), ours, plain, strict=True):
            rows[f"{name} {np.dtype(dtype)}"] = {"hgk_s": a, "numpy_s": b, "times_faster": b / a}
        rows[f"kernel {np.dtype(dtype)}"]["largest_difference"] = error
    return rows


def memory():
    """Peak memory added by one kernel and one gradient, in a fresh process, in multiples of one n1 x n2 matrix."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    code += "import kernel_machine as b; b.print_memory()"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    return json.loads(out.stdout)


def peak(work):
    """The result of ``work`` and the bytes by which it raised this process's memory at its peak (Linux)."""

    def field(name):
        return int(re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1)) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark to the present size
    before = field("VmRSS")
    result = work()
    return result, field("VmHWM") - before


def print_memory():
    kernel, X, Z = data(np.float32)
    x, z = torch.from_numpy(X), torch.from_numpy(Z)
    kernel.matrix(x[:64], z[:64])  # libraries are loaded before the measurement
    kernel.backward(torch.ones(64, 64), x[:64], z[:64])
    one = N1 * N2 * 4
    K, with_kernel = peak(lambda: kernel.matrix(x, z))
    _, with_gradient = peak(lambda: kernel.backward(K, x, z))
    print(
        json.dumps(
            {
                "kernel_matrices": with_kernel / one,
                "gradient_matrices": with_gradient / one,
                "pairs_x_nodes_would_be": NODES,
                "pairs_x_columns_would_be": D,
            }
        )
    )


def grid_data(n=3000, d=5):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.1 * rng.standard_normal(n)
    return X, np.clip(y / np.abs(y).max(), -1, 1)


def grid(quick, liquid):
    X, y = grid_data()
    rng = np.random.default_rng(1)
    rows = Rows(*map(torch.from_numpy, (X, y[:, None], np.ones(len(y)))))
    task = Task(rows, fold_numbers(len(y), 5, rng), lam_grid(len(y)), Numbers.of(y, np.ones(len(y))))
    kernel = HierarchicalKernel(isotropic(X.shape[1]), isotropic(X.shape[1]).start(np.ones(X.shape[1]), rng))
    found = search(kernel, rows, task.fold_of, task.lams, task.clip)
    result = {
        "hgk_search_s": best(lambda: search(kernel, rows, task.fold_of, task.lams, task.clip), 3),
        "hgk_search_and_five_machines_s": best(lambda: SQUARES.machine(kernel, task, Progress()), 3),
        "hgk_risk": found.risk,
        "hgk_products": found.products,
    }
    if liquid:
        result |= liquid_grid(liquid, X, y)
        # liquidSVM's time holds its five fold machines, so ours must
        result["hgk_against_liquidSVM"] = result["hgk_search_and_five_machines_s"] / result["liquidSVM_s"]
    if not quick:
        n_train = len(y) * 4 // 5
        grid = {"gamma": list(found.gammas**-2.0), "alpha": list(n_train * found.lams)}
        peer = GridSearchCV(
            KernelRidge(kernel="rbf"),
            grid,
            cv=PredefinedSplit(task.fold_of),
            n_jobs=2,
            refit=False,
            scoring="neg_mean_squared_error",
        )
        seconds = best(lambda: peer.fit(X, y), 1)
        result |= {"GridSearchCV_s": seconds, "GridSearchCV_risk": -peer.best_score_}
        result["times_faster_than_GridSearchCV"] = seconds / result["hgk_search_s"]
    return result


LIQUID = """
import sys, time, json, numpy as np
from liquidSVM import SVM
z = np.load(sys.argv[1]); seconds = []
for _ in range(3):
    m = SVM(z["X"], z["y"], scenario="LS", grid_choice=0, folds=5, threads=int(sys.argv[2]), display=0)
    start = time.perf_counter(); T = np.array(m.train()); m.select(); seconds.append(time.perf_counter() - start)
risk = T.reshape(5, -1, T.shape[1])[:, :, 7].mean(0).min()
print(json.dumps({"seconds": min(seconds), "risk": float(risk)}))
"""


def liquid_grid(python, X, y):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=X, y=y)
        runs = {}
        for threads in (1, 2):
            out = subprocess.run([python, "-c", LIQUID, path, str(threads)], capture_output=True, text=True, check=True)
            runs[threads] = json.loads(out.stdout.strip().splitlines()[-1])
    return {
        "liquidSVM_one_thread_s": runs[1]["seconds"],
        "liquidSVM_two_threads_s": runs[2]["seconds"],
        "liquidSVM_s": min(run["seconds"] for run in runs.values()),
        "liquidSVM_risk": runs[1]["risk"],
    }


def annealing():
    kernel, X1, X2 = data(np.float64)
    rng = np.random.default_rng(0)
    D1 = Rows(torch.from_numpy(X1), torch.from_numpy(np.sin(3 * X1[:, :1])), torch.ones(N1, dtype=torch.float64))
    D2 = Rows(torch.from_numpy(X2), torch.from_numpy(np.sin(3 * X2[:, :1])), torch.ones(N2, dtype=torch.float64))
    machine = train(kernel, D1, 1e-4)
    block = ExponentBlock(Objective(kernel, D1.X, machine.alpha, D2, SQUARES), kernel.W)
    places = [(0, tuple(index)) for index in kernel.architecture.mask.nonzero().tolist()]

    def steps(count=20):
        for _ in range(count):
            layer, index = places[rng.integers(len(places))]
            block.propose(layer, index, 0.7)
            block.accept()

    step = best(steps) / 20
    full = best(lambda: block.objective.risk(kernel.W))
    source, target = block.current, block.proposed
    floor = best(lambda: target.copy_(source), 20)  # the exponent read once and written once
    exponentials = best(lambda: torch.exp(source, out=target), 20) * 3  # k_c, k_c' and K
    return {
        "step_s": step,
        "copy_floor_s": floor,
        "three_exponentials_s": exponentials,
        "step_over_copy_floor": step / floor,
        "step_over_three_exponentials": step / exponentials,
        "whole_kernel_s": full,
        "times_faster_than_whole_kernel": full / step,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--liquid")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "kernel and gradient": kernel_and_gradient(),
        "memory": memory(),
        "annealing": annealing(),
        "grid": grid(options.quick, options.liquid),  # last: GridSearchCV's worker processes linger
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
