"""Each test runs on every path that its process has.

In an ordinary process that is the CPU path, and the compiled kernels where there is a GPU.  Whether
Triton interprets is fixed when a kernel is decorated, so the interpreter has processes of its own:
`test_under_the_interpreter.py` runs these same files again with TRITON_INTERPRET=1, and no other
test of the project ever meets that variable.
"""

import pytest
import torch

from kernels.settings import INTERPRETED

DEVICES = ["cpu", *([pytest.param("cuda", marks=pytest.mark.gpu)] * torch.cuda.is_available())]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def poisoned_empty(monkeypatch):
    """Fill fresh tensors with NaN, so that a kernel that skips an element cannot pass by luck."""
    for name in ("empty", "empty_like"):
        real = getattr(torch, name)

        def poisoned(*args, _real=real, **kwargs):
            tensor = _real(*args, **kwargs)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        monkeypatch.setattr(torch, name, poisoned)


@pytest.fixture(autouse=INTERPRETED)
def rounded_bf16(monkeypatch):
    from tests.kernels.ops import interpreter_bf16

    interpreter_bf16.correct(monkeypatch)
