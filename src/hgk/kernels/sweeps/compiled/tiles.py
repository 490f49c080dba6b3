"""The Triton kernels. One program looks after one tile of pairs (a, b), or a strip of tiles.

    S_i = Σ_j v_ij² |x_ja - x_jb|^q_i,      k_i = exp(-S_i),
    log K = γ⁻² E,   E = Σ_i c_i (k_i - 1),   c_i = 2 w_i²        (one node alone: E = -S_1)

and nothing but K leaves the tile. On the way back, with N = ∂J/∂E = γ⁻² ∂J/∂K ∘ K and N_i = c_i N ∘ k_i, formed again,

    edges_i = Σ N (1 - k_i)       sums_ij = Σ N_i |x_ja - x_jb|^q_i          (smooth and rough nodes)
    ∂J/∂y_ia = -4 (ρ_a y_ia - Σ_b N_i,ab y_ib),   ρ = N_i 1                  (oblique nodes)

Nodes come in two ways. A *single* node has columns of its own, which are scaled beforehand: y_ij = v_ij^(2/q) x_j, or
y_i = x A_i for an oblique one. It costs two instructions per pair and column. A *group* of G nodes with the same
exponent shares columns x_j: one difference per pair and column serves all, and a multiply-add for each. A tree's
single nodes lie in the order oblique, smooth, rough, its groups in the order smooth, rough.

Differences cancel nothing, so that single precision is safe, K is exactly symmetric and its diagonal exactly 1. Rows
are filled up to whole tiles, so that loads need no mask; ny and nz are the filled numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Columns whose loads are under way together; nodes and groups are filled up to a multiple of it by columns of zeros.
UNROLL = tl.constexpr(4)
# How much a tree has of what: compiled once for all, since every pruned tree is another.
COUNTS = ["singles", "smooth", "groups", "gsmooth"]


@triton.jit
def place_of_tile(t, m, SYMMETRIC: tl.constexpr, B: tl.constexpr):
    """Row and column of the t-th tile; of a symmetric matrix, of those on and below the diagonal."""
    if SYMMETRIC:
        r = ((tl.sqrt(8.0 * t + 1.0) - 1.0) * 0.5).to(tl.int32)
        r = tl.where(r * (r + 1) // 2 > t, r - 1, r)  # the root is rounded
        r = tl.where((r + 1) * (r + 2) // 2 <= t, r + 1, r)
        c = t - r * (r + 1) // 2
    else:
        r, c = t // tl.cdiv(m, B), t % tl.cdiv(m, B)
    return r, c


@triton.jit
def _distance(Y, Z, j, ny, nz, rows, cols):
    """y_ja - z_jb on the tile; where columns times rows are 2^31 and more, j is a long integer."""
    y = tl.load(Y + j * ny + rows)
    z = tl.load(Z + j * nz + cols)
    return y[:, None] - z[None, :]


@triton.jit
def _power(d, q, ABSOLUTE: tl.constexpr):
    """|d|^q; q = 1 is the usual one."""
    d = tl.abs(d)
    if ABSOLUTE:
        return d
    return tl.where(d > 0, tl.exp2(q * tl.log2(tl.where(d > 0, d, 1.0))), 0.0)


# ----------------------------------------------------------------------------------------------------- exponents


@triton.jit
def _single(Y, Z, First, Q, i, ny, nz, rows, cols, smooth, ABSOLUTE: tl.constexpr, zero):
    """S_i of a single node. The first ``smooth`` nodes are squares: of the two loops one is empty."""
    first, last = tl.load(First + i), tl.load(First + i + 1)
    middle = tl.where(i < smooth, last, first)
    q = tl.load(Q + i)
    S = zero
    for start in range(first, middle, UNROLL):
        for j in tl.static_range(UNROLL):
            d = _distance(Y, Z, start + j, ny, nz, rows, cols)
            S += d * d
    for start in range(middle, last, UNROLL):
        for j in tl.static_range(UNROLL):
            S += _power(_distance(Y, Z, start + j, ny, nz, rows, cols), q, ABSOLUTE)
    return S


@triton.jit
def _group(
    X, Xz, Column, V, GFirst, GQ, g, part, ny, nz, rows, cols, smooth,
    G: tl.constexpr, H: tl.constexpr, ABSOLUTE: tl.constexpr, zero,
):  # fmt: skip
    """S of H of the G nodes of a group, nodes x rows x columns of the tile."""
    first, last = tl.load(GFirst + g), tl.load(GFirst + g + 1)
    middle = tl.where(g < smooth, last, first)
    q = tl.load(GQ + g)
    node = part * H + tl.arange(0, H)
    S = zero
    for start in range(first, middle, UNROLL):
        for t in tl.static_range(UNROLL):
            d = _distance(X, Xz, tl.load(Column + start + t), ny, nz, rows, cols)
            S += tl.load(V + (start + t) * G + node)[:, None, None] * (d * d)[None, :, :]
    for start in range(middle, last, UNROLL):
        for t in tl.static_range(UNROLL):
            d = _power(_distance(X, Xz, tl.load(Column + start + t), ny, nz, rows, cols), q, ABSOLUTE)
            S += tl.load(V + (start + t) * G + node)[:, None, None] * d[None, :, :]
    return S


@triton.jit
def _top(
    Y, Z, First, Q, C, X, Xz, Column, V, GFirst, GQ, GC, ny, nz, rows, cols, singles, smooth, groups, gsmooth,
    R: tl.constexpr, B: tl.constexpr, SINGLE: tl.constexpr, GROUPED: tl.constexpr, G: tl.constexpr,
    ABSOLUTE: tl.constexpr, FLAT: tl.constexpr, dtype: tl.constexpr,
):  # fmt: skip
    """E on the tile. What a tree does not have is not compiled; how much it has of the rest is no matter."""
    zero = tl.zeros([R, B], dtype=dtype)
    if FLAT:
        E = -_single(Y, Z, First, Q, 0, ny, nz, rows, cols, smooth, ABSOLUTE, zero)
    else:
        E = zero
        if SINGLE:
            for i in range(singles):
                k = tl.exp(-_single(Y, Z, First, Q, i, ny, nz, rows, cols, smooth, ABSOLUTE, zero))
                E += tl.load(C + i) * (k - 1.0)
        if GROUPED:
            for g in range(groups):
                zeros = tl.zeros([G, R, B], dtype=dtype)
                S = _group(X, Xz, Column, V, GFirst, GQ, g, 0, ny, nz, rows, cols, gsmooth, G, G, ABSOLUTE, zeros)
                c = tl.load(GC + g * G + tl.arange(0, G))[:, None, None]
                E += tl.sum(c * (tl.exp(-S) - 1.0), 0)
    return E


# ------------------------------------------------------------------------------------------------------- forward


@triton.jit(do_not_specialize=COUNTS)
def matrix(
    Y, Z, First, Q, C, X, Xz, Column, V, GFirst, GQ, GC, Scale, Out, n, m, ny, nz, singles, smooth, groups, gsmooth,
    SINGLE: tl.constexpr, GROUPED: tl.constexpr, G: tl.constexpr, ABSOLUTE: tl.constexpr, FLAT: tl.constexpr,
    SYMMETRIC: tl.constexpr, LOGARITHM: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Out = K, or -E; of a symmetric one the tiles on and below the diagonal are computed and written twice."""
    r, c = place_of_tile(tl.program_id(0), m, SYMMETRIC, B)
    rows, cols = r * B + tl.arange(0, B), c * B + tl.arange(0, B)
    E = _top(
        Y, Z, First, Q, C, X, Xz, Column, V, GFirst, GQ, GC, ny, nz, rows, cols, singles, smooth, groups, gsmooth,
        B, B, SINGLE, GROUPED, G, ABSOLUTE, FLAT, Out.dtype.element_ty,
    )  # fmt: skip
    value = -E if LOGARITHM else tl.exp(tl.load(Scale) * E)
    if SYMMETRIC:
        mirrored = (r == c) & (rows[:, None] < cols[None, :])  # symmetric to the last bit
        value = tl.where(mirrored, tl.trans(value), value)
    inside = (rows < n)[:, None] & (cols < m)[None, :]
    tl.store(Out + rows[:, None].to(tl.int64) * m + cols[None, :], value, mask=inside)
    if SYMMETRIC:
        inside = (cols < m)[:, None] & (rows < n)[None, :]
        tl.store(Out + cols[:, None].to(tl.int64) * m + rows[None, :], tl.trans(value), mask=inside)


@triton.jit(do_not_specialize=[*COUNTS, "columns"])
def multiply(
    Y, Z, First, Q, C, X, Xz, Column, V, GFirst, GQ, GC, Scale, Alpha, Out, n, m, ny, nz, columns,
    singles, smooth, groups, gsmooth,
    SINGLE: tl.constexpr, GROUPED: tl.constexpr, G: tl.constexpr, ABSOLUTE: tl.constexpr, FLAT: tl.constexpr,
    R: tl.constexpr, B: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Out = K Alpha for one strip of rows; K is never stored."""
    rows = tl.program_id(0) * R + tl.arange(0, R)
    scale = tl.load(Scale)
    column = tl.arange(0, WIDTH)
    t = tl.zeros([R, WIDTH], dtype=Out.dtype.element_ty)
    for start in range(0, m, B):
        cols = start + tl.arange(0, B)
        E = _top(
            Y, Z, First, Q, C, X, Xz, Column, V, GFirst, GQ, GC, ny, nz, rows, cols, singles, smooth, groups, gsmooth,
            R, B, SINGLE, GROUPED, G, ABSOLUTE, FLAT, Out.dtype.element_ty,
        )  # fmt: skip
        K = tl.exp(scale * E)
        inside = (cols < m)[:, None] & (column < columns)[None, :]
        alpha = tl.load(Alpha + cols[:, None].to(tl.int64) * columns + column[None, :], mask=inside, other=0.0)
        if WIDTH == 1:
            t += tl.sum(K * tl.trans(alpha), 1)[:, None]
        else:
            t = tl.dot(K, alpha, t, input_precision=PRECISION, out_dtype=Out.dtype.element_ty)
    inside = (rows < n)[:, None] & (column < columns)[None, :]
    tl.store(Out + rows[:, None].to(tl.int64) * columns + column[None, :], t, mask=inside)


# ------------------------------------------------------------------------------------------------------ backward


@triton.jit
def _tile_of_N(K, G, Scale, n, m, rows, cols):
    """γ⁻² ∂J/∂K ∘ K."""
    place = rows[:, None].to(tl.int64) * m + cols[None, :]
    inside = (rows < n)[:, None] & (cols < m)[None, :]
    return tl.load(Scale) * tl.load(K + place, mask=inside, other=0.0) * tl.load(G + place, mask=inside, other=0.0)


@triton.jit
def _counted(K, dK, Scale, n, m, r, c, rows, cols, SYMMETRIC: tl.constexpr):
    """N on the tile; of a symmetric K, a tile below the diagonal counts for the one above it, too."""
    N = _tile_of_N(K, dK, Scale, n, m, rows, cols)
    if SYMMETRIC:
        N = N * tl.where(r == c, 1.0, 2.0).to(K.dtype.element_ty)
    return N


@triton.jit(do_not_specialize=[*COUNTS, "columns", "oblique"])
def single_sums(
    Y, Z, First, Q, C, Scale, K, dK, Sums, Edges, n, m, ny, nz, columns, oblique, singles, smooth,
    ABSOLUTE: tl.constexpr, FLAT: tl.constexpr, SYMMETRIC: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """One tile's part of edges_i and, in its scaled columns, of sums_ij, of one single node that is not oblique."""
    t, i = tl.program_id(0), oblique + tl.program_id(1)
    r, c = place_of_tile(t, m, SYMMETRIC, B)
    rows, cols = r * B + tl.arange(0, B), c * B + tl.arange(0, B)
    N = _counted(K, dK, Scale, n, m, r, c, rows, cols, SYMMETRIC)
    if not FLAT:
        zero = tl.zeros([B, B], dtype=K.dtype.element_ty)
        k = tl.exp(-_single(Y, Z, First, Q, i, ny, nz, rows, cols, smooth, ABSOLUTE, zero))
        tl.store(Edges + t * singles + i, tl.sum(N * (1.0 - k)))
        N = N * k * tl.load(C + i)
    first, last = tl.load(First + i), tl.load(First + i + 1)
    middle = tl.where(i < smooth, last, first)
    q = tl.load(Q + i)
    out = Sums + t.to(tl.int64) * columns
    for j in range(first, middle):
        d = _distance(Y, Z, j, ny, nz, rows, cols)
        tl.store(out + j, tl.sum(N * d * d))
    for j in range(middle, last):
        d = _power(_distance(Y, Z, j, ny, nz, rows, cols), q, ABSOLUTE)
        tl.store(out + j, tl.sum(N * d))


@triton.jit(do_not_specialize=[*COUNTS, "columns", "width"])
def group_sums(
    X, Xz, Column, V, GFirst, GQ, GC, Scale, K, dK, Sums, n, m, ny, nz, columns, width, groups, gsmooth,
    G: tl.constexpr, ABSOLUTE: tl.constexpr, SYMMETRIC: tl.constexpr,
    H: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """One tile's part of edges_i and sums_ij of H nodes of a group: few nodes and large tiles, since a sum over a tile
    costs as much for a small one. The edges lie behind the ``columns`` of the groups, ``width`` numbers a tile.
    """
    t, g, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    r, c = place_of_tile(t, m, SYMMETRIC, B)
    rows, cols, node = r * B + tl.arange(0, B), c * B + tl.arange(0, B), part * H + tl.arange(0, H)
    N = _counted(K, dK, Scale, n, m, r, c, rows, cols, SYMMETRIC)[None, :, :]
    zeros = tl.zeros([H, B, B], dtype=K.dtype.element_ty)
    k = tl.exp(-_group(X, Xz, Column, V, GFirst, GQ, g, part, ny, nz, rows, cols, gsmooth, G, H, ABSOLUTE, zeros))
    out = Sums + t.to(tl.int64) * width + node
    tl.store(out + (columns + g) * G, tl.sum(tl.sum(N * (1.0 - k), 1), 1))
    N = N * k * tl.load(GC + g * G + node)[:, None, None]
    first, last = tl.load(GFirst + g), tl.load(GFirst + g + 1)
    middle = tl.where(g < gsmooth, last, first)
    q = tl.load(GQ + g)
    for j in range(first, middle):
        d = _distance(X, Xz, tl.load(Column + j), ny, nz, rows, cols)
        tl.store(out + j * G, tl.sum(tl.sum(N * (d * d)[None, :, :], 1), 1))
    for j in range(middle, last):
        d = _power(_distance(X, Xz, tl.load(Column + j), ny, nz, rows, cols), q, ABSOLUTE)
        tl.store(out + j * G, tl.sum(tl.sum(N * d[None, :, :], 1), 1))


@triton.jit(do_not_specialize=COUNTS)
def map_slopes(
    Y, First, Q, C, Scale, K, dK, dY, Edges, n, ny, singles, smooth, ABSOLUTE: tl.constexpr, FLAT: tl.constexpr,
    B: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂J/∂y_ia of one oblique node, for one strip of rows and ``WIDTH`` of its columns; and the strip's edges_i."""
    s, i, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = s * B + tl.arange(0, B)
    first, last = tl.load(First + i), tl.load(First + i + 1)
    column = first + part * WIDTH + tl.arange(0, WIDTH)
    rho = tl.zeros([B], dtype=K.dtype.element_ty)
    edge = tl.zeros([B], dtype=K.dtype.element_ty)
    product = tl.zeros([B, WIDTH], dtype=K.dtype.element_ty)
    for start in range(0, n, B):
        cols = start + tl.arange(0, B)
        # A row and itself add nothing, but their N is by far the largest: left in, it would have to cancel below.
        N = tl.where(rows[:, None] == cols[None, :], 0.0, _tile_of_N(K, dK, Scale, n, n, rows, cols))
        if not FLAT:
            zero = tl.zeros([B, B], dtype=K.dtype.element_ty)
            k = tl.exp(-_single(Y, Y, First, Q, i, ny, ny, rows, cols, smooth, ABSOLUTE, zero))
            edge += tl.sum(N * (1.0 - k), 1)
            N = N * k * tl.load(C + i)
        rho += tl.sum(N, 1)
        y = tl.load(Y + column[None, :] * ny + cols[:, None], mask=(column < last)[None, :], other=0.0)
        product = tl.dot(N, y, product, input_precision=PRECISION, out_dtype=K.dtype.element_ty)
    place = column[None, :] * ny + rows[:, None]
    inside = (column < last)[None, :]
    y = tl.load(Y + place, mask=inside, other=0.0)
    tl.store(dY + place, -4.0 * (rho[:, None] * y - product), mask=inside & (rows < n)[:, None])
    if not FLAT:
        tl.store(Edges + s * singles + i, tl.sum(edge), mask=part == 0)
