"""Packs numbers as ggml's k-quants do, which the gguf library can only read.

Crude: scales are taken from a wheel, not fitted.  Each function returns the packed rows and the
numbers that they stand for.
"""

import numpy as np


def pack_q4_k(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight runs of 32: q * (d * scale) - (dmin * minimum), scales and minima of six bits."""
    blocks = array.reshape(-1, 8, 32)
    count = len(blocks)
    scales = (np.arange(count * 8) * 11 % 40 + 20).reshape(count, 8).astype(np.uint8)
    minima = (np.arange(count * 8) * 7 % 40 + 20).reshape(count, 8).astype(np.uint8)
    peak = np.abs(array).max()
    d, dmin = np.float16(peak / 300), np.float16(peak / 40)
    step, low = float(d) * scales[..., None], float(dmin) * minima[..., None]
    q = np.clip(np.round((blocks + low) / step), 0, 15).astype(np.uint8)
    packed = np.concatenate(
        [
            np.tile(np.array([d, dmin]).view(np.uint8), (count, 1)),
            scales[:, :4] | (scales[:, 4:] >> 4 << 6),
            minima[:, :4] | (minima[:, 4:] >> 4 << 6),
            (scales[:, 4:] & 15) | (minima[:, 4:] << 4),
            (q[:, 0::2] | (q[:, 1::2] << 4)).reshape(count, -1),
        ],
        axis=1,
    )
    return packed.reshape(len(array), -1), (q * step - low).reshape(array.shape)


def pack_q6_k(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sixteen runs of 16: (q - 32) * d * scale, q's two upper bits apart from its lower four."""
    blocks = array.reshape(-1, 16, 16)
    count = len(blocks)
    scales = (np.arange(count * 16) * 11 % 60 + 60).reshape(count, 16).astype(np.int8)
    scales[:, 1::2] *= -1
    d = np.float16(np.abs(array).max() / 3000)
    step = float(d) * scales[..., None]
    q = np.clip(np.round(blocks / step), -32, 31) + 32
    values = ((q - 32) * step).reshape(array.shape)
    quarters = q.astype(np.uint8).reshape(count, 2, 4, 32)  # of each half of the block
    low, high = quarters & 15, quarters >> 4
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(4, 1)
    packed = np.concatenate(
        [
            (low[:, :, :2] | (low[:, :, 2:] << 4)).reshape(count, -1),
            np.bitwise_or.reduce(high << shifts, axis=2).reshape(count, -1),
            scales.view(np.uint8),
            np.tile(np.array([d]).view(np.uint8), (count, 1)),
        ],
        axis=1,
    )
    return packed.reshape(len(array), -1), values
