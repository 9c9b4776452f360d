"""The plainest way to complete a prompt: the whole of it through transformers, for every token."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel


def load_dense(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def complete_greedily(model: PreTrainedModel, prompt: list[int], num_tokens: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(num_tokens):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


@torch.inference_mode()
def best_next_tokens(model: PreTrainedModel, prompt: list[int], completion: list[int]) -> list[int]:
    """The best token at each place of a completion, given all before it.

    A completion equals its own best tokens exactly if it is the greedy one; one forward tells.
    """
    logits = model(torch.tensor([prompt + completion]), use_cache=False).logits[0]
    best: list[int] = logits[len(prompt) - 1 : -1].argmax(dim=-1).tolist()
    return best
