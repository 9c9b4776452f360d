"""rms_norm and add_rms_norm, on every path."""

import pytest
import torch

from kernels import add_rms_norm, reference, rms_norm
from tests.kernels.ops.tolerance import TOLERANCE, assert_matches

SHAPES = [(0, 64), (1, 1), (1, 64), (3, 100), (7, 1024), (2, 5120)]  # odd ones catch wrong masks
EPS = 1e-5


def make_inputs(shape, dtype, device):
    generator = torch.Generator().manual_seed(0)
    x, residual = torch.randn(2, *shape, generator=generator).to(device, dtype)
    weight = torch.randn(shape[-1], generator=generator).to(device, dtype)
    return x, residual, weight


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rms_norm_matches_the_reference_in_fp64(shape, dtype, device):
    x, _, weight = make_inputs(shape, dtype, device)

    normed = rms_norm(x, weight, EPS)

    assert_matches(normed, reference.rms_norm(x.double(), weight.double(), EPS))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_each_head_of_a_token_is_a_row(dtype, device):
    qkv, _, weight = make_inputs((5, 4, 16), dtype, device)
    heads = qkv[:, 1:3]

    normed = rms_norm(heads, weight, EPS)

    assert_matches(normed, reference.rms_norm(heads.double(), weight.double(), EPS))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add_rms_norm_matches_the_reference_in_fp64(shape, dtype, device):
    x, residual, weight = make_inputs(shape, dtype, device)

    normed, total = add_rms_norm(x, residual, weight, EPS)

    want_normed, want_total = reference.add_rms_norm(
        x.double(), residual.double(), weight.double(), EPS
    )
    assert_matches(normed, want_normed)
    assert_matches(total, want_total)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_row_does_not_depend_on_its_batch(dtype, device):
    x, residual, weight = make_inputs((16, 1000), dtype, device)

    alone = add_rms_norm(x[:1], residual[:1], weight, EPS)
    together = add_rms_norm(x, residual, weight, EPS)

    assert torch.equal(alone[0], together[0][:1])  # bit for bit
    assert torch.equal(alone[1], together[1][:1])
    assert torch.equal(rms_norm(x[:1], weight, EPS), rms_norm(x, weight, EPS)[:1])


def test_inputs_are_left_alone(device):
    x, residual, weight = make_inputs((3, 100), torch.float32, device)
    before = x.clone(), residual.clone(), weight.clone()

    normed, total = add_rms_norm(x, residual, weight, EPS)
    normed.zero_()
    total.zero_()
    rms_norm(x, weight, EPS).zero_()

    assert all(map(torch.equal, (x, residual, weight), before))


def test_refuses_what_it_cannot_compute(device):
    x, residual, weight = make_inputs((64, 64), torch.float32, device)

    with pytest.raises(ValueError, match="x must be contiguous"):
        rms_norm(x.T, weight, EPS)
    with pytest.raises(ValueError, match="residual must be contiguous"):
        add_rms_norm(x, residual.T, weight, EPS)
    with pytest.raises(ValueError, match="shapes disagree"):
        rms_norm(x, weight[:-1], EPS)
    with pytest.raises(ValueError, match="shapes disagree"):
        add_rms_norm(x, residual[:-1], weight, EPS)
    with pytest.raises(ValueError, match="dtypes disagree"):
        add_rms_norm(x, residual.half(), weight, EPS)
    with pytest.raises(ValueError, match=r"x is torch\.float64"):
        rms_norm(x.double(), weight.double(), EPS)
