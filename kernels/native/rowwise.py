"""The row-wise ops by C kernels, each in one pass; other sizes and types are left to PyTorch."""

import ctypes

import torch

from kernels import cpu
from kernels.native.library import call

LANES = 8
FP32, FP16 = 0, 1


class Rows(ctypes.Structure):
    """`struct rows` of rowwise.c."""

    _fields_ = (
        ("count", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("eps", ctypes.c_float),
    )


class Heads(ctypes.Structure):
    """`struct heads` of rowwise.c."""

    _fields_ = tuple(
        (name, ctypes.c_int32) for name in ("tokens", "count", "dim", "stride", "threads")
    )


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    if not _can(x, x.shape[1]):
        return cpu.rms_norm(x, weight, eps)
    out = torch.empty(x.shape)
    call("gm_rms_norm", _rows(x, x.shape[1], eps), x, weight, out)
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    if not _can(x, x.shape[1]):
        return cpu.add_rms_norm(x, residual, weight, eps)
    normed, total = torch.empty(x.shape), torch.empty(x.shape)
    call("gm_add_rms_norm", _rows(x, x.shape[1], eps), x, residual, weight, normed, total)
    return normed, total


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    size = gate_up.shape[1] // 2
    if not _can(gate_up, size):
        return cpu.silu_mul(gate_up)
    out = torch.empty(len(gate_up), size)
    call("gm_silu_mul", _rows(gate_up, size), gate_up, out)
    return out


def rotary_embedding(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if not _can(q, q.shape[2] // 2):
        return cpu.rotary_embedding(q, k, positions, cos_sin)
    return _rotate(q, positions, cos_sin), _rotate(k, positions, cos_sin)


def _rotate(x: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape)
    call("gm_rotate", _heads(x), x, positions, cos_sin, out)
    return out


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    narrow = k_cache.dtype == torch.float16
    if not (narrow or k_cache.dtype == torch.float32) or not _can(k, k.shape[1] * k.shape[2]):
        cpu.store_kv(k, v, k_cache, v_cache, slot_mapping)
        return
    for x, cache in ((k, k_cache), (v, v_cache)):
        call("gm_store", _heads(x), x, slot_mapping, cache, FP16 if narrow else FP32)


def _can(x: torch.Tensor, size: int) -> bool:
    return x.dtype == torch.float32 and size % LANES == 0


def _rows(x: torch.Tensor, size: int, eps: float = 0.0) -> Rows:
    return Rows(len(x), size, torch.get_num_threads(), eps)


def _heads(x: torch.Tensor) -> Heads:
    return Heads(*x.shape, x.stride(0), torch.get_num_threads())
