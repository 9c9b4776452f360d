"""How peers are asked, timed and told of; the engines themselves live elsewhere."""

import json
import sys

import pytest

from bench.engine_run import Run, Task
from bench.errors import BenchFailed
from bench.peers.asked import Asked, shared_prefixes, warm_up
from bench.peers.trial import peer_parser, run_trial
from bench.trials import by_turns, preferences
from tests.fixtures.rote_peer import RotePeer

ROTE = [sys.executable, "-m", "tests.fixtures.rote_peer", "--model", "nowhere/rote"]


@pytest.fixture
def workload(tmp_path):
    """Two requests with two tokens in common, and one that shares nothing."""
    rows = [
        {"prompt_ids": [7, 8, 1], "prefix_len": 2, "max_tokens": 3},
        {"prompt_ids": [7, 8, 2], "prefix_len": 2, "max_tokens": 1},
        {"prompt_ids": [5], "prefix_len": 0, "max_tokens": 2},
    ]
    file = tmp_path / "small.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def run(peer, workload, *options):
    args = peer_parser("rote", None).parse_args(
        ["--model", "nowhere/rote", "--workload", str(workload), *options]
    )
    run_trial("rote", lambda: peer, args)


def test_a_peer_is_warmed_up_and_then_given_everything_at_once(workload, capsys):
    peer = RotePeer()

    run(peer, workload)

    assert peer.asked == [
        [Asked([1, 8, 7], 4)],
        [Asked([7, 8, 1], 3, 2), Asked([7, 8, 2], 1, 2), Asked([5], 2)],
    ]
    figures = json.loads(capsys.readouterr().out)
    assert (figures["prompt_tokens"], figures["output_tokens_got"]) == (7, 6)


def test_a_primed_peer_computes_each_shared_prefix_once_beforehand(workload):
    peer = RotePeer()

    run(peer, workload, "--prime")

    assert peer.asked[1] == [Asked([7, 8], 1)]
    assert len(peer.asked) == 3


def test_peers_and_we_tell_the_same_things_by_the_same_names(workload, capsys):
    ours = Run(
        wall_s=1,
        cpu_s=1,
        others_cpu_s=0,
        completions=[],
        prefill_tokens_computed=0,
        prefill_tokens_logical=0,
    )

    run(RotePeer(), workload)

    theirs = json.loads(capsys.readouterr().out)
    of_ours_alone = {"prefill_tokens_computed", "prefill_tokens_logical"}
    told = ours.figures(Task([], []), peak_rss_gib=0).keys() - of_ours_alone
    assert theirs.keys() - {"engine", "model", "workload", "primed"} == told


def test_answers_of_the_wrong_length_are_no_result(workload):
    class Short(RotePeer):
        def generate(self, requests):
            return [[1]] * len(requests)

    with pytest.raises(SystemExit, match="request 0 has 1 tokens instead of 3"):
        run(Short(), workload)


def test_every_prefix_is_shared_once():
    requests = [Asked([1, 2, 3], 1, 2), Asked([9], 1), Asked([1, 2, 4], 1, 2), Asked([0, 5], 1, 1)]

    assert shared_prefixes(requests) == [[0], [1, 2]]
    assert warm_up(requests) == Asked([3, 2, 1], 4)


def test_commands_run_by_turns_and_the_best_of_each_is_kept(workload):
    told = list[str]()

    sides = by_turns([ROTE, ROTE], workload, rounds=2, tell=told.append)

    assert [line[:12] for line in told] == ["round 1 of 2"] * 2 + ["round 2 of 2"] * 2
    for side in sides:
        assert len(side.walls) == 2
        assert side.best["wall_s"] == min(side.walls)
        assert side.answers == [[0, 1, 2], [0], [0, 1]]
    assert sides[0].figures(0.5)["engine"] == "rote"


def test_a_peer_says_what_it_would_say_next_after_each_token(tmp_path):
    assert preferences(ROTE, [[4, 4, 4], [4]], tmp_path) == [[0, 1, 2], [0]]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["no-such-engine"], "no-such-engine cannot be run"),
        ([sys.executable, "-c", "raise SystemExit('it broke')"], "ended with 1: it broke"),
        ([sys.executable, "-c", "print('no figures')"], "gave no figures or no tokens"),
    ],
)
def test_a_peer_that_fails_ends_it_with_a_sentence(workload, command, reason):
    with pytest.raises(BenchFailed, match=reason):
        by_turns([command], workload, rounds=1, tell=lambda doing: None)
