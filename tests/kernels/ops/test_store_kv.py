"""store_kv, on every path."""

import pytest
import torch

from kernels import AttentionMetadata, paged_attention, reference, store_kv
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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("which", ["k", "v"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_what_is_not_finite_is_nan_for_those_who_see_it_and_nothing_for_others(
    value, which, dtype, device
):
    num_tokens, lost = 20, 9
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, num_tokens, 2, 16, generator=generator).to(device, dtype)
    caches = cached(*torch.zeros(2, NUM_BLOCKS, BLOCK_SIZE, 2, 16).to(device, dtype))
    slots = torch.arange(num_tokens, device=device)
    step = AttentionMetadata(
        block_tables=torch.arange(NUM_BLOCKS, dtype=torch.int32, device=device)[None],
        seq_lens=torch.tensor([num_tokens], dtype=torch.int32, device=device),
        query_starts=torch.tensor([0, num_tokens], dtype=torch.int32, device=device),
        num_decodes=0,
        max_query_len=num_tokens,
        max_seq_len=num_tokens,
    )
    store_kv(k, v, *caches, slots)
    want = paged_attention(q, *caches, step, scale=0.3, window=5)

    (k if which == "k" else v)[lost, :, 3] = value
    store_kv(k, v, *caches, slots)
    found = paged_attention(q, *caches, step, scale=0.3, window=5)

    sees = (slots >= lost) & (slots < lost + 5)
    assert found[sees].isnan().all()
    assert torch.equal(found[~sees], want[~sees])


def test_a_number_beyond_the_caches_type_is_lost(device):
    if device == "cuda" or INTERPRETED:
        pytest.skip("caches have the type of what they hold")
    k, v, k_cache, v_cache, slots = make_inputs((7, 3, 64), torch.float32, device)
    k_cache, v_cache = cached(k_cache.half(), v_cache.half())
    v[3, 1, 5] = 1e5

    store_kv(k, v, k_cache, v_cache, slots)

    place = slots[3] // BLOCK_SIZE, slots[3] % BLOCK_SIZE, 1
    assert k_cache[place].isnan().all()
    assert not v_cache[place].any()
    assert torch.equal(v_cache[place[:2]][0], v[3, 0].half())


@pytest.mark.parametrize("shape", [(7, 3, 64), (7, 3, 1)], ids=str)
def test_a_slot_beyond_the_cache_is_refused_and_nothing_is_written_there(shape, device):
    if device == "cuda" or INTERPRETED:
        pytest.skip("not checked there")
    k, v, k_cache, v_cache, slots = make_inputs(shape, torch.float32, device)
    slots[3] = NUM_BLOCKS * BLOCK_SIZE

    with pytest.raises(IndexError):
        store_kv(k, v, k_cache, v_cache, slots)
