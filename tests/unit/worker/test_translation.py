"""From a body to what the engine is asked, and back to what the client is told."""

import json
from typing import Any

from engine.requests import Alternative, Completion, Grammar, Request, TokenAlternatives
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS, check_body
from worker.inference.translation import answer_of, engine_requests, prompt_of, shape_of

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def asked(endpoint: str = CHAT_COMPLETIONS, **changes: Any) -> list[Request]:
    prompt: dict[str, Any] = {"messages": HELLO}
    if endpoint == COMPLETIONS:
        prompt = {"prompt": "hi"}
    body = check_body(endpoint, {"model": "m"} | prompt | changes)
    return engine_requests(prompt_of(body), shape_of(body), request_id="r", salt="s", priority=1)


def test_every_parameter_reaches_the_engine():
    [request] = asked(
        max_tokens=9,
        min_tokens=2,
        temperature=0.5,
        top_p=0.4,
        top_k=3,
        min_p=0.1,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=-0.4,
        logit_bias={"17": -100, "3": 2},
        seed=5,
        stop="x",
        stop_token_ids=[4],
        logprobs=True,
        top_logprobs=2,
    )

    params = request.params
    assert (params.max_tokens, params.min_tokens, params.temperature) == (9, 2, 0.5)
    assert (params.top_p, params.top_k, params.min_p, params.seed) == (0.4, 3, 0.1, 5)
    assert (params.presence_penalty, params.frequency_penalty) == (0.3, -0.4)
    assert (params.repetition_penalty, params.logit_bias) == (1.2, {17: -100, 3: 2})
    assert (params.stop, params.stop_token_ids, params.logprobs) == (("x",), (4,), 2)
    assert (request.salt, request.priority) == ("s", 1)


def test_shapes_become_grammars():
    schema = {"b": {"type": "object"}, "a": 1}
    named = {"name": "n", "schema": schema, "strict": True}
    bodies: list[dict[str, Any]] = [
        {"response_format": {"type": "json_schema", "json_schema": named}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "text"}},
        {"guided_regex": "a+"},
        {"guided_choice": ["é", '"']},
    ]

    found = [asked(**body)[0].params.grammar for body in bodies]

    assert found[0] is not None
    assert list(json.loads(found[0].text)) == ["b", "a"]  # the order of properties is the schema's
    assert found[1:4] == [Grammar("json_schema", '{"type":"object"}'), None, Grammar("regex", "a+")]
    assert found[4] is not None
    assert json.loads(found[4].text) == ["é", '"']


def test_choices_differ_in_id_and_seed_alone_and_the_first_is_what_comes_without_asking():
    [alone] = asked(COMPLETIONS, seed=7)

    first, second, third = asked(COMPLETIONS, seed=7, n=3)

    assert first == alone
    assert len({each.params.seed for each in (first, second, third)}) == 3
    assert len({each.request_id for each in (first, second, third)}) == 3
    assert asked(COMPLETIONS, seed=7, n=3) == [first, second, third]
    assert [each.params.seed for each in asked(COMPLETIONS, n=2)] == [None, None]


def test_tools_and_their_calls_reach_the_template():
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
    ]

    [request] = asked(messages=messages, tools=[TOOL])

    assert request.tools == (TOOL,)
    assert request.prompt[1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call | {"function": {"name": "add", "arguments": {"a": 2}}}],
        },
        {"role": "tool", "content": "4", "tool_call_id": "1"},
    ]
    assert asked(tools=[TOOL], tool_choice="none")[0].tools == ()


def test_an_answer_counts_its_prompt_once_and_all_its_output():
    place = TokenAlternatives(Alternative(3, b"a", -0.5), (Alternative(3, b"a", -0.5),))
    completions = [
        Completion(str(i), [3] * (i + 1), "a", "stop", 10, 10 * i, logprobs=[place])
        for i in range(3)
    ]

    answer = answer_of(completions)

    assert (answer.prompt_tokens, answer.cached_tokens, answer.output_tokens) == (10, 0, 6)
    assert len(answer.choices) == 3
    assert answer.choices[0].places is not None
    assert answer.choices[0].places[0].chosen.content == b"a"
