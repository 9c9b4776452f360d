"""How far from fp64 a result may be: one table for every op, one bound for attention."""

import torch

# Two units in the last place of bf16 and fp16, where rounding the result decides; sixteen of fp32,
# where the order of a sum does.
TOLERANCE = {  # relative, absolute
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float16: (2e-3, 1e-5),
    torch.float32: (2e-6, 1e-6),
}


def assert_matches(got, want_fp64):
    rtol, atol = TOLERANCE[got.dtype]
    torch.testing.assert_close(got, want_fp64.to(got.dtype), rtol=rtol, atol=atol)


def assert_as_good_as_plain(got, plain, gold):
    """Attention may err twice as much as the plain formula does in the same dtype.

    Source: the tests of FlashAttention, Dao 2023, arXiv:2307.08691.
    """
    allowed = 2 * (plain.double() - gold).abs().max() + 1e-5
    error = (got.double() - gold).abs().max()
    assert error <= allowed, f"error {error:.3g}, allowed {allowed:.3g}"  # false for NaN too
