"""Ports that are chosen long before they are bound."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cli import ports

_MANY = 500  # of 7,700: without locks, two choices of so many would surely meet


@contextmanager
def _chooser(wish: str = "") -> Iterator[list[int]]:
    """The ports that another living process chose: the one it wished for, or many."""
    script = f"""
from cli import ports
print(*ports.free_pairs({1 if wish else _MANY}, preferred=[{wish}]), flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield [int(port) for port in process.stdout.readline().split()]
        process.communicate("\n")


def test_two_starts_never_choose_the_same_port_though_nothing_is_bound_yet():
    with _chooser() as first, _chooser() as second:
        assert len(first) == len(second) == _MANY
        assert not {*first} & {*second}


def test_a_port_that_a_living_process_chose_is_not_given_even_to_who_prefers_it():
    [wanted] = ports.free_pairs(1)

    with _chooser(wish=str(wanted)) as [got]:
        assert got != wanted


def test_the_ports_of_a_process_that_ended_are_free_again():
    with _chooser() as [first, *_]:
        pass

    with _chooser(wish=str(first)) as [second]:
        assert second == first


def test_a_second_start_of_one_process_gets_the_ports_of_its_first():
    [first] = ports.free_pairs(1)

    assert ports.free_pairs(1, preferred=[first]) == [first]


def test_two_choices_of_one_process_differ():
    first = ports.free_pairs(20)
    second = ports.free_pairs(20)

    assert not {*first} & {*second}
