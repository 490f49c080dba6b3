"""Compiled loops over the pairs of a row x and many rows z, in single precision; numba is imported with this module.

Rows come as columns x rows, with the columns of mapped nodes, y = √(log₂e) x A_i, below the others. With
E_i = -S_i log₂e for node i, and exponentials that are powers of two:

    maps        E_i = -Σ_k (y_k - y'_k)²
    squares     E_i = Σ_j u_ij (x_j - x'_j)²,     u_ij = -v_ij² log₂e      four nodes at a time, which share the
    distances   E_i = Σ_j u_ij |x_j - x'_j|                                differences
    top         T = -S log₂e = Σ_i e_i (2^E_i - 1),     e_i = 2 log₂e w_i²

Differences round in proportion to themselves. ‖y‖² + ‖y'‖² - 2⟨y, y'⟩ would take as long, and cancel where a kernel is
narrow: its exponents err by 10⁻⁷ ‖y‖², which large coefficients magnify in predictions.

Backwards over the pairs r < c of one batch of rows, with N_i as in :mod:`hgk.kernels.hierarchical`:

    edges       Σ N (1 - k_i)
    maps        Σ N_i (x_j - x'_j)(x_k - x'_k) = Σ_a ρ_a x_aj x_ak - Σ_r (x_rj M_rk + x_rk M_rj),
                M_rk = Σ_{c > r} N_i x_ck, and ρ_a the sum of N_i over the pairs of row a
    the others  Σ N_i (x_j - x'_j)²,   Σ N_i |x_j - x'_j|

Functions take rows as ``with_maps`` gives them, (mapped nodes, columns of each) as ``maps``, and (columns, first, u) of
the nodes that are ``squares`` and ``distances``. The innermost loop is always over a contiguous run of rows z, so that
the compiler vectorises it; a block of them stays in cache while all rows x pass.
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
_LOG2E, _ROOT = np.float32(1 / np.log(2)), np.float32(np.sqrt(1 / np.log(2)))
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
def with_maps(rows, used, v, P, Q):
    """Columns x rows, and below them √(log₂e) x A_i = u + (u P) Qᵀ, u = √(log₂e) x diag(v), of every mapped node."""
    d, n = rows.shape
    p, rank = len(used), P.shape[2]
    Y, H = np.empty((d + len(v) * p, n), np.float32), np.empty((rank, n), np.float32)
    Y[:d] = rows
    for i in range(len(v)):
        H[:] = _ZERO
        for k in range(p):
            x, below, weight = rows[used[k]], Y[d + i * p + k], _ROOT * v[i, k]
            for c in range(n):
                below[c] = weight * x[c]
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


@compiled_once(nogil=True)
def _nodes(maps, squares, distances):
    """Nodes, with those that fill groups of four."""
    return 4 * (len(squares[1]) - 1) + maps[0] + 4 * (len(distances[1]) - 1)


@compiled_once(nogil=True, fastmath=_FUSED)
def _maps(own, r, d, p, Y, start, width, E):
    """E_i of the mapped nodes, whose p columns each lie below the d columns of the rows."""
    for i in range(len(E)):
        e, k, end = E[i], d + i * p, d + (i + 1) * p
        for c in range(width):
            e[c] = _ZERO
        while k + 4 <= end:
            x0, x1, x2, x3 = own[k, r], own[k + 1, r], own[k + 2, r], own[k + 3, r]
            y0, y1 = Y[k, start : start + width], Y[k + 1, start : start + width]
            y2, y3 = Y[k + 2, start : start + width], Y[k + 3, start : start + width]
            for c in range(width):
                d0, d1, d2, d3 = x0 - y0[c], x1 - y1[c], x2 - y2[c], x3 - y3[c]
                e[c] -= d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
            k += 4
        while k < end:
            x0, y0 = own[k, r], Y[k, start : start + width]
            for c in range(width):
                d0 = x0 - y0[c]
                e[c] -= d0 * d0
            k += 1


@compiled_once(nogil=True, fastmath=_FUSED)
def _fours(squared, X, r, columns, first, U, Y, start, width, E):
    """E_i of nodes that are sums over columns, four at a time; group g sees columns[first[g] : first[g + 1]]."""
    for g in range(len(first) - 1):
        e0, e1, e2, e3 = E[4 * g], E[4 * g + 1], E[4 * g + 2], E[4 * g + 3]
        for c in range(width):
            e0[c] = e1[c] = e2[c] = e3[c] = _ZERO
        k, end = first[g], first[g + 1]
        while k < end:
            x0, y0, two = X[columns[k], r], Y[columns[k], start : start + width], k + 1 < end
            v0, v1, v2, v3 = U[k, 0], U[k, 1], U[k, 2], U[k, 3]
            if two:
                x1, y1 = X[columns[k + 1], r], Y[columns[k + 1], start : start + width]
                u0, u1, u2, u3 = U[k + 1, 0], U[k + 1, 1], U[k + 1, 2], U[k + 1, 3]
            else:
                x1, y1 = x0, y0
                u0 = u1 = u2 = u3 = _ZERO
            for c in range(width):
                d, h = x0 - y0[c], x1 - y1[c]
                if squared:
                    d, h = d * d, h * h
                else:
                    d, h = abs(d), abs(h)
                e0[c] += v0 * d + u0 * h
                e1[c] += v1 * d + u1 * h
                e2[c] += v2 * d + u2 * h
                e3[c] += v3 * d + u3 * h
            k += 2


@compiled_once(nogil=True, fastmath=_FUSED)
def _exponents(X, r, maps, squares, distances, Y, start, width, E):
    """E_i of all nodes: sums of squares, mapped nodes, sums of distances."""
    mapped, p = maps
    s, d = 4 * (len(squares[1]) - 1), X.shape[0] - mapped * p
    _fours(True, X, r, squares[0], squares[1], squares[2], Y, start, width, E)
    _maps(X, r, d, p, Y, start, width, E[s : s + mapped])
    _fours(False, X, r, distances[0], distances[1], distances[2], Y, start, width, E[s + mapped :])


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
def add_products(own, other, maps, squares, distances, edges, scale, alpha, t):
    """t += K α, K = 2^(scale T); α is outputs x rows z."""
    n = other.shape[1]
    E, T = np.empty((_nodes(maps, squares, distances), _BLOCK), np.float32), np.empty(_BLOCK, np.float32)
    for start in range(0, n, _BLOCK):
        width = min(_BLOCK, n - start)
        for r in range(own.shape[1]):
            _exponents(own, r, maps, squares, distances, other, start, width, E)
            _top(E, edges, width, T)
            for c in range(width):
                T[c] = _exp2(scale * T[c])
            for o in range(len(alpha)):
                t[r, o] += _dot(T, alpha[o, start : start + width], width)


@compiled_once(nogil=True, fastmath=_FUSED)
def fill(own, other, maps, squares, distances, edges, scale, offset, out):
    """S for rows x and z, or K = exp(-scale S) if ``scale`` > 0; of a symmetric matrix, where the first row x is row
    ``offset`` >= 0 of z, beyond the diagonal alone.
    """
    n = other.shape[1]
    E, T = np.empty((_nodes(maps, squares, distances), _BLOCK), np.float32), np.empty(_BLOCK, np.float32)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        for r in range(own.shape[1]):
            begin = start if offset < 0 else max(start, offset + r + 1)
            if begin >= stop:
                continue
            width = stop - begin
            _exponents(own, r, maps, squares, distances, other, begin, width, E)
            _top(E, edges, width, T)
            row = out[r, begin:stop]
            if scale > _ZERO:
                for c in range(width):
                    row[c] = _exp2(scale * T[c])
            else:
                for c in range(width):
                    row[c] = -T[c] / _LOG2E


# ------------------------------------------------------------------------------------------------ a batch of rows


@compiled_once(nogil=True, fastmath=_FUSED)
def fill_batch(Y, maps, squares, distances, edges, scale, K, kernels):
    """K beyond the diagonal, and k_i of all nodes: of row r, after those of the rows before, nodes x its pairs."""
    n, at = Y.shape[1], 0
    E, T = np.empty((_nodes(maps, squares, distances), n), np.float32), np.empty(n, np.float32)
    for r in range(n - 1):
        width = n - 1 - r
        _exponents(Y, r, maps, squares, distances, Y, r + 1, width, E)
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
def _four_sums(squared, x, y, a0, a1, a2, a3, width):
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    for c in range(width):
        d = x - y[c]
        d = d * d if squared else abs(d)
        s0 += a0[c] * d
        s1 += a1[c] * d
        s2 += a2[c] * d
        s3 += a3[c] * d
    return s0, s1, s2, s3


@compiled_once(nogil=True, fastmath=_FUSED)
def _add_sums(squared, X, r, columns, first, below, width, sums):
    """Σ N_i δ of nodes that are sums over columns, from their N at the pairs of row r; ``sums`` are columns x 4."""
    for g in range(len(first) - 1):
        a0, a1, a2, a3 = below[4 * g], below[4 * g + 1], below[4 * g + 2], below[4 * g + 3]
        for k in range(first[g], first[g + 1]):
            x, y = X[columns[k], r], X[columns[k], r + 1 :]
            s0, s1, s2, s3 = _four_sums(squared, x, y, a0, a1, a2, a3, width)
            sums[k, 0] += s0
            sums[k, 1] += s1
            sums[k, 2] += s2
            sums[k, 3] += s3


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
def add_slopes(X, used, maps, squares, distances, edges, N, kernels, inner, rho, M, by_square, by_distance):
    """The sums above, from N beyond the diagonal; ``edges`` are 2 w².

    inner: nodes; rho: mapped nodes x rows; M: mapped nodes x columns x rows; the others: columns x 4.
    """
    n, nodes, at = X.shape[1], max(1, len(edges)), 0
    s, mapped = 4 * (len(squares[1]) - 1), maps[0]
    below = np.zeros((_nodes(maps, squares, distances), n), np.float32)
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
        _add_sums(True, X, r, squares[0], squares[1], below, width, by_square)
        for i in range(mapped):
            _moments(X, used, r, below[s + i], width, rho[i], M[i])
        _add_sums(False, X, r, distances[0], distances[1], below[s + mapped :], width, by_distance)
