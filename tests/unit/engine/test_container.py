"""Limits of containers, in the files in which both versions of Linux's cgroups tell them."""

import os

import pytest

from engine.container import memory_left, usable_cpus

CPUS = len(os.sched_getaffinity(0))
GIB = 2**30


class Machine:
    """Its cgroups' files, and which group the process is in."""

    def __init__(self, folder):
        self._folder = folder
        self.places = {"mount": folder / "mount", "membership": folder / "membership"}

    def joins(self, *lines):
        self.places["membership"].write_text("".join(f"{line}\n" for line in lines))

    def says(self, path, **files):
        folder = self.places["mount"] / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_text(content)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_where_nothing_is_limited_all_cpus_are_usable(machine):
    assert usable_cpus(**machine.places) == CPUS

    machine.joins("0::/")
    machine.says("", cpu__max="max 100000\n")

    assert usable_cpus(**machine.places) == CPUS


@pytest.mark.parametrize(
    ("quota", "usable"),
    [("100000", 1), ("10000", 1), ("199999", 1), ("999999999", CPUS), ("max", CPUS), ("-1", CPUS)],
)
def test_a_quota_counts_in_whole_cpus_and_at_least_one(machine, quota, usable):
    machine.joins("0::/app")
    machine.says("app", cpu__max=f"{quota} 100000\n")

    assert usable_cpus(**machine.places) == usable


def test_the_quota_of_a_group_around_counts_too(machine):
    machine.joins("0::/pod/app")
    machine.says("pod", cpu__max="100000 100000\n")
    machine.says("pod/app", cpu__max="max 100000\n")

    assert usable_cpus(**machine.places) == 1


def test_quotas_of_the_first_version_count(machine):
    machine.joins("4:memory:/app", "3:cpu,cpuacct:/app", "0::/")
    machine.says("cpu/app", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")

    assert usable_cpus(**machine.places) == 1


def test_a_container_that_is_shown_the_hosts_path_has_the_limit_at_its_mount(machine):
    machine.joins("3:cpu,cpuacct:/docker/0123", "2:memory:/docker/0123")
    machine.says("cpu", cpu__cfs_quota_us="100000\n", cpu__cfs_period_us="100000\n")
    machine.says("memory", memory__limit_in_bytes=f"{GIB}\n", memory__usage_in_bytes="0\n")

    assert usable_cpus(**machine.places) == 1
    assert memory_left(**machine.places) == GIB


def test_memory_is_left_as_the_narrowest_group_says_and_idle_files_can_go(machine):
    assert memory_left(**machine.places) is None
    machine.joins("0::/pod/app")
    machine.says("", memory__max="max\n", memory__current="1\n")
    machine.says("pod", memory__max=f"{3 * GIB}\n", memory__current=f"{2 * GIB}\n")
    machine.says("pod/app", memory__max=f"{4 * GIB}\n", memory__current=f"{GIB}\n")

    assert memory_left(**machine.places) == GIB

    machine.says("pod", memory__stat=f"anon 5\ninactive_file {GIB}\nslab 7\n")

    assert memory_left(**machine.places) == 2 * GIB
