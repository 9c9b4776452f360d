"""What the benchmarks ask of a stack's API: files there, a batch of one, files back."""

from typing import IO, Any

import httpx

from cli.background_stack import Facts

_SECONDS = 600.0  # for one answer


def client_of(facts: Facts) -> httpx.Client:
    return httpx.Client(
        base_url=facts.api_url,
        headers={"Authorization": f"Bearer {facts.api_key}"},
        timeout=_SECONDS,
        trust_env=False,
    )


def served_model(client: httpx.Client) -> str:
    """The one model of the stack, as requests name it."""
    name: str = client.get("/v1/models").raise_for_status().json()["data"][0]["id"]
    return name


def upload(client: httpx.Client, file: IO[bytes]) -> str:
    """Send a batch's input file.  Returns its id."""
    answer = client.post(
        "/v1/files", files={"file": ("bench.jsonl", file)}, data={"purpose": "batch"}
    )
    file_id: str = answer.raise_for_status().json()["id"]
    return file_id


def create_batch(client: httpx.Client, file_id: str, *, endpoint: str) -> str:
    """Returns the batch's id.  Lines that are not valid are skipped."""
    new = {
        "input_file_id": file_id,
        "endpoint": endpoint,
        "completion_window": "24h",
        "on_invalid_line": "skip",
    }
    batch_id: str = client.post("/v1/batches", json=new).raise_for_status().json()["id"]
    return batch_id


def download(client: httpx.Client, batch: dict[str, Any], into: IO[bytes]) -> None:
    """Write the output file of a batch that has completed."""
    with client.stream("GET", f"/v1/files/{batch['output_file_id']}/content") as answer:
        for chunk in answer.raise_for_status().iter_bytes():
            into.write(chunk)
