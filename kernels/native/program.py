"""Computes ops of the library: each at once, or recorded first and then run as one program.

A pass over a model is the same ops on the same memory at every step, but for the number of its
rows.  So the pass is recorded once, with nothing computed, and each step then is one call: between
two ops no Python runs, no memory is asked for, and threads wait awake while that takes no longer
than to be woken.
"""

import ctypes
import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from kernels.attention_metadata import AttentionMetadata
from kernels.native.library import function, library
from kernels.native.structures import integers, pointers

S = TypeVar("S", bound=ctypes.Structure)


class Op(ctypes.Structure):
    """`struct op` of program.c."""

    _fields_ = (*pointers("compute", "arguments"), *integers("per_token"))


class Memory:
    """Lends memory for tensors, and lends it again once all tensors upon it are gone."""

    def __init__(self) -> None:
        self.size = 0  # bytes, lent or not
        self._free: dict[int, list[np.ndarray]] = defaultdict(list)  # by bytes

    def lend(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        size = math.prod(shape) * dtype.itemsize
        free = self._free[size]
        if not free:
            free.append(np.zeros(size, dtype=np.uint8))
            self.size += size
        block = free.pop()
        lent = block[:]  # an object of its own: it dies with the last tensor that reads it
        weakref.finalize(lent, free.append, block)
        return torch.from_numpy(lent).view(dtype).view(shape)


class Program:
    """Ops in their order, for as many tokens as there are at each run.

    tokens: that the pass is recorded with; no run may have more
    """

    result: torch.Tensor

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.memory = Memory()
        self.stepwise: dict[Callable[[AttentionMetadata], ctypes.Structure], ctypes.Structure] = {}
        self._arguments: list[ctypes.Structure] = []
        self._ops: list[Op] = []

    @cached_property
    def _in_c(self) -> "ctypes.Array[Op]":
        """The ops, once all are recorded."""
        return _array(self._ops)

    def add(self, name: str, arguments: ctypes.Structure, rows: int) -> None:
        self._arguments.append(arguments)
        self._ops.append(_op(name, arguments, per_token=rows // self.tokens))

    def run(self, tokens: int, metadata: AttentionMetadata | None) -> torch.Tensor:
        """metadata: the step's, instead of the one that was recorded; None if there was none.

        Returns the rows that the recorded pass returned, `tokens` of them; the next run overwrites
        them.
        """
        for make, place in self.stepwise.items():
            assert metadata is not None, "this program attends"
            made = metadata.once(make, partial(make, metadata))
            ctypes.pointer(place)[0] = made
        _run(self._in_c, tokens)
        return self.result[:tokens]


_recording: ContextVar[Program | None] = ContextVar("recording", default=None)


def record(forward: Callable[[], torch.Tensor], *, tokens: int) -> Program | None:
    program = Program(tokens)
    before = _recording.set(program)
    try:
        with _NothingButViews():
            program.result = forward()
    except _Computes:
        return None
    finally:
        _recording.reset(before)
    return program


def empty(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Memory for what an op gives, or works with."""
    program = _recording.get()
    return program.memory.lend(shape, dtype) if program else torch.empty(shape, dtype=dtype)


def compute(name: str, arguments: ctypes.Structure, *, rows: int) -> None:
    """Have an op computed.  What `arguments` points to must live until then."""
    program = _recording.get()
    if program:
        program.add(name, arguments, rows)
    else:
        _run(_array([_op(name, arguments, per_token=1)]), rows)


def of_step(
    metadata: AttentionMetadata, make: Callable[[AttentionMetadata], S], kind: type[S]
) -> S:
    """What `make` makes of a step, once a step.  A program has it made anew at each run.

    make: is found again by being equal
    """
    program = _recording.get()
    if program is None:
        return metadata.once(make, lambda: make(metadata))
    place = program.stepwise.setdefault(make, kind())
    assert isinstance(place, kind)
    return place


class _Computes(Exception):
    """PyTorch is to compute something, which no program can hold."""


# What tells of a tensor without a look at its numbers, and what gives views, or copies where it
# cannot, which show.  Nothing else is let through: to look or to compute in place would not show.
_TELL = {"__get__", "__len__", "data_ptr", "dim", "is_contiguous", "numel", "size", "stride"}
_VIEW = {
    *("__getitem__", "chunk", "contiguous", "flatten", "float", "permute"),
    *("reshape", "split", "to", "transpose", "unbind", "view"),
}


class _NothingButViews(TorchFunctionMode):
    """Not a dispatch mode, though that would see more: it loads torch's compiler, 100 MB of it."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.__name__ not in _TELL | _VIEW:
            raise _Computes(str(func))
        result = func(*args, **(kwargs or {}))
        given = {_memory(each) for each in args if isinstance(each, torch.Tensor)}
        made = result if isinstance(result, tuple) else (result,)
        tensors = [each for each in made if isinstance(each, torch.Tensor)]
        if not given.issuperset(map(_memory, tensors)):
            raise _Computes(str(func))
        return result


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _op(name: str, arguments: ctypes.Structure, *, per_token: int) -> Op:
    return Op(function(name), ctypes.addressof(arguments), per_token)


def _array(ops: Sequence[Op]) -> "ctypes.Array[Op]":
    return (Op * len(ops))(*ops)


def _run(ops: "ctypes.Array[Op]", tokens: int) -> None:
    found = library()
    assert found is not None, "the dispatcher chooses this path only where there is a library"
    if not found.gm_run(ops, len(ops), tokens, torch.get_num_threads()):
        raise IndexError("a slot beyond the cache: nothing was stored there")
