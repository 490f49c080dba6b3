"""The three kinds of first-layer nodes: their exponents over tiles of pairs, and the gradients of these.

A kind looks after all nodes of its sort in one tree, for one pair of row sets X, Z (centred), and offers

    fill(pair, node, out)            out = -S_i on one tile
    accumulate(pair, N, grads)       add its part of ∂J/∂W, given N_i = -∂J/∂S_i for each of its nodes
    derivatives(node, N)             N ∘ ∂S_i/∂w · (-1), whole matrices, one weight at a time
    column_terms(node)               the mean term of every column in S_i, for relevance
    changed(W)                       the same for other weights W that differ in one of its nodes
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy

import torch

from hgk.arrays import Buffers
from hgk.kernels.architecture import Architecture, Weights

Pair = tuple[slice, slice]
Derivative = tuple[int, tuple[int, ...], torch.Tensor]


def mean_distances(X: torch.Tensor, q: float) -> torch.Tensor:
    """E |x_j - x'_j|^q over pairs of rows, per column."""
    if q == 2:
        return 2 * X.double().var(0, correction=0).cpu()
    return torch.stack([(x[:, None] - x[None, :]).abs().pow_(q).mean(dtype=torch.float64) for x in X.T]).cpu()


def kinds(architecture: Architecture, W: Weights, X: torch.Tensor, Z: torch.Tensor, buffers: Buffers) -> list[Kind]:
    """Every first-layer node under its kind; rough nodes with the same exponent share theirs."""
    oblique = list(architecture.oblique)
    smooth = [i for i, q in enumerate(architecture.q) if q == 2 and i not in oblique]
    found: list[Kind] = [Smooth(architecture, W, X, Z, smooth, buffers)] if smooth else []
    for q in sorted(set(architecture.q) - {2.0}):
        rough = [i for i, q_i in enumerate(architecture.q) if q_i == q]
        found.append(Rough(architecture, W, X, Z, rough, buffers))
    return [*found, Oblique(architecture, W, X, Z, oblique, buffers)] if oblique else found


def _factors(x: torch.Tensor, z: torch.Tensor, v2: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two factors of width p + 2 whose product is -Σ v² (x - x')²:

    [2 v² x, -Σ v² x², 1] · [x', 1, -Σ v² x'²]ᵀ
    """
    xv, zv = x * v2, z * v2
    left = torch.cat([2 * xv, -(x * xv).sum(1, keepdim=True), x.new_ones(len(x), 1)], 1)
    return left, torch.cat([z, z.new_ones(len(z), 1), -(z * zv).sum(1, keepdim=True)], 1)


def _squared_sums(x: torch.Tensor, z: torch.Tensor, N: torch.Tensor) -> torch.Tensor:
    """Σ N (x_j - x'_j)² = Σ_a x_aj² ρ_a - 2 x_jᵀ N x'_j + Σ_b x'_bj² κ_b, for all columns by one product."""
    p = x.shape[1]
    product = N @ torch.cat([z, z**2, z.new_ones(len(z), 1)], 1)
    terms = x**2 * product[:, 2 * p :] - 2 * x * product[:, :p] + product[:, p : 2 * p]
    return terms.sum(0, dtype=torch.float64).cpu()


class Kind(ABC):
    """What the kinds share. ``arrays`` is how many tile-sized arrays one holds besides its results."""

    arrays = 0

    def __init__(
        self,
        architecture: Architecture,
        W: Weights,
        X: torch.Tensor,
        Z: torch.Tensor,
        nodes: Sequence[int],
        buffers: Buffers,
    ):
        self.architecture, self.X, self.Z, self.nodes, self.buffers = architecture, X, Z, list(nodes), buffers
        self.index = {i: list(architecture.coordinates[i]) for i in self.nodes}
        self.set_weights(W)

    def changed(self, W: Weights) -> Kind:
        other = copy(self)
        other.set_weights(W)
        return other

    @abstractmethod
    def set_weights(self, W: Weights) -> None: ...

    @abstractmethod
    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None: ...

    @abstractmethod
    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None: ...

    @abstractmethod
    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]: ...

    @abstractmethod
    def column_terms(self, node: int) -> torch.Tensor: ...


def _gaps(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    """How far apart the two values of each column are; 0 if it has one, -1 if more than two."""
    both = X if Z is X else torch.cat([X, Z])
    if not len(both):
        return both.new_zeros(both.shape[1])
    low, high = both.amin(0), both.amax(0)
    two = ((both == low) | (both == high)).all(0)
    return torch.where(two, high - low, -1.0)


class Smooth(Kind):
    """S_i = Σ v_ij² (x_j - x'_j)², by one matrix product of width |I_i| + 2."""

    def set_weights(self, W: Weights) -> None:
        self.V = W[0]
        self.factors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # made when first needed

    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        if node not in self.factors:
            index = self.index[node]
            v2 = (self.V[node, index] ** 2).to(self.X)
            self.factors[node] = _factors(self.X[:, index], self.Z[:, index], v2)
        left, right = self.factors[node]
        torch.mm(left[pair[0]], right[pair[1]].T, out=out)

    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        for i in self.nodes:
            index = self.index[i]
            sums = _squared_sums(self.X[pair[0]][:, index], self.Z[pair[1]][:, index], N[i])
            grads[0][i, index] -= 2 * self.V[i, index] * sums

    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]:
        for j in self.index[node]:
            yield 0, (node, j), -2 * float(self.V[node, j]) * N * (self.X[:, None, j] - self.Z[None, :, j]) ** 2

    def column_terms(self, node: int) -> torch.Tensor:
        return self.V[node] ** 2 * mean_distances(self.X, 2)


class Rough(Kind):
    """S_i = Σ v_ij² |x_j - x'_j|^q: the distances of one tile, columns x pairs, serve all nodes by one product.

    On a column of two values, g apart, |x - x'|^q = g^(q-2) (x - x')², so that indicators of categories go through
    products of rows, as in a smooth node, at a fraction of the cost.
    """

    def __init__(self, architecture, W, X, Z, nodes, buffers):
        self.exponent = architecture.q[nodes[0]]
        used = sorted({j for i in nodes for j in architecture.coordinates[i]})
        gaps = _gaps(X[:, used], Z[:, used]).tolist()
        self.columns = [j for j, gap in zip(used, gaps, strict=True) if gap < 0]
        self.two_valued = [j for j, gap in zip(used, gaps, strict=True) if gap >= 0]
        scale = [gap ** (self.exponent - 2) if gap > 0 else 0.0 for gap in gaps if gap >= 0]
        self.scale = torch.tensor(scale, dtype=torch.float64)
        self.columns_of_X = X[:, self.columns].T.contiguous()
        self.columns_of_Z = self.columns_of_X if Z is X else Z[:, self.columns].T.contiguous()
        self.last: dict[str, object] = {}  # what the shared buffers hold; shared with changed copies, as they are
        self.arrays = len(self.columns) + len(nodes)
        super().__init__(architecture, W, X, Z, nodes, buffers)

    def set_weights(self, W: Weights) -> None:
        self.V = W[0]
        self.V2 = (self.V[self.nodes][:, self.columns] ** 2).to(self.X)
        self.version = object()  # these weights, as opposed to a changed copy's
        self.factors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # of the two-valued columns, when needed

    def distances(self, pair: Pair) -> torch.Tensor:
        """|x_j - x'_j|^q, columns x (rows · columns of the tile)."""
        x, z = self.columns_of_X[:, pair[0]], self.columns_of_Z[:, pair[1]]
        A = self.buffers.get(("distances", self.exponent), (len(x), x.shape[1], z.shape[1]), x)
        if self.last.get("distances") != pair:
            torch.sub(x[:, :, None], z[:, None, :], out=A).abs_()
            if self.exponent != 1:
                A.pow_(self.exponent)
            self.last["distances"] = pair
        return A.view(len(x), x.shape[1] * z.shape[1])

    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        S = self.buffers.get(("S", self.exponent), (len(self.nodes), out.numel()), out)
        if self.last.get("S") != (self.version, pair):
            torch.mm(self.V2, self.distances(pair), out=S)
            self.last["S"] = self.version, pair
        torch.neg(S[self.nodes.index(node)].view(out.shape), out=out)
        if self.two_valued:
            left, right = self._two_valued_factors(node)
            out.addmm_(left[pair[0]], right[pair[1]].T)

    def _two_valued_factors(self, node: int) -> tuple[torch.Tensor, torch.Tensor]:
        if node not in self.factors:
            v2 = (self.V[node, self.two_valued] ** 2 * self.scale).to(self.X)
            self.factors[node] = _factors(self.X[:, self.two_valued], self.Z[:, self.two_valued], v2)
        return self.factors[node]

    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        stacked = torch.stack([N[i].reshape(-1) for i in self.nodes])
        sums = (stacked @ self.distances(pair).T).double().cpu()
        V = self.V[self.nodes][:, self.columns]
        place = torch.tensor(self.nodes)[:, None], torch.tensor(self.columns, dtype=torch.int64)[None, :]
        grads[0][place] -= 2 * V * sums
        x, z = self.X[pair[0]][:, self.two_valued], self.Z[pair[1]][:, self.two_valued]
        for i in self.nodes if self.two_valued else ():
            grads[0][i, self.two_valued] -= 2 * self.V[i, self.two_valued] * self.scale * _squared_sums(x, z, N[i])

    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]:
        for j in self.index[node]:
            distance = (self.X[:, None, j] - self.Z[None, :, j]).abs() ** self.exponent
            yield 0, (node, j), -2 * float(self.V[node, j]) * N * distance

    def column_terms(self, node: int) -> torch.Tensor:
        return self.V[node] ** 2 * mean_distances(self.X, self.exponent)


class Oblique(Kind):
    """S_i = ‖(x - x') A_i‖² with A_i = diag(v_i) (I + U_i), U_i = P_i Q_iᵀ: a smooth node on mapped rows."""

    def set_weights(self, W: Weights) -> None:
        depth = self.architecture.depth
        self.V, self.P, self.Q = W[0], W[depth], W[depth + 1]
        self.A, self.factors = {}, {}
        for i in self.nodes:
            index = self.index[i]
            v, P, Q = self._parts(i)
            A = v[:, None] * (torch.eye(len(index), dtype=torch.float64) + P @ Q.T)
            self.A[i] = A
            self.factors[i] = _factors(self.X[:, index] @ A.to(self.X), self.Z[:, index] @ A.to(self.X), 1.0)

    def _parts(self, node: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        index, place = self.index[node], self.nodes.index(node)
        return self.V[node, index], self.P[place, index], self.Q[place, index]

    def fill(self, pair: Pair, node: int, out: torch.Tensor) -> None:
        left, right = self.factors[node]
        torch.mm(left[pair[0]], right[pair[1]].T, out=out)

    def accumulate(self, pair: Pair, N: Mapping[int, torch.Tensor], grads: Weights) -> None:
        """∂J/∂A = -2 C A with C = Xᵀdiag(ρ)X + X'ᵀdiag(κ)X' - XᵀNX' - (XᵀNX')ᵀ; then the chain rule.

        ∂J/∂U = diag(v) ∂J/∂A     ∂J/∂v = rows of ∂J/∂A ∘ (I + U)     ∂J/∂P = ∂J/∂U Q     ∂J/∂Q = ∂J/∂Uᵀ P
        """
        depth = self.architecture.depth
        for place, i in enumerate(self.nodes):
            index = self.index[i]
            x, z = self.X[pair[0]][:, index], self.Z[pair[1]][:, index]
            product = N[i] @ torch.cat([z, z.new_ones(len(z), 1)], 1)
            cross = x.T @ product[:, :-1]
            C = x.T @ (product[:, -1:] * x) + z.T @ (N[i].sum(0)[:, None] * z) - cross - cross.T
            v, P, Q = self._parts(i)
            dA = -2 * C.double().cpu() @ self.A[i]
            dU = v[:, None] * dA
            grads[0][i, index] += (dA * (torch.eye(len(index), dtype=torch.float64) + P @ Q.T)).sum(1)
            grads[depth][place, index] += dU @ Q
            grads[depth + 1][place, index] += dU.T @ P

    def derivatives(self, node: int, N: torch.Tensor) -> Iterator[Derivative]:
        index, place, depth = self.index[node], self.nodes.index(node), self.architecture.depth
        v, P, Q = (part.to(N) for part in self._parts(node))
        U1 = torch.eye(len(index), dtype=N.dtype, device=N.device) + P @ Q.T
        D = self.X[:, None, index] - self.Z[None, :, index]
        DA = D @ self.A[node].to(N)
        for a, j in enumerate(index):
            yield 0, (node, j), -2 * N * D[..., a] * (DA @ U1[a])
            for r in range(self.architecture.rank):
                yield depth, (place, j, r), -2 * N * v[a] * D[..., a] * (DA @ Q[:, r])
                yield depth + 1, (place, j, r), -2 * N * ((D * v) @ P[:, r]) * DA[..., a]

    def column_terms(self, node: int) -> torch.Tensor:
        terms = torch.zeros(self.architecture.d, dtype=torch.float64)
        terms[self.index[node]] = (self.A[node] ** 2).sum(1) * mean_distances(self.X, 2)[self.index[node]]
        return terms
