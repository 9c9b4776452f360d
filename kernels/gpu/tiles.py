"""How large the tiles of the attention kernels are: as large as registers hold, in one place.

Rows are those of a tile: query rows times the heads that share a KV head.
"""

import functools
from dataclasses import dataclass

import triton


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """dims: the head size, padded; tensor_cores: whether products run on them
    decode_rows, prefill_rows, part_rows: of the three kernels; decode_rows is the low tile of parts
    keys, prefill_keys: taken at a time
    stages: how far loads run ahead in parts, in steps of the loop
    """

    dims: int
    tensor_cores: bool
    decode_rows: int
    prefill_rows: int
    part_rows: int
    keys: int
    prefill_keys: int
    stages: int = 3

    @property
    def prefill_warps(self) -> int:
        return 4 if self.dims <= 128 else 8

    def part_warps(self, rows: int) -> int:
        large = rows > 64 or rows * self.dims > 64 * 128
        return 8 if large or not self.tensor_cores else 4


@functools.cache
def tiles_for(group: int, head_dim: int, itemsize: int) -> Tiles:
    """group: query heads to a KV head; itemsize: bytes of a number"""
    least = triton.next_power_of_2(group)
    dims = max(16, triton.next_power_of_2(head_dim))
    # fp32 products run on no tensor core: their operands fill the registers twice as fast.
    narrow, small = itemsize == 2, dims <= 128
    return Tiles(
        dims=dims,
        tensor_cores=narrow,
        decode_rows=max(16, least),
        prefill_rows=max(64 if narrow else 16, least),
        part_rows=max((128 if small else 64) if narrow else 32, least),
        keys=64 if narrow and small else 32,
        prefill_keys=32 if narrow else 16,
    )
