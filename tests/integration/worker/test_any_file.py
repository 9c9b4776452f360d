"""Law 2 for any file: whatever is in it, whenever it is stopped, every row is accounted for.

Planner, leases, result rows and finalizer are the real ones, over real Postgres and S3.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from jobs import live_results
from jobs.live_results import FIRST_PLACE
from jobs.models import OnInvalidLine
from tests.fixtures.pipeline import InputRow, Pipeline, input_line

NEVER_RAN = ("batch_cancelled", "batch_expired")
BOM = b"\xef\xbb\xbf"

# Few names, so that they meet.
CUSTOM_IDS = st.sampled_from(["a", "b", "c", "d", "\u2028", "é" * 3])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good line with some bytes changed, cut out or put in."""
    line = bytearray(input_line(draw(CUSTOM_IDS)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(line)))
        end = min(len(line), start + draw(st.integers(0, 4)))
        line[start:end] = draw(st.binary(max_size=3))
    return bytes(line)


LINES = st.lists(
    st.one_of(
        st.builds(input_line, CUSTOM_IDS, st.sampled_from(["hi", "fail", "\x00", "😀"])),
        st.builds(input_line, st.uuids().map(str)),
        damaged(),
        st.binary(max_size=20),
        st.sampled_from([b"", b" \t", b"\r", b"[1]", b"{}", b"null", b'{"custom_id": 7}']),
        st.builds(input_line, CUSTOM_IDS, model=st.sampled_from(["nobody", "tiny"])),
        st.builds(input_line, CUSTOM_IDS, stream=st.just(True)),
    ),
    max_size=12,
)
FILES = st.builds(
    lambda lines, begin, line_end, end: begin + line_end.join(lines) + end,
    LINES,
    st.sampled_from([b"", b"", BOM]),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n", b"\n\n"]),
)


class Stop(NamedTuple):
    """Where a batch is stopped, and as what it ends.

    point: None, it runs to its end; "queued"; "validating", under its planner's hands; else after
    so many rows.
    held: a worker has a shard in hand then, and flushes some more of it.
    """

    point: str | int | None
    held: bool = False
    ends_as: str = "cancelled"


STOPS = st.builds(
    Stop,
    st.one_of(st.none(), st.sampled_from(["queued", "validating"]), st.integers(0, 12)),
    st.booleans(),
    st.sampled_from(["cancelled", "expired"]),
)


def fails(row: InputRow) -> bool:
    return b"fail" in orjson.dumps(row["body"])


def requests_in(content: bytes) -> int:
    """Lines that are not blank, counted by other means than the planner's."""
    return sum(bool(line.strip()) for line in content.removeprefix(BOM).split(b"\n"))


@settings(
    max_examples=50,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# A line that is bad in itself and bears the name of another: it may not keep that name.
@example(
    content=input_line("a") + b"\n" + input_line("a", model="nobody"),
    policy=OnInvalidLine.SKIP,
    stop=Stop(None),
)
@given(content=FILES, policy=st.sampled_from(OnInvalidLine), stop=STOPS)
@pytest.mark.law("P18")
@pytest.mark.law("P20")
def test_output_and_error_lines_are_the_file(
    pipeline: Pipeline, content: bytes, policy: OnInvalidLine, stop: Stop
) -> None:
    pipeline.work.forget_jobs()  # an example that failed may not fail the next
    job_id = pipeline.submit(content, on_invalid_line=policy)

    _walk(pipeline, job_id, stop)

    job = pipeline.job(job_id)
    output, errors = pipeline.output(job_id), pipeline.errors(job_id)
    ran = [line for line in errors if _code(line) not in NEVER_RAN]
    assert job.finished_at is not None
    assert stop.point is None or job.state in (stop.ends_as, "failed")
    assert job.total == (0 if job.in_progress_at is None else requests_in(content))
    assert len(output) + len(errors) == job.total
    assert (job.completed, job.failed) == (len(output), len(ran))
    named = [line["custom_id"] for line in output + errors if line["custom_id"] is not None]
    assert len(named) == len(set(named))
    for lines in (output, errors):
        assert _ids(lines) == sorted(_ids(lines))  # input order: the id ends in the row's number
    assert sorted(_live(pipeline, job_id)) == sorted(_ids(output + ran))


def _walk(pipeline: Pipeline, job_id: UUID, stop: Stop) -> None:
    def stopped() -> None:
        pipeline.work.stop(job_id, stop.ends_as)

    if stop.point == "queued":
        stopped()
    elif stop.point == "validating":
        pipeline.plan_and_stop(stopped)
    else:
        pipeline.plan()
        if pipeline.job(job_id).state == "failed":
            return
        _run(pipeline, stop, stopped)
    pipeline.finalize()


def _run(pipeline: Pipeline, stop: Stop, stopped: Callable[[], None]) -> None:
    if not isinstance(stop.point, int):
        pipeline.run(fails=fails)
    elif stop.held:
        pipeline.run_and_stop(stop.point, stopped, fails=fails)
    else:
        pipeline.run(stop.point, fails=fails)
        stopped()


def _ids(lines: Sequence[dict[str, Any]]) -> list[str]:
    return [line["id"] for line in lines]


def _code(line: dict[str, Any]) -> object:
    return line["error"] and line["error"]["code"]


def _live(pipeline: Pipeline, job_id: UUID) -> list[str]:
    """The ids of all lines that can be read page by page."""
    found, place, done = list[str](), FIRST_PLACE, False
    while not done:
        page = live_results.read(
            pipeline.work.sessions,
            pipeline.storage,
            tenant_id=pipeline.work.tenant_id,
            job_id=job_id,
            place=place,
            limit=3,
        )
        found += [orjson.loads(line)["id"] for line in page.lines]
        place, done = page.next_place, page.done
    return found
