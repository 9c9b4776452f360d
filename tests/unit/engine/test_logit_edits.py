"""Penalties, biases, bans and masks: each by hand, and all of them in any company."""

import numpy as np
import pytest
import torch

from engine.logit_edits import Bias, Edits, Penalties, apply_edits
from engine.sampling import Draw, draw_tokens, sample
from engine.token_history import TokenHistory

LOGITS = torch.tensor([2.0, -1.0, 0.5, 3.0])


def penalties(token_ids: list[int], start: int, **values: float) -> Penalties:
    history = TokenHistory(start=start, counts_prompt="repetition" in values)
    history.catch_up(token_ids)
    given = {"repetition": 1.0, "presence": 0.0, "frequency": 0.0} | values
    return Penalties(history.ids, history.said, **given)


def edited(edits: Edits) -> list[float]:
    logits = LOGITS.repeat(2, 1)
    apply_edits(logits, {1: edits})
    assert logits[0].equal(LOGITS), "nobody asked to change this row"
    return [round(value, 4) for value in logits[1].tolist()]


def bias(**values: float) -> Bias:
    ids = np.array([int(name[1:]) for name in values])
    return Bias(ids, np.array(list(values.values()), dtype=np.float32))


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        # The prompt is 0 1, the completion 3 3: repetition looks at both, the others at the latter.
        (Edits(penalties([0, 1, 3, 3], 2, repetition=2.0)), [1.0, -2.0, 0.5, 1.5]),
        (Edits(penalties([0, 1, 3, 3], 2, presence=0.5)), [2.0, -1.0, 0.5, 2.5]),
        (Edits(penalties([0, 1, 3, 3], 2, frequency=0.5)), [2.0, -1.0, 0.5, 2.0]),
        (Edits(penalties([0, 1], 2, presence=0.5)), [2.0, -1.0, 0.5, 3.0]),
        (Edits(bias=bias(t1=5.0, t3=-100.0)), [2.0, 4.0, 0.5, -97.0]),
        (Edits(banned=np.array([3])), [2.0, -1.0, 0.5, -torch.inf]),
        (Edits(allowed=bytes([0b0110])), [-torch.inf, -1.0, 0.5, -torch.inf]),
        (Edits(bias=bias(t0=9.0), allowed=bytes([0b0010])), [-torch.inf, -1.0, *[-torch.inf] * 2]),
    ],
)
def test_an_edit_changes_what_it_names(edits, expected):
    assert edited(edits) == expected


def test_a_bias_beyond_fp16_is_as_far_as_fp16_goes_and_what_was_infinite_stays_so():
    logits = torch.tensor([[2.0, torch.inf, 0.5, 3.0]], dtype=torch.float16)

    apply_edits(logits, {0: Edits(bias=bias(t0=1e6, t1=-100.0))})

    assert logits[0].tolist() == [65504.0, torch.inf, 0.5, 3.0]


@pytest.mark.parametrize("seed", range(20))
def test_a_history_counts_like_a_plain_count_however_it_is_read(seed):
    rng = np.random.default_rng(seed)
    token_ids = rng.integers(0, 400, size=300).tolist()
    start = int(rng.integers(0, 300))
    history = TokenHistory(start=start, counts_prompt=bool(seed % 2))

    for end in sorted(rng.integers(start, 301, size=5).tolist()):
        history.catch_up(token_ids[:end])
        seen = token_ids[: end if seed % 2 else 0] or token_ids[start:end]
        expected = {token: token_ids[start:end].count(token) for token in seen}

        assert dict(zip(history.ids.tolist(), history.said.tolist(), strict=True)) == expected


def random_edits(rng: np.random.Generator, vocab_size: int) -> Edits | None:
    def tokens() -> np.ndarray:
        return rng.choice(vocab_size, size=rng.integers(1, 20), replace=False)

    biased = tokens()
    said = rng.integers(0, vocab_size, size=rng.integers(1, 40)).tolist()
    allowed = rng.integers(0, 256, size=vocab_size // 8, dtype=np.uint8).tobytes()
    options: list[Edits | None] = [
        None,
        Edits(penalties(said, len(said) // 2, repetition=1.3, presence=0.2, frequency=0.1)),
        Edits(bias=Bias(biased, rng.normal(size=len(biased)).astype(np.float32))),
        Edits(banned=tokens()),
        Edits(penalties(said, 0, frequency=0.4), allowed=allowed),
    ]
    return options[rng.integers(len(options))]


@pytest.mark.parametrize("seed", range(20))
def test_what_shares_the_step_changes_no_row(seed):
    rng = np.random.default_rng(seed)
    logits = torch.randn(12, 256, generator=torch.Generator().manual_seed(seed))
    draws = [
        Draw(
            temperature=float(rng.choice([0.0, 1.0])), top_p=1.0, top_k=0, seed=row, position=row,
            min_p=float(rng.choice([0.0, 0.2])), logprobs=int(rng.integers(3)),
            edits=random_edits(rng, 256),
        )
        for row in range(12)
    ]  # fmt: skip

    together = draw_tokens(logits.clone(), draws)

    alone = [draw_tokens(logits[row : row + 1].clone(), [draws[row]]) for row in range(12)]
    assert together.tokens == [each.tokens[0] for each in alone]
    assert list(together.logprobs.values()) == [each.logprobs[0] for each in alone]


def test_a_mask_leaves_the_proportions_of_what_it_allows():
    draws = [
        Draw(1.0, 1.0, 0, seed, 0, edits=Edits(allowed=bytes([0b0101]))) for seed in range(20_000)
    ]

    tokens = sample(LOGITS.expand(len(draws), -1).clone(), draws)

    found = tokens.bincount(minlength=4) / len(draws)
    odds = torch.softmax(LOGITS[[0, 2]], dim=-1)
    assert torch.allclose(found, torch.tensor([odds[0], 0, odds[1], 0]), atol=0.015)


def test_min_p_drops_what_is_less_likely_than_its_share_of_the_best():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    draws = [Draw(1.0, 1.0, 0, seed, 0, min_p=0.5) for seed in range(20_000)]

    tokens = sample(logits.expand(len(draws), -1), draws)

    found = tokens.bincount(minlength=4) / len(draws)
    assert torch.allclose(found, torch.tensor([0.625, 0.375, 0, 0]), atol=0.015)


def test_logprobs_are_the_models_own_whatever_is_done_to_the_row():
    edits = Edits(bias=bias(t1=100.0))
    draws = [Draw(0.7, 0.9, 0, 1, 0, logprobs=2, edits=edits), Draw(0.0, 1.0, 0, 1, 0)]

    drawn = draw_tokens(LOGITS.repeat(2, 1), draws)

    own = torch.log_softmax(LOGITS, dim=-1)
    assert drawn.tokens == [1, 3]
    assert list(drawn.logprobs) == [0]
    assert drawn.logprobs[0].logprob == pytest.approx(own[1].item())
    assert [token for token, _ in drawn.logprobs[0].top] == [3, 0]
