"""From a body to the engine's requests, and from the engine's completions to an answer."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engine.choices import choices
from engine.requests import (
    Alternative,
    Completion,
    Grammar,
    Prompt,
    Request,
    SamplingParams,
    TokenAlternatives,
)
from jobs.lines import Answer, Choice
from jobs.logprobs import Place, TokenLogprob
from jobs.messages import AssistantMessage, ChatMessage, ToolCall, ToolMessage
from jobs.requests import ChatCompletionBody, CompletionBody
from jobs.response_formats import JsonObjectFormat, JsonSchemaFormat


@dataclass(frozen=True, slots=True)
class Shape:
    """What a body asks for, whatever its prompt."""

    params: SamplingParams
    tools: tuple[dict[str, Any], ...]
    choices: int


def shape_of(body: ChatCompletionBody | CompletionBody) -> Shape:
    return Shape(_params(body), _tools(body), body.choices)


def prompt_of(body: ChatCompletionBody | CompletionBody) -> Prompt:
    if isinstance(body, CompletionBody):
        return body.prompt
    return [_message(message) for message in body.messages]


def engine_requests(
    prompt: Prompt, shape: Shape, *, request_id: str, salt: str, priority: int
) -> list[Request]:
    """One request for each choice, in order."""
    request = Request(
        request_id=request_id,
        prompt=prompt,
        params=shape.params,
        tools=shape.tools,
        salt=salt,
        priority=priority,
    )
    return list(choices(request, shape.choices))


def answer_of(completions: Sequence[Completion]) -> Answer:
    """completions: one for each choice, in order, none of them refused."""
    first = completions[0]
    return Answer(
        choices=tuple(_choice(completion) for completion in completions),
        prompt_tokens=first.prompt_tokens,
        cached_tokens=first.cached_tokens,
        output_tokens=sum(len(completion.token_ids) for completion in completions),
        created=int(time.time()),
    )


def _choice(completion: Completion) -> Choice:
    places = completion.logprobs
    return Choice(
        completion.text,
        completion.finish_reason,
        None if places is None else [_place(place) for place in places],
    )


def _place(place: TokenAlternatives) -> Place:
    return Place(_token(place.chosen), tuple(_token(other) for other in place.top))


def _token(token: Alternative) -> TokenLogprob:
    return TokenLogprob(token.content, token.logprob)


def _message(message: ChatMessage | AssistantMessage | ToolMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"role": _role(message.role), "content": message.text}
    if isinstance(message, AssistantMessage) and message.tool_calls:
        written["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        written["tool_call_id"] = message.tool_call_id
        written |= {"name": message.name} if message.name else {}
    return written


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": _arguments(call.function.arguments)}
    return {"id": call.id, "type": call.type, "function": function}


def _arguments(text: str) -> Any:
    # Models' templates write arguments out as JSON themselves; OpenAI's clients send them as text.
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _role(role: str) -> str:
    # OpenAI's newer name for what open models' templates call the system's.
    return "system" if role == "developer" else role


def _tools(body: ChatCompletionBody | CompletionBody) -> tuple[dict[str, Any], ...]:
    if isinstance(body, CompletionBody) or body.tool_choice == "none":
        return ()
    return tuple(tool.model_dump(exclude_none=True) for tool in body.tools or ())


def _params(body: ChatCompletionBody | CompletionBody) -> SamplingParams:
    # OpenAI's default temperature is 1, and people who move here expect it.
    return SamplingParams(
        max_tokens=body.output_limit,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=body.top_k or 0,
        min_p=body.min_p or 0.0,
        repetition_penalty=body.repetition_penalty or 1.0,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_bias=body.biases,
        min_tokens=body.min_tokens or 0,
        seed=body.seed,
        stop=body.stops,
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=body.ignore_eos,
        logprobs=body.named_logprobs,
        grammar=_grammar(body),
    )


def _grammar(body: ChatCompletionBody | CompletionBody) -> Grammar | None:
    if body.guided_regex is not None:
        return Grammar("regex", body.guided_regex)
    if body.guided_choice is not None:
        return Grammar("choice", orjson.dumps(body.guided_choice).decode())
    match body.response_format:
        case JsonSchemaFormat(json_schema=asked):
            return Grammar("json_schema", orjson.dumps(asked.definition).decode())
        case JsonObjectFormat():
            return Grammar("json_schema", '{"type":"object"}')
    return None
