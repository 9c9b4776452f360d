"""Rows that share a prefix go together, and no row is lost or doubled."""

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.jobs.test_lines import json_values
from worker.control import grouping
from worker.control.grouping import MAX_SHARD_COST, MAX_SHARD_ROWS, PlannedRow, prefix_key


def row(index: int, key: str, cost: int = 10) -> PlannedRow:
    return PlannedRow(index, key, cost, b"%d\n" % index, "")


def chat(system: str, user: str) -> dict[str, object]:
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ],
    }


def test_equal_prefixes_of_one_tenant_have_one_key() -> None:
    assert prefix_key("t", chat("be kind", "a")) == prefix_key("t", chat("be kind", "b"))
    assert prefix_key("t", chat("be kind", "a")) != prefix_key("t", chat("be brief", "a"))
    assert prefix_key("t", chat("be kind", "a")) != prefix_key("u", chat("be kind", "a"))


def test_interleaved_groups_are_brought_together() -> None:
    rows = [row(index, "ab"[index % 2]) for index in range(6)]

    packs = list(grouping.pack(rows))

    assert [[each.index for each in pack.rows] for pack in packs] == [[0, 2, 4], [1, 3, 5]]
    assert [pack.prefix_key for pack in packs] == ["a", "b"]


def test_rows_that_share_nothing_are_packed_together_without_a_key() -> None:
    (pack,) = grouping.pack([row(index, str(index)) for index in range(5)])

    assert (pack.prefix_key, len(pack.rows), pack.cost) == (None, 5, 50)


def test_a_huge_row_holds_up_nobody() -> None:
    rows = [row(0, "a"), row(1, "a", cost=MAX_SHARD_COST), row(2, "a")]

    assert [len(pack.rows) for pack in grouping.pack(rows)] == [1, 1, 1]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2 * MAX_SHARD_COST)), max_size=600
    )
)
def test_every_row_is_in_one_shard_and_shards_are_bounded(drawn: list[tuple[str, int]]) -> None:
    rows = [row(index, key, cost) for index, (key, cost) in enumerate(drawn)]

    packs = list(grouping.pack(rows))

    assert sorted(each.index for pack in packs for each in pack.rows) == list(range(len(rows)))
    for pack in packs:
        assert 0 < len(pack.rows) <= MAX_SHARD_ROWS
        assert pack.cost <= MAX_SHARD_COST or len(pack.rows) == 1
        assert pack.cost == sum(each.cost for each in pack.rows)
        assert pack.prefix_key is None or {each.prefix_key for each in pack.rows} == {
            pack.prefix_key
        }


@given(st.dictionaries(st.sampled_from(["model", "messages", "prompt"]), json_values))
def test_no_body_of_a_file_makes_it_raise(body: dict[str, object]) -> None:
    as_read = orjson.loads(json.dumps(body))

    assert len(prefix_key("t", as_read)) == 32
