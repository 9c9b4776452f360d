"""What one request may ask for, and that it never harms another."""

import random

import pytest

from tests.fixtures.tiny_model import VOCAB_SIZE, write_tiny_model
from tests.integration.engine.running import load, request, run_out

PROMPT = [10, 11, 12, 13]


@pytest.fixture(scope="module")
def llm(tiny_model_dir):
    return load(tiny_model_dir)


@pytest.fixture(scope="module")
def text_of_forty_tokens(llm) -> str:
    [completion] = llm.generate([request("1", PROMPT, max_tokens=40, ignore_eos=True)])
    return str(completion.text)


def test_a_stop_string_ends_a_completion_before_it(llm, text_of_forty_tokens):
    stop = text_of_forty_tokens[20:24]

    [completion] = llm.generate(
        [request("1", PROMPT, max_tokens=40, ignore_eos=True, stop=(stop,))]
    )

    assert completion.finish_reason == "stop"
    assert completion.text == text_of_forty_tokens[: text_of_forty_tokens.index(stop)]
    assert len(completion.token_ids) < 40


def test_max_tokens_ends_a_completion_with_length(llm):
    [completion] = llm.generate([request("1", PROMPT, max_tokens=3, ignore_eos=True)])

    assert completion.finish_reason == "length"
    assert len(completion.token_ids) == 3


def test_without_max_tokens_a_completion_goes_on_to_max_model_len(tiny_model_dir):
    llm = load(tiny_model_dir, max_model_len=40)

    [completion] = llm.generate([request("1", PROMPT, ignore_eos=True)])

    assert len(PROMPT) + len(completion.token_ids) == 40


def test_the_models_end_token_stops_unless_it_is_ignored(llm, tmp_path):
    [completion] = llm.generate([request("1", PROMPT, max_tokens=1, ignore_eos=True)])
    write_tiny_model(tmp_path, eos_token_id=completion.token_ids[0])
    llm = load(tmp_path)

    obeying, ignoring = llm.generate(
        [
            request("obeying", PROMPT, max_tokens=5),
            request("ignoring", PROMPT, max_tokens=5, ignore_eos=True),
        ]
    )

    assert (obeying.finish_reason, len(obeying.token_ids)) == ("stop", 1)
    assert (ignoring.finish_reason, len(ignoring.token_ids)) == ("length", 5)


def test_the_same_seed_gives_the_same_tokens_in_any_company(tiny_model_dir):
    params = {"max_tokens": 20, "temperature": 1.0, "seed": 7, "ignore_eos": True}
    [alone] = load(tiny_model_dir).generate([request("alone", PROMPT, **params)])
    rng = random.Random(0)
    others = [
        request(
            str(i), [rng.randrange(VOCAB_SIZE) for _ in range(i)], temperature=0.7, max_tokens=9
        )
        for i in range(1, 12)
    ]
    crowded = load(tiny_model_dir, max_num_batched_tokens=13, max_num_seqs=5)

    together = crowded.generate([*others[:6], request("same", PROMPT, **params), *others[6:]])

    assert together[6].token_ids == alone.token_ids


def test_without_a_seed_the_request_id_decides(tiny_model_dir):
    llm = load(tiny_model_dir)
    params = {"max_tokens": 12, "temperature": 1.0, "ignore_eos": True}

    [one], [again], [other] = (llm.generate([request(i, PROMPT, **params)]) for i in "aab")

    assert one.token_ids == again.token_ids
    assert one.token_ids != other.token_ids


@pytest.mark.parametrize(
    ("prompt", "params", "code", "words"),
    [
        ([], {}, "invalid_prompt", "empty"),
        ("", {}, "invalid_prompt", "empty"),
        ([VOCAB_SIZE], {}, "invalid_prompt", "token id 384"),
        ([-1], {}, "invalid_prompt", "token id -1"),
        ([1, "x"], {}, "invalid_prompt", "token ids only"),
        ("\ud800", {}, "invalid_prompt", "Unicode"),
        ([1] * 513, {}, "context_length_exceeded", "512 tokens, but you asked for 514"),
        ([1] * 500, {"max_tokens": 13}, "context_length_exceeded", "13 in the completion"),
        (PROMPT, {"max_tokens": 0}, "invalid_value", "max_tokens must be at least 1"),
        (PROMPT, {"temperature": -1.0}, "invalid_value", "temperature"),
        (PROMPT, {"temperature": float("nan")}, "invalid_value", "temperature"),
        (PROMPT, {"top_p": 0.0}, "invalid_value", "top_p"),
        (PROMPT, {"top_k": -1}, "invalid_value", "top_k"),
        (PROMPT, {"stop": ("",)}, "invalid_value", "stop"),
    ],
)
def test_an_impossible_request_is_refused_and_its_neighbour_runs(llm, prompt, params, code, words):
    neighbour = request("neighbour", "a neighbour", max_tokens=2, ignore_eos=True)

    refused, ran = llm.generate([request("impossible", prompt, **params), neighbour])

    assert refused.finish_reason == "error"
    assert refused.error is not None
    assert refused.error.code == code
    assert words in refused.error.message
    assert len(ran.token_ids) == 2


def test_the_same_id_twice_is_refused_once(llm):
    twins = [request("twin", PROMPT, max_tokens=2, ignore_eos=True)] * 2

    [refused] = llm.engine.add(twins)
    done = run_out(llm.engine)

    assert refused.error is not None
    assert refused.error.code == "duplicate_request_id"
    assert list(done) == ["twin"]


@pytest.mark.parametrize("steps_before", [0, 3])
def test_an_aborted_request_is_gone_before_the_next_step(tiny_model_dir, steps_before):
    engine = load(tiny_model_dir).engine
    engine.add([request(i, PROMPT, max_tokens=8, ignore_eos=True) for i in "abc"])
    for _ in range(steps_before):
        engine.step()

    engine.abort(["a", "b", "unknown"])

    assert engine.stats().running + engine.stats().waiting == 1
    assert list(run_out(engine)) == ["c"]
    assert engine.stats().kv_blocks_used == 0


def test_room_shrinks_by_what_is_promised_and_comes_back(tiny_model_dir):
    engine = load(tiny_model_dir).engine
    everything = engine.room()

    engine.add([request(str(i), [i, *PROMPT], max_tokens=100, ignore_eos=True) for i in range(30)])

    assert engine.room() == everything - 30 * 112  # 105 tokens, in blocks of 16
    engine.abort([str(i) for i in range(30)])
    assert engine.room() == everything


@pytest.mark.law("P30")
def test_salts_keep_tenants_apart(tiny_model_dir):
    llm = load(tiny_model_dir)
    prompt = list(range(10, 60))

    mine, theirs, mine_again = (
        llm.generate([request("1", prompt, max_tokens=1, salt=salt)])[0] for salt in "aba"
    )

    assert (mine.cached_tokens, theirs.cached_tokens, mine_again.cached_tokens) == (0, 0, 48)


def test_steps_and_stats_tell_what_was_done(tiny_model_dir):
    llm = load(tiny_model_dir)

    llm.generate([request(str(i), [*PROMPT, i], max_tokens=4, ignore_eos=True) for i in range(3)])

    stats = llm.engine.stats()
    assert llm.engine.steps == stats.steps == 4
    assert stats.output_tokens == 12
    assert stats.prefill_tokens_logical == stats.prefill_tokens_computed == 15
    assert stats.step_seconds > 0
    assert (stats.running, stats.waiting) == (0, 0)
