"""Short ways to say what the tests of the engine say all the time."""

from pathlib import Path
from typing import Any

from engine import LLM, Completion, Engine, Request, SamplingParams
from tests.fixtures.tiny_model import VOCAB_SIZE


def request(request_id: str, prompt: Any, **params: Any) -> Request:
    salt, priority = params.pop("salt", ""), params.pop("priority", 0)
    tools = params.pop("tools", ())
    return Request(
        request_id=request_id,
        prompt=prompt,
        params=SamplingParams(**params),
        tools=tools,
        salt=salt,
        priority=priority,
    )


def load(folder: Path | str, **settings: Any) -> LLM:
    settings.setdefault("device", "cpu")
    settings.setdefault("kv_cache_bytes", 2**20)
    return LLM(str(folder), on_report=lambda line: None, **settings)


def run_out(engine: Engine) -> dict[str, Completion]:
    """Step until nothing is left."""
    done = dict[str, Completion]()
    while engine.has_work:
        done |= {completion.request_id: completion for completion in engine.step()}
    return done


def teach_short_outputs(llm: LLM) -> None:
    """Let the forecast see so many short completions that it lets in too many requests."""
    every_token = tuple(range(VOCAB_SIZE))
    llm.generate(
        [
            request(f"short {i}", [1, 2, 3], max_tokens=50, stop_token_ids=every_token)
            for i in range(40)
        ]
    )
