"""Whole days of work in pools that hold little more than one request of them.

Every request gets the tokens that it gets alone, and what prompts have in common is computed once.
"""

import random
from collections.abc import Iterator

import pytest

from tests.fixtures.tiny_model import VOCAB_SIZE, write_tiny_model
from tests.integration.engine.architectures import VARIANTS, write_model
from tests.integration.engine.running import load, request

BLOCK = 8
KV_BYTES_PER_BLOCK = BLOCK * 2 * 2 * 2 * 16 * 4  # tokens, layers, k and v, heads, dims, fp32


def tokens(rng, least, most):
    return [rng.randrange(4, VOCAB_SIZE) for _ in range(rng.randint(least, most))]


def tree(rng) -> Iterator[tuple[list[int], int]]:
    """A system prompt, documents, sections, questions."""
    system = tokens(rng, 60, 60)
    for _ in range(3):
        document = tokens(rng, 30, 60)
        for _ in range(2):
            section = tokens(rng, 10, 40)
            for _ in range(3):
                yield system + document + section + tokens(rng, 1, 20), rng.randint(2, 12)


def day(rng) -> list[tuple[list[int], int]]:
    """A tree, a long prompt that many begin with, long answers, strangers, some of them twice."""
    manual = tokens(rng, 170, 170)
    work = [
        *tree(rng),
        *((manual + tokens(rng, 1, 9), rng.randint(1, 9)) for _ in range(8)),
        *((tokens(rng, 20, 40), 80) for _ in range(4)),
        *((tokens(rng, 1, 90), rng.randint(1, 30)) for _ in range(10)),
    ]
    work += work[::9]
    rng.shuffle(work)
    return work


def tokens_to_compute(prompts):
    """At least, and at most: whole blocks once, then the ends of different prompts, or of all.

    Of a prompt that is there whole, the last token is computed again.
    """
    blocks = {tuple(p[:end]) for p in prompts for end in range(BLOCK, len(p) + 1, BLOCK)}
    ends = sum(len(prompt) % BLOCK for prompt in set(map(tuple, prompts)))
    again = sum(max(1, len(prompt) % BLOCK) for prompt in prompts)
    return len(blocks) * BLOCK + ends, len(blocks) * BLOCK + again


@pytest.fixture(params=["llama", "mistral, window"])
def folder(request, tmp_path):
    if request.param == "llama":
        write_tiny_model(tmp_path)
    else:
        write_model(VARIANTS[request.param], tmp_path)
    return tmp_path


def test_a_day_in_a_tiny_pool_gives_everybody_their_own_tokens_and_computes_nothing_twice(folder):
    work = day(random.Random(3))
    requests = [
        request(str(number), prompt, max_tokens=count, ignore_eos=True, temperature=number % 2)
        for number, (prompt, count) in enumerate(work)
    ]
    roomy = load(folder)
    alone = [roomy.generate([each])[0].token_ids for each in requests]
    longest = max(len(prompt) + count for prompt, count in work)
    blocks = -(-longest // BLOCK) + 3

    llm = load(
        folder,
        block_size=BLOCK,
        kv_cache_bytes=blocks * KV_BYTES_PER_BLOCK,
        max_num_batched_tokens=48,
        max_num_seqs=16,
    )
    together = [completion.token_ids for completion in llm.generate(requests)]

    stats = llm.engine.stats()
    least, most = tokens_to_compute([prompt for prompt, _ in work])
    assert together == alone
    assert stats.preemptions == 0
    assert least <= stats.prefill_tokens_computed <= most < stats.prefill_tokens_logical / 2
