import subprocess
import sys

import pytest

import engine


@pytest.mark.parametrize("module", ["engine", "engine.scheduler", "engine.stats"])
def test_requests_statistics_and_scheduling_load_no_torch(module):
    program = f"import sys, {module}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", engine.__all__)
def test_every_public_name_is_there(name):
    assert hasattr(engine, name)


def test_other_names_are_not():
    assert not hasattr(engine, "nonsense")
