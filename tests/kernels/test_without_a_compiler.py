"""The tests in `ops/` again, computed by PyTorch as where no C can be compiled.

Which of the two computes is settled when a process starts, so this is one of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

OPS = Path(__file__).parent / "ops"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", str(OPS)]


def test_every_op_passes_its_tests_in_pytorch():
    child = subprocess.run(
        [*PYTEST, str(OPS)],
        env=os.environ | {"GRISTMILL_CPU_KERNELS": "torch"},
        capture_output=True,
        text=True,
    )

    assert child.returncode == 0, child.stdout
