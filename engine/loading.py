"""Puts an engine together: model, KV cache, scheduler, tokenizer."""

from collections.abc import Callable
from time import monotonic
from typing import Unpack

import torch

from engine.block_pool import BlockPool
from engine.config import EngineConfig, EngineSettings, kv_dtype
from engine.container import usable_cpus
from engine.determinism import determinism_report, refuse_unless_deterministic
from engine.device_memory import give_back_freed_memory
from engine.engine import Engine
from engine.forecast import LengthForecast
from engine.grammars import Grammars
from engine.intake import Intake
from engine.kv_cache import allocate_kv_cache
from engine.model_runner import ModelRunner
from engine.models.decoder import Decoder
from engine.models.registry import load_model
from engine.opening import open_model
from engine.prefix_tree import PrefixTree
from engine.resolving import (
    kv_bytes_per_token,
    refuse_sizes,
    resolve_config,
    resolve_device,
    resolve_dtype,
)
from engine.scheduler import Scheduler
from engine.sequence_blocks import SequenceBlocks
from engine.sliding_window import SlidingWindow
from engine.step_inputs import StepInputBuilder
from engine.tokenizer import Tokenizer


def load_engine(
    model: str,
    *,
    on_report: Callable[[str], None] = print,
    clock: Callable[[], float] = monotonic,
    **settings: Unpack[EngineSettings],
) -> Engine:
    """Load a model and be ready for requests.

    model: a Hugging Face folder with safetensors, a .gguf file, or a bundled model's name
    on_report: is told, line by line, what every setting was resolved to
    clock: seconds, from any start, that never go back
    settings: see EngineSettings

    Raises ModelUnusable, with one sentence for a person, if the checkpoint is missing, truncated,
    pickled or of an unknown architecture, or if the settings cannot be met.
    """
    refuse_sizes(settings)
    device, dtype = _settle_device(settings)
    checkpoint, tokenizer = open_model(model)
    give_back_freed_memory()
    loaded = load_model(checkpoint, device=device, dtype=dtype)
    give_back_freed_memory()
    if settings.get("deterministic", False):
        refuse_unless_deterministic(loaded.shape, device, dtype)
    config = resolve_config(settings, loaded.shape, device=device, dtype=dtype)
    for line in _report(model, loaded, config):
        on_report(line)
    return put_together(loaded, tokenizer, config, digest=checkpoint.digest, clock=clock)


def put_together(
    model: Decoder,
    tokenizer: Tokenizer,
    config: EngineConfig,
    *,
    digest: bytes,
    clock: Callable[[], float] = monotonic,
) -> Engine:
    """An engine around a model that is loaded.  digest: see Checkpoint"""
    vocab_size = model.shape.vocab_size
    grammars = Grammars(
        tokenizer.to_json,
        num_tokens=max(vocab_size, tokenizer.num_tokens),
        eos_token_ids=tokenizer.eos_token_ids,
    )
    return Engine(
        _scheduler(config, digest, window=model.shape.window),
        _runner(model, config),
        intake=Intake(
            tokenizer, grammars, vocab_size=vocab_size, max_model_len=config.max_model_len
        ),
        grammars=grammars,
        tokenizer=tokenizer,
        clock=clock,
    )


def _settle_device(settings: EngineSettings) -> tuple[torch.device, torch.dtype]:
    device = resolve_device(settings)
    dtype = resolve_dtype(settings, device)
    if device.type == "cpu":
        torch.set_num_threads(settings.get("threads") or usable_cpus())
    return device, dtype


def _scheduler(config: EngineConfig, digest: bytes, *, window: int | None) -> Scheduler:
    pool = BlockPool(config.num_blocks, config.block_size)
    tree = PrefixTree(block_size=config.block_size, model=digest)
    sliding = None
    if window is not None:
        sliding = SlidingWindow(window, config.max_num_batched_tokens, config.block_size)
    return Scheduler(
        SequenceBlocks(pool, tree, sliding),
        LengthForecast(),
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
    )


def _runner(model: Decoder, config: EngineConfig) -> ModelRunner:
    inputs = StepInputBuilder(
        max_tokens=config.max_num_batched_tokens,
        max_seqs=config.max_num_seqs,
        max_blocks=-(-config.max_model_len // config.block_size),
        block_size=config.block_size,
        device=model.device,
    )
    kv_cache = allocate_kv_cache(
        model.shape,
        config.num_blocks,
        config.block_size,
        dtype=kv_dtype(config.dtype),
        device=model.device,
    )
    return ModelRunner(model, kv_cache, inputs)


def _report(name: str, model: Decoder, config: EngineConfig) -> list[str]:
    kv_bytes = config.num_kv_tokens * kv_bytes_per_token(model.shape, config.dtype)
    threads = f", threads {torch.get_num_threads()}" if model.device.type == "cpu" else ""
    return [
        f"model {name}: {str(config.dtype).removeprefix('torch.')} on {model.device}{threads}",
        f"max_model_len {config.max_model_len}, max_num_seqs {config.max_num_seqs}, "
        f"max_num_batched_tokens {config.max_num_batched_tokens}, "
        f"block_size {config.block_size}, kv_cache_bytes {kv_bytes}, "
        f"memory_fraction {config.memory_fraction}",
        f"KV cache: {kv_bytes / 1024**3:.2f} GiB, {config.num_blocks} blocks of "
        f"{config.block_size} tokens, {config.num_kv_tokens} tokens; maximum concurrency for "
        f"{config.max_model_len} tokens per request: {config.max_concurrency:.1f}x",
        determinism_report(model.shape, model.device, config.dtype),
    ]
