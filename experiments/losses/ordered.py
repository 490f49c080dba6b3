"""Ordered classes: do cumulative columns, a machine for every border, say more than the softmax?

    python experiments/losses/ordered.py --out experiments/losses/ordered.jsonl

    softmax               P(y = k)             one machine for all classes
    cumulative logit      P(y > k) = σ(f_k)    a logistic machine for each border
    cumulative squares    the same, by least squares and slopes

Five ordered, unbalanced, noisy classes of a function of six columns, 900 training rows, 4000 test rows. All three have
the plain Gaussian kernel; each chooses its width and c = nλ by the log-loss of five folds, to which its slopes are
fitted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from hgk.solvers.classes import solve_classes
from hgk.targets import Calibration

sys.path.append(str(Path(__file__).parents[1]))
from records import Row, fill

ROWS, TEST_ROWS, CLASSES, FOLDS, LEAST = 900, 4000, 5, 5, 1e-4
SCALES, CS = (0.02, 0.06, 0.15), (3.0, 1.0, 0.3, 0.1, 0.03)
NOISES = (0.4, 0.9)


def draw(seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS + TEST_ROWS, 6))
    g = 1.5 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + noise * rng.logistic(size=len(X))
    borders = np.quantile(g, np.sort(rng.uniform(0.05, 0.95, CLASSES - 1)))
    return X, np.searchsorted(borders, g)


def gaussian(A: np.ndarray, B: np.ndarray, scale: float) -> torch.Tensor:
    return torch.exp(-scale * torch.cdist(torch.from_numpy(A), torch.from_numpy(B)) ** 2)


# --------------------------------------------------------------------------------------------- coefficients


def softmax(K: torch.Tensor, y: np.ndarray, c: float) -> torch.Tensor:
    Y = torch.from_numpy(np.eye(CLASSES)[y])
    return solve_classes(K, Y, torch.ones(len(y)).double(), c / len(y), tol=1e-4).alpha


def above(y: np.ndarray) -> np.ndarray:
    """Whether y > k, a column for each border."""
    return (y[:, None] > np.arange(CLASSES - 1)).astype(float)


def cumulative_logit(K: torch.Tensor, y: np.ndarray, c: float) -> torch.Tensor:
    s = torch.ones(len(y)).double()
    return torch.cat(
        [solve_classes(K, Y[:, None], s, c / len(y), tol=1e-4).alpha for Y in torch.from_numpy(above(y)).T], 1
    )


def cumulative_squares(K: torch.Tensor, y: np.ndarray, c: float) -> torch.Tensor:
    return torch.linalg.solve(K + c * torch.eye(len(y)), torch.from_numpy(2 * above(y) - 1))


# -------------------------------------------------------------------------------------------- probabilities


def of_classes(t: np.ndarray, y: np.ndarray, estimates: bool) -> Callable[[np.ndarray], np.ndarray]:
    return Calibration.of(t, 2 * np.eye(CLASSES)[y] - 1, np.ones(len(y)), estimates=estimates).probabilities


def of_borders(t: np.ndarray, y: np.ndarray, estimates: bool) -> Callable[[np.ndarray], np.ndarray]:
    """Differences of P(y > k), which are made to fall in k."""
    labels, ones = 2 * above(y) - 1, np.ones(len(y))
    maps = [Calibration.of(t[:, [k]], labels[:, [k]], ones, estimates=estimates) for k in range(CLASSES - 1)]

    def probabilities(t: np.ndarray) -> np.ndarray:
        G = np.column_stack([one.probabilities(t[:, [k]])[:, 1] for k, one in enumerate(maps)])
        G = np.column_stack([np.ones(len(t)), np.minimum.accumulate(G, 1), np.zeros(len(t))])
        P = np.clip(-np.diff(G, axis=1), LEAST, 1)
        return P / P.sum(1, keepdims=True)

    return probabilities


METHODS = {
    "softmax": (softmax, of_classes, False),
    "cumulative logit": (cumulative_logit, of_borders, False),
    "cumulative squares": (cumulative_squares, of_borders, True),
}


def log_loss(P: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(P[np.arange(len(y)), y]).mean())


def row_of(name: str, split: int, method: str) -> Row:
    X, y = draw(split, NOISES[split % 2])
    (X, X_test), (y, y_test) = np.split(X, [ROWS]), np.split(y, [ROWS])
    coefficients, map_of, estimates = METHODS[method]
    fold, tried = np.arange(ROWS) % FOLDS, []
    for scale in SCALES:
        K = gaussian(X, X, scale)
        for c in CS:
            t = np.empty((ROWS, CLASSES if method == "softmax" else CLASSES - 1))
            for k in range(FOLDS):
                rest, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                t[out] = (K[out][:, rest] @ coefficients(K[rest][:, rest], y[rest], c)).numpy()
            probabilities = map_of(t, y, estimates)
            tried.append((log_loss(probabilities(t), y), scale, c, probabilities))
    _, scale, c, probabilities = min(tried, key=lambda one: one[0])
    P = probabilities((gaussian(X_test, X, scale) @ coefficients(gaussian(X, X, scale), y, c)).numpy())
    scores = {"log_loss": log_loss(P, y_test), "accuracy": float((P.argmax(1) == y_test).mean())}
    return {"set": name, "split": split, "method": method, "scale": scale, "c": c, **scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    fill(options.out, [("ordered", draw, method) for draw in range(options.draws) for method in METHODS], row_of)


if __name__ == "__main__":
    main()
