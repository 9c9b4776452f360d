"""Turns the settings that were asked for into values for all of them, or says why it cannot."""

import torch

from engine.config import DTYPES, EngineConfig, EngineSettings, kv_dtype
from engine.device_memory import memory_for_kv
from engine.errors import ModelUnusable
from engine.models.shape import ModelShape
from kernels import native

# (sequences, tokens) of one step.  A CPU is busy with few rows; a GPU wants many.
STEP_SIZES = {"cpu": (64, 512), "cuda": (512, 4096)}


def resolve_device(settings: EngineSettings) -> torch.device:
    """Raises ModelUnusable if the device is not one that is here."""
    name = settings.get("device", "auto")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelUnusable(f"device {name!r} is none of auto, cpu, cuda, cuda:N") from error
    if device.type not in STEP_SIZES:
        raise ModelUnusable(f"device {name!r} is none of auto, cpu, cuda, cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelUnusable(
            f"device {name!r} is not here: {torch.cuda.device_count()} CUDA devices"
        )
    return device


def resolve_dtype(settings: EngineSettings, device: torch.device) -> torch.dtype:
    precision = settings.get("precision", "auto")
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" else "fp32"
    if precision not in DTYPES:
        raise ModelUnusable(f"precision {precision!r} is none of auto, {', '.join(DTYPES)}")
    if precision == "int8" and device.type != "cpu":
        raise ModelUnusable(f"precision int8 is for CPUs, not for {device}")
    if precision == "int8" and native.library() is None:
        raise ModelUnusable(
            "precision int8 needs the compiled CPU kernels, which want gcc and AVX2"
        )
    return DTYPES[precision]


def resolve_config(
    settings: EngineSettings, shape: ModelShape, *, device: torch.device, dtype: torch.dtype
) -> EngineConfig:
    """Called with the weights loaded.  Raises ModelUnusable if `max_model_len` cannot fit."""
    max_num_seqs, max_num_batched_tokens = STEP_SIZES[device.type]
    max_num_seqs = settings.get("max_num_seqs") or max_num_seqs
    max_num_batched_tokens = settings.get("max_num_batched_tokens") or max(
        max_num_batched_tokens, max_num_seqs
    )
    if max_num_batched_tokens < max_num_seqs:
        raise ModelUnusable(
            f"max_num_batched_tokens {max_num_batched_tokens} is less than "
            f"max_num_seqs {max_num_seqs}: every sequence needs one token a step"
        )
    block_size = settings.get("block_size", 16)
    memory_fraction = settings.get("memory_fraction", 0.9)
    kv_bytes = settings.get("kv_cache_bytes") or memory_for_kv(
        device,
        memory_fraction=memory_fraction,
        reserve=_activation_bytes(shape, max_num_seqs, max_num_batched_tokens, dtype),
    )
    num_blocks = kv_bytes // (block_size * kv_bytes_per_token(shape, dtype))
    max_model_len = _max_model_len(settings.get("max_model_len"), shape, num_blocks * block_size)
    return EngineConfig(
        dtype=dtype,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        block_size=block_size,
        num_blocks=num_blocks,
        memory_fraction=memory_fraction,
    )


def refuse_sizes(settings: EngineSettings) -> None:
    """Raises ModelUnusable for a number that no setting can have."""
    sizes = {
        "max_model_len": settings.get("max_model_len"),
        "max_num_seqs": settings.get("max_num_seqs"),
        "max_num_batched_tokens": settings.get("max_num_batched_tokens"),
        "kv_cache_bytes": settings.get("kv_cache_bytes"),
        "block_size": settings.get("block_size"),
        "threads": settings.get("threads"),
    }
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ModelUnusable(f"{name} must be at least 1, not {size}")
    fraction = settings.get("memory_fraction", 1.0)
    if not 0 < fraction <= 1:
        raise ModelUnusable(f"memory_fraction must be more than 0 and at most 1, not {fraction}")


def kv_bytes_per_token(shape: ModelShape, dtype: torch.dtype) -> int:
    return 2 * shape.num_layers * shape.kv_size * kv_dtype(dtype).itemsize


def _max_model_len(asked: int | None, shape: ModelShape, kv_tokens: int) -> int:
    if kv_tokens < 1:
        raise ModelUnusable("the KV cache has room for no block at all: raise kv_cache_bytes")
    if asked is None:
        return min(shape.max_position_embeddings, kv_tokens)
    if asked > shape.max_position_embeddings:
        raise ModelUnusable(
            f"max_model_len {asked} is more than the {shape.max_position_embeddings} positions "
            "that the model knows"
        )
    if asked > kv_tokens:
        raise ModelUnusable(
            f"max_model_len {asked} cannot fit: the KV cache holds {kv_tokens} tokens; lower "
            "max_model_len or raise kv_cache_bytes or memory_fraction"
        )
    return asked


def _activation_bytes(shape: ModelShape, num_seqs: int, num_tokens: int, dtype: torch.dtype) -> int:
    """An upper estimate of what a step needs beside weights and KV."""
    per_token = 6 * shape.hidden_size + 3 * shape.intermediate_size + 2 * shape.q_size
    logits = num_seqs * shape.vocab_size
    return num_tokens * per_token * dtype.itemsize + logits * (dtype.itemsize + 3 * 8)
