"""Every error the engine raises on purpose.

EngineError
├── ModelUnusable             the checkpoint or the settings cannot be run; one sentence says why
└── ProcessForked             the engine was loaded in another process

What is wrong with a single request is no exception: it is a `Refusal` in that request's completion.
"""


class EngineError(Exception):
    """Base of everything the engine raises on purpose."""


class ModelUnusable(EngineError):
    """The model cannot be loaded or run as asked.  The message is one sentence for a person."""


class ProcessForked(EngineError):
    """A process was forked from the engine's: the threads that compute are not in it."""
