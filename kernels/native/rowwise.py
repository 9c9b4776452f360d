"""The row-wise ops by C kernels, each in one pass; other sizes and types are left to PyTorch."""

import ctypes

import torch

from kernels import cpu
from kernels.native.kv_cache import DTYPES, is_ours
from kernels.native.program import compute, empty
from kernels.native.structures import LANES, floats, integers, pointers


class RmsNorm(ctypes.Structure):
    """`struct rms_norm` of rowwise.c."""

    _fields_ = (
        *pointers("x", "weight", "out"),
        *integers("heads", "size", "stride"),
        *floats("eps"),
    )


class AddRmsNorm(ctypes.Structure):
    """`struct add_rms_norm` of rowwise.c."""

    _fields_ = (
        *pointers("x", "residual", "weight", "out", "total"),
        *integers("size"),
        *floats("eps"),
    )


class Gate(ctypes.Structure):
    """`struct gate` of rowwise.c."""

    _fields_ = (*pointers("gate_up", "out"), *integers("size"))


class Rotate(ctypes.Structure):
    """`struct rotate` of rowwise.c."""

    _fields_ = (*pointers("x", "cos_sin", "positions", "out"), *integers("heads", "dim", "stride"))


class Store(ctypes.Structure):
    """`struct store` of rowwise.c."""

    _fields_ = (
        *pointers("k", "v", "slots", "k_cache", "v_cache"),
        *integers("heads", "dim", "block_size", "num_blocks", "k_stride", "v_stride", "type"),
    )


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    heads = x.shape[1] if x.ndim == 3 else 1
    if not _can(x, x.shape[-1]):
        return cpu.rms_norm(x, weight, eps)
    out = empty(x.shape)
    places = (each.data_ptr() for each in (x, weight, out))
    compute("gm_rms_norm", RmsNorm(*places, heads, x.shape[-1], x.stride(0), eps), rows=len(x))
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    num_rows, size = x.shape
    if not _can(x, size):
        return cpu.add_rms_norm(x, residual, weight, eps)
    normed, total = empty(x.shape), empty(x.shape)
    tensors = (x, residual, weight, normed, total)
    of = AddRmsNorm(*(each.data_ptr() for each in tensors), size, eps)
    compute("gm_add_rms_norm", of, rows=num_rows)
    return normed, total


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    if not _can(gate_up, gate_up.shape[1] // 2):
        return cpu.silu_mul(gate_up)
    return _gate("gm_silu_mul", gate_up)


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    if not _can(gate_up, gate_up.shape[1] // 2):
        return cpu.gelu_mul(gate_up)
    return _gate("gm_gelu_mul", gate_up)


def _gate(name: str, gate_up: torch.Tensor) -> torch.Tensor:
    num_rows, size = len(gate_up), gate_up.shape[1] // 2
    out = empty((num_rows, size))
    compute(name, Gate(gate_up.data_ptr(), out.data_ptr(), size), rows=num_rows)
    return out


def rotary_embedding(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if not _can(q, q.shape[2] // 2):
        return cpu.rotary_embedding(q, k, positions, cos_sin)
    return _rotate(q, positions, cos_sin), _rotate(k, positions, cos_sin)


def _rotate(x: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor) -> torch.Tensor:
    num_tokens, heads, dim = x.shape
    out = empty(x.shape)
    tensors = (x, cos_sin, positions, out)
    of = Rotate(*(each.data_ptr() for each in tensors), heads, dim, x.stride(0))
    compute("gm_rotate", of, rows=num_tokens)
    return out


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    if not (is_ours(k_cache, v_cache) and _can(k, k.shape[2])):
        cpu.store_kv(k, v, k_cache, v_cache, slot_mapping)
        return
    num_blocks, block_size, heads, dim = k_cache.shape
    places = (each.data_ptr() for each in (k, v, slot_mapping, k_cache, v_cache))
    sizes = (heads, dim, block_size, num_blocks, k.stride(0), v.stride(0), DTYPES[k_cache.dtype])
    compute("gm_store", Store(*places, *sizes), rows=len(k))


def can_compute_rows(size: int) -> bool:
    """Whether the C computes rows of that size, or leaves them to PyTorch."""
    return size % LANES == 0


def _can(x: torch.Tensor, size: int) -> bool:
    return x.dtype == torch.float32 and can_compute_rows(size)
