"""Compiles the C kernels of this folder when they are first needed, as Triton does with its own.

What was compiled is kept by a digest of the sources, so a second process loads it at once.  Without
AVX2, FMA or a C compiler there is no library, and PyTorch computes instead.
"""

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from kernels.settings import CACHE, COMPILED

log = logging.getLogger(__name__)

# Keys are taken so many at a time, from multiples of it on.
TILE = 64
# Query vectors that one segment may have.
MAX_VECTORS = 96

SOURCES = ("attention.c", "linear.c", "linear_int8.c", "program.c", "rowwise.c")
HEADERS = ("product.h", "simd.h", "team.h", "tile.h")
# No -march=native: the same file may be loaded on another machine with AVX2.
FLAGS = (
    *("-O3", "-mavx2", "-mfma", "-mf16c", "-fopenmp", "-fPIC", "-shared"),
    *(f"-DTILE={TILE}", f"-DMAX_VECTORS={MAX_VECTORS}"),
)
TIMEOUT = 120  # seconds


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, compiled; None where they cannot be."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    able = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    if not (COMPILED and able and compiler):
        return None
    try:
        return ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("C kernels unusable, PyTorch computes instead: %s", error)
        return None


@functools.cache
def function(name: str) -> int:
    """The address of a function of the library, which there must be."""
    found = library()
    assert found is not None, "the dispatcher chooses this path only where there is a library"
    address = ctypes.cast(getattr(found, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _compiled(compiler: str) -> Path:
    folder = Path(__file__).parent
    arguments = [*FLAGS, *map(str, _openmp()), "-lm"]
    content = b"".join((folder / name).read_bytes() for name in (*SOURCES, *HEADERS))
    digest = hashlib.sha256(content + repr((compiler, arguments)).encode()).hexdigest()[:16]
    target = CACHE / f"kernels-{digest}.so"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        # Renamed when whole: processes that start together do not see each other's halves.
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            fresh = Path(scratch) / target.name
            sources = [str(folder / name) for name in SOURCES]
            subprocess.run(
                [compiler, *sources, *arguments, "-o", str(fresh)],
                check=True,
                capture_output=True,
                timeout=TIMEOUT,
            )
            os.replace(fresh, target)
    return target


def _openmp() -> list[Path]:
    """PyTorch's own, so that its threads and ours are the same."""
    root = Path(torch.__file__).parent
    found = sorted([*root.glob("lib/libgomp*.so*"), *root.parent.glob("torch.libs/libgomp*.so*")])
    return found[:1]
