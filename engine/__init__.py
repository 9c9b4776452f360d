"""An inference engine for batches: tokens in, tokens out.  It knows no job, row, queue or URL."""

from engine.config import EngineSettings
from engine.engine import Engine
from engine.errors import EngineError, ModelUnusable
from engine.llm import LLM
from engine.loading import load_engine
from engine.requests import Completion, FinishReason, Message, Refusal, Request, SamplingParams
from engine.stats import EngineStats

__all__ = [
    "LLM",
    "Completion",
    "Engine",
    "EngineError",
    "EngineSettings",
    "EngineStats",
    "FinishReason",
    "Message",
    "ModelUnusable",
    "Refusal",
    "Request",
    "SamplingParams",
    "load_engine",
]
