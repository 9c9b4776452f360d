"""Checkpoints in Hugging Face's format, for peers that read no other, and one of random weights.

    python -m bench.checkpoints MODEL FOLDER

writes MODEL, whatever the engine can open, as a folder in fp32; for MODEL = random-qwen2.5-0.5b, a
model of that shape with random weights and SmolLM2's tokenizer: its words mean nothing, its speed
is right.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bench.reference import dense_model
from engine.opening import open_model
from engine.tokenizer import Tokenizer

RANDOM_QWEN = "random-qwen2.5-0.5b"

_TOKENIZER_OF = "smollm2-135m-instruct"
_QWEN: dict[str, Any] = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
}


def write_checkpoint(model: str, folder: Path) -> None:
    """model: as the engine names it.  Raises ModelUnusable."""
    checkpoint, tokenizer = open_model(model)
    dense_model(checkpoint).save_pretrained(folder)
    write_tokenizer(tokenizer, folder)


def write_random_qwen2(config: Mapping[str, Any], tokenizer: Tokenizer, folder: Path) -> None:
    """config: what transformers' Qwen2Config takes"""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    Qwen2ForCausalLM(Qwen2Config(**config)).save_pretrained(folder)
    write_tokenizer(tokenizer, folder)


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Only what turns text into tokens: no chat template, no end token."""
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerFast

    backend = Backend.from_str(tokenizer.to_json())
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)


def main(arguments: list[str]) -> None:
    model, folder = arguments
    if model == RANDOM_QWEN:
        write_random_qwen2(_QWEN, open_model(_TOKENIZER_OF)[1], Path(folder))
    else:
        write_checkpoint(model, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
