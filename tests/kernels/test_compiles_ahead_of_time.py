"""Every kernel becomes machine code for the GPUs we care for, on a machine that has none.

In a process of its own: the compiler and the interpreter exclude each other.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernels

pytest.importorskip("triton")

ROOT = Path(kernels.__file__).parents[1]
REPORT = re.compile(r"Function properties for (\w+)\n.*?(\d+) bytes spill stores")


def kernels_in_the_source():
    sources = "".join(path.read_text() for path in (ROOT / "kernels" / "gpu").glob("*.py"))
    return set(re.findall(r"^def (\w+_kernel)\(", sources, re.MULTILINE))


@pytest.mark.parametrize("capability", [80, 90, 100], ids=lambda capability: f"sm_{capability}")
def test_every_kernel_is_assembled_and_spills_no_register(capability, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)  # nothing is reported for what was cached

    child = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_launches", str(capability)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert child.returncode == 0, child.stderr
    reports = REPORT.findall(child.stdout)
    assert {kernel for kernel, _ in reports} == kernels_in_the_source()
    assert [report for report in reports if report[1] != "0"] == []
