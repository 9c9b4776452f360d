"""Whatever one request holds, its neighbour gets the answer that it would get alone."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Grammar, Request, SamplingParams
from engine.param_types import FIELDS, PARAMS
from tests.fixtures.tiny_model import VOCAB_SIZE
from tests.integration.engine.running import load, request, run_out

NEIGHBOUR = request("neighbour", [10, 11, 12, 13], max_tokens=4, ignore_eos=True)

numbers = st.one_of(
    st.sampled_from([0, -1, 1, 2, 10**30, -(10**30), math.nan, math.inf, -math.inf, 1e300, 1e-300]),
    st.floats(),
    st.integers(),
)
junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        numbers,
        st.text(max_size=6),
        st.sampled_from(["\ud800", "\x00", b"\xff", "a" * 10_000]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(numbers, st.text()), inner)
    ),
    max_leaves=6,
)
grammars = st.builds(
    Grammar,
    st.sampled_from(["json_schema", "regex", "choice", "haiku"]),
    st.one_of(junk, st.sampled_from(["[", "{}", "a*", "[]", '["x"]', '{"type": 7}', "(?=a)"])),
)
token_ids = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=8)
params = st.dictionaries(
    st.sampled_from(sorted(PARAMS)), st.one_of(numbers, junk, grammars), max_size=4
)
fields = st.dictionaries(st.sampled_from(sorted(set(FIELDS) - {"prompt"})), junk, max_size=2)
prompts = st.one_of(token_ids, st.text(max_size=9), junk)


@pytest.fixture(scope="module")
def llm(tiny_model_dir):
    return load(tiny_model_dir, max_model_len=64)


@pytest.fixture(scope="module")
def alone(llm):
    return llm.generate([NEIGHBOUR])[0]


@settings(max_examples=100, deadline=None)
@given(prompt=prompts, params=params, fields=fields)
def test_no_value_harms_a_neighbour_or_the_engine(llm, alone, prompt, params, fields):
    absurd = Request(request_id="absurd", prompt=prompt, params=SamplingParams(**params), **fields)

    done = {c.request_id: c for c in llm.engine.add([absurd, NEIGHBOUR])} | run_out(llm.engine)

    assert done["neighbour"].token_ids == alone.token_ids
    assert done["absurd"].error is None or done["absurd"].error.code != "internal_error"
    assert all(0 <= token < VOCAB_SIZE for token in done["absurd"].token_ids)
    assert llm.engine.stats().kv_blocks_used == 0
    json.dumps(done["absurd"].text)


@pytest.mark.parametrize(
    ("given", "code", "param"),
    [
        ({"temperature": "hot"}, "invalid_type", "temperature"),
        ({"max_tokens": True}, "invalid_type", "max_tokens"),
        ({"logit_bias": {"7": 1.0}}, "invalid_type", "logit_bias"),
        ({"stop": "END"}, "invalid_type", "stop"),
        ({"temperature": 1e9}, "invalid_value", "temperature"),
        ({"repetition_penalty": 1e-30}, "invalid_value", "repetition_penalty"),
        ({"frequency_penalty": math.nan}, "invalid_value", "frequency_penalty"),
        ({"logit_bias": {7: math.inf}}, "invalid_value", "logit_bias"),
        ({"seed": 1.5}, "invalid_type", "seed"),
    ],
)
def test_an_absurd_value_is_refused_by_its_name(llm, given, code, param):
    [refused] = llm.generate([request("1", [1, 2], **given)])

    assert refused.error is not None
    assert (refused.error.code, refused.error.param) == (code, param)


def test_an_adapter_that_is_not_there_is_refused(llm):
    asked = Request(request_id="1", prompt=[1], params=SamplingParams(), adapter="poet")

    [refused] = llm.generate([asked])

    assert refused.error is not None
    assert refused.error.code == "unknown_adapter"


class GrudgingText(str):
    """Text whose length cannot be had once it has been armed."""

    armed = False

    def __len__(self):
        if self.armed:
            raise RuntimeError("no")
        return super().__len__()


@pytest.mark.parametrize("armed_after", ["intake", "start"])
def test_an_exception_in_one_requests_text_ends_that_request_alone(llm, alone, armed_after):
    stop = GrudgingText("never said")
    engine = llm.engine
    engine.add([request("bad", [1, 2], max_tokens=4, ignore_eos=True, stop=(stop,)), NEIGHBOUR])
    if armed_after == "start":
        engine.step()
    stop.armed = True

    done = run_out(engine)

    assert done["bad"].error is not None
    assert done["bad"].error.code == "internal_error"
    assert done["neighbour"].token_ids == alone.token_ids
    assert engine.stats().kv_blocks_used == 0


class FalseBias(dict[int, float]):
    """Names other tokens every time it is looked at."""

    def __iter__(self):
        return iter([1])

    def keys(self):
        raise RuntimeError("no")


def test_a_request_that_cannot_be_begun_is_refused_alone(llm, alone):
    bad = request("bad", [1, 2], max_tokens=4, logit_bias=FalseBias({1: 1.0}))

    [refused] = llm.engine.add([bad, NEIGHBOUR])
    done = run_out(llm.engine)

    assert refused.error is not None
    assert refused.error.code == "internal_error"
    assert list(done) == ["neighbour"]
    assert done["neighbour"].token_ids == alone.token_ids
