"""Weights in int8: near enough to fp32, and no row's business but its own."""

import pytest
import torch

from bench.reference import dense_model
from engine.bundled import bundled_model
from engine.errors import ModelUnusable
from engine.opening import open_model
from engine.requests import Request, SamplingParams
from kernels import native
from tests.integration.engine.dense import best_next_tokens
from tests.integration.engine.running import load

compiled = pytest.mark.skipif(native.library() is None, reason="no C compiler, or no AVX2")

NAME = "smollm2-135m-instruct"
TEXTS = [
    "A mill turns slowly all night, and by the morning every sack of grain has become flour.",
    "Water boils at a lower temperature on a mountain, for the air presses less on its surface.",
    "def greatest(numbers):\n    best = numbers[0]\n    for number in numbers:\n",
]
NUM_TOKENS = 24


def requests(prompts):
    return [
        Request(
            request_id=str(number),
            prompt=prompt,
            params=SamplingParams(max_tokens=NUM_TOKENS, ignore_eos=True),
        )
        for number, prompt in enumerate(prompts)
    ]


@compiled
def test_int8_mostly_says_what_fp32_would_and_nobodys_words_depend_on_company():
    assert bundled_model(NAME) is not None
    checkpoint, tokenizer = open_model(NAME)
    prompts = tokenizer.encode(TEXTS, add_special_tokens=False)
    llm = load(NAME, precision="int8", kv_cache_bytes=2**26, max_num_seqs=4)

    together = [found.token_ids for found in llm.generate(requests(prompts))]
    [alone] = [found.token_ids for found in llm.generate(requests(prompts[1:2]))]

    assert alone == together[1]
    dense = dense_model(checkpoint)
    best = [best_next_tokens(dense, *pair) for pair in zip(prompts, together, strict=True)]
    equal = torch.tensor(together) == torch.tensor(best)
    assert equal.float().mean() > 0.85  # a tenth would be a wrong scale; all would be luck


def test_int8_is_refused_on_a_card(tiny_model_dir):
    if not torch.cuda.is_available():
        pytest.skip("a card that is not here is refused for that")
    with pytest.raises(ModelUnusable, match="int8 is for CPUs"):
        load(tiny_model_dir, precision="int8", device="cuda")
