"""gelu_mul, on every path."""

import pytest
import torch

from kernels import gelu_mul, reference
from tests.kernels.ops.tolerance import TOLERANCE, assert_matches

# exp(90) is inf and 1 / inf is the right 0; NumPy, which the interpreter runs on, remarks on it.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")

SHAPES = [(0, 8), (1, 1), (3, 100), (7, 1024), (2, 1536), (5, 2049)]


def make_input(shape, dtype, device):
    num_tokens, intermediate = shape
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(num_tokens, 2 * intermediate, generator=generator) * 4
    return wide.to(device, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matches_the_reference_in_fp64(shape, dtype, device):
    gate_up = make_input(shape, dtype, device)

    out = gelu_mul(gate_up)

    assert_matches(out, reference.gelu_mul(gate_up.double()))


def test_large_gates_neither_overflow_nor_vanish(device):
    gate_up = torch.tensor([[-1e4, 1e4, 2.0, 2.0]], device=device)

    out = gelu_mul(gate_up)

    assert out.tolist() == [[0.0, 2e4]]


def test_a_row_does_not_depend_on_its_batch(device):
    gate_up = make_input((16, 1000), torch.float32, device)

    assert torch.equal(gelu_mul(gate_up[:1]), gelu_mul(gate_up)[:1])


def test_the_input_is_left_alone(device):
    gate_up = make_input((3, 100), torch.float32, device)
    before = gate_up.clone()

    gelu_mul(gate_up).zero_()

    assert torch.equal(gate_up, before)


def test_refuses_what_it_cannot_compute(device):
    gate_up = make_input((4, 2), torch.float32, device)

    with pytest.raises(ValueError, match="contiguous"):
        gelu_mul(gate_up.T)
    with pytest.raises(ValueError, match=r"2 \* intermediate"):
        gelu_mul(gate_up[:, :3].contiguous())
    with pytest.raises(ValueError, match=r"gate_up is torch\.float64"):
        gelu_mul(gate_up.double())
