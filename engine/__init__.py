"""An inference engine for batches: tokens in, tokens out.  It knows no job, row, queue or URL.

What needs torch is imported when it is asked for: requests, statistics and the scheduler are of use
to programs that never load a model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, ModelUnusable, ProcessForked
from engine.requests import (
    Alternative,
    Completion,
    FinishReason,
    Grammar,
    Message,
    Refusal,
    Request,
    SamplingParams,
    TokenAlternatives,
    Tool,
)
from engine.stats import EngineStats

if TYPE_CHECKING:
    from engine.config import EngineSettings
    from engine.engine import Engine
    from engine.llm import LLM
    from engine.loading import load_engine

__all__ = [
    "LLM",
    "Alternative",
    "Completion",
    "Engine",
    "EngineError",
    "EngineSettings",
    "EngineStats",
    "FinishReason",
    "Grammar",
    "Message",
    "ModelUnusable",
    "ProcessForked",
    "Refusal",
    "Request",
    "SamplingParams",
    "TokenAlternatives",
    "Tool",
    "load_engine",
]

_WITH_TORCH = {
    "LLM": "engine.llm",
    "Engine": "engine.engine",
    "EngineSettings": "engine.config",
    "load_engine": "engine.loading",
}


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WITH_TORCH[name]), name)
