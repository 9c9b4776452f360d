"""What the engine says instead of an answer, as a line of the error file."""

from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.until import until
from tests.fixtures.work import Work
from tests.integration.worker.bench import Bench


def test_a_request_at_fault_is_400_and_an_engine_at_fault_500_and_neighbours_are_answered(
    work: Work, pipeline: Pipeline, bench: Bench
) -> None:
    texts = {"theirs": "refuse", "ours": "break", "nobodys": "hello"}
    lines = [input_line(name, text) for name, text in texts.items()]
    job_id = pipeline.submit(b"\n".join(lines))
    pipeline.plan()
    (lease,) = work.claim(work.add_worker())
    bench.held.add(lease)

    bench.runner.start(lease)
    assert until(lambda: work.shard_states(job_id) == ["done"])
    pipeline.finalize()

    responses = {line["custom_id"]: line["response"] for line in pipeline.errors(job_id)}
    assert {name: each["status_code"] for name, each in responses.items()} == {
        "theirs": 400,
        "ours": 500,
    }
    assert responses["theirs"]["body"]["error"] == {
        "message": "No such prompt.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "invalid_value",
    }
    assert responses["ours"]["body"]["error"] == {
        "message": "No number came out.",
        "type": "server_error",
        "param": None,
        "code": "logits_not_finite",
    }
    assert [line["custom_id"] for line in pipeline.output(job_id)] == ["nobodys"]
