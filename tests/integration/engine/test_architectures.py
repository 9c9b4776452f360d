"""Every architecture agrees with transformers, in tokens and in logits."""

import json

import pytest
import torch

from engine import ModelUnusable
from engine.forward import make_forward, make_head
from engine.kv_cache import allocate_kv_cache
from engine.models.registry import load_model
from engine.sequence import Sequence
from engine.step_batch import StepBatch
from engine.step_inputs import StepInputBuilder
from engine.weights.safetensors_checkpoint import open_safetensors
from kernels import native
from tests.integration.engine.architectures import VARIANTS, write_model
from tests.integration.engine.dense import best_next_tokens
from tests.integration.engine.prompts import make_prompts, teach_short_outputs
from tests.integration.engine.running import load, request

BLOCK_SIZE = 4
NUM_TOKENS = 24
CPU = torch.device("cpu")

# Of fp32 logits, relative to the largest: sums are taken in another order.
LOGITS_TOLERANCE = {"Llama": 1e-5, "Mistral": 1e-5, "Qwen2": 1e-5, "Qwen3": 1e-5, "Gemma3": 1e-5}


@pytest.fixture(scope="module", params=VARIANTS)
def written(request, tmp_path_factory):
    """A variant, its folder, and transformers' model of it."""
    folder = tmp_path_factory.mktemp("architecture")
    variant = VARIANTS[request.param]
    return variant, folder, write_model(variant, folder)


def kv_bytes_per_block(config):
    heads = config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return BLOCK_SIZE * 2 * config.num_hidden_layers * heads * head_dim * 4


def test_greedy_tokens_equal_transformers_with_a_tiny_pool(written):
    variant, folder, dense = written
    llm = load(
        folder,
        block_size=BLOCK_SIZE,
        kv_cache_bytes=20 * kv_bytes_per_block(dense.config),
        max_num_batched_tokens=11,
        max_num_seqs=6,
    )
    teach_short_outputs(llm)
    prompts = make_prompts()

    found = llm.generate(
        [
            request(str(index), prompt, max_tokens=NUM_TOKENS, ignore_eos=True)
            for index, prompt in enumerate(prompts)
        ]
    )

    tokens = [completion.token_ids for completion in found]
    assert all(len(completion) == NUM_TOKENS for completion in tokens)
    assert tokens == [
        best_next_tokens(dense, prompt, completion)
        for prompt, completion in zip(prompts, tokens, strict=True)
    ]
    # What lies before a window that all layers have is given back before the pool runs dry.
    windowed = variant == VARIANTS["mistral, window"]
    assert (llm.engine.stats().preemptions == 0) is windowed
    assert llm.engine.stats().cached_tokens > 100


@pytest.fixture
def loaded(written):
    _, folder, _ = written
    return load_model(open_safetensors(folder), device=CPU, dtype=torch.float32)


def empty_cache(model):
    return allocate_kv_cache(model.shape, 13, BLOCK_SIZE, dtype=torch.float32, device=CPU)


class Steps:
    """One sequence that is computed a chunk a step."""

    def __init__(self, prompt):
        self._builder = StepInputBuilder(
            max_tokens=50, max_seqs=1, max_blocks=13, block_size=BLOCK_SIZE, device=CPU
        )
        self._seq = Sequence(seq_id=0, request_id="", token_ids=prompt, max_tokens=1)
        self._seq.block_table = list(range(13))

    def inputs(self, num_tokens):
        batch = StepBatch(budget=50)
        batch.add(self._seq, num_tokens)
        self._seq.num_computed_tokens += num_tokens
        return self._builder.build(batch)


@torch.inference_mode()
def test_logits_equal_those_of_transformers(written, loaded):
    variant, _, dense = written
    prompt = make_prompts()[-1]
    inputs = Steps(prompt).inputs(len(prompt))

    found = loaded.logits(loaded.forward(inputs, empty_cache(loaded)))

    want = dense(torch.tensor([prompt])).logits[0]
    error = (found - want).abs().max() / want.abs().max()
    assert error <= LOGITS_TOLERANCE[variant.name]


@pytest.mark.skipif(native.library() is None, reason="only C kernels are recorded")
@torch.inference_mode()
def test_a_recorded_pass_gives_the_bits_of_one_computed_op_by_op(loaded):
    prompt = make_prompts()[-1]
    steps, cache, recorded_cache = Steps(prompt), empty_cache(loaded), empty_cache(loaded)
    forward = make_forward(loaded, recorded_cache, max_tokens=50)
    head = make_head(loaded, max_rows=50)
    places = set()

    for num_tokens in (17, 1, len(prompt) - 18):
        inputs = steps.inputs(num_tokens)
        want = loaded.forward(inputs, cache)
        found = forward(inputs)

        assert torch.equal(found, want)
        assert torch.equal(head(found), loaded.logits(want))
        assert torch.equal(recorded_cache.memory, cache.memory)
        places.add(found.data_ptr())

    # What is computed op by op has memory of its own each time.
    assert (len(places) == 1) == (loaded.shape.head_dim % 16 == 0)


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        ("mistral", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("qwen3", {"attention_bias": True}, "attention_bias"),
        ("qwen2", {"layer_types": ["chunked_attention"] * 2}, "'chunked_attention' is none of"),
        ("gemma3", {"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ("gemma3", {"layer_types": ["full_attention"]}, "layer_type"),
        ("gemma3", {"hidden_activation": "silu"}, "hidden_act 'silu'"),
    ],
)
def test_a_variant_that_we_would_compute_wrongly_is_refused(tmp_path, name, changes, complaint):
    write_model(VARIANTS[name], tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    with pytest.raises(ModelUnusable, match=complaint):
        load(tmp_path)


def test_a_config_of_gemma_3_in_the_older_words_means_the_same(tmp_path):
    dense = write_model(VARIANTS["gemma3, untied head"], tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for key in ("rope_parameters", "layer_types"):
        del config[key]
    older = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 3}
    path.write_text(json.dumps(config | older))
    prompt = make_prompts()[-1]

    [found] = load(tmp_path).generate([request("1", prompt, max_tokens=NUM_TOKENS)])

    assert found.token_ids == best_next_tokens(dense, prompt, found.token_ids)
