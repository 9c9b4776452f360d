"""python -m engine generate, as a user runs it."""

import json
import subprocess
import sys

import pytest

from engine.__main__ import main

LINES = [
    {"id": "first", "prompt": "the lazy dog", "max_tokens": 5, "ignore_eos": True},
    {"id": 2, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "ignore_eos": True},
    {"id": "too long", "prompt_ids": [1] * 600, "max_tokens": 3},
    {"id": "absurd", "prompt": "x", "temperature": "hot", "n": 2},
    {"id": "choosy", "prompt": "x", "guided_choice": ["yes", "no"], "n": 2, "temperature": 1},
]


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "workload.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def test_generate_writes_completions_in_input_order(tiny_model_dir, workload, tmp_path):
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "engine", "generate", "--model", str(tiny_model_dir)]
    command += ["--workload", str(workload), "--output", str(output), "--device", "cpu"]
    command += ["--max-num-seqs", "3", "--kv-cache-bytes", str(2**20), "--block-size", "8"]

    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    assert "maximum concurrency" in ran.stderr
    assert "max_num_seqs 3, max_num_batched_tokens 512, block_size 8" in ran.stderr
    assert "7/7 requests" in ran.stderr
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["id"] for line in found] == ["first", 2, "too long", "absurd", "choosy"]
    assert [len(line["token_ids"]) for line in found[:4]] == [5, 3, 0, 0]
    assert found[2]["error"]["code"] == "context_length_exceeded"
    assert found[3]["error"]["param"] == "temperature"
    assert {choice["text"] for choice in found[4]["choices"]} <= {"yes", "no"}
    assert list(tmp_path.glob("*.part")) == []


def test_without_an_output_file_completions_go_to_stdout(tiny_model_dir, workload, capsys):
    status = main(["generate", "--model", str(tiny_model_dir), "--workload", str(workload)])

    assert status == 0
    assert len(capsys.readouterr().out.splitlines()) == len(LINES)


def test_a_model_that_is_not_there_is_one_sentence_and_exit_1(workload, capsys):
    status = main(["generate", "--model", "/nowhere", "--workload", str(workload)])

    assert status == 1
    [sentence] = capsys.readouterr().err.splitlines()
    assert sentence.startswith("error: there is no model at /nowhere")


def test_a_workload_that_is_none_is_said_before_the_model_is_loaded(tmp_path, capsys):
    path = tmp_path / "workload.jsonl"
    path.write_text("{}\n")

    status = main(["generate", "--model", "/nowhere", "--workload", str(path)])

    assert status == 1
    assert "line 1: needs exactly one of" in capsys.readouterr().err
