"""Short ways to say what the tests of the engine say all the time."""

from pathlib import Path
from typing import Any

from engine import LLM, Completion, Engine, Request, SamplingParams


def request(request_id: str, prompt: Any, **params: Any) -> Request:
    salt, priority = params.pop("salt", ""), params.pop("priority", 0)
    return Request(
        request_id=request_id,
        prompt=prompt,
        params=SamplingParams(**params),
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
