"""A chat template comes with the model and is not trusted."""

import json
from pathlib import Path

import pytest

from tests.fixtures.tiny_model import write_tiny_model
from tests.integration.engine.running import load, request

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__init__.__globals__ }}",
    "{% set ns = namespace() %}{{ ns.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ messages.append(messages[0]) }}",
    "{{ raise_exception('no system messages please') }}",
]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("templates")
    write_tiny_model(folder)
    return folder


def test_messages_are_rendered_with_the_models_own_template(model_dir):
    llm = load(model_dir)
    rendered = "<|system|>Be brief.<|end|><|user|>Hi<|end|><|assistant|>"

    chat, text = llm.generate(
        [request("chat", CHAT, max_tokens=4), request("text", rendered, max_tokens=4)]
    )

    assert chat.token_ids == text.token_ids
    assert chat.prompt_tokens == text.prompt_tokens


@pytest.mark.parametrize("template", ESCAPES)
@pytest.mark.law("P31")
def test_a_template_cannot_reach_out_of_its_sandbox(tmp_path, template):
    write_tiny_model(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(template)
    llm = load(tmp_path)

    refused, ran = llm.generate(
        [request("chat", CHAT, max_tokens=2), request("text", "hello", max_tokens=2)]
    )

    assert refused.error is not None
    assert refused.error.code == "invalid_messages"
    assert len(ran.token_ids) == 2


def test_messages_without_a_template_are_refused(tmp_path):
    write_tiny_model(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()

    [refused] = load(tmp_path).generate([request("chat", CHAT, max_tokens=2)])

    assert refused.error is not None
    assert refused.error.code == "no_chat_template"


def test_the_templates_special_tokens_are_not_doubled(model_dir):
    llm = load(model_dir)
    config = json.loads((model_dir / "tokenizer_config.json").read_text())
    assert config["eos_token"] == "<|end|>"

    [chat] = llm.generate([request("chat", CHAT, max_tokens=1)])

    tokenizer_text = "<|system|>Be brief.<|end|><|user|>Hi<|end|><|assistant|>"
    [text] = llm.generate([request("text", tokenizer_text, max_tokens=1)])
    assert chat.prompt_tokens == text.prompt_tokens
