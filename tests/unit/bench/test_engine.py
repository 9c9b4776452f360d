"""The engine's benchmark on a tiny model: its figures, and that it gives none for wrong tokens."""

import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from bench.engine import Options, against_floor, bench_engine, check_answers, check_precision
from bench.engine_run import make_task, run_once
from bench.errors import BenchFailed, OutputsDiffer
from bench.forced import ForcedAgreement, forced_agreement
from bench.reference import dense_model
from bench.workloads import open_workload
from cli.errors import CommandFailed
from cli.main import app
from engine.opening import open_model

PREFIX = list(range(20, 68))
ALL = Options(check=None, ceiling=False)


@pytest.fixture(scope="module")
def model(tiny_model_dir):
    return str(tiny_model_dir)


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """Five requests behind 48 shared tokens."""
    return write(
        tmp_path_factory.mktemp("workload") / "small.jsonl",
        [
            {"prompt_ids": [*PREFIX, 100 + number], "max_tokens": 4 + number, "ignore_eos": True}
            for number in range(5)
        ],
    )


@pytest.fixture(scope="module")
def checkpoint(model):
    return open_model(model)[0]


@pytest.fixture(scope="module")
def tokenizer(model):
    return open_model(model)[1]


@pytest.fixture(scope="module")
def task(workload, tokenizer):
    return make_task(open_workload(workload, tokenizer), tokenizer)


@pytest.fixture(scope="module")
def run(model, task):
    return run_once(model, task, precision="fp32")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def with_token(run, *, request, place, token):
    """The same run, but for one token."""
    completions = list(run.completions)
    token_ids = list(completions[request].token_ids)
    token_ids[place] = token
    completions[request] = replace(completions[request], token_ids=token_ids)
    return replace(run, completions=completions)


def test_figures_have_the_names_that_are_promised(model, workload):
    figures = bench_engine(model, workload, ALL, tell=lambda doing: None)

    assert figures["engine"] == "gristmill"
    assert figures["output_tokens_got"] == 4 + 5 + 6 + 7 + 8
    assert figures["prefill_tokens_logical"] == 5 * 49
    assert figures["prefill_tokens_computed"] == 48 + 5
    assert figures["reference"] == {
        "requests": 5,
        "equal_requests": 5,
        "tokens": 30,
        "equal_tokens": 30,
    }
    named = {"out_tok_s", "total_tok_s", "wall_s", "peak_rss_gib", "others_cpu_s"}
    assert named <= figures.keys()


def test_the_wall_is_set_against_the_floor_of_the_best_peak(checkpoint, task, run):
    # 53 prompt tokens with the prefix once, and 25 output tokens fed again.
    weights = 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 128)
    linear, head = 2 * weights * (53 + 25), 2 * 64 * 384 * 30
    contexts = [range(1, 50 + 4 - 1)] + [range(49, 50 + tokens - 1) for tokens in (5, 6, 7, 8)]
    attention = 4 * 2 * 4 * 16 * sum(map(sum, contexts))
    floor = (linear + head + attention) / 2e3

    figures = against_floor(checkpoint, task, replace(run, wall_s=3 * floor), [1e-6, 2e-6])

    assert figures == {"peak_gflops": 0.0, "floor_s": round(floor, 2), "wall_over_floor": 3.0}


def test_without_a_peak_there_is_no_floor(checkpoint, task, run):
    assert against_floor(checkpoint, task, run, []) == {}


def test_right_tokens_pass_the_gate(checkpoint, task, run):
    agreement = check_answers(dense_model(checkpoint), task, run, ALL)

    assert agreement.requests == agreement.equal_requests == 5


@pytest.mark.parametrize("place", [0, 3])
def test_one_wrong_token_is_refused(checkpoint, task, run, place):
    right = run.completions[2].token_ids[place]
    wrong = with_token(run, request=2, place=place, token=(right + 1) % 384)

    with pytest.raises(OutputsDiffer, match=f"request 3: output token {place} is"):
        check_answers(dense_model(checkpoint), task, wrong, ALL)


def test_what_a_narrower_precision_disagrees_about_is_told_instead(checkpoint, task, run):
    right = run.completions[2].token_ids[-1]
    wrong = with_token(run, request=2, place=-1, token=(right + 1) % 384)

    agreement = check_answers(dense_model(checkpoint), task, wrong, replace(ALL, precision="bf16"))

    assert (agreement.equal_requests, agreement.equal_tokens) == (4, 29)


def test_on_given_text_fp32_prefers_what_the_reference_prefers(checkpoint, task):
    reference = dense_model(checkpoint)

    found = forced_agreement(checkpoint, reference, task.prompts, precision="fp32")

    # 48 tokens that all begin with, and one of each request's own.
    assert found == ForcedAgreement(tokens=48 + 5, equal_tokens=48 + 5)


def test_a_precision_that_is_plainly_wrong_is_refused(model, checkpoint, task):
    other = dense_model(checkpoint)
    torch.nn.init.normal_(other.lm_head.weight, generator=torch.Generator().manual_seed(1))

    with pytest.raises(OutputsDiffer, match="bf16 prefers the reference's token at"):
        check_precision(checkpoint, other, task, replace(ALL, precision="bf16"))


def test_a_sample_is_spread_over_the_workload(checkpoint, task, run):
    wrong = with_token(run, request=2, place=0, token=run.completions[2].token_ids[0] ^ 1)
    two = replace(ALL, check=2)  # requests 1 and 3

    with pytest.raises(OutputsDiffer, match="request 3"):
        check_answers(dense_model(checkpoint), task, wrong, two)


@pytest.mark.parametrize("params", [{"temperature": 1.0}, {"top_k": 1, "temperature": 0.1}])
def test_a_workload_without_a_greedy_request_cannot_be_checked(model, tmp_path, params):
    rows = [{"prompt_ids": PREFIX, "max_tokens": 2} | params]
    file = write(tmp_path / "warm.jsonl", rows)

    with pytest.raises(BenchFailed, match="no request of the workload is greedy"):
        bench_engine(model, file, ALL, tell=lambda doing: None)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"prompt": "the quick brown fox"}, "the quick brown fox"),
        ({"messages": [{"role": "user", "content": "run"}]}, "<|user|>run<|end|><|assistant|>"),
    ],
)
def test_a_prompt_in_words_is_counted_and_checked_in_tokens(model, tokenizer, tmp_path, row, text):
    file = write(tmp_path / "words.jsonl", [row | {"max_tokens": 3, "ignore_eos": True}])
    [tokens] = tokenizer.encode([text], add_special_tokens=False)

    figures = bench_engine(model, file, ALL, tell=lambda doing: None)

    assert figures["prompt_tokens"] == len(tokens)
    assert figures["reference"]["equal_tokens"] == 3


def test_a_request_that_the_model_cannot_run_ends_it(model, tmp_path):
    file = write(tmp_path / "long.jsonl", [{"prompt_ids": [1] * 1000, "max_tokens": 2}])

    with pytest.raises(OutputsDiffer, match="request 1 failed"):
        bench_engine(model, file, ALL, tell=lambda doing: None)


def test_the_command_prints_one_line_of_json(model, workload):
    arguments = ["bench", "engine", "--model", model, "--workload", workload]

    result = CliRunner().invoke(app, [*arguments, "--no-ceiling", "--json"])

    [line] = result.stdout.splitlines()
    assert json.loads(line)["workload"] == "small"


def test_the_command_says_in_a_sentence_why_there_are_no_figures(model):
    arguments = ["bench", "engine", "--model", model, "--workload", "W9"]

    result = CliRunner().invoke(app, arguments)

    assert isinstance(result.exception, CommandFailed)
    assert str(result.exception).startswith("no figures: W9 is no file")
    assert result.stdout == ""
