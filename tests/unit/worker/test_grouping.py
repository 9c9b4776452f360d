"""Rows that share a prefix go together, and no row is lost or doubled."""

import json
import random
from collections.abc import Iterable

import orjson
from hypothesis import given
from hypothesis import strategies as st

from jobs.planning import RequestRow
from tests.unit.jobs.test_lines import json_values
from worker.control import grouping
from worker.control.grouping import (
    BUNDLE_ROWS,
    MAX_SHARD_COST,
    MAX_SHARD_ROWS,
    MIN_GROUP,
    Pack,
    PlannedRow,
    prefix_keys,
    prompt_text,
    salted,
)

LONG = "You answer in one word, in the language of the question, and never explain. " * 8


def row(index: int, *said: str, cost: int = 10, tenant: str = "t") -> PlannedRow:
    """A request whose messages say this, one after another."""
    text = prompt_text({"messages": [{"role": "user", "content": each} for each in said]})
    request = RequestRow(index, index + 1, str(index))
    return PlannedRow(request, text, prefix_keys(salted(tenant), text), cost, b"%d\n" % index)


def pack(rows: Iterable[PlannedRow]) -> list[Pack]:
    return list(grouping.pack(list(rows)))


def keyed(packs: list[Pack]) -> list[set[int]]:
    """The rows of each shard that has a key."""
    return [{row.index for row in pack.rows} for pack in packs if pack.prefix_key is not None]


def test_equal_beginnings_of_one_tenant_have_equal_keys() -> None:
    one, other = row(0, LONG, "why?"), row(1, LONG, "when?")

    assert one.prefix_keys == other.prefix_keys
    assert not {*one.prefix_keys} & {*row(2, "Be " + LONG, "why?").prefix_keys}
    assert not {*one.prefix_keys} & {*row(3, LONG, "why?", tenant="u").prefix_keys}


def test_interleaved_groups_are_brought_together() -> None:
    packs = pack(row(index, "AB"[index % 2] + LONG, str(index)) for index in range(4 * MIN_GROUP))

    assert keyed(packs) == [{*range(0, 4 * MIN_GROUP, 2)}, {*range(1, 4 * MIN_GROUP, 2)}]
    assert len({pack.prefix_key for pack in packs}) == 2


def test_small_shards_share_an_object_and_none_is_lost_or_doubled() -> None:
    packs = pack(row(index, str(index), cost=MAX_SHARD_COST) for index in range(BUNDLE_ROWS + 1))

    bundles = list(grouping.bundled(packs))

    assert [len(bundle) for bundle in bundles] == [BUNDLE_ROWS, 1]
    assert [each for bundle in bundles for each in bundle] == packs


def test_large_shards_have_an_object_each() -> None:
    packs = pack(row(index, str(index)) for index in range(3 * MAX_SHARD_ROWS))

    assert [len(bundle) for bundle in grouping.bundled(packs)] == [1, 1, 1]


def test_a_document_before_the_question_is_found_in_one_message() -> None:
    documents = [f"Document {letter}: " + letter * 3000 for letter in "XY"]

    packs = pack(
        row(index, LONG, documents[index % 2] + f" What is {index}?")
        for index in range(4 * MIN_GROUP)
    )

    assert keyed(packs) == [{*range(0, 4 * MIN_GROUP, 2)}, {*range(1, 4 * MIN_GROUP, 2)}]


def test_a_few_rows_that_share_more_stay_with_those_that_share_less() -> None:
    common = [row(index, LONG, str(index)) for index in range(2 * MIN_GROUP)]
    few = [row(1000 + index, LONG, "x" * 5000 + str(index)) for index in range(MIN_GROUP - 1)]

    (group,) = keyed(pack(common + few))

    assert group == {row.index for row in common + few}


def test_an_equal_prefix_has_one_key_in_every_window() -> None:
    windows = [[row(index, LONG, f"{at} {index}") for index in range(MIN_GROUP)] for at in range(2)]

    first, second = ({pack.prefix_key for pack in pack(window)} for window in windows)

    assert first == second != {None}


def test_neighbours_within_a_shard_share_most() -> None:
    rows = [row(index, LONG, f"{index % 4} {index}") for index in range(4 * MIN_GROUP)]
    random.Random(0).shuffle(rows)

    (shard,) = pack(rows)

    kinds = [each.index % 4 for each in shard.rows]
    assert kinds == sorted(kinds)


def test_rows_that_share_nothing_are_packed_together_without_a_key() -> None:
    (shard,) = pack(row(index, str(index)) for index in range(5))

    assert (shard.prefix_key, len(shard.rows), shard.cost) == (None, 5, 50)


def test_a_huge_row_holds_up_nobody() -> None:
    rows = [row(0, "a"), row(1, "b", cost=MAX_SHARD_COST), row(2, "c")]

    assert [len(shard.rows) for shard in pack(rows)] == [1, 1, 1]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2 * MAX_SHARD_COST)), max_size=600
    )
)
def test_every_row_is_in_one_shard_and_shards_are_bounded(drawn: list[tuple[str, int]]) -> None:
    rows = [
        row(index, letter + LONG, str(index), cost=cost)
        for index, (letter, cost) in enumerate(drawn)
    ]

    packs = pack(rows)

    assert sorted(each.index for shard in packs for each in shard.rows) == list(range(len(rows)))
    for shard in packs:
        assert 0 < len(shard.rows) <= MAX_SHARD_ROWS
        assert shard.cost <= MAX_SHARD_COST or len(shard.rows) == 1
        assert shard.cost == sum(each.cost for each in shard.rows)
        assert shard.prefix_key is None or all(
            shard.prefix_key in each.prefix_keys for each in shard.rows
        )


@given(st.dictionaries(st.sampled_from(["model", "messages", "prompt"]), json_values))
def test_no_body_of_a_file_makes_it_raise(body: dict[str, object]) -> None:
    as_read = orjson.loads(json.dumps(body))

    assert all(len(key) == 32 for key in prefix_keys(salted("t"), prompt_text(as_read)))
