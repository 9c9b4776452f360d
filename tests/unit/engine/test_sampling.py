import math

import pytest
import torch

from engine.narrowing import Limits, narrow
from engine.sampling import Draw, best_tokens, draw_tokens, sample, uniform


def draw(seed: int = 0, position: int = 0, **values) -> Draw:
    return Draw(
        **{"temperature": 1.0, "top_p": 1.0, "top_k": 0} | values, seed=seed, position=position
    )


def shares(logits: torch.Tensor, num_draws: int = 20_000, **values) -> torch.Tensor:
    """How often each token is drawn, by as many seeds."""
    rows = logits.expand(num_draws, -1)
    tokens = sample(rows, [draw(seed, **values) for seed in range(num_draws)])
    return tokens.bincount(minlength=logits.shape[-1]) / num_draws


LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 1.5])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_their_probability(temperature):
    expected = torch.softmax(LOGITS / temperature, dim=-1)

    assert torch.allclose(shares(LOGITS, temperature=temperature), expected, atol=0.015)


def test_top_k_keeps_the_best_and_their_proportions():
    expected = torch.softmax(LOGITS.where(LOGITS >= 1.5, -torch.inf), dim=-1)

    assert torch.allclose(shares(LOGITS, top_k=2), expected, atol=0.015)


def test_top_p_keeps_the_fewest_tokens_that_reach_it():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])

    found = shares(probabilities.log(), top_p=0.7)

    assert torch.allclose(found, torch.tensor([0.625, 0.375, 0, 0]), atol=0.015)


def test_top_p_is_taken_of_what_top_k_leaves():
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])

    found = shares(probabilities.log(), top_k=2, top_p=0.5)

    assert found.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("temperature", [0.0, 1e-9])
def test_no_temperature_is_greedy(temperature):
    logits = torch.randn(8, 100, generator=torch.Generator().manual_seed(0))

    tokens = sample(logits, [draw(seed, temperature=temperature) for seed in range(8)])

    assert torch.equal(tokens, logits.argmax(dim=-1))


@pytest.mark.parametrize("vocab_size", [128, 1024, 1000])
def test_the_best_token_is_the_first_of_those_that_are_best(vocab_size):
    logits = torch.randn(40, vocab_size, generator=torch.Generator().manual_seed(0))
    logits = logits.round()  # many are equal

    tokens = best_tokens(logits)

    first = [row.tolist().index(row.max().item()) for row in logits]
    assert tokens.tolist() == first


def test_what_shares_the_step_changes_no_token():
    logits = torch.randn(16, 500, generator=torch.Generator().manual_seed(0))
    kinds: list[dict[str, float]] = [{}, {"top_k": 5}, {"top_p": 0.8}, {"temperature": 0.0}]
    draws = [draw(seed, seed + 7, **kinds[seed % 4]) for seed in range(16)]

    together = sample(logits, draws).tolist()

    alone = [sample(logits[i : i + 1], [draws[i]]).item() for i in range(16)]
    backwards = sample(logits.flip(0), draws[::-1]).flip(0).tolist()
    assert together == alone == backwards


def test_uniform_numbers_are_uniform_and_differ_by_seed_and_position():
    draws = [draw(seed, position) for seed in range(-50, 50) for position in range(100)]

    numbers = uniform(draws, torch.device("cpu"))

    assert len(set(numbers.tolist())) == len(draws)
    assert 0 <= numbers.min() < 0.001
    assert 0.999 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    neighbours = torch.corrcoef(numbers.view(100, 100))
    assert neighbours.fill_diagonal_(0).abs().max() < 0.5


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64 - 1, 10**30])
def test_any_integer_is_a_seed(seed):
    assert 0 <= sample(LOGITS[None], [draw(seed)]).item() < len(LOGITS)


def test_a_top_k_beyond_the_vocabulary_keeps_all_of_it():
    assert torch.equal(shares(LOGITS, 500, top_k=10**12), shares(LOGITS, 500))


def narrowed_by_sorting(weights, top_k, top_p):
    """The plainest way: rank every token, keep the best ones."""
    kept = torch.zeros_like(weights)
    for row, (values, k, p) in enumerate(zip(weights.tolist(), top_k, top_p, strict=True)):
        best = sorted(values, reverse=True)[: k or len(values)]
        reached, least, wanted = 0.0, best[0], p * math.fsum(best)
        for value in best:
            if reached >= wanted or value == 0:
                break
            reached, least = reached + value, value
        kept[row] = weights[row] * (weights[row] >= least)
    return kept


@pytest.mark.parametrize("vocab_size", [3, 64, 1500, 20_000])
@pytest.mark.parametrize("spread", [0.01, 1.0, 8.0])
def test_narrowing_without_a_sort_keeps_what_a_sort_keeps(vocab_size, spread):
    random = torch.Generator().manual_seed(vocab_size)
    weights = torch.softmax(spread * torch.randn(12, vocab_size, generator=random), dim=-1)
    weights[3:6] = weights[3:6].round(decimals=3)  # ties
    weights[5, 0] = 0.5
    top_k = [0, 1, 5, 70, 0, 2, 1100, 0, 17_000, 0, 10**9, 3]
    top_p = [0.5, 1.0, 0.3, 0.9, 0.99, 0.7, 0.999, 1e-9, 0.8, 0.2, 0.6, 1.0]

    min_p = torch.tensor([0.0] * 7 + [0.2, 0.01, 0.5, 0.0, 0.001])
    likely = weights.where(weights >= min_p[:, None] * weights.amax(dim=-1, keepdim=True), 0)
    limits = Limits(torch.tensor(top_k), torch.tensor(top_p).double(), min_p)

    found = torch.zeros(12, vocab_size, dtype=torch.float64)
    for kept in narrow(weights, limits, weights.double().sum(dim=-1)):
        assert (kept.ids.diff(dim=-1) > 0).all(), "in the vocabulary's order"
        found[kept.rows] = found[kept.rows].scatter(1, kept.ids, kept.weights)

    assert torch.equal(found, narrowed_by_sorting(likely, top_k, limits.top_p.tolist()).double())


def test_a_token_without_weight_is_never_drawn():
    logits = torch.full((2000, 700), -torch.inf)
    logits[:, [3, 255, 256, 699]] = torch.tensor([-9.0, 0.0, 0.1, -9.0])

    tokens = sample(logits, [draw(seed) for seed in range(2000)])

    assert set(tokens.tolist()) <= {3, 255, 256, 699}
    assert {255, 256} <= set(tokens.tolist())


KINDS: list[dict[str, float]] = [
    {"temperature": 0.0},
    {},
    {"top_k": 5},
    {"top_p": 0.8, "min_p": 0.01},
    {"temperature": 0.0, "logprobs": 2},
]


@pytest.mark.parametrize("vocab_size", [512, 500])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_one_logit_that_is_no_number_breaks_its_row_and_no_other(kind, value, vocab_size):
    logits = torch.randn(15, vocab_size, generator=torch.Generator().manual_seed(0))
    draws = [draw(seed, **(kind if seed == 7 else KINDS[seed % 5])) for seed in range(15)]
    logits[3, 5:] = -torch.inf
    whole = draw_tokens(logits.clone(), draws)
    assert not whole.broken

    logits[7, 311] = value
    drawn = draw_tokens(logits, draws)

    assert drawn.broken == [7]
    assert 0 <= drawn.tokens.pop(7) < vocab_size
    del whole.tokens[7]
    assert drawn.tokens == whole.tokens
    assert {**drawn.logprobs, 7: None} == {**whole.logprobs, 7: None}
