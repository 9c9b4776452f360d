"""What is asked to be of a shape is of that shape, whatever the model would rather say."""

import json
import re
import sys
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from engine import LLM, Completion, Grammar
from tests.fixtures.tiny_model import make_tokenizer, write_tiny_model
from tests.integration.engine.running import load, request, run_out, teach_short_outputs

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def llm(tiny_model_dir) -> LLM:
    return load(tiny_model_dir, max_num_seqs=8)


def schema(value: dict[str, Any]) -> Grammar:
    return Grammar("json_schema", json.dumps(value))


def run(llm: LLM, grammar: Grammar, count: int = 8, **params: Any) -> list[Completion]:
    asked = {"max_tokens": 200, "temperature": 1.0} | params
    return llm.generate(
        [request(str(seed), f"prompt {seed}", seed=seed, grammar=grammar, **asked)
         for seed in range(count)]
    )  # fmt: skip


def test_a_schema_gives_an_object_of_that_schema(llm):
    completions = run(llm, schema(PERSON))

    for completion in completions:
        person = json.loads(completion.text)
        assert completion.finish_reason == "stop"
        assert list(person) == ["name", "age", "tags"]
        assert 0 <= person["age"] <= 150
        assert set(person["tags"]) <= {"a", "b"}
    assert len({completion.text for completion in completions}) > 1


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_what_ends_by_itself_parses_and_what_is_cut_off_says_so(llm, temperature):
    completions = run(llm, schema({"type": "object"}), max_tokens=60, temperature=temperature)

    for completion in completions:
        if completion.finish_reason == "stop":
            assert isinstance(json.loads(completion.text), dict)
        else:
            assert (completion.finish_reason, len(completion.token_ids)) == ("length", 60)


def test_a_regular_expression_matches_all_of_the_text(llm):
    pattern = r"[A-Z][a-z]{2,5}/[0-9]{3}(\.[0-9])?"

    completions = run(llm, Grammar("regex", pattern))

    assert all(re.fullmatch(pattern, completion.text) for completion in completions)


def test_a_digit_in_a_schemas_pattern_is_one_of_ascii(llm):
    completions = run(llm, schema({"type": "string", "pattern": r"^\d{4}\w$"}), count=30)

    assert all(re.fullmatch(r'"[0-9]{4}[A-Za-z0-9_]"', each.text) for each in completions)


def test_a_choice_is_one_of_the_choices(llm):
    choices = ["yes", "no", 'per"haps\\', "vielleicht é🙂", "yes, but"]

    completions = run(llm, Grammar("choice", json.dumps(choices)), count=30)

    assert {completion.text for completion in completions} <= set(choices)
    assert len({completion.text for completion in completions}) > 1


def test_end_tokens_that_are_ignored_still_end_a_grammar(llm):
    completions = run(llm, Grammar("regex", "ab?c?"), ignore_eos=True)

    assert {completion.text for completion in completions} <= {"a", "ab", "ac", "abc"}
    assert {completion.finish_reason for completion in completions} == {"stop"}


def test_a_grammar_and_its_company_change_nothing_for_each_other(tiny_model_dir):
    free = {"max_tokens": 30, "temperature": 1.0, "seed": 5, "ignore_eos": True}
    held = free | {"grammar": schema(PERSON), "max_tokens": 100}
    llm = load(tiny_model_dir)
    alone = [llm.generate([request(i, [3, 4, 5], **p)])[0] for i, p in (("f", free), ("h", held))]
    crowded = load(tiny_model_dir, kv_cache_bytes=2**17, max_num_seqs=6, max_model_len=128)
    teach_short_outputs(crowded)
    others = [request(str(i), [3, 4, i], **(held | {"seed": i})) for i in range(8)]

    together = crowded.generate(
        [request("f", [3, 4, 5], **free), *others, request("h", [3, 4, 5], **held)]
    )

    assert [together[0].token_ids, together[-1].token_ids] == [each.token_ids for each in alone]
    # Grammars were taken up again where they stood.
    assert crowded.engine.stats().preemptions > 0
    ended = [each for each in together[1:] if each.finish_reason == "stop"]
    assert ended
    assert all(json.loads(completion.text) for completion in ended)


@pytest.mark.parametrize(
    ("grammar", "param", "words"),
    [
        (Grammar("json_schema", '{"type": "wizard"}'), "response_format", "wizard"),
        (Grammar("json_schema", "true"), "response_format", "object"),
        (Grammar("json_schema", "{"), "response_format", "cannot be used"),
        (Grammar("json_schema", '{"not": {}}'), "response_format", "Unimplemented"),
        (Grammar("json_schema", '{"$ref": "http://127.0.0.1/x"}'), "response_format", "fetch"),
        (Grammar("json_schema", '{"$ref": "file:///etc/passwd"}'), "response_format", "fetch"),
        (Grammar("regex", "a("), "guided_regex", "unclosed group"),
        (Grammar("regex", "(?=a)a"), "guided_regex", "look-ahead"),
        (Grammar("regex", "a" * 70_000), "guided_regex", "65,536 bytes"),
        (Grammar("regex", "\ud800"), "guided_regex", "cannot be used"),
        (Grammar("choice", "[]"), "guided_choice", "nothing to choose"),
        (Grammar("choice", "5"), "guided_choice", "cannot be used"),
    ],
)
def test_a_bad_grammar_is_refused_and_its_neighbour_runs(llm, grammar, param, words):
    neighbour = request("neighbour", "a neighbour", max_tokens=2, ignore_eos=True)

    refused, ran = llm.generate([request("bad", "hi", grammar=grammar), neighbour])

    assert refused.error is not None
    assert (refused.error.code, refused.error.param) == ("invalid_grammar", param)
    assert words in refused.error.message
    assert len(ran.token_ids) == 2


def test_a_grammar_that_becomes_too_complex_ends_its_own_request_alone(tiny_model_dir):
    engine = load(tiny_model_dir).engine
    monster = schema({"anyOf": [{"type": "array", "maxItems": i} for i in range(1, 900)]})
    engine.add(
        [
            request("monster", "hi", max_tokens=60, temperature=1.0, seed=1, grammar=monster),
            request("neighbour", "hi", max_tokens=60, ignore_eos=True),
        ]
    )

    done = run_out(engine)

    assert done["monster"].error is not None
    assert done["monster"].error.code == "grammar_too_complex"
    assert len(done["neighbour"].token_ids) == 60
    assert engine.stats().kv_blocks_used == 0


def test_without_the_library_only_requests_that_need_it_are_refused(tiny_model_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    llm = load(tiny_model_dir)

    refused, ran = llm.generate(
        [
            request("held", "hi", grammar=Grammar("regex", "a")),
            request("free", "hi", max_tokens=2, ignore_eos=True),
        ]
    )

    assert refused.error is not None
    assert refused.error.code == "grammar_not_supported"
    assert "llguidance" in refused.error.message
    assert len(ran.token_ids) == 2


def test_a_model_with_more_rows_than_tokens_never_draws_a_row_without_one(tmp_path):
    write_tiny_model(tmp_path, vocab_size=448)

    completions = run(load(tmp_path), Grammar("regex", "[a-z]{20}"), count=6, temperature=2.0)

    assert all(re.fullmatch("[a-z]{20}", completion.text) for completion in completions)


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_no_hindrance(tmp_path):
    write_tiny_model(tmp_path)
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"extra_special_tokens": [f"<image {i}>" for i in range(9)]})
    tokenizer.save_pretrained(tmp_path)

    completions = run(load(tmp_path), Grammar("regex", "[a-z]{20}"), count=6, temperature=2.0)

    assert all(re.fullmatch("[a-z]{20}", completion.text) for completion in completions)


def test_a_tokenizer_that_no_grammar_can_read_refuses_the_request_in_a_sentence(tmp_path):
    write_tiny_model(tmp_path)
    words = Tokenizer(models.WordLevel({f"w{token}": token for token in range(384)}, "w0"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path)

    [held, free] = load(tmp_path).generate(
        [
            request("held", [1, 2], max_tokens=4, grammar=schema(PERSON)),
            request("free", [1, 2], max_tokens=4, ignore_eos=True),
        ]
    )

    assert held.error is not None
    assert held.error.code == "invalid_grammar"
    assert held.error.message.startswith("This model's tokenizer allows no structured output: ")
    assert len(free.token_ids) == 4
