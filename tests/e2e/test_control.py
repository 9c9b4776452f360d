"""A batch under its owner's hand, with real workers: paused, read, retried, reused, deleted."""

from typing import Any

import pytest
from openai import NotFoundError
from openai.types import Batch

from tests.e2e.client import Client, counts, extra

ROWS = 40


def rows(client: Client) -> list[dict[str, Any]]:
    return [client.row(f"r{n}", f"dog {n}") for n in range(ROWS)]


def post(client: Client, path: str, **body: Any) -> dict[str, Any]:
    answer = client.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    posted: dict[str, Any] = answer.json()
    return posted


def patch(client: Client, batch: Batch, **changes: Any) -> None:
    client.http.patch(f"/v1/batches/{batch.id}", json=changes).raise_for_status()


def paused(client: Client) -> Batch:
    """A batch that is planned, and of which nothing has run."""
    batch = client.submit([client.row("hold", max_tokens=100, ignore_eos=True), *rows(client)])
    patch(client, batch, paused=True)
    return client.wait_for(batch, lambda seen: seen.status == "in_progress")


def test_results_are_read_while_it_runs_and_are_the_files(client: Client) -> None:
    batch = client.submit([client.row("hot", temperature=999), *rows(client)])

    found, cursor, done = list[str](), "0-0-0", False
    while not done:
        url = f"/v1/batches/{batch.id}/results"
        page = client.http.get(url, params={"after": cursor, "limit": 7}).json()
        found += [line["custom_id"] for line in page["data"]]
        cursor, done = page["next_cursor"], page["done"]

    ended = client.wait(batch)
    assert sorted(found) == sorted(
        client.ids(ended.output_file_id) + client.ids(ended.error_file_id)
    )


def test_a_paused_batch_goes_on_when_it_is_told_to(client: Client) -> None:
    batch = paused(client)
    assert extra(batch, "paused")

    patch(client, batch, paused=False, priority="interactive")
    ended = client.wait(batch)

    assert counts(ended) == (ROWS + 1, ROWS + 1, 0)


def test_what_a_cancel_left_is_retried_and_what_it_had_is_reused(client: Client) -> None:
    batch = paused(client)
    client.openai.batches.cancel(batch.id)
    cancelled = client.wait(batch)
    have = client.ids(cancelled.output_file_id)

    retry = post(client, f"/v1/batches/{batch.id}/retry")
    retried = client.wait(client.openai.batches.retrieve(retry["id"]))
    again = client.wait(client.submit(rows(client), reuse_from=retried.id))

    assert counts(retried) == (ROWS + 1 - len(have), ROWS + 1 - len(have), 0)
    assert extra(retried, "retry_of") == batch.id
    assert counts(again) == (ROWS, ROWS, 0)
    assert again.usage is not None
    if not have:  # nothing had run before the pause: nothing was left to compute
        assert again.usage.total_tokens == 0
    client.http.delete(f"/v1/batches/{retried.id}").raise_for_status()
    with pytest.raises(NotFoundError):
        client.openai.batches.retrieve(retried.id)
    assert len(client.read(again.output_file_id)) == ROWS
