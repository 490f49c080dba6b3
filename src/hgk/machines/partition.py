"""Partitions of the rows into leaves, by a binary tree of half-spaces: x goes left where ⟨a, x⟩ <= b.

A split is balanced: b lies between the two values of ⟨a, x⟩ in the middle of its rows, or as near to the middle as
repeated values allow. Rows that are equal in all features that matter cannot be separated; where too many are, a leaf
keeps some of them, and the others are in no leaf of the partition, though they are routed to one like any new row.

All nodes of a level are split together, where the rows are. The same seed gives the same partition on every device:
directions are rounded to single precision, by which devices' rounding errors are forgotten, and ⟨a, x⟩ is summed up in
double precision in an order of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hgk.arrays import accelerated, blocks, row_products
from hgk.storable import expect, real, storable

# Rows whose covariance gives a direction, rounds of the power method, and rows projected at a time.
SAMPLED, ROUNDS, PROJECTED = 2000, 10, 2**14
# Directions tried until each side has this share of the rows; a side with less than the second is no leaf.
TRIES, BALANCED, LEAST = 4, 0.25, 0.02
# ... unless it has more than so many rows.
FEWEST_APART = 20
# Numbers of sampled rows that are worked on at a time, so that they stay in a processor's cache; and on a device.
SAMPLED_NUMBERS, SAMPLED_NUMBERS_THERE = 2**17, 2**27


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
                right = row_products(rows[going], a[split]) > b[split]
                at[going] = children[split, right.long()]
        return -1 - node


# ------------------------------------------------------------------------------------------------------ directions


@dataclass(frozen=True, eq=False)
class Sampled:
    """Some rows of several nodes, in the metric in which they are split.

    Attributes
    ----------
    Z : tensor of shape (nodes, rows, features)
        Centred, and filled up with rows of zeros.
    rows : tensor of shape (nodes, rows)
        Their numbers; which is filled up is of no account.
    there : tensor of shape (nodes, rows)
        Whether a row is not filled up.
    seed : int
    """

    Z: torch.Tensor
    rows: torch.Tensor
    there: torch.Tensor
    seed: int


# From rows of some nodes to the normals of their splits, (nodes, features); their lengths do not matter.
Direction = Callable[[Sampled], torch.Tensor]


def random_direction(sampled: Sampled) -> torch.Tensor:
    """Σ ± z over the rows: much like a draw from a normal distribution with their covariance."""
    return (sampled.Z * signs(sampled.rows, sampled.seed)[..., None]).sum(1)


def principal_direction(sampled: Sampled) -> torch.Tensor:
    """By the power method."""
    v = random_direction(sampled)[..., None]
    for _ in range(ROUNDS):
        v = v / v.norm(dim=1, keepdim=True).clamp_min(1e-300)
        v = sampled.Z.mT @ (sampled.Z @ v)
    return v[..., 0]


def signs(numbers: torch.Tensor, seed: int) -> torch.Tensor:
    """±1 for each number, as if by tosses of a coin: a bit of a product whose upper bits are mixed into the lower."""
    mixed = (numbers + 1) * (2 * (seed % 2**31) + 0x9E3779B9)
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 29)) * 0x2545F4914F6CDD1D
    return 1.0 - 2.0 * ((mixed >> 40) & 1)


# -------------------------------------------------------------------------------------------------------- building


def partition(
    X: torch.Tensor,
    scale: torch.Tensor,
    size: int,
    rng: np.random.Generator,
    direction: Direction = principal_direction,
    index: torch.Tensor | None = None,
) -> Partition:
    """Leaves of at most ``size`` rows, of more than half of it where splits are balanced.

    Splits are balanced in the metric in which column j is multiplied by ``scale[j]``. ``direction`` gives the normals
    of splits from some rows of their nodes; where one separates its rows badly, random ones are tried. ``index`` are
    the rows to be divided, by default all.
    """
    index = torch.arange(len(X)) if index is None else index
    splitting = Splitting(X, scale.double().to(X.device), direction)
    nodes, parents = Nodes(index.sort().values.to(X.device), torch.tensor([len(index)])), torch.tensor([[-1, 0]])
    tree = SplitTree(X.shape[1])
    while len(nodes):
        small = nodes.sizes <= size
        tree.leaves_at(parents[small], nodes[small].each())
        nodes, parents = nodes[~small], parents[~small]
        a, b, above, apart = splitting.cuts(nodes, int(rng.integers(2**31)))
        equal = nodes[~apart].each()
        kept = [rows[torch.from_numpy(np.sort(rng.permutation(len(rows))[:size]))] for rows in equal]
        tree.leaves_at(parents[~apart], kept)
        above, nodes = above[nodes.rows_of(apart)], nodes[apart]
        parents = tree.split_at(parents[apart], a[apart], b[apart])
        nodes = nodes.halves(above)
    return tree.partition()


@dataclass(frozen=True, eq=False)
class Nodes:
    """Numbers of rows, node after node, in increasing order within each; and how many each has."""

    rows: torch.Tensor
    sizes: torch.Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def of_rows(self) -> torch.Tensor:
        """The node of each row, where the rows are."""
        many = torch.arange(len(self), device=self.rows.device)
        return many.repeat_interleave(self.sizes.to(self.rows.device), output_size=len(self.rows))

    @property
    def starts(self) -> torch.Tensor:
        return self.sizes.cumsum(0) - self.sizes

    def rows_of(self, which: torch.Tensor) -> torch.Tensor:
        """A mask of rows, from one of nodes."""
        return which.to(self.rows.device)[self.of_rows]

    def __getitem__(self, which: torch.Tensor) -> Nodes:
        """Some of them, by a mask."""
        return self if bool(which.all()) else Nodes(self.rows[self.rows_of(which)], self.sizes[which])

    def each(self) -> tuple[torch.Tensor, ...]:
        """The rows of each, on the processor."""
        return self.rows.cpu().split(self.sizes.tolist()) if len(self) else ()

    def halves(self, right: torch.Tensor) -> Nodes:
        """For each its left half, then its right one."""
        half = 2 * self.of_rows + right
        sizes = torch.bincount(half, minlength=2 * len(self)).cpu()
        return Nodes(self.rows[half.argsort(stable=True)], sizes)

    def sampled(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers of SAMPLED rows of each or of all that it has, evenly spaced, (nodes, rows), and which there are."""
        many = self.sizes.clamp_max(SAMPLED)[:, None]
        k = torch.arange(int(many.max()))
        places = (k * self.sizes[:, None] // many).minimum(self.sizes[:, None] - 1) + self.starts[:, None]
        return self.rows[places.to(self.rows.device)], (k < many).to(self.rows.device)


class Splitting:
    """Splits of the nodes of a level."""

    def __init__(self, X: torch.Tensor, scale: torch.Tensor, direction: Direction):
        self.X, self.scale, self.direction = X, scale, direction

    def cuts(self, nodes: Nodes, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """a and b of each, the most balanced of some directions; which rows are above b; whether any are apart."""
        above = torch.zeros_like(nodes.rows, dtype=torch.bool)
        a, b = torch.zeros(len(nodes), self.X.shape[1]).double(), torch.zeros(len(nodes)).double()
        balance = (FEWEST_APART / nodes.sizes.double()).clamp_max(LEAST)
        apart = torch.zeros(len(nodes), dtype=torch.bool)
        for attempt in range(TRIES):
            waiting = balance < BALANCED
            if not bool(waiting.any()):
                break
            asked = nodes[waiting]
            towards = self.directions(asked, self.direction if attempt == 0 else random_direction, seed + attempt)
            middle, below = middles(asked, t := self.project(asked, towards))
            share = below.double() / asked.sizes
            reached = torch.minimum(share, 1 - share)
            better = reached > balance[waiting]
            which = waiting.nonzero()[:, 0][better]
            a[which], b[which], balance[which], apart[which] = towards[better], middle[better], reached[better], True
            taken = torch.zeros_like(apart).scatter_(0, which, True)
            above[nodes.rows_of(taken)] = (t > middle.to(t.device)[asked.of_rows])[asked.rows_of(better)]
        return a, b, above, apart

    def directions(self, nodes: Nodes, direction: Direction, seed: int) -> torch.Tensor:
        """Normals of the splits in the features themselves."""
        rows, there = nodes.sampled()
        numbers = SAMPLED_NUMBERS_THERE if accelerated(self.X) else SAMPLED_NUMBERS
        parts = []
        for block in blocks(len(nodes), numbers // max(1, rows.shape[1] * self.X.shape[1])):
            here = there[block][..., None]
            Z = self.X[rows[block]].double() * self.scale * here
            Z = (Z - Z.sum(1, keepdim=True) / here.sum(1, keepdim=True)) * here
            v = direction(Sampled(Z, rows[block], there[block], seed))
            parts.append((v / v.norm(dim=1, keepdim=True).clamp_min(1e-300)).float().cpu())
        return torch.cat(parts).double() * self.scale.cpu()

    def project(self, nodes: Nodes, a: torch.Tensor) -> torch.Tensor:
        """⟨a, x⟩ of every row, a being that of its node."""
        a, most = a.to(self.X.device), PROJECTED * (64 if accelerated(self.X) else 1)
        t = self.X.new_empty(len(nodes.rows), dtype=torch.float64)
        for block in blocks(len(t), most):
            t[block] = row_products(self.X[nodes.rows[block]], a[nodes.of_rows[block]])
        return t


def middles(nodes: Nodes, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Between two different values of each node, as near to the middle as can be, and how many rows are below it.

    If all are equal, the value and all rows.
    """
    node, sizes = nodes.of_rows, nodes.sizes.to(t.device)
    order = t.argsort()
    order = order[node[order].argsort(stable=True)]
    ordered, starts, place = t[order], nodes.starts.to(t.device), torch.arange(len(t), device=t.device)
    below = place + 1 - starts[node]
    step = torch.zeros_like(node, dtype=torch.bool)
    step[:-1] = (ordered[1:] > ordered[:-1]) & (node[1:] == node[:-1])
    none = 2 * len(t) + 1
    off = torch.where(step, (2 * below - sizes[node]).abs(), none)
    nearest = torch.full_like(sizes, none).scatter_reduce(0, node, off, "amin")
    first = torch.where(step & (off == nearest[node]), place, len(t))
    last = starts + sizes - 1
    at = last.scatter_reduce(0, node, first, "amin")
    low, high = ordered[at], ordered[(at + 1).minimum(last)]
    middle = low + (high - low) / 2
    return torch.where(middle < high, middle, low).cpu(), below[at].cpu()


class SplitTree:
    """Splits, level by level, and leaves, as they come; in the end leaves are numbered from left to right."""

    def __init__(self, features: int):
        self.directions, self.thresholds = [torch.zeros(0, features, dtype=torch.float64)], [torch.zeros(0).double()]
        self.children: list[list[int]] = []
        self.leaves: list[torch.Tensor] = []

    def leaves_at(self, parents: torch.Tensor, leaves: Sequence[torch.Tensor]) -> None:
        """Leaves, and whose children they are on which side; the parent of the top is -1."""
        for (parent, side), rows in zip(parents.tolist(), leaves, strict=True):
            if parent >= 0:
                self.children[parent][side] = -1 - len(self.leaves)
            self.leaves.append(rows)

    def split_at(self, parents: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Splits, and in turn the parents of their halves."""
        first = len(self.children)
        for number, (parent, side) in enumerate(parents.tolist(), first):
            if parent >= 0:
                self.children[parent][side] = number
        self.children += [[0, 0] for _ in range(len(a))]
        self.directions.append(a)
        self.thresholds.append(b)
        numbers = torch.arange(first, len(self.children)).repeat_interleave(2)
        return torch.stack([numbers, torch.arange(2).repeat(len(a))], 1)

    def _from_left_to_right(self) -> Iterator[int]:
        waiting = [0 if self.children else -1]
        while waiting:
            node = waiting.pop()
            if node < 0:
                yield -1 - node
            else:
                waiting += reversed(self.children[node])

    def partition(self) -> Partition:
        order = list(self._from_left_to_right())
        number = {leaf: place for place, leaf in enumerate(order)}
        children = [[c if c >= 0 else -1 - number[-1 - c] for c in pair] for pair in self.children]
        ends = torch.tensor([0, *np.cumsum([len(self.leaves[leaf]) for leaf in order])])
        return Partition(
            torch.cat(self.directions),
            torch.cat(self.thresholds),
            torch.tensor(children, dtype=torch.int64).reshape(-1, 2),
            torch.cat([self.leaves[leaf] for leaf in order]),
            ends,
        )
