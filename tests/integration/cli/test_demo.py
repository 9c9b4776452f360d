"""`gristmill demo`, with an engine that needs no model."""

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.cli.processes import mentioning, wait_for


def start_demo(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cli", "demo", "--engine", "echo"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_demo_does_the_main_job_and_leaves_nothing(open_path: Path) -> None:
    demo = start_demo(open_path)

    output, _ = demo.communicate(timeout=150)

    assert demo.returncode == 0, output
    assert "24 completed, 0 failed, of 24" in output
    assert "s3://gristmill/" in output
    assert "its signature is right" in " ".join(output.split())
    assert list(open_path.iterdir()) == []


def test_demo_that_is_told_to_end_stops_what_it_started(open_path: Path) -> None:
    demo = start_demo(open_path)
    wait_for(lambda: bool(list(open_path.glob("*/data/logs/api.log"))), seconds=60)

    demo.terminate()
    demo.communicate(timeout=60)

    assert demo.returncode != 0
    assert mentioning(open_path) == []
    assert list(open_path.iterdir()) == []
