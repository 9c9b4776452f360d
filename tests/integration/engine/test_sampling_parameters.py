"""Penalties, biases, limits, logprobs, choices and tools through the whole engine."""

from itertools import pairwise

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine import LLM
from engine.choices import choices
from tests.fixtures.tiny_model import VOCAB_SIZE, write_tiny_model
from tests.integration.engine.running import load, request, teach_short_outputs

PROMPT = [10, 11, 12, 13]
LONG = {"max_tokens": 40, "ignore_eos": True}


@pytest.fixture(scope="module")
def llm(tiny_model_dir) -> LLM:
    return load(tiny_model_dir)


def test_penalties_keep_tokens_from_coming_again(llm):
    plain, once, never = llm.generate(
        [
            request("plain", PROMPT, **LONG),
            request("once", PROMPT, presence_penalty=1000.0, **LONG),
            request("never", PROMPT, repetition_penalty=1e6, **LONG),
        ]
    )

    assert len(set(plain.token_ids)) < 40
    assert len(set(once.token_ids)) == 40
    assert not set(never.token_ids) & set(PROMPT)
    assert all(before != after for before, after in pairwise(never.token_ids))


def test_a_bias_forbids_and_forces(llm):
    [plain] = llm.generate([request("plain", PROMPT, max_tokens=1, ignore_eos=True)])
    best = plain.token_ids[0]

    forbidden, forced = llm.generate(
        [
            request("forbidden", PROMPT, logit_bias={best: -1000.0}, **LONG),
            request("forced", PROMPT, logit_bias={7: 1000.0}, **LONG),
        ]
    )

    assert best not in forbidden.token_ids
    assert forced.token_ids == [7] * 40


def test_min_tokens_puts_off_every_end(llm):
    stops = tuple(range(0, VOCAB_SIZE, 2))

    early, late = llm.generate(
        [
            request("early", PROMPT, max_tokens=40, stop_token_ids=stops),
            request("late", PROMPT, max_tokens=40, stop_token_ids=stops, min_tokens=20),
        ]
    )

    assert len(early.token_ids) < 20 < len(late.token_ids) <= 40
    assert not set(late.token_ids[:20]) & set(stops)


def test_penalties_survive_preemption(llm, tiny_model_dir):
    params = {"max_tokens": 90, "ignore_eos": True, "frequency_penalty": 0.5, "seed": 3}
    asked = [
        request(str(i), [i, *PROMPT], temperature=1.0, repetition_penalty=1.2, **params)
        for i in range(8)
    ]
    alone = [llm.generate([each])[0].token_ids for each in asked[-2:]]  # the youngest
    crowded = load(tiny_model_dir, kv_cache_bytes=2**18, max_model_len=128)
    teach_short_outputs(crowded)

    together = crowded.generate(asked)

    assert crowded.engine.stats().preemptions > 0
    assert [each.token_ids for each in together[-2:]] == alone


def test_logprobs_are_those_of_a_dense_forward(llm, tiny_model_dir):
    [completion] = llm.generate([request("1", PROMPT, logprobs=3, temperature=1.0, seed=1, **LONG)])

    dense = AutoModelForCausalLM.from_pretrained(tiny_model_dir).eval()
    with torch.inference_mode():
        logits = dense(torch.tensor([PROMPT + completion.token_ids])).logits[0, 3:-1]
    expected = logits.log_softmax(-1)
    assert completion.logprobs is not None
    assert len(completion.logprobs) == 40
    for row, place in zip(expected, completion.logprobs, strict=True):
        assert place.chosen.logprob == pytest.approx(row[place.chosen.token_id].item(), abs=1e-3)
        best = row.topk(3)
        assert [other.token_id for other in place.top] == best.indices.tolist()
        assert [other.logprob for other in place.top] == pytest.approx(
            best.values.tolist(), abs=1e-3
        )


def test_the_bytes_of_logprobs_are_the_completions_text(llm):
    [completion] = llm.generate(
        [request("1", PROMPT, logprobs=0, temperature=1.5, seed=2, max_tokens=60)]
    )

    assert completion.logprobs is not None
    said = b"".join(place.chosen.content for place in completion.logprobs)
    shown = [p.chosen.content for p in completion.logprobs if p.chosen.token_id > 3]
    assert all(place.top == () for place in completion.logprobs)
    assert b"".join(shown).decode(errors="replace") == completion.text
    assert len(said) >= len(completion.text.encode()) - 2 * completion.text.count("\ufffd")


@pytest.mark.parametrize("num_prompt", [64, 70])  # four blocks, and a part of the fifth
def test_choices_differ_share_their_prompts_blocks_and_come_again(tiny_model_dir, num_prompt):
    llm = load(tiny_model_dir)
    prompt = list(range(10, 10 + num_prompt))
    asked = request("r", prompt, max_tokens=10, temperature=1.0, seed=5, ignore_eos=True)

    first = llm.generate(list(choices(asked, 4)))
    again = load(tiny_model_dir).generate(list(choices(asked, 4)))
    [alone] = load(tiny_model_dir).generate([asked])

    assert [each.token_ids for each in first] == [each.token_ids for each in again]
    assert len({tuple(each.token_ids) for each in first}) == 4
    assert first[0].token_ids == alone.token_ids
    assert [each.token_ids for each in first[1:]] == [
        load(tiny_model_dir).generate([each])[0].token_ids for each in list(choices(asked, 4))[1:]
    ]
    # The prompt is computed once, and of it each other choice computes its last token again.
    assert llm.engine.stats().prefill_tokens_computed == len(prompt) + 3


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": float("nan")}, "repetition_penalty"),
        ({"presence_penalty": float("inf")}, "presence_penalty"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"logprobs": 21}, "logprobs"),
        ({"logit_bias": {VOCAB_SIZE: 1.0}}, "logit_bias"),
        ({"logit_bias": {3: float("nan")}}, "logit_bias"),
        ({"stop_token_ids": (-1,)}, "stop_token_ids"),
    ],
)
def test_an_absurd_value_is_refused_by_its_parameter(llm, params, param):
    refused, ran = llm.generate(
        [request("absurd", PROMPT, **params), request("sane", PROMPT, max_tokens=2)]
    )

    assert refused.error is not None
    assert (refused.error.code, refused.error.param) == ("invalid_value", param)
    assert ran.error is None


TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def test_a_template_that_takes_tools_is_given_them(tmp_path):
    write_tiny_model(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(
        "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
        "{% for m in messages %}{{ m.role }}{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{{ call.function.arguments.a }}{% endfor %}"
        "{% endfor %}"
    )
    llm = load(tmp_path)
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": {"a": 2}}}
    chat = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "y", "tool_call_id": "1"},
    ]

    with_tools, as_text = llm.generate(
        [
            request("chat", chat, tools=(TOOL,), **LONG),
            request("text", "add userxassistant2tooly", **LONG),
        ]
    )

    assert with_tools.token_ids == as_text.token_ids


def test_tools_for_a_template_without_them_are_refused(llm):
    [refused] = llm.generate([request("1", [{"role": "user", "content": "x"}], tools=(TOOL,))])

    assert refused.error is not None
    assert (refused.error.code, refused.error.param) == ("tools_not_supported", "tools")
