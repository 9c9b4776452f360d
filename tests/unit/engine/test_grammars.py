"""When masks are computed, and for whom; that they are right is test_structured_output's."""

from concurrent.futures import Future

import pytest
from llguidance import LLMatcher, LLTokenizer

from engine.grammars import Grammars, GrammarState
from engine.opening import open_model
from engine.requests import Grammar

WORDS = Grammar("choice", '["the quick fox", "the slow fox"]')


@pytest.fixture(scope="module")
def tokenizer(tiny_model_dir):
    return open_model(str(tiny_model_dir))[1]


@pytest.fixture
def grammars(tokenizer):
    return Grammars(tokenizer.to_json, num_tokens=384, eos_token_ids=tokenizer.eos_token_ids)


def tokens_of(tokenizer, text):
    return tokenizer.encode([text], add_special_tokens=False)[0]


def test_who_has_said_the_same_in_one_grammar_shares_one_mask(grammars, tokenizer):
    first, second = grammars.start(WORDS), grammars.start(WORDS)
    masks = []

    for token in tokens_of(tokenizer, "the quick"):
        masks.append((first.allowed(), second.allowed()))
        first.advance(token)
        second.advance(token)

    assert len(masks) > 1
    assert all(one is other for one, other in masks)


def test_the_same_tokens_in_another_grammar_have_another_mask(grammars, tokenizer):
    one = grammars.start(WORDS)
    other = grammars.start(Grammar("regex", "the (quick|slow|red) .*"))

    for token in tokens_of(tokenizer, "the "):
        one.advance(token)
        other.advance(token)

    assert one.allowed() != other.allowed()


def test_a_mask_is_begun_with_the_token_before_it_and_not_when_it_is_asked_for(tokenizer):
    known = LLTokenizer(tokenizer.to_json(), n_vocab=384)
    matcher = LLMatcher(known, LLMatcher.grammar_from_regex("the (quick|slow) fox"))
    begun = list[bytes]()

    def mask_of(key: bytes, matcher: LLMatcher) -> Future[bytes]:
        begun.append(key)
        mask = Future[bytes]()
        mask.set_result(matcher.compute_bitmask())
        return mask

    state = GrammarState(matcher, b"words", mask_of)
    state.advance(tokens_of(tokenizer, "the quick")[0])

    assert len(begun) == len(set(begun)) == 2
