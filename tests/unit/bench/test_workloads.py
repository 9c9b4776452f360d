import hashlib
import json

import pytest

from bench.errors import WorkloadUnavailable
from bench.workloads import Texts, make_workloads, open_workload, read_texts, write_workloads
from engine.opening import open_model

# Tokens that say where they come from: text 0 to 3 in thousands, and the pool above all of them.
TEXTS = Texts(
    systems=[list(range(10_000 * number, 10_000 * number + 2000)) for number in range(4)],
    pool=list(range(100_000, 130_000)),
)


@pytest.fixture(scope="module")
def tokenizer(tiny_model_dir):
    return open_model(str(tiny_model_dir))[1]


def test_the_same_workloads_come_out_on_every_machine():
    made = make_workloads(TEXTS)

    digests = {
        name: hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]
        for name, rows in made.items()
    }

    assert digests == {
        "W1": "e20ef20df4308a27",
        "W2": "be7ee92d7c64fd5e",
        "W3": "00211d39a7e7eba6",
    }


@pytest.mark.parametrize(
    ("name", "prefixes", "prefix_len", "longest"),
    [("W1", 1, 512, 96), ("W2", 4, 1024, 96), ("W3", 1, 0, 400)],
)
def test_requests_have_the_prefix_and_the_lengths_that_are_promised(
    name, prefixes, prefix_len, longest
):
    rows = make_workloads(TEXTS)[name]

    shared = {tuple(row["prompt_ids"][:prefix_len]) for row in rows}
    own = [len(row["prompt_ids"]) - prefix_len for row in rows]
    outputs = [row["max_tokens"] for row in rows]
    assert (len(rows), len(shared)) == (64, prefixes)
    assert 32 <= min(own) <= max(own) <= longest
    assert 16 <= min(outputs) <= max(outputs) <= 128
    assert all(row["ignore_eos"] and row["prefix_len"] == prefix_len for row in rows)


def test_where_the_texts_are_missing_it_says_what_to_do(tokenizer, tmp_path):
    with pytest.raises(WorkloadUnavailable, match="GPL-3 is missing: install the package"):
        read_texts(tokenizer, licences=tmp_path)


def test_a_written_workload_is_read_back_as_requests(tokenizer, tmp_path):
    file = write_workloads(tokenizer, tmp_path)["W3"]

    requests = open_workload(str(file), tokenizer)

    row = json.loads(file.read_text().splitlines()[5])
    assert len(requests) == 64
    assert requests[5].prompt == row["prompt_ids"]
    assert requests[5].params.max_tokens == row["max_tokens"]


def test_a_workload_by_name_is_made_on_the_spot(tokenizer, tmp_path):
    file = write_workloads(tokenizer, tmp_path)["W1"]

    assert open_workload("W1", tokenizer) == open_workload(str(file), tokenizer)


def test_a_name_that_is_none_is_refused_with_those_there_are(tokenizer):
    with pytest.raises(WorkloadUnavailable, match="W9 is no file, and none of W1, W2, W3"):
        open_workload("W9", tokenizer)
