"""Products with packed weights: right, and each row by itself to the last bit."""

import pytest
import torch

from kernels import native, pack_int8_weight, pack_weight
from kernels.packed_weight import Packed
from tests.kernels.ops.tolerance import assert_matches

pytestmark = pytest.mark.skipif(native.library() is None, reason="no C compiler, or no AVX2")

ROWS = (1, 5, 6, 7, 64, 131)
SHAPES = [(16, 16), (32, 5), (576, 960), (48, 33), (1536, 40)]  # inputs, outputs


def make(shape, rows, *, biased):
    inputs, outputs = shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
    return x, weight, torch.randn(outputs, generator=generator) if biased else None


def packed_fp32(weight, bias) -> Packed:
    packed = pack_weight(weight, bias)
    assert packed is not None
    return packed


def packed_int8(weight, bias) -> Packed:
    packed = pack_int8_weight(weight, bias)
    assert packed is not None
    return packed


def in_fp64(x, weight, bias):
    return torch.nn.functional.linear(
        x.double(), weight.double(), None if bias is None else bias.double()
    )


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_that_of_fp64(shape, rows, biased):
    x, weight, bias = make(shape, rows, biased=biased)

    out = packed_fp32(weight, bias)(x)

    plain, gold = torch.nn.functional.linear(x, weight, bias), in_fp64(x, weight, bias)
    allowed = 4 * (plain - gold).abs().max() + 1e-6
    assert (out - gold).abs().max() <= allowed


def test_inputs_that_are_no_multiple_of_anything():
    x, weight, bias = make((37, 19), 3, biased=True)

    out = packed_fp32(weight, bias)(x)

    torch.testing.assert_close(out, in_fp64(x, weight, bias).float(), rtol=1e-5, atol=1e-6)
    assert pack_int8_weight(weight, bias) is None


@pytest.mark.parametrize("pack", [packed_fp32, packed_int8])
def test_no_rows_are_no_product(pack):
    x, weight, bias = make((32, 5), 0, biased=True)

    assert pack(weight, bias)(x).shape == (0, 5)


@pytest.mark.parametrize("pack", [packed_fp32, packed_int8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_is_the_same_bit_for_bit_whatever_its_neighbours(pack, shape):
    x, weight, bias = make(shape, 131, biased=True)
    x[7] *= 1e6  # a neighbour that would widen a scale that they shared
    packed = pack(weight, bias)

    together = packed(x)

    for rows in (slice(0, 1), slice(3, 10), slice(64, 131)):
        assert torch.equal(packed(x[rows]), together[rows])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_int8_product_is_exactly_that_of_the_rounded_numbers(shape, rows):
    x, weight, bias = make(shape, rows, biased=True)
    inputs = shape[0]
    limit = min(8191, (2**31 - 1) // (127 * inputs))
    unit, scale = x.abs().amax(1) / limit, weight.abs().amax(1) / 127

    out = packed_int8(weight, bias)(x)

    # Rounded as the kernel rounds: a number on the border goes to the nearer even one.
    whole_x = (x * (torch.tensor(float(limit)) / x.abs().amax(1, keepdim=True))).round().double()
    whole_weight = (weight / weight.abs().amax(1, keepdim=True) * 127).round().double()
    want = (whole_x @ whole_weight.T) * (scale.double() * unit.double()[:, None]) + bias.double()
    assert_matches(out, want)


def test_an_int8_product_of_the_largest_numbers_does_not_overflow():
    inputs = 8192
    x, weight = torch.full((1, inputs), 3.0), torch.full((16, inputs), 2.0)

    out = packed_int8(weight, None)(x)

    torch.testing.assert_close(out, torch.full((1, 16), 6.0 * inputs))


def test_rows_of_zeros_stay_zeros():
    packed = packed_int8(torch.zeros(16, 32), None)

    out = packed(torch.zeros(2, 32))

    assert torch.equal(out, torch.zeros(2, 16))


def test_a_packed_weight_gives_its_rows_back():
    _, weight, _ = make((48, 33), 1, biased=False)
    index = torch.tensor([0, 32, 17, 17])

    rows = packed_fp32(weight, None).rows(index)

    assert torch.equal(rows, weight[index])


def test_an_int8_weight_gives_its_rows_back_as_it_rounded_them():
    _, weight, _ = make((48, 33), 1, biased=False)
    index = torch.tensor([0, 32, 17, 17])

    rows = packed_int8(weight, None).rows(index)

    scale = weight.abs().amax(1, keepdim=True) / 127
    assert_matches(rows, ((weight / scale).round() * scale)[index].double())


@pytest.mark.parametrize("pack", [packed_fp32, packed_int8])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [0, 7, 63])
def test_a_row_that_is_not_finite_gives_nothing_that_is(pack, value, place):
    torch.manual_seed(0)
    product, x = pack(torch.randn(40, 64), None), torch.randn(5, 64)
    want = product(x)

    x[2] = 0
    x[2, place] = value
    found = product(x)

    assert not found[2].isfinite().any()
    assert torch.equal(found[[0, 1, 3, 4]], want[[0, 1, 3, 4]])
