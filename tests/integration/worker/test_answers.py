"""From a body to the answer's body, through a real engine: all but the queue."""

import json
from typing import Any
from uuid import UUID

import pytest
from openai.types import Completion as OpenAICompletion
from openai.types.chat import ChatCompletion

from engine import LLM
from jobs import lines
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS, check_body
from worker.inference.translation import answer_of, engine_requests, prompt_of, shape_of

JOB = UUID(int=7)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "adult": {"type": "boolean"}},
    "required": ["name", "adult"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def llm(tiny_model_dir) -> LLM:
    return LLM(str(tiny_model_dir), device="cpu", kv_cache_bytes=2**20, on_report=lambda line: None)


def answer(llm: LLM, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    checked = check_body(endpoint, {"model": "m", "seed": 1, "max_tokens": 80} | body)
    requests = engine_requests(
        prompt_of(checked), shape_of(checked), request_id="r", salt="s", priority=0
    )
    given = answer_of(llm.generate(requests))
    written = lines.response_body(JOB, 0, endpoint=endpoint, model="m", answer=given)
    read_back: dict[str, Any] = json.loads(json.dumps(written))
    return read_back


def test_a_chat_with_everything_reads_as_openais_own(llm):
    body = {
        "messages": [{"role": "user", "content": "who?"}],
        "n": 3,
        "logprobs": True,
        "top_logprobs": 2,
        "presence_penalty": 0.5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "person", "strict": True, "schema": PERSON},
        },
    }

    given = ChatCompletion.model_validate(answer(llm, CHAT_COMPLETIONS, body), strict=True)

    assert [choice.index for choice in given.choices] == [0, 1, 2]
    for choice in given.choices:
        text = choice.message.content
        assert text is not None
        assert json.loads(text).keys() == {"name", "adult"}
        assert choice.logprobs is not None
        places = choice.logprobs.content or []
        assert bytes(b for place in places for b in place.bytes or []).decode() == text
        assert all(len(place.top_logprobs) == 2 for place in places)
    assert given.usage is not None
    assert given.usage.total_tokens == given.usage.prompt_tokens + given.usage.completion_tokens


def test_a_completion_with_everything_reads_as_openais_own(llm):
    body = {"prompt": "the quick", "n": 2, "logprobs": 1, "guided_choice": ["brown fox", "dog"]}

    given = OpenAICompletion.model_validate(answer(llm, COMPLETIONS, body), strict=True)

    for choice in given.choices:
        assert choice.text in ("brown fox", "dog")
        assert choice.logprobs is not None
        tokens, offsets = choice.logprobs.tokens, choice.logprobs.text_offset
        assert tokens is not None
        assert offsets is not None
        assert "".join(tokens) == choice.text
        for token, at in zip(tokens, offsets, strict=True):
            assert choice.text[at:].startswith(token)
