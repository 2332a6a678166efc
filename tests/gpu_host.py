"""The CUDA source compiled for the host by the C++ compiler: a device for `tightrope.engine.gpu` that needs no GPU.

Threads of a block are threads of the host, barriers and shuffles are real, so what runs is the kernels' own logic. Where lanes of a
warp share a replication, there is one of them by default, for barriers are slow here.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.engine.gpu import Output, Work
from tightrope.engine.gpu_program import ONE_BLOCK, SHADOW_PRICE, SHARED_BYTES, Program

SHIM = r"""
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>
using std::sqrt; using std::log; using std::exp; using std::cos; using std::sin; using std::fmin; using std::fmax;

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define RESTRICT
#define __global__
#define __constant__
#define __launch_bounds__(...)
#define SHARED_ROOM(type, name) type* name = (type*)shared_room

struct Index { unsigned x; };
static thread_local Index threadIdx;
static Index blockIdx, blockDim;
static char* shared_room;
"""

# Only a block that works together needs threads of its own.
THREADS = r"""
#include <barrier>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
#ifndef LANES
#define LANES 32
#endif
static std::vector<double> slots;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static std::unique_ptr<std::barrier<>> block;

static inline void __syncthreads() { block->arrive_and_wait(); }
static inline void __syncwarp(unsigned) { warps[threadIdx.x / LANES]->arrive_and_wait(); }
template <typename T>
static inline T from_thread(T x, unsigned thread) {
    auto& warp = *warps[threadIdx.x / LANES];
    std::memcpy(&slots[threadIdx.x], &x, sizeof x);
    warp.arrive_and_wait();
    T other;
    std::memcpy(&other, &slots[thread], sizeof other);
    warp.arrive_and_wait();
    return other;
}
template <typename T>
static inline T __shfl_xor_sync(unsigned, T x, int step) { return from_thread(x, threadIdx.x ^ step); }
template <typename T>
static inline T __shfl_sync(unsigned, T x, int lane, int) { return from_thread(x, threadIdx.x / LANES * LANES + lane); }
"""

LAUNCH = r"""
template <typename... Types>
static void launch_as(void (*kernel)(Types...), unsigned blocks, unsigned threads, size_t bytes, void** given) {
    blockDim.x = threads;
    shared_room = (char*)std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    auto call = [&]<size_t... I>(std::index_sequence<I...>) { kernel(*(Types*)given[I]...); };
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
#if KERNEL == ONE_BLOCK || (KERNEL == SHADOW_PRICE && LANES > 1)
        slots.assign(threads, 0);
        warps.clear();
        for (unsigned w = 0; w < threads / LANES; w++) warps.push_back(std::make_unique<std::barrier<>>(LANES));
        block = std::make_unique<std::barrier<>>(threads);
        std::vector<std::thread> pool;
        for (unsigned i = 0; i < threads; i++)
            pool.emplace_back([&, i] { threadIdx.x = i; call(std::index_sequence_for<Types...>()); });
        for (auto& one : pool) one.join();
#else
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) call(std::index_sequence_for<Types...>());
#endif
    }
    std::free(shared_room);
}
extern "C" void launch(unsigned blocks, unsigned threads, size_t bytes, void** given) {
    launch_as(%s, blocks, threads, bytes, given);
}
"""

COMPILER = shutil.which("g++") or shutil.which("clang++")


class Host:
    """Compiles each program once; `memory_bytes` makes batches small when it is."""

    name = "host"

    def __init__(
        self,
        memory_bytes: int = 2**30,
        shared_bytes: int = SHARED_BYTES,
        block_threads: int = 64,
        lanes: int = 1,
    ) -> None:
        self.memory_bytes = memory_bytes
        self.shared_bytes = shared_bytes
        self.block_threads = block_threads
        self.lanes = lanes
        self.launches = 0
        self.folder = Path(tempfile.gettempdir()) / "tightrope-gpu-host"
        self.folder.mkdir(exist_ok=True)

    def memory(self) -> int:
        return self.memory_bytes

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        self.launches += 1
        if program.kernel == SHADOW_PRICE:
            sizes = {**dict(program.sizes), "LANES": self.lanes}
            program = replace(program, sizes=tuple(sizes.items()), threads=program.together * self.lanes)
        library = self._library(program)
        for name, value in constants.items():
            there = (ctypes.c_byte * value.nbytes).in_dll(library, name)
            ctypes.memmove(there, value.ctypes.data, value.nbytes)
        kept: list[Any] = []
        outputs: list[tuple[NDArray[Any], tuple[int, ...]]] = []
        for argument in arguments:
            if isinstance(argument, Output):
                array = np.full(argument.shape, 99, argument.dtype)
                outputs.append((array, argument.axes))
                kept.append(ctypes.c_void_p(array.ctypes.data))
            elif isinstance(argument, Work):
                room = np.full(argument.size // 8 + 8, np.nan)
                kept.append(ctypes.c_void_p(room.ctypes.data))
                kept[-1]._room = room
            elif isinstance(argument, np.ndarray):
                aligned = _aligned(argument)
                kept.append(ctypes.c_void_p(aligned.ctypes.data))
                kept[-1]._array = aligned
            else:
                kept.append(np.ctypeslib.as_ctypes(np.asarray(argument)))
        given = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(one) for one in kept))
        started = time.perf_counter()
        threads = self.block_threads if program.kernel == ONE_BLOCK else program.threads
        library.launch(ctypes.c_uint(blocks), ctypes.c_uint(threads), ctypes.c_size_t(program.shared), given)
        seconds = time.perf_counter() - started
        return [np.ascontiguousarray(array.transpose(axes)) for array, axes in outputs], seconds

    def _library(self, program: Program) -> ctypes.CDLL:
        alone = program.kernel != ONE_BLOCK and (program.kernel != SHADOW_PRICE or self.lanes == 1)
        lanes = [f"#define LANES {self.lanes}"] if program.kernel == SHADOW_PRICE else []
        parts = [SHIM] if alone else [SHIM, *lanes, THREADS]
        text = "\n".join([*parts, program.source, LAUNCH % program.name])
        fused = "fast" if program.fused else "off"
        path = self.folder / f"{hashlib.sha256((text + fused).encode()).hexdigest()[:24]}.so"
        if not path.exists():
            draft = Path(tempfile.mkstemp(suffix=".so", dir=self.folder)[1])
            command = [
                COMPILER,
                "-x",
                "c++",
                "-std=c++20",
                "-O0",
                "-fPIC",
                "-shared",
                "-pthread",
                "-Wall",
                "-Wextra",
                "-Werror",
            ]
            quiet = [
                "-Wno-unknown-pragmas",
                "-Wno-unused-parameter",
                "-Wno-unused-function",
                "-Wno-unused-but-set-variable",
            ]
            quiet += ["-Wno-unused-variable", "-Wno-type-limits", "-Wno-sign-compare"]
            subprocess.run(
                [*command, *quiet, f"-ffp-contract={fused}", "-", "-o", str(draft)],
                input=text.encode(),
                check=True,
            )
            draft.replace(path)
        return ctypes.CDLL(str(path))


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that starts at a multiple of 64 bytes, as on a device."""
    room = np.zeros(array.nbytes + 64, dtype=np.uint8)
    at = -room.ctypes.data % 64
    copy = room[at : at + array.nbytes].view(array.dtype).reshape(array.shape) if array.size else room
    copy[...] = array if array.size else 0
    return copy
