"""Kernels as trees, for pictures: columns, first-layer nodes, further layers, the top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hgk.insight.fitted import Estimator, kernels, require_model
from hgk.insight.importance import node_shares
from hgk.kernels import HierarchicalKernel


@dataclass(frozen=True)
class Node:
    """A node: its weight w to its parent, and its share of the kernel's exponent."""

    name: str
    kind: str
    parent: int
    weight: float
    share: float

    @property
    def family(self) -> str:
        """The kind without its parameters."""
        return self.kind.split(",")[0]


@dataclass(frozen=True)
class Edge:
    """From a column to a first-layer node: |v| = (Σ v_f²)^½ over the column's features f, and each of them."""

    column: int
    node: int
    weight: float
    share: float
    features: list[tuple[str, float]]


@dataclass(frozen=True)
class Tree:
    """One kernel of the average: ``layers[0]`` are the first-layer nodes, the last layer is the top node."""

    name: str
    share: float
    gamma: float
    lam: float
    layers: list[list[Node]]
    edges: list[Edge]

    @property
    def column_shares(self) -> dict[int, float]:
        """What each column carries of the exponent, largest first."""
        carried: dict[int, float] = {}
        for edge in self.edges:
            carried[edge.column] = carried.get(edge.column, 0.0) + edge.share
        return dict(sorted(carried.items(), key=lambda item: -item[1]))


def kernel_trees(model: Estimator) -> list[Tree]:
    """The kernels that are averaged.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from hgk import HGKRegressor
    >>> from hgk.insight import kernel_trees
    >>> (tree,) = kernel_trees(HGKRegressor("plain").fit(*make_friedman1(30, random_state=0)))
    >>> tree.name, len(tree.edges)
    ('kernel 1: 1 smooth node', 10)
    """
    require_model(model)
    averaged = zip(kernels(model), node_shares(model), strict=True)
    trees = []
    for k, ((share, kernel, lam), part) in enumerate(averaged, start=1):
        layers = _layers(kernel, part)
        name = f"kernel {k}: {_nodes_text([node.family for node in layers[0]])}"
        trees.append(Tree(name, share, kernel.gamma, lam, layers, _edges(model, kernel, part)))
    return trees


def _layers(kernel: HierarchicalKernel, part: np.ndarray) -> list[list[Node]]:
    """From the first layer to the top; a node carries what its children carry."""
    tree, carried = kernel.architecture, part.sum(1)
    layers: list[list[Node]] = []
    for layer in range(1, tree.depth):
        parents, weights = list(tree.parents[layer - 1]), kernel.W[layer].abs().tolist()
        layers.append(
            [
                Node(_node_name(tree, layer, i), str(tree.kinds[i]) if layer == 1 else "inner", *rest)
                for i, rest in enumerate(zip(parents, weights, carried.tolist(), strict=True))
            ]
        )
        carried = np.bincount(parents, weights=carried)
    return [*layers, [Node("kernel", str(tree.kinds[0]) if tree.depth == 1 else "top", 0, 1.0, float(carried[0]))]]


def _node_name(tree, layer: int, i: int) -> str:
    return tree.labels[i] if layer == 1 and tree.labels else f"node {i + 1}" if layer == 1 else f"node {layer}.{i + 1}"


def _nodes_text(families: Sequence[str]) -> str:
    counts = [f"{families.count(family)} {family}" for family in dict.fromkeys(families)]
    return ", ".join(counts) + (" node" if len(families) == 1 else " nodes")


def _edges(model: Estimator, kernel: HierarchicalKernel, part: np.ndarray) -> list[Edge]:
    features, V = model.model_.inputs.encoder.features, kernel.W[0].abs()
    edges = []
    for i, index_set in enumerate(kernel.architecture.coordinates):
        by_column: dict[int, list[tuple[str, float]]] = {}
        for f in index_set:
            if float(V[i, f]) > 0:
                by_column.setdefault(features[f].column, []).append((features[f].name, float(V[i, f])))
        for j, terms in by_column.items():
            weight = math.sqrt(sum(v * v for _, v in terms))
            edges.append(Edge(j, i, weight, float(part[i, j]), sorted(terms, key=lambda term: -term[1])))
    return edges
