"""Quotas hold at admission, also for two at once, and give back what has ended."""

import threading
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jobs import files, quotas, uploads
from jobs.errors import OverQuota, QuotaExceeded, RateLimited, TokenLimitExceeded
from jobs.files import NewFile
from jobs.models import OnInvalidLine
from jobs.quotas import Limits
from jobs.uploads import NewUpload
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.work import Work

NONE = Limits(None, None, None, None, None)


def limit(work: Work, **limits: float) -> None:
    with work.sessions.begin() as session:
        wanted = Limits(**{**dict.fromkeys(Limits.__annotations__), **limits})  # type: ignore[arg-type]
        quotas.set_limits(session, tenant_id=work.tenant_id, limits=wanted)


def usage(work: Work) -> quotas.Usage:
    with work.sessions() as session:
        return quotas.read_usage(session, tenant_id=work.tenant_id)


def add_file(work: Work, size: int, *, bucket: str | None = None) -> UUID:
    new = NewFile(
        id=uuid4(),
        tenant_id=work.tenant_id,
        filename="a",
        purpose=files.BATCH,
        bytes=size,
        sha256="",
        lines=1,
        storage_key=uuid4().hex,
        bucket=bucket,
        etag=bucket and '"x"',
    )
    with work.sessions.begin() as session:
        return files.add(session, new).id


def test_queued_requests_are_those_of_jobs_and_of_batches_until_they_end(work: Work) -> None:
    limit(work, queued_requests=3)
    batch = work.add_planned_batch([2])
    job = work.add_request()

    with pytest.raises(OverQuota, match="4 of at most 3 queued requests"):
        work.add_request()
    with pytest.raises(OverQuota, match="4 of at most 3 queued requests"):
        work.add_batch()

    work.cancel_request(job)
    assert usage(work).load.requests == 3  # stopping is not ended
    end_everything(work)
    assert usage(work).load.requests == 0
    assert work.job_state(batch) == "completed"
    work.add_request()


def end_everything(work: Work) -> None:
    with work.sessions.begin() as session:
        ended = "UPDATE jobs SET state = 'completed', finished_at = now(), owner = NULL"
        session.execute(text(ended))


def test_active_batches_are_limited_and_single_jobs_are_none(work: Work) -> None:
    limit(work, active_batches=1)
    work.add_batch()

    with pytest.raises(OverQuota, match="2 of at most 1 active batches"):
        work.add_batch()
    work.add_request()


def test_a_jobs_tokens_are_its_prompt_and_what_it_may_answer(work: Work) -> None:
    work.add_request()
    each = usage(work).load.tokens
    limit(work, queued_tokens=2 * each)
    work.add_request()

    with pytest.raises(TokenLimitExceeded, match="queued tokens"):
        work.add_request()


def test_a_batch_that_is_too_large_for_certain_is_refused_at_once(pipeline: Pipeline) -> None:
    content = b"\n".join(input_line(f"r{index}") for index in range(10))
    limit(pipeline.work, queued_tokens=len(content) // 4 - 1)

    with pytest.raises(TokenLimitExceeded):
        pipeline.submit(content)


@pytest.mark.parametrize("policy", OnInvalidLine)
def test_a_batch_that_turns_out_too_large_fails_as_it_is_planned(
    pipeline: Pipeline, policy: OnInvalidLine
) -> None:
    content = b"\n".join(input_line(f"r{index}", max_tokens=1000) for index in range(3))
    limit(pipeline.work, queued_tokens=3000)
    job_id = pipeline.submit(content, on_invalid_line=policy)

    pipeline.plan()

    job = pipeline.job(job_id)
    assert job.state == "failed"
    assert job.errors is not None
    assert [(error["code"], error["line"]) for error in job.errors] == [
        ("token_limit_exceeded", None)
    ]
    assert usage(pipeline.work).load.tokens == 0


def test_a_planned_batch_counts_for_what_was_found_in_it(pipeline: Pipeline) -> None:
    blank = b"\n" * 100
    content = b"\n".join(input_line(f"r{index}", max_tokens=1000) for index in range(3)) + blank
    limit(pipeline.work, queued_tokens=4000, queued_requests=110)
    pipeline.submit(content)
    estimated = usage(pipeline.work).load

    pipeline.plan()

    found = usage(pipeline.work).load
    assert (estimated.requests, found.requests) == (102, 3)
    assert estimated.tokens < 1000 < 3000 < found.tokens < 3500
    with pytest.raises(TokenLimitExceeded):
        pipeline.submit(b"\n".join(input_line(f"s{index}", "x" * 2000) for index in range(3)))


def test_of_admissions_at_once_only_one_takes_the_last_place(work: Work) -> None:
    limit(work, active_batches=1)

    refused = refused_of_eight_at_once(work.add_batch)

    assert refused == 7
    assert usage(work).load.batches == 1


def refused_of_eight_at_once(admit: Callable[[], object]) -> int:
    start, refusals = threading.Barrier(8), list[QuotaExceeded]()

    def run() -> None:
        start.wait()
        try:
            admit()
        except QuotaExceeded as refusal:
            refusals.append(refusal)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(refusals)


def test_storage_counts_our_bucket_alone_and_what_is_there(work: Work) -> None:
    limit(work, storage_bytes=100)
    first = add_file(work, 60)
    add_file(work, 10**6, bucket="theirs")

    with pytest.raises(OverQuota, match="120 of at most 100 bytes of files"):
        add_file(work, 60)

    with work.sessions.begin() as session:
        files.delete(session, tenant_id=work.tenant_id, file_id=first)
    add_file(work, 100)
    assert usage(work).storage_bytes == 100


def test_parts_of_an_upload_count_until_they_are_the_file(work: Work) -> None:
    limit(work, storage_bytes=100)
    with work.sessions.begin() as session:
        new = NewUpload(filename="a", purpose="batch", bytes=80, file_expires_after=None)
        upload = uploads.create(session, tenant_id=work.tenant_id, new=new)
        for size in (50, 30):
            part = uploads.new_part(upload, size=size)
            uploads.add_part(session, tenant_id=work.tenant_id, new=part)
    assert usage(work).storage_bytes == 80
    third = uploads.new_part(upload, size=30)
    with pytest.raises(OverQuota), work.sessions.begin() as session:
        uploads.add_part(session, tenant_id=work.tenant_id, new=third)

    composed = NewFile(
        id=uuid4(),
        tenant_id=work.tenant_id,
        filename="a",
        purpose="batch",
        bytes=80,
        sha256="",
        lines=1,
        storage_key="k",
    )
    with work.sessions.begin() as session:
        uploads.finish(
            session, tenant_id=work.tenant_id, upload_id=upload.id, part_ids=[], new=composed
        )

    assert usage(work).storage_bytes == 80


def test_a_rate_lets_a_seconds_worth_through_and_fills_up_with_time(work: Work) -> None:
    def take(rate: float) -> None:
        with work.sessions.begin() as session:
            quotas.take_turn(session, tenant_id=work.tenant_id, rate=rate)

    for _ in range(3):
        take(3)
    empty = "UPDATE rate_buckets SET level = 0, filled_at = clock_timestamp()"
    with work.sessions.begin() as session:
        session.execute(text(empty))
    with pytest.raises(RateLimited) as refusal:
        take(0.05)
    assert refusal.value.retry_after == 20

    with work.sessions.begin() as session:
        session.execute(text("UPDATE rate_buckets SET filled_at = filled_at - interval '1 hour'"))
    take(3)
    level = work.scalar("SELECT level FROM rate_buckets")
    assert level == pytest.approx(2)  # an hour's worth is not saved up


def test_a_tenant_without_limits_is_never_locked(work: Work) -> None:
    limit(work)

    with work.sessions.begin() as held:
        held.execute(text("SELECT 1 FROM tenants FOR NO KEY UPDATE"))
        work.add_request()

    assert usage(work).limits == NONE
    assert usage(work).load.requests == 1
