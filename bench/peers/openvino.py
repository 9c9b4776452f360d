"""OpenVINO GenAI on a workload: its continuous batching with its prefix cache.

It looks a prefix up when a request is added, so that requests which are added together share none:
--prime gives it what a user who knows that would.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openvino
import openvino_genai

from bench.peers.asked import Asked
from bench.peers.trial import peer_parser, run_trial

_CACHE_GIB = 2


class OpenVino:
    def __init__(self, model: str, *, batched_tokens: int, seqs: int) -> None:
        self._model = model
        scheduling = openvino_genai.SchedulerConfig()
        scheduling.cache_size = _CACHE_GIB
        scheduling.max_num_batched_tokens = batched_tokens
        scheduling.max_num_seqs = seqs
        scheduling.dynamic_split_fuse = True
        scheduling.enable_prefix_caching = True
        threads = {"INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0))}
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            model, scheduling, "CPU", threads
        )

    def generate(self, requests: Sequence[Asked]) -> list[list[int]]:
        prompts = [openvino.Tensor(np.array([each.prompt], dtype=np.int64)) for each in requests]
        found = self._pipeline.generate(prompts, [_greedy(each.max_tokens) for each in requests])
        return [[int(token) for token in each.m_generation_ids[0]] for each in found]

    def preferred(self, prompt: list[int]) -> list[int]:
        compiled = openvino.Core().compile_model(Path(self._model) / "openvino_model.xml", "CPU")
        length = len(prompt)
        logits = compiled(
            {
                "input_ids": np.array([prompt], dtype=np.int64),
                "attention_mask": np.ones((1, length), dtype=np.int64),
                "position_ids": np.arange(length, dtype=np.int64)[None],
                "beam_idx": np.zeros(1, dtype=np.int32),
            }
        )["logits"]
        chosen: list[int] = logits[0].argmax(axis=-1).tolist()
        return chosen


def _greedy(max_tokens: int) -> openvino_genai.GenerationConfig:
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = max_tokens
    config.ignore_eos = True
    config.do_sample = False
    return config


def main() -> None:
    args = peer_parser("openvino", __doc__).parse_args()
    run_trial(
        "openvino-genai",
        lambda: OpenVino(args.model, batched_tokens=args.batched_tokens, seqs=args.seqs),
        args,
    )


if __name__ == "__main__":
    main()
