"""Vectors of four and eight numbers: the same, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from kernel_tools import plain, same
from tightrope.kernels import lanes


def lane_program(lanes):
    def program(x, out):
        v, w = lanes.load8(x, 1), lanes.load8(x, 2)
        lanes.store8(out, 0, v * w + -lanes.spread8(x[0]))
        lanes.store8(out, 8, lanes.positive(v))
        low, high = lanes.low4(v), lanes.high4(v)
        lanes.store8(out, 16, lanes.joined(high, low + lanes.spread4(x[1])))
        lanes.store4(out, 24, lanes.with_first(lanes.load4(x, 3), lanes.first(high)))
        lanes.store4(out, 28, lanes.four(x[4], x[3], x[2], x[1]))
        lanes.store8(out, 32, lanes.eight(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]))
        out[40] = lanes.fold4(low)

    return program


@pytest.mark.parametrize("program", [njit(lane_program(lanes)), lane_program(plain.lanes)])
def test_vectors_do_what_they_say(program):
    x = np.random.default_rng(0).normal(size=12)
    out = np.full(41, 7.0)
    program(x, out)
    v = x[1:9]
    same(out[:8], v * x[2:10] - x[0])
    same(out[8:16], np.maximum(0, v))
    same(out[16:24], [*v[4:], *(v[:4] + x[1])])
    same(out[24:28], [v[4], *x[4:7]])
    same(out[28:32], x[4:0:-1])
    same(out[32:40], x[:8])
    assert out[40] == (v[0] + v[1]) + (v[2] + v[3])
