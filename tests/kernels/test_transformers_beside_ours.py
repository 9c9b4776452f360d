"""transformers looks for a Hugging Face library that is named `kernels`, like our package."""

import subprocess
import sys
from pathlib import Path

import kernels

SCRIPT = """
import sys
import torch
import kernels
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import is_kernels_available

assert not is_kernels_available(), "ours was taken for theirs"
config = LlamaConfig(
    vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
)
logits = LlamaForCausalLM(config)(torch.tensor([[1, 2, 3]])).logits
assert logits.shape == (1, 3, 16)
assert sys.modules["kernels"] is kernels
"""


def test_transformers_works_beside_our_kernels():
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(kernels.__file__).parents[1],
        capture_output=True,
        text=True,
    )

    assert child.returncode == 0, child.stderr
