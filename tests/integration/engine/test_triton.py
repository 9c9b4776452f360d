"""The engine through the kernels that a GPU runs, here under Triton's interpreter."""

import json
import os
import subprocess
import sys

import pytest

from tests.integration.engine.running import load, request

pytest.importorskip("triton", "3.7", reason="with NumPy 2.3 no older interpreter can loop")


def test_the_triton_kernels_give_the_same_tokens_as_the_cpu_path(tiny_model_dir, tmp_path):
    prefix = list(range(10, 50))
    prompts = [[*prefix, 100 + i, 200 + i] for i in range(3)]
    params = {"max_tokens": 4, "ignore_eos": True}
    workload = tmp_path / "workload.jsonl"
    workload.write_text("".join(json.dumps({"prompt_ids": p, **params}) + "\n" for p in prompts))
    command = [sys.executable, "-m", "engine", "generate", "--model", str(tiny_model_dir)]
    command += ["--workload", str(workload), "--device", "cpu"]

    # In a process of its own: the interpreter is chosen when the kernels are imported.
    ran = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line)["token_ids"] for line in ran.stdout.splitlines()]
    on_cpu = load(tiny_model_dir).generate(
        [request(str(i), prompt, **params) for i, prompt in enumerate(prompts)]
    )
    assert found == [completion.token_ids for completion in on_cpu]
