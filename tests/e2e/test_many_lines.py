"""A file of 20,000 lines through the whole system: all of it, once, in order, and by its receipt.

`gristmill bench queue` does the same at a million.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bench.batch_file import batch_lines, check_output
from tests.e2e.client import Client, counts
from tests.fixtures.stack import StartStack

LINES: Final = 20_000


@pytest.fixture
def client(start_stack: StartStack) -> Iterator[Client]:
    # The usual leases: on a busy machine a window may take longer than the tests' two seconds.
    usual = {"BEAT_INTERVAL": "PT4S", "TTL": "PT20S", "FENCE_AFTER": "PT15S"}
    stack = start_stack(**{f"LEASES__{name}": value for name, value in usual.items()})
    with Client(stack.facts) as client:
        yield client


def verify(folder: Path, *files: str) -> str:
    """What `gristmill verify` prints of a receipt and files in a folder."""
    command = [sys.executable, "-m", "cli", "verify", str(folder / "receipt.json"), *files]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_every_line_of_a_long_file_comes_back_once_in_order_and_by_its_receipt(
    client: Client, tmp_path: Path
) -> None:
    sent, output = tmp_path / "input.jsonl", tmp_path / "output.jsonl"
    sent.write_bytes(b"".join(batch_lines(LINES, model=client.model)))

    batch = client.wait(client.submit_file(sent.read_bytes()))

    assert (batch.status, counts(batch)) == ("completed", (LINES, LINES, 0))
    assert batch.error_file_id is None
    assert batch.output_file_id is not None
    client.openai.files.content(batch.output_file_id).write_to_file(output)
    with output.open("rb") as lines:
        check_output(lines, count=LINES)
    receipt = client.http.get(f"/v1/batches/{batch.id}/receipt").raise_for_status()
    (tmp_path / "receipt.json").write_bytes(receipt.content)
    told = verify(tmp_path, "--output", str(output), "--input", str(sent))
    assert told.strip() == f"{batch.id}: 20,000 rows, each of them once"
