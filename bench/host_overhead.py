"""What a step costs outside the model: 64 running sequences, alone and with 100,000 that wait.

    python -m bench.host_overhead [--waiting 100000] [--vocabulary-of MODEL] [--grammar]

The model has one layer that does nothing, so that what is left of a step is scheduling, inputs,
sampling, and looking at tokens.  CPU time of the thread that steps is told beside the wall: on a
busy machine it says more.
"""

import argparse
import gc
import json
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.random_model import TINY, write_random_model
from bench.quantiles import milliseconds
from engine.config import EngineConfig
from engine.engine import Engine
from engine.loading import put_together
from engine.models.decoder import Decoder, DecoderLayer
from engine.models.linear import Linear
from engine.models.shape import ModelShape
from engine.opening import open_model
from engine.requests import Grammar, Request, SamplingParams
from engine.tokenizer import Tokenizer

RUNNING = 64
_STEPS = 200
_WARM_UP = 20
_PROMPT = 24  # tokens, half of them shared
_TOKENS = 256  # different ones: every vocabulary has as many
_STRINGS = Grammar("json_schema", '{"type": "array", "items": {"type": "string"}}')


def host_overhead(
    model: str, *, waiting: int, grammar: bool = False, steps: int = _STEPS
) -> dict[str, Any]:
    """Milliseconds of a step of decodes, with nobody else there and beside `waiting` requests.

    model: whose tokenizer and vocabulary
    grammar: whether every completion must be a JSON array of strings
    """
    figures: dict[str, Any] = {"grammar": grammar}
    params = SamplingParams(
        max_tokens=steps + 2 * _WARM_UP, ignore_eos=True, grammar=_STRINGS if grammar else None
    )
    for name, count in (("alone", 0), ("beside", waiting)):
        engine = _idle_engine(model)
        engine.add(_requests("running", RUNNING, params))
        engine.add(_requests("waiting", count, params))
        times = _steps(engine, steps)
        stats = engine.stats()
        figures[name] = {"running": stats.running, "waiting": stats.waiting, **times}
    return figures


def _idle_engine(model: str) -> Engine:
    checkpoint, tokenizer = open_model(model)
    shape = ModelShape(
        vocab_size=checkpoint.config["vocab_size"],
        hidden_size=64,
        intermediate_size=64,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_dim=16,
        rms_norm_eps=1e-5,
        max_position_embeddings=4096,
        tied_head=True,
    )
    return _engine(shape, tokenizer, digest=checkpoint.digest)


def _engine(shape: ModelShape, tokenizer: Tokenizer, *, digest: bytes) -> Engine:
    table, ones = torch.randn(shape.vocab_size, shape.hidden_size), torch.ones(shape.hidden_size)
    layer = DecoderLayer(
        input_norm=ones,
        attend=lambda normed, inputs, cache: normed,
        feed_forward_norm=ones,
        feed_forward=lambda normed: normed,
    )
    model = Decoder(
        shape, [layer], embed=lambda ids: table[ids], final_norm=ones, head=Linear(table)
    )
    config = EngineConfig(
        dtype=torch.float32,
        max_model_len=shape.max_position_embeddings,
        max_num_seqs=RUNNING,
        max_num_batched_tokens=8 * RUNNING,
        block_size=16,
        num_blocks=4096,
        memory_fraction=0.9,
    )
    return put_together(model, tokenizer, config, digest=digest)


def _requests(name: str, count: int, params: SamplingParams) -> list[Request]:
    rng = random.Random(name)
    shared = rng.choices(range(_TOKENS), k=_PROMPT // 2)
    return [
        Request(
            request_id=f"{name} {number}",
            prompt=shared + rng.choices(range(_TOKENS), k=_PROMPT - len(shared)),
            params=params,
        )
        for number in range(count)
    ]


def _steps(engine: Engine, count: int) -> dict[str, Any]:
    """The times of some steps, after others that prefill and warm up."""
    gc.collect()
    gc.freeze()  # as a worker spares what it holds for long
    for _ in range(_WARM_UP):
        engine.step()
    wall, cpu = [], []
    for _ in range(count):
        wall.append(-time.perf_counter())
        cpu.append(-time.thread_time())
        engine.step()
        cpu[-1] += time.thread_time()
        wall[-1] += time.perf_counter()
    gc.unfreeze()
    return {"wall": milliseconds(wall), "cpu": milliseconds(cpu)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.host_overhead", description=__doc__)
    parser.add_argument("--waiting", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--vocabulary-of", help="a model (default: a toy's of 512 tokens)")
    parser.add_argument("--grammar", action="store_true", help="hold every completion to a grammar")
    args = parser.parse_args()
    with TemporaryDirectory(prefix="gristmill-bench-") as name:
        cpu = torch.device("cpu")
        write_random_model(TINY, Path(name), dtype=torch.float32, device=cpu, spread=0.3)
        model = args.vocabulary_of or name
        print(json.dumps(host_overhead(model, waiting=args.waiting, grammar=args.grammar)))


if __name__ == "__main__":
    main()
