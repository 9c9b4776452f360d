import pytest

from engine.forecast import ENOUGH, UNKNOWN, LengthForecast
from tests.unit.engine.scheduling import make_seq


def finished(num_output_tokens: int, max_tokens: int):
    seq = make_seq(0, [1], max_tokens)
    seq.token_ids += [2] * num_output_tokens
    return seq


def test_a_limit_that_was_named_is_believed_at_first():
    assert LengthForecast().total_tokens(make_seq(0, [1] * 10, 1000)) == 1010


def test_a_limit_that_nobody_named_is_not_expected_to_be_reached():
    seq = make_seq(0, [1] * 10, 100_000)
    seq.max_tokens_given = False

    assert LengthForecast().total_tokens(seq) == 10 + UNKNOWN


def test_lengths_seen_before_replace_the_limit():
    forecast = LengthForecast()
    for _ in range(ENOUGH):
        forecast.observe(finished(20, max_tokens=1000))

    assert forecast.total_tokens(make_seq(0, [1] * 10, 1000)) == 30


def test_completions_cut_off_at_their_limits_teach_nothing_about_longer_limits():
    forecast = LengthForecast()
    for _ in range(ENOUGH):
        forecast.observe(finished(20, max_tokens=20))

    assert forecast.total_tokens(make_seq(0, [1] * 10, 1000)) == 1010


def test_old_lengths_are_forgotten():
    forecast = LengthForecast()
    for length in [500] * 300 + [20] * 300:
        forecast.observe(finished(length, max_tokens=1000))

    assert forecast.total_tokens(make_seq(0, [1] * 10, 1000)) == 30


@pytest.mark.parametrize("num_output_tokens", [20, 25, 999])
def test_a_sequence_longer_than_expected_is_expected_to_go_on(num_output_tokens):
    forecast = LengthForecast()
    for _ in range(ENOUGH):
        forecast.observe(finished(20, max_tokens=1000))

    total = forecast.total_tokens(finished(num_output_tokens, max_tokens=1000))

    assert num_output_tokens + 1 < total <= 1001
