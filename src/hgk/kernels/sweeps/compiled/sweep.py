"""The fused twin of :class:`hgk.kernels.BatchSweep` and of the tiles of :class:`hgk.kernels.Sweep`, for depth 1 and 2.

It lays a tree out for the kernels of the module ``tiles``, by the twins of its kinds of nodes. Nodes of one exponent
that see much the same columns go into groups; the others are single and get columns of their own,

    smooth, rough    y_ij = v_ij^(2/q) x_j              S_i = Σ_j |y_ij - y'_ij|^q
    mapped           y_i = x A_i                        S_i = Σ_j (y_ij - y'_ij)²

The chain rule back from what the kernels sum up:

    ∂J/∂w_i = -4 w_i edges_i        ∂J/∂v_ij = -2 v_ij sums_ij  (from a single node's columns: -2 sums_ij / v_ij)
    ∂J/∂A = Xᵀ ∂J/∂Y, and the rest as in :mod:`hgk.kernels.nodes.oblique`

Nothing here waits for the device, so that a step can be recorded as a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from hgk.kernels.architecture import Architecture
from hgk.kernels.nodes.base import Members, Weights
from hgk.kernels.nodes.oblique import Map

# Columns of a product inside a tile: a tensor core's smallest, and as many as fit into registers.
NARROWEST_PRODUCT, WIDEST_PRODUCT = 16, 64
# Rows of the largest tile, and of the tiles of groups of G nodes, which one warp looks after.
LARGEST_TILE, GROUP_TILE = 128, {4: 32, 8: 16}
# On the way back: nodes of a group at a time, and rows of their tiles in either precision.
BACK_NODES, BACK_TILE = 4, {torch.float32: 32, torch.float64: 16}
# Numbers in an array from which places in it are long integers.
LONG = 2**31
# Parts into which sums over tiles are divided first: one sum over thousands of them keeps few multiprocessors busy.
PARTS = 64
# Columns that the kernels take at a time, tiles.UNROLL.
TOGETHER = 4


def mapped(architecture: Architecture) -> Members | None:
    """The nodes whose rows are mapped."""
    return next((m for m in architecture.members if m.kind.twin is not None and m.kind.twin.mapped), None)


class Layout:
    """Where a tree's nodes and columns lie, on a device: what does not change with weights or rows."""

    def __init__(self, architecture: Architecture, device: torch.device):
        self.architecture, self.device = architecture, device
        self.flat = architecture.depth == 1
        self.exponents = [kind.twin.q for kind in architecture.kinds if kind.twin is not None]
        self.absolute = all(q in (1.0, 2.0) for q in self.exponents)
        self.mapping = mapped(architecture)
        self.oblique = self.mapping.nodes if self.mapping is not None else []
        rest = [i for i in range(len(architecture.coordinates)) if i not in self.oblique]
        self._group(sorted(rest, key=lambda i: -self.exponents[i]))  # the smooth ones first
        self._singles()

    def _on_device(self, values: Sequence, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    def _in_both(self, values: Sequence[float]) -> dict[torch.dtype, torch.Tensor]:
        """In either precision."""
        return {dtype: self._on_device(values or [2.0], dtype) for dtype in (torch.float32, torch.float64)}

    def _group(self, plain: list[int]) -> None:
        """Groups of G nodes where one difference for all is cheaper than columns of their own."""
        sets, q = self.architecture.coordinates, self.exponents
        kinds = [[i for i in plain if q[i] == exponent] for exponent in dict.fromkeys(q[i] for i in plain)]
        self.G = 8 if max(map(len, kinds), default=0) > 4 else 4
        parts = [kind[a : a + self.G] for kind in kinds for a in range(0, len(kind), self.G)]
        unions = [sorted({j for i in part for j in sets[i]}) for part in parts]
        dense = [
            not self.flat and 2 * sum(len(sets[i]) for i in part) > (2 + self.G) * len(union)
            for part, union in zip(parts, unions, strict=True)
        ]
        self.groups = [part for part, yes in zip(parts, dense, strict=True) if yes]
        self.plain = [i for part, yes in zip(parts, dense, strict=True) if not yes for i in part]
        filled = [_filled(union) for union, yes in zip(unions, dense, strict=True) if yes]
        firsts = [sum(map(len, filled[:g])) for g in range(len(filled) + 1)]
        self.g_smooth = sum(q[part[0]] == 2 for part in self.groups)
        self.g_first, self.shared = self._on_device(firsts, torch.int32), firsts[-1]
        self.g_q = self._in_both([q[part[0]] for part in self.groups])
        # node and column of every weight in V (columns x G); -1 where there is none
        places = [
            (part[a] if a < len(part) and j in sets[part[a]] else -1, j)
            for part, columns in zip(self.groups, filled, strict=True)
            for j in columns
            for a in range(self.G)
        ]
        self.g_column = self._on_device([max(j, 0) for columns in filled for j in columns] or [0], torch.int32)
        self.g_weights = self._on_device([p for p, (i, _) in enumerate(places) if i >= 0])
        self.g_node = self._on_device([i for i, _ in places if i >= 0])
        self.g_of = self._on_device([j for i, j in places if i >= 0])
        slots = {i: g * self.G + a for g, part in enumerate(self.groups) for a, i in enumerate(part)}
        self.g_order, self.g_slot = self._on_device(list(slots)), self._on_device(list(slots.values()))
        # where the kernel sums a weight up, the edges behind the columns; a last place, of zeros, is all the others'
        self.g_summed = (self.shared + len(self.groups)) * self.G + 1
        nodes, columns = range(len(sets)), range(self.architecture.d)
        place = {weight: p for p, weight in enumerate(places)}
        none = self.g_summed - 1
        self.g_sum = self._on_device([[place.get((i, j), none) for j in columns] for i in nodes])
        edge = {i: self.shared * self.G + slot for i, slot in slots.items()}
        self.g_edge = self._on_device([edge.get(i, none) for i in nodes])

    def _singles(self) -> None:
        sets, q = self.architecture.coordinates, self.exponents
        order = [*self.oblique, *self.plain]
        self.singles = len(order)
        self.smooth = len(self.oblique) + sum(q[i] == 2 for i in self.plain)
        self.mapped = self.mapping.used if self.mapping is not None else []
        filled = [_filled(sets[i]) for i in self.plain]
        self.width = len(_filled(self.mapped))  # of an oblique node
        widths = [self.width] * len(self.oblique) + [len(columns) for columns in filled]
        firsts = [sum(widths[:i]) for i in range(len(order) + 1)]
        self.order, self.first = self._on_device(order), self._on_device(firsts, torch.int32)
        self.q = self._in_both([q[i] for i in order])
        self.columns, self.of_maps = firsts[-1], firsts[len(self.oblique)]  # in all, and of the oblique nodes
        places = [(i, j) for i, columns in zip(self.plain, filled, strict=True) for j in columns]
        self.node = self._on_device([i for i, _ in places])
        self.column = self._on_device([max(j, 0) for _, j in places])
        self.power = self._on_device([2 / q[i] for i, _ in places], torch.float64)
        self.real = self._on_device([j >= 0 for _, j in places], torch.bool)
        self.weights = self._on_device([place for place, (_, j) in enumerate(places) if j >= 0])  # the real ones
        self.maps, self.map_columns = self._on_device(self.oblique), self._on_device(self.mapped)

    def of_singles(self) -> dict:
        """Their numbers, and what the kernels are compiled for."""
        return {"singles": self.singles, "smooth": self.smooth, "ABSOLUTE": self.absolute, "FLAT": self.flat}

    def of_groups(self) -> dict:
        return {"groups": len(self.groups), "gsmooth": self.g_smooth, "G": self.G}

    def of_both(self) -> dict:
        kinds = {"SINGLE": self.singles > 0, "GROUPED": len(self.groups) > 0}
        return self.of_singles() | self.of_groups() | kinds


def _filled(columns: Sequence[int]) -> list[int]:
    """Up to a multiple of what the kernels take together; -1 is a column of zeros."""
    return [*columns, *[-1] * (-len(columns) % TOGETHER)]


@lru_cache(maxsize=64)
def layout_of(architecture: Architecture, device: torch.device) -> Layout:
    return Layout(architecture, device)


def _total(partial: torch.Tensor) -> torch.Tensor:
    """The sum over tiles, in double precision at the end."""
    return partial.view(PARTS, -1, partial.shape[1]).sum(1).sum(0, dtype=torch.float64)


class FusedSweep:
    """K = exp(-γ⁻² S) of rows X and Z (None: X again), and ∂J/∂W from ∂J/∂K; W lies where the rows lie."""

    def __init__(self, layout: Layout, W: Weights, gamma: float, X: torch.Tensor, Z: torch.Tensor | None = None):
        self.layout, self.W, self.symmetric = layout, W, Z is None
        self.scale = torch.full((1,), gamma**-2, dtype=X.dtype, device=X.device)
        self._weigh(X)
        centre = (X if Z is None else Z).mean(0)
        self.X = X - centre
        self.shape = len(X), len(X if Z is None else Z)
        self.Xt, self.Y = self._columns(self.X)
        self.Zt, self.Z = (self.Xt, self.Y) if Z is None else self._columns(Z - centre)
        self.K: torch.Tensor | None = None

    def _weigh(self, X: torch.Tensor) -> None:
        """c and v² of the groups, c and scales of the single nodes, A of the oblique ones."""
        layout, W = self.layout, self.W
        self.C = self.c = self.scale  # not used by a node alone
        if not layout.flat:
            c = 2 * W[1] ** 2
            self.C = c[layout.order].to(X)
            self.c = X.new_zeros(max(1, len(layout.groups)) * layout.G).index_copy_(
                0, layout.g_slot, c[layout.g_order].to(X)
            )
        self.V = X.new_zeros(max(1, layout.shared) * layout.G)
        self.V.index_copy_(0, layout.g_weights, (W[0][layout.g_node, layout.g_of] ** 2).to(X))
        self.factor = torch.where(layout.real, W[0][layout.node, layout.column].abs() ** layout.power, 0.0)
        if layout.mapping is not None:
            columns = layout.map_columns
            self.map = Map(W[0][layout.maps][:, columns], *(w[:, columns] for w in layout.mapping.further(W)))

    def _columns(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x, and y of every single node, (columns, rows); the rows filled up to whole tiles."""
        Xt = torch.cat([X, X.new_zeros(-len(X) % LARGEST_TILE, X.shape[1])]).T.contiguous()
        Y = Xt[self.layout.column] * self.factor.to(X)[:, None]
        if self.layout.oblique:
            XA = self.map.A.mT.to(X) @ Xt[self.layout.map_columns]
            zeros = XA.new_zeros(len(XA), self.layout.width - XA.shape[1], XA.shape[2])
            Y = torch.cat([torch.cat([XA, zeros], 1).flatten(0, 1), Y])
        return Xt, Y

    def _of_singles(self) -> tuple[torch.Tensor, ...]:
        return self.Y, self.Z, self._index(self.layout.first), self.layout.q[self.X.dtype], self.C

    def _of_groups(self) -> tuple[torch.Tensor, ...]:
        layout = self.layout
        column = self._index(layout.g_column)
        return self.Xt, self.Zt, column, self.V, layout.g_first, layout.g_q[self.X.dtype], self.c

    def _index(self, of_column: torch.Tensor) -> torch.Tensor:
        """Its type is that of places in memory: long where columns times rows need it."""
        largest = max(len(self.Xt), len(self.Y)) * max(self.Xt.shape[1], self.Zt.shape[1])
        return of_column.long() if largest >= LONG else of_column

    def _sizes(self) -> tuple[int, int, int, int]:
        return *self.shape, self.Xt.shape[1], self.Zt.shape[1]

    def _side(self) -> int:
        """Of a tile: few pairs in small ones, so that every multiprocessor has some; double takes more registers."""
        n, m = self.shape
        if self.layout.groups:
            return GROUP_TILE[self.layout.G]
        return 32 if self.X.dtype == torch.float64 or n * m < 2_000_000 else 64

    def _tiles(self, side: int) -> int:
        down, across = (-(-size // side) for size in self.shape)
        return down * (down + 1) // 2 if self.symmetric else down * across

    def _partial(self, count: int, columns: int) -> torch.Tensor:
        """Room for what every tile sums up."""
        return self.X.new_zeros(-(-count // PARTS) * PARTS, columns)

    def _precision(self) -> str:
        """Of products inside a tile; three of tf32 are as good as one in single precision."""
        return "ieee" if self.X.dtype == torch.float64 else "tf32x3"

    # ------------------------------------------------------------------------------------ forward

    def matrix(self) -> torch.Tensor:
        self.K = self._matrix(logarithm=False)
        return self.K

    def exponent(self) -> torch.Tensor:
        """S, without γ."""
        return self._matrix(logarithm=True)

    def _matrix(self, logarithm: bool) -> torch.Tensor:
        from hgk.kernels.sweeps.compiled import tiles

        out, side = self.X.new_empty(self.shape), self._side()
        if out.numel():
            tiles.matrix[(self._tiles(side),)](
                *self._of_singles(), *self._of_groups(), self.scale, out, *self._sizes(),
                SYMMETRIC=self.symmetric, LOGARITHM=logarithm, B=side, num_warps=1 if self.layout.groups else 4,
                **self.layout.of_both(),
            )  # fmt: skip
        return out

    def multiply(self, alpha: torch.Tensor) -> torch.Tensor:
        """K alpha, without K."""
        from hgk.kernels.sweeps.compiled import tiles

        n, parts = self.shape[0], []
        if self.X.dtype == torch.float64:
            R, B = 32, 32
        else:
            R, B = (16, 128) if self.layout.groups else (128, 64)
        for part in alpha.split(WIDEST_PRODUCT, 1):
            width = part.shape[1]
            out = self.X.new_empty(n, width)
            if n:
                tiles.multiply[(-(-n // R),)](
                    *self._of_singles(), *self._of_groups(), self.scale, part.contiguous(), out, *self._sizes(), width,
                    WIDTH=1 if width == 1 else max(NARROWEST_PRODUCT, 2 ** (width - 1).bit_length()), R=R, B=B,
                    PRECISION=self._precision(), num_warps=4, **self.layout.of_both(),
                )  # fmt: skip
            parts.append(out)
        return torch.cat(parts, 1)

    # ----------------------------------------------------------------------------------- backward

    def backward(self, dJ_dK: torch.Tensor) -> Weights:
        """∂J/∂W from ∂J/∂K (symmetric where K is), one array per layer, in float64."""
        layout = self.layout
        if layout.oblique and not self.symmetric:
            raise ValueError("Oblique nodes were given with two sets of rows; use HierarchicalKernel.backward.")
        K = self.matrix() if self.K is None else self.K
        dJ_dK = dJ_dK.to(K).contiguous()
        grads = self._group_sums(K, dJ_dK) if layout.groups else [torch.zeros_like(w) for w in self.W]
        edges = [self._single_sums(K, dJ_dK, grads)] if layout.plain else []
        edges += [self._maps(K, dJ_dK, grads, layout.mapping)] if layout.mapping is not None else []
        if not layout.flat and edges:
            grads[1][layout.order] = -4 * self.W[1][layout.order] * torch.stack(edges).sum(0)
        return tuple(grads)

    def _single_sums(self, K: torch.Tensor, dK: torch.Tensor, grads: list[torch.Tensor]) -> torch.Tensor:
        from hgk.kernels.sweeps.compiled import tiles

        layout, side = self.layout, self._side()
        count = self._tiles(side)
        sums, edges = self._partial(count, layout.columns), self._partial(count, layout.singles)
        tiles.single_sums[(count, len(layout.plain))](
            *self._of_singles(), self.scale, K, dK, sums, edges, *self._sizes(), layout.columns,
            len(layout.oblique), SYMMETRIC=self.symmetric, B=side, num_warps=1 if layout.groups else 4,
            **layout.of_singles(),
        )  # fmt: skip
        place = layout.node[layout.weights], layout.column[layout.weights]
        v, total = self.W[0][place], _total(sums)[layout.of_maps :][layout.weights]
        grads[0][place] = torch.where(v != 0, -2 * total / torch.where(v != 0, v, 1.0), 0.0)
        return _total(edges)

    def _group_sums(self, K: torch.Tensor, dK: torch.Tensor) -> list[torch.Tensor]:
        """∂J/∂W, zero but for the nodes of groups. In few kernels: each of the small ones takes microseconds."""
        from hgk.kernels.sweeps.compiled import tiles

        layout, nodes = self.layout, min(BACK_NODES, self.layout.G)
        count = self._tiles(side := BACK_TILE[self.X.dtype])
        sums = self._partial(count, layout.g_summed)
        tiles.group_sums[(count, len(layout.groups), layout.G // nodes)](
            *self._of_groups(), self.scale, K, dK, sums, *self._sizes(), layout.shared, layout.g_summed,
            ABSOLUTE=layout.absolute, SYMMETRIC=self.symmetric, H=nodes, B=side, num_warps=1, **layout.of_groups(),
        )  # fmt: skip
        total = _total(sums)
        dv, dw = -2 * self.W[0] * total[layout.g_sum], -4 * self.W[1] * total[layout.g_edge]
        return [dv, dw, *map(torch.zeros_like, self.W[2:])]

    def _maps(self, K: torch.Tensor, dK: torch.Tensor, grads: list[torch.Tensor], mapping: Members) -> torch.Tensor:
        """Of symmetric K alone."""
        from hgk.kernels.sweeps.compiled import tiles

        layout, n, filled = self.layout, len(K), self.Y.shape[1]
        width, many, strips = layout.width, len(layout.oblique), -(-n // 32)
        columns = min(WIDEST_PRODUCT, max(NARROWEST_PRODUCT, 2 ** (width - 1).bit_length()))
        dY, edges = self.Y.new_empty(layout.of_maps, filled), self.X.new_zeros(strips, layout.singles)
        tiles.map_slopes[(strips, many, -(-width // columns))](
            self.Y, *self._of_singles()[2:], self.scale, K, dK, dY, edges, n, filled,
            B=32, WIDTH=columns, PRECISION=self._precision(), num_warps=4, **layout.of_singles(),
        )  # fmt: skip
        # in double precision: the entries of dY cancel in the sum over rows
        dY = dY.view(many, width, filled)[:, : len(layout.mapped), :n]
        dA = (dY.double() @ self.X[:, layout.map_columns].double()).mT
        dv, *further = self.map.backward(dA)
        grads[0][layout.maps[:, None], layout.map_columns] = dv
        for place, part in zip(mapping.places, further, strict=True):
            grads[place][:, layout.map_columns] = part
        return edges.sum(0, dtype=torch.float64)
