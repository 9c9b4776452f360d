"""What is loaded, what is said about it, and what is refused in one sentence."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from engine import ModelUnusable, load_engine
from engine.container import usable_cpus
from tests.integration.engine.running import load


@pytest.fixture
def broken_dir(tiny_model_dir, tmp_path) -> Path:
    """A copy of the tiny model, to be broken."""
    return Path(shutil.copytree(tiny_model_dir, tmp_path / "model"))


def edit_config(folder: Path, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_startup_says_what_every_setting_became(tiny_model_dir):
    lines: list[str] = []

    load_engine(
        str(tiny_model_dir), device="cpu", kv_cache_bytes=2**20, max_model_len=500,
        on_report=lines.append,
    )  # fmt: skip

    assert lines[:3] == [
        f"model {tiny_model_dir}: float32 on cpu, threads {torch.get_num_threads()}",
        "max_model_len 500, max_num_seqs 64, max_num_batched_tokens 512, "
        "block_size 16, kv_cache_bytes 1048576, memory_fraction 0.9",
        "KV cache: 0.00 GiB, 128 blocks of 16 tokens, 2048 tokens; "
        "maximum concurrency for 500 tokens per request: 4.0x",
    ]


def test_threads_are_as_many_as_asked_for_or_usable(tiny_model_dir):
    usable = usable_cpus()

    load(tiny_model_dir, threads=usable + 1)
    asked = torch.get_num_threads()
    load(tiny_model_dir)

    assert asked == usable + 1
    assert torch.get_num_threads() == usable


def test_max_model_len_defaults_to_what_fits(tiny_model_dir):
    lines: list[str] = []

    load_engine(str(tiny_model_dir), device="cpu", kv_cache_bytes=2**17, on_report=lines.append)

    assert "max_model_len 256" in lines[1]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"max_model_len": 300, "kv_cache_bytes": 2**17}, "300 cannot fit.* holds 256 tokens"),
        ({"max_model_len": 513}, "513 is more than the 512 positions"),
        ({"kv_cache_bytes": 100}, "room for no block"),
        ({"max_num_seqs": 8, "max_num_batched_tokens": 4}, "4 is less than max_num_seqs 8"),
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1, not 0"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
        ({"block_size": -16}, "block_size must be at least 1, not -16"),
        ({"memory_fraction": 1.5}, "memory_fraction must be .* at most 1, not 1.5"),
        ({"device": "abacus"}, "'abacus' is none of auto, cpu, cuda"),
        ({"device": "cuda:99"}, "'cuda:99' is not here"),
        ({"precision": "int3"}, "'int3' is none of auto, fp32"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(tiny_model_dir, settings, complaint):
    with pytest.raises(ModelUnusable, match=complaint):
        load(tiny_model_dir, **settings)


def test_a_model_that_is_not_there_is_refused():
    with pytest.raises(ModelUnusable, match="no model at /nowhere/at-all: give the path"):
        load(Path("/nowhere/at-all"))


def test_a_truncated_file_is_refused(broken_dir):
    path = broken_dir / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])

    with pytest.raises(ModelUnusable, match="truncated"):
        load(broken_dir)


def test_a_missing_shard_is_refused(broken_dir):
    index = {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}
    (broken_dir / "model.safetensors.index.json").write_text(json.dumps(index))

    with pytest.raises(ModelUnusable, match=r"names model-00002-of-00002\.safetensors"):
        load(broken_dir)


def test_pickled_weights_are_refused_unread(broken_dir):
    (broken_dir / "model.safetensors").unlink()
    torch.save({}, broken_dir / "pytorch_model.bin")

    with pytest.raises(ModelUnusable, match=r"only pickled weights.*convert them"):
        load(broken_dir)


def test_an_unknown_architecture_is_refused(broken_dir):
    edit_config(broken_dir, architectures=["MambaForCausalLM"])

    with pytest.raises(ModelUnusable, match="MambaForCausalLM; we run LlamaForCausalLM"):
        load(broken_dir)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"hidden_size": 128}, "the config says"),
        ({"num_hidden_layers": 3}, "has no weight model.layers.2"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "longrope"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "factor"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    ],
)
def test_a_config_that_we_would_compute_wrongly_is_refused(broken_dir, changes, complaint):
    edit_config(broken_dir, **changes)

    with pytest.raises(ModelUnusable, match=complaint):
        load(broken_dir)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_config_that_is_no_config_is_refused(broken_dir, content):
    (broken_dir / "config.json").write_text(content)

    with pytest.raises(ModelUnusable, match=r"config\.json"):
        load(broken_dir)


def test_a_folder_without_a_tokenizer_is_refused(broken_dir):
    for path in broken_dir.glob("tokenizer*"):
        path.unlink()

    with pytest.raises(ModelUnusable, match="tokenizer"):
        load(broken_dir)


def test_a_gguf_that_is_none_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 40)

    with pytest.raises(ModelUnusable, match="truncated or not a GGUF"):
        load(path)
