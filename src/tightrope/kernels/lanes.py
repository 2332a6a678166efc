"""Vectors of four or eight numbers for the kernels: elementwise operations on what fits in a processor register.

LLVM vectorises little of the kernels' loops by itself: they are short, and it may not change the order of a sum. With
these vectors the kernels say what runs side by side, and every sum keeps its order. Vectors are negated, added, subtracted and
multiplied with the usual operators. Addresses are flat indices into C-contiguous arrays of float64; nothing is checked.

Each function is first defined in NumPy, which also does the work if Numba is not installed; its compiled form follows.
"""

from __future__ import annotations

import inspect
import operator

import numpy as np


def spread4(x):
    return np.full(4, x)


def spread8(x):
    return np.full(8, x)


def four(a, b, c, d):
    return np.array([a, b, c, d])


def eight(a, b, c, d, e, f, g, h):
    return np.array([a, b, c, d, e, f, g, h])


def load4(array, at):
    return array[at : at + 4].copy()


def load8(array, at):
    return array[at : at + 8].copy()


def store4(array, at, v):
    array[at : at + 4] = v


def store8(array, at, v):
    array[at : at + 8] = v


def positive(v):
    """max(0, v) of eight, or of one number."""
    return np.where(v > 0.0, v, 0.0)[()]


def joined(low, high):
    return np.concatenate([low, high])


def low4(v):
    return v[:4]


def high4(v):
    return v[4:]


def first(v):
    return v[0]


def with_first(v, x):
    return np.concatenate([[x], v[1:]])


def fold4(v):
    return (v[0] + v[1]) + (v[2] + v[3])


try:
    from llvmlite import ir
    from numba import types
    from numba.core.datamodel import models
    from numba.core.imputils import lower_builtin
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import intrinsic, register_model
except ModuleNotFoundError:
    pass
else:
    DOUBLE, INDEX = ir.DoubleType(), ir.IntType(32)

    class Lanes(types.Type):
        """The type of a vector of n numbers."""

        def __init__(self, n):
            self.n = n
            super().__init__(name=f"Lanes({n})")

    @register_model(Lanes)
    class _Vector(models.PrimitiveModel):
        def __init__(self, manager, lanes):
            super().__init__(manager, lanes, _vector(lanes.n))

    FOUR, EIGHT = Lanes(4), Lanes(8)

    def _vector(n, of=DOUBLE):
        return ir.VectorType(of, n)

    def _constant(numbers, of=INDEX):
        return ir.Constant(_vector(len(numbers), of), list(numbers))

    def _operator(operation, instruction, n=2):
        @infer_global(operation)
        class Typing(AbstractTemplate):
            def generic(self, args, kws):
                if len(args) == n and isinstance(args[0], Lanes) and args[0] == args[-1]:
                    return signature(args[0], *args)
                return None

        @lower_builtin(operation, *[Lanes] * n)
        def code(context, builder, sig, args):
            return getattr(builder, instruction)(*args)

    for _operation, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
        _operator(_operation, _instruction)
    _operator(operator.neg, "fneg", 1)

    def _compiled(result, arguments, emit):
        """An intrinsic: None among its argument types stands for an array, which `emit` gets as a pointer."""

        def typed(typingctx, *given):
            for wanted, found in zip(arguments, given, strict=True):
                plain = (
                    isinstance(found, types.Array) and found.dtype == types.float64 and found.layout == "C"
                )
                if (wanted is None and not plain) or (isinstance(wanted, Lanes) and wanted != found):
                    return None

            def code(context, builder, sig, args):
                values = [
                    context.make_array(kind)(context, builder, value).data if wanted is None else value
                    for wanted, kind, value in zip(arguments, sig.args, args, strict=True)
                ]
                value = emit(builder, *values)
                return context.get_dummy_value() if result is types.void else value

            signature = [found if wanted is None else wanted for wanted, found in zip(arguments, given)]
            return result(*signature), code

        names = ["typingctx", *"abcdefgh"[: len(arguments)]]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        typed.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        return intrinsic(typed)

    def _filled(builder, *numbers):
        vector = ir.Constant(_vector(len(numbers), numbers[0].type), ir.Undefined)
        for i, x in enumerate(numbers):
            vector = builder.insert_element(vector, x, ir.Constant(INDEX, i))
        return vector

    def _spread(n):
        def emit(builder, x):
            vector = _filled(builder, x)
            return builder.shuffle_vector(vector, vector, _constant([0] * n))

        return emit

    def _address(builder, pointer, at, n):
        return builder.bitcast(builder.gep(pointer, [at]), _vector(n).as_pointer())

    def _load(n):
        return lambda builder, pointer, at: builder.load(_address(builder, pointer, at, n), align=8)

    def _store(n):
        return lambda builder, pointer, at, v: builder.store(v, _address(builder, pointer, at, n), align=8)

    def _chosen(places):
        return lambda builder, v, w=None: builder.shuffle_vector(v, v if w is None else w, _constant(places))

    def _element(builder, v, i):
        return builder.extract_element(v, ir.Constant(INDEX, i))

    def _fold(builder, v):
        a, b, c, d = (_element(builder, v, i) for i in range(4))
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))

    def _positive(typingctx, v):
        def code(context, builder, sig, args):
            zero = ir.Constant(args[0].type, None)
            return builder.select(builder.fcmp_ordered(">", args[0], zero), args[0], zero)

        return (v(v), code) if v in (EIGHT, types.float64) else None

    positive = intrinsic(_positive)  # type: ignore[assignment]
    _number, _place = types.float64, types.intp
    spread4 = _compiled(FOUR, [_number], _spread(4))
    spread8 = _compiled(EIGHT, [_number], _spread(8))
    four = _compiled(FOUR, [_number] * 4, _filled)
    eight = _compiled(EIGHT, [_number] * 8, _filled)
    load4 = _compiled(FOUR, [None, _place], _load(4))
    load8 = _compiled(EIGHT, [None, _place], _load(8))
    store4 = _compiled(types.void, [None, _place, FOUR], _store(4))
    store8 = _compiled(types.void, [None, _place, EIGHT], _store(8))
    joined = _compiled(EIGHT, [FOUR, FOUR], _chosen(range(8)))
    low4 = _compiled(FOUR, [EIGHT], _chosen(range(4)))
    high4 = _compiled(FOUR, [EIGHT], _chosen(range(4, 8)))
    first = _compiled(_number, [FOUR], lambda builder, v: _element(builder, v, 0))
    with_first = _compiled(
        FOUR, [FOUR, _number], lambda builder, v, x: builder.insert_element(v, x, ir.Constant(INDEX, 0))
    )
    fold4 = _compiled(_number, [FOUR], _fold)
