"""Compiled loops over the pairs of a row x and many rows z, in single precision; numba is imported with this module.

Rows come as columns x rows, with the columns of mapped nodes, x A_i, below the others. With E_i = -S_i log₂e for node
i, and exponentials that are powers of two:

    products    S_i = Σ_k u_k (y_k - y'_k)²         E_i = Σ_k l_k y'_k - a - a',   l_k = 2 log₂e u_k y_k,
                                                    a = log₂e Σ_k u_k y_k²
    distances   S_i = Σ_j v_ij² |x_j - x'_j|        four nodes at a time, which share the distances
    top         T = -S log₂e = Σ_i e_i (2^E_i - 1),     e_i = 2 log₂e w_i²

and backwards over the pairs r < c of one batch of rows, with N_i as in :mod:`hgk.kernels.hierarchical`:

    edges       Σ N (1 - k_i)
    products    Σ N_i (x_j - x'_j)(x_k - x'_k) = Σ_a ρ_a x_aj x_ak - Σ_r (x_rj M_rk + x_rk M_rj),
                M_rk = Σ_{c > r} N_i x_ck, and ρ_a the sum of N_i over the pairs of row a
    distances   Σ N_i |x_j - x'_j|

The innermost loop is always over a contiguous run of rows z, so that the compiler vectorises it; a block of them stays
in cache while all rows x pass.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hgk.arrays.compiling import compiled_once

# Rows z at a time: twelve nodes of so many numbers fit into the first-level cache.
_BLOCK = 512
# Without these, additions may not be rearranged, which the rounding in ``_exp2`` rests on.
_FUSED = {"contract"}
_ONE, _ZERO, _LEAST = np.float32(1.0), np.float32(0.0), np.float32(-126.0)
_LOG2E, _TWICE = np.float32(1 / np.log(2)), np.float32(2 / np.log(2))
# 1.5 · 2²³: adding it rounds to whole numbers, which are then the last bits.
_ROUNDING = np.float32(12582912.0)
# 2^r on [-½, ½] as a polynomial, relative error 2e-7.
_P1, _P2, _P3, _P4, _P5 = (np.float32(p) for p in (0.69314718, 0.24022651, 0.05550411, 0.00961813, 0.00133336))


@intrinsic
def _bits(typing, number):
    """The bits of a number in single precision."""
    return types.int32(types.float32), lambda context, builder, sig, args: builder.bitcast(args[0], ir.IntType(32))


@intrinsic
def _number(typing, bits):
    return types.float32(types.int32), lambda context, builder, sig, args: builder.bitcast(args[0], ir.FloatType())


@numba.njit(inline="always", fastmath=_FUSED)
def _exp2(t):
    """2^t for t <= 0: 2^n by bits times 2^r by the polynomial, t = n + r."""
    t = max(t, _LEAST)
    z = t + _ROUNDING
    r = t - (z - _ROUNDING)
    p = _ONE + r * (_P1 + r * (_P2 + r * (_P3 + r * (_P4 + r * _P5))))
    return _number(_bits(p) + np.int32(_bits(z) << np.int32(23)))  # type: ignore[call-arg]


@compiled_once(nogil=True, fastmath=_FUSED)
def _with_maps(rows, used, v, P, Q):
    """Columns x rows, and below them x A_i = u + (u P) Qᵀ, u = x diag(v), of every mapped node."""
    d, n = rows.shape
    p, rank = len(used), P.shape[2]
    Y, H = np.empty((d + len(v) * p, n), np.float32), np.empty((rank, n), np.float32)
    Y[:d] = rows
    for i in range(len(v)):
        H[:] = _ZERO
        for k in range(p):
            x, below = rows[used[k]], Y[d + i * p + k]
            for c in range(n):
                below[c] = v[i, k] * x[c]
            for r in range(rank):
                h, weight = H[r], P[i, k, r]
                for c in range(n):
                    h[c] += weight * below[c]
        for k in range(p):
            below = Y[d + i * p + k]
            for r in range(rank):
                h, weight = H[r], Q[i, k, r]
                for c in range(n):
                    below[c] += weight * h[c]
    return Y


@compiled_once(nogil=True, fastmath=_FUSED)
def _squares(Y, places, first, u):
    """log₂e Σ_k u_k y_k² of every node that is a sum of squares, nodes x rows."""
    squares = np.zeros((len(first) - 1, Y.shape[1]), np.float32)
    for i in range(len(squares)):
        out = squares[i]
        for k in range(first[i], first[i + 1]):
            y, weight = Y[places[k]], _LOG2E * u[k]
            for c in range(len(out)):
                out[c] += weight * y[c] * y[c]
    return squares


@compiled_once(nogil=True, fastmath=_FUSED)
def _lefts(Y, places, u, r, left):
    """2 log₂e u_k y_k of one row."""
    for k in range(len(places)):
        left[k] = _TWICE * u[k] * Y[places[k], r]


@compiled_once(nogil=True, fastmath=_FUSED)
def _products(left, own, r, places, first, Y, squares, start, width, E):
    """E_i of the nodes that are squared distances; ``places`` are the rows of Y that node i takes."""
    for i in range(len(first) - 1):
        e, b, a = E[i], squares[i, start : start + width], own[i, r]
        for c in range(width):
            e[c] = -a - b[c]
        k, end = first[i], first[i + 1]
        while k + 4 <= end:
            l0, l1, l2, l3 = left[k], left[k + 1], left[k + 2], left[k + 3]
            y0, y1 = Y[places[k], start : start + width], Y[places[k + 1], start : start + width]
            y2, y3 = Y[places[k + 2], start : start + width], Y[places[k + 3], start : start + width]
            for c in range(width):
                e[c] += l0 * y0[c] + l1 * y1[c] + l2 * y2[c] + l3 * y3[c]
            k += 4
        while k < end:
            l0, y0 = left[k], Y[places[k], start : start + width]
            for c in range(width):
                e[c] += l0 * y0[c]
            k += 1


@compiled_once(nogil=True, fastmath=_FUSED)
def _distances(X, r, columns, V, Y, start, width, E):
    """E_i of nodes that are sums of distances, in groups of four; V has -v² log₂e, groups x columns x 4."""
    for g in range(len(V)):
        e0, e1, e2, e3 = E[4 * g], E[4 * g + 1], E[4 * g + 2], E[4 * g + 3]
        for c in range(width):
            e0[c] = e1[c] = e2[c] = e3[c] = _ZERO
        k = 0
        while k + 2 <= len(columns):
            x0, y0 = X[columns[k], r], Y[columns[k], start : start + width]
            x1, y1 = X[columns[k + 1], r], Y[columns[k + 1], start : start + width]
            v0, v1, v2, v3 = V[g, k, 0], V[g, k, 1], V[g, k, 2], V[g, k, 3]
            u0, u1, u2, u3 = V[g, k + 1, 0], V[g, k + 1, 1], V[g, k + 1, 2], V[g, k + 1, 3]
            for c in range(width):
                d, h = abs(x0 - y0[c]), abs(x1 - y1[c])
                e0[c] += v0 * d + u0 * h
                e1[c] += v1 * d + u1 * h
                e2[c] += v2 * d + u2 * h
                e3[c] += v3 * d + u3 * h
            k += 2
        if k < len(columns):
            x0, y0 = X[columns[k], r], Y[columns[k], start : start + width]
            v0, v1, v2, v3 = V[g, k, 0], V[g, k, 1], V[g, k, 2], V[g, k, 3]
            for c in range(width):
                d = abs(x0 - y0[c])
                e0[c] += v0 * d
                e1[c] += v1 * d
                e2[c] += v2 * d
                e3[c] += v3 * d


@compiled_once(nogil=True, fastmath=_FUSED)
def _top(E, edges, width, T):
    """T = -S log₂e, and k_i in the place of E_i; without edges there is one node, and S is its exponent."""
    if len(edges) == 0:
        for c in range(width):
            T[c] = min(E[0, c], _ZERO)
        return
    total = _ZERO
    for w in edges:
        total += w
    for c in range(width):
        T[c] = -total
    for i in range(len(edges)):
        e, w = E[i], edges[i]
        for c in range(width):
            e[c] = _exp2(min(e[c], _ZERO))
            T[c] += w * e[c]
    for c in range(width):
        T[c] = min(T[c], _ZERO)


@compiled_once(nogil=True, fastmath=True)
def _dot(k, alpha, width):
    total = _ZERO
    for c in range(width):
        total += k[c] * alpha[c]
    return total


@compiled_once(nogil=True, fastmath=_FUSED)
def add_products(X, Z, used, v, P, Q, places, first, u, columns, V, edges, scale, alpha, t):
    """t += K α, K = 2^(scale T); α is outputs x rows z."""
    own, other = _with_maps(X, used, v, P, Q), _with_maps(Z, used, v, P, Q)
    a, b = _squares(own, places, first, u), _squares(other, places, first, u)
    products, n = len(b), Z.shape[1]
    E, T = np.empty((products + 4 * len(V), _BLOCK), np.float32), np.empty(_BLOCK, np.float32)
    left = np.empty(len(places), np.float32)
    for start in range(0, n, _BLOCK):
        width = min(_BLOCK, n - start)
        for r in range(X.shape[1]):
            _lefts(own, places, u, r, left)
            _products(left, a, r, places, first, other, b, start, width, E)
            _distances(own, r, columns, V, other, start, width, E[products:])
            _top(E, edges, width, T)
            for c in range(width):
                T[c] = _exp2(scale * T[c])
            for o in range(len(alpha)):
                t[r, o] += _dot(T, alpha[o, start : start + width], width)


@compiled_once(nogil=True, fastmath=_FUSED)
def fill_exponents(X, Z, used, v, P, Q, places, first, u, columns, V, edges, offset, S):
    """S for rows x and z; of a symmetric matrix, where the first row x is row ``offset`` >= 0 of z, beyond the
    diagonal alone.
    """
    own, other = _with_maps(X, used, v, P, Q), _with_maps(Z, used, v, P, Q)
    a, b = _squares(own, places, first, u), _squares(other, places, first, u)
    products, n = len(b), Z.shape[1]
    E, T = np.empty((products + 4 * len(V), _BLOCK), np.float32), np.empty(_BLOCK, np.float32)
    left = np.empty(len(places), np.float32)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        for r in range(X.shape[1]):
            begin = start if offset < 0 else max(start, offset + r + 1)
            if begin >= stop:
                continue
            width = stop - begin
            _lefts(own, places, u, r, left)
            _products(left, a, r, places, first, other, b, begin, width, E)
            _distances(own, r, columns, V, other, begin, width, E[products:])
            _top(E, edges, width, T)
            out = S[r, begin:stop]
            for c in range(width):
                out[c] = -T[c] / _LOG2E


# ------------------------------------------------------------------------------------------------ a batch of rows


@compiled_once(nogil=True, fastmath=_FUSED)
def fill_batch(X, used, v, P, Q, places, first, u, columns, V, edges, scale, K, kernels):
    """K beyond the diagonal, and k_i of all nodes: of row r, after those of the rows before, nodes x its pairs."""
    Y = _with_maps(X, used, v, P, Q)
    squares, n = _squares(Y, places, first, u), X.shape[1]
    products, at = len(squares), 0
    E, T = np.empty((products + 4 * len(V), n), np.float32), np.empty(n, np.float32)
    left = np.empty(len(places), np.float32)
    for r in range(n - 1):
        width = n - 1 - r
        _lefts(Y, places, u, r, left)
        _products(left, squares, r, places, first, Y, squares, r + 1, width, E)
        _distances(Y, r, columns, V, Y, r + 1, width, E[products:])
        _top(E, edges, width, T)
        for i in range(len(edges)):
            kernels[at : at + width] = E[i, :width]
            at += width
        out = K[r, r + 1 :]
        for c in range(width):
            out[c] = _exp2(scale * T[c])


@compiled_once(nogil=True, fastmath=True)
def _sum(a, width):
    total = _ZERO
    for c in range(width):
        total += a[c]
    return total


@compiled_once(nogil=True, fastmath=True)
def _four_dots(a, y0, y1, y2, y3, width):
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    for c in range(width):
        s0 += a[c] * y0[c]
        s1 += a[c] * y1[c]
        s2 += a[c] * y2[c]
        s3 += a[c] * y3[c]
    return s0, s1, s2, s3


@compiled_once(nogil=True, fastmath=True)
def _four_distances(x, y, a0, a1, a2, a3, width):
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    for c in range(width):
        d = abs(x - y[c])
        s0 += a0[c] * d
        s1 += a1[c] * d
        s2 += a2[c] * d
        s3 += a3[c] * d
    return s0, s1, s2, s3


@compiled_once(nogil=True, fastmath=_FUSED)
def _moments(X, raw, r, mine, width, rho, M):
    """ρ and M of one node, from its N at the pairs of row r."""
    rho[r] += _sum(mine, width)
    later = rho[r + 1 :]
    for c in range(width):
        later[c] += mine[c]
    k = 0
    while k + 4 <= len(raw):
        x0, x1, x2, x3 = X[raw[k], r + 1 :], X[raw[k + 1], r + 1 :], X[raw[k + 2], r + 1 :], X[raw[k + 3], r + 1 :]
        M[k, r], M[k + 1, r], M[k + 2, r], M[k + 3, r] = _four_dots(mine, x0, x1, x2, x3, width)
        k += 4
    while k < len(raw):
        M[k, r] = _dot(mine, X[raw[k], r + 1 :], width)
        k += 1


@compiled_once(nogil=True, fastmath=_FUSED)
def add_slopes(X, raw, first, columns, groups, edges, N, kernels, inner, rho, M, sums):
    """The sums above, from N beyond the diagonal; ``edges`` are 2 w², and ``raw`` the columns of the products' nodes.

    inner: nodes; rho: nodes that are products x rows; M: columns of these x rows; sums: groups x columns x 4.
    """
    n, nodes, products, at = X.shape[1], max(1, len(edges)), len(first) - 1, 0
    below = np.zeros((products + 4 * groups, n), np.float32)
    for r in range(n - 1):
        width, above = n - 1 - r, N[r, r + 1 :]
        total = _sum(above, width)
        for i in range(nodes):
            out = below[i]
            if len(edges) == 0:
                for c in range(width):
                    out[c] = above[c]
                continue
            k, w = kernels[at : at + width], edges[i]
            at += width
            inner[i] += total - _dot(above, k, width)
            for c in range(width):
                out[c] = w * above[c] * k[c]
        for i in range(products):
            _moments(X, raw[first[i] : first[i + 1]], r, below[i], width, rho[i], M[first[i] : first[i + 1]])
        for g in range(groups):
            a0, a1 = below[products + 4 * g], below[products + 4 * g + 1]
            a2, a3 = below[products + 4 * g + 2], below[products + 4 * g + 3]
            for k in range(len(columns)):
                x, y = X[columns[k], r], X[columns[k], r + 1 :]
                s0, s1, s2, s3 = _four_distances(x, y, a0, a1, a2, a3, width)
                sums[g, k, 0] += s0
                sums[g, k, 1] += s1
                sums[g, k, 2] += s2
                sums[g, k, 3] += s3
