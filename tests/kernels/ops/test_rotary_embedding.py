"""rotary_embedding, on every path."""

import pytest
import torch

from kernels import reference, rotary_embedding
from tests.kernels.ops.tolerance import TOLERANCE, assert_matches

SHAPES = [(0, 2, 1, 16), (1, 1, 1, 2), (5, 9, 3, 64), (3, 14, 2, 64), (2, 4, 4, 80), (7, 8, 1, 128)]
MAX_POSITIONS = 50


def make_inputs(shape, dtype, device):
    num_tokens, num_heads, num_kv_heads, head_dim = shape
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(num_tokens, num_heads, head_dim, generator=generator)
    k = torch.randn(num_tokens, num_kv_heads, head_dim, generator=generator)
    positions = torch.randint(0, MAX_POSITIONS, (num_tokens,), generator=generator)
    angles = torch.rand(MAX_POSITIONS, head_dim // 2, generator=generator) * 6
    cos_sin = torch.cat((angles.cos(), angles.sin()), dim=-1)
    return q.to(device, dtype), k.to(device, dtype), positions.to(device), cos_sin.to(device)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matches_the_reference_in_fp64(shape, dtype, device):
    q, k, positions, cos_sin = make_inputs(shape, dtype, device)

    new_q, new_k = rotary_embedding(q, k, positions, cos_sin)

    want_q, want_k = reference.rotary_embedding(q.double(), k.double(), positions, cos_sin.double())
    assert_matches(new_q, want_q)
    assert_matches(new_k, want_k)


def test_takes_views_of_one_fused_qkv(device):
    q, k, positions, cos_sin = make_inputs((5, 4, 2, 16), torch.float32, device)
    fused = torch.cat((q.flatten(1), k.flatten(1), k.flatten(1)), dim=1)
    q_view, k_view = fused[:, :64].view(5, 4, 16), fused[:, 64:96].view(5, 2, 16)

    from_views = rotary_embedding(q_view, k_view, positions, cos_sin)

    assert all(map(torch.equal, from_views, rotary_embedding(q, k, positions, cos_sin)))


def test_a_row_does_not_depend_on_its_batch(device):
    q, k, positions, cos_sin = make_inputs((16, 9, 3, 64), torch.bfloat16, device)

    alone, _ = rotary_embedding(q[:1], k[:1], positions[:1], cos_sin)
    together, _ = rotary_embedding(q, k, positions, cos_sin)

    assert torch.equal(alone, together[:1])


def test_inputs_are_left_alone(device):
    q, k, positions, cos_sin = make_inputs((3, 4, 2, 16), torch.float32, device)
    before = q.clone(), k.clone(), positions.clone(), cos_sin.clone()

    new_q, new_k = rotary_embedding(q, k, positions, cos_sin)
    new_q.zero_()
    new_k.zero_()

    assert all(map(torch.equal, (q, k, positions, cos_sin), before))


def test_refuses_what_it_cannot_compute(device):
    q, k, positions, cos_sin = make_inputs((3, 4, 2, 16), torch.float32, device)

    with pytest.raises(ValueError, match=r"q must be \[tokens, heads, head_dim\]"):
        rotary_embedding(q.flatten(1), k, positions, cos_sin)
    with pytest.raises(ValueError, match="heads of one token of q"):
        rotary_embedding(q.transpose(0, 1), k, positions, cos_sin)
    with pytest.raises(ValueError, match="shapes disagree"):
        rotary_embedding(q, k[:-1], positions, cos_sin)
    with pytest.raises(ValueError, match="int64 positions"):
        rotary_embedding(q, k, positions.int(), cos_sin)
    with pytest.raises(ValueError, match="cos_sin must be"):
        rotary_embedding(q, k, positions, cos_sin.double())
    with pytest.raises(ValueError, match="dtypes disagree"):
        rotary_embedding(q, k.half(), positions, cos_sin)
