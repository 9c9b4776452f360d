"""How a worker's process ends where it cannot end by itself."""

import subprocess
import sys

_STUCK = """
import threading
from worker import process

process.end_within(0, resign=lambda: print("resigned", flush=True))
threading.Event().wait()
"""


def test_a_process_that_cannot_stop_in_time_resigns_and_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STUCK], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stdout) == (70, "resigned\n")
