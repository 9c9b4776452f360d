"""A GGUF gives the same tokens as the Hugging Face model whose weights it holds."""

import json
import shutil
from pathlib import Path

import gguf
import pytest
from transformers import Qwen2Tokenizer

from engine import ModelUnusable
from engine.gguf_tokenizer import load_gguf_tokenizer
from engine.weights.gguf_file import GgufFile
from tests.fixtures.tiny_model import write_tiny_model
from tests.integration.engine.architectures import VARIANTS, write_model
from tests.integration.engine.dense import complete_greedily, load_dense
from tests.integration.engine.gguf_writing import write_gguf
from tests.integration.engine.prompts import make_prompts
from tests.integration.engine.running import load, request

TEXT = "the quick brown fox 日本語 and a café <|user|>"
CHAT = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("quantization", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_greedy_tokens_equal_transformers(tiny_model_dir, tmp_path, quantization):
    model = load_dense(tiny_model_dir)
    path = tmp_path / "tiny.gguf"
    write_gguf(model, tiny_model_dir, path, quantization)
    prompt = [7, 30, 200, 9]

    [found] = load(path).generate([request("1", prompt, max_tokens=20, ignore_eos=True)])

    assert found.token_ids == complete_greedily(model, prompt, 20)


@pytest.mark.parametrize("quantization", ["Q4_K", "Q6_K"])
def test_greedy_tokens_equal_transformers_from_k_quants(tmp_path, quantization):
    write_tiny_model(tmp_path, hidden_size=256, intermediate_size=256, head_dim=64)
    model = load_dense(tmp_path)
    path = tmp_path / "tiny.gguf"
    write_gguf(model, tmp_path, path, quantization)
    prompt = [7, 30, 200, 9]

    [found] = load(path).generate([request("1", prompt, max_tokens=20, ignore_eos=True)])

    assert found.token_ids == complete_greedily(model, prompt, 20)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("mistral", {}),
        ("mistral, window", {}),
        ("qwen2", {}),
        ("qwen2, tied head", {}),
        ("qwen3", {}),
        # What a GGUF has no word for is as in the released models.
        (
            "gemma3",
            {
                "query_pre_attn_scalar": 24,
                "num_hidden_layers": 6,
                "layer_types": None,
                "rope_parameters": {
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                    "full_attention": {"rope_type": "linear", "rope_theta": 5e3, "factor": 8.0},
                },
            },
        ),
    ],
)
def test_every_architecture_equals_transformers(tmp_path, name, changes):
    variant = VARIANTS[name]
    model = write_model(variant._replace(config=variant.config | changes), tmp_path)
    path = tmp_path / "tiny.gguf"
    write_gguf(model, tmp_path, path, "F32")
    prompt = make_prompts()[-1]

    [found] = load(path).generate([request("1", prompt, max_tokens=20, ignore_eos=True)])

    assert found.token_ids == complete_greedily(model, prompt, 20)


def test_an_architecture_that_we_do_not_run_is_refused(tiny_model_dir, tmp_path):
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(ModelUnusable, match="'mamba'; we run gemma3, llama, qwen2, qwen3"):
        load(path)


def test_its_tokenizer_and_template_are_those_of_the_folder(tiny_model_dir, tmp_path):
    path = tmp_path / "tiny.gguf"
    write_gguf(load_dense(tiny_model_dir), tiny_model_dir, path, "F32")
    requests = [request("text", TEXT, max_tokens=5), request("chat", CHAT, max_tokens=5)]

    of_gguf, of_folder = (load(model).generate(requests) for model in (path, tiny_model_dir))

    assert of_gguf == of_folder


def test_text_is_cut_into_words_as_qwen_does(tiny_model_dir, tmp_path):
    folder = Path(shutil.copytree(tiny_model_dir, tmp_path / "model"))
    saved = json.loads((folder / "tokenizer.json").read_text())
    vocab, merges = saved["model"]["vocab"], saved["model"]["merges"]
    vocab["20"] = len(vocab)
    merges.append(["2", "0"])  # which rules differ on: Qwen never joins digits
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    path = tmp_path / "tiny.gguf"
    write_gguf(load_dense(folder), folder, path, "F32", words="qwen2")
    pairs = [tuple(merge) for merge in merges]
    theirs = Qwen2Tokenizer(vocab, pairs, eos_token="<|end|>", pad_token="<|end|>")
    texts = ["a  batch of 2024\n\n requests", "isn't it, Cafe\u0301?", "\tone\r\n  two", "x1y22 z"]

    ours = load_gguf_tokenizer(GgufFile(path)).encode(texts, add_special_tokens=True)

    assert ours == [theirs(text)["input_ids"] for text in texts]


def test_a_quantisation_that_we_do_not_read_is_refused(tiny_model_dir, tmp_path):
    path = tmp_path / "tiny.gguf"
    write_gguf(load_dense(tiny_model_dir), tiny_model_dir, path, "Q5_0")

    with pytest.raises(ModelUnusable, match="quantised as Q5_0; we read"):
        load(path)


def test_a_truncated_file_is_refused(tiny_model_dir, tmp_path):
    path = tmp_path / "tiny.gguf"
    write_gguf(load_dense(tiny_model_dir), tiny_model_dir, path, "F32")
    path.write_bytes(path.read_bytes()[:-5000])

    with pytest.raises(ModelUnusable, match="truncated or not a GGUF"):
        load(path)
