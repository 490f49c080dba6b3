"""The Triton kernels of annealing: one step of many chains in two launches.

Chain c has E = log k_top (without γ) on its D2 x D1 block, twice: for the current weights, and for those proposed. With
the weight p of step i multiplied by f, that is v_ij or w_i of node i, d_j = x_j - x'_j, and S_i = Σ_l v_il² d_l²,

    S_i' = S_i + v_ij² (f² - 1) d_j²,      E' = E + 2 w_i'² (k_i' - 1) - 2 w_i² (k_i - 1),      t' = exp(γ⁻² E') α

so that a step touches one node, reads E once and writes E' once. The risk of t' decides on the device:
``Cur`` says which of the two E is the current one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hgk.kernels.sweeps.compiled.chains import LONGEST_EDGE
from hgk.kernels.sweeps.compiled.slopes import difference, exponent

BOUND = tl.constexpr(LONGEST_EDGE)


@triton.jit(do_not_specialize=["i", "d", "weights", "nodes", "length", "strips"])
def propose(
    E, Cur, X2, X1, Alpha, Y, Share, Rows2, Rows1, First, Column, Node, Size, Flat, V, W, Scale, Clip,
    Place, Factor, Steps, Partial, i, d, n2, n1, weights, nodes, length, strips, R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """E' and the risk's part of one strip of D2's rows."""
    c, r = tl.program_id(0), tl.program_id(1)
    if (i < tl.load(Steps + c)) & (r * R < tl.load(Rows2 + c)):
        p, f, size = tl.load(Place + c * length + i), tl.load(Factor + c * length + i), tl.load(Size + c)
        edge, flat = p >= size, tl.load(Flat + c) > 0
        q = c * weights + tl.where(edge, 0, p)
        node = tl.where(edge, p - size, tl.load(Node + q))
        v, w = tl.load(V + q), tl.load(W + c * nodes + node)
        change = tl.where(edge, 0.0, v * v * (f * f - 1.0))
        old = 2.0 * w * w
        new = tl.where(edge, old * f * f, old)
        first = tl.load(First + c * (nodes + 1) + node)
        last = tl.where(flat, first, tl.load(First + c * (nodes + 1) + node + 1))  # one node alone needs no S
        column = c * d + tl.load(Column + q)
        rows = r * R + tl.arange(0, R)
        current = tl.load(Cur + c)
        here = E + (2 * c + current).to(tl.int64) * n2 * n1
        there = E + (2 * c + 1 - current).to(tl.int64) * n2 * n1
        zero = tl.zeros([R, B], dtype=E.dtype.element_ty)
        t = tl.zeros([R], dtype=E.dtype.element_ty)
        for start in range(0, tl.load(Rows1 + c), B):
            cols = start + tl.arange(0, B)
            place = rows[:, None].to(tl.int64) * n1 + cols[None, :]
            D = difference(X2, X1, column, n2, n1, rows, cols)
            more = change * (D * D)
            S = exponent(X2, X1, Column, V, c, first, last, d, n2, n1, weights, rows, cols, zero)
            e = tl.load(here + place)
            moved = e + new * (tl.exp(-(S + more)) - 1.0) - old * (tl.exp(-S) - 1.0)
            e = tl.minimum(tl.where(flat, e - more, moved), 0.0)
            tl.store(there + place, e)
            t += tl.sum(tl.exp(tl.load(Scale + c) * e) * tl.load(Alpha + c * n1 + cols)[None, :], 1)
        bound = tl.load(Clip + c)
        error = tl.load(Y + c * n2 + rows) - tl.minimum(tl.maximum(t, -bound), bound)
        tl.store(Partial + c * strips + r, tl.sum(tl.load(Share + c * n2 + rows) * error * error))


@triton.jit(do_not_specialize=["i", "weights", "nodes", "length", "strips"])
def decide(
    Cur, Size, V, W, Place, Factor, Uniform, Steps, Partial, Risk, Accepted, i, weights, nodes, length, strips,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """The paper's rule; what is accepted becomes current."""
    c = tl.program_id(0)
    N = tl.load(Steps + c)
    if i < N:
        strip = tl.arange(0, WIDTH)
        risk = tl.sum(tl.load(Partial + c * strips + strip, mask=strip < strips, other=0.0))
        before = tl.load(Risk + c)
        gain = risk - before
        heat = 100.0 * (i + 1) / tl.sqrt(N.to(risk.dtype)) * gain / tl.maximum(before, 1e-300)
        yes = (gain < 0) | (tl.load(Uniform + c * length + i) < 0.5 * tl.exp(-tl.minimum(heat, 700.0)))
        p, f, size = tl.load(Place + c * length + i), tl.load(Factor + c * length + i), tl.load(Size + c)
        edge = p >= size
        v, w = V + c * weights + tl.where(edge, 0, p), W + c * nodes + tl.where(edge, p - size, 0)
        long = tl.abs(tl.load(w))
        yes = yes & ~(edge & (long * f > tl.maximum(long, BOUND)))  # annealing.too_long
        tl.store(v, tl.load(v) * f, mask=yes & (p < size))
        tl.store(w, tl.load(w) * f, mask=yes & edge)
        tl.store(Risk + c, risk, mask=yes)
        tl.store(Cur + c, 1 - tl.load(Cur + c), mask=yes)
        tl.store(Accepted + c, tl.load(Accepted + c) + 1, mask=yes)
