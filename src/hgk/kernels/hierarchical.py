"""Hierarchical Gaussian kernels of any depth: values, products and the backward sweep.

The formulas, for a node p with exponent S_p and kernel k_p = exp(-S_p):

    first layer     S_i = Σ_{j∈I_i} v_ij² |x_j - x'_j|^q_i              smooth (q = 2) and rough (q < 2)
                    S_i = ‖(x - x') A_i‖²,  A_i = diag(v_i) (I + P_i Q_iᵀ)     oblique
    above           S_p = Σ_{i child of p} 2 w_i² (1 - k_i)
    top             K   = exp(-γ⁻² S_top)

and backwards, with N_p = -∂J/∂S_p (a matrix over pairs of rows) and sums over all pairs:

    top             N_top   = γ⁻² ∂J/∂K ∘ K
    edge i -> p     ∂J/∂w_i = -4 w_i Σ N_p ∘ (1 - k_i)          N_i = 2 w_i² N_p ∘ k_i
    first layer     ∂J/∂v_ij = -2 v_ij Σ N_i ∘ |x_j - x'_j|^q_i
                    ∂J/∂A_i  = -2 C_i A_i,   C_i = Σ N_i ∘ (x - x')ᵀ(x - x')

The paper's lemma on derivatives lacks the factor k in its second formula; N_i above carries it.
Everything is computed tile by tile, so that no array over pairs and nodes or pairs and columns exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hgk.arrays import Buffers, blocks, in_place, require_memory, tensor, tiles
from hgk.kernels import fused
from hgk.kernels.architecture import Architecture, Weights
from hgk.kernels.fused.sweep import FusedSweep
from hgk.kernels.nodes import Derivative, Pair, kinds
from hgk.storable import expect, real, storable

# Rows of a large matrix that are computed at a time, where it is a sum.
BLOCK = 2048


@storable
@dataclass(frozen=True, eq=False)
class HierarchicalKernel:
    """A hierarchical Gaussian kernel: an architecture, its weights W and the width γ.

    Called with rows it returns the kernel matrix; numpy arrays give numpy arrays, tensors give tensors
    of their own dtype and device. With ``inputs``, anything but a tensor is first turned into features by
    it: the kernel of a fitted estimator takes the tables that the estimator takes. It can be passed to
    ``SVC(kernel=...)`` as it is; :class:`hgk.GaussianProcessKernel` wraps it for Gaussian processes.

    Examples
    --------
    >>> import numpy as np
    >>> from hgk import HierarchicalKernel, inhomogeneous
    >>> kernel = HierarchicalKernel.of(inhomogeneous(2), [[1.0, 2.0]])
    >>> kernel(np.array([[0.0, 0.0], [1.0, 0.0]])).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    architecture: Architecture
    W: Weights
    gamma: float = 1.0
    columns: tuple[str, ...] = ()
    inputs: Any = None  # callable: a table -> features

    def __post_init__(self) -> None:
        shapes = [tuple(mask.shape) for mask in self.architecture.free()]
        given = [tuple(w.shape) for w in self.W]
        if given != shapes:
            raise ValueError(f"Weights of shapes {given} were given; this architecture needs {shapes}.")
        outside = [bool(w[~mask].any()) for w, mask in zip(self.W, self.architecture.free(), strict=True)]
        if any(outside):
            raise ValueError(
                f"The arrays {[i for i, yes in enumerate(outside) if yes]} of W have weights outside the nodes' index "
                "sets; set them to 0, or use HierarchicalKernel.of, which does."
            )
        if not (np.isfinite(self.gamma) and self.gamma > 0):
            raise ValueError(f"gamma={self.gamma} was given; a width must be positive and finite.")

    @classmethod
    def of(cls, architecture: Architecture, *W, gamma: float = 1.0) -> HierarchicalKernel:
        """A kernel from weights given as arrays or lists; entries outside the index sets are set to 0."""
        weights = [tensor(w, torch.float64) for w in W]
        masks = architecture.free()
        if [w.shape for w in weights] == [m.shape for m in masks]:
            weights = [w * m for w, m in zip(weights, masks, strict=True)]
        return cls(architecture, tuple(weights), gamma)

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        """Shapes before masks of these shapes are made."""
        a: Architecture = parts["architecture"]
        shapes = [(len(a.coordinates), a.d), *((len(p),) for p in a.parents)]
        shapes += 2 * [(len(a.oblique), a.d, a.rank)] if a.oblique else []
        W = parts["W"]
        expect([tuple(w.shape) for w in W] == shapes, "a kernel's weights do not fit its tree")
        # squares of weights and of 1/γ must be numbers, too
        expect(all(real(w) and bool((w.abs() < 1e150).all()) for w in W), "a kernel's weights are not finite numbers")
        expect(1e-150 < parts.get("gamma", 1.0) < 1e150, "a kernel's width is not a finite number")
        columns, inputs = parts.get("columns", ()), parts.get("inputs")
        expect(not columns or len(columns) == a.d, "a kernel's columns do not fit its tree")
        fits = inputs is None or (hasattr(inputs, "encoder") and len(inputs.encoder.features) == a.d)
        expect(fits, "a kernel's inputs do not fit its tree")

    def with_weights(self, W: Weights) -> HierarchicalKernel:
        return replace(self, W=tuple(W))

    def with_gamma(self, gamma: float) -> HierarchicalKernel:
        return replace(self, gamma=float(gamma))

    @property
    def is_plain(self) -> bool:
        """Whether this is the plain Gaussian kernel: one smooth node whose weights are all equal.

        Then columns differ only by how they were encoded, and the kernel's shares tell nothing about them.
        """
        tree = self.architecture
        if tree.depth != 1 or len(tree.coordinates) != 1 or tree.q[0] != 2 or tree.oblique:
            return False
        weights = self.W[0][0, list(tree.coordinates[0])].abs()
        return bool((weights == weights[0]).all())

    @property
    def largest_exponent(self) -> float:
        """γ⁻² Σ 2w² over the edges into the top node, which γ⁻² S_top cannot exceed; 0 for trees of one layer."""
        top = self.W[self.architecture.depth - 1]
        return float(2 * (top**2).sum()) / self.gamma**2 if self.architecture.depth > 1 else 0.0

    # ------------------------------------------------------------------ values

    def exponent(self, X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
        """S(X, Z) without γ, so that K = exp(-γ⁻² S) for every γ."""
        return self._sweep(X, Z, whole=True).exponent()

    def matrix(self, X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
        """K(X, Z); ``Z=None`` means Z = X and costs half."""
        return self._sweep(X, Z, whole=True).matrix()

    def multiply(self, X: torch.Tensor, Z: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        """K(X, Z) alpha, without ever holding more than one tile of K."""
        return self._sweep(X, Z).multiply(alpha)

    def _sweep(self, X: torch.Tensor, Z: torch.Tensor | None, whole: bool = False) -> Sweep | FusedSweep:
        """The formulas on these rows; ``whole`` if a matrix of all pairs will come of them."""
        if whole:
            require_memory(len(X), len(X if Z is None else Z), 1, X.dtype, "A kernel matrix", X.device)
        if fused.suits(self.architecture, X):
            return fused.sweep(self.architecture, self.W, self.gamma, X, Z)
        return Sweep(self, X, Z)

    def __call__(self, X, Z=None):
        as_tensors = isinstance(X, torch.Tensor)
        if self.inputs is not None and not as_tensors:
            X, Z = self.inputs(X), None if Z is None or Z is X else self.inputs(Z)
        rows = tensor(X)
        others = None if Z is None or Z is X else tensor(Z, rows.dtype)
        self._check(rows, others)
        K = self.matrix(rows, others)
        return K if as_tensors else K.cpu().numpy()

    def _check(self, *row_sets: torch.Tensor | None) -> None:
        for rows in row_sets:
            if rows is not None and (rows.ndim != 2 or rows.shape[1] != self.architecture.d):
                raise ValueError(
                    f"An array of shape {tuple(rows.shape)} was given; this kernel expects rows with "
                    f"{self.architecture.d} columns, so give these."
                )
            if rows is not None and not bool(rows.isfinite().all()):
                raise ValueError(
                    "The rows given to a kernel contain NaN or infinity; fill these cells, or use a kernel that an "
                    "estimator has learned, which knows what to do with missing ones."
                )
            # the fourth root leaves room for squares of rows times weights, and their sum over columns
            most = torch.finfo(rows.dtype).max ** 0.25 if rows is not None else 0.0
            if rows is not None and bool((rows.abs() > most).any()):
                raise ValueError(
                    f"The rows given to a kernel hold {float(rows.abs().max()):g}; numbers up to {most:.0e} are "
                    "expected, so divide the columns, for instance by their standard deviations."
                )

    # --------------------------------------------------------------- gradients

    def backward(self, dJ_dK: torch.Tensor, X: torch.Tensor, Z: torch.Tensor | None = None) -> Weights:
        """∂J/∂W from ∂J/∂K, one array per layer, in float64.

        With ``Z=None`` the sweep runs over the tiles on and below the diagonal and takes ∂J/∂K_ab and
        ∂J/∂K_ba together.
        """
        fits = fused.suits_backward(self.architecture, X, Z)
        found = (self._sweep(X, Z) if fits else Sweep(self, X, Z)).backward(dJ_dK)
        return tuple(g.to(w.device) for g, w in zip(found, self.W, strict=True))

    def derivatives(self, X: torch.Tensor) -> Iterator[Derivative]:
        """(array of W, index, ∂K/∂w) for each weight, as whole n x n matrices: what Gaussian processes ask for."""
        sweep = Sweep(self, X, None)
        whole = slice(0, len(X)), slice(0, len(X))
        for layer, i, N, k in sweep.descend(whole, torch.ones(len(X), len(X), dtype=X.dtype, device=X.device)):
            if k is not None:
                yield layer, (i,), -4 * float(self.W[layer][i]) * N * (1 - k)
            else:
                yield from sweep.kind_of[i].derivatives(i, N)

    # ---------------------------------------------------------------- relevance

    def shares(self, X: torch.Tensor) -> np.ndarray:
        """Which part of the exponent each first-layer node and column carries on pairs of rows; nodes x d, sums to 1.

        A node passes its share of S_top on to its children in proportion to their mean terms
        2 w_i² (1 - k_i), and a first-layer node to its columns in proportion to v_ij² E |x_j - x'_j|^q, an
        oblique one in proportion to ‖A_j‖² E (x_j - x'_j)².
        """
        sweep = Sweep(self, X, X)
        means = [torch.zeros(len(parents), dtype=torch.float64) for parents in self.architecture.parents]
        for pair in sweep.tiles(backward=True):
            for mean, kernels in zip(means, sweep.kernels(pair)[1], strict=True):
                mean += torch.stack([(1 - k).sum(dtype=torch.float64) for k in kernels]).cpu() / len(X) ** 2
        share = torch.ones(1, dtype=torch.float64)
        for layer in range(self.architecture.depth - 1, 0, -1):
            parents = torch.tensor(self.architecture.parents[layer - 1])
            share = share[parents] * _proportions(2 * self.W[layer] ** 2 * means[layer - 1], parents)
        columns = torch.stack([sweep.kind_of[i].column_terms(i) for i in range(len(self.W[0]))])
        columns = columns / columns.sum(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
        total = share[:, None] * columns
        return (total / total.sum().clamp_min(torch.finfo(torch.float64).tiny)).numpy()

    def relevance(self, X: torch.Tensor) -> np.ndarray:
        """The share of each column, summed over nodes."""
        return self.shares(X).sum(0)

    # ---------------------------------------------------------------- printing

    def __str__(self) -> str:
        a = self.architecture
        head = f"hierarchical Gaussian kernel: depth {a.depth}, gamma {self.gamma:.4g}, {a.d} columns"
        return "\n".join([head, *self._lines(a.depth, 0, "")])

    def __repr__(self) -> str:
        a = self.architecture
        return f"<HierarchicalKernel depth={a.depth} nodes={len(a.coordinates)} d={a.d} gamma={self.gamma:.4g}>"

    def _lines(self, layer: int, node: int, indent: str) -> Iterator[str]:
        if layer == 1:
            yield f"{indent}{self._terms(node)}"
            return
        family = self.architecture.children(layer, node)
        for i in family:
            last = i == family[-1]
            label = self.architecture.labels[i] if layer == 2 and self.architecture.labels else f"node {i}"
            w = abs(float(self.W[layer - 1][i]))
            label += self._kind(i) if layer == 2 else ""
            body = f"{label}: {self._terms(i)}" if layer == 2 else label
            yield f"{indent}{'└─' if last else '├─'} {w:.3g} · {body}"
            if layer > 2:
                yield from self._lines(layer - 1, i, indent + ("   " if last else "│  "))

    def _kind(self, node: int) -> str:
        q = self.architecture.q[node]
        return f" (rough, q {q:g})" if q != 2 else " (oblique)" if node in self.architecture.oblique else ""

    def _terms(self, node: int, most: int = 8) -> str:
        v = self.W[0][node].abs()
        order = sorted(self.architecture.coordinates[node], key=lambda j: -float(v[j]))
        name = (lambda j: self.columns[j]) if self.columns else (lambda j: f"x{j}")
        more = f" (+{len(order) - most} more)" if len(order) > most else ""
        return "  ".join(f"{name(j)} {float(v[j]):.3g}" for j in order[:most]) + more


@storable
@dataclass(frozen=True, eq=False)
class MeanKernel:
    """k = Σ_m p_m k_m: the mean of kernels k_m, with p_m in proportion to ``shares``."""

    kernels: tuple[HierarchicalKernel, ...]
    shares: tuple[float, ...]

    @property
    def terms(self) -> list[tuple[float, HierarchicalKernel]]:
        total = sum(self.shares)
        return [(share / total, kernel) for share, kernel in zip(self.shares, self.kernels, strict=True)]

    def matrix(self, X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
        """K(X, Z); where two matrices of all pairs would be too many, by blocks of rows."""
        if not in_place(len(X)):
            return self._sum(X, Z)
        K = X.new_empty(len(X), len(X if Z is None else Z))
        for block in blocks(len(X), BLOCK):
            if Z is None:  # symmetric: up to the diagonal
                K[block, : block.stop] = self._sum(X[block], X[: block.stop])
                K[: block.start, block] = K[block, : block.start].T
            else:
                K[block] = self._sum(X[block], Z)
        return K

    def _sum(self, X: torch.Tensor, Z: torch.Tensor | None) -> torch.Tensor:
        (first, kernel), *others = self.terms
        K = kernel.matrix(X, Z).mul_(first)
        for share, kernel in others:
            K.add_(kernel.matrix(X, Z), alpha=share)
        return K

    def multiply(self, X: torch.Tensor, Z: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        """K(X, Z) alpha, without ever holding more than one tile of K."""
        return torch.stack([share * kernel.multiply(X, Z, alpha) for share, kernel in self.terms]).sum(0)


def _proportions(terms: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """Each term's share of its parent's sum."""
    sums = torch.zeros(int(parents.max()) + 1, dtype=terms.dtype).index_add_(0, parents, terms)
    return terms / sums[parents].clamp_min(torch.finfo(terms.dtype).tiny)


class Sweep:
    """One kernel on one pair of row sets: the formulas above, for any tile of pairs.

    The rows are centred first, because ‖v x‖² + ‖v x'‖² - 2⟨v x, v x'⟩ cancels when they lie far from 0.
    """

    def __init__(self, kernel: HierarchicalKernel, X: torch.Tensor, Z: torch.Tensor | None = None):
        self.architecture, self.W, self.gamma = kernel.architecture, kernel.W, kernel.gamma
        self.symmetric = Z is None
        centre = (X if Z is None else Z).mean(0)
        self.X = X - centre
        self.Z = self.X if Z is None else Z - centre
        self.edges = [w.tolist() for w in self.W[1 : self.architecture.depth]]
        self.buffers = Buffers()
        self.kinds = kinds(self.architecture, self.W, self.X, self.Z, self.buffers)
        self.kind_of = {i: kind for kind in self.kinds for i in kind.nodes}

    def tiles(self, backward: bool = False) -> Iterator[Pair]:
        """Tiles of all pairs, sized by how many arrays are held at once."""
        held = self.architecture.depth + max(kind.arrays for kind in self.kinds)
        held += len(self.kind_of) if backward else 0
        return tiles(len(self.X), len(self.Z), self.symmetric, held, self.X.device)

    def changed(self, layer: int, index: tuple[int, ...], value: float) -> Sweep:
        """The sweep of the kernel in which ``W[layer][index]`` is ``value``; the rest is shared."""
        other = copy(self)
        W = list(self.W)
        W[layer] = W[layer].clone()
        W[layer][index] = value
        other.W = tuple(W)
        if layer == 0:
            affected = self.kind_of[index[0]]
            other.kinds = [kind.changed(other.W) if kind is affected else kind for kind in self.kinds]
            other.kind_of = {i: kind for kind in other.kinds for i in kind.nodes}
        else:
            other.edges = [list(edges) for edges in self.edges]
            other.edges[layer - 1][index[0]] = value
        return other

    def log_kernel(self, pair: Pair, layer: int = 0, node: int = 0, keep: bool = False) -> torch.Tensor:
        """log k_p = -S_p of one node on one tile; without γ, and by default of the top node.

        The result lies in a buffer that the next call uses again. With ``keep`` every node has a buffer
        of its own, and those below hold k_i afterwards.
        """
        layer = layer or self.architecture.depth
        E = self.buffer(pair, (layer, node if keep else 0))
        if layer == 1:
            self.kind_of[node].fill(pair, node, E)
        else:
            family = self.architecture.children(layer, node)
            w2 = [2 * self.edges[layer - 2][i] ** 2 for i in family]
            E.fill_(-sum(w2))
            for i, weight in zip(family, w2, strict=True):
                E.add_(self.log_kernel(pair, layer - 1, i, keep).exp_(), alpha=weight)
        return E.clamp_(max=0.0)

    def buffer(self, pair: Pair, key: tuple[int, int]) -> torch.Tensor:
        """A tile to write into."""
        rows, columns = (s.stop - s.start for s in pair)
        return self.buffers.get(key, (rows, columns), self.X)

    def exponent(self) -> torch.Tensor:
        """S over all pairs."""
        S = self.X.new_empty(len(self.X), len(self.Z))
        for r, c in self.tiles():
            E = self.log_kernel((r, c))
            if self.symmetric:  # the product rounds x·x' and x'·x differently
                S[c, r] = (E.add_(E.T.clone()).mul_(0.5) if r == c else E).T.neg()
            torch.neg(E, out=S[r, c])
        return S.fill_diagonal_(0.0) if self.symmetric else S

    def matrix(self) -> torch.Tensor:
        """K over all pairs."""
        return self.exponent().mul_(-(self.gamma**-2)).exp_()

    def multiply(self, alpha: torch.Tensor) -> torch.Tensor:
        """K alpha, tile by tile."""
        t = self.X.new_zeros(len(self.X), alpha.shape[1])
        for r, c in self.tiles():
            t[r].addmm_(self.log_kernel((r, c)).mul_(self.gamma**-2).exp_(), alpha[c])
        return t

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W over all pairs."""
        grads = tuple(torch.zeros_like(w) for w in self.W)
        for r, c in self.tiles(backward=True):
            G = dJ_dK[r, c]
            if self.symmetric and r != c:
                G = G + dJ_dK[c, r].T
            self.accumulate((r, c), G, grads)
        return grads

    def kernels(self, pair: Pair) -> tuple[torch.Tensor, list[list[torch.Tensor]]]:
        """log k of the top node, and k of every node below, per layer, on one tile."""
        top = self.log_kernel(pair, keep=True)
        sizes = map(len, self.architecture.parents)
        return top, [[self.buffer(pair, (layer, i)) for i in range(n)] for layer, n in enumerate(sizes, start=1)]

    def descend(self, pair: Pair, dJ_dK: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor, torch.Tensor | None]]:
        """Top-down: (layer, i, N_parent, k_i) for each edge, then (0, i, N_i, None) for each first-layer node."""
        depth, parents = self.architecture.depth, self.architecture.parents
        E, kernels = self.kernels(pair)
        above = [E.mul_(self.gamma**-2).exp_().mul_(dJ_dK).mul_(self.gamma**-2)]
        for layer in range(depth - 1, 0, -1):
            N = []
            for i, p in enumerate(parents[layer - 1]):
                k = kernels[layer - 1][i]
                yield layer, i, above[p], k
                N.append(k.mul_(above[p]).mul_(2 * self.edges[layer - 1][i] ** 2))
            above = N
        for i, N_i in enumerate(above):
            yield 0, i, N_i, None

    def accumulate(self, pair: Pair, dJ_dK: torch.Tensor, grads: Weights) -> None:
        """Add one tile's part of ∂J/∂W to ``grads``."""
        parent, total, first_layer = None, 0.0, {}
        for layer, i, N, k in self.descend(pair, dJ_dK):
            if k is None:
                first_layer[i] = N
                continue
            if N is not parent:
                parent, total = N, float(N.sum())
            # Σ N (1 - k) = Σ N - ⟨N, k⟩
            grads[layer][i] -= 4 * self.edges[layer - 1][i] * (total - float(torch.dot(N.view(-1), k.view(-1))))
        for kind in self.kinds:
            kind.accumulate(pair, first_layer, grads)
