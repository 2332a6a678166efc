"""The kernels as they are where Numba is not installed, and what several of their tests need."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import numpy as np

import tightrope
from tightrope import kernels


def without_numba() -> ModuleType:
    """The package `tightrope.kernels`, imported once more with Numba out of reach."""
    ours = {name for name in sys.modules if name.split(".")[:2] == ["tightrope", "kernels"]}
    kept = {name: sys.modules.pop(name) for name in ours}
    blocked = {name: sys.modules.get(name) for name in ("numba", "llvmlite")}
    try:
        sys.modules.update(dict.fromkeys(blocked))
        return importlib.import_module("tightrope.kernels")
    finally:
        for name in [name for name in sys.modules if name.split(".")[:2] == ["tightrope", "kernels"]]:
            del sys.modules[name]
        sys.modules.update(kept)
        sys.modules.update({name: module for name, module in blocked.items() if module is not None})
        tightrope.kernels = kernels


plain = without_numba()


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def started(K, p):
    """`core` of a policy in its first round."""
    return kernels.new_core(K, p, 100.0, (0.5, 0.5, 0.0), (1.5, -0.5, 0.0), 1.0)
