"""Our engine and a peer on a tiny model, against one floor."""

import json
import sys

import pytest

from bench.side_by_side import Contest, side_by_side
from kernels import native
from tests.unit.bench.test_peers import ROTE


@pytest.fixture
def workload(tmp_path):
    rows = [{"prompt_ids": [*range(20, 60), 100 + i], "max_tokens": 4} for i in range(3)]
    file = tmp_path / "small.jsonl"
    file.write_text("".join(json.dumps(row | {"ignore_eos": True}) + "\n" for row in rows))
    return str(file)


def contest(model, workload, **options):
    return Contest(model=str(model), workload=workload, rounds=1, peak_s=0.01, **options)


def test_in_fp32_both_are_set_against_one_floor_and_our_tokens_checked(tiny_model_dir, workload):
    peer = [sys.executable, "-m", "bench.once", "--model", str(tiny_model_dir)]

    found = side_by_side(contest(tiny_model_dir, workload, peer=peer), tell=lambda doing: None)

    assert found["equal_requests"] == 3
    assert found["reference"]["equal_requests"] == 3
    assert found["ours"]["walls_s"] == [found["ours"]["wall_s"]]
    assert {"out_tok_s", "peak_rss_gib", "others_cpu_s", "wall_over_floor"} <= found["peer"].keys()
    assert found["peer_over_ours"] > 0


@pytest.mark.skipif(native.library() is None, reason="int8 needs the compiled kernels")
def test_in_int8_it_is_told_how_far_each_agrees_with_fp32_on_given_text(tiny_model_dir, workload):
    options = contest(tiny_model_dir, workload, peer=ROTE, precision="int8")

    found = side_by_side(options, tell=lambda doing: None)

    assert found["our_teacher_forced"]["tokens"] == 40 + 3  # what all begin with counts once
    ours, peers = found["our_teacher_forced"], found["peer_teacher_forced"]
    assert ours["equal_tokens"] > 38 > 5 > peers["equal_tokens"]
