"""Greedy coordinate descent for a quadratic function on a box, compiled.

    min_a  ½ aᵀKa - aᵀy + ε‖a‖₁,        l <= a <= h,        G = Ka - y.

One coordinate alone has its minimum at b_i = clip(shrink(a_i K_ii - G_i, ε) / K_ii, l_i, h_i), which lowers the
function by its *gain*. Every step takes the coordinate i with the largest gain, then the partner p that gains most
when i has moved and goes on following p's moves (the curvature of p is then K_pp - K_ip²/K_ii), minimises over both
at once, and adds their two rows of K to G. One coordinate at a time needs ten times the steps where λ is small.

Numba is needed here and in ``hgk.kernels.sweeps.loops`` alone; both are imported when first called for.
"""

from __future__ import annotations

import numpy as np

from hgk.arrays.compiling import compiled_once


@compiled_once(fastmath=True, inline="always")
def _alone(a, g, k, low, high, tube):
    """The best value of one coordinate."""
    z = a * k - g
    return min(max((max(z - tube, 0.0) + min(z + tube, 0.0)) / k, low), high)


@compiled_once()
def _together(a, b, g, h, k, m, c, la, ha, lb, hb):
    """The best values of two coordinates a, b with gradients g, h and the matrix [[k, c], [c, m]], without a tube."""
    det = k * m - c * c
    if det > 1e-10 * k * m:
        x, z = a + (h * c - g * m) / det, b + (g * c - h * k) / det
        if la <= x <= ha and lb <= z <= hb:
            return x, z
    best, best_x, best_z = 0.0, a, b
    for edge in range(4):  # the minimum lies on the boundary
        if edge < 2:
            x = la if edge == 0 else ha
            z = min(max(b - (h + c * (x - a)) / m, lb), hb)
        else:
            z = lb if edge == 2 else hb
            x = min(max(a - (g + c * (z - b)) / k, la), ha)
        d, e = x - a, z - b
        value = g * d + h * e + 0.5 * (k * d * d + m * e * e) + c * d * e
        if value < best:
            best, best_x, best_z = value, x, z
    return best_x, best_z


@compiled_once()
def _side(a, b, low, high):
    """The part of [low, high] on one side of 0 that holds a and b: its ends and its sign, 0 if there is none."""
    if a >= 0.0 and b >= 0.0 and a + b > 0.0:
        return max(low, 0.0), high, 1.0
    if a <= 0.0 and b <= 0.0 and a + b < 0.0:
        return low, min(high, 0.0), -1.0
    return low, high, 0.0


@compiled_once()
def _pair(i, p, K, diagonal, a, G, low, high, tube):
    """New values of coordinates i and p."""
    k, m, c = diagonal[i], diagonal[p], K[i, p]
    if tube == 0.0:
        return _together(a[i], a[p], G[i], G[p], k, m, c, low[i], high[i], low[p], high[p])
    x = _alone(a[i], G[i], k, low[i], high[i], tube)
    z = _alone(a[p], G[p] + c * (x - a[i]), m, low[p], high[p], tube)
    li, hi, si = _side(a[i], x, low[i], high[i])
    lp, hp, sp = _side(a[p], z, low[p], high[p])
    if si == 0.0 or sp == 0.0:
        return x, z  # one after the other
    return _together(a[i], a[p], G[i] + si * tube, G[p] + sp * tube, k, m, c, li, hi, lp, hp)


# numpy's minimum and maximum, unlike Python's, become vector instructions.
@compiled_once(fastmath=True, error_model="numpy")
def _gains(a, G, curvature, low, high, tube, gain):
    """What each coordinate alone would gain."""
    for j in range(len(a)):
        step, width = G[j] / curvature[j], tube / curvature[j]
        z = a[j] - step
        b = np.maximum(z - width, 0.0) + np.minimum(z + width, 0.0)
        e = np.minimum(np.maximum(b, low[j]), high[j]) - a[j]
        gain[j] = -curvature[j] * ((step + 0.5 * e) * e + width * (np.abs(a[j] + e) - np.abs(a[j])))


@compiled_once(fastmath=True, error_model="numpy")
def _gains_after(d, k, row, a, G, diagonal, low, high, tube, gain):
    """The same after another has moved by d and follows along; 1/k is its curvature, infinite if it is stuck."""
    for j in range(len(a)):
        c = np.maximum(diagonal[j] - row[j] * row[j] * k, 1e-6 * diagonal[j])
        step, width = (G[j] + d * row[j]) / c, tube / c
        z = a[j] - step
        b = np.maximum(z - width, 0.0) + np.minimum(z + width, 0.0)
        e = np.minimum(np.maximum(b, low[j]), high[j]) - a[j]
        gain[j] = -c * ((step + 0.5 * e) * e + width * (np.abs(a[j] + e) - np.abs(a[j])))


# Eight maxima side by side become vector instructions.
@compiled_once(fastmath=True, error_model="numpy")
def _top(gain):
    a = b = c = d = e = f = g = h = -1e300
    n = len(gain) // 8 * 8
    for j in range(0, n, 8):
        a = max(a, gain[j])
        b = max(b, gain[j + 1])
        c = max(c, gain[j + 2])
        d = max(d, gain[j + 3])
        e = max(e, gain[j + 4])
        f = max(f, gain[j + 5])
        g = max(g, gain[j + 6])
        h = max(h, gain[j + 7])
    for j in range(n, len(gain)):
        a = max(a, gain[j])
    return max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))


@compiled_once()
def _largest(gain):
    """The first coordinate with the largest gain."""
    best, at = -1e300, 0
    for low in range(0, len(gain), 512):
        top = _top(gain[low : low + 512])
        if top > best:
            best, at = top, low
    for j in range(at, len(gain)):
        if gain[j] == best:
            return j
    return at


@compiled_once(fastmath=True, error_model="numpy")
def _move(d, e, row, other, G):
    for j in range(len(G)):
        G[j] += d * row[j] + e * other[j]


@compiled_once(fastmath=True, error_model="numpy")
def gap(a, G, low, high, tube):
    """Σ sup {-G_j e - ε(|a_j + e| - |a_j|) : low <= a + e <= high}, the duality gap."""
    total = 0.0
    for j in range(len(a)):
        top = max(0.0, -G[j] * (high[j] - a[j]) - tube * (abs(high[j]) - abs(a[j])))
        bottom = max(top, -G[j] * (low[j] - a[j]) - tube * (abs(low[j]) - abs(a[j])))
        total += max(bottom, G[j] * a[j] + tube * abs(a[j])) if tube > 0.0 else bottom
    return total


@compiled_once(nogil=True)
def descend_in_box(K, low, high, tube, a, G, goal, most):
    """Move ``a`` and ``G`` = Ka - y in place until the gap is at most ``goal``, or ``most`` steps; return the steps."""
    n = len(a)
    diagonal, gain = np.empty(n), np.empty(n)
    for j in range(n):
        diagonal[j] = K[j, j]
    diagonal = np.maximum(diagonal, 1e-12 * diagonal.max())  # a row of zeros has no curvature
    every = max(50, n // 4)
    for step in range(most):
        if step % every == 0 and gap(a, G, low, high, tube) <= goal:
            return step
        _gains(a, G, diagonal, low, high, tube, gain)
        i = _largest(gain)
        if gain[i] <= 0.0:
            return step
        x = _alone(a[i], G[i], diagonal[i], low[i], high[i], tube)
        inside = x > low[i] and x < high[i] and (tube == 0.0 or x != 0.0)
        _gains_after(x - a[i], 1 / diagonal[i] if inside else 0.0, K[i], a, G, diagonal, low, high, tube, gain)
        gain[i] = -1e300  # not its own partner, even where no other gains anything
        p = _largest(gain)
        if p == i:  # the only coordinate
            G[i] += (x - a[i]) * K[i, i]
            a[i] = x
            continue
        x, z = _pair(i, p, K, diagonal, a, G, low, high, tube)
        d, e = x - a[i], z - a[p]
        a[i], a[p] = x, z
        _move(d, e, K[i], K[p], G)
    return most


@compiled_once(nogil=True, fastmath=True, error_model="numpy")
def weighted_rows(K, index, weight):
    """Σ weight_i K_i over the rows of ``index``, four at a time."""
    total, n = np.zeros(K.shape[1]), len(index) // 4 * 4
    for q in range(0, n, 4):
        a, b, c, d = K[index[q]], K[index[q + 1]], K[index[q + 2]], K[index[q + 3]]
        s, t, u, v = weight[q], weight[q + 1], weight[q + 2], weight[q + 3]
        for j in range(len(total)):
            total[j] += s * a[j] + t * b[j] + u * c[j] + v * d[j]
    for q in range(n, len(index)):
        row = K[index[q]]
        for j in range(len(total)):
            total[j] += weight[q] * row[j]
    return total
