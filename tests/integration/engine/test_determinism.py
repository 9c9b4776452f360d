"""Law 10 to the last bit: a request's tokens and their likelihoods in whatever company.

Log-probabilities are compared as they are: were one sum done in another order, they would differ.
"""

import random

import pytest

from engine import ModelUnusable
from engine.choices import choices
from kernels import native
from tests.fixtures.tiny_model import VOCAB_SIZE, write_tiny_model
from tests.integration.engine.running import load, request, teach_short_outputs

pytestmark = pytest.mark.skipif(native.library() is None, reason="needs the compiled CPU kernels")

KV_BYTES = 2**23
rng = random.Random(7)
SYSTEM = [rng.randrange(VOCAB_SIZE) for _ in range(200)]  # more than three tiles of keys
PROMPT = [*SYSTEM, *(rng.randrange(VOCAB_SIZE) for _ in range(37))]
KINDS = {
    "greedy": {"temperature": 0.0},
    "drawn": {"temperature": 1.0, "seed": 11, "top_p": 0.9, "repetition_penalty": 1.1},
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wider")
    write_tiny_model(
        folder, hidden_size=192, intermediate_size=512, num_attention_heads=6, head_dim=32
    )
    return folder


def asked(kind, request_id="mine"):
    params = {"max_tokens": 20, "ignore_eos": True, "logprobs": 3} | KINDS[kind]
    return request(request_id, PROMPT, **params)


def others(count, *, head=()):
    own = random.Random(1)
    return [
        request(
            f"other {i}", [*head, *(own.randrange(VOCAB_SIZE) for _ in range(1 + 9 * i))],
            max_tokens=3 + 2 * i, temperature=i % 2, ignore_eos=True,
        )
        for i in range(count)
    ]  # fmt: skip


def bits(completion):
    return [
        (place.chosen.token_id, place.chosen.logprob, [(o.token_id, o.logprob) for o in place.top])
        for place in completion.logprobs
    ]


class Engines:
    """Of one model; precision: what their weights are in."""

    def __init__(self, folder, precision):
        self._folder = folder
        self._precision = precision

    @property
    def kv_bytes_per_token(self):
        return 2 * 2 * 2 * 32 * (2 if self._precision == "int8" else 4)

    def __call__(self, **settings):
        settings = {"kv_cache_bytes": KV_BYTES} | settings
        return load(self._folder, deterministic=True, precision=self._precision, **settings)


@pytest.fixture(params=["fp32", "int8"])
def engine(request, model_dir):
    return Engines(model_dir, request.param)


def in_a_crowd(engine, mine):
    return engine().generate([*others(9), mine])[-1]


def in_small_chunks(engine, mine):
    small = engine(max_num_batched_tokens=11, max_num_seqs=4)
    return small.generate([*others(5), mine])[-1]


def beside_its_own_group(engine, mine):
    return engine().generate([*others(9, head=SYSTEM), mine])[-1]


def with_its_prefix_cached(engine, mine):
    llm = engine()
    llm.generate([request("first", PROMPT[:-5], max_tokens=2)])
    completion = llm.generate([mine])[0]
    assert completion.cached_tokens > 0
    return completion


def with_its_prompt_cached_whole(engine, mine):
    llm = engine()
    llm.generate([request("first", PROMPT, max_tokens=2, ignore_eos=True)])
    return llm.generate([mine])[0]


def as_one_of_several_choices(engine, mine):
    return engine().generate(list(choices(mine, 5)))[0]


def in_smaller_blocks(engine, mine):
    return engine(block_size=4).generate([*others(3), mine])[-1]


def preempted(engine, mine):
    llm = engine(kv_cache_bytes=464 * engine.kv_bytes_per_token, max_model_len=300)
    teach_short_outputs(llm)
    elder = request("elder", [1] * 200, max_tokens=60, ignore_eos=True)
    completion = llm.generate([elder, mine])[-1]
    assert llm.engine.stats().preemptions > 0
    return completion


COMPANY = [
    in_a_crowd,
    in_small_chunks,
    beside_its_own_group,
    with_its_prefix_cached,
    with_its_prompt_cached_whole,
    as_one_of_several_choices,
    in_smaller_blocks,
    preempted,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("company", COMPANY)
def test_a_request_gives_the_same_bits_in_any_company(engine, company, kind):
    [alone] = engine().generate([asked(kind)])

    found = company(engine, asked(kind))

    assert bits(found) == bits(alone)


def test_determinism_is_refused_where_it_cannot_be_kept(tiny_model_dir):
    with pytest.raises(ModelUnusable, match=r"deterministic .* fp32"):
        load(tiny_model_dir, deterministic=True, precision="bf16")


@pytest.mark.parametrize(
    "sizes",
    [
        {"head_dim": 20},
        {"head_dim": 272},
        {"hidden_size": 776, "num_attention_heads": 97, "num_key_value_heads": 1, "head_dim": 8},
        {"intermediate_size": 100},
    ],
)
def test_sizes_that_pytorch_computes_are_refused(tmp_path, sizes):
    write_tiny_model(tmp_path, **sizes)

    with pytest.raises(ModelUnusable, match="deterministic holds for sizes"):
        load(tmp_path, deterministic=True)


def test_startup_says_whether_results_depend_on_company(tiny_model_dir):
    from engine.loading import load_engine

    lines: list[str] = []
    load_engine(str(tiny_model_dir), device="cpu", deterministic=True, on_report=lines.append)

    assert any(line.startswith("deterministic: ") for line in lines)
