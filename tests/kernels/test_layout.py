"""Every place in the flat arrays, read back by name; the CUDA source defines none of its own."""

from __future__ import annotations

import importlib.resources
import re

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from tightrope import kernels


@pytest.mark.parametrize("K", [0, 1, 9])
def test_core_has_what_it_was_given(K):
    known = np.arange(K) % 2
    core = kernels.new_core(K, 4, 50.0, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), known)
    views = kernels.core_views(core)
    same(views.V, [1.0, 2.0, 3.0])
    same(views.epsilon, [4.0, 5.0, 6.0])
    same(views.known, known)
    views.queue[:], views.totals[:] = 7.0, 8.0
    assert core[kernels.QUEUE : kernels.totals_at(core)].tolist() == [7.0] * K
    assert core[kernels.totals_at(core) : kernels.known_at(core)].tolist() == [8.0] * K
    # What is saved is read by the same views, and scratch space begins after it.
    same(kernels.core_views(views.saved.copy()).totals, views.totals)
    assert views.limits.tolist() == [np.inf, -np.inf], "the paper has no limit on ε_t, nor on r̂ from below"
    assert len(views.saved) + len(views.limits) == kernels.scratch_at(core, 4)
    *_, widths = kernels.scratch_parts(kernels.scratch_at(core, 4), 4)
    assert widths + 8 == kernels.outcome_at(core) == len(core) - 1


def test_flat_is_the_arrays_of_a_model():
    model = tr.DisjointRidge(3, 2)
    views = kernels.ridge_views(model.flat)
    for name, view in views._asdict().items():
        assert np.shares_memory(view, getattr(model, name))
        assert view.shape == getattr(model, name).shape
    assert kernels.BLOCKS + 3 + sum(view.size for view in views) == len(model.flat)


@pytest.mark.parametrize(("J", "K"), [(1, 0), (4, 0), (3, 2), (1, 5)])
def test_a_trace_is_what_explain_shows(J, K):
    trace = np.arange(float(kernels.trace_size(J, K)))
    views = kernels.trace_views(trace, J)
    assert views.costs.shape == (J, K)
    back = [views.rewards, views.values, views.costs.ravel(), views.queue, [views.V, views.epsilon]]
    same(np.concatenate(back), trace)


@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("K", [0, 2])
def test_a_tally_has_every_part_once(K, separate):
    J = 3
    tally = np.arange(float(kernels.tally_size(J, K, separate)))
    views = kernels.tally_views(tally[None], J, K)
    parts = [views.mean_reward[:, None], views.reward[:, None], views.costs]
    parts += [views.mean_costs, views.counts] if separate else [views.counts]
    same(np.concatenate(parts, axis=1)[0], tally)
    same(views.mean_costs, views.mean_costs if separate else views.costs)


def test_cuda_defines_no_place_of_its_own():
    folder = importlib.resources.files("tightrope.engine")
    source = "".join(
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("world.cuh", "replicate.cu")
    )
    macros = {name.split("(")[0] for name in kernels.cuda_constants()}
    assert not macros & set(re.findall(r"#define (\w+)", source))
    unused = {name for name in macros if not re.search(rf"\b{name}\b", source)}
    assert unused <= {"NO_MODEL"}
    assert f"{kernels.TO_UNIT!r}" == kernels.cuda_constants()["TO_UNIT"]


def test_the_blocks_memory_has_no_overlap():
    macros = kernels.cuda_block(5, 3, 100, 7, 4)
    starts = [macros[f"WORK_{name}"] for name in ("VALUES", "COSTS", "QUEUE", "TOTALS", "MEAN_TOTALS")]
    starts += [macros["WORK_LAST_VIOLATION"], macros["WORK_CHOICES"], macros["WORK_REALS"]]
    assert np.diff(starts).tolist() == [5, 15, 3, 3, 3, 3, 5]
    assert (macros["WORK"] - macros["WORK_REALS"]) * 8 >= (macros["REALS_DRAWN"] + 3) * 4
