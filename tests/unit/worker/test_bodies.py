"""The short way of reading a body says what the full one says, whatever the body."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.requests import Prompt
from jobs.errors import BodyRefused
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS, check_body
from worker.inference.bodies import BodyReader
from worker.inference.translation import Shape, prompt_of, shape_of

contents = st.one_of(
    st.text(max_size=4),
    st.none(),
    st.integers(0, 1),
    st.just([{"type": "text", "text": "part"}]),
)
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["system", "developer", "user", "assistant", "tool", []]),
                "content": contents,
            },
            optional={"name": st.just("n"), "tool_call_id": st.just("c")},
        ),
        st.just({"role": "user"}),
        st.just("hello"),
    ),
    max_size=3,
)
prompts = {
    CHAT_COMPLETIONS: st.one_of(messages, st.none(), st.just("hello")),
    COMPLETIONS: st.one_of(st.text(max_size=4), st.none(), st.just(["a", "b"])),
}
rests = st.fixed_dictionaries(
    {"model": st.just("m")},
    optional={
        "max_tokens": st.sampled_from([4, 0, 4.0, True]),
        "temperature": st.sampled_from([0, 0.0, 3]),
        "logprobs": st.sampled_from([True, 1, None]),
        "seed": st.integers(0, 2),
        "n": st.sampled_from([1, 2]),
        "unknown": st.just(1),
    },
)


Outcome = tuple[Prompt, Shape] | tuple[str, str | None]


def in_full(endpoint: str, body: dict[str, Any]) -> tuple[Prompt, Shape]:
    checked = check_body(endpoint, body)
    return prompt_of(checked), shape_of(checked)


def outcome(read: Callable[[], tuple[Prompt, Shape]]) -> Outcome:
    """What it returns, or what it refuses."""
    try:
        return read()
    except BodyRefused as refusal:
        return str(refusal), refusal.param


@pytest.mark.parametrize("endpoint", [CHAT_COMPLETIONS, COMPLETIONS])
@given(data=st.data())
def test_bodies_of_one_shard_are_read_as_each_would_be_alone(
    endpoint: str, data: st.DataObject
) -> None:
    prompt = "prompt" if endpoint == COMPLETIONS else "messages"
    reader = BodyReader(endpoint)

    for _ in range(4):
        body = data.draw(rests) | {prompt: data.draw(prompts[endpoint])}

        assert outcome(partial(reader.read, body)) == outcome(partial(in_full, endpoint, body))
