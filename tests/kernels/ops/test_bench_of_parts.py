"""What the script for a GPU machine measures of Triton's kernels, as far as it runs interpreted."""

import pytest
import torch

from kernels.settings import INTERPRETED

if not INTERPRETED:
    pytest.skip("no Triton here: C computes, or PyTorch", allow_module_level=True)

from bench.gpu.attention_step import StepShape
from bench.gpu.parts_times import PartSizes, Trial, least_worth, parts_times
from bench.gpu.tile_times import TileTrial, tile_times

CPU = torch.device("cpu")


def test_parts_are_timed_beside_the_whole_and_a_rule_is_drawn_from_it():
    sizes = PartSizes(
        groups=(2, 5),
        shared=(32,),
        own=8,
        contexts=((1, 130),),
        pieces=(64,),
        heads=4,
        kv_heads=2,
        head_dim=16,
    )

    lines = list(parts_times(sizes, torch.float32, CPU))

    assert [(line.get("group"), line.get("decodes")) for line in lines] == [
        (2, None),
        (5, None),
        (None, 1),
        (None, None),
    ]
    assert lines[-1].keys() == {"worth_a_launch", "used"}


def test_tiles_of_every_size_give_the_same():
    shape = StepShape(decodes=(40, 40), shared=32, heads=4, kv_heads=2, head_dim=16)
    trial = TileTrial("decodes", shape, ({}, {"keys": 32}))

    lines = list(tile_times([trial], torch.float32, CPU))

    assert [line["tiles"] for line in lines] == [{}, {"keys": 32}]
    assert all(line["us"] > 0 for line in lines)


def test_the_rule_is_the_one_that_would_have_taken_the_least_time():
    slower, even, faster = Trial(10, 1.0, 2.0), Trial(20, 2.0, 2.5), Trial(30, 5.0, 1.0)

    assert least_worth([slower, even, faster]) == 30
    assert least_worth([slower, even]) is None
    assert least_worth([faster, Trial(5, 1.0, 0.9)]) == 5
