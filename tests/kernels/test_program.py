"""Ops recorded and run again give what they give at once."""

import operator

import pytest
import torch
from torch.nn.functional import relu

from kernels import add_rms_norm, native, pack_int8_weight, record, rms_norm, silu_mul

pytestmark = pytest.mark.skipif(native.library() is None, reason="no C compiler, or no AVX2")

SIZE, TOKENS = 64, 24


@pytest.fixture
def block():
    """Something like half a layer: a matrix of int8 brings scratch memory of its own."""
    torch.manual_seed(0)
    weight, gates = torch.randn(SIZE), pack_int8_weight(torch.randn(2 * SIZE, SIZE), None)
    assert gates is not None

    def compute(x):
        normed, total = add_rms_norm(silu_mul(gates(x)), x, weight, 1e-5)
        heads = rms_norm(normed.view(-1, 4, 16), weight[:16], 1e-5)
        return add_rms_norm(heads.view(-1, SIZE), total, weight, 1e-5)[0]

    return compute


def recorded(compute, x):
    program = native.record(lambda: compute(x), tokens=TOKENS)
    assert program is not None
    return program


@pytest.mark.parametrize("tokens", [1, 2, 7, TOKENS])
def test_any_number_of_rows_up_to_those_recorded(block, tokens):
    x = torch.zeros(TOKENS, SIZE)
    program = recorded(block, x)

    x[:tokens] = torch.randn(tokens, SIZE)

    assert torch.equal(program.run(tokens, None), block(x[:tokens]))


def test_nothing_is_computed_while_it_is_recorded(block):
    x = torch.randn(TOKENS, SIZE)

    program = recorded(block, x)

    assert not program.result.any()


def test_memory_is_used_again_when_nothing_reads_it_any_more(block):
    def many_layers(x):
        for _ in range(50):
            x = block(x)
        return x

    x = torch.randn(TOKENS, SIZE)
    program = recorded(many_layers, x)

    assert torch.equal(program.run(TOKENS, None), many_layers(x))
    assert program.memory.size < 20 * TOKENS * SIZE * 4


def test_a_pass_that_pytorch_computes_a_part_of_is_not_recorded(block):
    x = torch.randn(TOKENS, SIZE)

    assert record(lambda x: block(x) + 1, x, tokens=TOKENS) is None
    assert record(lambda x: block(x).mul_(2), x, tokens=TOKENS) is None
    assert record(lambda x: block(operator.iadd(x, 1)), x, tokens=TOKENS) is None
    assert record(lambda x: block(torch.add(x, 1, out=x)), x, tokens=TOKENS) is None
    assert record(lambda x: block(x[:, :60].contiguous()), x, tokens=TOKENS) is None
    assert record(lambda x: block(x[[*range(TOKENS)]]), x, tokens=TOKENS) is None
    assert record(lambda x: block(torch._foreach_add([x], 1)[0]), x, tokens=TOKENS) is None
    assert record(lambda x: block(relu(x, inplace=True)), x, tokens=TOKENS) is None


def test_a_pass_that_looks_at_numbers_is_not_recorded(block):
    x = torch.zeros(TOKENS, SIZE)

    assert record(lambda x: block(x) if x[0, 0] else x, x, tokens=TOKENS) is None
    assert record(lambda x: block(x[int(x[0, 0].item()) :]), x, tokens=TOKENS) is None
    assert record(lambda x: block(x[: 1 + len(x.tolist())]), x, tokens=TOKENS) is None
    assert record(lambda x: block(x) if torch.equal(x, x) else x, x, tokens=TOKENS) is None
    assert record(lambda x: block(torch.from_numpy(x.numpy())), x, tokens=TOKENS) is None


def test_ops_compute_at_once_after_a_recording_that_failed(block):
    x = torch.randn(TOKENS, SIZE)

    def fails(x):
        raise KeyError("a fault of the pass itself")

    with pytest.raises(KeyError):
        record(fails, x, tokens=TOKENS)

    assert block(x).any()
