"""`python -m worker.inference`: one model, one engine, as much work as fits; one process per GPU.

Exits with 0 after a drain, with 1 if it cannot start, with 70 if its engine has failed.
"""

import logging
from functools import partial

from worker import process
from worker.inference.batch_engine import BatchEngine
from worker.inference.echo_engine import EchoEngine
from worker.inference.program import main
from worker.process import CannotStart
from worker.settings import EngineKind, ModelSettings

log = logging.getLogger("worker.inference")


def load(settings: ModelSettings) -> BatchEngine:
    """The engine that the settings name.  Raises CannotStart if its model is unusable."""
    if settings.engine is EngineKind.ECHO:
        return EchoEngine()
    from engine import ModelUnusable, load_engine  # torch, which the echo engine does without

    try:
        return load_engine(
            settings.path or settings.name,
            max_model_len=settings.max_model_len,
            kv_cache_bytes=settings.kv_cache_bytes,
            on_report=log.info,  # `gristmill up` shows it
        )
    except ModelUnusable as error:
        raise CannotStart(str(error)) from None


if __name__ == "__main__":
    process.run_or_explain(partial(main, load))
