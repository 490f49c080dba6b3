"""Hierarchical Gaussian kernels of any depth: values, products and the backward sweep.

The formulas, for a node p with exponent S_p and kernel k_p = exp(-S_p):

    first layer     S_i as its kind says (:mod:`hgk.kernels.nodes`), for instance Σ_{j∈I_i} v_ij² (x_j - x'_j)²
    above           S_p = Σ_{i child of p} 2 w_i² (1 - k_i)
    top             K   = exp(-γ⁻² S_top)

and backwards, with N_p = -∂J/∂S_p (a matrix over pairs of rows) and sums over all pairs:

    top             N_top   = γ⁻² ∂J/∂K ∘ K
    edge i -> p     ∂J/∂w_i = -4 w_i Σ N_p ∘ (1 - k_i)          N_i = 2 w_i² N_p ∘ k_i
    first layer     as its kind says, for instance ∂J/∂v_ij = -2 v_ij Σ N_i ∘ (x_j - x'_j)²

The paper's lemma on derivatives lacks the factor k in its second formula; N_i above carries it.
Everything is computed tile by tile, so that no array over pairs and nodes or pairs and columns exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hgk.arrays import require_memory, tensor
from hgk.kernels.architecture import Architecture
from hgk.kernels.base import Kernel
from hgk.kernels.nodes import Smooth
from hgk.kernels.nodes.base import Derivative, Weights
from hgk.kernels.sweeps import compiled, processor
from hgk.kernels.sweeps.plain import Sweep
from hgk.kernels.sweeps.processor import LoopSweep
from hgk.storable import expect, real, storable


@storable
@dataclass(frozen=True, eq=False)
class HierarchicalKernel(Kernel):
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
        shapes, given = self.architecture.shapes(), [tuple(w.shape) for w in self.W]
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
        W = parts["W"]
        expect([tuple(w.shape) for w in W] == a.shapes(), "a kernel's weights do not fit its tree")
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

    def with_inputs(self, inputs: Any, columns: tuple[str, ...] = ()) -> HierarchicalKernel:
        return replace(self, inputs=inputs, columns=columns)

    @property
    def d(self) -> int:
        return self.architecture.d

    @property
    def terms(self) -> list[tuple[float, HierarchicalKernel]]:
        return [(1.0, self)]

    @property
    def is_plain(self) -> bool:
        """One smooth node whose weights are all equal."""
        tree = self.architecture
        if tree.depth != 1 or tree.kinds != (Smooth(),):
            return False
        weights = self.W[0][0, list(tree.coordinates[0])].abs()
        return bool((weights == weights[0]).all())

    @property
    def largest_exponent(self) -> float:
        """γ⁻² Σ 2w² over the edges into the top node, which γ⁻² S_top cannot exceed; 0 for trees of one layer."""
        top = self.W[self.architecture.depth - 1]
        return float(2 * (top**2).sum()) / self.gamma**2 if self.architecture.depth > 1 else 0.0

    # ------------------------------------------------------------------ values

    def exponent(self, X: torch.Tensor, Z: torch.Tensor | None = None, often: bool = False) -> torch.Tensor:
        """S(X, Z) without γ, so that K = exp(-γ⁻² S) for every γ."""
        return self._sweep(X, Z, whole=True, often=often).exponent()

    def exponents(self, X: torch.Tensor) -> list[tuple[float, torch.Tensor]]:
        return [(1.0, self.exponent(X))]

    def matrix(self, X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
        return self._sweep(X, Z, whole=True).matrix()

    def multiply(self, X: torch.Tensor, Z: torch.Tensor, alpha: torch.Tensor, often: bool = False) -> torch.Tensor:
        return self._sweep(X, Z, often=often).multiply(alpha)

    def _sweep(
        self, X: torch.Tensor, Z: torch.Tensor | None, whole: bool = False, often: bool = False
    ) -> Sweep | LoopSweep | compiled.FusedSweep:
        """The formulas on these rows; ``whole`` if a matrix of all pairs will come of them.

        Rows in single precision are a licence to round: where they are many, the compiled loops take them.
        """
        if whole:
            require_memory(len(X), len(X if Z is None else Z), 1, X.dtype, "A kernel matrix", X.device)
        if compiled.suits(self.architecture, X):
            return compiled.sweep(self.architecture, self.W, self.gamma, X, Z)
        wanted = often or len(X if Z is None else Z) >= processor.WORTH_LOADING
        if wanted and processor.suits(self.architecture, X):
            return LoopSweep(self, X, Z)
        return Sweep(self, X, Z)

    # --------------------------------------------------------------- gradients

    def backward(self, dJ_dK: torch.Tensor, X: torch.Tensor, Z: torch.Tensor | None = None) -> Weights:
        """∂J/∂W from ∂J/∂K, one array per layer, in float64.

        With ``Z=None`` the sweep runs over the tiles on and below the diagonal and takes ∂J/∂K_ab and
        ∂J/∂K_ba together.
        """
        fits = compiled.suits_backward(self.architecture, X, Z)
        sweep = compiled.sweep(self.architecture, self.W, self.gamma, X, Z) if fits else Sweep(self, X, Z)
        grads = sweep.backward(dJ_dK)
        return tuple(g.to(w.device) for g, w in zip(grads, self.W, strict=True))

    def derivatives(self, X: torch.Tensor) -> Iterator[Derivative]:
        """(array of W, index, ∂K/∂w) for each weight, as whole n x n matrices: what Gaussian processes ask for."""
        sweep = Sweep(self, X, None)
        whole = slice(0, len(X)), slice(0, len(X))
        for layer, i, N, k in sweep.descend(whole, torch.ones(len(X), len(X), dtype=X.dtype, device=X.device)):
            if k is not None:
                yield layer, (i,), -4 * float(self.W[layer][i]) * N * (1 - k)
            else:
                yield from sweep.worker_of[i].derivatives(i, N)

    # ---------------------------------------------------------------- relevance

    def shares(self, X: torch.Tensor) -> np.ndarray:
        """Which part of the exponent each first-layer node and column carries on pairs of rows; nodes x d, sums to 1.

        A node passes its share of S_top on to its children in proportion to their mean terms 2 w_i² (1 - k_i), and a
        first-layer node to its columns in proportion to their mean terms, for instance v_ij² E (x_j - x'_j)².
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
        columns = torch.stack([sweep.worker_of[i].column_terms(i) for i in range(len(self.W[0]))])
        columns = columns / columns.sum(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
        total = share[:, None] * columns
        return (total / total.sum().clamp_min(torch.finfo(torch.float64).tiny)).numpy()

    # ---------------------------------------------------------------- printing

    def __str__(self) -> str:
        a = self.architecture
        head = f"hierarchical Gaussian kernel: depth {a.depth}, gamma {self.gamma:.4g}, {a.d} columns"
        return "\n".join([head, *_lines(self, a.depth, 0, "")])

    def __repr__(self) -> str:
        a = self.architecture
        return f"<HierarchicalKernel depth={a.depth} nodes={len(a.coordinates)} d={a.d} gamma={self.gamma:.4g}>"


def _lines(kernel: HierarchicalKernel, layer: int, node: int, indent: str) -> Iterator[str]:
    """The branch below a node, one line for each edge."""
    tree = kernel.architecture
    if layer == 1:
        yield f"{indent}{_columns(kernel, node)}"
        return
    family = tree.children(layer, node)
    for i in family:
        last = i == family[-1]
        body = tree.labels[i] if layer == 2 and tree.labels else f"node {i}"
        body += f"{tree.kinds[i].remark}: {_columns(kernel, i)}" if layer == 2 else ""
        yield f"{indent}{'└─' if last else '├─'} {abs(float(kernel.W[layer - 1][i])):.3g} · {body}"
        if layer > 2:
            yield from _lines(kernel, layer - 1, i, indent + ("   " if last else "│  "))


def _columns(kernel: HierarchicalKernel, node: int, most: int = 8) -> str:
    """A first-layer node's columns and weights, the largest first."""
    v = kernel.W[0][node].abs()
    order = sorted(kernel.architecture.coordinates[node], key=lambda j: -float(v[j]))
    names = kernel.columns or [f"x{j}" for j in range(kernel.d)]
    more = f" (+{len(order) - most} more)" if len(order) > most else ""
    return "  ".join(f"{names[j]} {float(v[j]):.3g}" for j in order[:most]) + more


def _proportions(terms: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """Each term's share of its parent's sum."""
    sums = torch.zeros(int(parents.max()) + 1, dtype=terms.dtype).index_add_(0, parents, terms)
    return terms / sums[parents].clamp_min(torch.finfo(terms.dtype).tiny)
