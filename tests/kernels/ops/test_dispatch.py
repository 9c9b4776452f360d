"""Who computes: without this a child could pass the tests of a path that it never took."""

import subprocess
import sys
from pathlib import Path

import torch

import kernels
from kernels import cpu
from kernels.dispatch import ops_for
from kernels.settings import INTERPRETED


def test_a_cuda_tensor_or_the_interpreter_means_triton(device):
    x = torch.zeros(1, device=device)

    ops = ops_for(x)

    assert (ops is not cpu) == (INTERPRETED or device == "cuda")


def test_the_cpu_path_never_loads_triton():
    root = Path(kernels.__file__).parents[1]
    script = (
        "import sys, torch, kernels\n"
        "kernels.silu_mul(torch.zeros(1, 2))\n"
        "sys.exit('triton' in sys.modules)"
    )

    child = subprocess.run([sys.executable, "-c", script], cwd=root, env={})

    assert child.returncode == 0
