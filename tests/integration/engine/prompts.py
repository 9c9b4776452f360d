"""Prompts that make the prefix tree, the chunks and the pool work."""

import random

from engine import LLM
from tests.fixtures.tiny_model import VOCAB_SIZE
from tests.integration.engine.running import request


def make_prompts() -> list[list[int]]:
    """Two families with a common start, some of them equal, and a few that share nothing."""
    rng = random.Random(0)
    trunks = [[rng.randrange(4, VOCAB_SIZE) for _ in range(length)] for length in (21, 32)]
    prompts = []
    for index in range(12):
        own = [rng.randrange(4, VOCAB_SIZE) for _ in range(index)]
        prompts.append(trunks[index % 2] + own)
    prompts += [trunks[1], trunks[1], [5], [rng.randrange(4, VOCAB_SIZE) for _ in range(50)]]
    return prompts


def teach_short_outputs(llm: LLM) -> None:
    """Let the engine see so many short completions that it admits more than will fit."""
    anything = tuple(range(VOCAB_SIZE))
    requests = [
        request(f"short {i}", [i + 4], max_tokens=50, stop_token_ids=anything) for i in range(40)
    ]
    assert all(len(completion.token_ids) == 1 for completion in llm.generate(requests))
