"""A batch that goes on from an earlier one runs what that one lacks, and nothing else."""

from typing import Any
from uuid import UUID

import pytest

from jobs import deletion, earlier
from jobs.errors import InvalidValue, NotAllowedNow, NotFound
from jobs.models import OnInvalidLine
from tests.fixtures.pipeline import InputRow, Pipeline, input_line


def file_of(*custom_ids: str) -> bytes:
    return b"".join(input_line(custom_id) + b"\n" for custom_id in custom_ids)


def fails_b(row: InputRow) -> bool:
    return str(row["custom_id"]) == "b"


def retry(pipeline: Pipeline, job_id: UUID, **changes: Any) -> UUID:
    with pipeline.work.sessions.begin() as session:
        parent = earlier.to_retry(session, tenant_id=pipeline.work.tenant_id, job_id=job_id)
    return pipeline.submit(
        b"",
        input_file_id=parent.input_file_id,
        on_invalid_line=parent.on_invalid_line,
        retry_of=job_id,
        **changes,
    )


def ended(pipeline: Pipeline, content: bytes, fails: Any = fails_b, **changes: Any) -> UUID:
    job_id = pipeline.submit(content, **changes)
    pipeline.plan()
    pipeline.run(fails=fails)
    pipeline.finalize()
    pipeline.ran.clear()
    return job_id


def ids_of(lines: list[dict[str, Any]]) -> list[str]:
    return [line["custom_id"] for line in lines]


def test_a_retry_runs_the_failed_rows_alone(pipeline: Pipeline) -> None:
    parent = ended(pipeline, file_of("a", "b", "c"))

    child = retry(pipeline, parent)
    pipeline.plan()
    pipeline.run()
    pipeline.finalize()

    assert pipeline.ran == ["b"]
    assert ids_of(pipeline.output(child)) == ["b"]
    assert (pipeline.job(child).total, pipeline.job(child).completed) == (1, 1)


def test_a_retry_runs_the_rows_that_a_cancel_left(pipeline: Pipeline) -> None:
    parent = pipeline.submit(file_of("a", "b", "c"))
    pipeline.plan()
    pipeline.run(1)
    pipeline.work.cancel(parent)
    pipeline.finalize()
    pipeline.ran.clear()

    retry(pipeline, parent)
    pipeline.plan()
    pipeline.run()

    assert pipeline.ran == ["b", "c"]


def test_a_retry_of_a_retry_goes_on_from_the_last_one(pipeline: Pipeline) -> None:
    first = ended(pipeline, file_of("a", "b", "c"), fails=lambda row: row["custom_id"] != "a")
    second = retry(pipeline, first)
    pipeline.plan()
    pipeline.run(fails=fails_b)
    pipeline.finalize()
    pipeline.ran.clear()

    retry(pipeline, second)
    pipeline.plan()
    pipeline.run()

    assert pipeline.ran == ["b"]


def test_a_retry_leaves_out_what_validation_refused(pipeline: Pipeline) -> None:
    content = file_of("a", "b") + b"{bad\n" + file_of("a")
    parent = ended(pipeline, content, on_invalid_line=OnInvalidLine.SKIP)

    child = retry(pipeline, parent)
    pipeline.plan()
    pipeline.run()
    pipeline.finalize()

    assert ids_of(pipeline.output(child)) == ["b"]
    assert pipeline.errors(child) == []


def test_where_every_row_has_its_result_nothing_can_be_retried(pipeline: Pipeline) -> None:
    content = file_of("a") + b"{bad\n"
    parent = ended(pipeline, content, on_invalid_line=OnInvalidLine.SKIP)

    with pytest.raises(NotAllowedNow, match="nothing to retry"):
        retry(pipeline, parent)


def test_a_running_batch_and_a_file_that_never_ran_cannot_be_retried(pipeline: Pipeline) -> None:
    running = pipeline.submit(file_of("a"))
    with pytest.raises(NotAllowedNow, match="once it has ended"):
        retry(pipeline, running)
    bad = pipeline.submit(b"{bad")
    pipeline.plan()
    pipeline.plan()

    with pytest.raises(NotAllowedNow, match="sound file"):
        retry(pipeline, bad)


def test_equal_rows_take_the_earlier_result_and_do_not_run(pipeline: Pipeline) -> None:
    first = ended(pipeline, file_of("a", "b", "c", "d"))
    changed = [input_line("c", "another question"), input_line("d"), input_line("new")]
    content = b"\n".join([*changed, input_line("b"), input_line("a")])

    second = pipeline.submit(content, reuse_from=first)
    pipeline.plan()
    pipeline.run()
    pipeline.finalize()

    assert sorted(pipeline.ran) == ["b", "c", "new"]
    assert ids_of(pipeline.output(second)) == ["c", "d", "new", "b", "a"]
    assert pipeline.job(second).completed == 5
    assert {line["id"][10:42] for line in pipeline.output(second)} == {second.hex}


def test_a_batch_of_equal_rows_alone_ends_without_a_worker(pipeline: Pipeline) -> None:
    first = ended(pipeline, file_of("a", "c"))

    second = pipeline.submit(file_of("c", "a"), reuse_from=first)
    pipeline.plan()
    pipeline.finalize()

    assert ids_of(pipeline.output(second)) == ["c", "a"]
    assert pipeline.job(second).state == "completed"
    assert pipeline.job(second).output_tokens == 0


def test_a_duplicate_that_equals_an_earlier_row_is_still_a_duplicate(pipeline: Pipeline) -> None:
    first = ended(pipeline, file_of("a"))

    second = pipeline.submit(
        file_of("a", "a"), reuse_from=first, on_invalid_line=OnInvalidLine.SKIP
    )
    pipeline.plan()
    pipeline.finalize()

    assert ids_of(pipeline.output(second)) == ["a"]
    assert [line["error"]["code"] for line in pipeline.errors(second)] == ["duplicate_custom_id"]


def test_what_was_reused_outlives_the_earlier_batch(pipeline: Pipeline) -> None:
    first = ended(pipeline, file_of("a"))
    second = pipeline.submit(file_of("a"), reuse_from=first)
    tenant_id = pipeline.work.tenant_id
    with (
        pytest.raises(NotAllowedNow, match="still reads"),
        pipeline.work.sessions.begin() as session,
    ):
        deletion.delete(session, tenant_id=tenant_id, job_id=first)
    pipeline.plan()

    with pipeline.work.sessions.begin() as session:
        deletion.delete(session, tenant_id=tenant_id, job_id=first)
    keys = pipeline.storage.objects(f"t/{tenant_id.hex}/b/{first.hex}/")
    pipeline.storage.delete([found.key for found in keys])
    pipeline.finalize()

    assert ids_of(pipeline.output(second)) == ["a"]


def test_only_a_batch_of_ones_own_with_the_same_endpoint_is_reused(pipeline: Pipeline) -> None:
    first = ended(pipeline, file_of("a"))
    stranger = pipeline.work.add_tenant("other")
    with pipeline.work.sessions.begin() as session:
        with pytest.raises(NotFound):
            earlier.check_reusable(session, tenant_id=stranger, job_id=first, endpoint="x")
        with pytest.raises(InvalidValue):
            earlier.check_reusable(
                session, tenant_id=pipeline.work.tenant_id, job_id=first, endpoint="x"
            )
