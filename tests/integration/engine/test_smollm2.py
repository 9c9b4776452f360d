"""The bundled model: a real GGUF with a real tokenizer."""

import json

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from engine import LLM, Grammar
from engine.bundled import bundled_model
from engine.gguf_tokenizer import load_gguf_tokenizer
from engine.tokenizer import Tokenizer
from engine.weights.checkpoint import Checkpoint
from engine.weights.gguf_checkpoint import open_gguf
from engine.weights.gguf_file import GgufFile
from tests.integration.engine.dense import best_next_tokens
from tests.integration.engine.running import load, request

NAME = "smollm2-135m-instruct"
NUM_TOKENS = 12
QUESTIONS = [
    "What is the capital of France?",
    "List three animals that live in the sea.",
    "Écris une phrase en français.",
]


@pytest.fixture(scope="module")
def llm() -> LLM:
    return load(NAME, kv_cache_bytes=2**27, max_num_batched_tokens=20, max_num_seqs=4)


@pytest.fixture(scope="module")
def file() -> GgufFile:
    path = bundled_model(NAME)
    assert path is not None
    return GgufFile(path)


@pytest.fixture(scope="module")
def checkpoint(file) -> Checkpoint:
    return open_gguf(file)


@pytest.fixture(scope="module")
def tokenizer(file) -> Tokenizer:
    return load_gguf_tokenizer(file)


def test_greedy_tokens_equal_transformers_on_the_same_weights(llm, checkpoint, tokenizer):
    dense = LlamaForCausalLM(LlamaConfig(**checkpoint.config)).eval()
    weights = {name: checkpoint.tensor(name) for name in checkpoint.names}
    dense.load_state_dict(weights, strict=False)  # the head is tied, not stored
    dense.tie_weights()
    chats = [[{"role": "user", "content": question}] for question in QUESTIONS]
    prompts = tokenizer.encode(map(tokenizer.render_chat, chats), add_special_tokens=False)

    found = llm.generate(
        [
            request(str(i), chat, max_tokens=NUM_TOKENS, ignore_eos=True)
            for i, chat in enumerate(chats)
        ]
    )

    tokens = [completion.token_ids for completion in found]
    assert tokens == [
        best_next_tokens(dense, prompt, completion)
        for prompt, completion in zip(prompts, tokens, strict=True)
    ]
    assert llm.engine.stats().cached_tokens > 0  # all begin with the same system prompt


def test_it_answers_in_words_and_stops_by_itself(llm):
    chat = [{"role": "user", "content": QUESTIONS[0]}]

    [completion] = llm.generate([request("1", chat, max_tokens=30)])

    assert "Paris" in completion.text
    assert "<|im_end|>" not in completion.text
    assert completion.finish_reason == "stop"


def test_it_fills_in_a_schema_and_makes_a_choice(llm):
    person = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "is_capital": {"type": "boolean"}},
        "required": ["city", "is_capital"],
        "additionalProperties": False,
    }
    chat = [{"role": "user", "content": QUESTIONS[0]}]
    grammars = [
        Grammar("json_schema", json.dumps(person)),
        Grammar("choice", '["Paris", "Rome"]'),
    ]

    filled, chosen = llm.generate(
        [request(each.kind, chat, max_tokens=40, grammar=each) for each in grammars]
    )

    assert json.loads(filled.text).keys() == {"city", "is_capital"}
    assert chosen.text == "Paris"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello world", ["Hello", " world"]),
        ("in 2024", ["in", " ", "2", "0", "2", "4"]),
        ("a  12", ["a", "  ", "1", "2"]),
        ("don't", ["don", "'t"]),
        ("<|im_start|>user", ["", "user"]),  # special tokens have no text
    ],
)
def test_text_is_cut_into_words_as_the_models_makers_did(tokenizer, text, pieces):
    [ids] = tokenizer.encode([text], add_special_tokens=True)

    assert [tokenizer.decode([token]) for token in ids] == pieces


@pytest.mark.parametrize(
    "text", ["plain", "naïve 日本語 🙂", "  two  spaces\n\n\ttab", "0123 4.5%"]
)
def test_decoding_gives_back_what_was_encoded(tokenizer, text):
    [ids] = tokenizer.encode([text], add_special_tokens=True)

    assert tokenizer.decode(ids) == text
