"""Fully connected relu networks, many trained at a time; the architecture chosen by cross-validation.

A network with m_1 … m_L units per layer on d columns is

    h_0 = x,      h_l = max(h_{l-1} W_l + b_l, 0)  for l = 1 … L,      f(x) = h_L W_{L+1} + b_{L+1}.

A step of training takes B rows and the derivatives of (1/B) Σ_i (f(x_i) - y_i)², from the top down:

    δ_{L+1} = 2 (f - y) / B,     ∂W_l = h_{l-1}ᵀ δ_l,     ∂b_l = Σ_i δ_l,     δ_{l-1} = (δ_l W_lᵀ) ∘ 1[h_{l-1} > 0].

Networks of equal depth form a stack: θ has one row per network, each line above is one batched product for all of
them, and Adam, which knows nothing of rows, moves them together. A network with fewer units than its stack is padded
with units whose weights are all 0. There h = 0 and δ = 0, so all derivatives are 0 and Adam leaves the padding at 0:
no mask is needed, and the network is the one that would have been trained alone.

Choice, on the training rows alone. The rows are cut into k equal parts. Every architecture is trained k times, each
time without one part, and after each epoch the part left out is predicted. A network keeps the weights of its best
epoch, and leaves the stack when no epoch has been better for long (early stopping). The architecture with the
smallest mean of its k errors is chosen, and its k networks are averaged:

    f = (1/k) Σ_j f_j,     j-th network trained without, and stopped by, part j.

What happens to one network depends on the seed, its architecture and its fold, not on the company it is trained in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from numbers import Integral

import numpy as np
import torch

from hgk.arrays import blocks, tensor
from hgk.optimisers.runs import one_cycle

Widths = tuple[int, ...]
Layers = list[tuple[torch.Tensor, torch.Tensor]]  # W_l and b_l: networks × inputs × outputs, networks × 1 × outputs

# Fifteen candidates: one to five layers of 100, 300 or 1000 units.
ARCHITECTURES: tuple[Widths, ...] = tuple((width,) * depth for depth in range(1, 6) for width in (100, 300, 1000))

# Entries of θ up to which different architectures share a stack on an accelerator. There a step on a few small
# networks costs its launches, and padding costs nothing; on a CPU padding is paid for by the operation, so that a
# stack holds one architecture.
SHARED = 2**22


@dataclass(frozen=True)
class Schedule:
    """How a network is trained.

    Parameters
    ----------
    epochs, batch : int
        Passes over the training rows at most, and rows per step (at most a twentieth of the training rows).
    rate : float
        Peak of Adam's one-cycle rate: a rise over the first steps, then a cosine to 0.
    patience : int
        Epochs without a better one after which a network stops.
    """

    epochs: int = 100
    batch: int = 128
    rate: float = 3e-3
    patience: int = 30

    def __post_init__(self) -> None:
        counts = self.epochs, self.batch, self.patience
        if not all(isinstance(c, Integral) and c >= 1 for c in counts) or not 0 < self.rate < math.inf:
            raise ValueError(
                f"epochs={self.epochs!r}, batch={self.batch!r}, patience={self.patience!r}, rate={self.rate!r} were "
                "given; three whole numbers >= 1 and a finite number > 0 are expected."
            )


@dataclass(frozen=True)
class Stack:
    """The common shape of networks: units per layer, from the d columns to the one output.

    θ has one row per network, and in it one block per layer, of W_l and b_l beneath it. Blocks begin at multiples of
    32 entries, since products of matrices at odd addresses are slow.

    Examples
    --------
    >>> stack = Stack((2, 3, 1))
    >>> layers = stack.layers(torch.ones(4, stack.entries))  # four networks, all weights 1
    >>> forward(layers, torch.ones(4, 5, 2))[-1][0, :, 0]  # 3 (2 + 1) + 1
    tensor([10., 10., 10., 10., 10.])
    """

    sizes: tuple[int, ...]

    @classmethod
    def around(cls, d: int, architectures: Iterable[Widths]) -> Stack:
        """The smallest that has room for these architectures, all of one depth."""
        return cls((d, *(max(layer) for layer in zip(*architectures, strict=True)), 1))

    @cached_property
    def begins(self) -> list[int]:
        """Where the layers' blocks begin in a row of θ, and where the last one ends."""
        lengths = [-(-(inputs + 1) * outputs // 32) * 32 for inputs, outputs in pairwise(self.sizes)]
        return list(accumulate(lengths, initial=0))

    @property
    def entries(self) -> int:
        """The length of a row of θ."""
        return self.begins[-1]

    def layers(self, theta: torch.Tensor) -> Layers:
        """W_l and b_l of all networks, as views of θ."""
        shapes = [(inputs + 1, outputs) for inputs, outputs in pairwise(self.sizes)]
        cut = [theta[:, a : a + i * o].unflatten(1, (i, o)) for a, (i, o) in zip(self.begins, shapes, strict=False)]
        return [(block[:, :-1], block[:, -1:]) for block in cut]

    def start(self, widths: Widths, rng: np.random.Generator) -> torch.Tensor:
        """A row of θ: W_l normal with variance 2 / inputs (1 / inputs for the output), b_l within ±1 / √inputs."""
        theta = torch.zeros(1, self.entries)
        for (W, b), (inputs, outputs) in zip(self.layers(theta), pairwise((self.sizes[0], *widths, 1)), strict=True):
            scale = math.sqrt((1 if outputs == 1 else 2) / inputs)
            W[0, :inputs, :outputs] = scale * torch.from_numpy(rng.standard_normal((inputs, outputs), np.float32))
            b[0, 0, :outputs] = torch.from_numpy(rng.uniform(-1, 1, outputs) / math.sqrt(inputs))
        return theta[0]

    def forward_flops(self) -> int:
        """Floating-point operations of f for one row and network: two for each weight."""
        return 2 * sum(i * o for i, o in pairwise(self.sizes))

    def step_flops(self, batch: int) -> int:
        """Of a gradient and a step of Adam: every product thrice but for ∂h_0; a dozen operations per entry of θ."""
        unneeded = 2 * self.sizes[0] * self.sizes[1]
        return batch * (3 * self.forward_flops() - unneeded) + 12 * self.entries


def forward(layers: Layers, x: torch.Tensor) -> list[torch.Tensor]:
    """h_0, …, h_L, f of all networks on their own rows: networks × rows × units."""
    *hidden, (W, b) = layers
    h = [x]
    for W_l, b_l in hidden:
        h.append(torch.baddbmm(b_l, h[-1], W_l).relu_())
    return [*h, torch.baddbmm(b, h[-1], W)]


def gradient(layers: Layers, x: torch.Tensor, y: torch.Tensor, out: Layers) -> None:
    """Write ∂W_l and ∂b_l of each network's mean squared error on its own rows into ``out``."""
    *h, f = forward(layers, x)
    delta = (f - y[..., None]).mul_(2 / y.shape[1])
    for h_l, (W, _), (dW, db) in zip(reversed(h), reversed(layers), reversed(out), strict=True):
        torch.bmm(h_l.mT, delta, out=dW)
        torch.sum(delta, 1, keepdim=True, out=db)
        if h_l is not x:
            delta = torch.bmm(delta, W.mT).mul_(h_l > 0)


@dataclass(frozen=True)
class NetworkFolds:
    """Rows, and for each fold those held out and those trained on; what n/k leaves over is trained on in all folds."""

    X: torch.Tensor
    y: torch.Tensor
    held: np.ndarray
    trained: np.ndarray

    @classmethod
    def cut(cls, X: torch.Tensor, y: torch.Tensor, k: int, rng: np.random.Generator) -> NetworkFolds:
        order = rng.permutation(len(X))
        held = order[: len(X) // k * k].reshape(k, -1)
        return cls(X, y, held, np.stack([np.setdiff1d(order, part) for part in held]))

    def take(self, index: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.from_numpy(index).to(self.X.device)
        return self.X[rows], self.y[rows]


@dataclass
class TrainedNetworks:
    """The best weights of each network so far, their error on the held-out rows, and their epoch (0: none yet)."""

    theta: torch.Tensor
    errors: np.ndarray
    epochs: np.ndarray
    flops: int = 0

    def note(self, networks: np.ndarray, theta: torch.Tensor, errors: np.ndarray, epoch: int) -> None:
        """Keep what is better."""
        better = errors < self.errors[networks]
        self.theta[torch.from_numpy(networks[better])] = theta[torch.from_numpy(better)]
        self.errors[networks[better]] = errors[better]
        self.epochs[networks[better]] = epoch


class StackRun:
    """A stack on its way: the networks still in it, and Adam."""

    def __init__(self, stack: Stack, theta: torch.Tensor, fold: np.ndarray, folds: NetworkFolds, rate: float):
        self.stack, self.fold, self.folds = stack, fold, folds
        self.networks = np.arange(len(theta))
        self._move(theta.clone(), {}, rate)

    def _move(self, theta: torch.Tensor, state: dict, rate: float) -> None:
        self.theta, self.theta.grad = theta, (grad := torch.zeros_like(theta))
        self.layers, self.derivatives = self.stack.layers(theta), self.stack.layers(grad)
        self.adam = torch.optim.Adam([self.theta], lr=rate, fused=True)
        if state:
            self.adam.state[self.theta] = state

    def keep(self, staying: np.ndarray) -> None:
        """Go on with these networks only, their moments kept."""
        rows = torch.from_numpy(staying)
        state = {key: value[rows] if value.ndim else value for key, value in self.adam.state[self.theta].items()}
        self.networks = self.networks[staying]
        self._move(self.theta[rows], state, self.adam.param_groups[0]["lr"])

    def epoch(self, batch: int, rates: Iterator[float], order: np.ndarray) -> None:
        """One pass over the training rows in this order; what is left over from full batches waits for the next."""
        x, y = self.folds.take(order[self.fold[self.networks]])
        for rows in blocks(y.shape[1] // batch * batch, batch):
            self.adam.param_groups[0]["lr"] = next(rates)
            gradient(self.layers, x[:, rows], y[:, rows], out=self.derivatives)
            self.adam.step()

    def errors(self) -> np.ndarray:
        """Mean squared errors on the held-out rows, predictions clipped to [-1, 1]."""
        x, y = self.folds.take(self.folds.held[self.fold[self.networks]])
        f = forward(self.layers, x)[-1][..., 0]
        return ((f.clamp(-1, 1) - y) ** 2).mean(1).double().cpu().numpy()


def train_networks(
    stack: Stack, theta: torch.Tensor, fold: np.ndarray, folds: NetworkFolds, schedule: Schedule, seed: int
) -> TrainedNetworks:
    """Train one network per row of θ, each without its ``fold``, and stop each by the rows held out."""
    best = TrainedNetworks(theta.clone(), np.full(len(theta), np.inf), np.zeros(len(theta), int))
    batch = max(1, min(schedule.batch, folds.trained.shape[1] // 20))
    steps = folds.trained.shape[1] // batch
    rates = (one_cycle(i, steps * schedule.epochs, schedule.rate) for i in range(steps * schedule.epochs))
    rng = np.random.default_rng(seed)
    run = StackRun(stack, theta, fold, folds, schedule.rate)
    for epoch in range(1, schedule.epochs + 1):
        run.epoch(batch, rates, rng.permuted(folds.trained, axis=1))
        best.note(run.networks, run.theta, run.errors(), epoch)
        held = folds.held.shape[1] * stack.forward_flops()
        best.flops += len(run.networks) * (steps * stack.step_flops(batch) + held)
        staying = epoch - best.epochs[run.networks] < schedule.patience
        if not staying.any():
            break
        if not staying.all():
            run.keep(np.flatnonzero(staying))
    return best


def shared(d: int, architectures: Iterable[Widths], k: int, entries: int) -> list[list[Widths]]:
    """Architectures that form a stack: of equal depth, next to each other in size, θ of at most ``entries``.

    >>> shared(2, [(10,), (30, 30), (20,)], k=5, entries=1000)
    [[(10,), (20,)], [(30, 30)]]
    """
    stacks: list[list[Widths]] = []
    for widths in sorted(architectures, key=lambda a: (len(a), a)):
        if stacks and len(stacks[-1][0]) == len(widths):
            together = [*stacks[-1], widths]
            if k * len(together) * Stack.around(d, together).entries <= entries:
                stacks[-1] = together
                continue
        stacks.append([widths])
    return stacks


@dataclass(frozen=True)
class NetworkAverage:
    """The average of the k networks of the architecture chosen, and what the choice was made by.

    Attributes
    ----------
    architecture : tuple of int
        Units per layer.
    candidates : dict
        Mean held-out error of each architecture.
    epochs : list of int
        The epoch whose weights each network kept.
    flops : int
        Floating-point operations of the whole choice, padding included.
    """

    architecture: Widths
    candidates: dict[Widths, float]
    epochs: list[int]
    flops: int
    stack: Stack = field(repr=False)
    theta: torch.Tensor = field(repr=False)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """f(x) for each row."""
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.stack.sizes[0]:
            raise ValueError(
                f"X has shape {X.shape}; the networks were trained on {self.stack.sizes[0]} columns: give rows of as "
                "many."
            )
        x = tensor(X, self.theta.dtype).to(self.theta.device)
        parts = [self._mean(x[rows]) for rows in blocks(len(x), 1024)]
        return torch.cat(parts).double().cpu().numpy() if parts else np.empty(0)

    def _mean(self, x: torch.Tensor) -> torch.Tensor:
        return forward(self.stack.layers(self.theta), x.expand(len(self.theta), *x.shape))[-1][..., 0].mean(0)


def choose_networks(
    X: np.ndarray,
    y: np.ndarray,
    architectures: Sequence[Widths] = ARCHITECTURES,
    schedule: Schedule | None = None,
    k: int = 5,
    seed: int = 0,
    device: str = "cpu",
    entries: int | None = None,
) -> NetworkAverage:
    """Choose an architecture by k-fold cross-validation and average its k networks.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows, scaled to about [-1, 1].
    y : array of shape (n,)
        Labels, scaled to [-1, 1].
    architectures : sequence of tuples
        Units per layer of each candidate.
    schedule : Schedule, optional
        How each network is trained.
    k, seed : int
        Folds, and the seed of folds, starts and batches.
    device : str
        Where to compute, in torch's words.
    entries : int, optional
        Entries of θ up to which different architectures share a stack; by default 0 on a CPU, else `SHARED`.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> average = choose_networks(X, np.sin(3 * X[:, 0]), [(20,), (20, 20)], Schedule(epochs=30, batch=20, rate=1e-2))
    >>> average.predict([[0.5, 0.0]]).round(1)
    array([1.])
    """
    x, t = _checked(X, y, architectures, k)
    place = torch.device(device)
    folds = NetworkFolds.cut(x.to(place), t.to(place), k, np.random.default_rng(seed))
    if entries is None:
        entries = 0 if place.type == "cpu" else SHARED
    stacks = shared(x.shape[1], dict.fromkeys(map(tuple, architectures)), k, entries)
    return _best(stacks, folds, schedule or Schedule(), k, seed)


def _best(
    stacks: Iterable[Sequence[Widths]], folds: NetworkFolds, schedule: Schedule, k: int, seed: int
) -> NetworkAverage:
    """Train the networks of all architectures, stack by stack, and keep those with the smallest mean error."""
    d, place = folds.X.shape[1], folds.X.device
    candidates: dict[Widths, float] = {}
    flops = 0
    for together in stacks:
        stack = Stack.around(d, together)
        theta = [stack.start(a, np.random.default_rng([seed, j, *a])) for a in together for j in range(k)]
        fold = np.tile(np.arange(k), len(together))
        trained = train_networks(stack, torch.stack(theta).to(place), fold, folds, schedule, seed)
        flops += trained.flops
        for widths, rows in zip(together, blocks(len(theta), k), strict=True):
            candidates[widths] = float(trained.errors[rows].mean())
            if candidates[widths] == min(candidates.values()):
                best = widths, trained.epochs[rows].tolist(), stack, trained.theta[rows].clone()
    architecture, epochs, stack, networks = best
    if not math.isfinite(candidates[architecture]):
        raise ArithmeticError(
            f"No epoch of any network had a finite error at the rate {schedule.rate}; scale X and y to [-1, 1], or "
            "lower the rate."
        )
    return NetworkAverage(architecture, candidates, epochs, flops, stack, networks)


def _checked(X, y, architectures: Sequence[Widths], k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """X and y in single precision, after the checks that need no training."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] == 0 or y.shape != X.shape[:1]:
        raise ValueError(f"X has shape {X.shape} and y {y.shape}; rows × columns and one label per row are expected.")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("X or y has missing or infinite entries; fill or drop them first.")
    if not isinstance(k, Integral) or not 2 <= k <= len(X):
        raise ValueError(f"k={k!r} folds of {len(X)} rows were asked for; give a whole number from 2 to the rows.")
    layers = [width for widths in architectures for width in widths]
    if not len(architectures) or not all(len(widths) for widths in architectures) or min(layers) < 1:
        raise ValueError(
            f"architectures={architectures!r} were given; at least one is expected, each a tuple of units per layer, "
            "at least one layer of at least one unit."
        )
    return tensor(X, torch.float32), tensor(y, torch.float32)
