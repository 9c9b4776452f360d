"""Whatever the scheduler does to a request, its tokens are those of the plain dense forward."""

import pytest

from engine import LLM
from tests.fixtures.tiny_model import write_tiny_model
from tests.integration.engine.dense import complete_greedily, load_dense
from tests.integration.engine.prompts import make_prompts, teach_short_outputs
from tests.integration.engine.running import load, request

BLOCK_SIZE = 4
KV_BYTES_PER_BLOCK = BLOCK_SIZE * 2 * 2 * 2 * 16 * 4  # tokens, layers, k and v, heads, dims, fp32
NUM_TOKENS = 24


def complete(llm: LLM, prompts: list[list[int]]) -> list[list[int]]:
    requests = [
        request(str(index), prompt, max_tokens=NUM_TOKENS, ignore_eos=True)
        for index, prompt in enumerate(prompts)
    ]
    return [completion.token_ids for completion in llm.generate(requests)]


@pytest.fixture(scope="module")
def expected(tiny_model_dir) -> list[list[int]]:
    dense = load_dense(tiny_model_dir)
    return [complete_greedily(dense, prompt, NUM_TOKENS) for prompt in make_prompts()]


def test_greedy_tokens_equal_transformers_with_room_for_everything(tiny_model_dir, expected):
    llm = load(tiny_model_dir)

    found = complete(llm, make_prompts())

    assert found == expected
    assert llm.engine.stats().preemptions == 0


def test_greedy_tokens_equal_transformers_with_a_tiny_pool(tiny_model_dir, expected):
    llm = load(
        tiny_model_dir,
        block_size=BLOCK_SIZE,
        kv_cache_bytes=20 * KV_BYTES_PER_BLOCK,
        max_num_batched_tokens=11,
        max_num_seqs=6,
    )
    teach_short_outputs(llm)
    before = llm.engine.stats()

    found = complete(llm, make_prompts())

    stats = llm.engine.stats()
    assert found == expected
    assert stats.preemptions > 0
    assert stats.cached_tokens - before.cached_tokens > 100
    # No step holds more than 11 tokens, so every prompt but the shortest was cut into chunks.
    assert stats.prefill_tokens_computed - before.prefill_tokens_computed > 200


@pytest.mark.parametrize("max_num_batched_tokens", [1, 3, 64])
def test_where_a_prompt_is_cut_into_chunks_changes_nothing(
    tiny_model_dir, expected, max_num_batched_tokens
):
    llm = load(tiny_model_dir, max_num_batched_tokens=max_num_batched_tokens, max_num_seqs=1)

    found = complete(llm, make_prompts()[:3])

    assert found == expected[:3]


@pytest.mark.parametrize(
    "config",
    [
        {"tied_head": True},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}},
    ],
    ids=["tied head", "a KV head each", "one KV head", "llama3 rope", "linear rope"],
)
def test_every_kind_of_llama_equals_transformers(tmp_path, config):
    write_tiny_model(tmp_path, **config)
    prompts = make_prompts()[9:12]
    dense = load_dense(tmp_path)

    found = complete(load(tmp_path), prompts)

    assert found == [complete_greedily(dense, prompt, NUM_TOKENS) for prompt in prompts]


def test_sharded_weights_are_read_like_whole_ones(tmp_path, tiny_model_dir, expected):
    load_dense(tiny_model_dir).save_pretrained(tmp_path, max_shard_size="100KB")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny_model_dir / name).read_bytes())
    assert len(list(tmp_path.glob("*.safetensors"))) > 1

    found = complete(load(tmp_path), make_prompts()[:2])

    assert found == expected[:2]


def test_prefill_computes_a_shared_prefix_once(tiny_model_dir):
    llm = load(tiny_model_dir, block_size=BLOCK_SIZE)
    prefix = list(range(10, 50))  # ten blocks
    prompts = [[*prefix, 100 + i, 200 + i] for i in range(20)]

    complete(llm, prompts)

    stats = llm.engine.stats()
    assert stats.prefill_tokens_logical == 20 * 42
    assert stats.prefill_tokens_computed == 40 + 20 * 2
    assert stats.cached_tokens == 19 * 40
