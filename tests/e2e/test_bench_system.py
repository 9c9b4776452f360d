"""`gristmill bench system` on a tiny model: both give the same answers, and figures come out."""

import json

import pytest

from bench.errors import OutputsDiffer
from bench.system import bench_system, require_equal


@pytest.mark.timeout(300)
def test_a_workload_goes_through_the_whole_system_and_the_bare_engine(tiny_model_dir, tmp_path):
    rows = [{"prompt_ids": [*range(20, 60), 100 + i], "max_tokens": 4 + i} for i in range(3)]
    file = tmp_path / "small.jsonl"
    file.write_text("".join(json.dumps(row | {"ignore_eos": True}) + "\n" for row in rows))

    found = bench_system(str(tiny_model_dir), str(file), rounds=1, tell=lambda doing: None)

    assert found["workload"] == "small"
    assert found["requests"] == 3
    assert found["system_over_engine"] > 1


def test_another_answer_than_the_engines_is_no_figure():
    with pytest.raises(OutputsDiffer, match="1 of 2 answers"):
        require_equal(["a", "b"], ["a", "b"], ["a", "c"])
