"""Partitions of the rows into leaves, by a binary tree of half-spaces: x goes left where ⟨a, x⟩ <= b.

A split is balanced: b lies between the two values of ⟨a, x⟩ in the middle of its rows, or as near to the middle as
repeated values allow. Rows that are equal in all features that matter cannot be separated; where too many are, a leaf
keeps some of them, and the others are in no leaf of the partition, though they are routed to one like any new row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hgk.arrays import blocks
from hgk.storable import expect, real, storable

# Rows whose covariance gives a direction, rounds of the power method, and rows projected at a time.
SAMPLED, ROUNDS, PROJECTED = 2000, 10, 2**14
# Directions tried until each side has this share of the rows; a side with less than the second is no leaf.
TRIES, BALANCED, LEAST = 4, 0.25, 0.02
# ... unless it has more than so many rows.
FEWEST_APART = 20

# From centred rows, their numbers and a generator to the normal of a split.
Direction = Callable[[torch.Tensor, torch.Tensor, np.random.Generator], torch.Tensor]


@storable
@dataclass(frozen=True, eq=False)
class Partition:
    """Splits and the rows of every leaf.

    Attributes
    ----------
    directions, thresholds : tensors of shapes (splits, features) and (splits,)
        a and b of every split.
    children : tensor of shape (splits, 2)
        The split to the left and to the right; -1 - l for leaf l.
    order : tensor
        Numbers of rows, leaf after leaf; leaves are numbered from left to right.
    ends : tensor of shape (leaves + 1,)
        Leaf l has the rows ``order[ends[l]:ends[l + 1]]``.
    """

    directions: torch.Tensor
    thresholds: torch.Tensor
    children: torch.Tensor
    order: torch.Tensor
    ends: torch.Tensor

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        a, b, children, order, ends = (parts[name] for name in cls.__dataclass_fields__)
        expect(a.ndim == 2 and b.shape == (len(a),) and real(a) and real(b), "a partition's splits do not fit")
        whole = all(part.dtype == torch.int64 for part in (children, order, ends))
        fits = children.shape == (len(a), 2) and order.ndim == ends.ndim == 1 and len(ends) == len(a) + 2
        expect(whole and fits, "a partition's leaves do not fit its splits")
        rising = int(ends[0]) == 0 and int(ends[-1]) == len(order) and bool((ends.diff() >= 0).all())
        expect(rising and len(order.unique()) == len(order), "a partition's leaves are not disjoint")
        # every split but the first and every leaf is the child of one split that comes before it
        named = children.flatten().sort().values.tolist()
        expected = [*range(-len(a) - 1, 0), *range(1, len(a))] if len(a) else []
        later = children > torch.arange(len(a))[:, None]
        expect(named == expected and bool((later | (children < 0)).all()), "a partition's splits are not a tree")

    def __len__(self) -> int:
        return len(self.ends) - 1

    def rows(self, leaf: int) -> torch.Tensor:
        return self.order[self.ends[leaf] : self.ends[leaf + 1]]

    @property
    def sizes(self) -> torch.Tensor:
        return self.ends.diff()

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The first leaf below every split, and the one after the last."""
        spans = [(0, len(self))] * len(self.children)
        for i in reversed(range(len(self.children))):
            left, right = ((-1 - c, -c) if c < 0 else spans[c] for c in self.children[i].tolist())
            spans[i] = left[0], right[1]
        return spans

    # A node is a split, by its number, or leaf l, by -1 - l, as in ``children``.

    @property
    def top(self) -> int:
        """The node of all rows."""
        return 0 if len(self.children) else -1

    def span(self, node: int) -> tuple[int, int]:
        """The first leaf of a node, and the one after its last."""
        return self.spans[node] if node >= 0 else (-1 - node, -node)

    def members(self, node: int) -> torch.Tensor:
        """Numbers of a node's rows."""
        start, stop = self.span(node)
        return self.order[self.ends[start] : self.ends[stop]]

    def first_leaves(self, many: int) -> Partition:
        """The same splits, where all leaves but the first have no rows."""
        end = int(self.ends[many])
        ends = torch.cat([self.ends[: many + 1], torch.full((len(self) - many,), end)])
        return Partition(self.directions, self.thresholds, self.children, self.order[:end], ends)

    def leaf_of_rows(self, n: int) -> torch.Tensor:
        """The leaf that has each of n rows; -1 for none."""
        leaf = torch.full((n,), -1)
        leaf[self.order] = torch.repeat_interleave(torch.arange(len(self)), self.sizes)
        return leaf

    def route(self, X: torch.Tensor) -> torch.Tensor:
        """The leaf that each row falls into, in as many comparisons as the tree is deep."""
        a, b, children = (part.to(X.device) for part in (self.directions, self.thresholds, self.children))
        node = torch.zeros(len(X), dtype=torch.int64, device=X.device)
        if not len(a):
            return node
        for block in blocks(len(X), PROJECTED):
            at, rows = node[block], X[block]
            while len(going := (at >= 0).nonzero()[:, 0]):
                split = at[going]
                right = _project(rows[going], a[split]) > b[split]
                at[going] = children[split, right.long()]
        return -1 - node


def _project(X: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """⟨a, x⟩ row by row, in double precision and in an order that does not depend on the other rows."""
    return (X.double() * a).sum(1)


# -------------------------------------------------------------------------------------------------------- building


def random_direction(Z: torch.Tensor, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Drawn from a normal distribution with the covariance of centred rows Z."""
    return Z.T @ torch.from_numpy(rng.standard_normal(len(Z)))


def principal_direction(Z: torch.Tensor, rows: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """By the power method."""
    v = random_direction(Z, rows, rng)
    for _ in range(ROUNDS):
        v = v / v.norm().clamp_min(1e-300)
        v = Z.T @ (Z @ v)
    return v


def partition(
    X: torch.Tensor,
    scale: torch.Tensor,
    size: int,
    rng: np.random.Generator,
    direction: Direction = principal_direction,
    index: torch.Tensor | None = None,
) -> Partition:
    """Leaves of at most ``size`` rows, of more than half of it where splits are balanced.

    Splits are balanced in the metric in which column j is multiplied by ``scale[j]``. ``direction`` gives the normal of
    a split from some of its rows in that metric, centred, and their numbers; where it separates them badly, random
    ones are tried. ``index`` are the rows to be divided, by default all.
    """
    X, scale = X.cpu(), scale.double().cpu()
    index = torch.arange(len(X)) if index is None else index
    directions, leaves = list[torch.Tensor](), list[torch.Tensor]()
    thresholds, children = list[float](), list[list[int]]()
    waiting: list[tuple[torch.Tensor, int, int]] = [(index, -1, 0)]  # rows, and whose child on which side
    while waiting:
        rows, parent, side = waiting.pop()
        cut = _split(X, rows, scale, rng, direction) if len(rows) > size else None
        if parent >= 0:
            children[parent][side] = -1 - len(leaves) if cut is None else len(children)
        if cut is None:
            kept = rows if len(rows) <= size else rows[torch.from_numpy(rng.permutation(len(rows))[:size])]
            leaves.append(kept.sort().values)
            continue
        a, b, left = cut
        waiting += [(rows[~left], len(children), 1), (rows[left], len(children), 0)]  # the left one is next
        directions.append(a)
        thresholds.append(b)
        children.append([0, 0])
    ends = torch.tensor([0, *np.cumsum([len(leaf) for leaf in leaves])])
    A = torch.stack(directions) if directions else X.new_zeros(0, X.shape[1], dtype=torch.float64)
    B = torch.tensor(thresholds, dtype=torch.float64)
    return Partition(A, B, torch.tensor(children, dtype=torch.int64).reshape(-1, 2), torch.cat(leaves), ends)


def _split(
    X: torch.Tensor, rows: torch.Tensor, scale: torch.Tensor, rng: np.random.Generator, direction: Direction
) -> tuple[torch.Tensor, float, torch.Tensor] | None:
    """a, b, and which rows go left; the most balanced of some directions, None if the rows cannot be separated."""
    best: tuple[float, Any] = min(LEAST, FEWEST_APART / len(rows)), None
    for attempt in range(TRIES):
        sample = rows[torch.from_numpy(np.sort(rng.permutation(len(rows))[:SAMPLED]))]
        Z = X[sample].double() * scale
        v = (direction if attempt == 0 else random_direction)(Z - Z.mean(0), sample, rng)
        a = scale * v / v.norm().clamp_min(1e-300)
        t = torch.cat([_project(X[rows[block]], a) for block in blocks(len(rows), PROJECTED)])
        b = _middle(t)
        left = t <= b
        share = float(left.double().mean())
        if min(share, 1 - share) > best[0]:
            best = min(share, 1 - share), (a, b, left)
        if best[0] >= BALANCED:
            break
    return best[1]


def _middle(t: torch.Tensor) -> float:
    """Between two different values, as near to the middle as can be; the largest value if all are equal."""
    ordered = t.sort().values
    steps = (ordered[1:] > ordered[:-1]).nonzero()[:, 0]
    if not len(steps):
        return float(ordered[-1])
    i = int(steps[(steps + 1 - len(t) / 2).abs().argmin()])
    low, high = float(ordered[i]), float(ordered[i + 1])
    middle = low + (high - low) / 2
    return middle if middle < high else low
