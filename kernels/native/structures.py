"""Fields of the C structures that ops take their arguments in."""

import ctypes

# Numbers that the C takes at once: sizes are multiples of it.
LANES = 8

# `enum dtype` of simd.h.
FP32, FP16 = 0, 1

Fields = tuple[tuple[str, type], ...]


def pointers(*names: str) -> Fields:
    return tuple((name, ctypes.c_void_p) for name in names)


def integers(*names: str) -> Fields:
    return tuple((name, ctypes.c_int32) for name in names)


def floats(*names: str) -> Fields:
    return tuple((name, ctypes.c_float) for name in names)
