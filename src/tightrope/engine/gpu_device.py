"""Where the kernels of a GPU run: the contract, and the current CUDA device by CuPy."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope.engine.gpu_program import Program
from tightrope.errors import InvalidInput


class Device(Protocol):
    """Where kernels run."""

    name: str
    shared_bytes: int

    def memory(self) -> int:
        """Bytes of memory that may be used."""

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        """Launch and wait; the outputs in the order asked for, and the seconds that the kernel took."""


class Output(NamedTuple):
    """An array that a kernel writes, and the order of axes in which it is wanted."""

    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...]


class Work(NamedTuple):
    """Memory that a kernel needs, in bytes."""

    size: int


@functools.cache
def cuda_device() -> Device:
    """The current CUDA device, or why there is none."""
    try:
        import cupy
    except ImportError as error:
        raise InvalidInput(
            "engine='gpu' needs CuPy, which is not installed: pip install 'tightrope[gpu]', or the cupy package for your CUDA"
        ) from error
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InvalidInput(f"engine='gpu' needs a CUDA device, but none can be used here: {error}") from error
    return _Cuda(cupy, properties["name"].decode(), properties["sharedMemPerBlockOptin"])


@dataclass
class _Cuda:
    """The current CUDA device, by CuPy."""

    cupy: Any
    name: str
    shared_bytes: int
    modules: dict[Program, Any] = field(default_factory=dict)

    def memory(self) -> int:
        """Half of the memory that is free."""
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        return int(free) // 2

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        """Launch and wait; the outputs in the order asked for, and the seconds that the kernel took."""
        cupy = self.cupy
        module = self.modules.get(program)
        if module is None:
            options = ("--std=c++17", "--use_fast_math" if program.fused else "--fmad=false")
            module = self.modules[program] = cupy.RawModule(code=program.source, options=options)
        kernel = module.get_function(program.name)
        if program.shared > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = program.shared
        for name, value in constants.items():
            there = cupy.ndarray(value.shape, value.dtype, module.get_global(name))
            there[...] = cupy.asarray(value)
        passed, outputs = [], []
        for argument in arguments:
            if isinstance(argument, Output):
                array = cupy.zeros(argument.shape, argument.dtype)
                outputs.append((array, argument.axes))
                passed.append(array)
            elif isinstance(argument, Work):
                passed.append(cupy.empty(max(argument.size, 8), np.uint8))
            elif isinstance(argument, np.ndarray):
                # CuPy has no records; their bytes are the same.
                plain = argument.view(np.uint8) if argument.dtype.names else argument
                passed.append(cupy.asarray(plain))
            else:
                passed.append(argument)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel((blocks,), (program.threads,), tuple(passed), shared_mem=program.shared)
        end.record()
        end.synchronize()
        seconds = cupy.cuda.get_elapsed_time(begin, end) / 1000.0
        return [cupy.ascontiguousarray(array.transpose(axes)).get() for array, axes in outputs], seconds
