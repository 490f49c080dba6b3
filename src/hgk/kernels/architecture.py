"""A hierarchy as pure description: its depth, its nodes, and the columns each first-layer node sees.

A tree of depth m has m layers. First-layer node i compares two rows on the columns I_i, as its kind defines
(:mod:`hgk.kernels.nodes`); a node of layer l > 1 combines its children in layer l - 1; the last layer is the single top
node. The weights W are one array per layer, and more where kinds have further weights:

    W[0]              V, nodes x d, zero outside I_i            weights v_ij of the columns
    W[l], 0 < l < m   one number per node of layer l            weight w of the edge from that node to its parent
    W[m], ...         nodes of one kind x d x what it needs     zero outside I_i; of oblique nodes P and Q
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import torch

from hgk.kernels.nodes import Members, NodeKind, Oblique, Rough, Smooth
from hgk.kernels.nodes.base import Weights
from hgk.storable import Malformed, expect, storable

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
    kinds : tuple of NodeKind, default=()
        The kind of each first-layer node; () makes all smooth.

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
    kinds: tuple[NodeKind, ...] = ()

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
        object.__setattr__(self, "kinds", tuple(self.kinds) or (Smooth(),) * len(self.coordinates))
        if len(self.kinds) != len(self.coordinates) or not all(isinstance(kind, NodeKind) for kind in self.kinds):
            raise ValueError(
                f"The kinds {self.kinds} were given; {len(self.coordinates)} first-layer nodes need one each, such as "
                "Smooth() or Rough(q=1.0)."
            )

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        """Numbers that the class itself would count up to, before it does."""
        sizes = len(parts["coordinates"])
        expect(len(parts.get("parents", ())) < DEEPEST, f"a tree has more than {DEEPEST} layers")
        for parents in parts.get("parents", ()):
            expect(bool(parents) and all(0 <= p < sizes for p in parents), "a node's parent does not exist")
            sizes = len(parents)

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

    @cached_property
    def mask(self) -> torch.Tensor:
        """nodes x d, True where the column belongs to the node; not to be changed."""
        mask = torch.zeros(len(self.coordinates), self.d, dtype=torch.bool)
        for i, index_set in enumerate(self.coordinates):
            mask[i, list(index_set)] = True
        return mask

    @cached_property
    def members(self) -> tuple[Members, ...]:
        """The nodes of every kind; kinds without further weights first, then by name."""
        nodes: dict[NodeKind, list[int]] = {}
        for i, kind in enumerate(self.kinds):
            nodes.setdefault(kind, []).append(i)
        members, place = [], self.depth
        for kind in sorted(nodes, key=lambda kind: (len(kind.further), repr(kind))):
            places = list(range(place, place := place + len(kind.further)))
            members.append(Members(kind, nodes[kind], [list(self.coordinates[i]) for i in nodes[kind]], places))
        return tuple(members)

    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arrays of W."""
        layers = [(len(self.coordinates), self.d), *((len(parents),) for parents in self.parents)]
        return layers + [(len(m.nodes), self.d, *shape) for m in self.members for shape in m.kind.further]

    def free(self) -> list[torch.Tensor]:
        """For every array of W, True where it holds a weight that may change; not to be changed itself."""
        return list(self._free)

    @cached_property
    def _free(self) -> list[torch.Tensor]:
        masks = [self.mask, *(torch.ones(len(p), dtype=torch.bool) for p in self.parents)]
        for members in self.members:
            seen = self.mask[members.nodes]
            for shape in members.kind.further:
                masks.append(seen.view(*seen.shape, *(1 for _ in shape)).expand(*seen.shape, *shape).clone())
        return masks

    def start(self, spread: np.ndarray, rng: np.random.Generator, noise: float = 0.3) -> Weights:
        """Starting weights: a nearly isotropic kernel whose nodes are neither flat nor spiked.

        ``spread[j]`` is E (x_j - x'_j)² over pairs of rows. With p = |I_i| the mean exponent of every
        first-layer node is about 1, and the edge weights of a node with c children have squares 1/c:

            v_ij² = 1 / (p typical_j) · e^ξ,    w_i² = 1/c · e^ξ,    ξ ~ N(0, noise²)

        with typical_j = spread_j for smooth nodes. The noise breaks the symmetry between nodes. A tied kernel is
        exactly isotropic, v_ij = 1. Further weights start as their kind says.
        """
        if self.tied:
            return (torch.ones(1, self.d, dtype=torch.float64),)
        spread = np.where(spread > 0, spread, np.inf)  # a constant column gets weight 0
        mask = self.mask.numpy()
        typical = np.stack([kind.typical(spread) for kind in self.kinds])
        layers = [np.where(mask, 1 / np.sqrt(mask.sum(1, keepdims=True) * typical), 0.0)]
        for parents in self.parents:
            family = np.bincount(parents)
            layers.append(1 / np.sqrt(family[list(parents)]))
        layers = [w * np.exp(0.5 * noise * rng.standard_normal(w.shape)) for w in layers]
        for members in self.members:
            layers += members.kind.start(mask[members.nodes], rng)
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


def with_kinds(
    architecture: Architecture,
    rough: Iterable[int] = (),
    q: float = 1.0,
    oblique: Iterable[int] = (),
    rank: int = 8,
    kinds: Mapping[int, NodeKind] | None = None,
) -> Architecture:
    """The same tree with other kinds of some first-layer nodes; the others stay what they are.

    Parameters
    ----------
    architecture : Architecture
    rough : iterable of int
        The nodes that become rough, with exponent ``q``.
    q : float, default=1.0
    oblique : iterable of int
        The nodes that become oblique, with maps of rank ``rank``.
    rank : int, default=8
    kinds : mapping from int to NodeKind, optional
        Any kinds, by the numbers of nodes.

    Examples
    --------
    >>> from hgk.kernels.architecture import two_layers, with_kinds
    >>> print(*with_kinds(two_layers(6, 4), rough=[2, 3]).kinds, sep="; ")
    smooth; smooth; rough, q = 1; rough, q = 1
    """
    asked = [(i, Rough(q)) for i in rough] + [(i, Oblique(rank)) for i in oblique] + list((kinds or {}).items())
    changed, nodes = dict(asked), len(architecture.coordinates)
    if len(changed) < len(set(asked)) or not set(changed) <= set(range(nodes)):
        raise ValueError(
            f"Kinds of the nodes {[i for i, _ in asked]} were given; name nodes from 0 to {nodes - 1}, each with one "
            "kind."
        )
    return replace(architecture, kinds=tuple(changed.get(i, kind) for i, kind in enumerate(architecture.kinds)))


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
    return replace(
        parts[0],
        coordinates=tuple(c for a in parts for c in a.coordinates),
        parents=tuple(parents),
        labels=labels if any(labels) else (),
        tied=False,
        kinds=tuple(kind for a in parts for kind in a.kinds),
    )


def _side_by_side(layers: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    offsets = np.cumsum([0, *(max(p) + 1 for p in layers)])
    return tuple(int(o) + p for o, layer in zip(offsets, layers, strict=False) for p in layer)


def upgrade_architecture(document: dict[str, Any]) -> dict[str, Any]:
    """An architecture as files up to schema 4 have it, in today's fields.

    Exponents of nodes and a list of oblique ones, whose maps had one rank, told the kinds of nodes then.
    """
    now = {name: value for name, value in document.items() if name not in ("exponents", "oblique", "rank")}
    nodes, oblique = len(document["coordinates"]), document.get("oblique", [])
    exponents = document.get("exponents") or [2.0] * nodes
    if len(exponents) != nodes or oblique != sorted(set(oblique) & set(range(nodes))):
        raise Malformed("a tree's kinds of nodes do not fit its nodes")
    now["kinds"] = [{"type": "Smooth"} if q == 2 else {"type": "Rough", "q": q} for q in exponents]
    for i in oblique:
        now["kinds"][i] = {"type": "Oblique", "rank": document["rank"]}
    return now
