"""The directed grid: nodes, hulls and the sources of their complement, and the weights d_v.

A node is a multi-index w ∈ {0, ..., q}^d, written as its non-zero entries ((column, level), ...), columns ascending.
Its ancestors are A(w) = {v : v ≤ w}, its descendants D(w) = {v : v ≥ w}, w among both. A hull contains the
ancestors of all its nodes; the sources of its complement are the nodes outside all of whose parents are inside.

    d_w = β^{|w|},  |w| = Σ w_i;        the root's is a constant of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

GridNode = tuple[tuple[int, int], ...]

ROOT: GridNode = ()


def parents(node: GridNode) -> list[GridNode]:
    """One level less in one column."""
    lowered = []
    for place, (column, level) in enumerate(node):
        rest = ((column, level - 1),) if level > 1 else ()
        lowered.append(node[:place] + rest + node[place + 1 :])
    return lowered


def child(node: GridNode, column: int) -> GridNode:
    """One level more in this column."""
    levels = dict(node)
    levels[column] = levels.get(column, 0) + 1
    return tuple(sorted(levels.items()))


def degree(node: GridNode) -> int:
    return sum(level for _, level in node)


class Hull:
    """A growing hull; ``nodes`` in the order they came, parents first, and the sources of the complement."""

    def __init__(self, columns: int, levels: int):
        self.columns, self.levels = columns, levels
        self.nodes: list[GridNode] = []
        self.index: dict[GridNode, int] = {}
        self.sources: set[GridNode] = set()

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, nodes: Iterable[GridNode]) -> None:
        for node in nodes:
            self.sources.discard(node)
            self.index[node] = len(self.nodes)
            self.nodes.append(node)
            self.sources.update(filter(self._is_source, self._children(node)))

    def _children(self, node: GridNode) -> Iterable[GridNode]:
        full = {column for column, level in node if level == self.levels}
        return (child(node, column) for column in range(self.columns) if column not in full)

    def _is_source(self, node: GridNode) -> bool:
        return node not in self.index and all(parent in self.index for parent in parents(node))
