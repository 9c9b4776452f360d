import pytest

from bench.floor import Shape, Work, common_length, operations

# 288 weights in layers: each of the two has 48 of attention and 96 of the MLP.
SHAPE = Shape(hidden=4, intermediate=8, layers=2, heads=2, kv_heads=1, head_dim=2, vocabulary=10)


def test_operations_of_one_request_are_those_counted_by_hand():
    found = operations(SHAPE, [Work([1, 2, 3], output_tokens=2)])

    assert found.linear == 2 * 288 * 4  # the last output token is fed to nobody
    assert found.head == 2 * 40 * 2
    assert found.attention == 32 * (1 + 2 + 3 + 4)
    assert found.total == 2304 + 160 + 320


def test_a_shared_prefix_counts_once_in_whatever_order_the_requests_come():
    works = [Work([1, 2, 3], 2), Work([7], 1), Work([1, 2, 4], 1)]

    found = operations(SHAPE, works)

    assert found.linear == 2 * 288 * (4 + 1 + 1)
    assert found.attention == 32 * ((1 + 2 + 3 + 4) + 1 + 3)
    assert found == operations(SHAPE, reversed(works))


def test_of_equal_prompts_each_still_computes_its_last_token():
    found = operations(SHAPE, [Work([1, 2], 1), Work([1, 2], 1)])

    assert found.linear == 2 * 288 * (2 + 1)
    assert found.attention == 32 * (1 + 2 + 2)


def test_seconds_are_operations_over_the_peak():
    found = operations(SHAPE, [Work([1, 2, 3], output_tokens=2)])

    assert found.seconds(gflops=2.784e-6) == pytest.approx(1.0)


def test_shape_is_read_from_a_config_with_and_without_the_newer_keys():
    old = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 384,
    }

    assert Shape.of(old).head_dim == 16
    assert Shape.of(old).kv_heads == 4
    assert Shape.of(old | {"head_dim": 32, "num_key_value_heads": 2}).head_dim == 32
    assert Shape.of(old | {"head_dim": 32, "num_key_value_heads": 2}).kv_heads == 2


@pytest.mark.parametrize(
    ("left", "right", "length"),
    [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 9, 3], 1), ([5], [6], 0)],
)
def test_common_length_ends_at_the_first_difference(left, right, length):
    assert common_length(left, right) == length
