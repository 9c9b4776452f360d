"""K and V lie as those read them who will."""

import pytest
import torch

from kernels import native, view_kv_cache

pytestmark = pytest.mark.skipif(native.library() is None, reason="no C compiler, or no AVX2")


@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "head_dim", "dtype", "in_c"),
    [
        (96, 1, 16, torch.float32, True),
        (194, 2, 16, torch.float32, False),
        (4, 2, 256, torch.float16, True),
        (4, 2, 264, torch.float32, False),
        (4, 2, 20, torch.float32, False),
        (4, 2, 16, torch.bfloat16, False),
    ],
)
def test_what_c_cannot_attend_to_lies_in_the_order_that_pytorch_reads_without_a_copy(
    num_heads, num_kv_heads, head_dim, dtype, in_c
):
    memory = torch.zeros(2, 5, 16 * num_kv_heads * head_dim, dtype=dtype)

    k, v = view_kv_cache(memory, block_size=16, num_heads=num_heads, num_kv_heads=num_kv_heads)

    assert k.shape == v.shape == (5, 16, num_kv_heads, head_dim)
    assert (k.is_contiguous() and v.is_contiguous()) is not in_c
