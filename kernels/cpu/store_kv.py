"""K and V into the pages by one indexed assignment each."""

import torch


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    kept = slot_mapping >= 0
    if not bool(kept.all()):
        k, v, slot_mapping = k[kept], v[kept], slot_mapping[kept]
    most = torch.finfo(k_cache.dtype).max
    lost = ~((k.abs() <= most) & (v.abs() <= most)).all(dim=2, keepdim=True)
    block_size = k_cache.shape[1]
    place = slot_mapping // block_size, slot_mapping % block_size
    k_cache[place] = k.masked_fill(lost, torch.nan).to(k_cache.dtype)
    v_cache[place] = v.masked_fill(lost, 0).to(v_cache.dtype)
