"""The script for a machine with a GPU, as far as it can be tried without one."""

import json

import pytest
import torch

from bench.errors import OutputsDiffer
from bench.gpu.__main__ import main
from bench.gpu.attention_step import StepShape, random_step
from bench.gpu.kernel_checks import compare, require_alike
from bench.gpu.random_model import LLAMA_8B
from bench.gpu.roofline import Card, Load, request_seconds
from kernels import reference


def test_dry_run_checks_and_then_measures_all_of_it(capsys):
    code = main(["--dry-run"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [line["gpu"] for line in lines] == [
        "machine",
        "kernels agree",
        "engine agrees",
        "ceilings",
        *["kernel"] * 5,
        "engine",
    ]
    assert lines[2]["requests"] == lines[2]["equal_requests"] == 24
    assert lines[-1]["prefill_tokens_computed"] == lines[-1]["prefill_tokens_distinct"]


def test_what_the_time_does_not_allow_is_left_out_and_named(capsys):
    code = main(["--dry-run", "--budget-s", "0"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [line["gpu"] for line in lines] == [
        *("machine", "kernels agree", "engine agrees", "ceilings", "kernel", "engine")
    ]
    assert all(line["left_out"] == "the time was up" for line in lines)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, and it would be used")
def test_without_a_gpu_it_says_so(capsys):
    code = main([])

    assert code == 1
    assert "there is no CUDA device; try --dry-run" in capsys.readouterr().err


def test_an_op_that_errs_more_than_its_formula_is_refused():
    def rms_norm(x, weight, eps):
        return reference.rms_norm(x, weight, eps) * 1.001

    x = torch.randn(3, 64)

    with pytest.raises(OutputsDiffer, match=r"rms_norm in torch\.float32 errs by"):
        compare(rms_norm, reference.rms_norm, x, torch.ones(64), 1e-5)


def test_an_op_that_gives_nan_is_refused():
    def silu_mul(gate_up):
        return torch.full((len(gate_up), gate_up.shape[1] // 2), float("nan"))

    with pytest.raises(OutputsDiffer, match="silu_mul"):
        compare(silu_mul, reference.silu_mul, torch.randn(3, 64))


def test_two_ways_that_differ_by_more_than_rounding_are_refused():
    out = torch.randn(3, 64)

    require_alike("a tile", out.bfloat16(), out.bfloat16() * (1 + 2**-9))

    with pytest.raises(OutputsDiffer, match="a tile gives something else, by"):
        require_alike("a tile", out, out + 0.1)
    with pytest.raises(OutputsDiffer, match="by nan"):
        require_alike("a tile", out / 0 * 0, out)


def test_sequences_of_a_step_have_the_shared_blocks_and_no_other_in_common():
    shape = StepShape(decodes=(40, 33), chunks=((5, 50),), shared=32, kv_heads=1, head_dim=8)

    step = random_step(shape, torch.float32, torch.device("cpu"))

    tables = step.metadata.block_tables.tolist()
    owned = [
        set(table[2 : -(-length // 16)]) for table, length in zip(tables, (40, 33, 50), strict=True)
    ]
    assert tables[0][:2] == tables[1][:2] == tables[2][:2]
    assert len(set.union(*owned, set(tables[0][:2]))) == 2 + 1 + 1 + 2
    assert step.q.shape == (1 + 1 + 5, 32, 8)


def test_bytes_and_operations_of_a_step_are_those_counted_by_hand():
    shape = StepShape(decodes=(40,), chunks=((2, 50),), shared=32, heads=2, head_dim=8)

    assert shape.distinct_tokens() == 32 + 8 + 18
    assert shape.flops() == 4 * 2 * 8 * (40 + 49 + 50)


def test_roofline_of_the_reference_workload_is_the_published_arithmetic():
    # Llama-3.1-8B in bf16 on an H200: 10.5 ms a request, of which 7.33 are products.
    card = Card(gemm_flops=790e12, attention_flops=400e12, bytes_s=4.8e12)
    load = Load(shared=2000, own=200, output=200)

    seconds = request_seconds(LLAMA_8B, load, card)

    assert 200 / seconds == pytest.approx(19_020, rel=1e-3)
