"""Who computes: without this a child could pass the tests of a path that it never took."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernels
from kernels import cpu, native
from kernels.dispatch import ops_for
from kernels.settings import COMPILED, INTERPRETED


def test_a_cuda_tensor_or_the_interpreter_means_triton(device):
    x = torch.zeros(1, device=device)

    ops = ops_for(x)

    assert (ops not in (cpu, native)) == (INTERPRETED or device == "cuda")


@pytest.mark.skipif(INTERPRETED, reason="then Triton computes")
def test_a_cpu_tensor_means_c_unless_torch_is_asked_for():
    ops = ops_for(torch.zeros(1))

    assert ops is (native if COMPILED and native.library() else cpu)


def test_the_cpu_path_never_loads_triton():
    root = Path(kernels.__file__).parents[1]
    script = (
        "import sys, torch, kernels\n"
        "kernels.silu_mul(torch.zeros(1, 2))\n"
        "sys.exit('triton' in sys.modules)"
    )

    child = subprocess.run([sys.executable, "-c", script], cwd=root, env={})

    assert child.returncode == 0
