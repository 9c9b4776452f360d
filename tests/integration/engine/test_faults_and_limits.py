"""Deadlines, memory that cannot be had, prefixes that are expected, and what the engine tells."""

import pytest
import torch

from engine import Request, SamplingParams
from tests.integration.engine.running import load, request, run_out

PROMPT = [10, 11, 12, 13]


class Clock:
    """Time that passes when a test says so."""

    now = 100.0

    def __call__(self):
        return self.now


def limited(request_id, deadline, *, max_tokens=20):
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    prompt = [*PROMPT, *request_id.encode()]
    return Request(request_id=request_id, prompt=prompt, params=params, deadline=deadline)


@pytest.mark.parametrize("max_num_seqs", [1, 4])
def test_a_request_ends_with_what_it_has_when_its_deadline_passes(tiny_model_dir, max_num_seqs):
    clock = Clock()
    engine = load(tiny_model_dir, max_num_seqs=max_num_seqs, clock=clock).engine
    engine.add([limited("patient", None), limited("hasty", 5.0), limited("later", 6.0)])
    for _ in range(3):
        assert engine.step() == []

    clock.now += 5.5
    [ended] = engine.step()

    begun = max_num_seqs > 1
    assert (ended.request_id, ended.finish_reason) == ("hasty", "abort")
    assert ended.error is not None
    assert ended.error.code == "deadline_exceeded"
    assert len(ended.token_ids) == 3 * begun
    assert bool(ended.text) == begun
    assert len(run_out(engine)["patient"].token_ids) == 20


def test_a_deadline_ends_nobody_else_who_has_the_same_id_later(tiny_model_dir):
    clock = Clock()
    engine = load(tiny_model_dir, clock=clock).engine
    engine.add([limited("twin", 5.0, max_tokens=1)])
    run_out(engine)
    engine.add([limited("twin", None)])

    clock.now += 10
    done = run_out(engine)

    assert len(done["twin"].token_ids) == 20


class CrampedRunner:
    """A device whose memory holds the activations of so many tokens and no more."""

    def __init__(self, runner, limit):
        self._runner = runner
        self._limit = limit

    def copy_blocks(self, copies):
        self._runner.copy_blocks(copies)

    def run(self, batch, draw):
        if sum(chunk.num_tokens for chunk in batch.chunks) > self._limit:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return self._runner.run(batch, draw)


def test_a_step_whose_memory_cannot_be_had_is_made_smaller_and_loses_nothing(
    tiny_model_dir, monkeypatch
):
    prompts = [[i, *range(20)] for i in range(6)]
    requests = [request(str(i), p, max_tokens=5, ignore_eos=True) for i, p in enumerate(prompts)]
    expected = [c.token_ids for c in load(tiny_model_dir).generate(requests)]
    llm = load(tiny_model_dir)
    monkeypatch.setattr(llm.engine, "_runner", CrampedRunner(llm.engine._runner, limit=10))

    found = [c.token_ids for c in llm.generate(requests)]

    assert found == expected
    stats = llm.engine.stats()
    assert stats.prefill_tokens_logical == 6 * 21
    assert stats.kv_blocks_used == 0


def test_a_step_that_can_be_no_smaller_fails_as_it_did(tiny_model_dir, monkeypatch):
    engine = load(tiny_model_dir).engine
    monkeypatch.setattr(engine, "_runner", CrampedRunner(engine._runner, limit=0))
    engine.add([request("1", PROMPT, max_tokens=2)])

    with pytest.raises(torch.OutOfMemoryError):
        run_out(engine)


@pytest.mark.parametrize(("expected", "cached"), [(1, 48), (0, 0)])
def test_an_expected_prefix_is_kept_through_strangers(tiny_model_dir, expected, cached):
    # A token of this model's K and V has 512 bytes: the pool has eight blocks of 16.
    llm = load(tiny_model_dir, kv_cache_bytes=8 * 16 * 512, max_model_len=128)
    prefix = list(range(100, 148))
    llm.generate([request("first", [*prefix, 1], max_tokens=2)])
    llm.engine.expect([[*prefix, 5, 5], [*prefix, 6, 6]], expected)
    for i in range(6):
        llm.generate([request(f"stranger {i}", [i] * 60, max_tokens=2)])

    [late] = llm.generate([request("late", [*prefix, 2], max_tokens=2)])

    assert late.cached_tokens == cached


def test_waits_for_first_tokens_and_times_between_tokens_are_told(tiny_model_dir):
    clock = Clock()
    engine = load(tiny_model_dir, clock=clock).engine
    engine.add([limited("one", None, max_tokens=3), limited("two", None, max_tokens=1)])
    while engine.has_work:
        clock.now += 2.0
        engine.step()

    stats = engine.stats()
    assert (stats.first_tokens, stats.first_token_seconds) == (2, 2.0 + 2.0)
    assert (stats.later_tokens, stats.later_token_seconds) == (2, 4.0)
