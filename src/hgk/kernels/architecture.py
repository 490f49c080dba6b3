"""A hierarchy as pure description: its depth, its nodes, and the columns each first-layer node sees.

A tree of depth m has m layers. First-layer node i compares two rows on the columns I_i; a node of layer
l > 1 combines its children in layer l - 1; the last layer is the single top node. First-layer nodes are of
three kinds:

    smooth      S_i = Σ v_ij² (x_j - x'_j)²                        the paper's inhomogeneous Gaussian
    rough       S_i = Σ v_ij² |x_j - x'_j|^q,   0 < q < 2          q = 1 bends like a tree's thresholds
    oblique     S_i = ‖(x - x') diag(v_i) (I + U_i)‖²              U_i = P_i Q_iᵀ of low rank

The weights W are one array per layer, and two more where there are oblique nodes:

    W[0]              V, nodes x d, zero outside I_i         weights v_ij of the columns
    W[l], 0 < l < m   one number per node of layer l         weight w of the edge from that node to its parent
    W[m], W[m+1]      P and Q, oblique nodes x d x rank      zero outside I_i
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch

from hgk.storable import expect, storable

Weights = tuple[torch.Tensor, ...]
# Layers of a tree in a file: kernels are computed by recursion.
DEEPEST = 64


@storable
@dataclass(frozen=True)
class Architecture:
    """A hierarchy of Gaussian kernels without its weights.

    Parameters
    ----------
    d : int
        Number of columns of the data.
    coordinates : tuple of tuple of int
        ``coordinates[i]`` is the index set I_i of first-layer node i; sets may overlap.
    parents : tuple of tuple of int, default=()
        ``parents[l][i]`` is the parent, in layer l + 2, of node i of layer l + 1. Empty at depth 1.
    labels : tuple of str, default=()
        Names of the first-layer nodes, for printing.
    tied : bool, default=False
        True for the isotropic kernel, whose only parameter is the width gamma.
    exponents : tuple of float, default=()
        The exponent q of each first-layer node, 2 for smooth and oblique ones; () means all 2.
    oblique : tuple of int, default=()
        The first-layer nodes with a linear map.
    rank : int, default=0
        The rank of those maps.

    Examples
    --------
    >>> from hgk.kernels.architecture import two_layers
    >>> architecture = two_layers(d=5, nodes=3, coordinates_per_node=2, scheme="balanced")
    >>> architecture.depth, architecture.n_weights
    (2, 9)
    """

    d: int
    coordinates: tuple[tuple[int, ...], ...]
    parents: tuple[tuple[int, ...], ...] = ()
    labels: tuple[str, ...] = ()
    tied: bool = False
    exponents: tuple[float, ...] = ()
    oblique: tuple[int, ...] = ()
    rank: int = 0

    def __post_init__(self) -> None:
        if self.d < 1 or not self.coordinates:
            raise ValueError(
                f"An architecture needs at least one column and one node; got d={self.d} and "
                f"{len(self.coordinates)} nodes."
            )
        for i, index_set in enumerate(self.coordinates):
            _check_index_set(i, index_set, self.d)
        sizes = [len(self.coordinates)]
        for layer, parents in enumerate(self.parents, start=1):
            if len(parents) != sizes[-1] or set(parents) != set(range(max(parents) + 1)):
                raise ValueError(
                    f"parents[{layer - 1}]={parents} was given; each of the {sizes[-1]} nodes of layer {layer} needs "
                    "one parent, so number these 0, 1, ... without gaps."
                )
            sizes.append(max(parents) + 1)
        if sizes[-1] != 1:
            raise ValueError(f"The last layer has {sizes[-1]} nodes; a kernel has exactly one top node.")
        if self.labels and len(self.labels) != len(self.coordinates):
            raise ValueError(
                f"{len(self.labels)} labels were given; {len(self.coordinates)} first-layer nodes need one each."
            )
        self._check_kinds()

    def _check_kinds(self) -> None:
        nodes = len(self.coordinates)
        if self.exponents and len(self.exponents) != nodes:
            raise ValueError(f"{len(self.exponents)} exponents were given; {nodes} first-layer nodes need one each.")
        if not all(0 < q <= 2 for q in self.exponents):
            raise ValueError(f"The exponents {self.exponents} were given; each must lie in (0, 2].")
        if self.oblique and (self.rank < 1 or not set(self.oblique) <= set(range(nodes))):
            raise ValueError(
                f"oblique={self.oblique} with rank={self.rank} was given; expected nodes from 0 to {nodes - 1} and "
                "a rank of at least 1."
            )
        if any(self.q[i] != 2 for i in self.oblique):
            raise ValueError("A node was declared both rough and oblique; a linear map needs the exponent 2.")

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        """Numbers that the class itself would count up to, before it does."""
        sizes = len(parts["coordinates"])
        expect(len(parts.get("parents", ())) < DEEPEST, f"a tree has more than {DEEPEST} layers")
        for parents in parts.get("parents", ()):
            expect(bool(parents) and all(0 <= p < sizes for p in parents), "a node's parent does not exist")
            sizes = len(parents)
        expect(0 <= parts.get("rank", 0) <= parts["d"], "a map's rank is larger than the number of columns")
        expect(len(set(parts.get("oblique", ()))) == len(parts.get("oblique", ())), "a node is named twice")

    @property
    def q(self) -> tuple[float, ...]:
        """The exponent of every first-layer node."""
        return self.exponents or (2.0,) * len(self.coordinates)

    @property
    def depth(self) -> int:
        return len(self.parents) + 1

    @property
    def n_weights(self) -> int:
        return sum(int(mask.sum()) for mask in self.free())

    def children(self, layer: int, node: int) -> list[int]:
        """Children, in layer ``layer - 1``, of a node of layer ``layer`` (layers count from 1)."""
        return [i for i, parent in enumerate(self.parents[layer - 2]) if parent == node]

    def expanded(self, owner: Sequence[int] | np.ndarray) -> Architecture:
        """The same tree on features, where ``owner[f]`` is the column that feature f is made of."""
        sets = tuple(tuple(f for f, j in enumerate(owner) if j in set(c)) for c in self.coordinates)
        return replace(self, d=len(owner), coordinates=sets)

    @property
    def mask(self) -> torch.Tensor:
        """nodes x d, True where the column belongs to the node."""
        mask = torch.zeros(len(self.coordinates), self.d, dtype=torch.bool)
        for i, index_set in enumerate(self.coordinates):
            mask[i, list(index_set)] = True
        return mask

    def free(self) -> list[torch.Tensor]:
        """For every array of W, True where it holds a weight that may change."""
        masks = [self.mask, *(torch.ones(len(p), dtype=torch.bool) for p in self.parents)]
        if self.oblique:
            masks += 2 * [self.mask[list(self.oblique)][:, :, None].expand(-1, -1, self.rank).clone()]
        return masks

    def start(self, spread: np.ndarray, rng: np.random.Generator, noise: float = 0.3) -> Weights:
        """Starting weights: a nearly isotropic kernel whose nodes are neither flat nor spiked.

        ``spread[j]`` is E (x_j - x'_j)² over pairs of rows. With p = |I_i| the mean exponent of every
        first-layer node is about 1, and the edge weights of a node with c children have squares 1/c:

            v_ij² = 1 / (p spread_j^{q/2}) · e^ξ,    w_i² = 1/c · e^ξ,    ξ ~ N(0, noise²)

        The noise breaks the symmetry between nodes. A tied kernel is exactly isotropic, v_ij = 1. Of the
        linear maps, Q = 0 (so that U = 0) and the entries of P are N(0, 1/p).
        """
        if self.tied:
            return (torch.ones(1, self.d, dtype=torch.float64),)
        spread = np.where(spread > 0, spread, np.inf)  # a constant column gets weight 0
        sizes = np.array([[len(c)] for c in self.coordinates])
        q = np.array(self.q)[:, None]
        layers = [np.where(self.mask.numpy(), 1 / np.sqrt(sizes * spread ** (q / 2)), 0.0)]
        for parents in self.parents:
            family = np.bincount(parents)
            layers.append(1 / np.sqrt(family[list(parents)]))
        layers = [w * np.exp(0.5 * noise * rng.standard_normal(w.shape)) for w in layers]
        if self.oblique:
            mask = self.free()[-1].numpy()
            P = mask * rng.standard_normal(mask.shape) / np.sqrt(sizes[list(self.oblique)][:, :, None])
            layers += [P, np.zeros_like(P)]
        return tuple(torch.from_numpy(w) for w in layers)


def _check_index_set(node: int, index_set: Sequence[int], d: int) -> None:
    outside = [j for j in index_set if not 0 <= j < d]
    if outside or not index_set or len(set(index_set)) != len(index_set):
        raise ValueError(
            f"Node {node} was given the columns {tuple(index_set)}; expected a non-empty set of distinct "
            f"indices from 0 to {d - 1}, the data having {d} columns."
        )


def isotropic(d: int) -> Architecture:
    """The plain Gaussian kernel exp(-γ⁻²‖x - x'‖²)."""
    return Architecture(d, (tuple(range(d)),), tied=True)


def inhomogeneous(d: int) -> Architecture:
    """The depth-1 kernel exp(-γ⁻² Σ v_i² (x_i - x'_i)²)."""
    return Architecture(d, (tuple(range(d)),))


def two_layers(
    d: int,
    nodes: int,
    coordinates_per_node: int | None = None,
    scheme: str = "balanced",
    rng: np.random.Generator | int = 0,
) -> Architecture:
    """A depth-2 kernel with ``nodes`` first-layer nodes on ``coordinates_per_node`` columns each.

    Parameters
    ----------
    coordinates_per_node : int or None
        Columns per node; None takes ``min(d, max(2, ceil(2 d / nodes)))``, so that every column lies in
        about two nodes.
    scheme : {"balanced", "random"}
        "random" draws every index set independently. "balanced" deals the columns out from shuffled
        decks, so that all columns lie in equally many nodes, give or take one; every column lies in
        some node (which universality asks for) as soon as nodes x coordinates_per_node >= d.
    """
    rng = np.random.default_rng(rng)
    if not (isinstance(d, Integral) and isinstance(nodes, Integral) and d >= 1 and nodes >= 1):
        raise ValueError(f"d={d!r} and nodes={nodes!r} were given; whole numbers >= 1 are expected.")
    size = min(d, max(2, -(-2 * d // nodes))) if coordinates_per_node is None else coordinates_per_node
    if not 1 <= size <= d:
        raise ValueError(f"coordinates_per_node={size} was given; expected a number from 1 to d={d}.")
    if scheme == "random":
        sets = [rng.choice(d, size, replace=False).tolist() for _ in range(nodes)]
    elif scheme == "balanced":
        sets = _deal(d, nodes, size, rng)
    else:
        raise ValueError(f"scheme={scheme!r} is unknown; use 'balanced' or 'random'.")
    return Architecture(d, tuple(tuple(sorted(s)) for s in sets), ((0,) * nodes,))


def _deal(d: int, nodes: int, size: int, rng: np.random.Generator) -> list[list[int]]:
    """Deal ``nodes`` hands of ``size`` different columns from shuffled decks of all columns."""
    deck: list[int] = []
    hands = []
    for _ in range(nodes):
        hand: list[int] = []
        while len(hand) < size:
            if all(j in hand for j in deck):  # the deck is used up, or holds only what this hand has
                deck += rng.permutation(d).tolist()
            hand.append(deck.pop(next(i for i, j in enumerate(deck) if j not in hand)))
        hands.append(hand)
    return hands


def grouped(groups: Mapping[str, Iterable[int | str]], columns: Sequence[str] | int) -> Architecture:
    """A depth-2 kernel with one node per named group of columns.

    Parameters
    ----------
    groups : mapping from name to columns
        Columns by index or, where ``columns`` are names, by name. Groups may overlap. Columns in no
        group form a node of their own, "rest".
    columns : sequence of str, or int
        The names of the columns, or how many there are.

    Examples
    --------
    >>> from hgk.kernels.architecture import grouped
    >>> grouped({"body": ["age", "bmi"]}, ["age", "bmi", "s1", "s2"]).coordinates
    ((0, 1), (2, 3))
    """
    for name, group in groups.items():
        if isinstance(group, str) or not isinstance(group, Iterable) or not len(list(group)):
            instead = [group] if group else [0]
            raise ValueError(
                f"Group {name!r} was given as {group!r}; a list of columns is expected, such as {instead}."
            )
    names = [] if isinstance(columns, int) else [str(c) for c in columns]
    d = columns if isinstance(columns, int) else len(columns)
    sets = {name: tuple(dict.fromkeys(_index(c, names, d, name) for c in group)) for name, group in groups.items()}
    rest = tuple(sorted(set(range(d)) - {j for s in sets.values() for j in s}))
    if rest:
        name = "rest"
        while name in sets:
            name = f"other {name}"
        sets[name] = rest
    return Architecture(d, tuple(sets.values()), ((0,) * len(sets),), tuple(map(str, sets)))


def _index(column: int | str, names: list[str], d: int, group: str) -> int:
    if isinstance(column, str):
        if column in names:
            return names.index(column)
    elif isinstance(column, Integral) and not isinstance(column, bool | np.bool) and 0 <= column < d:
        return int(column)
    known = f"names such as {', '.join(names[:5])}" if names else f"indices from 0 to {d - 1}"
    raise ValueError(f"Group {group!r} names the column {column!r}, which the data do not have; use {known}.")


def with_kinds(architecture: Architecture, rough: Iterable[int] = (), q: float = 1.0, oblique=(), rank: int = 0):
    """The same tree with some first-layer nodes rough (exponent q) and some oblique (a map of that rank).

    Examples
    --------
    >>> from hgk.kernels.architecture import two_layers, with_kinds
    >>> with_kinds(two_layers(6, 4), rough=[2, 3]).q
    (2.0, 2.0, 1.0, 1.0)
    """
    rough = set(rough)
    exponents = tuple(q if i in rough else architecture.q[i] for i in range(len(architecture.coordinates)))
    return replace(architecture, exponents=exponents, oblique=tuple(oblique), rank=rank)


def compose(parts: Sequence[Architecture]) -> Architecture:
    """A tree of depth m + 1 whose top node has the given trees of depth m as children.

    Examples
    --------
    >>> from hgk.kernels.architecture import compose, two_layers
    >>> compose([two_layers(6, 4), two_layers(6, 2)]).depth
    3
    """
    strangers = [a for a in parts if not isinstance(a, Architecture)]
    if strangers:
        raise TypeError(f"{strangers[0]!r} was given to compose; Architectures such as two_layers(d, 4) are expected.")
    if not parts or len({(a.depth, a.d) for a in parts}) != 1:
        raise ValueError(
            f"Trees of (depth, columns) {[(a.depth, a.d) for a in parts]} were given; a parent's children must "
            "all have the same depth and the same number of columns."
        )
    parents = [_side_by_side([a.parents[layer] for a in parts]) for layer in range(parts[0].depth - 1)]
    parents.append((0,) * len(parts))
    labels = tuple(label for a in parts for label in (a.labels or ("",) * len(a.coordinates)))
    if len({a.rank for a in parts if a.oblique}) > 1:
        raise ValueError(f"Linear maps of ranks {[a.rank for a in parts]} were given; one tree has one rank.")
    offsets = np.cumsum([0, *(len(a.coordinates) for a in parts)])
    return replace(
        parts[0],
        coordinates=tuple(c for a in parts for c in a.coordinates),
        parents=tuple(parents),
        labels=labels if any(labels) else (),
        tied=False,
        exponents=tuple(q for a in parts for q in a.q),
        oblique=tuple(int(o) + i for o, a in zip(offsets, parts, strict=False) for i in a.oblique),
        rank=max(a.rank for a in parts),
    )


def _side_by_side(layers: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    offsets = np.cumsum([0, *(max(p) + 1 for p in layers)])
    return tuple(int(o) + p for o, layer in zip(offsets, layers, strict=False) for p in layer)
