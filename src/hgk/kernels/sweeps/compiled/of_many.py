"""The Triton kernels of :mod:`hgk.kernels.sweeps.compiled.many`."""

from __future__ import annotations

import triton
import triton.language as tl

from hgk.kernels.sweeps.compiled.tiles import place_of_tile

# Compiled once for all trees and batches.
SIZES_OF_MANY = ["n", "m", "columns", "nodes", "all_nodes", "q"]


@triton.jit
def _distance(X, Z, j, n, m, rows, cols, q, SQUARE: tl.constexpr, ABSOLUTE: tl.constexpr):
    """|x_ja - z_jb|^q on the tile, 0 in rows that are none."""
    x = tl.load(X + j * n + rows, mask=rows < n, other=0.0)
    z = tl.load(Z + j * m + cols, mask=cols < m, other=0.0)
    d = x[:, None] - z[None, :]
    if SQUARE:
        return d * d
    d = tl.abs(d)
    if ABSOLUTE:
        return d
    return tl.where(d > 0, tl.exp2(q * tl.log2(tl.where(d > 0, d, 1.0))), 0.0)


@triton.jit
def _tile(X, Z, n, m, columns, tiles, SYMMETRIC: tl.constexpr, B: tl.constexpr):
    """This program's kernel, the columns of its rows, the rows of its tile, and how often the tile counts."""
    t, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    r, c = place_of_tile(t, m, SYMMETRIC, B)
    rows, cols = r * B + tl.arange(0, B), c * B + tl.arange(0, B)
    return b, X + b * columns * n, Z + b * columns * m, rows, cols, tl.where(r == c, 1.0, 2.0)


@triton.jit
def _places(Node, b, node, nodes, all_nodes, n, m, rows, cols):
    """Where the nodes' entries on the tile lie in (kernels, nodes of the tree, n, m), and which there are."""
    i = tl.load(Node + node, mask=node < nodes, other=0)
    matrix = (b * all_nodes + i) * n * m
    inside = (node < nodes)[:, None, None] & (rows < n)[None, :, None] & (cols < m)[None, None, :]
    return matrix[:, None, None] + (rows[:, None] * m + cols[None, :])[None, :, :], inside


@triton.jit(do_not_specialize=SIZES_OF_MANY)
def many_exponents(
    X, Z, V2, Node, E, n, m, columns, nodes, all_nodes, q,
    SQUARE: tl.constexpr, ABSOLUTE: tl.constexpr, G: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """-S of G nodes on the tile."""
    b, X, Z, rows, cols, _ = _tile(X, Z, n, m, columns, tl.cdiv(n, B) * tl.cdiv(m, B), False, B)
    node = tl.program_id(1) * G + tl.arange(0, G)
    weights = V2 + (b * nodes + node) * columns
    S = tl.zeros([G, B, B], dtype=E.dtype.element_ty)
    for j in range(columns):
        d = _distance(X, Z, j, n, m, rows, cols, q, SQUARE, ABSOLUTE)
        S += tl.load(weights + j, mask=node < nodes, other=0.0)[:, None, None] * d[None, :, :]
    place, inside = _places(Node, b, node, nodes, all_nodes, n, m, rows, cols)
    tl.store(E + place, -S, mask=inside)


@triton.jit(do_not_specialize=SIZES_OF_MANY)
def many_sums(
    X, Z, N, Node, Sums, n, m, columns, nodes, all_nodes, q,
    SQUARE: tl.constexpr, ABSOLUTE: tl.constexpr, SYMMETRIC: tl.constexpr, G: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The tile's part of Σ N_i |x_j - x'_j|^q of G nodes, for every column; of symmetric N, a tile below the diagonal
    counts for the one above it, too.
    """
    tiles = tl.cdiv(n, B) * (tl.cdiv(n, B) + 1) // 2 if SYMMETRIC else tl.cdiv(n, B) * tl.cdiv(m, B)
    b, X, Z, rows, cols, twice = _tile(X, Z, n, m, columns, tiles, SYMMETRIC, B)
    node = tl.program_id(1) * G + tl.arange(0, G)
    place, inside = _places(Node, b, node, nodes, all_nodes, n, m, rows, cols)
    mine = tl.load(N + place, mask=inside, other=0.0)
    if SYMMETRIC:
        mine = mine * twice.to(mine.dtype)
    out = Sums + (tl.program_id(0).to(tl.int64) * nodes + node) * columns
    for j in range(columns):
        d = _distance(X, Z, j, n, m, rows, cols, q, SQUARE, ABSOLUTE)
        tl.store(out + j, tl.sum(tl.sum(mine * d[None, :, :], 2), 1), mask=node < nodes)
