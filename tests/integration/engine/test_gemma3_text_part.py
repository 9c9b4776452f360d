"""A Gemma 3 that can also see runs as its text part."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

from engine import ModelUnusable
from tests.fixtures.tiny_model import TINY_SHAPE, make_tokenizer
from tests.integration.engine.dense import best_next_tokens
from tests.integration.engine.running import load, request

PROMPT = [20, 40, 60, 80, 20, 40] * 4
TEXT = TINY_SHAPE | {
    "sliding_window": 9,
    "layer_types": ["sliding_attention", "full_attention"],
    "pad_token_id": None,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


def write(folder: Path) -> Gemma3ForConditionalGeneration:
    torch.manual_seed(0)
    config = Gemma3Config(
        text_config=TEXT,
        vision_config=VISION,
        mm_tokens_per_image=4,
        boi_token_index=5,
        eoi_token_index=6,
        image_token_index=7,
    )
    model = Gemma3ForConditionalGeneration(config).eval()
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return model


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_agrees_with_transformers(tmp_path, prefix):
    dense = write(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = {
        name.replace("language_model.model.", prefix): weight
        for name, weight in load_file(path).items()
    }
    save_file(weights, path)

    [found] = load(tmp_path).generate([request("1", PROMPT, max_tokens=20, ignore_eos=True)])

    assert found.token_ids == best_next_tokens(dense, PROMPT, found.token_ids)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"text_config": None}, "does not say text_config"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    ],
)
def test_a_text_part_that_we_would_compute_wrongly_is_refused(tmp_path, changes, complaint):
    write(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    with pytest.raises(ModelUnusable, match=complaint):
        load(tmp_path)
