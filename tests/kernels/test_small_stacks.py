"""The threads of OpenMP may have stacks as small as somebody's environment says."""

import os
import subprocess
import sys

import pytest

from kernels import native

ATTEND = """
import torch
from tests.kernels.test_segments import random_step
import random
from kernels import paged_attention
torch.set_num_threads(4)
q, k_cache, v_cache, metadata = random_step(random.Random(1))
assert paged_attention(q, k_cache, v_cache, metadata, scale=0.2).isfinite().all()
"""


@pytest.mark.skipif(native.library() is None, reason="no C compiler, or no AVX2")
def test_attention_needs_no_stack_to_speak_of():
    child = subprocess.run(
        [sys.executable, "-c", ATTEND],
        env=os.environ | {"OMP_STACKSIZE": "64K"},
        capture_output=True,
        text=True,
    )

    assert child.returncode == 0, child.stderr
