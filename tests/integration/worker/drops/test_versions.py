"""Each version of a dropped object runs once, and beside it lie the results of the newest alone."""

import threading

import pytest

from jobs import job_leases, quotas
from jobs.models import JobState
from jobs.quotas import Limits
from jobs.storage import Storage
from tests.fixtures.until import until
from tests.fixtures.work import Work, custom_ids
from tests.integration.worker.drops.scene import Run, batches, fail_with, line
from worker.control.drops import DropWatch


def test_each_version_of_an_object_runs_once(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    outside.put("in/a.jsonl", b"1\n")
    watch.look()
    watch.look()
    assert batches(work) == ["in/a.jsonl"]

    outside.put("in/a.jsonl", b"2\n")
    watch.look()

    assert batches(work) == ["in/a.jsonl", "in/a.jsonl"]


@pytest.mark.parametrize(
    ("first", "second", "beside"),
    [
        ((False, True), (True, True), {"in/a.output.jsonl"}),
        ((True, False), (False, False), {"in/a.error.jsonl"}),
        ((True, True), (True, False), {"in/a.output.jsonl", "in/a.error.jsonl"}),
    ],
)
def test_beside_a_new_version_lie_its_own_results_alone(
    watch: DropWatch, outside: Storage, run: Run, first, second, beside: set[str]
) -> None:
    outside.put("in/a.jsonl", line("r0") + line("r1"))
    watch.look()
    run(*first)
    watch.look()

    outside.put("in/a.jsonl", line("r0") + line("r1") + b"\n")
    watch.look()
    run(*second)
    watch.look()

    assert {found.key for found in outside.objects("in/")} == {"in/a.jsonl", *beside}


def test_what_lies_beside_a_file_that_runs_for_the_first_time_is_its_owners(
    watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/a.error.jsonl", b"mine\n")
    outside.put("in/a.jsonl", line("r0"))
    watch.look()

    run(True)
    watch.look()

    assert outside.read("in/a.error.jsonl") == b"mine\n"


def test_a_file_that_cannot_run_any_more_leaves_no_old_results_beside_it(
    work: Work, watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/a.jsonl", line("r0"))
    watch.look()
    run(True)
    watch.look()

    outside.put("in/a.jsonl", b"{bad\n")
    watch.look()
    fail_with(work, [{"code": "invalid_json_line"}])
    watch.look()

    assert {found.key for found in outside.objects("in/")} == {"in/a.jsonl", "in/a.error.jsonl"}


def test_a_version_that_ends_after_a_newer_one_writes_nothing_over_its_results(
    watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/a.jsonl", line("old"))
    watch.look()
    run.answer(True)
    outside.put("in/a.jsonl", line("r0") + line("new"))
    watch.look()
    run.answer(True, True)

    run.finalize()
    run.finalize()
    watch.look()

    assert custom_ids(outside.read("in/a.output.jsonl")) == ["r0", "r1"]
    assert {found.key for found in outside.objects("in/")} == {"in/a.jsonl", "in/a.output.jsonl"}


def test_the_reasons_of_an_old_version_are_not_written_over_a_new_ones_results(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    outside.put("in/a.jsonl", b"{bad\n")
    watch.look()
    fail_with(work, [{"code": "file_changed"}])
    outside.put("in/a.jsonl", b"{better\n")

    watch.look()

    assert outside.find("in/a.error.jsonl") is None
    assert len(batches(work)) == 2


def test_a_new_version_and_the_cut_of_the_old_one_do_not_wait_for_each_other(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    with work.sessions.begin() as session:
        some = Limits(None, None, 10, None, None)  # so that admissions lock the tenant
        quotas.set_limits(session, tenant_id=work.tenant_id, limits=some)
    outside.put("in/a.jsonl", line("r0"))
    watch.look()
    lease = work.claim_plan(work.add_worker())
    outside.put("in/a.jsonl", line("r1"))
    looking = threading.Thread(target=watch.look)

    with work.sessions.begin() as cutting:
        job_leases.hold(cutting, lease, JobState.VALIDATING)
        looking.start()
        waits = until(work.waits_for_lock)
        quotas.admit_planned(cutting, tenant_id=work.tenant_id, job_id=lease.job_id, tokens=1)
    looking.join()

    assert waits
    assert batches(work) == ["in/a.jsonl", "in/a.jsonl"]
