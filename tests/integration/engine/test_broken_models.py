"""What a model has no number for is an error of the requests that meet it, and of no others."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import Grammar
from kernels import native
from tests.fixtures.tiny_model import write_tiny_model
from tests.integration.engine.running import load, request, run_out

BROKEN = 300  # a token whose embedding is none
PREFIX = list(range(40, 80))
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "drawn": {"temperature": 0.8, "seed": 3},
    "within top_p": {"temperature": 0.8, "seed": 3, "top_p": 0.9},
    "penalised": {"frequency_penalty": 0.5, "logit_bias": {7: 1.0}},
    "with likelihoods": {"logprobs": 2},
    "held to a grammar": {"grammar": Grammar("regex", "[a-z]{8}")},
}


def damage(folder, name, row, value):
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights[name][row] = value
    save_file(weights, path, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    write_tiny_model(folder)
    damage(folder, "model.embed_tokens.weight", BROKEN, torch.nan)
    return folder


@pytest.fixture(scope="module", params=["fp32", "int8", "bf16"])
def llm(model_dir, request):
    return load(model_dir, precision=request.param, max_model_len=128)


def asked(request_id, prompt, **params):
    return request(request_id, prompt, **{"max_tokens": 6, "ignore_eos": True} | params)


def error_of(completion):
    assert completion.error is not None
    return completion.error.code


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_is_made_of_what_is_no_number_and_neighbours_get_theirs(llm, kind):
    neighbours = [asked(f"{i}", [i, 5, 9], **KINDS[other]) for i, other in enumerate(KINDS)]
    alone = [llm.generate([neighbour])[0] for neighbour in neighbours]

    *found, broken = llm.generate([*neighbours, asked("broken", [1, BROKEN, 2], **KINDS[kind])])

    assert (broken.finish_reason, broken.text) == ("error", "")
    assert error_of(broken) == "logits_not_finite"
    assert [each.token_ids for each in found] == [each.token_ids for each in alone]
    assert llm.engine.stats().kv_blocks_used == 0


def test_a_request_breaks_off_where_its_own_tokens_break_it(model_dir):
    llm = load(model_dir)
    said = asked("1", [1, 2, 3], logit_bias={BROKEN: 1000.0})

    [found] = llm.generate([said])

    assert error_of(found) == "logits_not_finite"
    assert found.token_ids[0] == BROKEN


@pytest.mark.skipif(native.library() is None, reason="PyTorch's products mix what is hidden in")
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("together", [True, False])
def test_a_prefix_that_was_computed_before_what_is_broken_is_whole(model_dir, precision, together):
    llm = load(model_dir, precision=precision, block_size=4)
    good = asked("good", [*PREFIX, 5, 6, 7], logprobs=1)
    [alone] = load(model_dir, precision=precision, block_size=4).generate([good])

    llm.engine.add([asked("broken", [*PREFIX, BROKEN, 5])])
    done = {} if together else run_out(llm.engine)
    llm.engine.add([good])
    done |= run_out(llm.engine)

    assert error_of(done["broken"]) == "logits_not_finite"
    assert done["good"].cached_tokens >= len(PREFIX)
    assert done["good"].logprobs == alone.logprobs


def test_blocks_of_what_was_broken_serve_the_next(llm):
    good = [asked(f"{i}", [i, *PREFIX], max_tokens=20) for i in range(8)]
    want = [each.token_ids for each in llm.generate(good)]

    broken = llm.generate([asked(f"{i}", [*range(i, 50), BROKEN, i]) for i in range(40)])

    assert set(map(error_of, broken)) == {"logits_not_finite"}
    assert [each.token_ids for each in llm.generate(good)] == want


def test_of_a_model_that_is_broken_throughout_every_request_is_an_error(tmp_path):
    write_tiny_model(tmp_path)
    damage(tmp_path, "model.norm.weight", 3, torch.inf)
    llm = load(tmp_path)

    found = llm.generate([asked(f"{i}", [i, 2, 3]) for i in range(5)])

    assert set(map(error_of, found)) == {"logits_not_finite"}
    assert not llm.engine.has_work
