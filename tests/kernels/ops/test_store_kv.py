"""store_kv, on every path."""

import pytest
import torch

from kernels import reference, store_kv
from kernels.settings import INTERPRETED
from tests.kernels.ops.caches import cached
from tests.kernels.ops.tolerance import TOLERANCE

NUM_BLOCKS, BLOCK_SIZE = 6, 4
SHAPES = [(0, 1, 16), (1, 1, 1), (7, 3, 64), (11, 2, 80)]


def make_inputs(shape, dtype, device):
    generator = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, *shape, generator=generator).to(device, dtype)
    caches = torch.randn(2, NUM_BLOCKS, BLOCK_SIZE, *shape[1:], generator=generator)
    k_cache, v_cache = cached(*caches.to(device, dtype))
    slots = torch.randperm(NUM_BLOCKS * BLOCK_SIZE, generator=generator)[: shape[0]].to(device)
    slots[2::3] = -1
    return k, v, k_cache, v_cache, slots


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_writes_the_slots_and_nothing_else(shape, dtype, device):
    k, v, k_cache, v_cache, slots = make_inputs(shape, dtype, device)
    want_k, want_v = k_cache.clone(), v_cache.clone()
    reference.store_kv(k, v, want_k, want_v, slots)

    store_kv(k, v, k_cache, v_cache, slots)

    assert torch.equal(k_cache, want_k)  # a copy is exact
    assert torch.equal(v_cache, want_v)


def test_takes_views_of_one_fused_qkv(device):
    k, v, k_cache, v_cache, slots = make_inputs((5, 2, 16), torch.float32, device)
    want_k, want_v = k_cache.clone(), v_cache.clone()
    reference.store_kv(k, v, want_k, want_v, slots)
    fused = torch.cat((k.flatten(1), v.flatten(1)), dim=1)

    store_kv(fused[:, :32].view(5, 2, 16), fused[:, 32:].view(5, 2, 16), k_cache, v_cache, slots)

    assert torch.equal(k_cache, want_k)
    assert torch.equal(v_cache, want_v)


def test_inputs_are_left_alone(device):
    k, v, k_cache, v_cache, slots = make_inputs((7, 3, 64), torch.float32, device)
    before = k.clone(), v.clone(), slots.clone()

    store_kv(k, v, k_cache, v_cache, slots)

    assert all(map(torch.equal, (k, v, slots), before))


def test_caches_in_no_order_of_the_kernels_are_refused_or_stored_to_all_the_same(device):
    k, v, k_cache, v_cache, slots = make_inputs((7, 3, 64), torch.float32, device)
    k_cache, v_cache = (cache.mT.contiguous().mT for cache in (k_cache, v_cache))
    want_k, want_v = k_cache.clone(), v_cache.clone()
    reference.store_kv(k, v, want_k, want_v, slots)

    if device == "cuda" or INTERPRETED:
        with pytest.raises(ValueError, match="k_cache must be contiguous"):
            store_kv(k, v, k_cache, v_cache, slots)
    else:
        store_kv(k, v, k_cache, v_cache, slots)
        assert torch.equal(k_cache, want_k)
        assert torch.equal(v_cache, want_v)


def test_refuses_what_it_cannot_store(device):
    k, v, k_cache, v_cache, slots = make_inputs((7, 3, 64), torch.float32, device)

    with pytest.raises(ValueError, match="the cache is"):
        store_kv(k, v, k_cache[:, :, :2].contiguous(), v_cache, slots)
    with pytest.raises(ValueError, match="shapes disagree"):
        store_kv(k, v[:-1], k_cache, v_cache, slots)
    with pytest.raises(ValueError, match="int64 slots"):
        store_kv(k, v, k_cache, v_cache, slots.int())
    with pytest.raises(ValueError, match="dtypes disagree"):
        store_kv(k, v, k_cache.half(), v_cache, slots)
