"""What a bell on a model's queue makes happen: the pump looks for shards to claim."""

import threading

from celery import Celery

from jobs.doorbell import INFERENCE_TASK


def register(program: Celery, wake: threading.Event) -> None:
    @program.task(name=INFERENCE_TASK, ignore_result=True)
    def claim_more() -> None:
        wake.set()
