"""Results are readable while they come: each line once, and none is skipped by a late commit."""

import json
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import live_results, results
from jobs.errors import NotFound, SegmentDamaged
from jobs.live_results import FIRST_PLACE, Place, ResultsPage
from jobs.storage import Storage
from tests.fixtures.work import Work, segment_of, wait_until_nothing_hides_results


def read(
    work: Work, storage: Storage, job_id: UUID, place: Place = FIRST_PLACE, limit: int = 100
) -> ResultsPage:
    """A page, once no transaction of a neighbour's test hides what was written."""
    wait_until_nothing_hides_results(work.sessions)
    return read_at_once(work, storage, job_id, place, limit)


def read_at_once(
    work: Work, storage: Storage, job_id: UUID, place: Place = FIRST_PLACE, limit: int = 100
) -> ResultsPage:
    return live_results.read(
        work.sessions,
        storage,
        tenant_id=work.tenant_id,
        job_id=job_id,
        place=place,
        limit=limit,
    )


def ids_of(page: ResultsPage) -> list[str]:
    return [json.loads(line)["custom_id"] for line in page.lines]


def test_lines_come_in_the_order_of_their_commits(work: Work, storage: Storage) -> None:
    job_id = work.add_planned_batch([4])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [3, 1], storage))
    first = read(work, storage, job_id)
    work.flush(lease, segment_of(job_id, [2], storage))

    second = read(work, storage, job_id, first.next_place)

    assert ids_of(first) == ["r3", "r1"]
    assert ids_of(second) == ["r2"]
    assert (second.done, second.has_more) == (False, False)
    assert ids_of(read(work, storage, job_id, second.next_place)) == []


def test_a_commit_that_comes_late_is_not_skipped(work: Work, storage: Storage) -> None:
    job_id = work.add_planned_batch([1, 1])
    slow, quick = work.claim(work.add_worker())
    with work.sessions() as session:
        results.flush(session, slow, segment_of(job_id, [0], storage))
        work.flush(quick, segment_of(job_id, [1], storage))  # begun later, committed sooner
        between = read_at_once(work, storage, job_id)
        session.commit()

    after = read(work, storage, job_id, between.next_place)

    assert sorted(ids_of(between) + ids_of(after)) == ["r0", "r1"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_any_size_give_each_line_once(work: Work, storage: Storage, limit: int) -> None:
    job_id = work.add_planned_batch([7])
    (lease,) = work.claim(work.add_worker())
    for indexes in ([0, 1, 2], [3], [4, 5, 6]):
        work.flush(lease, segment_of(job_id, indexes, storage))

    found, page = list[str](), read(work, storage, job_id, limit=limit)
    found += ids_of(page)
    while page.has_more:
        page = read(work, storage, job_id, page.next_place, limit)
        assert len(page.lines) <= limit
        found += ids_of(page)

    assert found == [f"r{n}" for n in range(7)]


def test_a_line_that_no_row_names_is_not_shown(work: Work, storage: Storage) -> None:
    job_id = work.add_planned_batch([2])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0], storage))
    work.flush(lease, segment_of(job_id, [0, 1], storage))  # row 0 was finished twice

    page = read(work, storage, job_id)

    assert ids_of(page) == ["r0", "r1"]


def test_a_line_longer_than_a_read_comes_whole(
    work: Work, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_results, "_READ_BYTES", 16)
    job_id = work.add_settled_batch(3, storage=storage)

    assert ids_of(read(work, storage, job_id)) == ["r0", "r1", "r2"]


def test_a_segment_whose_last_line_does_not_end_is_refused(work: Work, storage: Storage) -> None:
    job_id = work.add_settled_batch(2, storage=storage)
    key = str(work.scalar("SELECT storage_key FROM segments"))
    storage.put(key, storage.read(key)[:-1] + b" ")

    whole = read(work, storage, job_id, limit=1)
    with pytest.raises(SegmentDamaged, match="does not end"):
        read(work, storage, job_id, whole.next_place)

    assert ids_of(whole) == ["r0"]


def test_what_is_no_result_is_not_given_as_one(work: Work, storage: Storage) -> None:
    job_id = work.add_settled_batch(2, storage=storage)
    key = str(work.scalar("SELECT storage_key FROM segments"))
    storage.put(key, storage.read(key).replace(b"{", b"["))

    with pytest.raises(SegmentDamaged, match="no result"):
        read(work, storage, job_id)


def test_a_segment_that_is_gone_is_not_taken_for_a_store_that_is_away(
    work: Work, storage: Storage
) -> None:
    job_id = work.add_settled_batch(2, storage=storage)
    storage.delete([str(work.scalar("SELECT storage_key FROM segments"))])

    with pytest.raises(SegmentDamaged):
        read(work, storage, job_id)


def test_a_page_ends_when_it_holds_enough_bytes(
    work: Work, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_results, "_PAGE_BYTES", 1)
    job_id = work.add_planned_batch([2])
    (lease,) = work.claim(work.add_worker())
    for index in range(2):
        work.flush(lease, segment_of(job_id, [index], storage))

    page = read(work, storage, job_id)

    assert ids_of(page) == ["r0"]
    assert page.has_more


def test_an_ended_batch_waits_for_no_transaction_and_is_done(work: Work, storage: Storage) -> None:
    with work.sessions.begin() as other:
        other.execute(text("SELECT pg_current_xact_id()"))  # it hides all that is younger
        job_id = work.add_settled_batch(storage=storage)
        running = read_at_once(work, storage, job_id)
        _end(work, job_id)
        ended = read_at_once(work, storage, job_id)

    assert (ids_of(running), running.done) == ([], False)
    assert (ids_of(ended), ended.done) == (["r0"], True)


def test_a_stranger_sees_no_batch(work: Work, storage: Storage) -> None:
    job_id = work.add_settled_batch(storage=storage)

    with pytest.raises(NotFound):
        live_results.read(
            work.sessions,
            storage,
            tenant_id=work.add_tenant("other"),
            job_id=job_id,
            place=FIRST_PLACE,
            limit=1,
        )


def _end(work: Work, job_id: UUID) -> None:
    with work.sessions.begin() as session:
        session.execute(
            text("UPDATE jobs SET state = 'completed', finished_at = now() WHERE id = :id"),
            {"id": job_id},
        )
