"""The Triton kernels of risks and their gradients, for many chains in one or two launches.

Chain c predicts rows a of D2 from rows b of D1 (Σ_i over its nodes, c_i = 2 w_i²; a tree of one layer has E = -S_1),

    S_i = Σ_j v_ij² d_j²,   d_j = x_ja - x_jb,   k_i = exp(-S_i),     E = Σ_i c_i (k_i - 1),     K = exp(γ⁻² E)
    t = K α,     R = Σ_a share_a (y_a - clip(t_a))²,     g_a = 2 share_a (t_a - y_a) 1[|t_a| < M]

With P_ab = γ⁻² K_ab α_b, kept on the way there, N = -∂R/∂S_top = g_a P_ab, and the way back is

    ∂R/∂v_ij = -2 v_ij Σ_a g_a Σ_b P_ab c_i k_i d_j²,        ∂R/∂w_i = -4 w_i Σ_a g_a Σ_b P_ab (1 - k_i)

where one program looks after a few columns of one node on one strip of D2's rows, forms k_i again, and needs nothing
but its own registers: the exponents of a node are formed once for every four of its columns. Strips leave their parts
of R and of the sums behind, which are added in one order always.

A chain that is not ``Wanted`` costs nothing and stays as it is. Rows are filled up to whole strips and tiles: α and
share are 0 there.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def difference(X2, X1, column, n2, n1, rows, cols):
    """d of one column of one chain, on the tile; chains times columns times rows may be more than 2^31."""
    x = tl.load(X2 + column.to(tl.int64) * n2 + rows)
    z = tl.load(X1 + column.to(tl.int64) * n1 + cols)
    return x[:, None] - z[None, :]


@triton.jit
def exponent(X2, X1, Column, V, c, first, last, d, n2, n1, weights, rows, cols, zero):
    """S_i on the tile, of the node that has the weights from ``first`` to before ``last``."""
    S = zero
    for j in range(first, last):
        v = tl.load(V + c * weights + j)
        D = difference(X2, X1, c * d + tl.load(Column + c * weights + j), n2, n1, rows, cols)
        S += (v * v) * (D * D)
    return S


@triton.jit(do_not_specialize=["d", "weights", "nodes", "strips", "copies"])
def risks(
    X2, X1, Alpha, Y, Share, Rows2, Rows1, First, Column, Count, Flat, V, W, Scale, Clip, Wanted, Kept, Slope, Partial,
    d, n2, n1, weights, nodes, strips, copies, KEEP: tl.constexpr, R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """g, and the risk's part of one strip of D2's rows; ``KEEP`` says which of E and P is kept, if any."""
    r, c = tl.program_id(0), tl.program_id(1)
    if (tl.load(Wanted + c) > 0) & (r * R < tl.load(Rows2 + c)):
        flat, count, scale = tl.load(Flat + c) > 0, tl.load(Count + c), tl.load(Scale + c)
        rows = r * R + tl.arange(0, R)
        kept = Kept + (c * copies).to(tl.int64) * n2 * n1
        zero = tl.zeros([R, B], dtype=X1.dtype.element_ty)
        t = tl.zeros([R], dtype=X1.dtype.element_ty)
        for start in range(0, tl.load(Rows1 + c), B):
            cols = start + tl.arange(0, B)
            place = rows[:, None].to(tl.int64) * n1 + cols[None, :]
            E = zero
            for i in range(count):
                node = First + c * (nodes + 1) + i
                S = exponent(
                    X2, X1, Column, V, c, tl.load(node), tl.load(node + 1), d, n2, n1, weights, rows, cols, zero
                )
                if flat:
                    E -= S
                else:
                    w = tl.load(W + c * nodes + i)
                    E += (2.0 * w * w) * (tl.exp(-S) - 1.0)
            K = tl.exp(scale * E) * tl.load(Alpha + c * n1 + cols)[None, :]
            if KEEP == "E":
                tl.store(kept + place, E)
            if KEEP == "P":
                tl.store(kept + place, scale * K)
            t += tl.sum(K, 1)
        bound, y, share = tl.load(Clip + c), tl.load(Y + c * n2 + rows), tl.load(Share + c * n2 + rows)
        error = tl.minimum(tl.maximum(t, -bound), bound) - y
        tl.store(Slope + c * n2 + rows, tl.where(tl.abs(t) < bound, 2.0 * share * (t - y), 0.0))
        tl.store(Partial + c * strips + r, tl.sum(share * error * error))


@triton.jit(do_not_specialize=["d", "weights", "nodes", "strips", "chunks"])
def sums(
    X2, X1, Rows2, Rows1, First, Column, ChunkNode, ChunkFirst, Flat, V, W, Wanted, P, Slope, Sums,
    d, n2, n1, weights, nodes, strips, chunks, R: tl.constexpr, B: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One strip's part of Σ g P c_i k_i d_j² of some columns of node i; with its first ones, of Σ g P (1 - k_i)."""
    s, r, c = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.load(ChunkNode + c * chunks + s)
    if (tl.load(Wanted + c) > 0) & (i >= 0) & (r * R < tl.load(Rows2 + c)):
        flat, node = tl.load(Flat + c) > 0, First + c * (nodes + 1) + i
        first, end = tl.load(node), tl.load(node + 1)
        last = tl.where(flat, first, end)  # one node alone needs no S
        begin = tl.load(ChunkFirst + c * chunks + s)
        p = begin + tl.arange(0, CHUNK)
        column = (c * d + tl.load(Column + c * weights + p, mask=p < end, other=0)).to(tl.int64)
        rows = r * R + tl.arange(0, R)
        kept = P + c.to(tl.int64) * n2 * n1
        zero = tl.zeros([R, B], dtype=X1.dtype.element_ty)
        edge = zero
        squares = tl.zeros([CHUNK, R, B], dtype=X1.dtype.element_ty)
        x = tl.load(X2 + column[:, None] * n2 + rows[None, :])
        for start in range(0, tl.load(Rows1 + c), B):
            cols = start + tl.arange(0, B)
            S = exponent(X2, X1, Column, V, c, first, last, d, n2, n1, weights, rows, cols, zero)
            D = x[:, :, None] - tl.load(X1 + column[:, None] * n1 + cols[None, :])[:, None, :]
            N = tl.load(kept + rows[:, None].to(tl.int64) * n1 + cols[None, :])
            if not flat:
                Nk = N * tl.exp(-S)
                edge += N - Nk
                N = Nk
            squares += N[None, :, :] * (D * D)
        g, w = tl.load(Slope + c * n2 + rows), tl.load(W + c * nodes + i)
        factor = tl.where(flat, 1.0, 2.0 * w * w)
        out = Sums + (c * strips + r).to(tl.int64) * (weights + nodes)
        tl.store(out + p, factor * tl.sum(g[None, :] * tl.sum(squares, 2), 1), mask=p < end)
        tl.store(out + weights + i, tl.sum(g * tl.sum(edge, 1)), mask=begin == first)
