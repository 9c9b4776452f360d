"""vLLM on a workload, with its prefix cache, in fp32 on a CPU.

What must stand in its environment is in README.md.
"""

from collections.abc import Sequence
from typing import Any

import vllm

from bench.peers.asked import Asked
from bench.peers.trial import peer_parser, run_trial

_MAX_MODEL_LEN = 2048


class Vllm:
    def __init__(self, model: str, *, batched_tokens: int, seqs: int, dtype: str) -> None:
        self._llm = vllm.LLM(
            model,
            dtype=dtype,
            max_model_len=_MAX_MODEL_LEN,
            max_num_batched_tokens=batched_tokens,
            max_num_seqs=seqs,
            enable_prefix_caching=True,
            disable_log_stats=True,
        )

    def generate(self, requests: Sequence[Asked]) -> list[list[int]]:
        found = self._llm.generate(
            [{"prompt_token_ids": each.prompt} for each in requests],
            [_greedy(each.max_tokens) for each in requests],
            use_tqdm=False,
        )
        return [list(each.outputs[0].token_ids) for each in found]

    def preferred(self, prompt: list[int]) -> list[int]:
        asked = _greedy(1)
        asked.prompt_logprobs = 1
        self._llm.reset_prefix_cache()  # of tokens that it finds there it tells nothing true
        [found] = self._llm.generate([{"prompt_token_ids": prompt}], [asked], use_tqdm=False)
        ranked = [_best(each) for each in found.prompt_logprobs[1:]]  # nothing is before the first
        return [*ranked, found.outputs[0].token_ids[0]]


def _best(logprobs: dict[int, Any]) -> int:
    return max(logprobs, key=lambda token: logprobs[token].logprob)


def _greedy(max_tokens: int) -> vllm.SamplingParams:
    return vllm.SamplingParams(
        temperature=0.0, max_tokens=max_tokens, ignore_eos=True, detokenize=False
    )


def main() -> None:
    parser = peer_parser("vllm", __doc__)
    parser.add_argument("--dtype", default="float32", help="of its weights (default: %(default)s)")
    args = parser.parse_args()
    run_trial(
        "vllm",
        lambda: Vllm(
            args.model, batched_tokens=args.batched_tokens, seqs=args.seqs, dtype=args.dtype
        ),
        args,
    )


if __name__ == "__main__":
    main()
