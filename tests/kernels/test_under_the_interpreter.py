"""The tests in `ops/` again, with Triton's kernels interpreted on the CPU.

TRITON_INTERPRET is read when a kernel is decorated and holds for the whole process, and interpreted
kernels are far too slow for the engine's tests.  So it is set for this child and for nothing else.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", "3.7", reason="with NumPy 2.3 no older interpreter can loop")

OPS = Path(__file__).parent / "ops"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", str(OPS)]


@pytest.mark.timeout(900)  # two hundred tests in one
def test_every_kernel_passes_its_tests_under_the_interpreter():
    child = subprocess.run(
        [*PYTEST, str(OPS)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )

    assert child.returncode == 0, child.stdout
