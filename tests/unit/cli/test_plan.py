"""`gristmill plan`: the arithmetic of a card's memory, checked against numbers known elsewhere."""

import pytest
from typer.testing import CliRunner

from bench.gpu.random_model import LLAMA_8B
from cli.errors import CommandFailed
from cli.main import app
from cli.plan import kv_plan, lines, parse_size
from engine.errors import ModelUnusable

GIB = 2**30


def plan_8b(memory=80 * GIB):
    return kv_plan(LLAMA_8B, memory=memory, item_bytes=2, tied_head=False)


def test_llama_8b_in_bf16_has_the_weights_and_the_kv_that_are_known_of_it():
    found = plan_8b()

    assert found.weight_bytes == 8_030_261_248 * 2  # parameters that its makers count
    assert found.kv_bytes_per_token == 131_072


def test_the_pool_is_what_the_weights_leave_in_whole_blocks():
    found = plan_8b()

    left = int(80 * GIB * 0.9) - found.weight_bytes
    assert found.pool_tokens == left // (16 * 131_072) * 16
    assert found.concurrency(8000) == found.pool_tokens / 8000
    assert found.concurrency(8001) == found.pool_tokens / 8016


def test_a_card_too_small_for_the_weights_is_refused_with_both_numbers():
    with pytest.raises(CommandFailed, match=r"take 14\.96 GiB, but only 14\.40 GiB"):
        plan_8b(memory=16 * GIB)


def test_a_request_that_cannot_fit_is_refused_with_both_numbers():
    found = plan_8b(memory=17 * GIB)

    with pytest.raises(CommandFailed, match=r"8,192 cannot fit: the pool holds 2,800 tokens"):
        lines(found, max_model_len=8192)


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GiB", 80 * GIB), ("24 GB", 24 * 10**9), ("1.5GiB", 3 * GIB // 2), ("512MB", 512 * 10**6)],
)
def test_sizes_are_read_in_both_kinds_of_units(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "many", "80", "80 TiB", "-1GiB", "80GiB more"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(CommandFailed, match="is no amount of memory"):
        parse_size(text)


def test_the_command_reads_the_shape_from_the_model(tiny_model_dir):
    arguments = ["--model", str(tiny_model_dir), "--memory", "1MiB", "--max-model-len", "100"]

    result = CliRunner().invoke(app, ["plan", *arguments])

    assert result.exit_code == 0
    assert "256 bytes a token" in result.stdout


def test_a_model_that_is_not_there_is_one_sentence():
    arguments = ["--model", "/nowhere", "--memory", "1GiB", "--max-model-len", "100"]

    result = CliRunner().invoke(app, ["plan", *arguments])

    assert isinstance(result.exception, ModelUnusable)
    assert str(result.exception).startswith("there is no model at /nowhere")
