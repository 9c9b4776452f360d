from uuid import UUID

import pytest

from jobs import locations
from jobs.errors import InvalidValue
from jobs.locations import Location


def test_an_object_is_a_bucket_and_a_key() -> None:
    location = locations.parse_object("s3://data/in/a b é.jsonl", param="source")

    assert location == Location("data", "in/a b é.jsonl")
    assert str(location) == "s3://data/in/a b é.jsonl"


@pytest.mark.parametrize(
    ("uri", "key"),
    [("s3://data", ""), ("s3://data/", ""), ("s3://data/in", "in/"), ("s3://data/in/", "in/")],
)
def test_a_folder_needs_no_slash(uri: str, key: str) -> None:
    assert locations.parse_folder(uri, param="prefix") == Location("data", key)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "data/key",
        "https://data/key",
        "S3://data/key",
        "s3://data",
        "s3://data/",
        "s3://data/folder/",
        "s3:///key",
        "s3://da/key",
        "s3://Data/key",
        "s3://../key",
        "s3://data/in/../out/key",
        "s3://data/..",
        "s3://data/./key",
        "s3://data//key",
        "s3://data/in//key",
        "s3://data/ke\ny",
        "s3://data/" + "é" * 513,
    ],
)
def test_what_could_be_read_in_two_ways_names_no_object(uri: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        locations.parse_object(uri, param="source")

    assert refusal.value.param == "source"


@pytest.mark.parametrize(
    ("uri", "inside"),
    [
        ("s3://data/in/a", True),
        ("s3://data/in/deep/a", True),
        ("s3://data/inside", False),
        ("s3://data/in2/a", False),
        ("s3://other/in/a", False),
    ],
)
def test_a_folder_ends_at_its_slash(uri: str, inside: bool) -> None:
    folder = locations.parse_folder("s3://data/in", param="prefix")

    assert locations.parse_object(uri, param="source").is_under(folder) == inside


def test_batches_share_a_folder_and_a_dropped_file_has_its_own_name() -> None:
    job_id = UUID(int=1)

    shared = locations.of_result("s3://data/out/", job_id, "output")
    dropped = locations.of_result("s3://data/in/tickets.", job_id, "error")

    assert shared == Location("data", f"out/batch_{job_id.hex}.output.jsonl")
    assert dropped == Location("data", "in/tickets.error.jsonl")


def test_a_retry_shares_a_folder_and_never_takes_a_dropped_files_name() -> None:
    assert locations.of_retry("s3://data/out/") == "s3://data/out/"
    assert locations.of_retry("s3://data/in/tickets.") is None
    assert locations.of_retry(None) is None
