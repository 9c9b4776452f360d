"""What /proc says, asked of processes of our own."""

import subprocess
import sys

import pytest

from bench.memory import MemoryWatch, cpu_seconds, members, resident_kib, roles_of

MIB = 1024  # KiB

# Says when it is there, and stays until it is told to go.
STAY = "print('here', flush=True); input()"
HOLD = f"held = b'x' * (64 * 2**20); {STAY}"
BURN = f"sum(range(20_000_000)); {STAY}"
FORK = (
    "import subprocess, sys;"
    f"child = subprocess.Popen([sys.executable, '-c', {STAY!r}]);"
    "child.wait()"
)


@pytest.fixture
def start():
    running = []

    def start_program(code):
        program = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "here\n"
        return program.pid

    yield start_program
    for program in running:
        program.communicate("\n", timeout=10)


def test_what_a_process_holds_is_counted(start):
    small, large = start(STAY), start(HOLD)

    assert 60 * MIB < resident_kib([large]) - resident_kib([small]) < 70 * MIB


def test_what_two_processes_map_both_is_counted_once(start):
    first, second = start(STAY), start(STAY)

    together = resident_kib([first, second])

    assert resident_kib([first]) < together < resident_kib([first]) + resident_kib([second])


def test_a_child_belongs_to_its_parents_role_unless_it_has_its_own(start):
    parent = start(FORK)
    [child] = members({"all": [parent]})["all"][1:]

    apart = members({"up": [parent], "api": [child]})

    assert apart == {"up": [parent], "api": [child]}


def test_cpu_time_is_that_of_the_role(start):
    seconds = cpu_seconds({"idle": [start(STAY)], "busy": [start(BURN)]})

    assert seconds["busy"] > seconds["idle"] + 0.1


def test_a_process_that_has_ended_counts_nothing():
    program = subprocess.Popen([sys.executable, "-c", ""])
    program.wait()
    roles = {"gone": [program.pid]}

    assert resident_kib([program.pid]) == 0
    assert cpu_seconds(roles) == {"gone": 0}
    assert members(roles) == roles


def test_roles_are_lists_of_pids():
    assert roles_of({"api": 3, "workers": [4, 5]}) == {"api": [3], "workers": [4, 5]}


def test_the_watch_tells_the_peak_of_each_role(start):
    with MemoryWatch({"small": [start(STAY)], "large": [start(HOLD)]}) as watch:
        pass

    assert watch.peak_mib()["large"] - watch.peak_mib()["small"] in range(60, 70)
