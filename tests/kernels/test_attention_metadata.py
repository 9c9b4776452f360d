"""What the metadata of a step refuses, and what it makes only once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kernels import AttentionMetadata
from kernels.attention_metadata import HostStep


@pytest.fixture
def metadata():
    return AttentionMetadata(
        block_tables=torch.zeros(3, 2, dtype=torch.int32),
        seq_lens=torch.tensor([4, 9, 9], dtype=torch.int32),
        query_starts=torch.tensor([0, 1, 2, 6], dtype=torch.int32),
        num_decodes=2,
        max_query_len=4,
        max_seq_len=9,
    )


def test_counts_its_sequences(metadata):
    assert (metadata.num_seqs, metadata.num_decodes, metadata.num_prefills) == (3, 2, 1)


def test_makes_a_thing_once_per_step_and_key(metadata):
    first = metadata.once("plan", list)

    assert metadata.once("plan", list) is first
    assert metadata.once("another", list) is not first
    assert replace(metadata).once("plan", list) is not first


def test_asks_the_device_only_for_what_the_host_has_not(metadata):
    on_host = HostStep(*(array.copy() for array in metadata.on_host()))

    assert [array.tolist() for array in on_host] == [
        tensor.tolist()
        for tensor in (metadata.block_tables, metadata.seq_lens, metadata.query_starts)
    ]
    assert replace(metadata, host=on_host).on_host() is on_host


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_lens": torch.zeros(3, dtype=torch.int64)}, "must be int32"),
        ({"seq_lens": torch.zeros(2, dtype=torch.int32)}, "2 sequences need 2 block tables"),
        ({"query_starts": torch.zeros(3, dtype=torch.int32)}, "3 sequences need 4 query starts"),
        ({"host": HostStep(*[np.zeros(3, dtype=np.int32)] * 3)}, "what is on the host is not"),
        ({"num_decodes": 4}, "4 decodes among 3 sequences"),
    ],
)
def test_refuses_what_does_not_fit_together(metadata, change, message):
    with pytest.raises(ValueError, match=message):
        replace(metadata, **change)
