"""Checkpoints for peers: the same model in another format, and a random one of a real shape."""

import torch

from bench.checkpoints import write_checkpoint, write_random_qwen2
from bench.engine import Options, bench_engine
from engine.opening import open_model

QWEN = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 400,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
}


def test_a_written_checkpoint_has_the_weights_and_the_tokens_of_its_model(tiny_model_dir, tmp_path):
    write_checkpoint(str(tiny_model_dir), tmp_path)

    before, tokenizer = open_model(str(tiny_model_dir))
    after, same_tokenizer = open_model(str(tmp_path))
    assert after.names == before.names
    assert all(torch.equal(after.tensor(name), before.tensor(name)) for name in before.names)
    texts = ["the quick brown fox"]
    assert same_tokenizer.encode(texts, add_special_tokens=False) == tokenizer.encode(
        texts, add_special_tokens=False
    )


def test_a_random_qwen_runs_and_says_what_the_reference_says(tiny_model_dir, tmp_path):
    write_random_qwen2(QWEN, open_model(str(tiny_model_dir))[1], tmp_path / "model")
    workload = tmp_path / "small.jsonl"
    workload.write_text('{"prompt_ids": [5, 6, 7, 8], "max_tokens": 4, "ignore_eos": true}\n')

    figures = bench_engine(
        str(tmp_path / "model"),
        str(workload),
        Options(check=None, ceiling=False),
        tell=lambda doing: None,
    )

    assert figures["reference"]["equal_tokens"] == 4
